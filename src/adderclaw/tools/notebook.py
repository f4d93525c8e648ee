"""NotebookEdit: changes single cells of a Jupyter notebook without touching the rest."""

import os
from typing import Any, Literal

from adderclaw.core.host import ToolContext
from adderclaw.core.record import record
from adderclaw.core.types import Json, PathFact, Prepared, Tool
from adderclaw.tools import files, paths
from adderclaw.tools.notebook_cells import NotANotebook, id_of_cell, parse_notebook
from adderclaw.tools.paths import OldFile, catch_refusals
from adderclaw.tools.specs import builtin_tool


@record
class NotebookEditArguments:
    notebook_path: str
    new_source: str = ""
    cell_id: str = ""
    """As Read shows it. With insert: the cell after which the new one goes; without it, at the start."""
    cell_type: Literal["code", "markdown"] | None = None
    """Needed for insert."""
    edit_mode: Literal["replace", "insert", "delete"] = "replace"


def _plan_edit(target: PathFact, arguments: NotebookEditArguments, ctx: ToolContext) -> files.Change | str:
    name = paths.relative(target.path, ctx)
    if not target.path.endswith(".ipynb"):
        return f"{name} is not a notebook (.ipynb). Use Edit for other files."
    old = paths.read_current(target, ctx)
    if old is None:
        return f"{files.missing_message(target, ctx)} Use Write to make a new notebook."
    if reason := files.unread_reason(target, old, ctx, whole=False):
        return reason
    try:
        summary, data = apply_change(arguments, old)
    except NotANotebook as error:
        return f"{name} cannot be changed as a notebook: {error}."
    except LookupError as error:
        return str(error.args[0])
    return files.Change(data, old, summary, is_reported=True)


def apply_change(arguments: NotebookEditArguments, old: OldFile) -> tuple[str, bytes]:
    """Applies the change; returns a summary and the new notebook. Raises NotANotebook and LookupError."""
    book = parse_notebook(old.data)
    cells, mode = book.cells, arguments.edit_mode
    if mode == "insert":
        if arguments.cell_type is None:
            raise LookupError("cell_type is needed to insert a cell: code or markdown.")
        index = _find_cell(cells, arguments.cell_id) + 1 if arguments.cell_id else 0
        cells.insert(index, _new_cell(arguments.cell_type, arguments.new_source, book.whole))
        return f"Inserted the cell {id_of_cell(cells[index], index)} into", book.encoded()
    index = _find_cell(cells, arguments.cell_id)
    name = id_of_cell(cells[index], index)
    if mode == "delete":
        del cells[index]
        return f"Deleted the cell {name} of", book.encoded()
    _replace(cells[index], arguments)
    return f"Replaced the cell {name} of", book.encoded()


def _find_cell(cells: list[Json], cell_id: str) -> int:
    if not cell_id:
        raise LookupError("cell_id is missing. Read shows the ids of the cells.")
    matches = [number for number, cell in enumerate(cells) if id_of_cell(cell, number) == cell_id]
    if not matches:
        known = ", ".join(id_of_cell(cell, number) for number, cell in enumerate(cells[:20]))
        raise LookupError(f"There is no cell {cell_id!r}. Existing cells: {known or 'none'}.")
    if len(matches) > 1:
        raise LookupError(f"{len(matches)} cells have the id {cell_id!r}, so it is ambiguous.")
    return matches[0]


def _lines(source: str) -> list[str]:
    return source.splitlines(keepends=True)


def _new_cell(cell_type: str, source: str, whole: Json) -> Json:
    cell: Json = {"cell_type": cell_type}
    if cell_type == "code":
        cell["execution_count"] = None
    minor: Any = whole.get("nbformat_minor")
    if isinstance(minor, int) and (whole["nbformat"], minor) >= (4, 5):
        cell["id"] = os.urandom(4).hex()
    cell["metadata"] = {}
    if cell_type == "code":
        cell["outputs"] = []
    return cell | {"source": _lines(source)}


def _replace(cell: Json, arguments: NotebookEditArguments) -> None:
    """Replaces the cell's source in its old form, and clears the outputs, which belong to the old source."""
    source = arguments.new_source
    cell["source"] = source if isinstance(cell["source"], str) else _lines(source)
    cell["cell_type"] = arguments.cell_type or cell["cell_type"]
    if cell["cell_type"] == "code":
        cell["execution_count"], cell["outputs"] = None, []
    else:
        cell.pop("execution_count", None)
        cell.pop("outputs", None)


# ------------------------------------------------------------------ the tool


def _prepare(arguments: NotebookEditArguments, ctx: ToolContext) -> Prepared:
    target = paths.path_fact(arguments.notebook_path, ctx)
    return files.prepare_change(target, lambda: _plan_edit(target, arguments, ctx), ctx)


def tools(seconds: float) -> tuple[Tool[Any], ...]:
    return (
        builtin_tool(
            "NotebookEdit",
            NotebookEditArguments,
            catch_refusals(_prepare),
            timeout=lambda _arguments: seconds,
            deferred=True,
        ),
    )
