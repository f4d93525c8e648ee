"""What a run works on, as a board: scenarios, goals, steps, tests or tasks, and the state of each."""

from collections.abc import Callable, Iterator
from typing import Any, Literal

from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.flows.agentfile.execute import fingerprint
from adderclaw.flows.agentfile.load import load
from adderclaw.flows.agentfile.workflow import Workflow
from adderclaw.flows.queries import sops
from adderclaw.flows.spec import status
from adderclaw.storage import Store, lists, runs, transcript, workflows
from adderclaw.storage.runs import Run
from adderclaw.storage.sdlc import checks

type State = Literal["waiting", "working", "checked", "done", "failed", "blocked"]
type Clean = Callable[[Any], Any]

NAMES: dict[State, str] = {
    "waiting": "to do",
    "working": "in work",
    "checked": "to be checked",
    "done": "done",
    "failed": "not reached",
    "blocked": "blocked",
}
MOST_CARDS = 400


class Card(NamedTuple):
    key: str
    """The same in every run of the same work, so that two can be compared."""
    title: str
    state: State
    group: str = ""
    note: str = ""


class Board(NamedTuple):
    what: str
    """The kind of its cards: scenarios, goals, steps, tests or tasks."""
    cards: tuple[Card, ...] = ()
    note: str = ""
    """A remark for the reader."""

    def column(self, state: State) -> list[Card]:
        return [card for card in self.cards if card.state == state]

    @property
    def counts(self) -> dict[State, int]:
        return {state: len(self.column(state)) for state in NAMES}


def board(store: Store, run: Run, clean: Clean) -> Board:
    """The board of any kind of run; a run without such work has no cards."""
    match run.kind:
        case "spec":
            drawn = _scenarios(store, run)
        case "agentfile":
            drawn = Board("goals", tuple(_goals(store, run)))
        case "task":
            drawn = Board("steps", tuple(_steps(store, run)))
        case "sop":
            drawn = Board("steps", tuple(_sop(store, run)))
        case _:
            tests = tuple(_tests(store, run))
            drawn = Board("tests", tests) if tests else Board("tasks", tuple(_todos(store, run)))
    left = len(drawn.cards) - MOST_CARDS
    note = f"{left} more are not shown. {drawn.note}" if left > 0 else drawn.note
    return Board(drawn.what, tuple(_clean(card, clean) for card in drawn.cards[:MOST_CARDS]), clean(note))


def _clean(card: Card, clean: Clean) -> Card:
    return Card(card.key, clean(card.title), card.state, clean(card.group), clean(card.note))


# ------------------------------------------------------------------ a specification


def _scenarios(store: Store, run: Run) -> Board:
    """The scenarios in the project's file, with the verdicts of this run."""
    try:
        now = status.read(transcript.workspace_of(store, run.conversation_id))
    except AdderClawError as error:
        return Board("scenarios", (), str(error))
    verdicts = {check.scenario_id: check for check in checks.of_run(store, run.run_id)}
    if now is None:
        cards = tuple(
            Card(scenario.scenario_id, scenario.name, _verdict(scenario.verdict), "", scenario.reason)
            for scenario in verdicts.values()
        )
        return Board("scenarios", cards)
    cards = list[Card]()
    for scenario in now.wanted:
        check, blocked = verdicts.get(scenario.id), now.mark(scenario).blocked
        if scenario.passed:
            state: State = "done"
        elif blocked:
            state = "blocked"
        else:
            state = _verdict(check.verdict) if check is not None else "waiting"
        cards.append(
            Card(
                scenario.id,
                f"{scenario.id} {scenario.name}",
                state,
                scenario.feature,
                blocked or (check.reason if check else ""),
            )
        )
    note = (
        ""
        if run.status == "running"
        else f"{status.FILE} of the project as it is now; a later run may have changed it."
    )
    return Board("scenarios", tuple(cards), note)


def _verdict(verdict: str) -> State:
    states: dict[str, State] = {"": "checked", "passed": "done", "failed": "failed", "unproven": "failed"}
    return states.get(verdict, "waiting")


# ------------------------------------------------------------------ a workflow


