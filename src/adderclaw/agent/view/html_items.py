"""Items as HTML, the only place that draws them so: reports that stand alone and the server's pages are made of it."""

import hashlib
import json

from adderclaw.agent.view.html import Child, Html, el, many, whole
from adderclaw.agent.view.html_markdown import markdown
from adderclaw.agent.view.items import Call, Change, Item, Line, Notice, Todo, Words
from adderclaw.agent.view.items import Child as Subagent
from adderclaw.core.redaction import visible

FOLDED = 12
"""Lines of a text that is shown unfolded."""
FOLDED_CHANGE = 60
TONES = {"ran": "good", "failed": "bad", "denied": "bad", "unknown": "warn", "asked": "warn", "running": "info"}
NOTICES = {"note": "info", "warning": "warn", "error": "bad"}
SIGNS: dict[str, tuple[str, str, str]] = {
    "+": ("added", "+", "added"),
    "-": ("removed", "−", "removed"),
    " ": ("same", "", ""),
    "@": ("cut", "⋮", "lines left out"),
}
"""Kind of a line → its class, its sign, and the word for who does not see it."""
TODO_WORDS = {"pending": "to do", "in_progress": "in progress", "completed": "done"}


def item_id(key: str) -> str:
    """The item's id in a page: of its key, which may be a model's own, nothing is left but a hash."""
    return f"i-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:20]}"


def item(given: Item) -> Html:
    match given:
        case Words():
            return _words(given)
        case Notice():
            return _notice(given)
        case Call():
            return _call(given)


def _words(words: Words) -> Html:
    who = "You" if words.role == "user" else "The agent"
    body = el("div", words.text, class_="text") if words.role == "user" else markdown(words.text)
    return el(
        "article",
        el("span", f"{who}: ", class_="aside"),
        body,
        class_=f"item words {words.role}",
        id=item_id(words.key),
    )


def _notice(notice: Notice) -> Html:
    label = el("span", notice.kind, class_=f"badge {NOTICES[notice.kind]}")
    return el("p", label, el("span", notice.text, class_="text"), class_="item notice", id=item_id(notice.key))


# ------------------------------------------------------------------ calls


def _call(call: Call) -> Html:
    """Its head says what became of it; unfolded it shows input, output and change."""
    small = [_why(call), _todos(call.todos), _child(call.child), _progress(call)]
    whole = call.state in ("failed", "denied") or call.change is not None
    given = json.dumps(call.input, indent=2, ensure_ascii=False)
    body = [
        diff(call.change) if call.change is not None else None,
        folded("input", given, is_open=call.change is None) if call.input else None,
        folded("output", call.output, is_open=call.change is None) if call.ended else None,
    ]
    unfolded = el("details", el("summary", _head(call)), el("div", body, class_="body"), open=whole)
    return el("article", unfolded, small, class_=f"item call {call.state}", id=item_id(call.key))


def _head(call: Call) -> list[Child]:
    took = f"{call.seconds:.1f} s" if call.seconds is not None and call.seconds >= 0.05 else ""
    receipt = f"receipt {call.receipt}" if call.receipt is not None else ""
    tail = " · ".join(part for part in (took, receipt) if part)
    return [
        el("span", call.tool, class_="tool"),
        " ",
        el("span", call.argument, class_="argument") if call.argument else None,
        " ",
        el("span", verdict(call), class_=f"badge {_tone(call)}".strip()),
        " ",
        el("span", tail, class_="took") if tail else None,
    ]


def _tone(call: Call) -> str:
    return "warn" if call.exit_code and call.state != "denied" else TONES.get(call.state, "")


def verdict(call: Call) -> str:
    """In few words; the reason stands beneath."""
    short = {"denied": f"denied by {call.by or 'the gate'}", "asked": "asks", "waiting": "waits"}
    return short.get(call.state, call.verdict)


def _why(call: Call) -> Html | None:
    asked = f"asked: {call.why}" if call.why and (call.asked or call.state == "asked") else ""
    parts = (call.comment, asked or call.why) if call.state == "denied" else (asked, call.comment)
    text = " · ".join(part for part in parts if part)
    return el("p", text, class_="why") if text else None


def _todos(todos: tuple[Todo, ...]) -> Html | None:
    if not todos:
        return None
    rows = [
        el(
            "li",
            el("span", class_="mark", aria_hidden=True),
            el("span", todo.text, class_="text"),
            el("span", f" ({TODO_WORDS[todo.status]})", class_="aside"),
            class_=todo.status,
        )
        for todo in todos
    ]
    return el("ul", rows, class_="todos")


def _child(child: Subagent | None) -> Html | None:
    if child is None:
        return None
    count = f"{child.calls} call{'' if child.calls == 1 else 's'}"
    text = " · ".join(part for part in (f"subagent {child.kind}", count, child.outcome or child.last) if part)
    return el("p", text, class_="child")


def _progress(call: Call) -> Html | None:
    return el("p", call.progress, class_="progress") if call.progress and not call.ended else None


# ------------------------------------------------------------------ texts and changes


def folded(title: str, text: str, *, is_open: bool = True) -> Html:
    """A text as it came, unfolded where it is short."""
    if not visible(text).strip():
        return el("p", f"{title}: nothing", class_="quiet small")
    lines = text.count("\n") + 1
    short = lines <= FOLDED and len(text) < 1_500
    size = "" if short else f" ({lines:,} lines)" if lines > 1 else f" ({len(text):,} characters)"
    return el("details", el("summary", title, size), el("pre", text), class_="fold", open=is_open and short)


def diff(change: Change, *, whole_text: bool = False) -> Html:
    """A change line by line, numbered; what is added or removed is said in words, too.

    `whole_text`: somebody decides about it, so that nothing of it is folded or cut.
    """
    count = [f"{number} {what}" for number, what in ((change.added, "added"), (change.removed, "removed")) if number]
    words = el("span", ", ".join(count) or "nothing changed", class_="quiet")
    head = el("div", el("b", change.path), words, class_="file")
    if whole_text or len(change.lines) <= FOLDED_CHANGE:
        return el("div", head, _rows(change.path, change.lines, whole_text=whole_text), class_="diff")
    first, rest = change.lines[:FOLDED_CHANGE], change.lines[FOLDED_CHANGE:]
    title = el("summary", f"{len(rest):,} more lines")
    more = el("details", title, _rows(f"{change.path}, the rest", rest), class_="fold")
    return many(el("div", head, _rows(change.path, first), class_="diff"), more)


def _rows(name: str, lines: tuple[Line, ...], *, whole_text: bool = False) -> Html:
    rows = el("table", el("tbody", [_line(line, whole_text=whole_text) for line in lines]))
    return el("div", rows, class_="rows", tabindex=0, role="region", aria_label=f"Changes of {name}")


def _line(line: Line, *, whole_text: bool) -> Html:
    name, sign, word = SIGNS[line.kind]
    said = el("span", f"{word}: ", class_="aside") if word else None
    return el(
        "tr",
        el("td", "" if line.kind == "@" else line.number, class_="n"),
        el("td", el("span", sign, aria_hidden=True), said, class_="sign"),
        el("td", whole(line.text) if whole_text else line.text, class_="code"),
        class_=name,
    )
