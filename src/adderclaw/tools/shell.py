"""Bash: plans one command where possible, runs it in its own process group and reports its whole output."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from adderclaw.config.paths import followed
from adderclaw.config.schema import Config
from adderclaw.core.decode import Between
from adderclaw.core.framing import STDERR, exit_line
from adderclaw.core.host import ToolContext
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import (
    Alias,
    PathFact,
    Prepared,
    RemoteFact,
    Tool,
    ToolResult,
    Touch,
    internal_failure,
    own_words,
    rejected,
)
from adderclaw.policy.legacy.looking import only_looks
from adderclaw.policy.legacy.programs import git_alone
from adderclaw.policy.legacy.programs import knowledge as knowledge
from adderclaw.policy.legacy.programs.allowlist import those
from adderclaw.policy.legacy.programs.operands import ARCHIVE, PATCH
from adderclaw.policy.legacy.shell import planner as planner
from adderclaw.policy.legacy.shell.planner import Plan, Raw, Simple
from adderclaw.policy.paths import DEVICES
from adderclaw.sandbox import git_facts, process, programs, workspace
from adderclaw.sandbox.capture import Capture
from adderclaw.sandbox.process import Finished
from adderclaw.tools import identity, network_notes, paths
from adderclaw.tools.background import OUTPUT_BYTES, Output, TaskOutcome, Tasks, TooManyTasks
from adderclaw.tools.legacy import hardened_git, wildcards
from adderclaw.tools.legacy.hardened_git import Ready
from adderclaw.tools.specs import builtin_tool

if TYPE_CHECKING:
    from adderclaw.sandbox.broker import Grant
    from adderclaw.sandbox.proxy import Judge

DEFAULT_MS = 120_000
MAX_MS = 600_000
BACKGROUND_DEFAULT_MS, BACKGROUND_MAX_MS = 1_800_000, 7_200_000
"""Default and maximum time limit of a background command."""
TRUNCATED = "[SDLC_TRUNCATED]"
HEAD_BYTES, END_BYTES = 16 << 20, 1 << 20
"""How much of the start and of the end of each output stream is stored. The middle is dropped and counted."""
NO_BACKGROUND = "Background commands are not available here. Run it in the foreground."
GRACE = 5.0
"""Seconds that the kernel waits beyond the tool's own time limit, so that the output so far is still reported."""
GIT_ANSWERS = ("git diff", "git grep")
"""Git commands whose exit code 1 is a normal result."""
OPTIONS = ("--norc", "--noprofile", "-c")
GIT_NEEDS_OWN_CALL = (
    "\nadderclaw: git directories and the settings of CI, editors and hook managers are read-only to commands. To "
    "change them with git, run git alone in a separate call\n"
)
GIT_NOT_ALONE = (
    "\nadderclaw: git directories are read-only to this command, because it could change what git runs later. Ask the "
    "user to run it\n"
)
BLOCK_CHECK_SECONDS = 3.0
"""Seconds after which a running git is checked for waiting on a pipe or device."""
GIT_BLOCKED = (
    "adderclaw: git was stopped because it was waiting for {path}, which is a pipe or a device. Remove it (Delete) and "
    "try again\n"
)
READ_ONLY = (b"Read-only file system", b"EROFS")


LOOPBACK = ("localhost", "127.0.0.1")
LOCAL_SERVER_PAUSED = (
    "\nadderclaw: git connects to {places} from outside the sandbox. Servers started in this session are paused while "
    "git runs and cannot be reached. Clone or fetch by a workspace path instead\n"
)
UNSUPPORTED_REMOTE = (
    "\nadderclaw: git can reach a remote only by https, http or ssh, with a host name or an IPv4 address\n"
)
REMOTE_NEEDS_GIT_ALONE = (
    "\nadderclaw: git can reach a remote only in a call that runs git alone, without pipes or other programs\n"
)


