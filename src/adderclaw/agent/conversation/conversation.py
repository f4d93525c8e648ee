"""A conversation that many clients can watch. Its messages are queued; each is a turn that can be interrupted."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from adderclaw.agent.conversation.asking import Cancelling
from adderclaw.agent.conversation.by_name import expanded
from adderclaw.agent.conversation.updates import READ_AGAIN, Updates
from adderclaw.agent.conversation.watched import BOUNDS, END, Bounds, Full, State, Unknown, Watched
from adderclaw.agent.loop.loop import run_turn
from adderclaw.agent.run import Options, Resume, Run, open_run, start
from adderclaw.agent.run.drive import drive, one_turn, without_secrets
from adderclaw.agent.run.start import loaded_by
from adderclaw.agent.session.clock import random_ids
from adderclaw.agent.session.session import NO_ATTACHMENTS, Attached, TurnResult
from adderclaw.agent.tool_call.approvals import NoOperator
from adderclaw.config.managed import PROFILES, profile_for_others
from adderclaw.core.deltas import GrowingText
from adderclaw.core.errors import SessionInUse, UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Delta, MediaBlock, OnDelta
from adderclaw.storage import transcript

MOST_RESULTS = 200
"""The number of turns whose results are kept."""


class Message(NamedTuple):
    turn: str
    text: str | None
    """None: continue an interrupted turn."""
    attached: Attached
    client: str
    by_name: bool = True
    """Whether text that begins with `/` may call a skill or a command."""


class Conversation(Watched):
    """A hosted conversation. Its run is open while it is used; after a long idle time it sleeps."""

    def __init__(
        self,
        options: Options,
        client: str,
        channel: str,
        *,
        asks: bool = True,
        patience: float | None = None,
        rest: float | None = None,
        woke: "Callable[[Conversation], None]" = lambda _one: None,
        room: "Callable[[], Awaitable[None]] | None" = None,
        bounds: Bounds = BOUNDS,
    ) -> None:
        """`asks`: whether its clients answer questions. `rest`: idle seconds before it releases its sandbox.
        `patience`: further idle seconds before it sleeps."""
        super().__init__("", client, channel, bounds)
        self._most = bounds.queued
        self.options, self.asks, self._patience, self._rest = options, asks, patience, rest
        self.chosen: dict[str, str] = {}
        """The profile, provider and model that clients chose; also in the store."""
        self.otherwise: Options | None = None
        """Its options without the stored profile, if the client that opened it now did not choose that."""
        self._woke, self._room = woke, room
        self.run: Run | None = None
        """None while it sleeps."""
        self._messages: deque[Message] = deque()
        self._more = asyncio.Event()
        self._waking = asyncio.Lock()
        self._life: asyncio.Task[None] | None = None
        self._at_hand: Message | None = None
        self._work = Cancelling()
        self._results: dict[str, asyncio.Future[TurnResult]] = {}
        self._leaves = False
        """Whether it is about to sleep or end, and accepts no further messages."""
        self._closed = False
        self._alone = asyncio.Lock()
        """Held by the current turn, or by an operation in place of one."""
        self._heard: _Heard | None = None
        self.before: Conversation | None = None
        """An earlier object of the same conversation that is still ending; its run must end before this one begins."""

    # -------------------------------------------------------------- what clients do

    @property
    def state(self) -> State:
        if self._closed:
            return "ended"
        if self._asking.open:
            return "asking"
        return "working" if self._at_hand is not None or self._messages or self._alone.locked() else "idle"

    @property
    def turn(self) -> str:
        return self._at_hand.turn if self._at_hand is not None else ""

    @property
    def queued(self) -> list[Message]:
        return list(self._messages)

    async def send(
        self,
        text: str,
        *,
        client: str,
        images: Sequence[MediaBlock] = (),
        attached: Attached = NO_ATTACHMENTS,
        granted: bool = False,
        by_name: bool = True,
    ) -> str:
        """Begin a turn with the message, or queue it; returns the turn's id."""
        self.require(client, granted=granted)
        if not text.strip() and not images and not attached.texts:
            raise UsageError("the message is empty; say what the agent should do")
        attached = attached._replace(media=(*attached.media, *images))
        return await self._queue(text, attached, client, by_name=by_name)

    async def go_on(self, client: str, *, granted: bool = False) -> str:
        """Finish an interrupted turn, in a conversation that was opened with `go_on`."""
        self.require(client, granted=granted)
        return await self._queue(None, NO_ATTACHMENTS, client)

    async def _queue(self, text: str | None, attached: Attached, client: str, *, by_name: bool = True) -> str:
        run = await self.awake()
        if len(self._messages) >= self._most:  # other messages may have come while it woke
            raise Full(f"{self._most} messages are already waiting in {self.id}; wait until they are answered")
        if attached.media and not run.session.provider.capabilities().images:
            raise UsageError(f"the model {run.session.model} does not support images; omit them, or use another model")
        message = Message(random_ids("turn"), text, attached, client, by_name)
        self._results[message.turn] = asyncio.get_running_loop().create_future()
        while len(self._results) > MOST_RESULTS + self._most:
            del self._results[next(iter(self._results))]
        self._messages.append(message)
        self._more.set()
        self._changed()
        return message.turn

    async def ended(self, turn: str) -> TurnResult:
        """Wait for the result of a turn. Cancelling the wait does not affect the turn."""
        result = self._results.get(turn)
        if result is None:
            raise Unknown(f"{self.id} has no turn {turn!r} whose result is kept")
        return await asyncio.shield(result)

    def knows(self, turn: str) -> bool:
        """Whether the result of a turn is kept here or pending."""
        return turn in self._results

    def is_over(self, turn: str) -> bool:
        return turn in self._results and self._results[turn].done()

    @property
    def partial(self) -> str:
        """The part of the current answer that has arrived so far."""
        return self._heard.text if self._heard is not None else ""

    async def alone[T](self, client: str, work: Callable[[Run], Awaitable[T]], *, granted: bool = False) -> T:
        """Run an operation, such as a rewind, in place of a turn; messages wait. Followers are told to read again."""
        self.require(client, granted=granted)
        if self.state != "idle":
            raise SessionInUse(f"{self.id} is working; interrupt it first, or wait until it is idle")
        async with self._alone:
            result = await work(await self.awake())
        self.updates.publish("dropped", {"missed": 0, "fix": READ_AGAIN})
        return result

    def interrupt(self, client: str, *, turn: str | None = None, granted: bool = False, why: str = "") -> bool:
        """Interrupt the current turn, or this one; queued messages continue. False if there is nothing to interrupt."""
        self.require(client, granted=granted)
        why = why or f"interrupted by {client}"
        for message in self._messages:
            if message.turn == turn:
                self._messages.remove(message)
                self._settled(message.turn, TurnResult("stopped", "", why))
                return True
        if self._at_hand is None or turn not in (None, self._at_hand.turn):
            return False
        self._work.cancel(why)
        return True

    # -------------------------------------------------------------- open, sleep, close

    @property
    def is_open(self) -> bool:
        """Whether it uses resources; also while it begins and ends."""
        return self._life is not None and not self._life.done()

    async def begin(self, again: Resume | None) -> None:
        """Open its run: a new conversation, or a resumed one."""
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        if self.before is not None:
            await self.before.over()
            self.before = None
        self._leaves = self._closed
        task = self._life = loop.create_task(self._lived(again, opened))
        task.add_done_callback(self._slept)
        await asyncio.wait({task, opened}, return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            task.result()  # raises the error that prevented the start

    async def awake(self, again: Resume | None = None) -> Run:
        """Its run. If it sleeps, the run is opened again."""
        async with self._waking:
            if self._closed:
                raise UsageError(f"{self.id} is closed; open it again by its id")
            if self._leaves and self._life is not None:
                await asyncio.wait({self._life})
            if self.run is None:
                if self._room is not None:
                    await self._room()
                if not self._closed:
                    await self.begin(again or Resume(self.id, go_on=False))
            if self.run is None or self._closed:
                raise UsageError(f"{self.id} was closed in the meantime; open it again by its id")
            return self.run

    async def close(self, why: str = "the conversation was closed") -> None:
        """End it at a safe point: everything is stored, and it can be resumed."""
        self._closed = self._leaves = True
        while self._messages:
            self._settled(self._messages.popleft().turn, TurnResult("stopped", "", why))
        self._work.cancel(why)
        self._more.set()
        await self.over()
        self._changed()
        self.updates.end()

    async def over(self) -> None:
        """Wait until its run has ended, and the one before it."""
        if self.before is not None:
            await self.before.over()
        if self._life is not None:
            await asyncio.wait({self._life})

    async def sleep(self) -> bool:
        """Close its run if it is idle; False if it is not."""
        if not self.is_idle or self._life is None:
            return False
        self._leaves = True
        self._more.set()
        await asyncio.wait({self._life})
        return True

    @property
    def is_idle(self) -> bool:
        """Whether no turn, question, operation or background task is active."""
        tasks = self.run.session.environment.kit.tasks if self.run is not None else None
        return self.state == "idle" and not (tasks is not None and any(task.running for task in tasks.listed()))

    async def _lived(self, again: Resume | None, opened: "asyncio.Future[None]") -> None:
        runtime = start(_stricter(self.options, self.otherwise))
        operator = self._asking if self.asks else NoOperator(waits=False)
        with open_run(runtime, operator, kind="agent", channel=self.channel, again=again) as run:
            session = run.session
            if not self.id and (again is None or again.fork):
                with session.store.write() as cursor:
                    transcript.set_client(cursor, session.conversation_id, self.client)
            if self.chosen:
                with session.store.write() as cursor:
                    transcript.store_choices(cursor, session.conversation_id, self.chosen)
            self.id, self.run = session.conversation_id, run
            self._attach(run)
            self._woke(self)
            opened.set_result(None)
            await drive(run, self._talked(run))

    def _slept(self, task: "asyncio.Task[None]") -> None:
        """Clean up after its run; queued messages fail if the run ended with an error."""
        self.run, self._at_hand = None, None
        self._detach()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._closed = True
            while self._messages:
                self._settled(self._messages.popleft().turn, TurnResult("error", "", str(error)))
            self._changed()
            self.updates.end()

    async def _talked(self, run: Run) -> TurnResult:
        last = TurnResult("completed", "")
        while (message := await self._next()) is not None:
            last = await self._answered(run, message)
        return last

    async def _next(self) -> Message | None:
        rests = self._rest is None
        while not self._messages and not self._leaves:
            self._more.clear()
            try:
                async with asyncio.timeout(self._patience if rests else self._rest):
                    await self._more.wait()
            except TimeoutError:
                if rests:
                    self._leaves = self.is_idle
                elif self.is_idle and self.run is not None:
                    self.run.rest()
                    rests = True
        return None if self._leaves and not self._messages else self._messages.popleft()

    async def _answered(self, run: Run, message: Message) -> TurnResult:
        """Run one turn and publish its result."""
        self._at_hand, self._work = message, Cancelling()
        run.session.budget.restart_limits()
        self._changed()

        def work(hear: OnDelta) -> Awaitable[TurnResult]:
            return self._work.done(_turn(run, message, hear))

        async with self._alone:
            self._heard = _Heard(self.updates, run.runtime.bus.deliver)
            result, rest = await one_turn(run.session, work, self._heard)
        self._heard = None
        run.runtime.bus.deliver()
        self._say(END)
        self._leaves = self._leaves or _is_cancelled()  # the process ends: no further turn
        result = without_secrets(run, result)
        self._at_hand = None
        self._settled(message.turn, result._replace(answer=rest or result.answer), run)
        return result

    def _settled(self, turn: str, result: TurnResult, run: Run | None = None) -> None:
        update = {"turn": turn, "outcome": result.outcome, "answer": result.answer, "reason": result.reason}
        if run is not None:
            budget = run.session.budget
            update |= {"usage": budget.usage.as_json(), "cost": budget.cost, "steps": budget.steps}
        self.updates.publish("ended", update)
        if turn in self._results and not self._results[turn].done():
            self._results[turn].set_result(result)
        self._changed()


def _stricter(options: Options, otherwise: Options | None) -> Options:
    """The options with a stored profile only if it is not looser than what the operator allows here."""
    if otherwise is None or options.profile is None:
        return options
    loaded = loaded_by(otherwise, otherwise.workspace, otherwise.overrides, here=otherwise.here)
    most = profile_for_others(loaded.config, otherwise.profile)
    is_known = options.profile in PROFILES and PROFILES.index(options.profile) <= PROFILES.index(most)
    return options if is_known else otherwise


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _turn(run: Run, message: Message, hear: OnDelta) -> TurnResult:
    text = message.text
    if text is not None and message.by_name and text.lstrip().startswith("/"):
        text = await expanded(run.session, text.lstrip())
    return await run_turn(run.session, text, hear, attached=message.attached)


class _Heard:
    """The answer while it arrives."""

    def __init__(self, updates: Updates, catch_up: Callable[[], None]) -> None:
        self._updates, self._catch_up = updates, catch_up
        self._text = GrowingText()

    @property
    def text(self) -> str:
        return str(self._text)

    def __call__(self, delta: Delta) -> None:
        if delta.kind == "tool":
            return
        if delta.kind == "text":
            self._catch_up()  # publish earlier events first
            self._text.add(delta.text)
        elif delta.kind == "reset":
            self._text.clear()
        self._updates.delta(delta.kind, delta.text)
