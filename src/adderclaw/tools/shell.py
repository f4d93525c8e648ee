"""Bash: one command, compiled to a plan where it can be, run in its own process group, and reported whole."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any

from adderclaw.config.schema import Config
from adderclaw.decode import Between
from adderclaw.gate import shell as planner
from adderclaw.gate.shell import Plan, Raw
from adderclaw.record import record
from adderclaw.sandbox import process, programs
from adderclaw.sandbox.process import Finished
from adderclaw.tools import paths
from adderclaw.tools.specs import spec
from adderclaw.types import Alias, Tool, ToolContext, ToolResult, Touch, internal_failure, rejected

DEFAULT_MS = 120_000
MAX_MS = 600_000
SHOWN = 30_000
"""Characters that the model sees of one command's output: the head and the tail of it."""
TRUNCATED = "[SDLC_TRUNCATED]"
GRACE = 5.0
"""Seconds that the kernel waits beyond our own time limit, so that what was printed so far is still reported."""
ONE_IS_AN_ANSWER = frozenset({"grep", "egrep", "fgrep", "rg", "find", "diff", "test", "[", "git diff", "git grep"})
"""Programs whose exit code 1 says "nothing found" or "they differ", not that something went wrong."""
MOVERS = frozenset({"cd", "pushd", "popd"})
"""What changes the shell's own working directory."""
SHELL = ("/bin/bash", "--norc", "--noprofile", "-c")


@record
class BashArguments:
    command: str
    timeout: Annotated[int, Between(1)] = DEFAULT_MS
    """Milliseconds, at most 600000."""
    description: str = ""
    """What it does, in 5 to 10 words."""


# ------------------------------------------------------------------ before


def touch(arguments: BashArguments, ctx: ToolContext) -> Touch:
    command = _planned(arguments.command, _roots(ctx))
    if isinstance(command, Raw):
        return Touch(command=command, opaque=True, why=f"runs raw bash ({command.reason})")
    reads, writes = planner.paths_of(command, ctx.workspace.cwd)
    return Touch(
        reads=tuple(paths.fact(path, ctx) for path in reads),
        writes=tuple(paths.fact(path, ctx) for path in writes),
        command=command,
        why=f"runs {', '.join(dict.fromkeys(simple.name for simple in planner.simples(command)))}",
    )


@lru_cache(maxsize=32)
def _planned(text: str, roots: tuple[str, ...]) -> Plan | Raw:
    """Kept, so that what runs is what was judged."""
    return planner.plan(text, lambda name: programs.resolve(name, roots))


def _roots(ctx: ToolContext) -> tuple[str, ...]:
    return (ctx.workspace.root, *ctx.workspace.extra)


# ------------------------------------------------------------------ the run


async def run(arguments: BashArguments, ctx: ToolContext, *, confined: bool, network: bool) -> ToolResult:
    roots, cwd = _roots(ctx), ctx.workspace.cwd
    if not os.path.isdir(cwd) or not programs.inside(os.path.realpath(cwd), roots):
        ctx.workspace.cwd = ctx.workspace.root
        return rejected(f"{cwd} is no longer a directory of the workspace.\n{_reset(ctx)}\nNothing was run: try again.")
    command = _planned(arguments.command, roots)
    text = command.text if isinstance(command, Raw) else planner.render(command)
    seconds = min(arguments.timeout, MAX_MS) / 1000
    if not _moves(command):
        done = await _execute(text, cwd, roots, seconds, confined=confined, network=network)
        return _result(command, done, seconds, "")
    reader, writer = os.pipe()
    try:
        # Bash tells where it ended, on a descriptor of its own, however it ends: `exit` in the command included.
        text = f"trap 'builtin pwd -P >&{writer}' EXIT\n{text}"
        done = await _execute(text, cwd, roots, seconds, confined=confined, network=network, pass_fds=(writer,))
        note = _follow(reader, ctx)
    finally:
        os.close(reader)
        os.close(writer)
    return _result(command, done, seconds, note)


