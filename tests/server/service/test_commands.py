"""`adderclaw service` where no manager is needed: what it refuses, and what it says of a server started otherwise."""

import json
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.program import Cli, Done
from tests.server.service.conftest import until

SYSTEMD = ("--backend", "systemd")


@pytest.fixture
def project(cli: Cli, tmp_path: Path) -> Cli:
    """A project, and no manager that answers."""
    (cli.cwd / ".git").mkdir()
    cli.env |= {"XDG_RUNTIME_DIR": str(tmp_path), "DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path}/none"}
    return cli


def unit_of(cli: Cli) -> Path:
    return cli.home / ".config/systemd/user/adderclaw.service"


def install(cli: Cli, *words: str, **more: Any) -> Done:
    return cli("service", "install", *words, **more)


def test_without_a_manager_install_says_what_to_do(project: Cli) -> None:
    done = install(project)
    assert (done.code, done.out) == (2, "")
    assert "neither systemd nor launchd answers for this user" in done.err
    assert "adderclaw serve` under the supervisor that you have" in done.err
    for command in ("start", "stop", "restart", "logs"):
        done = project("service", command)
        assert (done.code, "not installed" in done.err) == (2, True)
    assert project("service", "uninstall").out.startswith("not installed")
    status = project("service", "status")
    assert (status.code, "stopped: the service is not installed" in status.out) == (3, True)


def test_status_reports_a_server_that_was_started_in_another_way(project: Cli) -> None:
    server = project.start("serve", "--port", "0")
    try:
        until(lambda: (project.data / "server" / "running.json").exists(), "it does not listen")
        assert project("schedule", "add", "daily", "--cron", "0 3 * * *", "--message", "hello").code == 0
        done = project("service", "status", "--output-format", "json")
        status = json.loads(done.out)
        assert (done.code, status["state"], status["installed"], status["pid"]) == (0, "running", False, server.pid)
        assert status["address"].startswith("http://127.0.0.1:")
        assert (status["schedules"]["waiting"], "T03:00:00Z" in status["schedules"]["next"]) == (1, True)
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)


def test_without_a_project_the_configured_workspace_is_served(project: Cli) -> None:
    done = install(project, *SYSTEMD, "--dry-run", cwd=project.home)
    assert (done.code, "is not a folder: `adderclaw init` creates it" in done.err) == (2, True)
    assert project("init").code == 0
    done = install(project, *SYSTEMD, "--dry-run", cwd=project.home)
    assert f'"--workspace" "{project.home / "adderclaw-workspace"}"' in done.out


def test_what_serve_would_refuse_is_refused_at_install(project: Cli) -> None:
    home = str(project.home)  # a session would write the unit itself
    for words, said in (
        (("--prt", "1"), "No such option: --prt"),
        (("--port", "x"), "not a valid"),
        (("--workspace", "/nowhere"), "'/nowhere' is not a folder"),
        (("--config", "/nowhere.toml"), "nowhere.toml"),
        (("--workspace", f"{sys.prefix}/.."), "would run outside the sandbox"),
        (("--workspace", home), "would run outside the sandbox"),
    ):
        done = install(project, *SYSTEMD, *words)
        assert (done.code, said in done.err) == (2, True), done.err
    assert not unit_of(project).exists()


def test_install_shows_what_it_writes_and_replaces_only_its_own_unit(project: Cli) -> None:
    unit = unit_of(project)
    (project.cwd / "x.toml").write_text("", encoding="utf-8")
    shown = install(project, *SYSTEMD, "--dry-run", "--openai", "--config", "x.toml").out
    assert not unit.exists()
    assert f'"serve" "--workspace" "{project.cwd}" ' in shown
    assert (f'"--config" "{project.cwd / "x.toml"}"' in shown, '"--openai"' in shown) == (True, True)
    for port in ("9999", "9998"):
        done = install(project, *SYSTEMD, "--port", port)
        assert f"written: {unit} (systemd)" in done.out
        assert (done.code, "no systemd answers for this user" in done.err) == (1, True)
        assert port in unit.read_text(encoding="utf-8")
    assert stat.S_IMODE(unit.stat().st_mode) == 0o600
    done = install(project, "--backend", "launchd")
    assert (done.code, "installed already, by systemd" in done.err) == (2, True)
    unit.write_text("[Service]\n", encoding="utf-8")
    done = install(project, *SYSTEMD)
    assert (done.code, "was not written by" in done.err) == (2, True)
    assert unit.read_text(encoding="utf-8") == "[Service]\n"
    assert "written: " in install(project, *SYSTEMD, "--force").out
    assert project("service", "uninstall").out.startswith("removed: ")


def test_a_link_in_the_place_of_the_unit_is_not_followed(project: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("theirs", encoding="utf-8")
    unit = unit_of(project)
    unit.parent.mkdir(parents=True)
    unit.symlink_to(other)
    assert install(project, *SYSTEMD).code == 2
    install(project, *SYSTEMD, "--force")
    assert (unit.is_symlink(), other.read_text(encoding="utf-8")) == (False, "theirs")