@record
class BashArguments:
    command: str
    timeout: Annotated[int, Between(1)] | None = None
    """Milliseconds: 120000 unless given, at most 600000."""
    description: str = ""
    """What it does, in 5 to 10 words."""
    run_in_background: bool = False


# ------------------------------------------------------------------ planning


class CommandSetup(NamedTuple):
    """What commands run with: the sandbox's `start` (None: unconfined), background tasks and network rules."""

    start: process.Starter | None = None
    tasks: Tasks | None = None
    tmpdir: str | None = None
    """TMPDIR of the commands: empty if it is not set, None if it is not known before they run."""
    shell: str = "/bin/bash"
    reach: "Judge | None" = None
    """Decides which hosts every command may reach; None if there are none."""
    is_sealed: bool = False
    """Whether commands can reach only the hosts that `reach` allows."""
    refused: Callable[[], int] = lambda: 0
    """How many connections to hosts were refused so far."""
    has_look_room: bool = False
    """Whether the sandbox has a read-only view. Without it, no command counts as read-only."""
    env: Mapping[str, str] | None = None
    """Environment variables from the settings, used when a sandbox confines the command."""

    def argv(self, text: str) -> list[str]:
        return [self.shell, *OPTIONS, text]


UNCONFINED = CommandSetup()


def prepare(arguments: BashArguments, ctx: ToolContext, means: CommandSetup = UNCONFINED) -> Prepared:
    """Plans a command and lists the paths that it touches. Globs are expanded here, not again when it runs."""
    cwd = ctx.workspace.cwd
    if "\0" in arguments.command:
        raise paths.PathRefused("a command cannot contain a NUL character. Print one with printf '\\0'")
    judged = _plan(arguments.command, ctx, means)
    command = judged.command
    named = planner.paths_of(command, cwd, os.path.expanduser("~"))
    confined = means.start is not None  # the sandbox then contains what links and archives can reach
    if named.rewritten and not confined:
        raise paths.PathRefused(f"{named.rewritten[0]} is written by the same command that opens it. Use two calls")
    is_raw = isinstance(command, Raw)
    if is_raw:
        why = f"runs raw bash ({command.reason})"
    else:
        runs = ", ".join(dict.fromkeys(simple.name for simple in planner.simples(command)))
        why = f"runs {runs or 'nothing but the shell itself'}"
    reads = (*named.reads, *_existing(named.read_if_there), *(() if confined else _links_in(named.trees)))
    writes = (*named.writes, *_existing(named.written_if_there), *(() if confined else _copied_paths(named.merged)))
    seen = tuple(_venv_python(fact, ctx) for fact in _path_facts(reads, ctx))
    written = tuple(_path_facts(writes, ctx))
    looks = means.has_look_room and not arguments.run_in_background and not named.trees
    looks = (
        looks and all(fact.path in DEVICES for fact in written) and all(_is_in_workspace(fact, ctx) for fact in seen)
    )
    looks = looks and isinstance(command, Plan) and only_looks(command)
    facts: tuple[RemoteFact, ...] = ()
    if isinstance(command, Plan) and "git" in command.text + command.shown:
        from adderclaw.tools.legacy import remotes

        facts, grants = remotes.reached(command, cwd, _roots(ctx))
        judged = judged._replace(parts=git_alone.parts(command), grants=grants)
    judged = judged._replace(looks=looks, offline=ctx.approved and is_raw)
    touch = Touch(
        reads=seen,
        writes=written,
        remotes=facts,
        command=command,
        opaque=is_raw,
        looks=looks,
        why=why,
    )
    overlaps, fails = looks and not _changes_directory(command), _background_problem(arguments, judged, means)
    return Prepared(touch, lambda: _run(arguments, judged, ctx, means), overlaps, lambda: fails)


