"""Summarizes a tool call: its main argument, the change that it made, the to-do list that it wrote."""

import re
from typing import Any, cast

from adderclaw.agent.view.items import Change, Line, Todo
from adderclaw.core.tool_traits import ASK_USER, CALL, EDIT, TODO_WRITE, WRITE, traits
from adderclaw.core.types import Json

LONGEST = 300
"""Maximum characters of an argument in one line; the renderer cuts it further to the width."""

PATHS = frozenset({"file_path", "notebook_path", "path"})
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def unwrapped(tool: str, arguments: Json) -> tuple[str, Json]:
    """The tool and its arguments; for a Call, those of the tool that it calls."""
    inner = arguments.get("input")
    if tool == CALL and isinstance(arguments.get("tool"), str) and isinstance(inner, dict):
        return arguments["tool"], cast(Json, inner)
    return tool, arguments


def argument(tool: str, arguments: Json, root: str = "") -> str:
    """The main argument of a call in one line; a path below `root` is relative to it."""
    if tool == TODO_WRITE:
        listed = todos(arguments)
        return f"{sum(todo.status == 'completed' for todo in listed)} of {len(listed)} done"
    if tool == ASK_USER:
        asked = [question for question in _dicts(arguments.get("questions")) if question.get("question")]
        return _line(str(asked[0]["question"])) if asked else ""
    names = traits(tool).main
    if names is None:
        return _line(", ".join(f"{name}: {value}" for name, value in arguments.items() if isinstance(value, str | int)))
    parts = [(name, arguments[name]) for name in names if isinstance(arguments.get(name), str) and arguments[name]]
    top = f"{root.rstrip('/')}/"
    return _line(" ".join(value.removeprefix(top) if root and name in PATHS else value for name, value in parts))


def _line(text: str) -> str:
    flat = " ".join(text[: 4 * LONGEST].split())
    return flat if len(flat) <= LONGEST else f"{flat[:LONGEST]}…"


def todos(arguments: Json) -> tuple[Todo, ...]:
    listed: list[Todo] = []
    for entry in _dicts(arguments.get("todos")):
        status = entry.get("status")
        if status in ("pending", "in_progress", "completed"):
            listed.append(Todo(str(entry.get("content", "")), status))
    return tuple(listed)


def _dicts(value: Any) -> list[Json]:
    entries = cast(list[Any], value) if isinstance(value, list) else []
    return [cast(Json, entry) for entry in entries if isinstance(entry, dict)]


# ------------------------------------------------------------------ changes


def change(tool: str, arguments: Json, payload: Json) -> Change | None:
    """The change that the call's result reports; for a new file, all of its lines."""
    path = str(arguments.get("file_path") or arguments.get("notebook_path") or "")
    if payload.get("is_error"):
        return None
    if isinstance(diff := payload.get("diff"), str):
        return Change(path, parsed(diff))
    if tool == EDIT and "\n@@ " in (content := str(payload.get("content", ""))):
        return Change(path, parsed(content.partition("\n")[2]))
    if tool == WRITE and isinstance(text := arguments.get("content"), str):
        return Change(path, tuple(Line("+", number, line) for number, line in enumerate(text.splitlines(), 1)))
    return None


def parsed(diff: str) -> tuple[Line, ...]:
    """A unified diff as numbered lines. A hunk has as many rows as its head counts; text after it is left out."""
    lines: list[Line] = []
    old = new = old_end = new_end = 0
    for row in diff.split("\n"):
        if (hunk := _HUNK.match(row)) is not None:
            old, new = int(hunk[1]), int(hunk[3])
            old_end, new_end = old + int(hunk[2] or 1), new + int(hunk[4] or 1)
            if lines:
                lines.append(Line("@", new, ""))
        elif row.startswith("\\ ") and old_end + new_end:
            if "No newline" not in row:
                lines.append(Line("@", new, row[2:]))
        elif row.startswith("+") and new < new_end:
            lines.append(Line("+", new, row[1:]))
            new += 1
        elif row.startswith("-") and old < old_end:
            lines.append(Line("-", old, row[1:]))
            old += 1
        elif row.startswith(" ") and old < old_end and new < new_end:
            lines.append(Line(" ", new, row[1:]))
            old, new = old + 1, new + 1
        else:
            old = new = old_end = new_end = 0
    return tuple(lines)
