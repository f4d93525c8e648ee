"""Runs as a program of its own: the text of some pages of a PDF, as JSON; a file may keep a parser busy for ever.

`python -I pdf_pages.py DESCRIPTOR WHOLE MOST [PAGES]`. Pages without any text are given back as a small PDF of theirs.
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


def wanted(pages: str, total: int, whole: int, most: int) -> list[int] | str:
    """Numbers of pages, from 1; or what is wrong with the wish."""
    if not pages.strip():
        fix = f"name at most {most} of them: pages = '1-{min(most, total)}'"
        return list(range(1, total + 1)) if total <= whole else f"has {total} pages; {fix}"
    numbers: dict[int, None] = {}
    for part in pages.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or not (last.isdecimal() or (dash and not last) or not dash):
            return f"has {total} pages; {pages!r} names none of them: write '3', '1-5' or '2,7-9'"
        begin, end = int(first), int(last) if last else (total if dash else int(first))
        if not 1 <= begin <= end or begin > total:
            return f"has {total} pages; {part.strip()!r} is not among them"
        numbers |= dict.fromkeys(range(begin, min(end, total, begin + most) + 1))
    return list(numbers) if len(numbers) <= most else f"has {total} pages; at most {most} can be read at once"


def answer(fd: int, whole: int, most: int, pages: str) -> dict[str, Any]:
    # beside us, where the packages were unpacked and no interpreter looks by itself
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from pypdf import PdfReader

    reader = PdfReader(os.fdopen(fd, "rb", closefd=False))
    if reader.is_encrypted and not reader.decrypt(""):
        return {"error": "is encrypted, and its password is not known"}
    total = len(reader.pages)
    numbers = wanted(pages, total, whole, most)
    if isinstance(numbers, str):
        return {"error": numbers}
    texts = [(number, reader.pages[number - 1].extract_text()[:PAGE_CHARS].strip()) for number in numbers]
    blank = [number for number, text in texts if not text]
    return {"total": total, "texts": texts, "blank": blank, "document": _document(reader, blank) if blank else ""}


def _document(reader: Any, numbers: list[int]) -> str:
    """Those pages as a PDF in Base64; empty where it would be too large."""
    from pypdf import PdfWriter

    writer, made = PdfWriter(), io.BytesIO()
    for number in numbers:
        writer.add_page(reader.pages[number - 1])
    writer.write(made)
    return base64.b64encode(made.getvalue()).decode() if made.tell() <= SCANNED_BYTES else ""


def main(arguments: list[str]) -> None:
    for kind, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_FSIZE, 0)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    fd, whole, many, *pages = arguments
    try:
        said = answer(int(fd), int(whole), int(many), "".join(pages))
    except RecursionError:
        said = {"error": "cannot be read as a PDF: it is nested too deeply"}
    except MemoryError:
        said = {"error": "cannot be read as a PDF: it takes too much memory"}
    except Exception as error:  # noqa: BLE001 - whatever a broken file makes the parser raise
        said = {"error": f"cannot be read as a PDF: {error or type(error).__name__}"}
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1:])
