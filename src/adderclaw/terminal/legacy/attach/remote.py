"""A conversation of the server as we follow it: what was drawn is drawn once, and what broke off goes on."""

import asyncio
from collections.abc import Iterable
from typing import Literal, Protocol, cast

from adderclaw.agent.view import wire
from adderclaw.agent.view.items import Call, Item, Notice, Words
from adderclaw.core.decode import Invalid
from adderclaw.core.deltas import GrowingText
from adderclaw.core.questions import Answer, ApprovalRequest, Operator, Option, Question, QuestionRequest
from adderclaw.core.types import Json
from adderclaw.terminal.legacy.attach.link import Event, Gone, Link, Refused

PAGE = 500
"""Items that are drawn of what was said before."""
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between two tries to reach a server that is gone; the last one holds from there on."""

type State = Literal["idle", "working", "asking", "ended"]


class Face(Protocol):
    """Who draws it: a screen, or lines."""

    @property
    def operator(self) -> Operator: ...
    def greet(self, items: Iterable[Item]) -> None: ...
    def show(self, item: Item) -> None:
        """An item that is new or has changed; an answer only if it was not heard."""
        ...

    def hear(self, kind: str, text: str) -> None: ...
    def whole(self) -> None:
        """What was heard is the whole answer."""
        ...

    def changed(self, state: State) -> None: ...
    def ended(self, outcome: str, reason: str) -> None: ...


class Remote:
    """One conversation, from when we come until we leave; it goes on without us."""

    def __init__(self, link: Link, id: str, face: Face) -> None:
        self.link, self.id, self.face = link, id, face
        self.about: Json = {}
        """As the server described it last."""
        self.state: State = "idle"
        self._drawn: set[str] = set()
        self._heard = GrowingText()
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._sending: set[str] = set()
        """Questions that were answered here."""
        self._idle = asyncio.Event()
        self.ready = asyncio.Event()
        """What was said before is drawn."""
        self.over = asyncio.Event()
        """There is nothing to follow any more."""

    # -------------------------------------------------------------- what we do

    @property
    def path(self) -> str:
        return f"/conversations/{self.id}"

    async def send(self, text: str) -> None:
        self._idle.clear()
        await self.link.post(f"{self.path}/messages", {"text": text})

    async def interrupt(self) -> None:
        try:
            await self.link.post(f"{self.path}/interrupt")
        except Refused as error:
            if error.status != 409:  # it ended in this very moment
                raise

    async def quiet(self) -> None:
        """Wait until nothing is done any more."""
        await self._idle.wait()

    def leave(self) -> None:
        for task in self._asked.values():
            task.cancel()

    # -------------------------------------------------------------- what we follow

    async def follow(self) -> None:
        """Draw all that happens; where the server is gone, wait for it, and miss nothing. Until it is cancelled."""
        tries = 0
        while True:
            try:
                after = await self._read()
                tries = 0
                async for event in self.link.events(f"{self.path}/events", after):
                    if event.kind == "dropped":
                        break
                    self._take(event)
                else:
                    await self._stopped()
                if self.over.is_set():
                    return
            except (Gone, Refused) as error:
                if isinstance(error, Refused) and error.status not in (401, 503):
                    self._say("error", str(error))
                    self.over.set()
                    return
                if not tries:
                    self._say("warning", f"{error}; trying again until it is back (Ctrl-D leaves)")
                await self._again(PAUSES[min(tries, len(PAUSES) - 1)])
                tries += 1

    async def _again(self, pause: float) -> None:
        await asyncio.sleep(pause)
        try:
            await self.link.connect()
        except Gone:
            return
        self._say("note", f"the server is there, at {self.link.address}")

    async def _stopped(self) -> None:
        """The stream ended in good order: the conversation was closed, or the server ends."""
        self.about = await self.link.get(self.path)
        if self.about["state"] == "ended":
            self._say("note", f"the conversation was closed; `adderclaw attach {self.id}` opens it again")
            self.over.set()
        else:
            await asyncio.sleep(PAUSES[0])

    async def _read(self) -> int:
        """Draw what we have not drawn yet; the id after which all else comes as events."""
        page = await self.link.get(f"{self.path}/items", limit=PAGE)
        items = [item for data in page["items"] if (item := _item(data)) is not None]
        if not self.ready.is_set():
            if page["start"]:
                self._say("note", f"{page['start']} earlier items are not shown; `/export FILE` writes all of them")
            settled = [item for item in items if not (isinstance(item, Call) and not item.ended)]
            self.face.greet(settled)
            self._drawn |= {item.key for item in settled}
        for item in items:
            self._show(item)
        if page["partial"] and not self._heard:
            self._hear("text", str(page["partial"]))
        self.about = await self.link.get(self.path)
        self._change(self.about["state"])
        waiting = {str(one["id"]): one for one in self.about["questions"]}
        for id in [id for id in self._asked if id not in waiting]:
            self._asked.pop(id).cancel()
        for one in waiting.values():
            self._ask(one)
        self.ready.set()
        return int(page["last_event_id"])

    def _take(self, event: Event) -> None:
        data = cast(Json, event.data)
        match event.kind:
            case "item":
                if (item := _item(data)) is not None:
                    self._show(item)
            case "delta":
                self._hear(str(data.get("kind")), str(data.get("text", "")))
            case "state":
                self._change(cast(State, data["state"]))
            case "question":
                self._ask(data)
            case "answered":
                self._settled(data)
            case "ended":
                self.face.ended(str(data.get("outcome")), str(data.get("reason") or ""))
            case _:
                pass

    def _show(self, item: Item) -> None:
        if item.key and item.key in self._drawn:
            return
        if not isinstance(item, Call) or item.ended:
            self._drawn.add(item.key)
        if isinstance(item, Words) and item.role == "assistant":
            heard = str(self._heard)
            self._heard.clear()
            if heard.strip():
                self.face.whole()
                return
        self.face.show(item)

    def _hear(self, kind: str, text: str) -> None:
        if kind == "reset":
            self._heard.clear()
        elif kind == "text":
            self._heard.add(text)
        self.face.hear(kind, text)

    def _change(self, state: State) -> None:
        self.state = state
        if state in ("idle", "ended"):
            self._idle.set()
        else:
            self._idle.clear()
        self.face.changed(state)

    def _say(self, kind: Literal["note", "warning", "error"], text: str) -> None:
        self.face.show(Notice("", kind, text))

    # -------------------------------------------------------------- questions

    def _ask(self, data: Json) -> None:
        id = str(data["id"])
        if id in self._asked:
            return
        task = self._asked[id] = asyncio.ensure_future(self._answer(id, data))
        task.add_done_callback(lambda _done: None)

    async def _answer(self, id: str, data: Json) -> None:
        """Ask here; whoever answers first, here or elsewhere, has answered."""
        request = _request(data)
        if isinstance(request, ApprovalRequest):
            given = await self.face.operator.approve(request)
        else:
            given = await self.face.operator.ask(request)
        if given.remember == "user":
            given = given._replace(remember="project")
            self._say("note", "kept for this project alone: for every project it is said in the local REPL")
        self._sending.add(id)
        try:
            await self.link.post(f"{self.path}/questions/{id}/answer", _answer(given, request))
        except Refused as error:
            self._say("warning", f"the answer does not count: {error}")
        except Gone as error:
            self._sending.discard(id)
            self._asked.pop(id, None)  # it is asked again once the server is back
            self._say("warning", f"the answer was not sent: {error}")

    def _settled(self, data: Json) -> None:
        task = self._asked.get(str(data.get("id")))
        if task is not None and not task.done() and data.get("id") not in self._sending:
            task.cancel()
            word = "yes" if data.get("approved") else "no"
            self._say("note", f"answered elsewhere: {word}, by {data.get('by') or 'another client'}")


def _item(data: object) -> Item | None:
    """None: of a kind that a later server may have."""
    try:
        return wire.item_from_json(data)
    except Invalid:
        return None


def _request(data: Json) -> ApprovalRequest | QuestionRequest:
    if data.get("kind") == "question":
        return QuestionRequest(tuple(_question(one) for one in data["questions"]), id=str(data["id"]))
    return ApprovalRequest(
        tool=data["tool"],
        risk=data["risk"],
        reason=data["reason"],
        shown=data["shown"],
        tool_use_id=data.get("tool_use_id", ""),
        plan_hash=data.get("plan_hash", ""),
        grants=tuple(data.get("grants", ())),
        id=data["id"],
        preview=data.get("preview", ""),
        touches=tuple(data.get("touches", ())),
        registries=tuple(data.get("registries", ())),
    )


def _question(data: Json) -> Question:
    options = tuple(
        Option(one["label"], one.get("description", ""), one.get("preview", "")) for one in data.get("options", ())
    )
    multi = bool(data.get("multi", data.get("multiSelect", False)))
    return Question(data["question"], data.get("header", ""), options, multi)


def _answer(given: Answer, request: ApprovalRequest | QuestionRequest) -> Json:
    body: Json = {"approved": given.approved, "comment": given.comment}
    if isinstance(request, QuestionRequest):
        return body | ({"replies": given.replies} if given.replies is not None else {})
    body |= {"plan": request.plan_hash} if request.plan_hash else {}
    return body | ({"remember": given.remember} if given.remember else {})
