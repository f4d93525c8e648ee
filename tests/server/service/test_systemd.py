"""The unit in a real systemd of a user: it starts, is restarted, stops, and the sandbox works in it."""

import json
import os
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.world import World, call, text
from tests.program import Cli
from tests.server.service.conftest import until

GROUPS = Path("/sys/fs/cgroup")
INSIDE = """
mount -t tmpfs tmpfs /run || exit 77
mkdir -p /run/systemd/system "$XDG_RUNTIME_DIR" && chmod 700 "$XDG_RUNTIME_DIR"
systemd --user --log-target=console &
echo ready
wait $!
"""


def groups() -> list[Path]:
    """Where systemd keeps its control groups: one for us alone beneath, so that nothing else is touched."""
    found = [GROUPS / name for name in ("systemd", "unified") if (GROUPS / name / "cgroup.procs").exists()]
    return found or [GROUPS]


@pytest.fixture
def manager(cli: Cli, tmp_path: Path, needs: Callable[[str], str]) -> Generator[Cli]:
    """A systemd of our own in namespaces of our own; the installed program runs beside it."""
    for program in ("systemd", "systemctl", "unshare", "nsenter"):
        needs(program)
    if os.geteuid() != 0:
        pytest.skip("only root starts a second systemd")
    ours = [folder / f"adderclaw-test-{os.getpid()}" for folder in groups()]
    try:
        for folder in ours:
            folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    cli.env["XDG_RUNTIME_DIR"] = f"/run/user/{os.getuid()}"
    enter = "".join(f"echo $$ > {folder}/cgroup.procs; " for folder in ours)
    command = ["bash", "-c", f"{enter} exec unshare -m -p -f --mount-proc --kill-child bash -c '{INSIDE}'"]
    log = (tmp_path / "systemd.log").open("wb")
    outside = subprocess.Popen(command, env=cli.env, stdout=subprocess.PIPE, stderr=log)
    assert outside.stdout is not None
    try:
        if outside.stdout.readline() != b"ready\n":
            pytest.skip("no namespaces can be made here")
        children = Path(f"/proc/{outside.pid}/task/{outside.pid}/children")
        inside = children.read_text(encoding="ascii").split()[0]
        cli.before = ("nsenter", "-t", inside, "-m", "-p", "--")
        asked = [*cli.before, "systemctl", "--user", "is-system-running"]

        def runs() -> bool:
            said = subprocess.run(asked, env=cli.env, capture_output=True, text=True).stdout.strip()
            return said in ("running", "degraded")

        until(runs, "systemd does not start")
        yield cli
    finally:
        outside.kill()
        outside.wait()
        outside.stdout.close()
        log.close()
        for folder in ours:
            for path in sorted(folder.rglob("*"), reverse=True):
                if path.is_dir():
                    until(lambda path=path: not (path / "cgroup.procs").read_text(encoding="ascii"))
                    path.rmdir()
            until(lambda folder=folder: not (folder / "cgroup.procs").read_text(encoding="ascii"))
            folder.rmdir()


def test_the_unit_in_a_real_systemd(manager: Cli, tmp_path: Path) -> None:
    cli = manager
    world = World(cli, tmp_path)
    world.configure("full")
    world.script(call("Bash", command="printf %s-%s from 42; touch made"), text("done"))
    (cli.data / "service.env").write_text(f"ADDERCLAW_MOCK_FIXTURE={world.fixture}\n", encoding="utf-8")
    (cli.data / "service.env").chmod(0o600)
    here = ("--port", "0", "--workspace", str(world.workspace))
    done = cli("service", "install", *here)
    assert done.code == 0, done.err
    unit = cli.home / ".config/systemd/user/adderclaw.service"
    assert f"written: {unit} (systemd)" in done.out  # it was found by itself
    assert "loginctl enable-linger" in done.out
    done = cli("service", "start")
    assert (done.code, done.out.startswith("started: process ")) == (0, True), done.err
    status = json.loads(cli("service", "status", "--output-format", "json").out)
    assert (status["state"], status["starts_with"], status["restarts"]) == ("running", "login", 0)
    # what a session starts is confined as ever: bubblewrap starts behind every wall of the unit
    token = json.loads(cli("token", "create", "t", "--scope", "admin", "--output-format", "json").out)["token"]
    headers = {"Authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=status["address"], headers=headers, trust_env=False, timeout=60) as client:
        answer = client.post("/chat", json={"message": "go"}).json()
    assert answer["answer"] == "done"
    receipt = world.receipts()[0]
    assert (receipt["decision"]["sandbox"], receipt["status"]) == ("bubblewrap", "allowed"), receipt
    said = world.rows("SELECT payload_json FROM transcript_entries WHERE entry_type = 'tool_result'")[0][0]
    assert "from-42" in said
    # a kill is mended, a stop is not
    subprocess.run([*cli.before, "kill", "-9", str(status["pid"])], check=True)
    again = until(lambda: (found := _status(cli))["state"] == "running" and found["pid"] != status["pid"] and found)
    assert (again["restarts"], again["state"]) == (1, "running")
    assert cli("service", "stop").out == "stopped\n"
    stopped = _status(cli)
    assert (stopped["state"], stopped["last_exit"]) == ("stopped", "exit code 0")
    # what cannot work is not tried again
    assert cli("service", "install", *here, "--provider", "nobody").code == 0
    (cli.data / "config.toml").write_text("nonsense = 1\n", encoding="utf-8")
    assert cli("service", "start").code == 1
    failed = _status(cli)
    assert (failed["state"], failed["last_exit"], failed["restarts"]) == ("failed", "exit code 2", 0)
    assert cli("service", "uninstall").code == 0
    assert not unit.exists()
    assert cli("service", "uninstall").out.startswith("not installed")


def _status(cli: Cli) -> dict[str, Any]:
    return json.loads(cli("service", "status", "--output-format", "json").out)
