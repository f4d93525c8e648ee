"""The success criteria of a plan: parsed from a section of its Markdown and stored as rows."""

import hashlib
import re
import sqlite3
from collections.abc import Iterator

from adderclaw.core.errors import UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store
from adderclaw.storage.sdlc import faults
from adderclaw.storage.text import plain

MAX_CRITERIA = 200
MAX_CHARACTERS = 4_000

_ATX = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})\s*$")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_ITEM = re.compile(r"(\s*)(?:[-*+]|\d{1,9}[.)])(?:\s+(.*))?$")
_TITLE = re.compile(r"(?:\d+[.)]\s+)?[*_]{0,3}success criteria:?[*_]{0,3}:?", re.IGNORECASE)
_BOX = re.compile(r"\[[ xX]\](?:\s+|$)")
_KEEPS = re.compile(r"(?:\(keeps\)|\[keeps\]|\*{1,2}keeps\*{1,2}|keeps(?=:)):?\s*", re.IGNORECASE)
_BRACKETS = re.compile(r"\[([A-Za-z0-9][A-Za-z0-9_.-]{0,39})\](?!\():?\s*")
_NUMBERED = re.compile(r"[*`]{0,2}([A-Za-z]{1,12}-?\d{1,6}(?:\.\d{1,6}){0,3})[*`]{0,2}:[*`]{0,2}(?:\s+|$)")
_FAULT = re.compile(r"(?:(?:[-*+]|\d{1,9}[.)])\s+)?[*_]{0,2}fault:?[*_]{0,2}:?(?:\s+(.*))?$", re.IGNORECASE)


class Criterion(NamedTuple):
    """`keeps`: it already holds before the change; then `fault` is a change that must break it."""

    id: str
    text: str
    keeps: bool
    fault: str
    line: int


class BadPlan(UsageError):
    """The criteria of a plan are invalid. Lists every problem with its line."""

    def __init__(self, problems: list[tuple[int, str]]) -> None:
        self.problems = problems
        super().__init__("\n".join(f"line {line} of the plan: {what}" for line, what in problems))


# ------------------------------------------------------------------ reading the plan


class _Line(NamedTuple):
    number: int
    text: str
    level: int
    """1 to 6 for a heading; 0 for any other line."""
    fenced: bool


def parse(plan: str) -> tuple[Criterion, ...]:
    """The criteria in order; empty if the plan has no such section. Raises BadPlan."""
    lines = list(_lines(plan))
    titles = [at for at, line in enumerate(lines) if _is_title(line)]
    if not titles:
        return ()
    problems = [(lines[at].number, "a second section of success criteria: keep one") for at in titles[1:]]
    title = lines[titles[0]]
    items = list(_items(title, lines[titles[0] + 1 :]))
    if not items:
        fix = "give them as list items, `- [C1] what can be seen from outside`, or leave the section out"
        problems.append((title.number, f"this section has no success criterion; {fix}"))
    if len(items) > MAX_CRITERIA:
        problems.append(
            (items[MAX_CRITERIA].line, f"{len(items)} criteria, but a plan has at most {MAX_CRITERIA}; split it")
        )
    criteria = [_criterion(item, problems) for item in items[:MAX_CRITERIA]]
    seen: dict[str, int] = {}
    for criterion in criteria:
        first = seen.setdefault(criterion.id.casefold(), criterion.line)
        if criterion.text and first != criterion.line:
            problems.append(
                (criterion.line, f"the id {criterion.id} is already used in line {first}; give each criterion its own")
            )
    if problems:
        raise BadPlan(sorted(problems))
    return tuple(criteria)


def _lines(plan: str) -> Iterator[_Line]:
    """The lines with their headings and code blocks, which depend on the lines before and after."""
    texts = [text.removesuffix("\r") for text in plan.split("\n")]  # lines as editors count them, unlike splitlines
    fence = ""
    for number, text in enumerate(texts, 1):
        mark = _FENCE.match(text)
        if fence:
            yield _Line(number, text, 0, fenced=True)
            if mark is not None and mark[1].startswith(fence) and not text.strip().strip(fence[0]):
                fence = ""
            continue
        if mark is not None:
            fence = mark[1]
            yield _Line(number, text, 0, fenced=True)
            continue
        heading = _ATX.match(text)
        below = _UNDERLINE.match(texts[number]) if number < len(texts) else None
        if heading is not None:
            yield _Line(number, heading[2], len(heading[1]), fenced=False)
        elif below is not None and text.strip() and _ITEM.match(text) is None and not text.startswith("    "):
            yield _Line(number, text.strip(), 1 if below[1][0] == "=" else 2, fenced=False)
        else:
            yield _Line(number, text, 0, fenced=False)


