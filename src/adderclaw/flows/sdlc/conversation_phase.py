"""A conversation's way from plan to proof, for every client: its phase, its plan, and its next phases."""

import json
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Literal

from adderclaw.agent.legacy.plan_baseline import record_baseline
from adderclaw.agent.session.clock import random_ids
from adderclaw.agent.tool_call.approvals import person_answering
from adderclaw.config import Loaded, home, load
from adderclaw.config.schema import Config
from adderclaw.core.errors import UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import PHASES, Json, Phase
from adderclaw.flows.sdlc import baseline as trees
from adderclaw.sandbox.legacy.checkpoints import baseline
from adderclaw.sandbox.operator_only import require_operator
from adderclaw.storage import Store, transcript
from adderclaw.storage.sdlc import baselines, criteria, phases, plans
from adderclaw.storage.sdlc.phases import TABLE, Mover, Transition, TransitionRefused
from adderclaw.storage.sdlc.plans import Plan

MAX_PLAN = 256 * 1024


type Ask = Callable[[str], Awaitable[str | None]]


class Desk(NamedTuple):
    """The store, configuration and workspace with which an operator moves conversations between phases."""

    store: Store
    config: Config
    workspace: str
    by: Mover


@contextmanager
def opened(
    config_file: str | None, workspace: str | None, channel: str, *, looks: bool = False, how: str = ""
) -> Generator[Desk]:
    """`looks`: only reads; creates no files."""
    loaded: Loaded = load(config_file=config_file, workspace=workspace, here=True, looks=True)
    path = loaded.config.memory.path
    store = Store.open(path, read_only=looks, in_files=loaded.config.memory.backend == "file")
    try:
        yield Desk(store, loaded.config, loaded.workspace, Mover("operator", person_answering(how or channel)))
    finally:
        store.close()


def conversation(desk: Desk, name: str | None) -> str:
    """The conversation with this id, session id or prefix of either; without a name, the last one in the workspace."""
    if name is not None:
        conversation_id = transcript.conversation_of(desk.store, name)
        if conversation_id is None:
            raise UsageError(f"no conversation has the id {name[:100]!r}: see `adderclaw memory list`")
        return conversation_id
    conversation_id = last(desk)
    if conversation_id is None:
        raise UsageError(f"{desk.workspace} has no conversation yet: name one (--conversation ID), or begin one")
    return conversation_id


def last(desk: Desk) -> str | None:
    return plans.last_conversation(desk.store, desk.workspace)


# ------------------------------------------------------------------ reading


def phase_overview(desk: Desk, conversation_id: str) -> Json:
    """The phase, the approved plan (else the last one), and what each following phase still requires."""
    row = plans.last(desk.store, conversation_id, "approved") or plans.last(desk.store, conversation_id)
    planned = None if row is None else _plan_json(desk, row)
    tree = _tree(desk, conversation_id)
    with desk.store.snapshot() as cursor:
        phase = phases.phase_of(desk.store, conversation_id)
        following: list[Json] = []
        for to in PHASES:
            rule = TABLE[phase, to]
            if rule.allows is not None:
                reasons = phases.refusal_reasons(cursor, conversation_id, to, by=desk.by, tree=tree)
                following.append({"phase": to, "on": rule.text, "closed": reasons})
        return {
            "conversation": conversation_id,
            "phase": phase,
            "workspace": transcript.workspace_of(desk.store, conversation_id),
            "plan": planned,
            "next": following,
        }


def _plan_json(desk: Desk, plan: Plan) -> Json:
    fields: Json = plan._asdict()
    del fields["content"]
    return {
        **fields,
        "criteria": [criterion._asdict() for criterion in _criteria(desk, plan)],
        "baseline": baselines.exists(desk.store, plan.id),
    }


def _criteria(desk: Desk, plan: Plan) -> tuple[criteria.Criterion, ...]:
    with desk.store.snapshot() as cursor:
        return criteria.of_plan(cursor, plan.id)


def listed(desk: Desk, conversation_id: str) -> list[Json]:
    """Every version of the plan with its text."""
    return [{**_plan_json(desk, plan), "content": plan.content} for plan in plans.listing(desk.store, conversation_id)]


def history(desk: Desk, conversation_id: str) -> list[Json]:
    """Every change of phase and every approval, oldest first."""
    changes: list[Json] = []
    for change in phases.history(desk.store, conversation_id):
        detail: Json = json.loads(change.detail)
        changes.append({"id": change.id, "timestamp": change.timestamp, "event": change.event, **detail})
    return changes


# ------------------------------------------------------------------ moving


