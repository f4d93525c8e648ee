"""What a plan rests on holds by construction: attacks on each such ground, on a real disk and with real bash."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from adderclaw import policy as gate
from adderclaw.config.schema import Config, Permissions, Security
from adderclaw.core.host import ToolContext
from adderclaw.core.types import Touch, Workspace
from adderclaw.policy.case import Case, Decision
from adderclaw.policy.legacy.shell.plan import Plan
from adderclaw.policy.legacy.shell.planner import render
from adderclaw.sandbox.process import ProcessRequest, RunningProcess
from adderclaw.tools import shell
from adderclaw.tools.paths import PathRefused
from adderclaw.tools.shell import BashArguments, CommandSetup

CODE = "a[$(touch pwned)]"


def never(_: ProcessRequest) -> RunningProcess:
    raise AssertionError("nothing runs here")


class Place:
    """A project with a virtual environment, a key that a rule keeps, and a text that is code for arithmetic."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in (".git/hooks", ".venv/bin", "k", "n"):
            (root / folder).mkdir(parents=True)
        for name in (".venv/bin/activate", ".venv/bin/pytest", "k/0.key", f"k/{os.getuid()}.key", "k/1.key", "f"):
            (root / name).write_text("kept\n")
        (root / "g.txt").write_text(f"x\n{CODE}\nx\n")
        (root / "evil.txt").write_text(f"{CODE}:\n")
        (root / CODE).write_text("x\n")

    def touch(self, command: str) -> Touch:
        context = ToolContext("c", "s", Workspace(str(self.root)))
        return shell.prepare(BashArguments(command=command), context, CommandSetup(never)).touch

    def judge(self, command: str) -> Decision:
        kept = ["Read(k/0.key)", f"Read(k/{os.getuid()}.key)", "Edit(k/0.key)"]
        config = Config(security=Security(autonomy="supervised", raw_bash="deny"), permissions=Permissions(deny=kept))
        policy = gate.policy_of(config, str(self.root), str(self.root.parent), sandboxed=True, scratch="/tmp")
        try:
            touch = self.touch(command)
        except PathRefused as refusal:
            return Decision("deny", "high", str(refusal), "paths")
        return gate.judge(Case("Bash", "Bash", {"command": command}, touch, policy))

    def run(self, command: str) -> str:
        """What bash prints for the plan of a command."""
        made = self.touch(command).command
        assert isinstance(made, Plan), made
        env = {"PATH": os.environ["PATH"], "HOME": str(self.root), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            ["/bin/bash", "-c", render(made)],
            cwd=self.root,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "ws")