def _goals(store: Store, run: Run) -> Iterator[Card]:
    begun = workflows.get(store, run.run_id)
    ended = {
        done.goal: done
        for (path, agent), done in workflows.goal_results(store, run.run_id).items()
        if _whole(path, agent)
    }
    working, rounds = _under_way(store, run)
    names = list(dict.fromkeys([*_planned(begun), *ended, *working]))
    for name in names:
        done = ended.get(name)
        round_ = f"round {rounds[name]}" if name in rounds else ""
        if name in working and run.status == "running":
            yield Card(name, name, "working", round_)
        elif done is not None:
            state: State = "done" if done.result.get("achieved") else "failed"
            yield Card(name, name, state, round_, str(done.result.get("summary", "")))
        else:
            yield Card(name, name, "failed" if name in working else "waiting", round_)


def _whole(path: str, agent: str) -> bool:
    """Whether a result is that of the goal as a whole, not of an attempt or a persona."""
    return not agent and path.count(".") == 2


def _under_way(store: Store, run: Run) -> tuple[set[str], dict[str, int]]:
    """The goals that have begun and not ended, and the last round of each goal in a loop."""
    working, rounds = set[str](), dict[str, int]()
    for event in runs.events_of_types(store, run, ("goal_started", "goal_complete"), 10_000):
        goal = str(event.payload.get("goal", ""))
        if event.event_type == "goal_started":
            working.add(goal)
            if isinstance(at := event.payload.get("iteration"), int):
                rounds[goal] = at
        else:
            working.discard(goal)
    return working, rounds


def _planned(begun: workflows.WorkflowStart | None) -> list[str]:
    """All goals in the order of the steps, if the file has not changed since the run began."""
    if begun is None:
        return []
    try:
        workflow: Workflow = load(begun.file)
    except AdderClawError:
        return []
    if fingerprint(workflow) != begun.digest:
        return []
    return [goal for step in workflow.steps for goal in step.goals]


# ------------------------------------------------------------------ others


def _steps(store: Store, run: Run) -> Iterator[Card]:
    seen: dict[str, Card] = {}
    for event in runs.events_of_types(store, run, ("skill_step_executed",), 10_000):
        payload = event.payload
        key = f"{payload.get('skill', '')} {payload.get('step_id', '')}"
        ended: State = "done" if payload.get("status") == "ok" else "failed"
        title = str(payload.get("command") or payload.get("action") or payload.get("step_id", ""))
        seen[key] = Card(key, title, ended, str(payload.get("skill", "")), str(payload.get("stderr_summary", "")))
    yield from seen.values()


def _sop(store: Store, run: Run) -> Iterator[Card]:
    sop_state = sops.of_run(store, run)
    states: dict[str, State] = {"succeeded": "done", "skipped": "done", "waiting": "blocked", "pending": "waiting"}
    states |= {"running": "working"}
    notes = {"skipped": "skipped", "waiting": "waiting for an answer", "interrupted": "interrupted"}
    for step in sop_state["steps"] if sop_state is not None else ():
        state = states.get(step["status"], "failed")
        note = notes.get(step["status"], str(step.get("error", "")))
        yield Card(step["id"], step["id"], state, step.get("tool") or step["kind"], note)


def _tests(store: Store, run: Run) -> Iterator[Card]:
    last: dict[str, Card] = {}
    for event in runs.events_of_types(store, run, ("test_judged", "test_ran"), 10_000):
        payload = event.payload
        key = f"{payload.get('criterion', '')} {payload.get('test', '')}"
        ok = payload.get("accepted") if event.event_type == "test_judged" else payload.get("exit_code") == 0
        note = str(payload.get("reason") or ("" if ok else f"exit {payload.get('exit_code')}"))
        last[key] = Card(
            key, f"test {payload.get('test', '')}", "done" if ok else "failed", str(payload.get("criterion", "")), note
        )
    yield from last.values()


def _todos(store: Store, run: Run) -> Iterator[Card]:
    states: dict[str, State] = {"in_progress": "working", "completed": "done"}
    for number, todo in enumerate(lists.todos(store, run.session_id)):
        yield Card(str(number), todo.content, states.get(todo.status, "waiting"))
