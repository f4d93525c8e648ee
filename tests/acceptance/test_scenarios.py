"""The Python API's Session and StatusTool: a project is worked through by its SPEC.md until its scenarios pass."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from adderclaw import AgentClient, Query, ResultMessage, Session, SessionOptions, SessionResult, StatusTool
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.flows.spec import status
from adderclaw.flows.spec.status import Scenario
from adderclaw.testing import MockAgentClient, ScriptedModel, call, text
from tests.acceptance.world import World

FIRST = {"id": "SC-F001", "feature": "login.feature", "name": "Successful login"}
SECOND = {"id": "SC-F002", "feature": "login.feature", "name": "Wrong password"}
DONE = [ResultMessage("completed", "done")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "SPEC.md").write_text("# A login page\n")
    return made


def known(project: Path, **passed: bool) -> None:
    (project / ".adderclaw").mkdir(exist_ok=True)
    rows = [{**one, "passed": passed.get(one["id"].replace("-", "_"), False)} for one in (FIRST, SECOND)]
    (project / ".adderclaw" / "status.json").write_text(json.dumps({"scenarios": rows}))


def ran(project: Path, client: AgentClient, **options: Any) -> SessionResult:
    return asyncio.run(Session(SessionOptions(project_dir=str(project), **options)).run(client))


# ------------------------------------------------------------------ the tool


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "correct it, or remove it"),
        ("[]", "status.json"),
        ('{"scenarios": [{"id": "a"}]}', "feature"),
        ('{"scenarios": [{"id": "a", "feature": "f", "name": "n", "passed": "yes"}]}', "passed"),
        ('{"scenarios": [], "more": 1}', "more"),
    ],
)
def test_a_file_that_is_none_is_said_and_kept(project: Path, content: str, said: str) -> None:
    known(project)
    (project / ".adderclaw" / "status.json").write_text(content)
    with pytest.raises(AdderClawError, match=said):
        ran(project, MockAgentClient())
    with pytest.raises(AdderClawError, match=said):
        asyncio.run(StatusTool(str(project)).add_scenarios([FIRST]))
    assert (project / ".adderclaw" / "status.json").read_text() == content


@pytest.mark.parametrize("link", [".adderclaw", ".adderclaw/status.json"])
def test_no_link_is_followed(project: Path, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "status.json").write_text(json.dumps({"scenarios": [{**FIRST, "passed": False}]}))
    if link == ".adderclaw":
        (project / link).symlink_to(outside)
    else:
        (project / ".adderclaw").mkdir()
        (project / link).symlink_to(outside / "status.json")
    with pytest.raises(AdderClawError, match=r"cannot be used|correct it"):
        asyncio.run(StatusTool(str(project)).update_status("SC-F001", True))
    assert "true" not in (outside / "status.json").read_text()


def test_a11_a30_scenarios_are_added_and_marked_and_never_removed(project: Path) -> None:
    tool = StatusTool(str(project))
    with pytest.raises(UsageError, match="scenario not found"):
        asyncio.run(tool.update_status("SC-F001", True))
    asyncio.run(tool.add_scenarios([FIRST]))
    asyncio.run(tool.update_status("SC-F001", True))
    asyncio.run(tool.add_scenarios([FIRST, SECOND]))
    with pytest.raises(UsageError, match=r"scenario not found: 'SC-X'; \.adderclaw/status\.json has SC-F001, SC-F002"):
        asyncio.run(tool.update_status("SC-X", True))
    with pytest.raises(AdderClawError, match="letters, digits"):
        asyncio.run(tool.add_scenarios([{**FIRST, "id": "a\nb"}]))
    made = json.loads((project / ".adderclaw" / "status.json").read_text())
    assert made == {"scenarios": [{**FIRST, "passed": True}, {**SECOND, "passed": False}]}
    assert os.listdir(project / ".adderclaw") == ["status.json"]


# ------------------------------------------------------------------ the session


def test_a09_without_a_specification_nothing_begins(tmp_path: Path) -> None:
    client = MockAgentClient()
    with pytest.raises(UsageError, match=r"has no SPEC\.md"):
        ran(tmp_path, client)
    assert client.asked == []


class Working(MockAgentClient):
    """Each query adds scenarios or passes one, as an agent with the tool would."""

    def __init__(self, project: Path, *steps: list[dict[str, str]] | str) -> None:
        super().__init__()
        self._project, self._steps = str(project), list(steps)
        self.set_responses(*([DONE] * len(steps)))

    def query(self, message: str, *, resume: str | None = None) -> Query:
        step = self._steps.pop(0)
        if isinstance(step, str):
            status.update(self._project, step, True)
        else:
            status.declare(self._project, [Scenario(one["id"], one["feature"], one["name"]) for one in step])
        return super().query(message, resume=resume)


def test_a09_a31_begun_then_gone_on_with_until_all_pass(project: Path) -> None:
    client = Working(project, [FIRST, SECOND], "SC-F001", "SC-F002")
    result = ran(project, client, delay_between_sessions=0.01)
    assert (result.success, result.scenarios_passed_count, result.scenarios_total_count) == (True, 2, 2)
    assert result.duration > 0
    first, second, third = client.asked
    assert "You begin a project" in first
    assert "You continue a project" in second
    assert "- SC-F001 (login.feature): Successful login" in second
    assert "- SC-F001" not in third, "only what does not pass"
    assert ran(project, MockAgentClient()).success, "all passed: nobody is asked"


@pytest.mark.parametrize(
    ("answers", "options", "asked", "reason"),
    [
        ([DONE, DONE, DONE], {"max_iterations": 2}, 2, "limit: the limit of 2 sessions is reached"),
        ([DONE], {"max_iterations": 0}, 0, "limit: the limit of 0 sessions is reached"),
        ([DONE] * 9, {}, 5, "made no progress"),
        (
            [[ResultMessage("stopped", "", "interrupted by the program")], DONE],
            {},
            1,
            "stopped: session 1: interrupted",
        ),
        ([[ResultMessage("error", "", "no key")], DONE], {}, 1, "error: session 1: no key"),
        ([[ResultMessage("limit", "", "tokens")], DONE], {}, 1, "limit: session 1: tokens"),
        ([[ResultMessage("limit", "", "rounds", tool_calls=9)], *[DONE] * 4], {}, 5, "made no progress"),
    ],
)
def test_a34_it_stops_with_what_was_reached(
    project: Path, answers: list[Any], options: dict[str, int], asked: int, reason: str
) -> None:
    known(project, SC_F001=True)
    client = MockAgentClient()
    client.set_responses(*answers)
    result = ran(project, client, **options)
    assert (result.success, result.scenarios_passed_count, result.scenarios_total_count) == (False, 1, 2)
    assert len(client.asked) == asked
    assert reason in result.reason


def test_a34_an_interruption_ends_the_pause_too(project: Path) -> None:
    known(project)
    client = MockAgentClient()
    client.set_responses(DONE)
    session = Session(SessionOptions(project_dir=str(project), delay_between_sessions=600))

    async def both() -> SessionResult:
        running = asyncio.ensure_future(session.run(client))
        while not client.asked:  # noqa: ASYNC110 - the client notes it
            await asyncio.sleep(0.01)
        await session.interrupt()
        return await running

    assert "stopped: session 2: interrupted by the program" in asyncio.run(asyncio.wait_for(both(), 90)).reason
    assert asyncio.run(session.run(client)).reason.startswith("stopped"), "it stays so"


def test_a12_the_agent_has_the_tool_and_no_other_way(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real agent: gate, sandbox, store and the tool in this process; only the model is scripted."""
    for name, value in world.cli.env.items():
        monkeypatch.setenv(name, value)
    project = world.workspace
    (project / "SPEC.md").write_text("# A login page\n")
    begins = [
        call("Write", file_path=".adderclaw/status.json", content="{}"),
        call("mcp__status__add_scenarios", scenarios=[FIRST]),
        call("mcp__status__update_status", scenario_id="SC-F009", passed=True),
    ]
    goes_on = [call("mcp__status__update_status", scenario_id="SC-F001", passed=True)]
    result = None
    for steps in (begins, goes_on):
        with ScriptedModel(*steps, text("done")) as model:
            client = AgentClient(StatusTool(str(project)).options(model.options()))
            result = ran(project, client, max_iterations=1)
    assert result is not None
    assert (result.success, result.scenarios_total_count) == (True, 1), result
    found = [(one["tool"], one["status"]) for one in world.receipts()]
    assert found == [
        ("Write", "denied"),
        ("mcp__status__add_scenarios", "allowed"),
        ("mcp__status__update_status", "failed"),
        ("mcp__status__update_status", "allowed"),
    ]
    assert "scenario not found: 'SC-F009'" in json.dumps(world.entries("tool_result"))
    assert world.rows("SELECT * FROM mcp_pins") == [], "a program's own tool is its own word"
