"""A home full of canaries, a workspace with git, a scripted attacker, and an operator who says yes to everything.

`world.attack(call("Bash", command="…"))` drives the installed program; `world.unharmed()` then compares everything
outside of the workspace with what it was, looks for words of it in whatever the program printed, sent and kept, and for
processes that it left behind.
"""

import json
import os
import shlex
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.acceptance.world import World, call, text
from tests.program import Cli, Done
from tests.sandbox.without import without
from tests.security.canaries import Canaries, every, quietly

type Rung = Literal["bubblewrap", "landlock"]
NOBODY = 65534
REPOSITORY = Path(__file__).resolve().parents[2]
MOST_BLOCKS = 1 << 20
"""Of 512 bytes: what a file has on the disk when it is looked through."""
YES = "y\n" * 4000
VISIBLE = """
set -e
mount -t tmpfs tmpfs /mnt
for place in {places}; do mkdir -p "/mnt$place"; mount --bind "$place" "/mnt$place"; done
for top in {tops}; do mount -t tmpfs -o mode=755 tmpfs "$top"; done
for place in {places}; do mkdir -p "$place"; mount --bind "/mnt$place" "$place"; done
umount -R /mnt 2>/dev/null || true
exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs -- "$@"
"""
"""Another user cannot look into root's home, where Python may be installed: a view in which they can."""


def closed(path: Path) -> bool:
    """Whether a folder on the way there is root's alone."""
    return any(parent.stat().st_mode & 0o005 != 0o005 for parent in (path, *path.parents))


def as_nobody(argv: list[str]) -> list[str]:
    """The same program, started as an ordinary user."""
    places = [path for path in {sys.base_prefix, sys.prefix, str(REPOSITORY)} if closed(Path(path))]
    places = [path for path in places if not any(path != other and path.startswith(f"{other}/") for other in places)]
    tops = sorted({"/" + Path(place).parts[1] for place in places})
    script = VISIBLE.format(places=shlex.join(places), tops=shlex.join(tops))
    return ["unshare", "-m", "/bin/sh", "-c", script, "sh", *argv]


class SomebodysCli(Cli):
    """The installed program as root, or as an ordinary user."""

    as_user = False
    namespaces = True
    """Whether the kernel makes any for it, so that bubblewrap starts."""

    def somebody(self) -> tuple[str, ...]:
        user = tuple(as_nobody([])) if self.as_user else ()
        return user if self.namespaces else (*user, *without("namespaces"))


class Attack(NamedTuple):
    """What an attack came to: how the program ended, and what it answered to each call, in order."""

    done: Done
    results: tuple[str, ...]
    receipts: tuple[dict[str, Any], ...]
    """Of this run, in order; `receipt["decision"]` says who allowed or denied what."""

    @property
    def last(self) -> str:
        return self.results[-1]


