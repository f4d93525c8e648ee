"""MemorySearch, MemoryRead and MemoryWrite: search earlier conversations, and read and write notes by key."""

from collections.abc import Callable
from typing import Any

from adderclaw.core.host import ToolContext
from adderclaw.core.record import record
from adderclaw.core.types import Alias, Clock, Prepared, Tool, ToolResult, Touch, own_words, rejected
from adderclaw.storage import Store
from adderclaw.tools.paths import printable
from adderclaw.tools.specs import builtin_tool

MAX_HITS = 50
MAX_KEY = 200
MAX_VALUE = 64 * 1024
NO_STORE = "Memory is not available: this run was started without a database."


@record
class MemorySearchArguments:
    query: str
    limit: int = 10
    all: bool = False
    """Search every project, not only this one."""


@record
class MemoryReadArguments:
    key: str


@record
class MemoryWriteArguments:
    key: str
    value: str


def search(store: Store, arguments: MemorySearchArguments, ctx: ToolContext) -> ToolResult:
    from adderclaw.storage import memory, transcript

    if not arguments.query.strip():
        return rejected("query is empty. Say what to search for.")
    if not 1 <= arguments.limit <= MAX_HITS:
        return rejected(f"limit is {arguments.limit}; it must be from 1 to {MAX_HITS}.")
    project = None if arguments.all else ctx.workspace.root
    notes = memory.find(store, arguments.query, max(1, arguments.limit // 2), project)  # the rest is for conversations
    words = arguments.query.lower().split()
    lines = [f"note {printable(note.key)}: {printable(transcript.snippet(note.content, words))}" for note in notes]
    left = arguments.limit - len(lines)
    hits = transcript.search(store, arguments.query, left, project) if left else []
    lines += [f"{hit.conversation_id} {hit.created_at} {hit.role}: {printable(hit.snippet)}" for hit in hits]
    if not lines:
        where = "" if arguments.all else " in the notes and in the conversations of this project"
        return own_words(f"No matches found{where}", {"hits": 0})
    return ToolResult("\n".join(lines), metadata={"hits": len(lines)})


def read(store: Store, arguments: MemoryReadArguments, ctx: ToolContext) -> ToolResult:
    from adderclaw.storage import memory

    project = ctx.workspace.root
    if (note := memory.get(store, arguments.key, project)) is not None:
        return ToolResult(note.content, metadata={"key": arguments.key})
    near = ", ".join(printable(match.key) for match in memory.find(store, arguments.key, 5, project))
    hint = f" Similar keys: {near}." if near else ""
    return rejected(f"There is no note with the key {printable(arguments.key[:MAX_KEY])!r}.{hint}")


def note_problem(arguments: MemoryWriteArguments) -> str:
    """Why a note cannot be stored; empty if it can."""
    key = arguments.key
    if not key.strip() or not key.isprintable() or len(key) > MAX_KEY:
        return f"the key {printable(key[:MAX_KEY])!r} must be 1 to {MAX_KEY} printable characters."
    size = len(arguments.value.encode("utf-8", "replace"))
    return f"the value has {size} bytes; at most {MAX_VALUE} are allowed per note." if size > MAX_VALUE else ""


def write(store: Store, arguments: MemoryWriteArguments, now: float, ctx: ToolContext) -> ToolResult:
    """Stores a note of this project. Only an approved call makes it a confirmed note."""
    from adderclaw.storage import memory

    if why := note_problem(arguments):
        return rejected(why)
    key, size, project = arguments.key, len(arguments.value.encode("utf-8", "replace")), ctx.workspace.root
    before = memory.get(store, key, project)
    if not ctx.approved and before is not None and before.project == project and before.confirmed:
        if before.content == arguments.value:
            return own_words(f"{key} already has this value", {"key": key, "bytes": size})
        return rejected(
            f"the operator confirmed the note {printable(key)!r}, so it cannot be replaced without asking them."
            " Use another key."
        )
    if not ctx.approved and before is None and memory.has_too_many_unconfirmed(store, project):
        return rejected(
            f"this project already has {memory.MAX_UNCONFIRMED} unconfirmed notes. Overwrite one of them, or tell the"
            " operator: `adderclaw memory notes` lists them and `adderclaw memory forget` removes one."
        )
    with store.write() as cursor:
        memory.put(cursor, key, arguments.value, project=project, confirmed=ctx.approved, now=now)
    later = (
        ""
        if ctx.approved
        else "; MemoryRead and MemorySearch find it. Later prompts include it once the operator confirms it"
    )
    return own_words(f"Saved {key} ({size} bytes){later}", {"key": key, "bytes": size, "confirmed": ctx.approved})


# ------------------------------------------------------------------ the tools


def _tool[A](
    name: str,
    arguments: type[A],
    alias: str,
    touch: Callable[[A], Touch],
    store: Store | None,
    act: Callable[[Store, A, ToolContext], ToolResult],
    fails: Callable[[A], str] = lambda _given: "",
) -> Tool[A]:
    async def run(args: A, ctx: ToolContext) -> ToolResult:
        return rejected(NO_STORE) if store is None else act(store, args, ctx)

    def prepare(args: A, ctx: ToolContext) -> Prepared:
        return Prepared(touch(args), lambda: run(args, ctx), fails=lambda: fails(args))

    return builtin_tool(name, arguments, prepare, (Alias(alias),), deferred=True)


def _touch_search(arguments: MemorySearchArguments) -> Touch:
    every = "searches the conversations of every project"
    return (
        Touch(why=every, beyond=every) if arguments.all else Touch(why="searches earlier conversations of this project")
    )


def tools(store: Store | None, clock: Clock) -> tuple[Tool[Any], ...]:
    def keep(opened: Store, arguments: MemoryWriteArguments, ctx: ToolContext) -> ToolResult:
        return write(opened, arguments, clock.now(), ctx)

    def touch_read(_given: MemoryReadArguments) -> Touch:
        return Touch(why="reads a note")

    def touch_write(_given: MemoryWriteArguments) -> Touch:
        # later conversations see the note, so writing one is never low risk
        return Touch(why="writes a note", opaque=True)

    return (
        _tool("MemorySearch", MemorySearchArguments, "memory_search", _touch_search, store, search),
        _tool("MemoryRead", MemoryReadArguments, "memory_read", touch_read, store, read),
        _tool("MemoryWrite", MemoryWriteArguments, "memory_write", touch_write, store, keep, note_problem),
    )
