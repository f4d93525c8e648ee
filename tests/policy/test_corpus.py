"""Lists of commands against a real disk: attacks, which are never allowed, and what models write every minute."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from adderclaw import policy as gate
from adderclaw.config.schema import Config, Security
from adderclaw.core.host import ToolContext
from adderclaw.core.types import Autonomy, Workspace
from adderclaw.policy.case import Case, CommandDenial, Decision, Policy
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS
from adderclaw.sandbox.process import ProcessRequest, RunningProcess
from adderclaw.tools import shell
from adderclaw.tools.paths import PathRefused
from adderclaw.tools.shell import UNCONFINED, BashArguments, CommandSetup
from tests.rows import rows

HERE = Path(__file__).parent
ATTACKS = ("attacks.txt", "attacks_programs.txt", "attacks_more.txt", "attacks_sandboxed.txt", "attacks_blind.txt")
HARMLESS = ("harmless.txt", "harmless_programs.txt", "harmless_more.txt")
EVERY_HARMLESS = (*HARMLESS, "harmless_sandboxed.txt", "harmless_inline.txt", "harmless_blind.txt")
SHARE = 0.06
"""The part of others' harmless commands that may still be refused without a reason that is meant."""
MOST_DENIED = 0.03
"""The part of all harmless commands here that may be denied, for whatever reason."""
SYSTEM = (
    """ls cat head tail wc grep egrep fgrep find sort cut tr uniq diff cmp stat file du df which whoami uname
    date sleep basename dirname realpath readlink md5sum sha256sum sed mkdir touch cp mv tee rmdir chmod tar nl tac
    rev paste comm column fold bash sh env nice nohup timeout stdbuf xargs awk perl id"""
    ""
)
STUBS = (
    """git rg jq tree python python3 pytest pip pip3 uv ruff black isort flake8 mypy pyright pylint tox nox
    coverage npm npx node tsc eslint prettier jest vitest vite esbuild playwright make go cargo terraform docker
    curl wget ssh scp rsync sudo su ruby nc unzip zip patch install ln dd truncate crontab systemctl kill base64
    openssl xxd od strings gzip sqlite3 vim parallel"""
    ""
)


def never(_: ProcessRequest) -> RunningProcess:
    raise AssertionError("nothing runs here")


CONFINED = CommandSetup(never, tmpdir="/tmp")
"""A sandbox is around what is judged, as bubblewrap is."""


class World:
    """A workspace with every kind of link out of it, a home with secrets, and stub programs on the PATH."""

    def __init__(self, top: Path) -> None:
        self.root, self.home, self.bin = top / "ws", top / "home", top / "bin"
        for folder in (".git/hooks", "src", "tests", "sub", "evil/.git", "evil/.husky", "outlinks", ".github", "build"):
            (self.root / folder).mkdir(parents=True)
        for folder in (".ssh", ".adderclaw"):
            (self.home / folder).mkdir(parents=True)
        inside = (
            """config a.txt a.json package.json src/app.py src/app.js tests/test_app.py script.py script.js
            x.py list message.txt requirements.txt tsconfig.json .gitignore .git/config evil/.git/config evil/HEAD
            list x fix.patch"""
            ""
        )
        for name in inside.split():
            (self.root / name).write_text("x\n")
        for name in ("notes", ".ssh/id_rsa", ".adderclaw/receipt.key", ".bashrc", "x", "run.sh", "Makefile"):
            (self.home / name).write_text("secret\n")
        for name in ("run.sh", "bash", "python", "node", "node_modules/.bin/tsc", "node_modules/.bin/eslint"):
            self._program(self.root / name)
        self._program(self.root / ".venv/bin/pytest")
        self._program(self.root / ".venv/bin/python")
        for name, target in (("slink", "../home/notes"), ("link", "../home"), ("sub/up", "../../home")):
            (self.root / name).symlink_to(target)
        (self.root / "outlinks/key").symlink_to(self.home / "notes")
        for name in {*SYSTEM.split(), *STUBS.split(), *(name for name in PROGRAMS if re.fullmatch(r"[\w.+-]+", name))}:
            self._program(self.bin / name)
        self._policies: dict[tuple[Autonomy, bool], Policy] = {}

    @staticmethod
    def _program(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)

    def policy(self, autonomy: Autonomy, *, sandboxed: bool = False) -> Policy:
        forbidden = ["/etc", "/boot", str(self.home / ".ssh")]
        config = Config(security=Security(autonomy=autonomy, forbidden_paths=forbidden, raw_bash="deny"))
        scratch = "/tmp" if sandboxed else ""
        home = str(self.home / ".adderclaw")
        return gate.policy_of(config, str(self.root), home, sandboxed=sandboxed, bubblewrap=sandboxed, scratch=scratch)

    def judge(self, command: str, autonomy: Autonomy, *, sandboxed: bool = False) -> Decision:
        if (autonomy, sandboxed) not in self._policies:
            self._policies[autonomy, sandboxed] = self.policy(autonomy, sandboxed=sandboxed)
        policy = self._policies[autonomy, sandboxed]
        context = ToolContext("c", "s", Workspace(str(self.root)))
        try:
            touch = shell.prepare(BashArguments(command=command), context, CONFINED if sandboxed else UNCONFINED).touch
        except PathRefused as refusal:
            return Decision("deny", "high", str(refusal), "paths", denial="no sandbox")
        return gate.judge(Case("Bash", "Bash", {"command": command}, touch, policy))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("corpus"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(made.home))
        patch.setenv("PATH", str(made.bin))
        yield made


