"""The texts that systemd and launchd read: checked by systemd's own reader, and by the parser of property lists."""

import os
import plistlib
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from adderclaw.core.errors import UsageError
from adderclaw.server.service import plan
from adderclaw.server.service.backend import service_name
from adderclaw.server.service.launchd import Launchd
from adderclaw.server.service.plan import Plan
from adderclaw.server.service.systemd import Systemd
from adderclaw.terminal.commands.service import serve_options
from tests.program import PROGRAM, Cli

type Needs = Callable[[str], str]

ODD = '/srv/it\'s 100% "mine" $HOME \\ <&> {x} é'
"""What means something to systemd, to XML or to a format string."""


def made(*words: str) -> Plan:
    return Plan((str(PROGRAM), "serve", *words), ODD, f"/usr/bin:{ODD}", "/home/x/service.env", 20, (ODD,))


def verified(folder: Path, text: str) -> "subprocess.CompletedProcess[str]":
    unit = folder / "adderclaw.service"
    unit.write_text(text, encoding="utf-8")
    env = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "HOME": str(folder)}
    command = ["systemd-analyze", "--user", "verify", "--man=no", str(unit)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def test_systemd_takes_the_unit(home: Path, tmp_path: Path, needs: Needs) -> None:
    needs("systemd-analyze")
    done = verified(tmp_path, Systemd().text(made("--workspace", ODD)))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    wrong = verified(tmp_path, Systemd().text(made()).replace("OOMPolicy=", "OOMPolice="))
    assert "OOMPolice" in wrong.stderr  # the reader would say so


def test_the_units_walls_are_counted(home: Path, tmp_path: Path, needs: Needs) -> None:
    """What a user's systemd can hold back without keeping bubblewrap from starting; a bare unit has 9.8."""
    needs("systemd-analyze")
    unit = tmp_path / "adderclaw.service"
    unit.write_text(Systemd().text(made()), encoding="utf-8")
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "LANG": "C.UTF-8"}
    command = ["systemd-analyze", "--user", "security", "--offline=true", "--no-pager", str(unit)]
    said = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    if "offline" in said.stderr:
        pytest.skip("this systemd judges no files")
    level = re.search(r"exposure level for \S+: ([\d.]+)", said.stdout)
    assert level is not None, said.stdout + said.stderr
    assert float(level[1]) < 8


def test_words_of_a_unit_are_read_back_as_they_were(home: Path, needs: Needs, tmp_path: Path) -> None:
    text = Systemd().text(made("--workspace", ODD))
    start = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    assert start.endswith(r'''"/srv/it's 100%% \"mine\" $$HOME \\ <&> {x} é"''')
    assert 'Environment="ADDERCLAW_HOME=/srv/it\'s 100%% \\"mine\\" $HOME \\\\ <&> {x} é"' in text


def test_a_setuid_bubblewrap_starts_without_walls(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs: Needs
) -> None:
    bwrap = tmp_path / "bwrap"
    bwrap.write_text("#!/bin/sh\n", encoding="utf-8")
    bwrap.chmod(0o4755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    text = Systemd().text(made())
    assert f"{bwrap} is setuid" in text
    for word in ("NoNewPrivileges", "SystemCall", "LockPersonality", "RestrictAddressFamilies"):
        assert word not in text
    assert text.endswith("[Install]\nWantedBy=default.target\n")
    needs("systemd-analyze")
    assert verified(tmp_path, text).stderr == ""


def test_launchd_gets_exactly_these_keys(home: Path) -> None:
    text = Launchd().text(made("--workspace", ODD))
    log = f"{home}/.adderclaw/service/serve.log"
    assert plistlib.loads(text.encode()) == {
        "Label": "io.github.adderclaw",
        "ProgramArguments": [str(PROGRAM), "serve", "--workspace", ODD],
        "WorkingDirectory": str(home),
        "EnvironmentVariables": {"ADDERCLAW_HOME": ODD, "PATH": f"/usr/bin:{ODD}"},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 30,
        "ExitTimeOut": 20,
        "ProcessType": "Standard",
        "HardResourceLimits": {"Core": 0},
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }


def test_launchctl_is_asked_for_what_the_commands_mean(cli: Cli, tmp_path: Path) -> None:
    """A launchctl of the test's own: it notes what it is asked, and knows one agent."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    loaded = tmp_path / "loaded"
    script = f"""#!/bin/bash
echo "$@" >> {tmp_path}/asked
case $1 in
  bootstrap) touch {loaded} ;;
  bootout) rm {loaded} ;;
  print) [ -e {loaded} ] && printf 'state = running\\n\\tpid = 4242\\n\\tlast exit code = 0\\n' ;;
