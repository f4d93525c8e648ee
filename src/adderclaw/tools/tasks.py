"""TaskOutput and TaskStop: what goes on in the background, looked at and ended."""

from typing import Annotated, Any

from adderclaw.core.decode import Between
from adderclaw.core.record import record
from adderclaw.core.types import Alias, Tool, ToolContext, ToolResult, Touch, fixed_prepare, own_words, rejected
from adderclaw.tools.background import Task, Tasks
from adderclaw.tools.specs import spec

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
    task = _found(tasks, arguments.task_id)
    if tasks is None or isinstance(task, str):
        return rejected(str(task))
    if arguments.block and task.running:
        await tasks.wait(task, arguments.timeout / 1000)
    printed = task.output.new()
    tasks.tell(task)
    about = {"task_id": task.id, "task_type": task.kind, "status": task.status}
    body = "\n".join(filter(None, (printed.rstrip("\n"), task.result))) or "(nothing new was printed)"
    return ToolResult(f"{_line(task)}\n{body}", metadata=about)


async def stop(arguments: TaskStopArguments, tasks: Tasks | None) -> ToolResult:
    task = _found(tasks, arguments.task_id)
    if tasks is None or isinstance(task, str):
        return rejected(str(task))
    if not task.running:
        return rejected(f"{_line(task)}: there is nothing to stop.")
    await tasks.stop(task)
    tasks.tell(task)
    return own_words(f"Stopped {task.id} ({task.title})", {"task_id": task.id, "task_type": task.kind})


def _line(task: Task) -> str:
    return f"{task.id} ({task.title}) is running" if task.running else f"{task.id} {task.status}: {task.summary}"


def _found(tasks: Tasks | None, task_id: str) -> Task | str:
    """The task, or why there is none."""
    if tasks is None:
        return "no background task can run here."
    if task := tasks.find(task_id):
        return task
    known = ", ".join(f"{task.id} ({task.status})" for task in tasks.listed()[-20:]) or "none was begun"
    return f"there is no background task {task_id!r}; known: {known}."


# ------------------------------------------------------------------ the tools


OWN = Touch(why="looks after its own background tasks")


def tools(tasks: Tasks | None) -> tuple[Tool[Any], ...]:
    async def look(arguments: TaskOutputArguments, _ctx: ToolContext) -> ToolResult:
        return await output(arguments, tasks)

    async def end(arguments: TaskStopArguments, _ctx: ToolContext) -> ToolResult:
        return await stop(arguments, tasks)

    def patience(arguments: TaskOutputArguments) -> float:
        return arguments.timeout / 1000 + GRACE

    looking, ending = spec("TaskOutput"), spec("TaskStop")
    old = {"bash_id": "task_id", "shell_id": "task_id", "agentId": "task_id"}
    return (
        Tool(
            "TaskOutput",
            TaskOutputArguments,
            fixed_prepare(OWN, look),
            looking.description,
            looking.parameters,
            (Alias("BashOutput", old, {"block": False}), Alias("AgentOutput", old)),
            patience,
        ),
        Tool(
            "TaskStop",
            TaskStopArguments,
            fixed_prepare(OWN, end),
            ending.description,
            ending.parameters,
            (Alias("KillShell", old), Alias("KillBash", old)),
        ),
    )