async def _execute(
    text: str,
    cwd: str,
    roots: tuple[str, ...],
    seconds: float,
    *,
    confined: bool,
    network: bool,
    pass_fds: Sequence[int] = (),
) -> Finished:
    argv = [*SHELL, text]
    if confined:
        from adderclaw.sandbox.confinement import wrap

        argv = wrap(argv, workspace_roots=roots, writable=(), cwd=cwd, network=network)
    env = process.environment(workspace_roots=roots)
    return await process.run(argv, cwd=cwd, env=env, timeout=seconds, pass_fds=pass_fds)


def _moves(command: Plan | Raw) -> bool:
    if isinstance(command, Raw):
        return not MOVERS.isdisjoint(command.words)
    return any(simple.name in MOVERS for simple in planner.simples(command))


def _follow(reader: int, ctx: ToolContext) -> str:
    """Go where the command went, if that is in the workspace; the line that says so if it is not."""
    os.set_blocking(reader, False)
    said = b""
    with suppress(BlockingIOError):
        said = os.read(reader, 65536)
    place = os.fsdecode(said.removesuffix(b"\n"))
    if not place:
        return ""
    if os.path.isdir(place) and programs.inside(os.path.realpath(place), _roots(ctx)):
        ctx.workspace.cwd = place
        return ""
    ctx.workspace.cwd = ctx.workspace.root
    return _reset(ctx)


def _reset(ctx: ToolContext) -> str:
    return f"Shell cwd was reset to {paths.shown(ctx.workspace.cwd)}"


# ------------------------------------------------------------------ the result


def _result(command: Plan | Raw, done: Finished, seconds: float, note: str) -> ToolResult:
    printed = _streams(done)
    if note:
        printed = f"{printed.rstrip(chr(10))}\n{note}" if printed else note
    if done.timed_out:
        return internal_failure(_cut(f"Command timed out after {seconds:g} s and was killed\n{printed}"))
    about = {"exit_code": done.returncode, "truncated": done.truncated}
    if done.flooded:
        limit = process.FLOOD_BYTES >> 20
        return ToolResult(_cut(f"Killed: it printed more than {limit} MiB\n{printed}"), "tool_rejected", about)
    if done.returncode == 0 or (done.returncode == 1 and _last(command) in ONE_IS_AN_ANSWER):
        return ToolResult(_cut(printed), metadata=about)
    return ToolResult(_cut(f"Exit code {_code(done.returncode)}\n{printed}"), "tool_rejected", about)


def _streams(done: Finished) -> str:
    """Seed 003's form: stdout, then stderr under its heading where there is any."""
    out, err = _text(done.stdout, cut=done.stdout_cut), _text(done.stderr, cut=done.stderr_cut)
    return f"{out}\n--- stderr ---\n{err}" if err else out


def _text(stream: bytes, *, cut: bool) -> str:
    return stream.decode("utf-8", "replace") + (TRUNCATED if cut else "")


def _cut(text: str) -> str:
    if len(text) <= SHOWN:
        return text
    half = SHOWN // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def _code(returncode: int) -> str:
    if returncode >= 0:
        return str(returncode)
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"{128 - returncode} (killed by {name})"


def _last(command: Plan | Raw) -> str:
    """The program that the exit code is most likely from, with its subcommand where that matters."""
    if isinstance(command, Raw):
        alone = command.literal and len(command.programs) == 1 and "!" not in command.words
        return command.programs[0] if alone else ""
    if "!" in command.body:
        return ""
    simple = planner.simples(command)[-1]
    return f"git {simple.words[1]}" if simple.name == "git" and len(simple.words) > 1 else simple.name


# ------------------------------------------------------------------ the tool


def tools(config: Config, *, confined: bool) -> tuple[Tool[Any], ...]:
    network = config.security.network == "allow"

    async def run_here(arguments: BashArguments, ctx: ToolContext) -> ToolResult:
        return await run(arguments, ctx, confined=confined, network=network)

    def limit(arguments: BashArguments) -> float:
        return min(arguments.timeout, MAX_MS) / 1000 + GRACE

    bash = spec("Bash")
    short = {"timeout": int(config.runtime.shell_timeout_seconds * 1000)}
    return (
        Tool(
            "Bash",
            BashArguments,
            touch,
            run_here,
            bash.description,
            bash.parameters,
            (Alias("shell", defaults=short), Alias("bash")),
            limit,
        ),
    )
