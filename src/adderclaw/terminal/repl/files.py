"""The files that @ offers: listed in the background, and searched without delaying a key."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import islice

from adderclaw.agent.run import Run
from adderclaw.core.record import NamedTuple

CHUNK = 1_000
"""How many names are searched at once."""
TURN_SECONDS = 0.003
"""After this time the search lets keys be handled."""
FRESH_SECONDS = 5.0
"""For this time a list is not renewed."""
SHOWN = 50
MOST_HITS = 400
"""How many matches are ranked to show the best."""
ENOUGH_HITS = 10
"""With so many names that contain the word, no less exact search follows."""
EXACT_LENGTH = 3
"""For a word of at least this length, one name that contains it is enough."""
MIN_SIMILARITY = 75.0
"""Of a name to a misspelt word; 100 means equal."""


class Chunk(NamedTuple):
    names: Sequence[str]
    lowered: str
    """The same names in lower case, one per line."""


class Index(NamedTuple):
    """The names of one listing, ready to be searched; folders end with a slash."""

    chunks: Sequence[Chunk] = ()
    first: Sequence[str] = ()
    """The names shown before anything is typed."""


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
    """The files of one session. The first names, or an old list, are offered during a listing."""

    def __init__(self, run: Run, on_more: Callable[[], None]) -> None:
        """`on_more` is called when a search happened during the first listing and more names are known."""
        self._run, self._on_more = run, on_more
        self.index = Index()
        self._listed_at = 0.0
        self._is_awaited = False
        self.listing: asyncio.Task[None] | None = None

    def renew(self) -> None:
        """Renews the list in the background, unless it is fresh."""
        if self.listing is None and (not self._listed_at or time.monotonic() - self._listed_at > FRESH_SECONDS):
            self.listing = asyncio.get_running_loop().create_task(self._list())

    def poll(self) -> None:
        """Notes that a name is being searched."""
        self.renew()
        self._is_awaited = not self._listed_at

    async def _list(self) -> None:
        from adderclaw.core.errors import AdderClawError
        from adderclaw.tools.listing import list_files

        workspace, start = self._run.session.environment.context.workspace, self._run.session.environment.kit.start
        roots = (workspace.root, *workspace.extra)
        names: list[str] = []
        try:
            for root in roots:
                sink = self._first if root == workspace.root and not self._listed_at else None
                paths = await list_files(root, roots, start, sink)
                names += paths if root == workspace.root else [f"{root}/{name}" for name in paths]
            self.index = await asyncio.to_thread(build_index, names)
        except (AdderClawError, OSError):
            pass  # the menu stays as it was, and a name typed by hand gets an error that says why
        finally:
            self._listed_at, self.listing = time.monotonic(), None
            if self._is_awaited:
                self._is_awaited = False
                self._on_more()

    def _first(self, names: Sequence[str]) -> None:
        """Takes the first names of the list, few enough not to delay a key."""
        self.index = build_index(names[:CHUNK])
        if self._is_awaited:
            self._on_more()

    async def search(self, typed: str, is_current: Callable[[], bool]) -> AsyncIterator[str]:
        """Yields the best names for the typed text until it changes; never names of files that may not be read."""
        hidden = self._run.session.environment.context.is_hidden
        root = self._run.session.environment.context.workspace.root
        async for name in search_index(self.index, typed, is_current):
            if not hidden(f"{root}/{name.rstrip('/')}" if not name.startswith("/") else name.rstrip("/")):
                yield name


async def search_index(index: Index, typed: str, is_current: Callable[[], bool]) -> AsyncIterator[str]:
    if not typed:
        for name in index.first:
            yield name
        return
    word = typed.lower()
    shown: dict[str, None] = {}
    enough = ENOUGH_HITS if len(word) < EXACT_LENGTH else 1
    for search in (_containing, _with_letters_in_order, _similar):
        hits: list[str] = []
        before = time.monotonic()
        for matches in search(index, word):
            hits += islice(matches, MOST_HITS - len(hits))
            if len(hits) >= MOST_HITS:
                break
            if time.monotonic() - before > TURN_SECONDS:
                await asyncio.sleep(0)
                before = time.monotonic()
                if not is_current():
                    return
        for name in _best(hits, word):
            if name not in shown and len(shown) < SHOWN:
                shown[name] = None
                yield name
        if len(shown) >= (enough if search is _containing else 1):
            return


def _best(hits: Sequence[str], word: str) -> list[str]:
    """Names that start with the word, names that contain it, then the others by similarity; short ones first."""
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
    """Names that contain the letters of the word in order."""
    # possessive, so that the time is linear in the length of any name
    letters = "".join(f"[^{re.escape(letter)}\n]*+{re.escape(letter)}" for letter in word)
    pattern = re.compile(f"(?m)^{letters}")
    for chunk in index.chunks:
        names, text = chunk.names, chunk.lowered
        yield (names[text.count("\n", 0, hit.start())] for hit in pattern.finditer(text))


def _similar(index: Index, word: str) -> Iterator[Iterator[str]]:
    """Names whose last part is similar to the word, which may be misspelt."""
    from rapidfuzz import fuzz, process

    if len(word) < 3:
        return
    for chunk in index.chunks:
        last = [line.rstrip("/").rpartition("/")[2] for line in chunk.lowered.split("\n")]
        best = process.extract(word, last, scorer=fuzz.ratio, limit=5, score_cutoff=MIN_SIMILARITY)
        yield (chunk.names[position] for _, _, position in best)
