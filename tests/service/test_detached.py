"""The detached mode with real processes: what it keeps running, what it gives up, and whom it never touches."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from adderclaw.channels.service import process_identity
from tests.program import Cli, Done
from tests.service.conftest import Service, is_alive, until

# ------------------------------------------------------------------ hostile and broken files


def test_a_link_in_the_place_of_a_file_is_refused_and_not_followed(service: Service, tmp_path: Path) -> None:
    service.unit()
    target = tmp_path / "precious"
    target.write_text("precious", encoding="utf-8")
    for name in ("supervisor.pid", "serve.log", "detached.json"):
        place = service.folder / name
        before = place.read_bytes() if place.exists() else None
        place.unlink(missing_ok=True)
        place.symlink_to(target)
        done = service("start")
        assert (done.code, f"{name}: " in done.err, "a link is there" in done.err) == (1, True, True), done.err
        place.unlink()
        if before is not None:
            place.write_bytes(before)
    (service.folder / "state.json").unlink(missing_ok=True)
    (service.folder / "state.json").symlink_to(target)
    assert service("status").code == 3
    assert "started" in service.done("start")  # it is replaced, whatever is there
    assert target.read_text(encoding="utf-8") == "precious"


def test_garbage_in_the_files_of_one_that_is_gone_is_in_nobodys_way(service: Service) -> None:
    service.unit()
    for garbage in (b"\xff\xfe{", b"[1]", b"[" * 5_000, b"-1"):
        (service.folder / "supervisor.pid").write_bytes(garbage)
        (service.folder / "state.json").write_bytes(garbage)
        done = service("status")
        assert (done.code, "state.json cannot be read: remove it" in done.out) == (3, True)
        service.done("stop")
    assert "started" in service.done("start")


def test_a_process_that_has_the_number_by_now_is_never_taken_for_ours(service: Service) -> None:
    service.unit()
    other = subprocess.Popen(["sleep", "60"])
    try:
        found = process_identity.found(other.pid)
        assert found is not None
        boot, _, ticks = found.started.partition(":")
        for started in (f"{boot}:{int(ticks) - 1}", f"another-boot:{ticks}"):
            named = [other.pid, started]
            said = {"phase": "running", "server": named, "supervisor": named}
            (service.folder / "supervisor.pid").write_text(json.dumps(named), encoding="utf-8")
            (service.folder / "state.json").write_text(json.dumps(said), encoding="utf-8")
            assert service.status()["pid"] is None
            service.done("stop")
        service.done("start")
        service.done("stop")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_the_file_of_a_running_one_that_names_another_process_ends_that_one_never(service: Service) -> None:
    """Garbage, or another process: the supervisor is stopped all the same, by taking its file away."""
    other = subprocess.Popen(["sleep", "60"])
    try:
        for text in ("garbage", json.dumps([other.pid, "another start"])):
            service.unit()
            service.done("start")
            supervisor, server = service.supervisor(), service.server()
            (service.folder / "supervisor.pid").write_text(text, encoding="utf-8")
            assert service.status()["state"] == "running"
            assert service.done("stop") == "stopped\n"
            assert not is_alive(supervisor)
            assert not is_alive(server)
            assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_another_users_process_is_left_alone(service: Service) -> None:
    """Process 1 is never ours; as root, a signal to it would count."""
    service.unit()
    named = process_identity.found(1)
    assert named is not None
    said = {"phase": "running", "server": list(named), "supervisor": list(named)}
    (service.folder / "state.json").write_text(json.dumps(said), encoding="utf-8")
    (service.folder / "supervisor.pid").write_text(json.dumps(list(named)), encoding="utf-8")
    service.done("stop")
    assert "started" in service.done("start")
    assert service.server() != 1


# ------------------------------------------------------------------ disks, rights, packages


def test_a_disk_without_room_or_rights_is_named(service: Service, needs: Callable[[str], str], tmp_path: Path) -> None:
    bwrap, cli = needs("bwrap"), service.cli
    cli.data.mkdir()
    everything = (bwrap, "--dev-bind", "/", "/", "--proc", "/proc")
    cli.before = (*everything, "--ro-bind", str(cli.data), str(cli.data), "--")
    done = service("install", "--backend", "detached")
    assert (done.code, "read-only" in done.err, "ADDERCLAW_HOME" in done.err) == (1, True, True), done.err
    full = tmp_path / "full"
    full.mkdir()
    fill = f'head -c 20000 /dev/zero > {cli.data}/x 2>/dev/null; exec {" ".join(cli.argv("")[-2:-1])} "$@"'
    cli.before = (*everything, "--size", "4096", "--tmpfs", str(cli.data), "bash", "-c", fill, "x")
    done = Done(*_run([*cli.before, "service", "install", "--backend", "detached"], cli))
    assert (done.code, "make room on that disk" in done.err) == (1, True), done.err
    cli.before = ()
    (cli.data / "service").write_text("no folder", encoding="utf-8")
    done = service("install", "--backend", "detached")
    assert (done.code, "service" in done.err, "Traceback" in done.err) == (1, True, False), done.err


def _run(command: list[str], cli: Cli) -> tuple[int, str, str]:
    done = subprocess.run(command, env=cli.env, cwd=cli.cwd, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_without_the_packages_of_the_server_nothing_is_installed(service: Service, tmp_path: Path) -> None:
    text = 'raise ModuleNotFoundError("No module named \'starlette\'", name="starlette")\n'
    (tmp_path / "starlette.py").write_text(text, encoding="utf-8")
    done = service("install", env={"PYTHONPATH": str(tmp_path)})
    assert (done.code, "the extra `server` is not installed" in done.err) == (2, True)
    assert not service.folder.exists()


# ------------------------------------------------------------------ install


def test_without_a_project_the_configured_workspace_is_served(service: Service) -> None:
    elsewhere = service.cli.home
    done = service("install", "--backend", "detached", "--dry-run", cwd=elsewhere)
    assert (done.code, "`adderclaw init` makes it" in done.err) == (2, True)
    assert service.cli("init").code == 0
    done = service("install", "--backend", "detached", "--dry-run", cwd=elsewhere)
    assert json.loads(done.out)["command"][3] == str(service.cli.home / "adderclaw-workspace")


def test_what_serve_would_refuse_is_refused_at_install(service: Service) -> None:
    for words, said in (
        (("--prt", "1"), "No such option: --prt"),
        (("--port", "x"), "not a valid"),
        (("--workspace", "/nowhere"), "'/nowhere' is no folder"),
        (("--config", "/nowhere.toml"), "nowhere.toml"),
        (("--workspace", f"{sys.prefix}/.."), "would run outside of its sandbox"),
    ):
        done = service("install", *words)
        assert (done.code, said in done.err) == (2, True), done.err
    home = str(service.cli.home)  # a session would write the unit itself
    for manager in ("systemd", "launchd"):
        done = service("install", "--backend", manager, "--workspace", home, "--dry-run")
        assert (done.code, "would run outside of its sandbox" in done.err) == (2, True), done.err
    assert not service.folder.exists()
    for command in ("start", "stop", "restart"):
        done = service(command)
        assert (done.code, "not installed" in done.err) == (2, True)
    assert service.done("uninstall").startswith("not installed")


def test_install_shows_what_it_writes_and_keeps_what_was_edited(service: Service) -> None:
    shown = service("install", "--backend", "detached", "--dry-run", "--openai", "--config", "x.toml")
    assert shown.code == 2  # there is no x.toml
    (service.cli.cwd / "x.toml").write_text("", encoding="utf-8")
    shown = service("install", "--backend", "detached", "--dry-run", "--openai", "--config", "x.toml")
    assert not service.folder.exists()
    command = json.loads(shown.out)["command"]
    assert command[1:4] == ["serve", "--workspace", str(service.cli.cwd)]
    assert command[command.index("--config") + 1] == str(service.cli.cwd / "x.toml")
    assert "--openai" in command
    unit = service.folder / "detached.json"
    assert service.done("install").startswith("written: ")
    assert service.done("install").startswith("unchanged: ")
    assert stat.S_IMODE(unit.stat().st_mode) == 0o600
    assert service.done("install", "--port", "9999").startswith("written: ")  # ours, unchanged: no force is needed
    edited = unit.read_text(encoding="utf-8").replace("9999", "9998")
    unit.write_text(edited, encoding="utf-8")
    done = service("install")
    assert (done.code, "was edited by hand" in done.err) == (2, True)
    assert unit.read_text(encoding="utf-8") == edited
    assert service.done("install", "--force").startswith("written: ")
    done = service("install", "--backend", "systemd")
    assert (done.code, "installed already, by detached" in done.err) == (2, True)
    assert service.done("uninstall").startswith("removed: ")
    assert service.done("uninstall").startswith("not installed")


def test_a_unit_that_makes_no_sense_is_named(service: Service) -> None:
    service.unit()
    place = service.folder / "detached.json"
    relative = json.dumps({**json.loads(place.read_bytes()), "command": ["serve"]})
    for text, said in (("{", "mend it"), ("{}", "command"), (relative, "absolute path")):
        place.write_text(text, encoding="utf-8")
        done = service("start")
        assert (done.code, said in done.err) == (1, True), done.err


# ------------------------------------------------------------------ a server, whole


def test_the_real_server_outlives_its_terminal_and_a_kill(service: Service) -> None:
    service.done("install", "--backend", "detached", "--port", "0")
    place = service.folder / "detached.json"
    place.write_text(place.read_text(encoding="utf-8").replace('"delay_seconds": 2', '"delay_seconds": 0'), "utf-8")
    terminal, theirs = os.openpty()
    started = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *service.cli.argv("service", "start")],
        env=service.cli.env, cwd=service.cli.cwd, stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while b"started: process" not in said:
        said += os.read(terminal, 4_096)
    os.close(terminal)  # the terminal is gone: SIGHUP to all that belong to it
    started.wait(30)
    status = service.status()
    assert (status["state"], status["backend"], status["restarts"]) == ("running", "detached", 0)
    assert httpx2.get(f"{status['address']}/health", trust_env=False).status_code == 200
    assert service.done("start") == f"runs already: process {status['pid']} at {status['address']}\n"
    assert os.getsid(status["pid"]) == status["pid"]
    os.kill(status["pid"], signal.SIGKILL)
    again = until(lambda: (found := service.status())["state"] == "running" and found["pid"] != status["pid"] and found)
    assert (again["restarts"], again["last_exit"], again["state"]) == (1, "killed by SIGKILL", "running")
    assert service.cli("schedule", "add", "daily", "--cron", "0 3 * * *", "--message", "hello").code == 0
    assert service.cli("estop").code == 0
    found = service.status()
    assert (found["estop"], found["schedules"]["waiting"], "T03:00:00Z" in found["schedules"]["next"]) == (
        True,
        1,
        True,
    )
    assert service.done("stop") == "stopped\n"
    after = service("status")
    assert (after.code, "stopped: it was stopped" in after.out, "exit code 0" in after.out) == (3, True, True)
    assert not is_alive(again["pid"])
    assert service.done("stop") == "it did not run\n"
    assert stat.S_IMODE((service.folder / "serve.log").stat().st_mode) == 0o600
    assert "serving " in service.done("logs")


def test_a_port_that_is_taken_is_said_at_start_and_not_tried_again(service: Service) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as other:
        service.done("install", "--backend", "detached", "--port", str(other.getsockname()[1]))
        done = service("start")
    assert (done.code, "is in use by another program" in done.err) == (1, True), done.err
    assert service.status()["state"] == "failed"
    assert service.log().count("started process") == 1


# ------------------------------------------------------------------ kills


def test_a_supervisor_that_is_killed_leaves_no_server(service: Service) -> None:
    service.unit()
    service.done("start")
    supervisor, server = service.supervisor(), service.server()
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not is_alive(server), "the server outlived its supervisor")
    found = service.status()
    assert (found["state"], found["detail"], found["pid"]) == ("failed", "the supervisor was killed", None)
    service.done("start")
    assert service.server() != server


@pytest.mark.parametrize("begin", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_the_next_start_waits_for_a_server_that_is_left_and_kills_one_that_does_not_end(
    service: Service, begin: str
) -> None:
    service.unit(begin, slow=0.8, stop_seconds=1.5)
    service.done("start")
    supervisor, server = service.supervisor(), service.server()
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not is_alive(supervisor))
    assert is_alive(server)
    service.done("start")
    assert not is_alive(server)
    assert service.server() != server
    assert "two servers at once" not in service.log()


def test_stop_ends_a_server_whose_supervisor_was_killed(service: Service) -> None:
    service.unit("signal.signal(signal.SIGTERM, signal.SIG_IGN)", stop_seconds=0.5)
    service.done("start")
    server = service.server()
    os.kill(service.supervisor(), signal.SIGKILL)
    service.done("stop")
    assert not is_alive(server)


def test_a_server_that_does_not_end_is_killed(service: Service) -> None:
    service.unit("signal.signal(signal.SIGTERM, signal.SIG_IGN)", stop_seconds=0.5)
    service.done("start")
    server = service.server()
    assert service.done("stop") == "stopped\n"
    assert not is_alive(server)
    assert "did not end within 0.5 s and is killed" in service.log()


def test_a_supervisor_whose_folder_is_gone_ends(service: Service) -> None:
    service.unit()
    service.done("start")
    supervisor, server = service.supervisor(), service.server()
    service.folder.rename(service.folder.with_name("moved"))
    until(lambda: not is_alive(supervisor) and not is_alive(server), "it lives on")


# ------------------------------------------------------------------ failures


def test_a_crash_loop_is_given_up_and_said(service: Service) -> None:
    service.unit("print('out of order', file=sys.stderr); sys.exit(7)", most_failures=3, delay_seconds=0.01)
    done = service("start")
    assert (done.code, "it failed 3 times within 300 s" in done.err, "out of order" in done.err) == (1, True, True)
    found = service("status")
    assert (found.code, "failed: it failed 3 times" in found.out, "exit code 7" in found.out) == (3, True, True)
    assert service.log().count("started process") == 3
    service.unit()
    service.done("start")  # whoever mended it starts it anew
    assert service.status()["state"] == "running"


def test_a_server_that_somebody_ended_is_not_started_again(service: Service) -> None:
    service.unit()
    service.done("start")
    os.kill(service.server(), signal.SIGTERM)
    until(lambda: service.state()["phase"] == "stopped")
    assert service.log().count("started process") == 1


def test_many_starts_at_once_make_one_server(service: Service) -> None:
    service.unit()
    said: list[Done] = []
    threads = [threading.Thread(target=lambda: said.append(service("start"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [done.code for done in said] == [0] * 4, said
    assert service.log().count("started process") == 1


def test_a_server_that_is_not_the_services_is_named(service: Service) -> None:
    service.unit()
    unit = json.loads((service.folder / "detached.json").read_bytes())
    other = subprocess.Popen(unit["command"], env=service.cli.env, stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        other.stdout.readline()
        done = service("start")
        assert (done.code, f"(process {other.pid}), and is not the service's" in done.err) == (1, True), done.err
        assert other.poll() is None
    finally:
        other.kill()
        other.communicate()


# ------------------------------------------------------------------ log, environment


def test_the_log_is_bounded_and_read_over_its_files(service: Service) -> None:
    begin = "for n in range(3000): print('line', n)\nprint('\\033[31mred', 'x' * 200000, flush=True)"
    service.unit(begin, log_bytes=40_000, log_files=3)
    service.done("start")
    files = sorted(service.folder.glob("serve.log*"))
    assert [file.name for file in files] == ["serve.log", "serve.log.1", "serve.log.2"]
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.stat().st_size < 40_000 + 66_000  # a line is not broken for it
    service.unit("for n in range(3000): print('line', n)", log_bytes=40_000, log_files=3)
    service.done("restart")
    shown = service.done("logs", "-n", "1200").splitlines()
    assert len(shown) == 1_200
    numbers = [int(line.split()[-1]) for line in shown if " line " in line]
    assert numbers == list(range(numbers[0], 3_000))
    follower = service.cli.start("service", "logs", "-n", "1", "--follow")
    assert follower.stdout is not None
    assert b"it listens" in follower.stdout.readline()
    service.done("restart")
    while b"it listens" not in follower.stdout.readline():
        pass
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=30)
    assert follower.returncode == 130


def test_nothing_in_a_log_steers_the_terminal(service: Service) -> None:
    service.unit("print('\\033[31mred\\a', flush=True)")
    service.done("start")
    assert "\\u{1b}[31mred" in service.done("logs")


def test_keys_come_from_a_file_that_nobody_else_reads(service: Service) -> None:
    service.unit("print('key', os.environ.get('MY_KEY'), os.environ['ADDERCLAW_HOME'], flush=True)")
    place = service.cli.data / "service.env"
    place.write_text("# mine\n\nMY_KEY='sesame seeds'\n", encoding="utf-8")
    place.chmod(0o644)
    done = service("start")
    assert (done.code, "can be read by others: `chmod 600" in done.err) == (1, True)
    place.chmod(0o600)
    service.done("start")
    assert f"key sesame seeds {service.cli.data}" in service.log()
    assert "sesame" not in (service.folder / "detached.json").read_text(encoding="utf-8")
    place.write_text("export X", encoding="utf-8")
    done = service("restart")
    assert (done.code, "line 1: it is not NAME=value" in done.err) == (1, True)


def test_a_file_of_keys_that_breaks_meanwhile_is_named_by_the_status(service: Service) -> None:
    """It is read at each start; the supervisor gives up as with any failure, and does not fail itself."""
    keys = service.cli.data / "service.env"
    service.unit(delay_seconds=0.05, most_failures=2)
    service.done("start")
    keys.write_text("A=b\n", encoding="utf-8")
    keys.chmod(0o644)
    os.kill(service.state()["server"][0], signal.SIGKILL)
    until(lambda: service.state()["phase"] == "failed", "it did not give up")
    assert "can be read by others: `chmod 600" in service("status").out
