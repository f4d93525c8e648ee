"""The installed program as a test drives it: its own home, a clean environment, and what came out."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import threading
import tty
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.forked import ODD, Forked, Forks, Stream
from tests.trial import accepting

PROGRAM = Path(sys.executable).with_name("adderclaw")
MEASURED = {name: os.environ[name] for name in ("COVERAGE_PROCESS_CONFIG",) if name in os.environ}
"""What lets the program be measured by `make coverage`; else nothing."""

REQUIRE_ALL = os.environ.get("ADDERCLAW_REQUIRE_ALL", "") not in ("", "0")
"""Set in CI: a test that skips because this machine lacks a part is then a failure."""

EXEC = os.environ.get("ADDERCLAW_TESTS_EXEC", "") not in ("", "0")
_FORKS: dict[tuple[str, ...], Forks] = {}
"""By what starts them."""
_TRIED: dict[tuple[str, ...], bytes] = {}
"""What a trial of the sandbox found, by who made it and with which PATH."""

ASKING = (b"> ", b"Approve? [y/N] ", b"Continue? [y/N] ", b"own words: ", b"? [y/N] ")
"""How what is on stderr ends where a line is waited for."""


def keyboard() -> tuple[io.FileIO, int]:
    """Where a test types, and the descriptor of the terminal that a program has as its stdin."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)  # a line of a terminal ends at 4,096 characters else
    return io.FileIO(ours, "w"), theirs


class Done(NamedTuple):
    """How a run of the program ended."""

    code: int
    out: str
    err: str


