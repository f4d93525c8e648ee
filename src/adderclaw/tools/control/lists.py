"""TodoWrite, and the task list beside it: TaskCreate, TaskGet, TaskList, TaskUpdate."""

from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.core.json_text import canonical
from adderclaw.core.record import record
from adderclaw.core.types import Json, Tool, ToolContext, ToolResult, Touch, fixed_prepare, own_words, rejected
from adderclaw.tools.specs import spec

if TYPE_CHECKING:
    from adderclaw.storage import Store
    from adderclaw.storage.lists import Task
    from adderclaw.tools import Kit

type Status = Literal["pending", "in_progress", "completed"]

MOST = 200
MAX_TEXT = 8 * 1024
NO_STORE = "there is no list in this run: it was started without a database."
MARKS = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]"}


@record
class TodoItem:
    content: str
    status: Status
    activeForm: str = ""


@record
class TodoWriteArguments:
    todos: list[TodoItem]


@record
class TaskCreateArguments:
    subject: str
    description: str
    activeForm: str = ""
    metadata: Json = field(default_factory=dict[str, Any])


@record
class TaskGetArguments:
    taskId: str


@record
class TaskListArguments:
    pass


@record
class TaskUpdateArguments:
    taskId: str
    subject: str | None = None
    description: str | None = None
    activeForm: str | None = None
    status: Literal["pending", "in_progress", "completed", "deleted"] | None = None
    addBlocks: list[str] = field(default_factory=list[str])
    addBlockedBy: list[str] = field(default_factory=list[str])
    owner: str | None = None
    metadata: Json = field(default_factory=dict[str, Any])


# ------------------------------------------------------------------ todos


def write_todos(store: "Store", given: TodoWriteArguments, ctx: ToolContext) -> ToolResult:
    from adderclaw.storage import lists

    if len(given.todos) > MOST:
        return rejected(f"{len(given.todos)} todos; at most {MOST} are kept.")
    for place, todo in enumerate(given.todos, 1):
        if not todo.content.strip() or len(todo.content) > MAX_TEXT or len(todo.activeForm) > MAX_TEXT:
            return rejected(f"todo {place} is empty or longer than {MAX_TEXT} characters.")
    new = [lists.Todo(todo.content, todo.status, todo.activeForm) for todo in given.todos]
    old = lists.todos(store, ctx.session_id)
    with store.write() as cursor:
        lists.replace_todos(cursor, ctx.session_id, new)
    if not new:
        return own_words("The todo list is empty now.", {"oldTodos": len(old), "newTodos": 0})
    lines = [f"{MARKS[todo.status]} {todo.content}" for todo in new]
    done = sum(todo.status == "completed" for todo in new)
    return own_words(f"{done} of {len(new)} done:\n" + "\n".join(lines), {"oldTodos": len(old), "newTodos": len(new)})


# ------------------------------------------------------------------ tasks


def line(task: "Task") -> str:
    owner = f" ({task.owner})" if task.owner else ""
    waits = f" [waits for {', '.join(f'#{number}' for number in task.blocked_by)}]" if task.blocked_by else ""
    return f"#{task.number} {MARKS[task.status]} {task.subject}{owner}{waits}"


async def create(store: "Store", given: TaskCreateArguments, ctx: ToolContext) -> ToolResult:
    from adderclaw.storage import lists

    if (wrong := _too_long(given.subject, given.description, given.activeForm, canonical(given.metadata))) or (
        not given.subject.strip()
    ):
        return rejected(wrong or "the subject is empty.")
    if len(lists.tasks(store, ctx.conversation_id)) >= MOST:
        return rejected(f"there are {MOST} tasks already: delete what is done.")
    with store.write() as cursor:
        number = lists.create(
            cursor, ctx.conversation_id, given.subject, given.description, given.activeForm, given.metadata
        )
    blocked = await _blocked(ctx, "TaskCreated", number, given.subject, given.description)
    if blocked is not None:
        with store.write() as cursor:
            lists.delete(cursor, ctx.conversation_id, number)
        return rejected(f"the task was not kept: {blocked}")
    return own_words(f"Task #{number} created: {given.subject}", {"task": {"id": str(number)}})


async def get(store: "Store", given: TaskGetArguments, ctx: ToolContext) -> ToolResult:
    found = _find(store, ctx, given.taskId)
    if isinstance(found, ToolResult):
        return found
    parts = [line(found), found.description]
    if found.blocks:
        parts.append(f"blocks: {', '.join(f'#{number}' for number in found.blocks)}")
    if found.metadata:
        parts.append(f"metadata: {canonical(found.metadata)}")
    return own_words("\n".join(part for part in parts if part), {"task": found._asdict()})


async def listing(store: "Store", _given: TaskListArguments, ctx: ToolContext) -> ToolResult:
    from adderclaw.storage import lists

    found = lists.tasks(store, ctx.conversation_id)
    return own_words("\n".join(map(line, found)) or "There are no tasks.", {"tasks": len(found)})


