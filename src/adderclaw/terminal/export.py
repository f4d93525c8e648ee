"""A conversation for others to read: Markdown, one HTML file, or JSON; drawn from its items and nothing else."""

import html
import json
import os
from collections.abc import Iterable
from typing import Literal

from adderclaw.agent.view import wire
from adderclaw.agent.view.items import Call, Change, Item, Notice, Todo, Words
from adderclaw.agent.view.page_text import fenced, ticks
from adderclaw.agent.view.rows import Clean, Rows
from adderclaw.core.errors import UsageError
from adderclaw.storage import Store, transcript

Format = Literal["markdown", "html", "json"]

MARKS = {"pending": " ", "in_progress": "~", "completed": "x"}


def conversation(store: Store, conversation_id: str, form: Format, clean: Clean) -> str:
    """One conversation of the store."""
    root = transcript.workspace_of(store, conversation_id)
    items = list(Rows(store, clean, root).conversation(conversation_id))
    first = next((item.text for item in items if isinstance(item, Words)), conversation_id)
    title = " ".join(first.split())[:80]
    return exported(items, title, form)


def write(path: str, text: str) -> None:
    """Into a new file, for its owner alone: nothing is written over."""
    try:
        fd = os.open(
            os.path.expanduser(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
    except FileExistsError:
        raise UsageError(f"{path} is there already: name another file") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)


def exported(items: Iterable[Item], title: str, form: Format) -> str:
    match form:
        case "markdown":
            return markdown(items, title)
        case "html":
            return page(items, title)
        case "json":
            return as_json(items, title)


def form_of(path: str) -> Format:
    """By how the file's name ends; Markdown for all others."""
    ending = path.rpartition(".")[2].lower()
    return "html" if ending in ("html", "htm") else "json" if ending == "json" else "markdown"


# ------------------------------------------------------------------ JSON


def as_json(items: Iterable[Item], title: str) -> str:
    whole = {"title": title, "items": [wire.to_json(item) for item in items]}
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


# ------------------------------------------------------------------ HTML

STYLE = """
:root { color-scheme: light dark; --dim: #777; --line: #8884; --add: #2a7d2a22; --cut: #b0303022; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
pre { font: 13px/1.4 ui-monospace, monospace; overflow-x: auto; margin: .3rem 0; white-space: pre-wrap; }
.you { border-left: 3px solid #48c; padding-left: .8rem; white-space: pre-wrap; font-weight: 600; }
.agent { white-space: pre-wrap; }
.call { border: 1px solid var(--line); border-radius: 6px; padding: .4rem .7rem; margin: .6rem 0; }
.call summary { cursor: pointer; } .verdict, .notice { color: var(--dim); }
.failed .verdict, .denied .verdict { color: #c33; }
.add { background: var(--add); } .cut { background: var(--cut); } .number { color: var(--dim); }
"""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title><style>{style}</style></head>
<body><h1>{title}</h1>
{body}
</body></html>
"""


def page(items: Iterable[Item], title: str) -> str:
    """One file without scripts, that loads nothing: what a model or a file wrote is text in it."""
    return PAGE.format(title=html.escape(title), style=STYLE, body="\n".join(map(_element, items)))


def _element(item: Item) -> str:
    match item:
        case Words():
            kind = "you" if item.role == "user" else "agent"
            return f'<div class="{kind}">{html.escape(item.text.strip())}</div>'
        case Notice():
            return f'<p class="notice">{html.escape(item.text)}</p>'
        case Call():
            took = f" · {call_seconds:.1f} s" if (call_seconds := item.seconds) is not None else ""
            verdict = html.escape(f"{item.verdict}{took}")
            head = f"<b>{html.escape(item.tool)}</b> <code>{html.escape(item.argument)}</code>"
            shown = " open" if item.change is not None or item.todos else ""
            return (
                f'<details class="call {item.state}"{shown}><summary>{head} '
                f'<span class="verdict">{verdict}</span></summary>{_inside(item)}</details>'
            )


def _inside(call: Call) -> str:
    if call.todos:
        return f"<pre>{html.escape(chr(10).join(map(_todo, call.todos)))}</pre>"
    if call.change is None:
        return f"<pre>{html.escape(call.output)}</pre>"
    rows: list[str] = []
    for line in call.change.lines:
        kind = {"+": "add", "-": "cut"}.get(line.kind, "")
        number = "" if line.kind == "@" else str(line.number)
        text = "⋮" if line.kind == "@" else f"{line.kind} {line.text}"
        rows.append(f'<span class="number">{number:>5} </span><span class="{kind}">{html.escape(text)}</span>')
    return "<pre>" + "\n".join(rows) + "</pre>"


def _todo(todo: Todo) -> str:
    return f"[{MARKS[todo.status]}] {todo.text}"
