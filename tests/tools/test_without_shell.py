"""A command that is one program starts without a shell, and does exactly what it does in one."""

import asyncio
import os
from pathlib import Path

import pytest

from adderclaw.core.host import ToolContext
from adderclaw.core.types import ToolResult, Workspace
from adderclaw.policy.legacy.shell import planner as planner
from adderclaw.policy.legacy.shell.planner import Plan
from adderclaw.sandbox import process, programs
from adderclaw.tools import shell
from adderclaw.tools.identity import NOBODY
from adderclaw.tools.legacy import hardened_git
from adderclaw.tools.legacy.hardened_git import Ready
from adderclaw.tools.shell import BashArguments
from tests.tools.conftest import result_of

BECOMES = {
    "its environment": "env",
    "its words": "words 'a b' '' '*' '$HOME' '-n' 'ü\\n'",
    "its own name": "named 1",
    "what is printed": "echo 'a b' '' '-n' \"it's\" '*' 'ü' '\n' $'\\t'",
    "a failure": "ls nowhere",
    "an exit code": "python3 -c 'import sys; print(1); sys.exit(7)'",
    "a signal": "python3 -c 'import os, signal; os.kill(os.getpid(), signal.SIGTERM)'",
    "signals that are ignored": "grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status",
    "its descriptors": "descriptors",
    "its session": "session",
    "a script that names no program": "no-program 1 2",
    "a script of a program that is not there": "no-interpreter",
    "a program of another machine": "no-machine",
}
"""Commands that are one program, by what of each could differ."""
SCRIPTS = {
    "words": "#!/usr/bin/python3\nimport sys; print(sys.argv[1:])\n",
    "named": "#!/bin/sh\necho \"$0 $#\"; tr '\\0' ' ' < /proc/$$/cmdline\n",
    "descriptors": "#!/usr/bin/python3\nimport os; print(sorted(os.listdir('/proc/self/fd')))\n",
    "session": "#!/usr/bin/python3\nimport os; print(os.getpid() == os.getsid(0) == os.getpgid(0))\n",
    "no-program": 'echo "$0 $*"; exit 3\n',
    "no-interpreter": "#!/nowhere/program\n",
    "no-machine": "\x7fELF\x02\x01\x01",
}


@pytest.fixture
def ctx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolContext:
    root, tools = tmp_path / "ws", tmp_path / "tools"
    (root / "sub").mkdir(parents=True)
    tools.mkdir()
    for name, script in SCRIPTS.items():
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    return ToolContext("c", "s", Workspace(str(root)))


def bash(command: str, ctx: ToolContext) -> ToolResult:
    return result_of(shell.prepare(BashArguments(command=command, timeout=60_000), ctx))


def ready(text: str, ctx: ToolContext) -> Ready:
    plan = planner.plan(text, lambda name: programs.resolve(name, (ctx.workspace.root,)))
    assert isinstance(plan, Plan)
    return hardened_git.rendered(plan, NOBODY, (), alone=False)


@pytest.mark.parametrize("text", BECOMES.values(), ids=[*BECOMES])
def test_one_program(text: str, ctx: ToolContext) -> None:
    made = ready(text, ctx)
    assert made.argv, "it is one program"
    env = process.environment(workspace_roots=(ctx.workspace.root,))
    argv = shell.UNCONFINED.argv(made.text)
    by_bash = asyncio.run(process.run(argv, cwd=ctx.workspace.cwd, env=env, timeout=60))
    alone = bash(text, ctx)
    assert alone.metadata["exit_code"] == by_bash.returncode
    printed = alone.content.partition("\n")[2] if by_bash.returncode else alone.content
    out, _, err = printed.partition("\n--- stderr ---\n")
    # Our own mark differs from call to call; the order of variables means nothing.
    lines = [line for line in by_bash.stdout.decode().splitlines() if not line.startswith("ADDERCLAW")]
    assert sorted(line for line in out.splitlines() if not line.startswith("ADDERCLAW")) == sorted(lines)
    assert err == by_bash.stderr.decode()


@pytest.mark.parametrize(
    "text",
    [
        *(
            "echo -n x",
            "echo --help",
            "echo 'a\\tb'",
            "echo",
            "printf x",
            "true",
            "pwd",
            "cd sub",
            "ls; ls",
            "ls | cat",
        ),
        *("! ls", "ls &", "time ls", "ls > out", "ls 2>&1", "A=1 env"),
        *("(ls)", "seq $(nproc)", "git status", "for i in 1 2; do ls $i; done", "set -e; ls", "ls < a"),
        *("./run", "ls && ls", "{ ls; }", "if ls; then ls; fi", "no-such-program"),
    ],
)
def test_all_else_is_for_bash(text: str, ctx: ToolContext) -> None:
    assert ready(text, ctx).argv == ()


def test_a_program_that_has_begun_is_not_started_again(ctx: ToolContext) -> None:
    """However it ends."""
    for end in ("os.kill(os.getpid(), 9)", "sys.exit(126)", "sys.exit(127)"):
        count = Path(ctx.workspace.root) / "count"
        assert bash(f'python3 -c \'import os, sys; open("count", "a").write("1"); {end}\'', ctx).is_error
        assert count.read_text() == "1", end
        count.unlink()
