"""The files that @ names: listed once beside the conversation, and searched without holding up a key."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import islice

from adderclaw.agent.run import Run
from adderclaw.core.record import NamedTuple

CHUNK = 1_000
"""Names that are searched in one go."""
TURN = 0.003
"""Seconds after which the search lets keys pass."""
FRESH = 5.0
"""Seconds for which a list is not made anew."""
SHOWN = 50
HITS = 400
"""Names with the typed word in them, of which the best are shown."""
ENOUGH = 10
"""So many of them, and no others are looked for."""
LONG = 3
"""Letters of a word that is surely meant as it is typed, where a name has it."""
LIKENESS = 75.0
"""Of a name to a word with a mistake in it; 100 is the same."""


class Chunk(NamedTuple):
    names: Sequence[str]
    lowered: str
    """The same, one a line."""


class Index(NamedTuple):
    """The names of one listing, ready to be searched; folders end with a slash."""

    chunks: Sequence[Chunk] = ()
    first: Sequence[str] = ()
    """What is shown before anything is typed."""


def build_index(names: Sequence[str]) -> Index:
    folders = {f"{folder}/": None for name in names for folder in _above(name)}
    every = [*folders, *names]
    top = [name for name in every if "/" not in name.rstrip("/")]
    chunks = [every[at : at + CHUNK] for at in range(0, len(every), CHUNK)]
    return Index([Chunk(part, "\n".join(part).lower()) for part in chunks], sorted(top)[:SHOWN])


def _above(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


class Files:
    """The list of one session. What is known of it is used while it is made, and an old one while a new one is."""

    def __init__(self, run: Run, more: Callable[[], None]) -> None:
        """`more` is called where names were looked for while the first list was made, and more of them are known."""
        self._run, self._more = run, more
        self.index = Index()
        self._made = 0.0
        self._is_awaited = False
        self.making: asyncio.Task[None] | None = None

    def renew(self) -> None:
        """Make the list anew, unless that was done just now."""
        if self.making is None and (not self._made or time.monotonic() - self._made > FRESH):
            self.making = asyncio.get_running_loop().create_task(self._list())

    def poll(self) -> None:
        """Somebody looks for a name."""
        self.renew()
        self._is_awaited = not self._made

    async def _list(self) -> None:
        from adderclaw.core.errors import AdderClawError
        from adderclaw.tools.listing import list_files

        workspace, start = self._run.session.environment.context.workspace, self._run.session.environment.kit.start
        roots = (workspace.root, *workspace.extra)
        names: list[str] = []
        try:
            for root in roots:
                sink = self._first if root == workspace.root and not self._made else None
                paths = await list_files(root, roots, start, sink)
                names += paths if root == workspace.root else [f"{root}/{name}" for name in paths]
            self.index = await asyncio.to_thread(build_index, names)
        except (AdderClawError, OSError):
            pass  # the menu stays as it was: who types a name by hand is answered with what is wrong
        finally:
            self._made, self.making = time.monotonic(), None
            if self._is_awaited:
                self._is_awaited = False
                self._more()

    def _first(self, names: Sequence[str]) -> None:
        """The first names of the list, in its order: so many that finding them holds up no key."""
        self.index = build_index(names[:CHUNK])
        if self._is_awaited:
            self._more()

    async def search(self, typed: str, is_wanted: Callable[[], bool]) -> AsyncIterator[str]:
        """The best names for what is typed, until nobody wants them any more; never what may not be read."""
        hidden = self._run.session.environment.context.is_hidden
        root = self._run.session.environment.context.workspace.root
        async for name in search_index(self.index, typed, is_wanted):
            if not hidden(f"{root}/{name.rstrip('/')}" if not name.startswith("/") else name.rstrip("/")):
                yield name


async def search_index(index: Index, typed: str, is_wanted: Callable[[], bool]) -> AsyncIterator[str]:
    if not typed:
        for name in index.first:
            yield name
        return
    word = typed.lower()
    shown: dict[str, None] = {}
    enough = ENOUGH if len(word) < LONG else 1
    for search in (_containing, _with_letters_in_order, _similar):
        hits: list[str] = []
        before = time.monotonic()
        for matches in search(index, word):
            hits += islice(matches, HITS - len(hits))
            if len(hits) >= HITS:
                break
            if time.monotonic() - before > TURN:
                await asyncio.sleep(0)
                before = time.monotonic()
                if not is_wanted():
                    return
        for name in _best(hits, word):
            if name not in shown and len(shown) < SHOWN:
                shown[name] = None
                yield name
        if len(shown) >= (enough if search is _containing else 1):
            return


def _best(hits: Sequence[str], word: str) -> list[str]:
    """Names that begin with the word, those that hold it, then the others by how like they are; short ones first."""
    from rapidfuzz import fuzz

    def rank(name: str) -> tuple[int, float, int, str]:
        lowered = name.lower()
        last = lowered.rstrip("/").rpartition("/")[2]
        if word in lowered:
            return 0 if last.startswith(word) else 1 if word in last else 2, 0.0, len(name), name
        return 3, -fuzz.WRatio(word, lowered), len(name), name

    return sorted(hits, key=rank)


def _containing(index: Index, word: str) -> Iterator[Iterator[str]]:
    for chunk in index.chunks:
        yield _lines(chunk, word)


def _lines(chunk: Chunk, word: str) -> Iterator[str]:
    at, line, text = 0, 0, chunk.lowered
    while (hit := text.find(word, at)) >= 0:
        line += text.count("\n", at, hit)
        yield chunk.names[line]
        end = text.find("\n", hit)
        if end < 0:
            return
        at, line = end + 1, line + 1


def _with_letters_in_order(index: Index, word: str) -> Iterator[Iterator[str]]:
    """Names that have the letters of the word in their order."""
    # possessive: no name, however made, takes longer than its length
    letters = "".join(f"[^{re.escape(letter)}\n]*+{re.escape(letter)}" for letter in word)
    pattern = re.compile(f"(?m)^{letters}")
    for chunk in index.chunks:
        names, text = chunk.names, chunk.lowered
        yield (names[text.count("\n", 0, hit.start())] for hit in pattern.finditer(text))


def _similar(index: Index, word: str) -> Iterator[Iterator[str]]:
    """Names of which a part is like the word, for one with a mistake in it."""
    from rapidfuzz import fuzz, process

    if len(word) < 3:
        return
    for chunk in index.chunks:
        last = [line.rstrip("/").rpartition("/")[2] for line in chunk.lowered.split("\n")]
        best = process.extract(word, last, scorer=fuzz.ratio, limit=5, score_cutoff=LIKENESS)
        yield (chunk.names[position] for _, _, position in best)
