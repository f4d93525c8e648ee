"""The overview page: open questions, running work and its current step, the stop, and recent runs."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.agent.queries import clean, conversations
from adderclaw.agent.queries.conversations import Step
from adderclaw.agent.view.markup import element_id, macro
from adderclaw.core.record import NamedTuple
from adderclaw.server import streams
from adderclaw.server.client_scope import visible_folders
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.pages import live, questions
from adderclaw.server.pages.conversation import ListedConversation, list_conversations
from adderclaw.server.pages.page import Entry, page
from adderclaw.server.pages.questions import Card
from adderclaw.storage import runs, transcript
from adderclaw.storage.runs import Run

if TYPE_CHECKING:
    from markupsafe import Markup
    from sse_starlette import ServerSentEvent

PAUSE = 0.5
"""Seconds between two checks for a change."""
REFRESH_SECONDS = 20.0
"""Seconds after which the page is read again without a change: a question that expires writes nothing."""
ANSWERED_UPDATES = 40
"""Updates for which an answered question stays on the page, with its answer."""
MOST_RUNNING = 50

type Parts = dict[str, tuple[str, Markup]]
"""Id of an element → the region that it belongs to, and the element."""


class ActiveRun(NamedTuple):
    """A run that a process is working on."""

    id: str
    run: Run
    title: str
    folder: str
    step: Step
    is_here: bool
    """Whether it is in this process, so that it can be interrupted here."""

    @property
    def is_asking(self) -> bool:
        call = self.step.call
        return (call is not None and call.state == "asked") or self.step.is_asking


class Output(NamedTuple):
    questions: list[Card]
    working: list[ActiveRun]
    talks: list[ListedConversation]
    runs: list[Run]


async def _read(request: ApiRequest) -> Output:
    seen = visible_folders(request)
    recent = [run for run in runs.listing(request.state.store, 40, seen) if run.kind != "agent"][:6]
    return Output(
        questions.waiting_cards(request), _active_runs(request, seen), list_conversations(request, "", 6), recent
    )


def _active_runs(request: ApiRequest, seen: Sequence[str]) -> list[ActiveRun]:
    store = request.state.store
    working: list[ActiveRun] = []
    for run in runs.search(store, status="running", limit=MOST_RUNNING):
        folder = transcript.workspace_of(store, run.conversation_id)
        if seen and folder not in seen:
            continue
        here = request.state.conversations.get(run.conversation_id)
        step = _step_here(here) if here is not None else conversations.step(store, run.session_id, folder)
        if step is not None:
            title = clean(conversations.title(store, run.conversation_id)) or run.run_id
            id = element_id(f"run {run.run_id}")
            working.append(ActiveRun(id, run, title, clean(folder), step, here is not None))
    return working


def _step_here(conversation: Conversation) -> Step | None:
    if conversation.state == "idle":
        return None
    calls = [call for call in conversation.running.values() if call.state in ("asked", "running")]
    is_asking = conversation.state == "asking"
    words = "waits for you" if is_asking else "waits for the model"
    return Step(words, calls[-1] if calls else None, is_asking)


# ------------------------------------------------------------------ while the page is open


async def _events(request: ApiRequest) -> object:
    return streams.event_response(_changes(request))


async def _changes(request: ApiRequest) -> AsyncGenerator["ServerSentEvent"]:
    """Sends each changed element; first all of them, because the page may be outdated."""
    sent: Parts = {}
    answered: dict[str, int] = {}
    while True:
        before = _version(request)  # read first: what changes while a slow page is sent its updates is not missed
        output = await _read(request)
        parts = _parts(request, output)
        _add_answered(request, sent, parts, answered)
        for id in sent.keys() - parts.keys():
            yield live.put(id, None)
        for id, (into, html) in parts.items():
            if id not in sent or sent[id][1] != html:
                yield live.put(id, html, into)
        sent = parts
        waited = PAUSE
        await asyncio.sleep(PAUSE)
        while waited < REFRESH_SECONDS and _version(request) == before:
            await asyncio.sleep(PAUSE)
            waited += PAUSE


def _parts(request: ApiRequest, output: Output) -> Parts:
    parts: Parts = {
        "stopped": ("", macro("parts", "stopped", request.state.stopped)),
        "waiting-count": ("", macro("parts", "waiting_count", len(output.questions))),
        **{shown.id: ("questions", questions.render_card(shown)) for shown in output.questions},
        **{shown.id: ("running", macro("parts", "working", shown)) for shown in output.working},
        "talk-list": ("talks", macro("parts", "talks", output.talks, "talk-list")),
        "run-list": ("runs", macro("parts", "runs", output.runs)),
    }
    if not output.questions:
        parts["no-questions"] = ("questions", macro("parts", "no_questions"))
    if not output.working:
        parts["no-running"] = ("running", macro("parts", "nothing_runs"))
    return parts


def _add_answered(request: ApiRequest, sent: Parts, parts: Parts, answered: dict[str, int]) -> None:
    """Shows a question with its answer for a while after it was answered, perhaps by another client."""
    for id in [id for id in sent if id.startswith("q-") and id not in parts]:
        answered[id] = answered.get(id, 0) + 1
        if answered[id] <= ANSWERED_UPDATES and (card := questions.find_answered(request, id)) is not None:
            parts[id] = ("questions", questions.render_card(card))


def _version(request: ApiRequest) -> object:
    """A value that changes when any process writes, the stop changes, or work in this process takes a step."""
    state = request.state
    here = [
        (conversation.id, conversation.state, [call.state for call in conversation.running.values()])
        for conversation in state.conversations.all()
    ]
    return state.store.version(), state.stopped, here


ENTRY = Entry(10, "/", "Overview", "o")
ENDPOINTS = (
    page(ENTRY.path, _read, "overview.html", "What runs, what waits, what was done last."),
    Endpoint("GET", "/ui/overview/events", "read", _events, "Changes of it.", is_page=True, reach="filtered"),
)