async def update(store: "Store", given: TaskUpdateArguments, ctx: ToolContext) -> ToolResult:
    from adderclaw.storage import lists

    found = _find(store, ctx, given.taskId)
    if isinstance(found, ToolResult):
        return found
    if given.status == "deleted":
        with store.write() as cursor:
            lists.delete(cursor, ctx.conversation_id, found.number)
        return own_words(f"Task #{found.number} deleted.", {"updatedFields": ["status"]})
    links = _new_links(store, given, found, ctx)
    if isinstance(links, str):
        return rejected(links)
    fields = _changes(given, found)
    if wrong := _too_long(*(text if isinstance(text, str) else canonical(text) for text in fields.values())):
        return rejected(wrong)
    if fields.get("subject", "x").strip() == "":
        return rejected("the subject is empty.")
    if fields.get("status") == "completed" and found.status != "completed":
        blocked = await _blocked(ctx, "TaskCompleted", found.number, found.subject, found.description)
        if blocked is not None:
            return rejected(f"the task is not completed: {blocked}")
    with store.write() as cursor:
        lists.change(cursor, ctx.conversation_id, found.number, fields)
        for blocker, waiting in links:
            lists.link(cursor, ctx.conversation_id, blocker, waiting)
    changed = [*fields, *(["links"] if links else [])]
    now = lists.task(store, ctx.conversation_id, found.number)
    told = line(now) if now is not None else f"#{found.number}"
    return own_words(f"{told}\nchanged: {', '.join(changed) or 'nothing'}", {"updatedFields": changed})


def _changes(given: TaskUpdateArguments, found: "Task") -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "subject": given.subject,
        "description": given.description,
        "active_form": given.activeForm,
        "status": given.status,
        "owner": given.owner,
    }
    fields = {name: value for name, value in wanted.items() if value is not None}
    if given.metadata:
        merged = {**found.metadata, **given.metadata}
        fields["metadata_json"] = {key: value for key, value in merged.items() if value is not None}
    return fields


def _new_links(
    store: "Store", given: TaskUpdateArguments, found: "Task", ctx: ToolContext
) -> list[tuple[int, int]] | str:
    """(blocker, blocked) pairs to add, or what is wrong with them."""
    from adderclaw.storage import lists

    everything = {task.number: task for task in lists.tasks(store, ctx.conversation_id)}
    pairs: list[tuple[int, int]] = []
    for name, blocks in [(name, True) for name in given.addBlocks] + [(name, False) for name in given.addBlockedBy]:
        other = _number(name)
        if other not in everything:
            return f"there is no task {name[:40]!r}."
        pairs.append((found.number, other) if blocks else (other, found.number))
    after: dict[int, set[int]] = {number: set(task.blocks) for number, task in everything.items()}
    for blocker, blocked in pairs:
        if blocker == blocked or _reaches(after, blocked, blocker):
            return f"#{blocked} cannot wait for #{blocker}: each would wait for the other."
        after[blocker].add(blocked)
    return pairs


def _reaches(after: dict[int, set[int]], start: int, goal: int) -> bool:
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        number = waiting.pop()
        if number == goal:
            return True
        if number not in seen:
            seen.add(number)
            waiting += after.get(number, ())
    return False


def _find(store: "Store", ctx: ToolContext, name: str) -> "Task | ToolResult":
    from adderclaw.storage import lists

    found = lists.task(store, ctx.conversation_id, _number(name))
    return found or rejected(f"there is no task {name[:40]!r}; TaskList shows them.")


def _number(name: str) -> int:
    digits = name.strip().removeprefix("#")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0


def _too_long(*texts: str) -> str | None:
    longest = max(map(len, texts), default=0)
    return f"a text of {longest} characters; at most {MAX_TEXT} are kept in one field." if longest > MAX_TEXT else None


async def _blocked(ctx: ToolContext, event: str, number: int, subject: str, description: str) -> str | None:
    """Why a hook does not let it happen, if one does not."""
    task = {"task_id": str(number), "task_subject": subject, "task_description": description}
    said = await ctx.host.run_hooks(event, task)
    return (said.reason or "a hook blocked it") if said.blocked else None


# ------------------------------------------------------------------ the tools


def tools(kit: "Kit") -> tuple[Tool[Any], ...]:
    async def todos(store: "Store", given: TodoWriteArguments, ctx: ToolContext) -> ToolResult:
        return write_todos(store, given, ctx)

    return (
        _tool(kit, "TodoWrite", TodoWriteArguments, "keeps the todo list", todos, deferred=False),
        _tool(kit, "TaskCreate", TaskCreateArguments, "adds a task to the list", create),
        _tool(kit, "TaskGet", TaskGetArguments, "reads the task list", get),
        _tool(kit, "TaskList", TaskListArguments, "reads the task list", listing),
        _tool(kit, "TaskUpdate", TaskUpdateArguments, "changes the task list", update),
    )


def _tool[A](
    kit: "Kit",
    name: str,
    arguments: type[A],
    why: str,
    act: "Callable[[Store, A, ToolContext], Awaitable[ToolResult]]",
    *,
    deferred: bool = True,
) -> Tool[A]:
    async def run(given: A, ctx: ToolContext) -> ToolResult:
        return rejected(NO_STORE) if kit.store is None else await act(kit.store, given, ctx)

    known = spec(name)
    return Tool(
        name,
        arguments,
        fixed_prepare(Touch(why=why), run),
        known.description,
        known.parameters,
        timeout=lambda _given: 660.0,  # hooks of TaskCreated and TaskCompleted may take their time
        deferred=deferred,
    )
