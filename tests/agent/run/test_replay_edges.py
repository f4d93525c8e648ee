"""What a replayed call is, as its tape has it."""

from typing import Any

import pytest

from adderclaw.agent.replay.edges import Recorded, Reel, driven
from adderclaw.core.host import ToolContext
from adderclaw.core.types import Json, Prepared, Tool, ToolResult, Touch, Workspace
from adderclaw.policy import facts


async def run() -> ToolResult:
    return ToolResult("done")


def prepare(_arguments: Json, _context: ToolContext) -> Prepared:
    return Prepared(Touch(), run)


@pytest.mark.parametrize("overlaps", [True, False])
def test_a_drivers_tool_runs_beside_others_if_it_was_recorded_to(overlaps: bool) -> None:
    body: Json = {
        "id": "c1",
        "tool": "Look",
        "facts": facts.touch_to_json(Touch()),
        **({"overlaps": True} if overlaps else {}),
    }
    reel = Reel([("touch", body)], Recorded([], [], {}), lambda _name: None)
    tool: Tool[Any] = driven(reel, Tool("Look", dict, prepare, "", {}))
    context = ToolContext("c", "s", Workspace("/"), tool_use_id="c1")
    assert tool.prepare({}, context).overlaps is overlaps
