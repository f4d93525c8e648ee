"""Exports a conversation for others to read: as Markdown, one HTML file, or JSON."""

import json
import os
from collections.abc import Iterable
from typing import Literal

from adderclaw.agent.view import wire
from adderclaw.agent.view.items import Call, Change, Item, Notice, Words
from adderclaw.agent.view.page import fenced, page, ticks
from adderclaw.agent.view.rows import Clean, Rows
from adderclaw.core.errors import UsageError
from adderclaw.storage import Store, transcript

Format = Literal["markdown", "html", "json"]

MARKS = {"pending": " ", "in_progress": "~", "completed": "x"}


def render_conversation(store: Store, conversation_id: str, form: Format, clean: Clean) -> str:
    """One conversation of the store."""
    root = transcript.workspace_of(store, conversation_id)
    items = list(Rows(store, clean, root).conversation(conversation_id))
    first = next((item.text for item in items if isinstance(item, Words)), conversation_id)
    title = " ".join(first.split())[:80]
    return write_export(items, title, form)


def write(path: str, text: str) -> None:
    """Writes a new file, readable only by its owner; never overwrites one."""
    try:
        fd = os.open(
            os.path.expanduser(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
    except FileExistsError:
        raise UsageError(f"{path} already exists: name another file") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)


def write_export(items: Iterable[Item], title: str, form: Format) -> str:
    match form:
        case "markdown":
            return markdown(items, title)
        case "html":
            return page(title, items)
        case "json":
            return as_json(items, title)


def form_of(path: str) -> Format:
    """The format by the file's extension; Markdown by default."""
    ending = path.rpartition(".")[2].lower()
    return "html" if ending in ("html", "htm") else "json" if ending == "json" else "markdown"


# ------------------------------------------------------------------ JSON


def as_json(items: Iterable[Item], title: str) -> str:
    whole = {"title": title, "items": [wire.item_to_json(item) for item in items]}
    return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


# ------------------------------------------------------------------ Markdown


def markdown(items: Iterable[Item], title: str) -> str:
    parts = [f"# {' '.join(title.split())}\n"]
    for item in items:
        match item:
            case Words(role="user"):
                parts.append("## You\n\n" + "\n".join(f"> {line}".rstrip() for line in item.text.split("\n")) + "\n")
            case Words():
                parts.append(f"{item.text.strip()}\n")
            case Call():
                parts.append(_call(item))
            case Notice():
                parts.append(f"*{item.kind}: {' '.join(item.text.split())}*\n")
    return "\n".join(parts)


def _call(call: Call) -> str:
    took = f", {call.seconds:.1f} s" if call.seconds is not None else ""
    lines = [f"**{call.tool}** {_code(call.argument)} ({call.verdict}{took})\n"]
    if call.todos:
        lines += [f"- [{MARKS[todo.status]}] {todo.text}" for todo in call.todos] + [""]
    elif call.change is not None:
        lines.append(fenced("\n".join(_diff(call.change)), "diff") + "\n")
    elif call.output.strip():
        lines.append(fenced(call.output.lstrip("\n")) + "\n")
    return "\n".join(lines)


def _code(text: str) -> str:
    frame = ticks(text, 1)
    return f"{frame} {text} {frame}" if "`" in text else f"`{text}`" if text else ""


def _diff(change: Change) -> list[str]:
    return [f"@@ {line.number} @@" if line.kind == "@" else f"{line.kind}{line.text}" for line in change.lines]
