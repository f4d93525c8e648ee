"""What goes on now, read from the rows of all processes and from what lives in this one: for the pages alone."""

import time
from collections.abc import Sequence

from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.agent.queries import clean
from adderclaw.agent.view.items import Call
from adderclaw.agent.view.rows import Rows
from adderclaw.core.record import NamedTuple
from adderclaw.server.client_scope import places
from adderclaw.server.endpoint import Called
from adderclaw.server.pages.questions import Asked
from adderclaw.storage import Store, approvals, runs, threads, transcript
from adderclaw.storage.approvals import Approval
from adderclaw.storage.queries import conversations
from adderclaw.storage.runs import Run

MOST_QUESTIONS = 50
MOST_RUNNING = 50


class Step(NamedTuple):
    """What a session does now."""

    words: str
    call: Call | None = None
    asks: bool = False
    """It waits for a person."""


class Working(NamedTuple):
    """A run in which a process works."""

    run: Run
    title: str
    folder: str
    step: Step
    is_here: bool
    """In this process: it can be steered."""


class Talk(NamedTuple):
    """A conversation of the list."""

    row: transcript.Conversation
    state: str
    """idle, working, asking; empty where it is not open in this server."""
    came_from: str = ""
    """The sender and the channel, where a chat system sent it."""


class Glance(NamedTuple):
    stopped: bool
    questions: list[Asked]
    working: list[Working]
    talks: list[Talk]
    runs: list[Run]


def glance(called: Called) -> Glance:
    seen = places(called)
    store = called.house.store
    return Glance(
        called.house.stopped,
        waiting(called),
        _working(called, seen),
        talks(called, "", 6),
        [run for run in runs.listing(store, 40, seen) if run.kind != "agent"][:6],
    )


# ------------------------------------------------------------------ questions


def waiting(called: Called, conversation: str | None = None) -> list[Asked]:
    """Those that somebody waits for, the oldest first; of one conversation, or of all that the client sees."""
    rows = approvals.listing(
        called.house.store,
        everything=False,
        limit=MOST_QUESTIONS,
        places=places(called),
        conversation=conversation,
    )
    made = (asked(called, row) for row in rows if row.state(time.time()) == "pending")
    return [one for one in made if conversation in (None, one.conversation_id)]


def asked(called: Called, row: Approval) -> Asked:
    """A question with where it was asked."""
    store = called.house.store
    id = conversations.of_session(store, row.session_id)
    folder = transcript.workspace_of(store, id) if id else ""
    here = called.house.conversations.get(id)
    request = here.questions.get(row.id) if here is not None else None
    return Asked(row, id, clean(title(store, id)), clean(folder), request, row.state(time.time()))


def one(called: Called, id: str) -> Asked | None:
    row = approvals.get(called.house.store, id)
    return asked(called, row) if row is not None else None


def title(store: Store, id: str) -> str:
    """Its name; where it has none, the beginning of its first message."""
    if named := transcript.title(store, id):
        return named
    first = conversations.first_message(store, id)
    return transcript.beginning(first) if first else ""


# ------------------------------------------------------------------ what runs


def _working(called: Called, seen: Sequence[str]) -> list[Working]:
    store = called.house.store
    made: list[Working] = []
    for run in runs.found(store, status="running", limit=MOST_RUNNING):
        folder = transcript.workspace_of(store, run.conversation_id)
        if seen and folder not in seen:
            continue
        here = called.house.conversations.get(run.conversation_id)
        now = _step_here(here) if here is not None else step(store, run.session_id, folder)
        if now is not None:
            made.append(Working(run, clean(title(store, run.conversation_id)), clean(folder), now, here is not None))
    return made


def _step_here(one: Conversation) -> Step | None:
    if one.state == "idle":
        return None
    calls = [call for call in one.running.values() if call.state in ("asked", "running")]
    asks = one.state == "asking"
    return Step("waits for you" if asks else "waits for the model", calls[-1] if calls else None, asks)


def step(store: Store, session_id: str, folder: str) -> Step | None:
    """What is done in a session, by its latest entry; None where it waits for the next message."""
    entry = conversations.latest_entry(store, session_id)
    if entry is None:
        return None
    kind, use = entry
    if kind == "tool_use":
        return Step("runs a tool", Rows(store, clean, folder).call(session_id, str(use)))
    return Step("waits for the model") if kind in ("user", "tool_result") else None


# ------------------------------------------------------------------ conversations


def talks(called: Called, words: str, limit: int) -> list[Talk]:
    """The most recent first; with `words`, those in which they occur."""
    store, seen = called.house.store, places(called)
    looked = 500 if words else limit
    found = [one for one in transcript.conversations(store, looked, seen, begun=True) if one.title]
    if words:
        hits = {hit.conversation_id for hit in transcript.search(store, words, 200, seen or None)}
        lowered = words.lower()
        found = [one for one in found if lowered in one.title.lower() or one.id in hits or one.id.startswith(words)]
    return [_talk(called, one) for one in found[:limit]]


def _talk(called: Called, row: transcript.Conversation) -> Talk:
    here = called.house.conversations.get(row.id)
    came_from = threads.came_from(transcript.client_of(called.house.store, row.id))
    shown = row._replace(title=clean(row.title), project_dir=clean(row.project_dir))
    return Talk(shown, here.state if here else "", clean(came_from))
