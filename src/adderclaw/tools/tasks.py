"""TaskOutput and TaskStop: read the output of background tasks, and stop them."""

from typing import Annotated, Any

from adderclaw.core.decode import Between
from adderclaw.core.host import ToolContext
from adderclaw.core.record import record
from adderclaw.core.types import Alias, Tool, ToolResult, Touch, fixed_prepare, own_words, rejected
from adderclaw.tools.background import Task, Tasks
from adderclaw.tools.specs import builtin_tool

MAX_MS = 600_000
GRACE = 5.0


@record
class TaskOutputArguments:
    task_id: str
    block: bool = True
    timeout: Annotated[int, Between(0, MAX_MS)] = 30_000


@record
class TaskStopArguments:
    task_id: str


async def output(arguments: TaskOutputArguments, tasks: Tasks | None) -> ToolResult:
    task = _find_task(tasks, arguments.task_id)
    if tasks is None or isinstance(task, str):
        return rejected(str(task))
    if arguments.block and task.running:
        await tasks.wait(task, arguments.timeout / 1000)
    printed = task.output.read_new()
    tasks.mark_reported(task)
    about = {"task_id": task.id, "task_type": task.kind, "status": task.status}
    body = "\n".join(filter(None, (printed.rstrip("\n"), task.result))) or "(nothing new was printed)"
    return ToolResult(f"{_line(task)}\n{body}", metadata=about)


async def stop(arguments: TaskStopArguments, tasks: Tasks | None) -> ToolResult:
    task = _find_task(tasks, arguments.task_id)
    if tasks is None or isinstance(task, str):
        return rejected(str(task))
    if not task.running:
        return rejected(f"{_line(task)}. There is nothing to stop.")
    await tasks.stop(task)
    tasks.mark_reported(task)
    return own_words(f"Stopped {task.id} ({task.title})", {"task_id": task.id, "task_type": task.kind})


def _line(task: Task) -> str:
    return f"{task.id} ({task.title}) is running" if task.running else f"{task.id} {task.status}: {task.summary}"


def _find_task(tasks: Tasks | None, task_id: str) -> Task | str:
    """The task, or why it was not found."""
    if tasks is None:
        return "Background tasks are not available here."
    if task := tasks.find(task_id):
        return task
    known = ", ".join(f"{task.id} ({task.status})" for task in tasks.listed()[-20:]) or "none"
    return f"There is no background task {task_id!r}. Known tasks: {known}."


# ------------------------------------------------------------------ the tools


OWN = Touch(why="manages its own background tasks")


def tools(tasks: Tasks | None) -> tuple[Tool[Any], ...]:
    async def look(arguments: TaskOutputArguments, _ctx: ToolContext) -> ToolResult:
        return await output(arguments, tasks)

    async def end(arguments: TaskStopArguments, _ctx: ToolContext) -> ToolResult:
        return await stop(arguments, tasks)

    def patience(arguments: TaskOutputArguments) -> float:
        return arguments.timeout / 1000 + GRACE

    old = {"bash_id": "task_id", "shell_id": "task_id", "agentId": "task_id"}
    return (
        builtin_tool(
            "TaskOutput",
            TaskOutputArguments,
            fixed_prepare(OWN, look),
            (Alias("BashOutput", old, {"block": False}), Alias("AgentOutput", old)),
            timeout=patience,
        ),
        builtin_tool(
            "TaskStop", TaskStopArguments, fixed_prepare(OWN, end), (Alias("KillShell", old), Alias("KillBash", old))
        ),
    )