def _is_title(line: _Line) -> bool:
    if line.fenced:
        return False
    text = line.text.strip()
    # without a heading mark, a line on its own counts if it is emphasized or ends with a colon
    marked = line.level or text.endswith(":") or text.startswith(("*", "_"))
    return bool(marked) and _TITLE.fullmatch(text) is not None


class _Item(NamedTuple):
    line: int
    first: str
    more: list[_Line]


def _items(title: _Line, lines: list[_Line]) -> Iterator[_Item]:
    """The list items of the section with this title, each with its continuation lines."""
    item: _Item | None = None
    top, blank = -1, False
    for line in lines:
        if line.level and line.level <= (title.level or 6):
            break
        match = None if line.fenced or line.level else _ITEM.match(line.text)
        if match is not None and (item is None or len(match[1].expandtabs(4)) <= top + 1):
            if item is not None:
                yield item
            top = len(match[1].expandtabs(4)) if item is None else top
            item = _Item(line.number, (match[2] or "").strip(), [])
        elif item is not None and (line.fenced or (not line.level and line.text.strip())):
            if blank and not line.text[:1].isspace():  # a separate paragraph
                yield item
                item = None
                if not title.level:
                    return
            else:
                item.more.append(line)
        blank = not line.text.strip()
    if item is not None:
        yield item


def _criterion(item: _Item, problems: list[tuple[int, str]]) -> Criterion:
    rest, own, keeps = item.first, "", False
    while True:
        if box := _BOX.match(rest):
            rest = rest[box.end() :]
        elif mark := _KEEPS.match(rest):
            keeps, rest = True, rest[mark.end() :]
        elif not own and (name := _BRACKETS.match(rest) or _NUMBERED.match(rest)):
            own, rest = name[1], rest[name.end() :]
        else:
            break
    more, fault = _fault(item.more)
    text = plain("\n".join((rest.strip(), *more)).strip())
    if not text:
        problems.append(
            (item.line, f"the criterion {own or 'here'} has no text; describe what can be observed from outside")
        )
    elif len(text) > MAX_CHARACTERS:
        problems.append((item.line, f"the criterion has {len(text)} characters; at most {MAX_CHARACTERS}"))
    if keeps and not (fault or "").strip():
        fix = "add a line `fault: …` below it with a change that its test must detect"
        problems.append((item.line, f"the criterion {own or 'here'} is marked keeps but names no fault; {fix}"))
    elif keeps:
        try:
            faults.parse(fault or "")
        except UsageError as error:
            problems.append((item.line, str(error)))
    stable = f"c-{hashlib.sha256(' '.join(text.split()).encode()).hexdigest()[:8]}"
    return Criterion(own or stable, text, keeps, plain((fault or "").strip()), item.line)


def _fault(lines: list[_Line]) -> tuple[list[str], str | None]:
    """Splits an item into its text and its fault, which is everything after `fault:`."""
    text: list[str] = []
    fault: list[str] | None = None
    for line in lines:
        stripped = line.text.strip()
        fault_line = None if line.fenced or fault is not None else _FAULT.fullmatch(stripped)
        if fault_line is not None:
            fault = [fault_line[1] or ""]
        elif fault is None:
            text.append(stripped)
        elif not (line.fenced and _FENCE.match(line.text)):
            fault.append(stripped)
    return text, None if fault is None else "\n".join(fault)


# ------------------------------------------------------------------ rows


def insert_all(cursor: sqlite3.Cursor, plan_id: int, criteria: tuple[Criterion, ...]) -> None:
    cursor.executemany(
        "INSERT INTO plan_criteria(plan_id, criterion, position, line, text, keeps, fault)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        ((plan_id, c.id, position, c.line, c.text, c.keeps, c.fault) for position, c in enumerate(criteria)),
    )


def has_criteria(store: Store, plan_id: int) -> bool:
    """Whether a plan has criteria."""
    return bool(store.read("SELECT 1 FROM plan_criteria WHERE plan_id = ? LIMIT 1", (plan_id,)))


def of_plan(cursor: sqlite3.Cursor, plan_id: int) -> tuple[Criterion, ...]:
    """The criteria of a plan, in its order."""
    rows = cursor.execute(
        "SELECT criterion, text, keeps, fault, line FROM plan_criteria WHERE plan_id = ? ORDER BY position", (plan_id,)
    )
    return tuple(Criterion(id, text, bool(keeps), fault, line) for id, text, keeps, fault, line in rows)