def _is_in_workspace(fact: PathFact, ctx: ToolContext) -> bool:
    """Whether a path and its target are in the workspace or a harmless device: the read-only view has no others."""
    roots = _roots(ctx)
    return fact.path in DEVICES or (programs.is_inside(fact.path, roots) and programs.is_inside(fact.real, roots))


MAX_CHECKED_NAMES = 20_000
"""How many names are checked at most before a call is judged."""


def _path_facts(candidates: Iterable[str], ctx: ToolContext) -> Iterator[PathFact]:
    """The path facts of each path. Words with a name too long for any file are not paths and are left out.

    A relative path can be short enough to open although its absolute form is too long to check: that is refused.
    """
    for path in dict.fromkeys(candidates):
        encoded = os.fsencode(path)
        if max(map(len, encoded.split(b"/"))) <= paths.MAX_NAME:
            if len(encoded) >= paths.MAX_PATH:
                raise paths.PathRefused(f"the path {path[:60]!r}… is too long to check. Write it without . and ..")
            folded = paths.path_fact(path, ctx)
            yield folded
            if b".." in encoded.split(b"/"):
                yield from _path_behind_link(folded, ctx)


def _path_behind_link(folded: PathFact, ctx: ToolContext) -> Iterator[PathFact]:
    """The path to which `..` after a link leads: the kernel goes up from the link's target, not from its folder."""
    real = followed(os.path.join(ctx.workspace.cwd, folded.given))
    if real != folded.real:
        resolved = paths.path_fact(real, ctx)
        yield PathFact(folded.given, resolved.path, resolved.real, resolved.identity)


def _venv_python(fact: PathFact, ctx: ToolContext) -> PathFact:
    """Treats the `python` link of a virtual environment as the file itself: it only leads to an installed Python."""
    if fact.real == fact.path or os.path.basename(fact.path) not in ("python", "python3"):
        return fact
    roots = _roots(ctx)
    if not programs.is_inside(os.path.dirname(fact.path), roots) or not programs.is_python(fact.real, roots):
        return fact
    return PathFact(fact.given, fact.path, fact.path, fact.identity)


