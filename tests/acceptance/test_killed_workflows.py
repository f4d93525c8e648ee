"""Agentfile runs that are killed anywhere and resumed: each goal goes on where it was, and the whole can be proved."""

import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.test_agentfile import Flow, asked, result
from tests.acceptance.world import World, call, text
from tests.program import Soak
from tests.scripted import Request, ScriptedModel, Step

BODY = (
    'AGENT a "persona-a."\nAGENT b "persona-b."\nGOAL views "Say" USING a, b\nGOAL look "Look" SUPERVISED\n'
    'RUN one USING views, look\nGOAL again "Again"\nLOOP two USING again WITHIN 3\n'
)
LOOKS = (
    call("LS", path="."),
    {"tool_calls": [*call("Bash", command="echo one >> log")["tool_calls"], *call("Glob", pattern="*")["tool_calls"]]},
)


def answer(request: Request) -> dict[str, Any]:
    """What the model says follows from the conversation alone, however often it is asked."""
    body = request.body.decode()
    rounds = sum(bool(message.get("tool_calls")) for message in request.messages)
    if "Review the result" in body:
        return call("ReviewVerdict", approved=True, comment="") if rounds else call("LS", path=".")
    if "Reconcile this" in body:
        return result("reconciled")
    if "persona-" in body:
        return LOOKS[rounds] if rounds < 2 else text("a view")
    if "Goal `look`" in body:
        return LOOKS[rounds] if rounds < 2 else result("looked")
    return LOOKS[0] if not rounds else result("again")


class Killing(ScriptedModel):
    """Kills who asks, at the request that is chosen: before it answers, or so long after it has begun to."""

    def __init__(self) -> None:
        super().__init__()
        self.process: subprocess.Popen[bytes] | None = None
        self.at, self.after = 0, -1.0
        self.kills = 0

    def arm(self, process: "subprocess.Popen[bytes]", at: int, after: float) -> None:
        self.process, self.at, self.after = process, len(self.requests) + at, after

    def _play(self, connection: socket.socket, step: Step, request: Request) -> bool:
        if len(self.requests) >= self.at and self.process is not None:
            process, self.process = self.process, None
            if self.after < 0:
                self._kill(process)
                return False
            threading.Timer(self.after, self._kill, (process,)).start()
        return super()._play(connection, step, request)

    def _kill(self, process: "subprocess.Popen[bytes]") -> None:
        self.kills += process.poll() is None
        process.kill()

    def _answer(self, connection: socket.socket, request: Request) -> bool:
        with self._lock:
            self.requests.append(request)
        return self._play(connection, answer(request), request)  # pyright: ignore[reportArgumentType]


def killed_and_resumed(flow: Flow, model: Killing, moments: list[tuple[int, float]]) -> str:
    """One run, killed at each of these moments that it comes to, and resumed until it ends."""
    known = (
        {row[0] for row in flow.world.rows("SELECT run_id FROM runs")} if flow.world.database.exists() else set[str]()
    )
    words = [str(flow.folder / "Agentfile")]
    for moment in (*moments, None):
        process = flow.world.cli.start("run", *words)
        if moment is not None:
            model.arm(process, *moment)
        out, err = process.communicate(timeout=120)
        model.process = None
        begun = [row[0] for row in flow.world.rows("SELECT run_id FROM runs") if row[0] not in known]
        if process.returncode == 0:
            assert out.decode().strip() == "again", err
            return begun[-1]
        assert process.returncode == -9, err.decode()
        words = ["--resume", begun[-1]] if begun else words
    raise AssertionError("the run never ended")


def proved(world: World, run_id: str, moments: object) -> None:
    done = world.cli("replay", run_id, "--verify", "--output-format", "json", cwd=world.workspace)
    assert done.code == 0, f"{moments}: {done.out}{done.err}"


@pytest.mark.soak
@pytest.mark.parametrize("part", range(12))
def test_32_killed_anywhere_and_resumed_a_workflow_is_proved(world: World, soak: Soak, part: int) -> None:
    mine = [nth for nth in soak.of(48) if nth // 4 == part]
    if not mine:
        return
    with Killing() as model:
        flow = Flow(world, model)
        flow.write(BODY)
        for number in mine:
            after = (-1.0, 0.0, 0.004, 0.01, 0.02, 0.04)[number % 6]
            moments = [(1 + number % 8, after), (1 + number // 8 % 6, (0.0, -1.0, 0.008)[number % 3])]
            proved(world, killed_and_resumed(flow, model, moments), moments)
        print("kills:", model.kills)
    lost = world.rows(
        "SELECT r.run_id, s.description, count(*) FROM subagents s JOIN runs r ON r.session_id = s.parent_id"
        " GROUP BY r.run_id, s.tool_use_id HAVING count(*) > 1"
    )
    assert lost == [], "a goal began in a second session"


def killed_when(flow: Flow, is_time: Callable[[], object]) -> None:
    process = flow.world.cli.start("run", str(flow.folder / "Agentfile"))
    limit = time.monotonic() + 90
    while not is_time():
        assert process.poll() is None
        assert time.monotonic() < limit
        time.sleep(0.01)
    process.kill()
    process.communicate()


def test_32_an_interrupted_goal_goes_on_in_its_own_session(world: World) -> None:
    with ScriptedModel([call("Bash", command="echo one >> log"), {"hang": 60}]) as model:
        flow = Flow(world, model)
        flow.write('GOAL g "Work"\nRUN r USING g\n')
        killed_when(flow, lambda: len(model.requests) == 2)
        flow.add(result("done"))
        done = world.cli("run", "--resume", flow.run_id)
        assert (done.code, done.out.strip()) == (0, "done"), done.err
        told = [one["role"] for one in model.requests[2].messages]
        assert told == ["system", "user", "assistant", "tool"], told
        assert asked(model, 2) == asked(model, 1)
    assert (flow.folder / "log").read_text() == "one\n"
    assert world.rows("SELECT count(*) FROM subagents") == [(1,)]
    proved(world, flow.run_id, "")


def test_32_what_a_goal_had_signalled_before_the_kill_counts(world: World) -> None:
    """The process is killed by a hook that hears of the signal, before the workflow does."""
    hook = {"type": "command", "command": "kill -9 $PPID; sleep 60"}
    settings = {"hooks": {"SubagentStop": [{"hooks": [hook]}]}}
    (world.cli.data / "settings.json").write_text(json.dumps(settings))
    with ScriptedModel([result("signalled")]) as model:
        flow = Flow(world, model)
        flow.write('GOAL g "Work"\nRUN r USING g\n')
        assert flow.run().code == -9
        (world.cli.data / "settings.json").unlink()
        done = world.cli("run", "--resume", flow.run_id)
        assert (done.code, done.out.strip()) == (0, "signalled"), done.err
        assert len(model.requests) == 1
    proved(world, flow.run_id, "")


def test_32_a_completed_run_is_proved_after_its_continuation_was_killed_in_the_first_call(world: World) -> None:
    world.script(call("LS", path="."), text("first"))
    world.agent("one")
    (first,) = world.rows("SELECT run_id FROM runs")[0]
    with ScriptedModel([{"hang": 60}]) as model:
        entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
        world.configure(more=f"[providers.models.s]\n{entry}")
        process = world.cli.start("agent", "--provider", "s", "-m", "two", "--continue")
        while not model.requests:
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
        process.communicate()
    assert len(world.rows("SELECT run_id FROM runs")) == 2
    proved(world, first, "")
