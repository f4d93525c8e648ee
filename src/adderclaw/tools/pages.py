"""A body that a server sent, as text that a model can read: HTML as Markdown, PDF as its words, text as it is."""

import codecs
import re
from typing import Any

MOST_PAGES = 100
"""Pages of a PDF."""
MOST_HTML = 5 << 20
NOT_OF_PAGES = ("punycode", "idna", "unicode-escape", "raw-unicode-escape")
"""Python reads these as charsets, too: some take quadratic time."""
PDF_SECONDS = 15.0
TEXTUAL = re.compile(
    r"text/|application/(?:[\w.+-]+\+)?(?:json|xml|yaml|toml|javascript|ecmascript|x-ndjson|x-sh|x-yaml|sql|graphql)\b"
)
LEFT_OUT = ("script", "style", "noscript", "template", "iframe", "object", "svg", "head", "form", "button")


def is_pdf(body: bytes, kind: str) -> bool:
    return kind.partition(";")[0].strip().lower() == "application/pdf" or body.startswith(b"%PDF-")


class Unreadable(Exception):
    """Why there is no text in it."""


def text_of(body: bytes, kind: str) -> str:
    """Raises Unreadable. Hostile input costs time, so it runs in a thread."""
    media = kind.partition(";")[0].strip().lower()
    if media in ("text/html", "application/xhtml+xml") or (not media and body[:1024].lstrip()[:1] == b"<"):
        return _markdown(decoded(body[:MOST_HTML], kind))
    if media and not TEXTUAL.match(media):
        raise Unreadable(f"it is {media} ({len(body)} bytes), in which there is no text to read")
    if b"\0" in body[:8192] and "utf-16" not in kind.lower():
        raise Unreadable(f"it is binary ({len(body)} bytes), whatever its type says")
    return decoded(body, kind)


def decoded(body: bytes, kind: str) -> str:
    named = re.search(r"charset=\"?([A-Za-z0-9_.:-]+)", kind) or re.search(
        r"<meta[^>]{0,200}charset=[\"']?([A-Za-z0-9_.:-]+)", body[:2048].decode("latin-1"), re.IGNORECASE
    )
    try:
        known = codecs.lookup(named[1]).name if named else "utf-8"
        return body.decode("utf-8" if known in NOT_OF_PAGES else known, "replace")
    except (LookupError, ValueError, AssertionError):  # a charset that does not exist, or is no text encoding
        return body.decode("utf-8", "replace")


def _markdown(html: str) -> str:
    """The article of a page; where none is found in it, all of its text."""
    found = _article(html)
    if len(found) >= 200:
        return found
    whole = _everything(html)
    return found if found and len(whole) < 2 * len(found) else whole


def _article(html: str) -> str:
    from trafilatura import extract

    found = extract(
        html,
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_comments=False,
        favor_recall=True,
    )
    return (found or "").strip()


def _everything(html: str) -> str:
    from markdownify import markdownify

    for tag in LEFT_OUT:
        html = re.sub(rf"<{tag}\b[^<>]*>.*?(?:</{tag}\s*>|\Z)", "", html, flags=re.IGNORECASE | re.DOTALL)
    try:
        # Python's own parser takes quadratic time for tags that do not end.
        text = markdownify(html, heading_style="ATX", bs4_options="lxml")
    except RecursionError:  # thousands of elements in one another: the words alone
        text = re.sub(r"<[^<>]{0,2000}>", " ", html)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


async def pdf_text(body: bytes) -> str:
    """The words of a PDF, by the parser of Read: a process of its own with limits. Raises Unreadable."""
    import json
    import os
    import sys

    from adderclaw.sandbox import process
    from adderclaw.sandbox.memory import memory_file
    from adderclaw.sandbox.programs import DEFAULT_PATH
    from adderclaw.tools.pdf import OUTPUT_BYTES, PROGRAM

    fd, most = memory_file(body), str(MOST_PAGES)
    try:
        done = await process.run(
            [sys.executable, "-I", PROGRAM, str(fd), most, most, ""],
            cwd="/",
            env=process.environment({"PATH": DEFAULT_PATH}, workspace_roots=()),
            timeout=PDF_SECONDS,
            max_bytes=OUTPUT_BYTES,
            pass_fds=(fd,),
        )
    finally:
        os.close(fd)
    try:
        said: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = {"error": "cannot be read as a PDF: its parser gave up"}
    if error := said.get("error"):
        raise Unreadable(f"the file {error}")
    pages = [f"[page {number}]\n{text}" for number, text in said["texts"] if text]
    if not pages:
        raise Unreadable(f"it is a PDF of {said['total']} pages without any text, perhaps scanned")
    return "\n\n".join(pages)
