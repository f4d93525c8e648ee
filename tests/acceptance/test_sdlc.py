"""From plan to proof through the program: what is refused, by whom, on every channel, and what a kill leaves."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adderclaw import AgentClient, QueryOptions
from adderclaw.core.errors import AdderClawError
from tests.acceptance.world import World, call, text
from tests.program import PROGRAM

PLAN = "# Greet\n\n## Success criteria\n\n- [C1] `./greet` prints hello\n"


def change(world: World, sql: str, *parameters: object) -> None:
    connection = sqlite3.connect(world.database)
    with connection:
        connection.execute(sql, parameters)
    connection.close()


def seeded(world: World, phase: str, id: str = "test-conv-1") -> str:
    if not world.database.exists():
        assert world.cli("init").code == 0
    sql = "INSERT OR REPLACE INTO conversations(id, project_dir, phase) VALUES (?, ?, ?)"
    change(world, sql, id, str(world.workspace), phase)
    return id


def phase(world: World, id: str = "test-conv-1") -> str:
    return str(world.rows("SELECT phase FROM conversations WHERE id = ?", id)[0][0])


def test_d82_d93_no_phase_is_skipped(world: World) -> None:
    seeded(world, "implement")
    for to in ("verify", "done"):
        refused = world.cli("--transition", to, "--conversation", "test-conv-1")
        assert (refused.code, phase(world)) == (3, "implement")
        assert "the tests are not bypassed" in refused.err
    moved = world.cli("--transition", "test", "--conversation", "test-conv-1")
    assert (moved.code, phase(world)) == (0, "test")
    assert "there is nothing to prove" in moved.err
    assert world.cli("sdlc", "transition", "verify", "--conversation", "test-conv").code == 3
    for given in (["--transition", "test"], ["--conversation", "test-conv-1"]):
        assert "needs --conversation ID" in world.cli(*given).err
    assert "there is no phase 'tset'" in world.cli("--transition", "tset", "--conversation", "test-conv-1").err
    assert "no conversation has the id" in world.cli("--transition", "test", "--conversation", "nobody").err


def test_a_phase_that_does_not_exist_is_an_error_everywhere(world: World) -> None:
    world.script(text("hello"))
    assert world.agent("hi").code == 0
    ((id,),) = world.rows("SELECT id FROM conversations")
    change(world, "UPDATE conversations SET phase = 'bogus'")
    for words in (["sdlc", "status"], ["sdlc", "transition", "test"], ["sdlc", "approve", "--yes"]):
        done = world.cli(*words, "--conversation", id)
        assert (done.code, "the unknown phase 'bogus'" in done.err) == (1, True), done
    world.script(text("never asked"))
    for words in (["agent", "-r", id, "-m", "go on"], ["-p", "go on", "-r", id]):
        done = world.cli(*words)
        assert (done.code, "the unknown phase 'bogus'" in done.err) == (1, True), done
    assert world.cli("sdlc", "transition", "planning", "--conversation", id).code == 0
    assert phase(world, id) == "planning"


CONSENTS = """
cd "$WORK"
try() {{ "$@" < /dev/null > out.txt 2>&1; echo "$? $(grep -c "is the operator's decision" out.txt)"; }}
try {adderclaw} sdlc approve --yes
try {adderclaw} --transition planning --conversation test-conv-1
try {adderclaw} sdlc transition planning
try {adderclaw} approvals answer approval-1 yes
try {adderclaw} trust .
try {adderclaw} estop --clear
try {adderclaw} plugin install ./plugin --trust 00
try env -u ADDERCLAW_CALL {adderclaw} trust .
try env ADDERCLAW_CALL=1-2-00000000.1 {adderclaw} trust .
try env -i HOME="$HOME" PATH="$PATH" {adderclaw} trust .
try setsid -w env -i HOME="$HOME" PATH="$PATH" {adderclaw} trust .
try {python} -c "import os; os.environ.clear(); os.environ.update(HOME='$HOME', PATH='$PATH'); \
os.execvp('{adderclaw}', ['adderclaw', 'trust', '.'])"
{adderclaw} trust --show . > out.txt; echo $?
{adderclaw} sdlc status --conversation test-conv-1 > out.txt; echo $?
ADDERCLAW_HOME="$WORK/../other-home" {adderclaw} trust . > out.txt 2>&1; echo $?
exec env -i HOME="$HOME" PATH="$PATH" {adderclaw} trust .
"""


def test_no_command_of_a_model_gives_the_operators_consent(world: World) -> None:
    """Not in `permissive` either, whatever the command does to its environment and its place in the process tree."""
    seeded(world, "planning")
    (world.workspace / "hooks.txt").write_text("x\n")
    script = CONSENTS.format(adderclaw=PROGRAM, python=sys.executable).replace("$WORK", str(world.workspace))
    (world.workspace / "consent.sh").write_text(script)
    world.script(call("Bash", command="bash consent.sh"), text("done"))
    done = world.cli("agent", "-m", "go", "--profile", "permissive", timeout=120)
    assert done.code == 0, done.err
    result = str(world.entries("tool_result")[0]["content"])
    lines = result.removeprefix("Exit code 3\n").splitlines()
    assert lines[:12] == ["3 1"] * 12, result
    assert lines[12:15] == ["0", "0", "0"], result
    assert "is the operator's decision" in result.split("0\n0\n0\n")[1]
    assert phase(world) == "planning"
    by_hand = world.cli("--transition", "implement", "--conversation", "test-conv-1")
    assert (by_hand.code, "no plan of this conversation is approved" in by_hand.err) == (3, True)


def test_every_command_that_consents_exists() -> None:
    """And every command that is called like one of them is among them."""
    from adderclaw.terminal.commands.common import CONSENTS as known

    table = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    commands = {tuple(row.split("`")[1].split()) for row in table.splitlines() if row.startswith("| `")}
    assert known.keys() <= commands
    named = {words for words in commands if words[-1] in ("approve", "accept", "answer", "trust", "enroll")}
    assert named <= known.keys()


def test_d79_d81_only_an_operator_approves(world: World) -> None:
    (world.workspace / "plan.md").write_text(PLAN)
    drafted = json.loads(world.cli("sdlc", "plan", "plan.md", "--output-format", "json").out)
    id = drafted["conversation"]
    assert [one["id"] for one in drafted["plan"]["criteria"]] == ["C1"]
    headless = world.cli("sdlc", "approve")
    assert (headless.code, phase(world, id)) == (5, "planning")
    assert "has to be approved by the operator" in headless.err
    assert world.cli.typed("sdlc", "approve", stdin="n\n").code == 3
    assert world.rows("SELECT status FROM plans") == [("draft",)]
    assert world.cli.typed("sdlc", "approve", stdin="y\n").code == 0
    assert phase(world, id) == "implement"
    assert world.rows("SELECT plan_id, digest <> '' FROM plan_baselines") == [(1, 1)]
    assert world.cli("sdlc", "transition", "test").code == 0
    shut = world.cli("sdlc", "transition", "verify")
    assert (shut.code, phase(world, id)) == (3, "test")
    assert "C1" in shut.err
    change(world, "UPDATE conversations SET phase = 'verify'")
    assert world.cli("sdlc", "transition", "done").code == 3
    assert world.cli("sdlc", "approve").code == 5
    unproved = world.cli("sdlc", "approve", "--yes")
    assert (unproved.code, phase(world, id)) == (3, "verify")
    told = json.loads(world.cli("sdlc", "history", "--output-format", "json").out)
    assert [(one["event"], "(cli)" in one["by"]) for one in told][1] == ("plan_approved", True)


def test_the_same_in_the_repl(world: World) -> None:
    world.script(call("EnterPlanMode"), call("ExitPlanMode", plan=PLAN), text("waiting"))
    typed = "plan it\nn\n/phase verify\n/plan approve\n/phase\n/phase verify\n/phase test\n/phase done\n/exit\n"
    done = world.cli.typed("agent", stdin=typed)
    assert "planning → implement" in done.out
    assert "next test: open" in done.out
    assert "implement → verify is refused" in done.out + done.err
    assert "implement → test" in done.out
    assert "test → done is refused" in done.out + done.err
    assert world.rows("SELECT phase FROM conversations WHERE phase <> 'idle'") == [("test",)]  # one is the generator's


def test_the_same_for_programs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*calls: tuple[str, dict[str, object]]) -> list[dict[str, Any]]:
        lines = [
            {"jsonrpc": "2.0", "id": n, "method": f"sdlc.{name}", "params": p} for n, (name, p) in enumerate(calls)
        ]
        done = world.cli("rpc", stdin="[" + ",".join(map(json.dumps, lines)) + "]\n")
        return sorted(json.loads(done.out), key=lambda one: one["id"])

    (bad,) = asked(("plan", {"plan": PLAN + "- [C1] twice\n", "new": True}))
    assert "the id C1 is already used in line 5" in json.dumps(bad["error"])
    (made,) = asked(("plan", {"plan": PLAN, "new": True}))
    id = made["result"]["conversation"]
    (other,) = asked(("approve", {"what": "report", "plan": 1}))
    assert "not the report of 1" in json.dumps(other["error"])
    assert "result" in asked(("approve", {"what": "plan", "plan": 1}))[0]
    (refused,) = asked(("transition", {"phase": "done"}))
    assert "the tests are not bypassed" in json.dumps(refused["error"])
    assert "(rpc)" in json.dumps(asked(("history", {})))
    assert phase(world, str(id)) == "implement"

    async def by_python() -> None:
        workflow = AgentClient(QueryOptions(cwd=str(world.workspace))).sdlc()
        assert (await workflow.transition("test"))["phase"] == "test"
        with pytest.raises(AdderClawError, match="test → verify is refused"):
            await workflow.transition("verify")
        assert "(python)" in json.dumps(await workflow.history())

    for name in ("HOME", "ADDERCLAW_HOME"):
        monkeypatch.setenv(name, world.cli.env[name])
    asyncio.run(by_python())


MOVER = """
import os, sys
from adderclaw.storage import Store
from adderclaw.storage.sdlc import phases
store = Store.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
with store.write() as cursor:
    phases.transition(cursor, sys.argv[2], sys.argv[3], by=phases.Mover("operator", "x"))
    if len(sys.argv) > 4:
        print("moved", flush=True)
        sys.stdin.readline()
"""


def mover(world: World, *words: str) -> "subprocess.Popen[bytes]":
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", MOVER, str(world.database), "test-conv-1", *words], **pipes)  # pyright: ignore[reportArgumentType,reportCallIssue]


NEXT = [
    ("idle", "planning"),
    ("planning", "planning"),
    ("implement", "test"),
    ("verify", "planning"),
    ("done", "planning"),
]


def test_killed_in_each_phase_before_the_commit_nothing_has_moved(world: World) -> None:
    for before, to in NEXT:
        seeded(world, before)
        count = world.rows("SELECT count(*) FROM events WHERE conversation_id = 'test-conv-1'")
        process = mover(world, to, "wait")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        assert process.stdout.readline() == b"moved\n"
        process.kill()
        process.communicate()
        assert phase(world) == before
        assert world.rows("SELECT count(*) FROM events WHERE conversation_id = 'test-conv-1'") == count
        assert world.cli("--transition", to, "--conversation", "test-conv-1").code == 0
        assert phase(world) == to


def test_of_two_processes_that_move_one_conversation_one_does(world: World) -> None:
    seeded(world, "implement")
    both = [mover(world, "test") for _ in range(2)]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in both:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    said = [process.communicate()[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 1]
    assert b"there already" in b"".join(said)
    assert world.rows("SELECT count(*) FROM events WHERE event_type = 'phase_changed'") == [(1,)]


SEED = r"""
set -u
echo -e "line1\nline2\nline3" > "$T/sdlc_test_read_input.txt"
adderclaw --eval "{\"tool\": \"Read\", \"input\": {\"file_path\": \"$T/sdlc_test_read_input.txt\"}}"
RESULT=$(sqlite3 "$AGENT_SDLC_DB" \
  "SELECT payload_json FROM transcript_entries
   WHERE entry_type='tool_result' ORDER BY sequence DESC LIMIT 1")
echo "$RESULT" | grep '"is_error":false' || exit 1
echo "$RESULT" | grep 'line1' || exit 2
echo "$RESULT" | grep '3 lines' || exit 3

sqlite3 "$AGENT_SDLC_DB" \
  "INSERT INTO conversations(id, project_dir, phase) VALUES ('test-conv-1', '/tmp', 'implement')"
adderclaw --transition verify --conversation test-conv-1 2>&1
PHASE=$(sqlite3 "$AGENT_SDLC_DB" "SELECT phase FROM conversations WHERE id='test-conv-1'")
test "$PHASE" = "implement" || exit 4
adderclaw --transition test --conversation test-conv-1
PHASE=$(sqlite3 "$AGENT_SDLC_DB" "SELECT phase FROM conversations WHERE id='test-conv-1'")
test "$PHASE" = "test" || exit 5

sqlite3 "$AGENT_SDLC_DB" \
  "INSERT OR REPLACE INTO settings_snapshot(scope, json, updated_at)
   VALUES ('effective',
   '{\"hooks\":[{\"hook_event_name\":\"PreToolUse\",\"matcher\":\"Bash\",\"command\":\"exit 2\"}]}',
   datetime('now'))"
adderclaw --eval '{"tool": "Bash", "input": {"command": "echo hello"}}'
sqlite3 "$AGENT_SDLC_DB" \
  "SELECT exit_code FROM hook_invocations
   WHERE hook_event='PreToolUse' AND tool_name='Bash'
   ORDER BY id DESC LIMIT 1" | grep '^2$' || exit 6
sqlite3 "$AGENT_SDLC_DB" \
  "SELECT payload_json FROM transcript_entries
   WHERE entry_type='tool_result' ORDER BY sequence DESC LIMIT 1" \
  | grep '"is_error":true' || exit 7
"""


def test_d92_d93_d94_the_seeds_checks_as_written_against_one_database(world: World, tmp_path: Path) -> None:
    program = tmp_path / "bin"
    program.mkdir()
    (program / "sqlite3").write_text(
        f"#!{sys.executable}\nimport sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\n"
        "[print(*row, sep='|') for row in c.execute(sys.argv[2])]\nc.commit()\n"
    )
    (program / "sqlite3").chmod(0o755)
    path = f"{program}:{PROGRAM.parent}:{world.cli.env['PATH']}"
    env = {**world.cli.env, "PATH": path, "AGENT_SDLC_DB": str(tmp_path / "one.sqlite"), "T": str(tmp_path)}
    shell = ["bash", "-c", SEED]
    done = subprocess.run(shell, env=env, cwd=world.workspace, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
