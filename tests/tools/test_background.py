"""Background tasks: begun, looked at, ended, and told of exactly once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config.schema import Config
from adderclaw.core.host import ToolContext
from adderclaw.core.types import ToolResult, Workspace
from adderclaw.tools import Kit, background, builtin_tools, decode_arguments, find_tool, resolve_arguments
from adderclaw.tools.background import Output, TaskOutcome, Tasks
from adderclaw.tools.long_outputs import LongOutputs
from tests.tools.conftest import FixedClock


class Yard:
    """Tools with a registry of background tasks, called inside one event loop."""

    def __init__(self, root: Path) -> None:
        self.root = root / "ws"
        self.root.mkdir()
        self.stop = root / "ESTOP"
        self.keep = LongOutputs(str(root / "outputs" / "s"), lambda text: text.replace("hunter2", "[redacted]"))
        self.ctx = ToolContext(
            "c", "s", Workspace(str(self.root)), outputs_folder=self.keep.folder, store_output=self.keep
        )
        numbers = iter(range(1, 1000))
        self.tasks = Tasks(FixedClock(), lambda kind: f"{kind}-{next(numbers)}", self.keep, stopped=self.stop.exists)
        self.tools = builtin_tools(Kit(Config(), None, FixedClock(), tasks=self.tasks))

    async def call(self, name: str, /, **given: Any) -> ToolResult:
        found = find_tool(self.tools, name)
        assert found
        tool, alias = found
        self.ctx.called_as = name
        arguments = decode_arguments(tool, resolve_arguments(alias, given))
        return await tool.prepare(arguments, self.ctx).run()

    async def bash(self, command: str, **more: Any) -> str:
        result = await self.call("Bash", command=command, run_in_background=True, **more)
        assert not result.is_error, result.content
        return str(result.metadata["task_id"])

    async def over(self, task_id: str) -> None:
        task = self.tasks.find(task_id)
        assert task
        assert await self.tasks.wait(task, 10)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


@pytest.mark.parametrize("name", ["TaskOutput", "TaskStop", "BashOutput", "KillShell"])
def test_an_unknown_task_is_an_error_that_names_the_known_ones(name: str, yard: Yard) -> None:
    async def go() -> None:
        assert "Known tasks: none" in (await yard.call(name, task_id="task-9")).content
        await yard.over(await yard.bash("true"))
        result = await yard.call(name, task_id="task-9")
        assert result.error_class == "tool_rejected"
        assert result.content == "There is no background task 'task-9'. Known tasks: task-1 (completed)."

    asyncio.run(go())


def test_what_has_ended_cannot_be_stopped_and_where_nothing_can_run_nothing_is_begun(yard: Yard) -> None:
    async def go() -> None:
        await yard.over(await yard.bash("exit 3"))
        stopped = await yard.call("TaskStop", task_id="task-1")
        assert stopped.content == "task-1 failed: exit code 3. There is nothing to stop."
        alone = builtin_tools(Kit(Config(), None, FixedClock()))["Bash"]
        given = decode_arguments(alone, {"command": "true", "run_in_background": True})
        assert (await alone.prepare(given, yard.ctx).run()).is_error

    asyncio.run(go())


def test_no_more_than_so_many_at_once(yard: Yard) -> None:
    async def go() -> None:
        for _ in range(background.MAX_RUNNING):
            await yard.bash("sleep 60")
        result = await yard.call("Bash", command="true", run_in_background=True)
        assert result.error_class == "tool_rejected"
        assert "Stop one with TaskStop" in result.content
        await yard.tasks.close()

    asyncio.run(go())


def test_output_is_shown_once_both_streams_as_they_came_and_all_of_it_stays_readable(yard: Yard) -> None:
    async def go() -> None:
        task = await yard.bash("echo one; echo two hunter2 >&2; cat go 2>/dev/null; sleep 0.3; printf three")
        first = ""
        for _ in range(3000):
            first += (await yard.call("TaskOutput", task_id=task, block=False)).content
            if "\ntwo" in first:
                break
            await asyncio.sleep(0.02)
        assert "is running\n" in first
        second = await yard.call("TaskOutput", task_id=task)
        assert second.content == f"{task} completed: exit code 0\nthree"
        assert (await yard.call("BashOutput", bash_id=task)).content.endswith("(nothing new was printed)")
        path = f"{yard.keep.folder}/{task}.txt"
        whole = await yard.call("Read", file_path=path)
        assert [line.split("\t")[-1] for line in whole.content.splitlines()[:3]] == ["one", "two [redacted]", "three"]
        assert (await yard.call("Write", file_path=path, content="x")).denial

    asyncio.run(go())


def test_each_end_is_handed_over_exactly_once(yard: Yard) -> None:
    async def go() -> None:
        seen, told = await yard.bash("echo a"), await yard.bash("exit 4")
        await yard.over(seen)
        await yard.over(told)
        await yard.call("TaskOutput", task_id=seen)
        ((task_id, status, text, _),) = yard.tasks.finished()
        assert (task_id, status) == (told, "failed")
        assert text.startswith(f"[Background task {told} (exit 4) failed: exit code 4.")
        assert yard.tasks.finished() == []

    asyncio.run(go())


def test_stopping_ends_the_whole_group_and_what_left_it(yard: Yard) -> None:
    async def go() -> None:
        task = await yard.bash("sh -c 'trap \"\" TERM; echo up; sleep 987 & sleep 987'")
        for _ in range(3000):
            if "\nup" in (await yard.call("TaskOutput", task_id=task, block=False)).content:
                break
            await asyncio.sleep(0.02)
        assert (await yard.call("TaskStop", task_id=task)).content.startswith(f"Stopped {task}")
        assert "987" not in _running()
        assert yard.tasks.finished() == [], "whoever stopped it knows"

    asyncio.run(go())


def _running() -> str:
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return " ".join(line for line in found if line.startswith("sleep"))


def test_its_time_limit_and_the_emergency_stop_end_it(yard: Yard) -> None:
    async def go() -> None:
        late = await yard.bash("sleep 60", timeout=100)
        await yard.over(late)
        stopped = await yard.bash("sleep 60")
        yard.stop.touch()
        await yard.over(stopped)
        assert [end.status for end in yard.tasks.finished()] == ["failed", "stopped"]

    asyncio.run(go())


def test_work_that_fails_and_work_that_is_waited_for(yard: Yard) -> None:
    async def fails(_output: Output) -> TaskOutcome:
        raise RuntimeError("no luck")

    async def answers(output: Output) -> TaskOutcome:
        output.write(b"thinking")
        await asyncio.sleep(0.05)
        return TaskOutcome("completed", "it answered", "forty-two")

    async def go() -> None:
        assert not await yard.tasks.wait_for_needed()
        await yard.over(yard.tasks.begin("agent", "bad", fails, yard.ctx).id)
        assert not await yard.tasks.wait_for_needed(), "nobody waits for that one"
        yard.tasks.begin("agent", "good", answers, yard.ctx, awaited=True)
        assert await yard.tasks.wait_for_needed()
        failed, good = yard.tasks.finished()
        assert "RuntimeError: no luck" in failed.text
        assert (good.text.count("forty-two"), good.result) == (0, "forty-two"), "the loop frames it"
        assert not await yard.tasks.wait_for_needed()

    asyncio.run(go())


def test_much_output_has_its_middle_left_out_and_its_end_shown(yard: Yard) -> None:
    async def go() -> None:
        task = await yard.bash("yes | head -c 68000000; echo end")
        await yard.over(task)
        shown = (await yard.call("TaskOutput", task_id=task)).content
        assert "bytes left out; Read" in shown
        assert shown.endswith("\ny\nend\n\n[SDLC_TRUNCATED]"), shown[-80:]
        found = yard.tasks.find(task)
        assert found
        assert found.output.size <= background.OUTPUT_BYTES

    asyncio.run(go())
