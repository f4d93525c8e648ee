"""The live view of a run on a terminal: one line per event, with trace, turn, skill, action, status and cost."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO

from adderclaw.core.events import EventRecord, Sink
from adderclaw.core.types import Json
from adderclaw.storage.text import plain, sql_time

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

MAX_CHARACTERS = 160
"""Longest text at the end of a line."""
WIDE_COLUMNS = 80
"""Columns from which the text is shown next to the head of its line; on a narrower terminal it is shown below."""
TURN, DONE = 7, 18
"""Widths of the turn, and of action with status."""
ENDS = frozenset({"run_finished", "run_failed"})
type Style = Literal["dim", "cyan", "green", "yellow", "red", "bold"]


class Row(NamedTuple):
    """One line of the live view."""

    time: str
    trace: str
    turn: str
    skill: str
    action: str
    status: str
    spent: str
    text: str
    style: Style


class Progress:
    """Tracks the state of a run from its events and turns each shown event into a row."""

    def __init__(self) -> None:
        self.turn, self.skill = 0, ""
        self.tokens, self.cost = 0, 0.0

    def row(self, record: EventRecord) -> Row | None:
        if record.event_type == "tool_requested" and self.turn:
            return None  # with skills, the call is shown as a step
        shown = _SHOWN.get(record.event_type)
        payload = record.payload
        self._follow(record.event_type, payload)
        if shown is None:
            return None
        action, status, style, describe = shown
        text = plain(" ".join(describe(payload).split()))
        return Row(
            sql_time(record.timestamp)[11:],
            record.trace_id.removeprefix("trace-")[:8],
            f"turn {self.turn}" if self.turn else "",
            plain(str(payload.get("skill") or payload.get("selected_skill") or self.skill)),
            plain(str(payload.get("action", action))),
            plain(str(payload.get("status") or payload.get("outcome") or status)),
            self._spent(),
            text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "…",
            _style(style, payload),
        )

    def _follow(self, event_type: str, payload: Json) -> None:
        match event_type:
            case "prompt_budget_computed":
                self.turn = int(payload.get("turn", 0))
            case "skill_invocation_started":
                self.skill = str(payload.get("skill", ""))
            case "skill_invocation_finished":
                self.skill = ""
            case "llm_response_received":
                self.tokens += int(payload.get("input_tokens", 0)) + int(payload.get("output_tokens", 0))
                self.cost += float(payload.get("cost") or 0.0)
            case _:
                pass

    def _spent(self) -> str:
        if not self.tokens:
            return ""
        return f"{self.tokens:,} tokens" + (f" ${self.cost:.4f}" if self.cost else "")


def _style(style: Style, payload: Json) -> Style:
    status = str(payload.get("status", ""))
    return "red" if status in ("failed", "timeout", "denied", "invalid", "aborted") else style


def _join_values(*keys: str) -> Callable[[Json], str]:
    def describe(payload: Json) -> str:
        return " ".join(_word(payload[key]) for key in keys if payload.get(key) not in (None, "", []))

    return describe


def _word(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)  # pyright: ignore[reportUnknownArgumentType]


def _candidates(payload: Json) -> str:
    candidates: list[Json] = payload.get("candidates", [])
    named = ", ".join(f"{candidate['skill_name']} {candidate['score']:g}" for candidate in candidates[:5])
    return f"{payload.get('strategy', '')}: {len(candidates)} candidates {named}"


def _files(payload: Json) -> str:
    paths = ", ".join(str(file["path"]) for file in payload.get("files", [])[:5])
    return f"stage {payload.get('stage')}: {paths} ({payload.get('bytes')} bytes, {payload.get('tokens')} tokens)"


def _taken_over(payload: Json) -> str:
    """Why a skill was selected, if the reason differs from the shown decision."""
    before, why = str(payload.get("handoff_from", "")), str(payload.get("rationale", ""))
    return why if why.startswith("fallback") else f"after {before}" if before else ""


def _step(payload: Json) -> str:
    code = f"exit {payload['exit_code']}: " if payload.get("exit_code") is not None else ""
    return f"{code}{payload.get('command', '')}"


_SHOWN: dict[str, tuple[str, str, Style, Callable[[Json], str]]] = {
    "run_started": ("run", "started", "bold", _join_values("task")),
    "skill_catalog_loaded": ("load", "ok", "dim", lambda payload: f"{payload.get('skills')} skills"),
    "skill_prefilter_completed": ("route", "ok", "cyan", _candidates),
    "skill_disclosure_loaded": ("disclose", "ok", "dim", _files),
    "llm_request_sent": ("think", "asked", "dim", _join_values("provider", "model")),
    "llm_retry_scheduled": ("think", "retry", "yellow", _join_values("reason")),
    "llm_response_received": ("think", "answered", "dim", _join_values("stop_reason")),
    "llm_request_failed": ("think", "failed", "red", _join_values("reason")),
    "llm_decision_decoded": ("decide", "", "cyan", _join_values("actions", "summary", "problems")),
    "skill_invocation_started": ("select", "started", "cyan", _taken_over),
    "skill_step_executed": ("step", "", "green", _step),
    "step_retry_scheduled": ("step", "retry", "yellow", _join_values("step_id", "reason")),
    "skill_invocation_finished": ("leave", "", "dim", _join_values("reason")),
    "approval_requested": ("approve", "asked", "yellow", _join_values("tool", "reason")),
    "tool_requested": ("call", "", "green", _join_values("tool", "summary")),
    "tool_denied": ("step", "denied", "red", _join_values("tool", "reason")),
    "warning": ("note", "warning", "yellow", _join_values("message")),
    "limit_reached": ("run", "limit", "red", _join_values("reason")),
    "signal_received": ("run", "signal", "yellow", _join_values("signal")),
    "graceful_shutdown_started": ("run", "ending", "yellow", _join_values("reason")),
    "run_finished": ("run", "", "bold", _join_values("reason")),
    "run_failed": ("run", "", "red", _join_values("message")),
}


def sink(stream: TextIO) -> Sink:
    """Prints rows in colour; text from models and files is never parsed as markup."""
    from rich.console import Console

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    progress = Progress()
    spent = ""

    def tell(record: EventRecord) -> None:
        nonlocal spent
        row = progress.row(record)
        if row is None:
            return
        known = spent if record.event_type not in ENDS else ""  # shown when it changes, and at the end
        spent = row.spent
        for line in _lines(console, row._replace(spent="" if row.spent == known else row.spent)):
            console.print(line, soft_wrap=True)

    return tell


def _lines(console: "Console", row: Row) -> "list[Text]":
    """A row as lines that fit the width of the terminal."""
    from rich.text import Text

    head = Text.assemble(
        (f"{row.time} {row.trace} ", "dim"),
        (f"{row.turn:<{TURN}} ", "bold"),
        (f"{f'{row.action} {row.status}':<{DONE}} ", row.style),
    )
    description = Text.assemble((f"{row.skill} ", "bold") if row.skill else "", row.text)
    if row.spent:
        description.append(f"{'  ' if description.plain else ''}{row.spent}", style="dim")
    width = console.width - 1  # a terminal may break after its last column
    is_wide = console.width >= WIDE_COLUMNS
    indent = head.cell_len if is_wide else 2
    folded = (
        list(description.wrap(console, max(10, width - indent), overflow="fold")) if description.plain.strip() else []
    )
    first = head.copy()
    if is_wide and folded:
        first.append_text(folded.pop(0))
    first.rstrip()
    return [first, *(Text(" " * indent).append_text(line) for line in folded)]