def sections(name: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in (HERE / name).read_text().splitlines():
        if line.startswith("#"):
            found.append((line[1:].strip(), []))
        elif line:
            found[-1][1].append(line)
    return found


REASONS = frozenset(get_args(CommandDenial.__value__))


def said(commands: list[str], world: World, autonomy: Autonomy, *, sandboxed: bool = False) -> dict[str, Decision]:
    """Each command with its verdict; in the lists a command of several lines is written on one.

    Of whatever is judged here a denial names one of six reasons, and nothing else does.
    """
    decided = {command: world.judge(_lines(command), autonomy, sandboxed=sandboxed) for command in commands}
    strange = {c: (d.by, d.reason) for c, d in decided.items() if d.verdict == "deny" and d.denial not in REASONS}
    assert not strange
    assert not {c: d.denial for c, d in decided.items() if d.verdict != "deny" and d.denial is not None}
    assert not sandboxed or not {c: d.reason for c, d in decided.items() if d.denial == "no sandbox"}
    return decided


def _lines(command: str) -> str:
    if "␤" in command:
        return command.replace("␤", "\n")
    return command.replace("\\n", "\n").replace("\\t", "\t") if "<<" in command else command


@pytest.mark.parametrize("file", ATTACKS)
def test_denied_in_supervised(file: str, world: World) -> None:
    """Without a sandbox they are denied; in one they are denied, or asked about, since it holds them."""

    @rows(("title", "commands"), sections(file))
    def denied(title: str, commands: list[str]) -> None:
        decided = said(commands, world, "supervised")
        assert not {c: d.verdict for c, d in decided.items() if d.verdict != "deny"}, title
        inside = said(commands, world, "supervised", sandboxed=True)
        assert not {c: d.reason for c, d in inside.items() if d.verdict == "allow"}, title

    denied()


JUDGED_NOWHERE_ELSE = [
    *((name, True) for name in ("attacks_full.txt", *HARMLESS)),
    *(("harmless_blind.txt", sandboxed) for sandboxed in (True, False)),
]


@pytest.mark.parametrize(("file", "sandboxed"), JUDGED_NOWHERE_ELSE)
def test_a_denial_names_one_of_six_reasons(file: str, sandboxed: bool, world: World) -> None:
    """`said` looks at it for each list in each of the other tests."""

    @rows(("title", "commands"), sections(file))
    def named(title: str, commands: list[str]) -> None:
        said(commands, world, "supervised", sandboxed=sandboxed)

    named()


@rows(("title", "commands"), sections("attacks_full.txt"))
@rows("autonomy", ["supervised", "full"])
def test_denied_in_full_without_a_sandbox(title: str, commands: list[str], world: World, autonomy: Autonomy) -> None:
    loose = {c: d.verdict for c, d in said(commands, world, autonomy).items() if d.verdict != "deny"}
    assert not loose, title


@rows(("title", "commands"), sections("attacks_asked.txt"))
@rows("sandboxed", [True, False])
def test_what_only_writes_is_asked_about(title: str, commands: list[str], world: World, sandboxed: bool) -> None:
    decided = said(commands, world, "supervised", sandboxed=sandboxed)
    assert not {c: d.verdict for c, d in decided.items() if d.verdict != "ask"}, title


@rows("command", (HERE / "asked_remotes.txt").read_text().splitlines())
@rows("sandboxed", [True, False])
def test_git_elsewhere_is_asked_about(command: str, world: World, sandboxed: bool) -> None:
    """What sends code elsewhere or overwrites it there is shown with its address: `tests/policy/test_remotes.py`."""
    assert world.judge(command, "supervised", sandboxed=sandboxed).verdict != "allow"


@rows(("title", "commands"), sections("harmless_sandboxed.txt"))
def test_denied_only_without_a_sandbox(title: str, commands: list[str], world: World) -> None:
    inside = said(commands, world, "supervised", sandboxed=True)
    assert not {c: d.reason for c, d in inside.items() if d.verdict == "deny"}, title
    outside = said(commands, world, "supervised")
    assert not {c: d.verdict for c, d in outside.items() if d.verdict != "deny"}, title


@rows(("title", "commands"), sections("harmless_inline.txt"))
def test_inline_code_is_asked_about_in_a_sandbox(title: str, commands: list[str], world: World) -> None:
    inside = said(commands, world, "supervised", sandboxed=True)
    assert not {c: d.reason for c, d in inside.items() if d.verdict != "ask" or "inline code" not in d.reason}, title
    outside = said(commands, world, "supervised")
    assert not {c: d.denial for c, d in outside.items() if d.denial != "no sandbox"}, title
    full = said(commands, world, "full", sandboxed=True)
    assert not {c: d.reason for c, d in full.items() if d.verdict != "allow"}, title


def test_harmless_commands_of_people_who_did_not_know_the_gate(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written by others, with nothing but "what an agent runs every day" to go by; the sandbox is around them.

    What is refused for a reason that is meant stands below `refused`, with it; what could be taken, but is not, below
    `not yet`: the share of those in all is printed, and only goes down.
    """
    listed = dict(sections("harmless_blind.txt"))
    taken = said(listed.pop("taken"), world, "supervised", sandboxed=True)
    assert not {c: d.reason for c, d in taken.items() if d.verdict == "deny"}
    open_still = sum(len(commands) for title, commands in listed.items() if title.startswith("not yet"))
    share = open_still / (open_still + len(taken))
    denied = sum(map(len, listed.values()))
    of_all = denied / sum(len(commands) for name in (*HARMLESS, "harmless_blind.txt") for _, commands in sections(name))
    with capsys.disabled():
        print(
            f"\nharmless commands of others: {len(taken):,} are taken, {share:.1%} of what could be is not yet;"
            f" of all harmless commands {of_all:.1%} are denied"
        )
    assert share < SHARE
    assert of_all < MOST_DENIED


@rows(("title", "commands"), [pair for name in HARMLESS for pair in sections(name)])
@rows("autonomy", ["supervised", "full"])
def test_harmless_commands_are_not_denied(title: str, commands: list[str], world: World, autonomy: Autonomy) -> None:
    denied = {c: d.reason for c, d in said(commands, world, autonomy).items() if d.verdict == "deny"}
    assert not denied, title


def test_the_lists_are_long_enough() -> None:
    def count(name: str) -> int:
        return sum(len(lines) for _, lines in sections(name))

    assert sum(map(count, (*ATTACKS, "attacks_full.txt"))) > 3000
    assert sum(map(count, HARMLESS)) > 1600