def plan(desk: Desk, conversation_id: str | None, text: str) -> Json:
    """Stores a new draft of the plan and moves the conversation to `planning`; without an id, begins a conversation."""
    if not text.strip():
        raise UsageError("the plan is empty: describe the change and its success criteria")
    if len(text) > MAX_PLAN:
        raise UsageError(f"the plan has {len(text)} characters; at most {MAX_PLAN} can be approved")
    criteria.parse(text)  # raises before anything is stored
    id = conversation_id or random_ids("conversation")
    with desk.store.write() as cursor:
        if conversation_id is None:
            session = random_ids("session")
            transcript.begin(cursor, conversation_id=id, session_id=session, project_dir=desk.workspace)
        if (
            conversation_id is None
            or phases.phase_text(desk.store, id) != "planning"
            or plans.approved_plan(cursor, id) is not None
        ):
            phases.transition(cursor, id, "planning", by=desk.by)
        number = plans.draft(cursor, id, text)
    row = plans.last(desk.store, id)
    assert row is not None
    assert row.id == number
    notice = "" if _criteria(desk, row) else "it has no section of success criteria, so nothing in it can be proved"
    return {"conversation": id, "phase": "planning", "plan": _plan_json(desk, row), "notice": notice}


class Seen(NamedTuple):
    """What the operator was shown and approves: exactly that plan, or its report."""

    what: Literal["plan", "report"]
    plan: int


def waits(desk: Desk, conversation_id: str) -> Seen:
    """What the operator can approve now. Raises TransitionRefused if there is nothing."""
    phase = phases.phase_of(desk.store, conversation_id)
    row = None
    if phase in ("planning", "verify"):
        row = plans.last(desk.store, conversation_id, "draft" if phase == "planning" else "approved")
    if row is not None:
        return Seen("plan" if phase == "planning" else "report", row.id)
    missing = f"it has no {'drafted' if phase == 'planning' else 'approved'} plan"
    if phase not in ("planning", "verify"):
        missing = f"the conversation is in {phase}"
    raise TransitionRefused(f"there is nothing to approve: {missing}; see `adderclaw sdlc status`")


def approve(desk: Desk, conversation_id: str, seen: Seen, *, new_baseline: bool = False) -> Json:
    """Approves the drafted plan, or, in `verify`, the report, if it is still what the operator was shown.

    `new_baseline`: prove against the workspace as it is now, even if this is a new version of an approved plan.
    """
    require_operator(f"Approving a {seen.what}", desk.store.path)
    if new_baseline and seen.what == "report":
        raise UsageError("a new baseline needs the approval of a plan, but the report is waiting for approval")
    if (now := waits(desk, conversation_id)) != seen:
        raise TransitionRefused(
            f"the {now.what} of plan {now.plan} is waiting for approval, not the {seen.what} of {seen.plan}"
        )
    if seen.what == "report":
        return _moved(conversation_id, _move(desk, conversation_id, "done", approves=True))
    root = transcript.workspace_of(desk.store, conversation_id)

    def taking() -> baselines.TreeSnapshot:
        return record_baseline(desk.store, desk.config, home(), root)

    moved = baseline.approve(desk.store, conversation_id, seen.plan, desk.by, taking, new_baseline=new_baseline)
    return _moved(conversation_id, moved)


def transition(desk: Desk, conversation_id: str, to: Phase) -> Json:
    """Moves the conversation to a phase. Raises TransitionRefused if the table or its condition does not allow it."""
    require_operator("Moving a conversation to another phase", desk.store.path)
    return _moved(conversation_id, _move(desk, conversation_id, to))


def _move(desk: Desk, conversation_id: str, to: Phase, *, approves: bool = False) -> Transition:
    tree = _tree(desk, conversation_id)
    with desk.store.write() as cursor:
        return phases.transition(cursor, conversation_id, to, by=desk.by, tree=tree, approves=approves)


def _tree(desk: Desk, conversation_id: str) -> str:
    """The digest of the workspace now, in the phases whose conditions depend on it."""
    if phases.phase_text(desk.store, conversation_id) not in ("test", "verify"):
        return ""
    counted = plans.last(desk.store, conversation_id, "approved")
    return "" if counted is None else trees.tree(desk.store, desk.config, home(), counted.id)


def _moved(conversation_id: str, moved: Transition) -> Json:
    number = None if moved.plan is None else moved.plan.id
    return {
        "conversation": conversation_id,
        "from": moved.before,
        "phase": moved.phase,
        "plan": number,
        "notice": moved.notice,
    }
