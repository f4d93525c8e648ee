"""Converts a response body to text for a model: HTML to Markdown, PDF to its text, text unchanged."""

import codecs
import re
from typing import Any

MOST_PAGES = 100
"""Pages of a PDF."""
MOST_HTML = 5 << 20
SLOW_CHARSETS = ("punycode", "idna", "unicode-escape", "raw-unicode-escape")
"""Python accepts these as charsets, but no page uses them and some take quadratic time."""
PDF_SECONDS = 15.0
TEXTUAL = re.compile(
    r"text/|application/(?:[\w.+-]+\+)?(?:json|xml|yaml|toml|javascript|ecmascript|x-ndjson|x-sh|x-yaml|sql|graphql)\b"
)
LEFT_OUT = ("script", "style", "noscript", "template", "iframe", "object", "svg", "head", "form", "button")


def is_pdf(body: bytes, kind: str) -> bool:
    return kind.partition(";")[0].strip().lower() == "application/pdf" or body.startswith(b"%PDF-")


class Unreadable(Exception):
    """The body cannot be shown as text; the message says why."""


def text_of(body: bytes, kind: str) -> str:
    """The text of a body; raises Unreadable. Hostile input can be slow, so callers run this in a thread."""
    media = kind.partition(";")[0].strip().lower()
    if media in ("text/html", "application/xhtml+xml") or (not media and body[:1024].lstrip()[:1] == b"<"):
        return _markdown(decode_body(body[:MOST_HTML], kind))
    if media and not TEXTUAL.match(media):
        raise Unreadable(f"it is {media} ({len(body)} bytes), which has no text to read")
    if b"\0" in body[:8192] and "utf-16" not in kind.lower():
        raise Unreadable(f"it is binary ({len(body)} bytes), despite its type")
    return decode_body(body, kind)


def decode_body(body: bytes, kind: str) -> str:
    named = re.search(r"charset=\"?([A-Za-z0-9_.:-]+)", kind) or re.search(
        r"<meta[^>]{0,200}charset=[\"']?([A-Za-z0-9_.:-]+)", body[:2048].decode("latin-1"), re.IGNORECASE
    )
    try:
        known = codecs.lookup(named[1]).name if named else "utf-8"
        return body.decode("utf-8" if known in SLOW_CHARSETS else known, "replace")
    except (LookupError, ValueError, AssertionError):  # the charset does not exist or is not a text encoding
        return body.decode("utf-8", "replace")


def _markdown(html: str) -> str:
    """The article of a page, or all of its text if no article is found."""
    article = _article(html)
    if len(article) >= 200:
        return article
    whole = _full_text(html)
    return article if article and len(whole) < 2 * len(article) else whole


def _article(html: str) -> str:
    from trafilatura import extract

    article = extract(
        html,
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_comments=False,
        favor_recall=True,
    )
    return (article or "").strip()


def _full_text(html: str) -> str:
    from markdownify import markdownify

    for tag in LEFT_OUT:
        html = re.sub(rf"<{tag}\b[^<>]*>.*?(?:</{tag}\s*>|\Z)", "", html, flags=re.IGNORECASE | re.DOTALL)
    try:
        # Python's own parser takes quadratic time for unclosed tags.
        text = markdownify(html, heading_style="ATX", bs4_options="lxml")
    except RecursionError:  # too deeply nested: use the words alone
        text = re.sub(r"<[^<>]{0,2000}>", " ", html)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


async def pdf_text(body: bytes) -> str:
    """The text of a PDF, parsed like in Read by a separate process with limits. Raises Unreadable."""
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
        reply: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        reply = {"error": "cannot be read as a PDF: the parser failed"}
    if error := reply.get("error"):
        raise Unreadable(f"the file {error}")
    pages = [f"[page {number}]\n{text}" for number, text in reply["texts"] if text]
    if not pages:
        raise Unreadable(f"it is a PDF of {reply['total']} pages without any text, perhaps scanned")
    return "\n\n".join(pages)
