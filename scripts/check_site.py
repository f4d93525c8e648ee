"""Looks at a built site: every link and anchor leads somewhere in it, and nothing of it is loaded from elsewhere.

.venv/bin/python scripts/check_site.py build/docs

Links to other sites are not followed: they are collected in external-links.txt of that folder.
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""What a browser fetches by itself."""
NOT_FETCHED = {"canonical", "index", "search", "next", "prev", "author"}


class Found(NamedTuple):
    ids: set[str]
    loads: list[str]
    links: list[str]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found = Found(set(), [], [])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.found.ids.update(value for name in ("id", "name") if (value := values.get(name)))
        address = values.get(LOADS.get(tag, ""), "")
        if address and values.get("rel") not in NOT_FETCHED:
            self.found.loads.append(address)
        if tag == "a" and "href" in values:
            self.found.links.append(values["href"])


def read(text: str) -> Found:
    page = _Page()
    page.feed(text)
    return page.found


def problems(site: Path) -> Iterator[str]:
    """Each link that leads nowhere and each thing that would be fetched from another place."""
    pages = {path: read(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, found in pages.items():
        name = path.relative_to(site)
        yield from (f"{name}: loads {one} from elsewhere" for one in found.loads if _elsewhere(one))
        for link in {*found.loads, *found.links}:
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{name}: {link} leads to no file"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                yield f"{name}: {link} leads to no heading"
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        if "@import url(http" in text or "url(http" in text or "url(//" in text:
            yield f"{style.relative_to(site)}: loads something from elsewhere"


def _elsewhere(address: str) -> bool:
    return urlsplit(address).scheme in ("http", "https") or address.startswith("//")


def external(site: Path) -> list[str]:
    """Links to other sites, each once."""
    pages = (read(path.read_text(encoding="utf-8")) for path in site.rglob("*.html"))
    return sorted({link for found in pages for link in found.links if _elsewhere(link)})


def main() -> int:
    site = Path(sys.argv[1]).resolve()
    wrong = sorted(problems(site))
    for line in wrong:
        print(line, file=sys.stderr)
    links = external(site)
    (site / "external-links.txt").write_text("".join(f"{one}\n" for one in links), encoding="utf-8")
    if not wrong:
        pages = sum(1 for _ in site.rglob("*.html"))
        print(f"docs: {pages} pages in {sys.argv[1]}, every link leads somewhere; {len(links)} links to other sites")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