DENIED = (
    # What programs print is no number, in no place where it would be part of a name, an option or code.
    'cat "k/$(grep -n x g.txt | head -1 evil.txt | cut -d: -f1)"',
    'cat "k/$(grep -c x g.txt).key"',
    'cat k/"$(wc -l < g.txt)".key',
    'sed -n "$(grep -n x g.txt | tail -1 | cut -d: -f1)p" g.txt',
    "cat k/$(grep -c --directories=recurse x k)",
    "cat k/$(git rev-list HEAD --count)",
    # Whichever way the disk looked before, both are followed.
    "mv .venv v2; [ -d .venv ] || cd .git/hooks; echo x > pre-commit",
    "mv .venv v2; [ -f .venv/bin/activate ] || cd .git/hooks; echo x > pre-commit",
    "mv .venv v2; test -d .venv || cd .git/hooks && echo x > pre-commit",
    "mv .venv v2; if [ -d .venv ]; then true; else cd .git/hooks; fi; echo x > pre-commit",
    "mv .venv v2; source .venv/bin/activate || cd .git/hooks; echo x > pre-commit",
    "mkdir -p n/.venv/bin; cp f n/.venv/bin/activate; . n/.venv/bin/activate && cd .git/hooks; echo x > pre-commit",
    "mkdir -p n/.venv/bin; cp f n/.venv/bin/activate; . n/.venv/bin/activate && cd k; cat 0.key",
    "mv .venv v2; [ -d .venv ] || cd k; cat 0.key",
    # Pieces of code that find what they run under another name.
    "python3 -c \"import timeit; timeit.timeit('import os; os.system(1)')\"",
    "python3 -c \"import inspect; print(dict(inspect.getmembers(inspect))['o'+'s'].system('id'))\"",
    "python3 -c \"import operator, sys; operator.attrgetter('mod'+'ules')(sys)['o'+'s'].system('id')\"",
    "python3 -c \"open('k/'+'0.key').read()\"",
    "python3 -c \"from pathlib import Path; [p.write_text('x') for p in Path('src').rglob('*')]\"",
    "node -e \"require('fs').promises.writeFile('.git/hooks/pre-commit', 'y')\"",
    "node -e \"const fs = require('fs'); fs.promises.writeFile('k/' + 0 + '.key', 'y')\"",
    "node -e \"(()=>{})['const'+'ructor']('return pro'+'cess')()\"",
    "node -e \"console.log(require('fs').readFileSync('k/'+'0.key'))\"",
    # A name that mktemp did not make.
    't=$(mktemp aXXX bXXX); cat "$t/etc/passwd"',
    't=$(mktemp aXXX); echo x > "$t"',
    't=$(mktemp -q /tmp/aXXX); cat "$t/etc/passwd"',
    't=$(mktemp -d -p .git/hooks); echo x > "$t/y"',
    'export TMPDIR=.git/hooks; t=$(mktemp -d); echo x > "$t/y"',
    't=$(mktemp -d); cat "${t%/*}/etc/passwd"',
    't=$(mktemp -d); cat "$t/../../etc/passwd"',
    # A number that is not known in the name of a file.
    "cat k/$UID.key",
    "cat k/$EUID.key",
    "head k/$UID.key",
    "tail -n 3 k/$UID.key",
    "true; cat k/$?.key",
    "cat k/$$.key",
    "i=3; while [ $i -gt 0 ]; do i=$((i-1)); cat k/$i.key; done",
    "i=3; while [ $i -gt 0 ]; do i=$((i-1)); echo x > k/$i.key; done",
    "i=3; while [ $i -gt 0 ]; do i=$((i-1)); wc -l < k/$i.key; done",
    "cp f k/$UID.key",
    "sed -n 1p k/$UID.key",
    "grep --file=k/$UID.key x",
    "cat /tmp/$$/../../etc/passwd",
)


@pytest.mark.parametrize("command", DENIED)
def test_not_allowed_in_a_sandbox_either(command: str, place: Place) -> None:
    """Where the verdict is a question, the sandbox holds what is approved: masks, mounts and its root."""
    assert place.judge(command).verdict != "allow"


COUNTED = (
    "n=$(grep -n x g.txt | head -1 evil.txt | cut -d: -f1); echo $((n+1))",
    "n=$(grep -n -A1 x g.txt | tail -1 | cut -d: -f1); echo $((n+1))",
    f"n=$(grep -c --regexp=x '{CODE}' g.txt); echo $((n+1))",
    f"n=$(grep -c x '{CODE}' g.txt); echo $((n+1))",
    f"n=$(grep -rc x '{CODE}'); echo $((n+1))",
    f"inf='{CODE}'; n=$(echo 1e999 | awk '{{s+=$1}} END {{print s}}'); echo $((n+1))",
    "n=$(cat evil.txt); echo $((n+1))",
    "n=$(head -1 evil.txt | cut -d: -f1); (( n > 1 )) && echo more",
    "n=$(grep -n x g.txt | cut -d: -f1 evil.txt); echo $((n+1))",
    "read -r n < evil.txt; echo $((n+1))",
)


