"""What a step leaves behind goes with its last reference: requests and results wait for no collector of cycles."""

import asyncio
import gc
from collections.abc import Callable

import pytest

from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.core.types import Json
from tests.acceptance.world import World, call, text
from tests.agent.conversation.conftest import hosted

FEW, MANY = 3, 23


def two(number: int) -> Json:
    return {"tool_calls": [*read(number)["tool_calls"], *read(number + 100)["tool_calls"]]}


def read(number: int) -> Json:
    return call("Read", file_path="a.txt", offset=number + 1)


STEPS: dict[str, Callable[[int], Json]] = {
    "read": read,
    "two at once": two,
    "written": lambda number: call("Write", file_path=f"b{number}.txt", content="b\n"),
    "refused": lambda number: call("Read", file_path=f"/etc/shadow{number}"),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_leaves_no_cycles(world: World, step: str) -> None:
    world.configure(autonomy="full")
    (world.workspace / "a.txt").write_text("line\n" * 200)
    turns = [[*map(STEPS[step], range(count)), text("done")] for count in (MANY, FEW, MANY)]
    world.script(*[one for turn in turns for one in turn])

    async def left(conversation: Conversation) -> int:
        """Objects that only the collector of cycles can free after a turn."""
        gc.collect()
        gc.disable()
        try:
            ended = await conversation.ended(await conversation.send("go", client="ann"))
            assert ended.answer == "done", ended
            return gc.collect()
        finally:
            gc.enable()

    async def main() -> tuple[int, int]:
        here = hosted(world)
        conversation = await here.open("ann")
        await left(conversation)  # what is imported and made once
        found = await left(conversation), await left(conversation)
        await here.close()
        return found

    few, many = asyncio.run(main())
    assert many - few < MANY - FEW, f"{few} objects of {FEW} steps, {many} of {MANY}"
