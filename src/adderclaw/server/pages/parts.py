"""What pages are made of: cards, tables, states with their words, facts, empty places, forms, times."""

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal

from adderclaw.agent.view.html import Child, Html, el

type Tone = Literal["good", "bad", "warn", "info", ""]


def card(*children: Child, id: str | None = None, kind: str = "") -> Html:
    """`kind`: "flush" for a table or a list that reaches to its edges, "asks" for what waits for a person."""
    return el("section", *children, class_=f"card {kind}".strip(), id=id)


def part(title: str, *children: Child, id: str | None = None, note: Child = None) -> Html:
    """A part of a page under its heading; `note` stands small beside that."""
    heading = el("h2", title, el("span", note, class_="quiet") if note else None)
    return el("section", heading, *children, class_="part", id=id, aria_label=title)


def badge(tone: Tone, words: str) -> Html:
    """A state. Its colour says nothing that its words do not say."""
    return el("span", words, class_=f"badge {tone}".strip())


STATES: dict[str, Tone] = {
    "completed": "good",
    "passed": "good",
    "ran": "good",
    "valid": "good",
    "ok": "good",
    "running": "info",
    "working": "info",
    "asking": "warn",
    "asked": "warn",
    "waiting": "warn",
    "needs_input": "warn",
    "unknown": "warn",
    "limit": "warn",
    "stopped": "warn",
    "interrupted": "warn",
    "warning": "warn",
    "failed": "bad",
    "denied": "bad",
    "error": "bad",
    "broken": "bad",
}


def state(word: str) -> Html:
    """A state of a run, a call or a check in its usual colour."""
    return badge(STATES.get(word, ""), word.replace("_", " "))


def table(
    head: Sequence[str], rows: Iterable[Sequence[Child]], *, caption: str, numbers: frozenset[int] = frozenset()
) -> Html:
    """A table that scrolls by itself where it is wide. `numbers`: the columns that are aligned to the right."""

    def cell(tag: str, place: int, child: Child) -> Html:
        return el(tag, child, class_="num" if place in numbers else None, scope="col" if tag == "th" else None)

    return el(
        "div",
        el(
            "table",
            el("caption", caption, class_="aside"),
            el("thead", el("tr", [cell("th", place, one) for place, one in enumerate(head)])),
            el("tbody", [el("tr", [cell("td", place, one) for place, one in enumerate(row)]) for row in rows]),
        ),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=caption,
    )


def facts(pairs: Iterable[tuple[str, Child]]) -> Html:
    return el("dl", [(el("dt", name), el("dd", value)) for name, value in pairs], class_="facts")


def figure(value: str, label: str) -> Html:
    """One number with what it counts."""
    return el("div", el("b", value), el("span", label, class_="quiet small"), class_="card figure")


def empty(title: str, *children: Child) -> Html:
    """Nothing is there yet: what to do about it."""
    return el("div", el("h3", title), *children, class_="empty")


def link(words: Child, to: str, *, main: bool = False) -> Html:
    """A link that looks like a button."""
    return el("a", words, href=to, class_="button main-one" if main else "button")


def field(label: str, control: Html, *, id: str, note: str = "") -> Html:
    """A control (which has this `id`) under its label."""
    small = el("span", f" {note}", class_="quiet") if note else None
    return el("div", el("label", label, small, for_=id), control, class_="field")


def sent_form(
    action: str,
    *children: Child,
    then: str = "stay",
    confirm: str = "",
    method: str = "POST",
    done: str = "",
    **attributes: str | None,
) -> Html:
    """A form that the script sends as JSON, with a header that no other origin can send.

    `then`: "stay", "reload", or where to go, with names of the answer in braces: "/ui/conversations/{id}".
    `confirm`: asked about first. What went wrong, or well (`done`), stands in the form.
    """
    told = (
        el("p", class_="error", role="alert", data_error=True),
        el("p", class_="done", role="status", data_went=True),
    )
    return el(
        "form",
        *children,
        told,
        method="post",
        action=action,
        data_send=True,
        data_then=then,
        data_confirm=confirm or None,
        data_method=method if method != "POST" else None,
        data_done=done or None,
        **attributes,
    )


def moment(seconds: float | None) -> Html | None:
    """When: in words for a person, exactly for a program; the script turns it into the local time."""
    if seconds is None:
        return None
    at = datetime.fromtimestamp(seconds, UTC)
    return el("time", ago(seconds), datetime=at.isoformat(timespec="seconds"), data_when=True)


def ago(seconds: float, now: float | None = None) -> str:
    past = (time.time() if now is None else now) - seconds
    for limit, size, unit in (
        (60, 1, "second"),
        (3600, 60, "minute"),
        (86_400, 3600, "hour"),
        (864_000, 86_400, "day"),
    ):
        if past < limit:
            count = max(int(past // size), 0)
            return "now" if unit == "second" and count < 5 else f"{count} {unit}{'' if count == 1 else 's'} ago"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def iso_seconds(text: str) -> float | None:
    """A row's time as seconds; None where it is none."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
