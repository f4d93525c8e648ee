"""The HTML shell of reports: whatever stands in it is text."""

import subprocess
import sys
from html.parser import HTMLParser

from adderclaw.agent.view.escaping import SHOWN
from adderclaw.agent.view.items import Call, Notice, Words
from adderclaw.agent.view.page import Block, Heading, Output, Picture, Table, page

HOSTILE = "</pre></title><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x1b[31m\u202e"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.sources: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href") or name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_nothing_in_a_page_is_markup_of_others() -> None:
    blocks: list[Block] = [
        Heading(HOSTILE, 2, "bad", HOSTILE),
        Table((HOSTILE,), ((HOSTILE,),)),
        Output(HOSTILE, HOSTILE + "x" * SHOWN),
        Picture(HOSTILE, "image/png", b"\x89PNG"),
        Picture("a program", "image/svg+xml", b"<svg onload=alert(1)>"),
        Words("k", "assistant", HOSTILE),
        Notice("k", "warning", HOSTILE),
        Call("k", "s", HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, "denied", HOSTILE, HOSTILE, output=HOSTILE),
    ]
    made = page(HOSTILE, blocks)
    tags = Tags()
    tags.feed(made)
    assert "script" not in tags.seen
    assert tags.sources == ["data:image/png;base64,iVBORw=="], "one picture, and nothing that is fetched or run"
    assert tags.seen.count("img") == 1
    assert tags.text.count("alert(1)") >= 10
    assert not {"\x1b", "\u202e"} & {*made}
    assert "characters left out" in tags.text
    assert "image/svg+xml is not shown" in tags.text
    assert "default-src 'none'" in made


def test_templates_are_loaded_with_the_first_page() -> None:
    modules = "adderclaw.terminal.export, adderclaw.flows.spec.report, adderclaw.server.app as app"
    code = (
        f"import sys, {modules}; app.all_endpoints(); print([m for m in ('jinja2', 'markupsafe') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