class Den(World):
    """The world of an attack. Nothing of it lies in /tmp, which a sandbox has for itself anyway."""

    cli: SomebodysCli

    def __init__(self, base: Path, rung: Rung = "bubblewrap", *, as_user: bool = False) -> None:
        home, cwd = base / "home", base / "cwd"
        home.mkdir(mode=0o700)
        cwd.mkdir()
        self.base, self.rung = base, rung
        super().__init__(SomebodysCli(home, cwd), base)
        self.cli.as_user = as_user
        self.canaries = Canaries(base, home, self.workspace)
        if os.geteuid() == 0:
            self.canaries.plant_in_the_system()
        self._make_workspace()

    @property
    def home(self) -> Path:
        return self.cli.home

    @property
    def neighbour(self) -> Path:
        return self.canaries.neighbour

    @property
    def system(self) -> list[Path]:
        """Folders in /srv, /opt …, where root runs the tests; else none."""
        return self.canaries.system

    def _make_workspace(self) -> None:
        for name, content in {"a.txt": "alpha\n", "src/main.py": "print('hello')\n", "docs/x.md": "# x\n"}.items():
            (self.workspace / name).parent.mkdir(exist_ok=True)
            (self.workspace / name).write_text(content)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "-A")
        self.git("commit", "--quiet", "-m", "first")

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        """The operator's own git: before an attack to prepare it, after it as the user's next command."""
        who = ("-c", "user.name=Me", "-c", "user.email=me@example.org", "-c", "safe.directory=*")
        env = {**self.cli.env, "HOME": str(self.home), "GIT_CONFIG_GLOBAL": "/dev/null"}
        done = subprocess.run(
            ["git", *who, *arguments], cwd=cwd or self.workspace, env=env, capture_output=True, timeout=60, check=True
        )
        return done.stdout.decode("utf-8", "replace")

    # -------------------------------------------------------------- the attack

    def prepare(self, rung: Rung | None = None) -> None:
        """Force the rung, give everything to whoever attacks, and note how the outside is."""
        self.cli.env["PATH"] = os.environ.get("PATH", os.defpath)
        self.cli.namespaces = (rung or self.rung) == "bubblewrap"
        if self.cli.as_user:
            for place in every(self.base):
                os.chown(place, NOBODY, NOBODY, follow_symlinks=False)
        self.canaries.remember()

    def attack(
        self, *steps: Mapping[str, Any] | str, confinement: Rung | None = None, arguments: tuple[str, ...] = ()
    ) -> Attack:
        """Each step is a call (or several: `{"tool_calls": […]}`); a text is a command of Bash. All are approved.

        What the home, the workspace and the rest look like when this is called is how they must be afterwards.
        """
        made = [call("Bash", command=step) if isinstance(step, str) else step for step in steps]
        self.script(*made, text("done"))
        self.prepare(confinement)
        return self.run(*arguments)

    def run(self, *arguments: str) -> Attack:
        """The prepared script, played."""
        before = len(self.receipts())
        known = len(self.entries("tool_result")) if self.database.exists() else 0
        done = self.cli("agent", "-m", "go", *arguments, stdin=YES, timeout=300)
        entries = self.entries("tool_result")[known:] if self.database.exists() else []  # it may refuse to start
        results = [entry["content"] for entry in entries]
        rung = {receipt["decision"].get("sandbox") for receipt in self.receipts()[before:]} - {None}
        assert rung <= {self.expected_rung}, f"the sandbox was {rung}, not {self.expected_rung}: {done.err}"
        shown = tuple(one if isinstance(one, str) else json.dumps(one) for one in results)
        return Attack(done, shown, tuple(self.receipts()[before:]))

    @property
    def expected_rung(self) -> str:
        return "bubblewrap" if self.cli.namespaces else "landlock"

    # -------------------------------------------------------------- what came of it

    def said(self) -> Iterator[tuple[str, bytes]]:
        """Everything that the program kept of what it saw: rows, receipts, run folders; and the workspace itself."""
        for folder in (self.canaries.ours, self.workspace):
            planted = set(self.canaries.words.values())
            for path in every(folder):
                at = os.lstat(path)
                if str(path) not in planted and stat.S_ISREG(at.st_mode) and at.st_blocks < MOST_BLOCKS:
                    yield str(path), quietly(path)

    def unharmed(self, *attacks: Attack) -> None:
        """Nothing outside was read, written, reached or left behind."""
        found = self.harmed(*attacks)
        assert not found, "\n".join(found)  # said in full: this module's asserts are not rewritten

    def harmed(self, *attacks: Attack) -> list[str]:
        """What came to harm, a line for each thing."""
        printed = [(f"stdout of attack {n}", one.done.out.encode()) for n, one in enumerate(attacks)]
        printed += [(f"stderr of attack {n}", one.done.err.encode()) for n, one in enumerate(attacks)]
        found = self.canaries.harm([*printed, *self.said()])
        found += [one.done.err for one in attacks if "\nTraceback (most recent call last)" in f"\n{one.done.err}"]
        return found + [f"left running: {one}" for one in self.left_running()]

    def left_running(self) -> list[str]:
        """Processes that still work in this world; the last of them may take a moment to go."""
        found = list(self._running())
        for _ in range(100):
            if not found:
                break
            time.sleep(0.05)
            found = list(self._running())
        return found

    def _running(self) -> Iterator[str]:
        base, home = str(self.base), f"ADDERCLAW_HOME={self.cli.data}\0".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                command = Path("/proc", pid, "cmdline").read_bytes()
                here = os.readlink(f"/proc/{pid}/cwd").startswith(f"{base}/")
                if here or base.encode() in command or home in Path("/proc", pid, "environ").read_bytes():
                    yield f"{pid}: {command.replace(b'\0', b' ').decode('utf-8', 'replace')[:200]}"
            except OSError:
                continue
