"""Bash: one command, compiled to a plan where it can be, run in its own process group, and reported whole."""

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
from adderclaw.config.schema.settings import Config
from adderclaw.core.decode import Between
from adderclaw.core.framing import STDERR, exit_line
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import (
    Alias,
    PathFact,
    Prepared,
    RemoteFact,
    Tool,
    ToolContext,
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
from adderclaw.sandbox import known, process, programs, workspace
from adderclaw.sandbox.capture import Capture
from adderclaw.sandbox.process import Finished
from adderclaw.tools import identity, paths, unreached
from adderclaw.tools.background import OUTPUT_BYTES, End, Output, Tasks, TooMany
from adderclaw.tools.legacy import hardened_git, wildcards
from adderclaw.tools.legacy.hardened_git import Ready
from adderclaw.tools.specs import spec

if TYPE_CHECKING:
    from adderclaw.sandbox.broker import Grant
    from adderclaw.sandbox.proxy import Judge

DEFAULT_MS = 120_000
MAX_MS = 600_000
BEHIND_DEFAULT_MS, BEHIND_MAX_MS = 1_800_000, 7_200_000
"""The same for a command in the background."""
TRUNCATED = "[SDLC_TRUNCATED]"
KEPT_BYTES, END_BYTES = 16 << 20, 1 << 20
"""What is kept of each stream of a command: its head, and its end. What lies between them is dropped and counted."""
NOT_BEHIND = "nothing can run in the background here: run it in the foreground."
GRACE = 5.0
"""Seconds that the kernel waits beyond our own time limit, so that what was printed so far is still reported."""
GIT_ANSWERS = ("git diff", "git grep")
"""Commands of git's whose exit code 1 is an answer."""
OPTIONS = ("--norc", "--noprofile", "-c")
ALONE_MAY = (
    "\nadderclaw: git directories, and settings of CI, editors and hook managers, are read-only to commands. Changes "
    "of git need a git command of their own: run git alone, in a call of its own\n"
)
NOT_ALONE = (
    "\nadderclaw: git directories are read-only to this command: it may change what git runs later, so it is not run "
    "as git alone. The user has to do it\n"
)
SLOW = 3.0
"""Seconds after which it is looked whether git waits for a file that has no end."""
WAITED = (
    "adderclaw: git was ended, because it waits for {path}, which is a pipe or a device: remove it (Delete), and try "
    "again\n"
)
READ_ONLY = (b"Read-only file system", b"EROFS")


LOOPBACK = ("localhost", "127.0.0.1")
NOT_IN_HERE = (
    "\nadderclaw: git reaches {places} outside of the sandbox: a server that runs in this session is stopped while git "
    "runs, and is not reached. Clone or fetch by a path of the workspace instead\n"
)
NO_WAY = "\nadderclaw: git reaches a remote by https, http or ssh, whose host is a name or an IPv4 address\n"
REACHES = "\nadderclaw: git reaches a remote only in a call that runs git alone: without pipes and other programs\n"


@record
class BashArguments:
    command: str
    timeout: Annotated[int, Between(1)] | None = None
    """Milliseconds: 120000 unless given, at most 600000."""
    description: str = ""
    """What it does, in 5 to 10 words."""
    run_in_background: bool = False


# ------------------------------------------------------------------ before


class Means(NamedTuple):
    """What a command is run with: the sandbox's `start` (without it nothing confines it), and background tasks."""

    start: process.Start | None = None
    tasks: Tasks | None = None
    tmpdir: str | None = None
    """The children's TMPDIR, empty where it is not set; None where that is not known before they run."""
    shell: str = "/bin/bash"
    reach: "Judge | None" = None
    """Which hosts every command may reach; None where there are none."""
    is_sealed: bool = False
    """Whether commands reach no network but what `reach` lets through."""
    refused: Callable[[], int] = lambda: 0
    """How often a command was kept from a host so far."""
    has_look_room: bool = False
    """Whether the sandbox has a room in which nothing can be written: without it, no command is known to only look."""
    env: Mapping[str, str] | None = None
    """Variables of the settings, where a sandbox confines the command."""

    def argv(self, text: str) -> list[str]:
        return [self.shell, *OPTIONS, text]


ALONE = Means()


def prepare(arguments: BashArguments, ctx: ToolContext, means: Means = ALONE) -> Prepared:
    """Plan a command. The names that a glob matches may change until it runs: they are not asked again."""
    cwd = ctx.workspace.cwd
    if "\0" in arguments.command:
        raise paths.PathRefused("a command cannot hold a NUL character: print one with printf '\\0'")
    judged = _planned(arguments.command, ctx, means)
    command = judged.command
    named = planner.paths_of(command, cwd, os.path.expanduser("~"))
    confined = means.start is not None  # there the sandbox keeps links and archives to where they belong
    if named.rewritten and not confined:
        raise paths.PathRefused(f"{named.rewritten[0]} is written by the command that opens it: do it in two calls")
    is_raw = isinstance(command, Raw)
    if is_raw:
        why = f"runs raw bash ({command.reason})"
    else:
        runs = ", ".join(dict.fromkeys(simple.name for simple in planner.simples(command)))
        why = f"runs {runs or 'nothing but the shell itself'}"
    reads = (*named.reads, *_there(named.read_if_there), *(() if confined else _linked(named.trees)))
    writes = (*named.writes, *_there(named.written_if_there), *(() if confined else _landed(named.merged)))
    seen = tuple(_own_python(fact, ctx) for fact in _facts(reads, ctx))
    written = tuple(_facts(writes, ctx))
    looks = means.has_look_room and not arguments.run_in_background and not named.trees
    looks = looks and all(fact.path in DEVICES for fact in written) and all(_is_here(fact, ctx) for fact in seen)
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
    overlaps, fails = looks and not _moves(command), _not_behind(arguments, judged, means)
    return Prepared(touch, lambda: _run(arguments, judged, ctx, means), overlaps, lambda: fails)


def _is_here(fact: PathFact, ctx: ToolContext) -> bool:
    """Whether a file lies, and leads, in the workspace, or keeps nothing: the room for looking has no other place."""
    roots = _roots(ctx)
    return fact.path in DEVICES or (programs.inside(fact.path, roots) and programs.inside(fact.real, roots))


MAX_LOOKED_AT = 20_000
"""How many names are looked at, at most, before a call is judged."""


def _facts(found: Iterable[str], ctx: ToolContext) -> Iterator[PathFact]:
    """What is known of each path; what no file can be called, since a name in it is too long, is no path.

    A relative path may be short enough to be opened where the absolute one is too long to be checked.
    """
    for path in dict.fromkeys(found):
        encoded = os.fsencode(path)
        if max(map(len, encoded.split(b"/"))) <= paths.MAX_NAME:
            if len(encoded) >= paths.MAX_PATH:
                raise paths.PathRefused(f"the path {path[:60]!r}… is too long to be checked: write it without . and ..")
            folded = paths.fact(path, ctx)
            yield folded
            if b".." in encoded.split(b"/"):
                yield from _climbed(folded, ctx)


def _climbed(folded: PathFact, ctx: ToolContext) -> Iterator[PathFact]:
    """Where `..` behind a link leads: a program climbs from the place that the link names, not from the link."""
    real = followed(os.path.join(ctx.workspace.cwd, folded.given))
    if real != folded.real:
        place = paths.fact(real, ctx)
        yield PathFact(folded.given, place.path, place.real, place.identity)


def _own_python(fact: PathFact, ctx: ToolContext) -> PathFact:
    """The `python` of a virtual environment is a link to one that is installed: running it leads nowhere else."""
    if fact.real == fact.path or os.path.basename(fact.path) not in ("python", "python3"):
        return fact
    roots = _roots(ctx)
    if not programs.inside(os.path.dirname(fact.path), roots) or not programs.is_python(fact.real, roots):
        return fact
    return PathFact(fact.given, fact.path, fact.path, fact.identity)


def _there(words: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Words that name what is on the disk: by their first part, so that what lies behind a link counts, too."""
    for folder, word in words:
        lead, first = ("/", word.lstrip("/")) if word.startswith("/") else (folder, word)
        if workspace.is_named(os.path.join(lead, first.split("/", 1)[0])):
            yield os.path.join(folder, word)


def _linked(trees: Iterable[str]) -> Iterator[str]:
    """The links in folders that a program walks through, links included."""
    count = 0
    for tree in trees:
        top = workspace.anywhere(followed(tree))
        for entry in workspace.walk(top):
            count += 1
            if count > MAX_LOOKED_AT:
                message = f"it follows links among more than {MAX_LOOKED_AT:,} files: let it not follow links"
                raise paths.PathRefused(message)
            if entry.is_link:
                yield os.path.join(tree, os.path.relpath(entry.place.text, top.text))


def _landed(merged: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Where the content of a folder lands that is copied into another."""
    for folder, target in merged:
        if folder.endswith((ARCHIVE, PATCH)):
            from adderclaw.tools.legacy import archives

            yield from (os.path.join(target, name) for name in archives.names(folder))
            continue
        with suppress(OSError, paths.PathRefused):
            listed = workspace.entries(workspace.anywhere(followed(folder)))
            yield from (os.path.join(target, entry.place.name) for entry in listed)


def _planned(text: str, ctx: ToolContext, means: Means) -> "JudgedCommand":
    roots, cwd, tmpdir = _roots(ctx), ctx.workspace.cwd, means.tmpdir
    given = env = process.environment(means.env, workspace_roots=roots)
    if tmpdir is not None:
        env = {**given, "TMPDIR": tmpdir}
        if not tmpdir:
            del env["TMPDIR"]
    certain = frozenset({"TMPDIR"}) if tmpdir is not None else frozenset[str]()
    facts = planner.Facts(followed(cwd), env, wildcards.within(cwd, roots), certain, means.start is not None, roots)
    return JudgedCommand(planner.plan(text, lambda name: programs.resolve(name, roots), facts=facts), cwd, given, roots)


class JudgedCommand(NamedTuple):
    """A command as it was judged, where, and with which environment: nothing else is run for that call."""

    command: Plan | Raw
    cwd: str
    env: dict[str, str]
    roots: tuple[str, ...]
    """The workspace and its further directories: no program that is found by its name lies there."""
    looks: bool = False
    """Whether it runs in the room for looking."""
    parts: tuple[git_alone.Part, ...] = ()
    """Those that are git alone by themselves: they may change what other programs run later."""
    grants: "tuple[Grant, ...]" = ()
    """The remotes that were asked about: git alone reaches them, for this call."""
    offline: bool = False
    """Whether it is raw bash that somebody was asked about: it runs with the network off."""


def _roots(ctx: ToolContext) -> tuple[str, ...]:
    return (ctx.workspace.root, *ctx.workspace.extra)


# ------------------------------------------------------------------ the run

type Kept = tuple[Capture, Capture]
"""What a command prints to stdout and to stderr; parts of one command print to the same."""


async def _run(arguments: BashArguments, judged: JudgedCommand, ctx: ToolContext, means: Means) -> ToolResult:
    cwd, parts = judged.cwd, judged.parts
    if not workspace.is_directory(cwd) or not programs.inside(followed(cwd), _roots(ctx)):
        ctx.workspace.cwd = ctx.workspace.root
        return rejected(f"{cwd} is no longer a directory of the workspace.\n{_reset(ctx)}\nNothing was run: try again.")
    if arguments.run_in_background:
        return _begin(arguments, (await _rendered(judged, means)).text, judged, ctx, means)
    seconds, refused = _seconds(arguments), means.refused()
    kept = (Capture(KEPT_BYTES, END_BYTES), Capture(KEPT_BYTES, END_BYTES))
    ctx.live_output[ctx.tool_use_id] = lambda: b"".join(stream.latest() for stream in kept)
    try:
        if len(parts) > 1 and means.start is not None:
            done, note = await _in_parts(judged, seconds, ctx, means, kept)
        else:
            done, note = await _followed(judged, seconds, ctx, means, kept)
    finally:
        ctx.live_output.pop(ctx.tool_use_id, None)
    dropped = sum(stream.dropped for stream in kept)
    if means.is_sealed and done.returncode and not _is_alone(judged):
        note = "\n".join(filter(None, (note, unreached.note(done, refused=means.refused() > refused))))
    return _result(judged, done, seconds, note, dropped)


async def _followed(
    judged: JudgedCommand, seconds: float, ctx: ToolContext, means: Means, kept: Kept
) -> tuple[Finished, str]:
    """Run it, and go where it went; the line that says so if it left the workspace."""
    ready = await _rendered(judged, means)
    if not _moves(judged.command):
        return await _ended(judged, ready, seconds, means, kept), ""
    reader, writer = os.pipe()
    try:
        # Bash tells where it ended, on a descriptor of its own, however it ends: `exit` in the command included.
        told = Ready(f"trap 'builtin pwd -P >&{writer}' EXIT\n{ready.text}")
        return await _ended(judged, told, seconds, means, kept, (writer,)), _follow(reader, ctx)
    finally:
        os.close(reader)
        os.close(writer)


def _is_alone(judged: JudgedCommand) -> bool:
    return len(judged.parts) == 1 and judged.parts[0].git


async def _rendered(judged: JudgedCommand, means: Means) -> Ready:
    if isinstance(judged.command, Raw):
        return Ready(judged.command.text)
    who = await identity.of_operator(judged.roots) if judged.parts else identity.NOBODY
    alone = _is_alone(judged) or means.start is None
    return hardened_git.rendered(judged.command, who, judged.roots, alone=alone, here=means.start is not None)


async def _ended(
    judged: JudgedCommand, ready: Ready, seconds: float, means: Means, kept: Kept, fds: tuple[int, ...] = ()
) -> Finished:
    """Run it. Git alone may reach the remotes that were asked about, by the broker, until it has ended."""
    alone, env = _is_alone(judged), judged.env
    if isinstance(judged.command, Plan) and hardened_git.is_here(judged.command):
        env = {**env, known.ASKED: ""}
    with ExitStack() as stack:
        if alone and means.start is not None:
            # Whoever else listens in the session is stopped meanwhile, and would never answer.
            env = {**env, "ADDERCLAW_PROTOCOLS": ":".join(("file", *(grant.scheme for grant in judged.grants)))}
        if alone and judged.grants:
            from adderclaw.sandbox.broker import Broker, certificates

            found = await certificates(judged.grants, judged.roots)
            broker = stack.enter_context(Broker(judged.grants, judged.roots, found, means.reach))
            env, fds = {**env, **broker.environment}, (*fds, *broker.fds)
            if means.start is None:  # a server on this machine is reached as it is
                env["ADDERCLAW_NEAR"] = ""
        start = process.in_view(means.start, _view(judged))
        run = partial(process.run, cwd=judged.cwd, timeout=seconds, start=start, into=kept)
        if ready.argv and means.shell == ALONE.shell:  # else the operator named another bash
            # Where it cannot be started, bash says why, or is itself what reads a script that names no program.
            with suppress(process.NotStarted):
                own = {**env, **ready.environment(followed(judged.cwd))}
                return await run(ready.argv, env=own, pass_fds=fds)
        running = run(means.argv(ready.text), env=env, pass_fds=fds)
        git = isinstance(judged.command, Plan) and any(one.name == "git" for one in planner.simples(judged.command))
        return await (_unless_it_waits(running, judged.cwd, kept) if git else running)


async def _unless_it_waits(run: Coroutine[Any, Any, Finished], cwd: str, kept: Kept) -> Finished:
    """Git reads its ignore lists whatever they are: one that takes its time is ended where it waits for a pipe."""
    task = asyncio.ensure_future(run)
    try:
        await asyncio.wait({task}, timeout=SLOW)
        if task.done():
            return task.result()
        place = workspace.anywhere(followed(cwd))
        found = await asyncio.to_thread(workspace.waited_for, place, task.done)
        if not found or task.done():
            return await task
    finally:
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    out, err = kept
    err.note(WAITED.format(path=paths.shown(found)).encode())
    return Finished(128, out.data, err.data, out.cut, err.cut)


def _view(judged: JudgedCommand) -> process.View:
    if judged.looks:
        return "look"
    return "offline" if judged.offline else "git" if _is_alone(judged) else "all"


async def _in_parts(
    judged: JudgedCommand, seconds: float, ctx: ToolContext, means: Means, kept: Kept
) -> tuple[Finished, str]:
    """One part after the other, as bash would run the whole: they share files, their directory and one time limit."""
    cwd, end, note = judged.cwd, time.monotonic() + seconds, ""
    whole = Finished(0, b"", b"")
    for part in judged.parts:
        if (part.after == "&&" and whole.returncode) or (part.after == "||" and not whole.returncode):
            continue
        if note:
            return whole._replace(returncode=1), f"{note}\nIt had left the workspace: what follows was not run"
        one = judged._replace(command=part.plan, parts=(part,), cwd=cwd)
        whole, note = await _followed(one, max(end - time.monotonic(), 0.001), ctx, means, kept)
        cwd = ctx.workspace.cwd if _moves(part.plan) else cwd
        if whole.timed_out:
            break
    return whole, note


def _seconds(arguments: BashArguments) -> float:
    if arguments.run_in_background:
        return min(arguments.timeout or BEHIND_DEFAULT_MS, BEHIND_MAX_MS) / 1000
    return min(arguments.timeout or DEFAULT_MS, MAX_MS) / 1000


def _not_behind(arguments: BashArguments, judged: JudgedCommand, means: Means) -> str:
    """Why it cannot run in the background, where it is to."""
    if not arguments.run_in_background:
        return ""
    if means.tasks is None:
        return NOT_BEHIND
    return "git reaches a remote only while a call waits for it: run it in the foreground." if judged.grants else ""


def _begin(arguments: BashArguments, text: str, judged: JudgedCommand, ctx: ToolContext, means: Means) -> ToolResult:
    """Start it as a background task: it goes on when the call is over, and ends with the session at the latest."""
    if means.tasks is None:
        return rejected(NOT_BEHIND)
    if why := _not_behind(arguments, judged, means):
        return rejected(why)
    seconds, cwd, env = _seconds(arguments), judged.cwd, judged.env

    async def work(output: Output) -> End:
        argv = means.argv(text)
        start = process.in_view(means.start, "offline" if judged.offline else "all")
        done = await process.run(argv, cwd=cwd, env=env, timeout=seconds, start=start, sink=output.write)
        output.write(done.stderr)  # what the sandbox has to say of it
        if done.timed_out:
            return End("failed", f"stopped after {seconds:g} s, its time limit")
        return End("failed" if done.returncode else "completed", f"exit code {_code(done.returncode)}")

    try:
        task = means.tasks.begin("bash", arguments.command, work, ctx)
    except TooMany as error:
        return rejected(f"{error}.")
    most = f"the first {OUTPUT_BYTES >> 20} MiB"
    where = f" (Read {task.output.path} has {most} of it)" if task.output.path else ""
    told = "You are told when it ends."
    return own_words(
        f"Running in the background as {task.id}. TaskOutput shows what it prints{where}; TaskStop ends it. {told}",
        {"task_id": task.id, "output_file": task.output.path},
    )


def _moves(command: Plan | Raw) -> bool:
    if isinstance(command, Raw):
        return not those("shifts").isdisjoint(command.words)
    return any(simple.name in those("shifts") for simple in planner.simples(command))


def _follow(reader: int, ctx: ToolContext) -> str:
    """Go where the command went, if that is in the workspace; the line that says so if it is not."""
    os.set_blocking(reader, False)
    said = b""
    with suppress(BlockingIOError):
        said = os.read(reader, 65536)
    place = os.fsdecode(said.removesuffix(b"\n"))
    if not place:
        return ""
    with suppress(OSError):  # a link that is swapped meanwhile
        if workspace.is_directory(place) and programs.inside(followed(place), _roots(ctx)):
            ctx.workspace.cwd = place
            return ""
    ctx.workspace.cwd = ctx.workspace.root
    return _reset(ctx)


def _reset(ctx: ToolContext) -> str:
    return f"Shell cwd was reset to {paths.shown(ctx.workspace.cwd)}"


# ------------------------------------------------------------------ the result


def _result(judged: JudgedCommand, done: Finished, seconds: float, note: str, dropped: int = 0) -> ToolResult:
    command, printed, lost = judged.command, _streams(done), {"dropped_bytes": dropped} if dropped else {}
    if judged.grants and done.returncode and not any(part.git for part in judged.parts):
        printed += REACHES
    if done.returncode and _is_alone(judged):
        printed += _unreached(judged, done)
    if note:
        printed = f"{printed.rstrip(chr(10))}\n{note}" if printed else note
    if done.timed_out:
        ended = f"Command timed out after {seconds:g} s and was killed\n{printed}"
        return replace(internal_failure(ended, "timed_out", own=not printed), metadata=lost)
    if _met_git(command, done):
        printed += NOT_ALONE if _is_git(command) else ALONE_MAY
    about = {"exit_code": done.returncode, "truncated": done.truncated, **lost}
    if done.returncode == 0 or (done.returncode == 1 and _answers(_last(command))):
        return ToolResult(printed, metadata=about)
    failed = f"{exit_line(_code(done.returncode))}{printed}"
    if done.returncode > 0:  # else a signal ended it
        about["ran"] = True
    return ToolResult(failed, "rejected", about)


def _unreached(judged: JudgedCommand, done: Finished) -> str:
    """Why git did not reach a remote, where its own words do not say so."""
    near = [grant.authority for grant in judged.grants if grant.host in LOOPBACK]
    if near:
        return NOT_IN_HERE.format(places=", ".join(near))
    refused = re.search(rb"transport '\w+' not allowed", done.stderr) is not None
    return NO_WAY if refused else ""


def _met_git(command: Plan | Raw, done: Finished) -> bool:
    """Whether it failed because a git directory, or what git alone changes, is read-only."""
    lines = [
        line for line in (done.stdout + b"\n" + done.stderr).splitlines() if any(word in line for word in READ_ONLY)
    ]
    return bool(lines) and ("git" in command.text or any(b"git" in line or b"hook" in line for line in lines))


def _is_git(command: Plan | Raw) -> bool:
    """Whether it is nothing but git already."""
    return isinstance(command, Plan) and all(simple.name == "git" for simple in planner.simples(command))


def _streams(done: Finished) -> str:
    """Seed 003's form: stdout, then stderr under its heading where there is any."""
    out, err = _text(done.stdout, cut=done.stdout_cut), _text(done.stderr, cut=done.stderr_cut)
    return f"{out}\n{STDERR}{err}" if err else out


def _text(stream: bytes, *, cut: bool) -> str:
    return stream.decode("utf-8", "replace") + (TRUNCATED if cut else "")


def _code(returncode: int) -> str:
    if returncode >= 0:
        return str(returncode)
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"{128 - returncode} (killed by {name})"


def _answers(name: str) -> bool:
    return name in GIT_ANSWERS or name in those("answers")


def _last(command: Plan | Raw) -> str:
    """The program that the exit code is most likely from, with its subcommand where that matters."""
    if isinstance(command, Raw):
        alone = len(command.programs) == 1 and "!" not in command.words
        return command.programs[0] if alone else ""
    last = command.body.steps[-1]
    simple = last.commands[-1]
    if last.negated or command.body.tail or not isinstance(simple, Simple):
        return ""
    return f"git {simple.words[1]}" if simple.name == "git" and len(simple.words) > 1 else simple.name


# ------------------------------------------------------------------ the tool


def tools(config: Config, means: Means = ALONE) -> tuple[Tool[Any], ...]:
    def prepare_here(arguments: BashArguments, ctx: ToolContext) -> Prepared:
        return prepare(arguments, ctx, means)

    def limit(arguments: BashArguments) -> float:
        return _seconds(arguments) + GRACE

    bash = spec("Bash")
    short = {"timeout": int(config.runtime.shell_timeout_seconds * 1000)}
    return (
        Tool(
            "Bash",
            BashArguments,
            prepare_here,
            bash.description,
            bash.parameters,
            (Alias("shell", defaults=short), Alias("bash")),
            limit,
        ),
    )
