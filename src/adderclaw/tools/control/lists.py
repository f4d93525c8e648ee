"""TodoWrite, and the shared task list: TaskCreate, TaskGet, TaskList, TaskUpdate."""

from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.core.host import ToolContext
from adderclaw.core.json_text import canonical
from adderclaw.core.record import record
from adderclaw.core.types import Json, Tool, ToolResult, Touch, fixed_prepare, own_words, rejected
from adderclaw.tools.specs import builtin_tool

if TYPE_CHECKING:
    from adderclaw.storage import Store
    from adderclaw.storage.lists import Task
    from adderclaw.tools.kit import Kit

type Status = Literal["pending", "in_progress", "completed"]

MAX_ITEMS = 200
MAX_TEXT = 8 * 1024
NO_STORE = "Lists are not available: this run was started without a database."
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


def write_todos(store: "Store", arguments: TodoWriteArguments, ctx: ToolContext) -> ToolResult:
    from adderclaw.storage import lists

    if len(arguments.todos) > MAX_ITEMS:
        return rejected(f"{len(arguments.todos)} todos; at most {MAX_ITEMS} are kept.")
    for number, todo in enumerate(arguments.todos, 1):
        if not todo.content.strip() or len(todo.content) > MAX_TEXT or len(todo.activeForm) > MAX_TEXT:
            return rejected(f"todo {number} is empty or longer than {MAX_TEXT} characters.")
    new = [lists.Todo(todo.content, todo.status, todo.activeForm) for todo in arguments.todos]
    old = lists.todos(store, ctx.session_id)
    with store.write() as cursor:
        lists.replace_todos(cursor, ctx.session_id, new)
    if not new:
        return own_words("The todo list is empty now.", {"oldTodos": len(old), "newTodos": 0})
    lines = [f"{MARKS[todo.status]} {todo.content}" for todo in new]
    done = sum(todo.status == "completed" for todo in new)
    return own_words(f"{done} of {len(new)} done:\n" + "\n".join(lines), {"oldTodos": len(old), "newTodos": len(new)})


# ------------------------------------------------------------------ tasks


def task_line(task: "Task") -> str:
    owner = f" ({task.owner})" if task.owner else ""
    waits = f" [waits for {', '.join(f'#{number}' for number in task.blocked_by)}]" if task.blocked_by else ""
    return f"#{task.number} {MARKS[task.status]} {task.subject}{owner}{waits}"


async def create_task(store: "Store", arguments: TaskCreateArguments, ctx: ToolContext) -> ToolResult:
    from adderclaw.storage import lists

    if (
        wrong := _length_problem(
            arguments.subject, arguments.description, arguments.activeForm, canonical(arguments.metadata)
        )
    ) or (not arguments.subject.strip()):
        return rejected(wrong or "the subject is empty.")
    if len(lists.tasks(store, ctx.conversation_id)) >= MAX_ITEMS:
        return rejected(f"there are {MAX_ITEMS} tasks already. Delete completed ones first.")
    with store.write() as cursor:
        number = lists.create(
            cursor,
            ctx.conversation_id,
            arguments.subject,
            arguments.description,
            arguments.activeForm,
            arguments.metadata,
        )
    blocked = await _fire_and_get_block(ctx, "TaskCreated", number, arguments.subject, arguments.description)
    if blocked is not None:
        with store.write() as cursor:
            lists.delete_task(cursor, ctx.conversation_id, number)
        return rejected(f"the task was not created: {blocked}")
    return own_words(f"Task #{number} created: {arguments.subject}", {"task": {"id": str(number)}})


async def get_task(store: "Store", arguments: TaskGetArguments, ctx: ToolContext) -> ToolResult:
    task = _find_task(store, ctx, arguments.taskId)
    if isinstance(task, ToolResult):
        return task
    parts = [task_line(task), task.description]
    if task.blocks:
        parts.append(f"blocks: {', '.join(f'#{number}' for number in task.blocks)}")
    if task.metadata:
        parts.append(f"metadata: {canonical(task.metadata)}")
    return own_words("\n".join(part for part in parts if part), {"task": task._asdict()})


async def list_tasks(store: "Store", _given: TaskListArguments, ctx: ToolContext) -> ToolResult:
    from adderclaw.storage import lists

    tasks = lists.tasks(store, ctx.conversation_id)
    return own_words("\n".join(map(task_line, tasks)) or "There are no tasks.", {"tasks": len(tasks)})