class Cli:
    """`cli("tool", "list")` runs the installed program with nothing of the tester's own environment."""

    before: tuple[str, ...] = ()
    """What starts the program, where that is not the test itself."""
    forks = True
    """Whether it is forked from a process that has imported it, where that makes no difference (tests/forked.py)."""
    tried = True
    """Whether a home that has settings knows which sandbox starts, as one that was used since the machine started."""

    def __init__(self, home: Path, cwd: Path) -> None:
        self.home, self.cwd = home, cwd
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "ADDERCLAW_HOME": str(home / ".adderclaw"),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            **MEASURED,
        }

    @property
    def data(self) -> Path:
        """The program's own folder, `~/.adderclaw`."""
        return self.home / ".adderclaw"

    def configure(self, toml: str) -> None:
        """Write the operator's config.toml."""
        self.data.mkdir(mode=0o700, exist_ok=True)
        (self.data / "config.toml").write_text(accepting(toml), encoding="utf-8")

    def __call__(
        self,
        *arguments: str,
        stdin: str | bytes = b"",
        timeout: float = 180,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Done:
        given, whole = stdin.encode() if isinstance(stdin, str) else stdin, {**self.env, **(env or {})}
        self._know_sandbox(whole)
        process = self.start(*arguments, env=env, cwd=cwd)
        try:
            out, err = process.communicate(given, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"adderclaw {arguments} took over {timeout} s\n{out!r}\n{err!r}") from None
        self._note_sandbox(whole)
        return Done(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def _know_sandbox(self, env: Mapping[str, str]) -> None:
        """Which sandbox starts is found out by starting one, once for each home and boot: most tests need no more."""
        folder, found = Path(env["ADDERCLAW_HOME"]), _TRIED.get(self._trier(env))
        file = folder / "cache" / "confinement"
        used = (folder / "config.toml").is_file() and not folder.is_symlink()
        if not self.tried or found is None or not used or file.parent.exists():
            return
        owner = folder.stat()
        file.parent.mkdir(mode=0o700)
        file.write_bytes(found)
        for one in (file.parent, file):
            os.chown(one, owner.st_uid, owner.st_gid)

    def _note_sandbox(self, env: Mapping[str, str]) -> None:
        with contextlib.suppress(OSError):
            _TRIED[self._trier(env)] = (Path(env["ADDERCLAW_HOME"]) / "cache" / "confinement").read_bytes()

    def _trier(self, env: Mapping[str, str]) -> tuple[str, ...]:
        return (env.get("PATH", ""), *self.argv())

    def _forks(self) -> Forks:
        who = self.somebody()
        if who not in _FORKS:
            nobodys = {name: self.env[name] for name in ("LANG", "TZ")} | {"PATH": os.environ.get("PATH", os.defpath)}
            _FORKS[who] = Forks(str(PROGRAM), nobodys, before=who)  # it lives longer than this home
        return _FORKS[who]

    def somebody(self) -> tuple[str, ...]:
        """What starts a process as another user, whose forks are apart from those of whoever runs the tests."""
        return ()

    @property
    def folder(self) -> str:
        """For PATH: where a shell finds the program."""
        return str(PROGRAM.parent) if EXEC or MEASURED else f"{self._forks().folder}{os.pathsep}{PROGRAM.parent}"

    def typed(self, *arguments: str, stdin: str, timeout: float = 60, env: Mapping[str, str] | None = None) -> Done:
        """Somebody at a terminal types each line when the program asks for one, and leaves after the last.

        What the program prints goes into files, so that the two streams stay apart.
        """
        self._know_sandbox({**self.env, **(env or {})})
        ours, theirs = keyboard()
        with tempfile.TemporaryFile() as out, ours:
            process = self._begun(arguments, env, self.cwd, stdin=theirs, stdout=out, stderr=subprocess.PIPE)
            os.close(theirs)
            err, lines = b"", stdin.splitlines()
            assert process.stderr is not None
            watch = threading.Timer(timeout, process.kill)
            watch.start()
            while chunk := os.read(process.stderr.fileno(), 65_536):
                err += chunk
                if not err.endswith(ASKING):
                    continue
                if lines:
                    ours.write(lines.pop(0).encode() + b"\n")
                else:
                    ours.close()
            watch.cancel()
            code = process.wait()
            process.stderr.close()
            out.seek(0)
            return Done(code, out.read().decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def argv(self, *arguments: str) -> list[str]:
        return [*self.before, *self.somebody(), str(PROGRAM), *arguments]

    def start(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int = subprocess.PIPE,
    ) -> "subprocess.Popen[bytes]":
        """The running program, for a test that talks to it, signals it or kills it; pipes on all three streams."""
        self._know_sandbox({**self.env, **(env or {})})
        pipe = subprocess.PIPE
        return self._begun(arguments, env, cwd or self.cwd, stdin=stdin, stdout=pipe, stderr=pipe)

    def _begun(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str] | None,
        cwd: Path,
        *,
        stdin: Stream,
        stdout: Stream,
        stderr: Stream,
    ) -> "subprocess.Popen[bytes]":
        """By a fork, where that makes no difference; else started."""
        whole = {**self.env, **(env or {})}
        odd = any(name.startswith(ODD) for name in whole) or whole.get("LANG") != "C.UTF-8"
        if EXEC or odd or not self.forks or self.before or not cwd.is_dir():
            return subprocess.Popen(
                self.argv(*arguments), env=whole, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr
            )
        return Forked(self._forks(), arguments, whole, str(cwd), stdin=stdin, stdout=stdout, stderr=stderr)


class Soak(NamedTuple):
    """How much of a long loop runs: all of it under `make soak`, else the share that the seed picks."""

    whole: bool
    seed: int

    def of(self, total: int, share: int = 6) -> range:
        """The rounds to run out of `range(total)`; a loop of which a sixth takes long has a smaller share."""
        return range(total) if self.whole else range(self.seed % share, total, share)

    def turn(self, number: int) -> bool:
        """Whether a single test that takes long runs: always under `make soak`, else with one seed in six."""
        return self.whole or self.seed % 6 == number

    def __str__(self) -> str:
        if self.whole:
            return "whole"
        return f"a sixth or less, by the seed {self.seed} (make soak runs all of them)"


def soak_of(env: Mapping[str, str]) -> Soak:
    return Soak(env.get("ADDERCLAW_SOAK", "") not in ("", "0"), int(env.get("ADDERCLAW_SOAK_SEED") or 0))
