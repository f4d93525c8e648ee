"""A separate program that prints the text of PDF pages as JSON, because a file can keep the parser busy for ever.

`python -I pdf_pages.py DESCRIPTOR WHOLE MOST [PAGES]`. Pages without any text are returned as a small PDF.
"""

import base64
import io
import json
import os
import resource
import sys
from typing import Any

MEMORY = 2 << 30
SECONDS = 60
SCANNED_BYTES = 3_750_000
PAGE_CHARS = 100_000


def select_pages(pages: str, total: int, whole: int, most: int) -> list[int] | str:
    """The requested page numbers, from 1, or what is wrong with the request."""
    if not pages.strip():
        fix = f"name at most {most} of them: pages = '1-{min(most, total)}'"
        return list(range(1, total + 1)) if total <= whole else f"has {total} pages; {fix}"
    numbers: dict[int, None] = {}
    for part in pages.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or not (last.isdecimal() or (dash and not last) or not dash):
            return f"has {total} pages; {pages!r} selects none of them. Write '3', '1-5' or '2,7-9'"
        begin, end = int(first), int(last) if last else (total if dash else int(first))
        if not 1 <= begin <= end or begin > total:
            return f"has {total} pages; {part.strip()!r} is not one of them"
        numbers |= dict.fromkeys(range(begin, min(end, total, begin + most) + 1))
    return list(numbers) if len(numbers) <= most else f"has {total} pages; at most {most} can be read at once"


def read_pages(fd: int, whole: int, most: int, pages: str) -> dict[str, Any]:
    # with -I the interpreter does not find packages that are unpacked next to this one
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from pypdf import PdfReader

    reader = PdfReader(os.fdopen(fd, "rb", closefd=False))
    if reader.is_encrypted and not reader.decrypt(""):
        return {"error": "is encrypted, and its password is not known"}
    total = len(reader.pages)
    numbers = select_pages(pages, total, whole, most)
    if isinstance(numbers, str):
        return {"error": numbers}
    texts = [(number, reader.pages[number - 1].extract_text()[:PAGE_CHARS].strip()) for number in numbers]
    blank = [number for number, text in texts if not text]
    return {"total": total, "texts": texts, "blank": blank, "document": _document(reader, blank) if blank else ""}


def _document(reader: Any, numbers: list[int]) -> str:
    """The pages as a PDF in Base64; empty if it would be too large."""
    from pypdf import PdfWriter

    writer, buffer = PdfWriter(), io.BytesIO()
    for number in numbers:
        writer.add_page(reader.pages[number - 1])
    writer.write(buffer)
    return base64.b64encode(buffer.getvalue()).decode() if buffer.tell() <= SCANNED_BYTES else ""


def main(arguments: list[str]) -> None:
    for kind, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_FSIZE, 0)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    fd, whole, many, *pages = arguments
    try:
        reply = read_pages(int(fd), int(whole), int(many), "".join(pages))
    except RecursionError:
        reply = {"error": "cannot be read as a PDF: its objects are nested too deeply"}
    except MemoryError:
        reply = {"error": "cannot be read as a PDF: it needs too much memory"}
    except Exception as error:  # noqa: BLE001 - a broken file can make the parser raise anything
        reply = {"error": f"cannot be read as a PDF: {error or type(error).__name__}"}
    sys.stdout.write(json.dumps(reply))


if __name__ == "__main__":
    main(sys.argv[1:])