@pytest.mark.parametrize("command", COUNTED)
def test_no_text_is_counted_with(command: str, place: Place) -> None:
    """Raw bash, which is denied, or a plan that bash runs without running what the text says."""
    if isinstance(place.touch(command).command, Plan):
        place.run(command)
    else:
        assert place.judge(command).verdict == "deny"
    assert not (place.root / "pwned").exists()


def _replaced(tmp_path: Path, said: str) -> Callable[[str], str]:
    """Runs a plan whose program says something else than a number, whatever it was taken for."""
    place = Place(tmp_path / "ws")
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "wc").write_text(f"#!/bin/sh\ncat <<'E'\n{said}\nE\n")
    (bin_ / "wc").chmod(0o755)

    def run(command: str) -> str:
        made = place.touch(command).command
        assert isinstance(made, Plan), made
        text = render(made).replace(shell_path("wc"), str(bin_ / "wc"))
        assert str(bin_) in text
        done = subprocess.run(
            ["/bin/bash", "-c", text], cwd=place.root, capture_output=True, text=True, timeout=60, check=False
        )
        assert not (place.root / "pwned").exists()
        return done.stdout

    return run


def shell_path(name: str) -> str:
    import shutil

    return shutil.which(name) or ""


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        ("41", "42\n"),
        ("   41", "42\n"),
        ("", "1\n"),
        (CODE, ""),
        ("PWD", ""),
        ("1 2", ""),
        ("1\n2", ""),
        ("-5", ""),
        ("x=7", ""),
        ("n", ""),
        ("1+1", ""),
    ],
)
def test_arithmetic_gets_digits_whatever_the_program_says(tmp_path: Path, said: str, printed: str) -> None:
    run = _replaced(tmp_path, said)
    assert run("n=$(wc -l < g.txt); echo $((n + 1)); echo after") == (f"{printed}after\n" if printed else "")
    assert run("n=$(wc -l < g.txt); (( n > 40 )) && echo many") == ("many\n" if "41" in said else "")


TAKEN = (
    "n=$(grep -c x g.txt); echo $((n+1))",
    "n=$(grep -n x g.txt | head -1 | cut -d: -f1); echo $((n+1))",
    "n=$(wc -l < g.txt); for i in 1 2; do n=$((n+i)); done; head -n $n g.txt",
    "[ -d .venv ] || python3 -m venv .venv; source .venv/bin/activate; pytest",
    "[ -f .venv/bin/activate ] && source .venv/bin/activate; pytest",
    "source .venv/bin/activate && pytest -q",
    ". .venv/bin/activate; pytest -q",
    't=$(mktemp -d); echo x > "$t/y"; cat "$t/y"',
    "echo x > /tmp/out.$$; cat /tmp/out.$$",
    "sleep $((1+UID))",
    "make -j$(nproc)",
    "fd -e java -x grep -l x {}",
)


@pytest.mark.parametrize("command", TAKEN)
def test_what_people_write_is_still_a_plan(command: str, place: Place) -> None:
    assert isinstance(place.touch(command).command, Plan)
    assert place.judge(command).verdict != "deny"


def test_a_program_of_an_environment_is_called_by_the_path_that_was_judged(place: Place) -> None:
    """Also where the environment may be gone by then."""
    made = place.touch("[ -d .venv ] && source .venv/bin/activate; pytest").command
    assert isinstance(made, Plan)
    assert f"{place.root}/.venv/bin/pytest" in render(made)


@pytest.mark.parametrize("setting", ["", "set -e; "])
def test_what_did_not_enter_a_folder_does_not_leave_the_workspace(place: Place, setting: str) -> None:
    assert place.run("cd n && pwd; cd ..; pwd") == f"{place.root}/n\n{place.root}\n"
    made = place.touch(f"{setting}cd n; cd ..; pwd").command
    assert isinstance(made, Plan)
    (place.root / "n").rmdir()
    done = subprocess.run(
        ["/bin/bash", "-c", render(made)], cwd=place.root, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == ("" if setting else f"{place.root}\n")
