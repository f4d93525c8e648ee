"""The back end for launchd on macOS."""

import os
import re
import sys
from importlib.resources import files
from xml.sax.saxutils import escape

from adderclaw.core.errors import AdderClawError
from adderclaw.server.service.backend import BackendName, Status, remove_file, service_folder, service_name
from adderclaw.server.service.command import CommandResult, print_command, run_command
from adderclaw.server.service.plan import Plan

DELAY = 30
"""Seconds between two starts, more than for systemd because launchd cannot limit the number of restarts."""
LOG_BYTES = 5_000_000
"""A longer log is renamed to `serve.log.1` at the next start, because launchd only appends."""


def answers() -> bool:
    """Whether launchd has a domain for this user."""
    return sys.platform == "darwin" and _launchctl("print", _domain()).code == 0


def _domain() -> str:
    return f"gui/{os.getuid()}"


def _launchctl(*words: str) -> CommandResult:
    return run_command("launchctl", *words, timeout=60)


class Launchd:
    """The back end."""

    name: BackendName = "launchd"

    def __init__(self) -> None:
        self.label = f"io.github.{service_name()}"
        self.unit = os.path.join(os.path.expanduser("~/Library/LaunchAgents"), f"{self.label}.plist")
        self.log = os.path.join(service_folder(), "serve.log")
        self._target = f"{_domain()}/{self.label}"

    def text(self, plan: Plan) -> str:
        template = files("adderclaw.server.service").joinpath("agent.plist").read_text("utf-8")
        return template.format(
            label=escape(self.label),
            command="\n".join(f"\t\t<string>{escape(word)}</string>" for word in plan.command),
            folder=escape(os.path.expanduser("~")),
            home=escape(plan.home),
            path=escape(plan.path),
            delay=DELAY,
            stop_seconds=plan.stop_seconds,
            log=escape(self.log),
        )

    def register(self) -> list[str]:
        self._prepare_log()
        return ["launchd reads no environment file: store keys in the keychain (`adderclaw auth status` shows them)."]

    def uninstall(self) -> None:
        self.stop()
        remove_file(self.unit)

    def start(self) -> None:
        if self.status().state == "running":
            return
        self._prepare_log()
        if not self._is_loaded():
            self._run_launchctl("bootstrap", _domain(), self.unit)
        self._run_launchctl("kickstart", self._target)

    def stop(self) -> None:
        if self._is_loaded():
            self._run_launchctl("bootout", self._target)

    def status(self) -> Status:
        done = _launchctl("print", self._target)
        if done.code:
            return Status("stopped", starts_with="login" if os.path.exists(self.unit) else "")
        pid = _find_number(done.out, r"pid = (\d+)")
        code = _find_number(done.out, r"last exit code = (\d+)")
        last = f"exit code {code}" if code is not None else ""
        failed = pid is None and bool(code)
        return Status(
            "running" if pid else "failed" if failed else "stopped", pid=pid, last_exit=last, starts_with="login"
        )

    def logs(self, lines: int, *, follow: bool) -> None:
        if not os.path.exists(self.log):
            raise AdderClawError(f"there is no log yet: {self.log}")
        print_command("tail", "-n", str(lines), *(("-F",) if follow else ()), self.log)

    def _is_loaded(self) -> bool:
        return _launchctl("print", self._target).code == 0

    def _run_launchctl(self, *words: str) -> None:
        done = _launchctl(*words)
        if done.code:
            raise AdderClawError(f"`launchctl {' '.join(words)}` failed: {done.err.strip() or done.out.strip()}")

    def _prepare_log(self) -> None:
        os.makedirs(os.path.dirname(self.log), mode=0o700, exist_ok=True)
        if os.path.exists(self.log) and os.path.getsize(self.log) > LOG_BYTES:
            os.replace(self.log, f"{self.log}.1")


def _find_number(text: str, pattern: str) -> int | None:
    match = re.search(pattern, text)
    return int(match[1]) if match else None
