"""Read for PDFs: the text of the pages. Pages without text are passed to the model as a document."""

import json
import os
import sys
from typing import Any

from adderclaw.core.host import ToolContext
from adderclaw.core.types import MediaBlock, PathFact, ToolResult, internal_failure, rejected
from adderclaw.tools import paths

UNASKED_PAGES, MAX_PAGES = 10, 20
"""Pages read without `pages`, and at most in one call."""
FILE_BYTES = 256 << 20
OUTPUT_BYTES = 16 << 20
SECONDS = 60.0
PROGRAM = os.path.join(os.path.dirname(__file__), "pdf_pages.py")


async def read_pdf(fd: int, target: PathFact, pages: str, ctx: ToolContext) -> ToolResult:
    from adderclaw.sandbox import process

    name, size = paths.relative(target.path, ctx), os.fstat(fd).st_size
    if size > FILE_BYTES:
        return rejected(f"{name} has {size} bytes; only PDFs of at most {FILE_BYTES >> 20} MiB can be read.")
    done = await process.run(
        [sys.executable, "-I", PROGRAM, str(fd), str(UNASKED_PAGES), str(MAX_PAGES), pages],
        cwd="/",
        env=process.environment(workspace_roots=(ctx.workspace.root, *ctx.workspace.extra)),
        timeout=SECONDS,
        max_bytes=OUTPUT_BYTES,
        pass_fds=(fd,),
    )
    if done.timed_out:
        return internal_failure(f"{name} could not be read within {SECONDS:g} s. Ask for fewer pages.")
    try:
        reply: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return rejected(f"{name} cannot be read as a PDF: the parser failed (exit code {done.returncode}).")
    if error := reply.get("error"):
        return rejected(f"{name} {error}.")
    return _render(reply, name, target, size)


def _render(reply: dict[str, Any], name: str, target: PathFact, size: int) -> ToolResult:
    parts = [f"--- page {number} ---\n{text}".rstrip() for number, text in reply["texts"]]
    numbers = [number for number, _ in reply["texts"]]
    media: tuple[MediaBlock, ...] = ()
    if reply["document"]:
        media = (MediaBlock("application/pdf", reply["document"], os.path.basename(target.path)),)
        parts.append(f"(pages without text, shown as a document: {', '.join(map(str, reply['blank']))})")
    elif reply["blank"]:
        parts.append(f"(no text on pages {', '.join(map(str, reply['blank']))}, which are too large to show)")
    parts.append(f"({name}: PDF, {len(numbers)} of {reply['total']} pages)")
    about = {"file_path": target.path, "pages": numbers, "total_pages": reply["total"], "bytes": size}
    return ToolResult("\n".join(parts), metadata=about, media=media)