esac
"""
    (bin_ / "launchctl").write_text(script, encoding="utf-8")
    (bin_ / "launchctl").chmod(0o755)
    env = {"PATH": f"{bin_}:{cli.env['PATH']}"}
    assert cli("service", "install", "--backend", "launchd", "--workspace", str(cli.cwd), env=env).code == 0
    assert cli("service", "start", env=env).code == 0
    assert cli("service", "start", env=env).out.startswith("runs already: process 4242")
    assert cli("service", "status", env=env).code == 0
    log = cli.data / "service" / "serve.log"
    log.write_text("an older line\nserving\x1b[31m it\n", encoding="utf-8")
    assert cli("service", "logs", "-n", "1", env=env).out == "serving\\u{1b}[31m it\n", "nothing steers the terminal"
    log.write_bytes(b"x" * 5_000_001)
    assert cli("service", "stop", env=env).code == 0
    assert cli("service", "status", env=env).code == 3
    asked = [line for line in (tmp_path / "asked").read_text(encoding="utf-8").splitlines() if "print" not in line]
    unit = cli.home / "Library/LaunchAgents/io.github.adderclaw.plist"
    me = f"gui/{os.getuid()}"
    agent = f"{me}/io.github.adderclaw"
    assert asked == [f"bootstrap {me} {unit}", f"kickstart {agent}", f"bootout {agent}"]
    assert cli("service", "uninstall", env=env).code == 0
    assert not unit.exists()


@pytest.mark.parametrize("words", [("service", "uninstall", "--backend", "systemd"), ("uninstall", "--yes")])
def test_a_unit_is_removed_where_no_systemd_answers(cli: Cli, tmp_path: Path, words: tuple[str, ...]) -> None:
    """From cron, or by `su`, there is no bus of the user: at the next login the unit would start the server again."""
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path}/none"}
    assert cli("init").code == 0
    written = cli("service", "install", "--backend", "systemd", "--workspace", str(cli.cwd), env=env)
    units = cli.home / ".config/systemd/user"
    unit, link = units / "adderclaw.service", units / "default.target.wants/adderclaw.service"
    assert unit.exists(), written.err
    link.parent.mkdir(parents=True)
    link.symlink_to(unit)
    done = cli(*words, env=env)
    assert done.code == 0, done.err
    assert re.search(rf"^removed: .*{re.escape(str(unit))}$", done.out, re.MULTILINE)
    assert not unit.exists()
    assert not link.is_symlink()


def test_another_home_has_a_service_of_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert service_name() == "adderclaw"
    monkeypatch.setenv("ADDERCLAW_HOME", str(home / "second"))
    assert re.fullmatch(r"adderclaw-[0-9a-f]{8}", service_name())
    assert service_name() in Systemd().unit


@pytest.mark.parametrize("word", ["a\nb", "a\x1b[31m", "a\udcff", "\u2028"])
def test_a_word_that_would_begin_a_line_of_its_own_is_refused(home: Path, tmp_path: Path, word: str) -> None:
    folder = tmp_path / os.fsdecode(os.fsencode(word))
    folder.mkdir()
    with pytest.raises(UsageError, match="without control characters"):
        plan.make_plan(serve_options(["--workspace", str(folder)]))
