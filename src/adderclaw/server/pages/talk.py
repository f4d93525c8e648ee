"""One conversation as a page shows it: its items as far as they have come, its state, what it used."""

from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.agent.queries import clean
from adderclaw.agent.view.html import Html, el
from adderclaw.agent.view.items import Call, Item, Words
from adderclaw.agent.view.rows import Rows
from adderclaw.core.record import NamedTuple
from adderclaw.server.conversations import folder_of
from adderclaw.server.endpoint import Called
from adderclaw.server.pages.parts import state
from adderclaw.storage import Store, locks, transcript
from adderclaw.storage.queries import conversations

PAGE = 150
"""Items that are shown at once; earlier ones are a link away."""


class Used(NamedTuple):
    calls: int
    tokens: int
    cost: float
    model: str


def steers(called: Called, one: Conversation) -> bool:
    return called.client.has("operate") and called.client.steers(one.client, folder_of(one))


def items(store: Store, one: Conversation) -> list[Item]:
    """All of it; calls that run as far as they have come."""
    running = one.running
    made = list(Rows(store, clean, folder_of(one)).conversation(one.id))
    return [running.get(item.key, item) if isinstance(item, Call) else item for item in made]


def prompts(store: Store, one: Conversation) -> list[Words]:
    """Messages of the session at hand that one can go back to before."""
    sessions = transcript.sessions_of(store, one.id)
    made = Rows(store, clean, folder_of(one)).session(sessions[-1]) if sessions else iter(())
    return [item for item in made if isinstance(item, Words) and item.role == "user"]


def is_elsewhere(store: Store, one: Conversation) -> bool:
    """Whether another process works in it: it can be watched here, not talked to."""
    if one.run is not None:
        return False
    return any(locks.holder(store.path, session) for session in transcript.sessions_of(store, one.id)[-1:])


def used(store: Store, id: str) -> Used:
    count, put, got, model, cost = conversations.usage(store, id)
    return Used(count, int(put or 0) + int(got or 0), float(cost or 0), clean(str(model or "")))


def status(store: Store, one: Conversation, *, elsewhere: bool) -> Html:
    """The line beneath the transcript: state, mode, model, what it used."""
    words = used(store, one.id)
    session = one.run.session if one.run is not None else None
    now = "open in another process" if elsewhere else {"working": "works", "asking": "asks you"}.get(one.state, "ready")
    policy = session.scene.policy if session is not None else None
    budget = session.budget if session is not None else None
    cost = max(words.cost, budget.cost or 0.0 if budget is not None else 0.0)
    parts = [
        (policy.mode or policy.autonomy_now) if policy is not None else "",
        clean(session.model) if session is not None else words.model,
        f"{words.calls} model call{'' if words.calls == 1 else 's'}" if words.calls else "",
        f"{words.tokens:,} tokens" if words.tokens else "",
        f"${cost:.2f}" if cost else "",
        f"{len(one.queued)} waiting" if one.queued else "",
    ]
    doing = one.state if one.state in ("working", "asking") else ""
    shown = state(doing) if doing else el("span", now)
    line = [el("span", part) for part in parts if part]
    return el("div", shown, line, class_="status", id="status", role="status")