def _existing(words: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The words that name something on disk, judged by their first part, so that paths behind links count too."""
    for folder, word in words:
        lead, first = ("/", word.lstrip("/")) if word.startswith("/") else (folder, word)
        if workspace.is_named(os.path.join(lead, first.split("/", 1)[0])):
            yield os.path.join(folder, word)


def _links_in(trees: Iterable[str]) -> Iterator[str]:
    """The links inside folders that a program walks through while following links."""
    count = 0
    for tree in trees:
        top = workspace.resolved_path(followed(tree))
        for entry in workspace.walk(top):
            count += 1
            if count > MAX_CHECKED_NAMES:
                message = (
                    f"it follows links among more than {MAX_CHECKED_NAMES:,} files. Run it without following links"
                )
                raise paths.PathRefused(message)
            if entry.is_link:
                yield os.path.join(tree, os.path.relpath(entry.path.text, top.text))


def _copied_paths(merged: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The target paths of a folder's contents that are copied into another folder, or unpacked from an archive."""
    for folder, target in merged:
        if folder.endswith((ARCHIVE, PATCH)):
            from adderclaw.tools.legacy import archives

            yield from (os.path.join(target, name) for name in archives.names(folder))
            continue
        with suppress(OSError, paths.PathRefused):
            listed = workspace.entries(workspace.resolved_path(followed(folder)))
            yield from (os.path.join(target, entry.path.name) for entry in listed)


def _plan(text: str, ctx: ToolContext, means: CommandSetup) -> "JudgedCommand":
    roots, cwd, tmpdir = _roots(ctx), ctx.workspace.cwd, means.tmpdir
    base_env = env = process.environment(means.env, workspace_roots=roots)
    if tmpdir is not None:
        env = {**base_env, "TMPDIR": tmpdir}
        if not tmpdir:
            del env["TMPDIR"]
    certain = frozenset({"TMPDIR"}) if tmpdir is not None else frozenset[str]()
    facts = planner.Facts(followed(cwd), env, wildcards.within(cwd, roots), certain, means.start is not None, roots)
    return JudgedCommand(
        planner.plan(text, lambda name: programs.resolve(name, roots), facts=facts), cwd, base_env, roots
    )


class JudgedCommand(NamedTuple):
    """A command as it was judged, with its directory and environment: exactly this is run."""

    command: Plan | Raw
    cwd: str
    env: dict[str, str]
    roots: tuple[str, ...]
    """The workspace and its extra directories: programs in them are never found by name."""
    looks: bool = False
    """Whether it runs in the read-only view."""
    parts: tuple[git_alone.Part, ...] = ()
    """The command split where git runs alone: only such a part may change files that other programs run later."""
    grants: "tuple[Grant, ...]" = ()
    """The remotes that were approved: only git running alone reaches them, and only in this call."""
    offline: bool = False
    """Whether it is approved raw bash, which runs with the network off."""


def _roots(ctx: ToolContext) -> tuple[str, ...]:
    return (ctx.workspace.root, *ctx.workspace.extra)


# ------------------------------------------------------------------ the run

type Captures = tuple[Capture, Capture]
"""What a command prints to stdout and to stderr. All parts of one command share it."""


async def _run(arguments: BashArguments, judged: JudgedCommand, ctx: ToolContext, means: CommandSetup) -> ToolResult:
    cwd, parts = judged.cwd, judged.parts
    if not workspace.is_directory(cwd) or not programs.is_inside(followed(cwd), _roots(ctx)):
        ctx.workspace.cwd = ctx.workspace.root
        return rejected(
            f"{cwd} is no longer a directory of the workspace.\n{_reset_note(ctx)}\nNothing was run. Try again."
        )
    if arguments.run_in_background:
        return _start_background(arguments, (await _render(judged, means)).text, judged, ctx, means)
    seconds, refused = _time_limit(arguments), means.refused()
    captures = (Capture(HEAD_BYTES, END_BYTES), Capture(HEAD_BYTES, END_BYTES))
    ctx.live_output[ctx.tool_use_id] = lambda: b"".join(stream.latest() for stream in captures)
    try:
        if len(parts) > 1 and means.start is not None:
            done, note = await _run_parts(judged, seconds, ctx, means, captures)
        else:
            done, note = await _run_and_follow(judged, seconds, ctx, means, captures)
    finally:
        ctx.live_output.pop(ctx.tool_use_id, None)
    dropped = sum(stream.dropped for stream in captures)
    if means.is_sealed and done.returncode and not _is_git_alone(judged):
        note = "\n".join(filter(None, (note, network_notes.network_note(done, refused=means.refused() > refused))))
    return _result(judged, done, seconds, note, dropped)


async def _run_and_follow(
    judged: JudgedCommand, seconds: float, ctx: ToolContext, means: CommandSetup, captures: Captures
) -> tuple[Finished, str]:
    """Runs the command and adopts its final directory. The note says so if that is outside the workspace."""
    ready = await _render(judged, means)
    if not _changes_directory(judged.command):
        return await _run_process(judged, ready, seconds, means, captures), ""
    reader, writer = os.pipe()
    try:
        # Bash reports its final directory on a separate descriptor, even if the command calls `exit`.
        traced = Ready(f"trap 'builtin pwd -P >&{writer}' EXIT\n{ready.text}")
        return await _run_process(judged, traced, seconds, means, captures, (writer,)), _follow_directory(reader, ctx)
    finally:
        os.close(reader)
        os.close(writer)


def _is_git_alone(judged: JudgedCommand) -> bool:
    return len(judged.parts) == 1 and judged.parts[0].git


async def _render(judged: JudgedCommand, means: CommandSetup) -> Ready:
    if isinstance(judged.command, Raw):
        return Ready(judged.command.text)
    who = await identity.operator_identity(judged.roots) if judged.parts else identity.NOBODY
    alone = _is_git_alone(judged) or means.start is None
    return hardened_git.rendered(judged.command, who, judged.roots, alone=alone, here=means.start is not None)


async def _run_process(
    judged: JudgedCommand,
    ready: Ready,
    seconds: float,
    means: CommandSetup,
    captures: Captures,
    fds: tuple[int, ...] = (),
) -> Finished:
    """Runs the process. Git alone can reach the approved remotes through the broker while it runs."""
    alone, env = _is_git_alone(judged), judged.env
    if isinstance(judged.command, Plan) and hardened_git.is_here(judged.command):
        env = {**env, git_facts.PLAIN_VARIABLE: ""}
    with ExitStack() as stack:
        if alone and means.start is not None:
            # Other processes of the session are paused meanwhile, so their servers would never answer.
            env = {**env, "ADDERCLAW_PROTOCOLS": ":".join(("file", *(grant.scheme for grant in judged.grants)))}
        if alone and judged.grants:
            from adderclaw.sandbox.broker import Broker, certificates

            certs = await certificates(judged.grants, judged.roots)
            broker = stack.enter_context(Broker(judged.grants, judged.roots, certs, means.reach))
            env, fds = {**env, **broker.environment}, (*fds, *broker.fds)
            if means.start is None:  # git reaches servers on this machine directly
                env["ADDERCLAW_NEAR"] = ""
        start = process.in_view(means.start, _view(judged))
        run = partial(process.run, cwd=judged.cwd, timeout=seconds, start=start, into=captures)
        if ready.argv and means.shell == UNCONFINED.shell:  # otherwise the operator configured another bash
            # If it cannot be started, bash runs it: bash reports why, or reads a script without a `#!` line itself.
            with suppress(process.StartFailed):
                own = {**env, **ready.environment(followed(judged.cwd))}
                return await run(ready.argv, env=own, pass_fds=fds)
        running = run(means.argv(ready.text), env=env, pass_fds=fds)
        git = isinstance(judged.command, Plan) and any(
            simple.name == "git" for simple in planner.simples(judged.command)
        )
        return await (_stop_if_blocked(running, judged.cwd, captures) if git else running)


async def _stop_if_blocked(run: Coroutine[Any, Any, Finished], cwd: str, captures: Captures) -> Finished:
    """Stops git if it is blocked on a pipe: git opens ignore files of any kind, and would wait forever."""
    task = asyncio.ensure_future(run)
    try:
        await asyncio.wait({task}, timeout=BLOCK_CHECK_SECONDS)
        if task.done():
            return task.result()
        root = workspace.resolved_path(followed(cwd))
        blocker = await asyncio.to_thread(workspace.blocking_git_file, root, task.done)
        if not blocker or task.done():
            return await task
    finally:
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    out, err = captures
    err.note(GIT_BLOCKED.format(path=paths.printable(blocker)).encode())
    return Finished(128, out.data, err.data, out.cut, err.cut)


def _view(judged: JudgedCommand) -> process.View:
    if judged.looks:
        return "read_only"
    return "offline" if judged.offline else "git" if _is_git_alone(judged) else "all"


async def _run_parts(
    judged: JudgedCommand, seconds: float, ctx: ToolContext, means: CommandSetup, captures: Captures
) -> tuple[Finished, str]:
    """Runs the parts in order, as bash would: they share output, directory and one time limit."""
    cwd, end, note = judged.cwd, time.monotonic() + seconds, ""
    whole = Finished(0, b"", b"")
    for part in judged.parts:
        if (part.after == "&&" and whole.returncode) or (part.after == "||" and not whole.returncode):
            continue
        if note:
            return whole._replace(returncode=1), f"{note}\nThe command left the workspace, so the rest was not run"
        part_command = judged._replace(command=part.plan, parts=(part,), cwd=cwd)
        whole, note = await _run_and_follow(part_command, max(end - time.monotonic(), 0.001), ctx, means, captures)
        cwd = ctx.workspace.cwd if _changes_directory(part.plan) else cwd
        if whole.timed_out:
            break
    return whole, note


def _time_limit(arguments: BashArguments) -> float:
    if arguments.run_in_background:
        return min(arguments.timeout or BACKGROUND_DEFAULT_MS, BACKGROUND_MAX_MS) / 1000
    return min(arguments.timeout or DEFAULT_MS, MAX_MS) / 1000


def _background_problem(arguments: BashArguments, judged: JudgedCommand, means: CommandSetup) -> str:
    """Why the command cannot run in the background; empty if it can or need not."""
    if not arguments.run_in_background:
        return ""
    if means.tasks is None:
        return NO_BACKGROUND
    return "git can reach a remote only in the foreground. Run it without run_in_background." if judged.grants else ""


def _start_background(
    arguments: BashArguments, text: str, judged: JudgedCommand, ctx: ToolContext, means: CommandSetup
) -> ToolResult:
    """Starts the command as a background task. It continues after the call and ends with the session at the latest."""
    if means.tasks is None:
        return rejected(NO_BACKGROUND)
    if why := _background_problem(arguments, judged, means):
        return rejected(why)
    seconds, cwd, env = _time_limit(arguments), judged.cwd, judged.env

    async def work(output: Output) -> TaskOutcome:
        argv = means.argv(text)
        start = process.in_view(means.start, "offline" if judged.offline else "all")
        done = await process.run(argv, cwd=cwd, env=env, timeout=seconds, start=start, sink=output.write)
        output.write(done.stderr)  # messages of the sandbox
        if done.timed_out:
            return TaskOutcome("failed", f"stopped after {seconds:g} s, its time limit")
        return TaskOutcome("failed" if done.returncode else "completed", f"exit code {_exit_code(done.returncode)}")

    try:
        task = means.tasks.begin("bash", arguments.command, work, ctx)
    except TooManyTasks as error:
        return rejected(f"{error}.")
    most = f"the first {OUTPUT_BYTES >> 20} MiB"
    where = f" (Read {task.output.path} shows {most})" if task.output.path else ""
    notice = "You will be told when it ends."
    return own_words(
        f"Running in the background as {task.id}. TaskOutput shows what it prints{where}; TaskStop ends it. {notice}",
        {"task_id": task.id, "output_file": task.output.path},
    )


def _changes_directory(command: Plan | Raw) -> bool:
    if isinstance(command, Raw):
        return not those("shifts").isdisjoint(command.words)
    return any(simple.name in those("shifts") for simple in planner.simples(command))


def _follow_directory(reader: int, ctx: ToolContext) -> str:
    """Adopts the command's final directory if it is in the workspace; otherwise resets it and returns a note."""
    os.set_blocking(reader, False)
    printed = b""
    with suppress(BlockingIOError):
        printed = os.read(reader, 65536)
    directory = os.fsdecode(printed.removesuffix(b"\n"))
    if not directory:
        return ""
    with suppress(OSError):  # a link was swapped meanwhile
        if workspace.is_directory(directory) and programs.is_inside(followed(directory), _roots(ctx)):
            ctx.workspace.cwd = directory
            return ""
    ctx.workspace.cwd = ctx.workspace.root
    return _reset_note(ctx)


def _reset_note(ctx: ToolContext) -> str:
    return f"Shell cwd was reset to {paths.printable(ctx.workspace.cwd)}"


# ------------------------------------------------------------------ the result


def _result(judged: JudgedCommand, done: Finished, seconds: float, note: str, dropped: int = 0) -> ToolResult:
    command, printed, lost = judged.command, _streams(done), {"dropped_bytes": dropped} if dropped else {}
    if judged.grants and done.returncode and not any(part.git for part in judged.parts):
        printed += REMOTE_NEEDS_GIT_ALONE
    if done.returncode and _is_git_alone(judged):
        printed += _remote_note(judged, done)
    if note:
        printed = f"{printed.rstrip(chr(10))}\n{note}" if printed else note
    if done.timed_out:
        ended = f"Command timed out after {seconds:g} s and was killed\n{printed}"
        return replace(internal_failure(ended, "timed_out", own=not printed), metadata=lost)
    if _hit_read_only_git(command, done):
        printed += GIT_NOT_ALONE if _is_git_only(command) else GIT_NEEDS_OWN_CALL
    about = {"exit_code": done.returncode, "truncated": done.truncated, **lost}
    if done.returncode == 0 or (done.returncode == 1 and _may_exit_one(_last_program(command))):
        return ToolResult(printed, metadata=about)
    failed = f"{exit_line(_exit_code(done.returncode))}{printed}"
    if done.returncode > 0:  # otherwise a signal ended it
        about["ran"] = True
    return ToolResult(failed, "rejected", about)


def _remote_note(judged: JudgedCommand, done: Finished) -> str:
    """Explains why git did not reach a remote if git's own message does not."""
    near = [grant.authority for grant in judged.grants if grant.host in LOOPBACK]
    if near:
        return LOCAL_SERVER_PAUSED.format(places=", ".join(near))
    refused = re.search(rb"transport '\w+' not allowed", done.stderr) is not None
    return UNSUPPORTED_REMOTE if refused else ""


def _hit_read_only_git(command: Plan | Raw, done: Finished) -> bool:
    """Whether the command failed because a git directory or another protected file is read-only."""
    lines = [
        line for line in (done.stdout + b"\n" + done.stderr).splitlines() if any(word in line for word in READ_ONLY)
    ]
    return bool(lines) and ("git" in command.text or any(b"git" in line or b"hook" in line for line in lines))


def _is_git_only(command: Plan | Raw) -> bool:
    """Whether every program of the command is git."""
    return isinstance(command, Plan) and all(simple.name == "git" for simple in planner.simples(command))


def _streams(done: Finished) -> str:
    """stdout, then stderr under its heading if there is any."""
    out, err = _text(done.stdout, cut=done.stdout_cut), _text(done.stderr, cut=done.stderr_cut)
    return f"{out}\n{STDERR}{err}" if err else out


def _text(stream: bytes, *, cut: bool) -> str:
    return stream.decode("utf-8", "replace") + (TRUNCATED if cut else "")


def _exit_code(returncode: int) -> str:
    if returncode >= 0:
        return str(returncode)
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"{128 - returncode} (killed by {name})"


def _may_exit_one(name: str) -> bool:
    return name in GIT_ANSWERS or name in those("answers")


def _last_program(command: Plan | Raw) -> str:
    """The program that most likely set the exit code, with its subcommand for git."""
    if isinstance(command, Raw):
        alone = len(command.programs) == 1 and "!" not in command.words
        return command.programs[0] if alone else ""
    last = command.body.steps[-1]
    simple = last.commands[-1]
    if last.negated or command.body.tail or not isinstance(simple, Simple):
        return ""
    return f"git {simple.words[1]}" if simple.name == "git" and len(simple.words) > 1 else simple.name


# ------------------------------------------------------------------ the tool


def tools(config: Config, means: CommandSetup = UNCONFINED) -> tuple[Tool[Any], ...]:
    def prepare_here(arguments: BashArguments, ctx: ToolContext) -> Prepared:
        return prepare(arguments, ctx, means)

    def limit(arguments: BashArguments) -> float:
        return _time_limit(arguments) + GRACE

    short = {"timeout": int(config.runtime.shell_timeout_seconds * 1000)}
    return (
        builtin_tool(
            "Bash", BashArguments, prepare_here, (Alias("shell", defaults=short), Alias("bash")), timeout=limit
        ),
    )
