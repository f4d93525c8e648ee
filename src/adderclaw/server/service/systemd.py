"""The back end for the user's systemd."""

import os
import stat
import sys
from collections.abc import Sequence
from importlib.resources import files

from adderclaw.core.errors import AdderClawError
from adderclaw.sandbox import programs
from adderclaw.server.service.backend import BackendName, State, Status, remove_file, service_name
from adderclaw.server.service.command import run_command
from adderclaw.server.service.plan import Plan

WALLS = "# walls:"
"""Begins the lines of the unit that set or imply no_new_privs."""
WITHOUT_WALLS = "# no walls: {bwrap} is setuid, and would not start sandboxes behind them\n"

DELAY = 2
"""Seconds before the server is started again after a failure."""
MOST, WITHIN = 5, 300
"""After so many failures within so many seconds it is no longer started."""
STATES: dict[str, State] = {
    "active": "running",
    "reloading": "running",
    "activating": "starting",
    "deactivating": "stopping",
    "failed": "failed",
    "inactive": "stopped",
}
PROPERTIES = (
    "LoadState ActiveState SubState MainPID ExecMainStartTimestamp ExecMainCode ExecMainStatus "
    "NRestarts Result UnitFileState FragmentPath"
)


def answers() -> bool:
    """Whether a systemd of this user answers; the program alone may exist without one."""
    if not sys.platform.startswith("linux") or programs.resolve_outside_sessions("systemctl") is None:
        return False
    done = run_command("systemctl", "--user", "show", "--property=Version", "--value", timeout=5)
    return done.code == 0 and bool(done.out.strip())


class Systemd:
    """The back end."""

    name: BackendName = "systemd"

    def __init__(self) -> None:
        self.service = f"{service_name()}.service"
        self.unit = os.path.join(os.path.expanduser("~/.config/systemd/user"), self.service)

    def text(self, plan: Plan) -> str:
        template = files("adderclaw.server.service").joinpath("unit.service").read_text("utf-8")
        if (bwrap := programs.resolve_outside_sessions("bwrap")) and os.stat(bwrap).st_mode & stat.S_ISUID:
            before, _, walls = template.partition(WALLS)
            template = f"{before}{WITHOUT_WALLS.format(bwrap=bwrap)}{walls[walls.index('\n\n[Install]') + 1 :]}"
        return template.format(
            name=service_name(),
            within=WITHIN,
            most=MOST,
            delay=DELAY,
            command=" ".join(map(_argument, plan.command)),
            home=_quoted(f"ADDERCLAW_HOME={plan.home}"),
            path=_quoted(f"PATH={plan.path}"),
            environment_file=plan.environment_file.replace("%", "%%"),
            stop_seconds=plan.stop_seconds,
        )

    def register(self) -> list[str]:
        self._systemctl("daemon-reload")
        if (where := self._show().get("FragmentPath", "")) != self.unit:
            read = f"reads {where} in its place" if where else "does not read that folder"
            raise AdderClawError(f"{self.unit} was written, but the systemd of this user {read}: move it there")
        self._systemctl("enable", self.service)
        if _is_lingering():
            return []
        return [
            "It runs while you are logged in. `loginctl enable-linger` starts it at boot and keeps it after a logout."
        ]

    def uninstall(self) -> None:
        here = answers()
        if here and self._show().get("LoadState") == "loaded":
            self._systemctl("disable", "--now", self.service)
        remove_file(self.unit)
        # without a manager to run `disable`, the link of `enable` would start the service later
        remove_file(os.path.join(os.path.dirname(self.unit), "default.target.wants", self.service))
        if here:
            self._systemctl("daemon-reload")
            self._systemctl("reset-failed", self.service, fails=True)

    def start(self) -> None:
        self._systemctl("reset-failed", self.service, fails=True)  # a manual start overrides the limit of restarts
        self._systemctl("start", self.service)

    def stop(self) -> None:
        self._systemctl("stop", self.service)

    def status(self) -> Status:
        shown = self._show()
        state = STATES.get(shown.get("ActiveState", ""), "stopped")
        result = shown.get("Result", "success")
        pid = int(shown.get("MainPID") or 0)
        return Status(
            state,
            detail="" if result == "success" else _reason(result),
            pid=pid or None,
            since=_utc(shown.get("ExecMainStartTimestamp", "")) if pid else "",
            last_exit=_exit(shown.get("ExecMainCode", "0"), shown.get("ExecMainStatus", "0")),
            restarts=int(shown.get("NRestarts") or 0),
            starts_with=("boot" if _is_lingering() else "login") if shown.get("UnitFileState") == "enabled" else "",
        )

    def logs(self, lines: int, *, follow: bool) -> None:
        from adderclaw.server.service.command import print_command

        more = ("--follow",) if follow else ()
        unit, count = f"--user-unit={self.service}", f"--lines={lines}"
        print_command("journalctl", unit, count, "--no-pager", "--quiet", "--output=short-iso", *more)

    def _show(self) -> dict[str, str]:
        command = ["show", self.service, f"--property={','.join(PROPERTIES.split())}", "--timestamp=utc"]
        lines = self._systemctl(*command).splitlines()
        parts = (line.partition("=") for line in lines)
        return {name: value for name, _, value in parts}

    def _systemctl(self, *words: str, fails: bool = False) -> str:
        done = run_command("systemctl", "--user", "--no-pager", "--no-ask-password", *words, timeout=180)
        if done.code and not fails:
            fix = "" if answers() else "; no systemd answers for this user"
            raise AdderClawError(
                f"`systemctl --user {' '.join(words)}` failed: {done.err.strip() or done.out.strip()}{fix}"
            )
        return done.out


def _quoted(text: str) -> str:
    """A word of a unit, quoted for systemd.syntax(7)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _argument(text: str) -> str:
    """A word of ExecStart, where a dollar sign begins a variable."""
    return _quoted(text).replace("$", "$$")


def _is_lingering() -> bool:
    import getpass

    try:
        return os.path.exists(os.path.join("/var/lib/systemd/linger", getpass.getuser()))
    except (KeyError, OSError):
        return False


def _reason(result: str) -> str:
    if result == "start-limit-hit":
        return f"it failed {MOST} times within {WITHIN} s and is not restarted"
    return result.replace("-", " ")


def _exit(code: str, status: str) -> str:
    """`ExecMainCode` is one of wait(2)'s: 1 exited, 2 killed, 3 dumped."""
    if code == "1":
        return f"exit code {status}"
    if code in ("2", "3"):
        import signal

        return f"killed by {signal.Signals(int(status)).name}"
    return ""


def _utc(text: str) -> str:
    """`Wed 2026-11-18 00:34:12 UTC` as ISO 8601."""
    words: Sequence[str] = text.split()
    return f"{words[1]}T{words[2]}Z" if len(words) == 4 and words[3] == "UTC" else text
