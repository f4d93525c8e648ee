"""A stream of numbered updates with a bounded buffer. A follower is only a position in it."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, Literal

from adderclaw.agent.conversation import asking
from adderclaw.agent.view import wire
from adderclaw.agent.view.items import Call, Item, Words
from adderclaw.core.questions import ApprovalRequest
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json

type Kind = Literal["item", "delta", "state", "question", "answered", "ended", "event", "dropped"]
"""item: a new or changed item, whose key stays; delta: a part of the current answer, which an item later contains;
state: what it is doing; question and answered; ended: a turn or a run; event: of a run; dropped: updates were lost."""

MOST = 2_000
"""Updates that are kept for slow or returning followers."""
MOST_BYTES = 1 << 20
"""The same in characters, approximately."""
PAUSE = 0.03
"""Seconds for which parts of an answer are joined, because a model may send hundreds per second."""
LONGEST_PART = 4_096
READ_AGAIN = "read the items again, which contain everything; then continue after this id"


class Update(NamedTuple):
    id: int
    """Higher than all earlier ids, also those of an earlier process."""
    kind: Kind
    data: Any
    """An Item, the request of a question, or JSON."""

    def as_json(self) -> Json:
        """Its data as JSON."""
        if self.kind == "item":
            return wire.item_to_json(self.data)
        return asking.as_json(self.data) if self.kind == "question" else self.data


class Updates:
    """One stream of updates. A follower that does not read delays nobody, but may lose updates."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: deque[tuple[Update, int]] = deque()
        self._size = 0
        self.last = time.time_ns() // 1_000_000
        """The id of the latest update."""
        self._lost = False
        self._news = asyncio.Event()
        self._ended = False
        self._part: tuple[str, list[str]] = ("", [])
        self._part_size = 0
        self._timer: asyncio.TimerHandle | None = None
        self.followers = 0

    # -------------------------------------------------------------- in

    def publish(self, kind: Kind, data: Any) -> None:
        self.flush()
        self._put(kind, data)

    def delta(self, kind: str, text: str) -> None:
        """Publish a part of the answer; parts that arrive close together are joined."""
        if kind != self._part[0] or kind == "reset":
            self.flush()
            self._part = (kind, [])
        self._part[1].append(text)
        self._part_size += len(text)
        if kind == "reset" or self._part_size >= LONGEST_PART:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE, self.flush)

    def flush(self) -> None:
        """Publish the joined parts of the answer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        kind, texts = self._part
        self._part, self._part_size = ("", []), 0
        if texts:
            self._put("delta", {"kind": kind, "text": "".join(texts)})

    def end(self) -> None:
        """End the stream; followers end after they have read everything."""
        self.flush()
        self._ended = True
        self._wake()

    def _put(self, kind: Kind, data: Any) -> None:
        self.last = max(self.last + 1, 1)
        size = _size(data)
        self._kept.append((Update(self.last, kind, data), size))
        self._size += size
        while len(self._kept) > self._most or (self._size > MOST_BYTES and len(self._kept) > 1):
            self._size -= self._kept.popleft()[1]
            self._lost = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._news = self._news, asyncio.Event()
        waiting.set()

    # -------------------------------------------------------------- out

    async def follow(self, after: int | None = None) -> AsyncGenerator[Update]:
        """Yield updates from now on, or those after an id; 0: all in the buffer.

        One `dropped` update replaces those that are no longer in the buffer.
        """
        at = self.last if after is None else after
        if after == 0 and not self._lost:
            at = self._before
        self.followers += 1
        try:
            while True:
                if not self._before <= at <= self.last:
                    lost = Update(self._before, "dropped", _lost(at, self._before))
                    at = self._before
                    yield lost
                elif at < self.last:
                    update = self._kept[at - self._before][0]
                    at = update.id
                    yield update
                elif self._ended:
                    return
                else:
                    await self._news.wait()
        finally:
            self.followers -= 1

    @property
    def _before(self) -> int:
        """The id before the oldest update in the buffer."""
        return self._kept[0][0].id - 1 if self._kept else self.last


def _lost(at: int, before: int) -> Json:
    missed = before - at if 0 < at < before else None
    return {"missed": missed, "fix": READ_AGAIN}


def _size(data: object) -> int:
    """The approximate number of characters of an update's data."""
    if isinstance(data, dict):
        return 200 + sum(len(value) if isinstance(value, str) else 50 for value in data.values())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(data, ApprovalRequest):
        return 500 + 2 * len(data.shown) + len(data.preview)
    return 500 + _size_of_item(data) if isinstance(data, (Words, Call)) else 500


def _size_of_item(item: Item) -> int:
    if isinstance(item, Call):
        lines = item.change.lines if item.change is not None else ()
        input_size = sum(len(value) if isinstance(value, str) else 50 for value in item.input.values())
        return len(item.output) + sum(len(line.text) + 50 for line in lines) + input_size
    return len(item.text)