async def update_task(store: "Store", arguments: TaskUpdateArguments, ctx: ToolContext) -> ToolResult:
    from adderclaw.storage import lists

    task = _find_task(store, ctx, arguments.taskId)
    if isinstance(task, ToolResult):
        return task
    if arguments.status == "deleted":
        with store.write() as cursor:
            lists.delete_task(cursor, ctx.conversation_id, task.number)
        return own_words(f"Task #{task.number} deleted.", {"updatedFields": ["status"]})
    links = _new_links(store, arguments, task, ctx)
    if isinstance(links, str):
        return rejected(links)
    fields = _changed_fields(arguments, task)
    if wrong := _length_problem(*(text if isinstance(text, str) else canonical(text) for text in fields.values())):
        return rejected(wrong)
    if fields.get("subject", "x").strip() == "":
        return rejected("the subject is empty.")
    if fields.get("status") == "completed" and task.status != "completed":
        blocked = await _fire_and_get_block(ctx, "TaskCompleted", task.number, task.subject, task.description)
        if blocked is not None:
            return rejected(f"the task is not completed: {blocked}")
    with store.write() as cursor:
        lists.change(cursor, ctx.conversation_id, task.number, fields)
        for blocker, waiting in links:
            lists.link(cursor, ctx.conversation_id, blocker, waiting)
    changed = [*fields, *(["links"] if links else [])]
    now = lists.task(store, ctx.conversation_id, task.number)
    summary = task_line(now) if now is not None else f"#{task.number}"
    return own_words(f"{summary}\nchanged: {', '.join(changed) or 'nothing'}", {"updatedFields": changed})


def _changed_fields(arguments: TaskUpdateArguments, task: "Task") -> dict[str, Any]:
    values: dict[str, Any] = {
        "subject": arguments.subject,
        "description": arguments.description,
        "active_form": arguments.activeForm,
        "status": arguments.status,
        "owner": arguments.owner,
    }
    fields = {name: value for name, value in values.items() if value is not None}
    if arguments.metadata:
        merged = {**task.metadata, **arguments.metadata}
        fields["metadata_json"] = {key: value for key, value in merged.items() if value is not None}
    return fields


def _new_links(
    store: "Store", arguments: TaskUpdateArguments, current: "Task", ctx: ToolContext
) -> list[tuple[int, int]] | str:
    """(blocker, blocked) pairs to add, or what is wrong with them."""
    from adderclaw.storage import lists

    everything = {task.number: task for task in lists.tasks(store, ctx.conversation_id)}
    pairs: list[tuple[int, int]] = []
    for name, blocks in [(name, True) for name in arguments.addBlocks] + [
        (name, False) for name in arguments.addBlockedBy
    ]:
        other = _task_number(name)
        if other not in everything:
            return f"there is no task {name[:40]!r}."
        pairs.append((current.number, other) if blocks else (other, current.number))
    after: dict[int, set[int]] = {number: set(task.blocks) for number, task in everything.items()}
    for blocker, blocked in pairs:
        if blocker == blocked or _is_reachable(after, blocked, blocker):
            return f"#{blocked} cannot wait for #{blocker}, because they would wait for each other."
        after[blocker].add(blocked)
    return pairs


def _is_reachable(after: dict[int, set[int]], start: int, goal: int) -> bool:
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


def _find_task(store: "Store", ctx: ToolContext, name: str) -> "Task | ToolResult":
    from adderclaw.storage import lists

    task = lists.task(store, ctx.conversation_id, _task_number(name))
    return task or rejected(f"there is no task {name[:40]!r}; TaskList shows them.")


def _task_number(name: str) -> int:
    digits = name.strip().removeprefix("#")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0


def _length_problem(*texts: str) -> str | None:
    longest = max(map(len, texts), default=0)
    return f"a text of {longest} characters; at most {MAX_TEXT} are kept in one field." if longest > MAX_TEXT else None


async def _fire_and_get_block(ctx: ToolContext, event: str, number: int, subject: str, description: str) -> str | None:
    """Fires a hook event for a task; returns the reason if a hook blocks it, else None."""
    task = {"task_id": str(number), "task_subject": subject, "task_description": description}
    outcome = await ctx.host.run_hooks(event, task)
    return (outcome.reason or "a hook blocked it") if outcome.blocked else None


# ------------------------------------------------------------------ the tools


def tools(kit: "Kit") -> tuple[Tool[Any], ...]:
    async def todos(store: "Store", arguments: TodoWriteArguments, ctx: ToolContext) -> ToolResult:
        return write_todos(store, arguments, ctx)

    return (
        _tool(kit, "TodoWrite", TodoWriteArguments, "keeps the todo list", todos, deferred=False),
        _tool(kit, "TaskCreate", TaskCreateArguments, "adds a task to the list", create_task),
        _tool(kit, "TaskGet", TaskGetArguments, "reads the task list", get_task),
        _tool(kit, "TaskList", TaskListArguments, "reads the task list", list_tasks),
        _tool(kit, "TaskUpdate", TaskUpdateArguments, "changes the task list", update_task),
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
    async def run(args: A, ctx: ToolContext) -> ToolResult:
        return rejected(NO_STORE) if kit.store is None else await act(kit.store, args, ctx)

    return builtin_tool(
        name,
        arguments,
        fixed_prepare(Touch(why=why), run),
        timeout=lambda _given: 660.0,  # hooks of TaskCreated and TaskCompleted may take their time
        deferred=deferred,
    )
