"""Prints every package of the source with its lines, public names, longest function and longest file.

`make sizes SINCE=<ref>` adds how many lines and public names each has gained or lost since that commit.
"""

import ast
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = "src/adderclaw"
LONGEST_FUNCTION, LONGEST_FILE = 80, 600
"""Lines. What is longer is named, as a prompt to look again; nothing forbids it."""
LOOSE = "(modules)"
"""Files of the source that lie in no package."""

type Function = ast.FunctionDef | ast.AsyncFunctionDef


class Size(NamedTuple):
    """Of one package, or of all of them."""

    files: int = 0
    lines: int = 0
    names: int = 0
    function: tuple[int, str] = (0, "")
    """The longest: its lines, and which it is."""
    file: tuple[int, str] = (0, "")


def joined(one: Size, other: Size) -> Size:
    files, lines, names = one.files + other.files, one.lines + other.lines, one.names + other.names
    return Size(files, lines, names, max(one.function, other.function), max(one.file, other.file))


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def length(function: Function) -> int:
    """Lines, decorators left out."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def public_names(tree: ast.Module) -> set[str]:
    """What a module defines for others: top-level functions, classes, types and values without an underscore."""
    found: set[str] = set()
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.TypeAlias(name=ast.Name(name)) | ast.AnnAssign(target=ast.Name(name)):
                found.add(name)
            case ast.Assign(targets=targets):
                found.update(one.id for one in targets if isinstance(one, ast.Name))
            case _:
                pass
    return {name for name in found if not name.startswith("_")}


def size(path: str, text: str) -> Size:
    """Of one file, named by its path in the source."""
    tree, lines = ast.parse(text), text.count("\n")
    longest = max(((length(one), f"{path}:{one.name}") for one in functions(tree)), default=(0, ""))
    return Size(1, lines, len(public_names(tree)), longest, (lines, path))


def packages(files: Mapping[str, str]) -> dict[str, Size]:
    """Package → its size, from the paths and texts of all files of the source."""
    found: dict[str, Size] = {}
    for path, text in sorted(files.items()):
        package = path.partition("/")[0] if "/" in path else LOOSE
        found[package] = joined(found.get(package, Size()), size(path, text))
    return found


def table(now: Mapping[str, Size], before: Mapping[str, Size] | None = None) -> Iterator[str]:
    """One row a package, the largest first, and the whole last."""
    yield f"{'package':<14} {'files':>5} {'lines':>14} {'public names':>14}  {'longest function':<52} longest file"
    names = {*now, *(before or ())}
    for name in sorted(names, key=lambda name: -now.get(name, Size()).lines):
        yield _row(name, now.get(name, Size()), None if before is None else before.get(name, Size()))
    whole = None if before is None else reduce(joined, before.values(), Size())
    yield _row("all", reduce(joined, now.values(), Size()), whole)


def _row(name: str, now: Size, before: Size | None) -> str:
    lines = f"{now.lines:,}" if before is None else f"{now.lines:,} ({now.lines - before.lines:+,})"
    names = f"{now.names:,}" if before is None else f"{now.names:,} ({now.names - before.names:+,})"
    function, file = (f"{count} {which}" for count, which in (now.function, now.file))
    return f"{name:<14} {now.files:>5} {lines:>14} {names:>14}  {function:<52} {file}"


def long_parts(files: Mapping[str, str]) -> Iterator[str]:
    """The functions and files over the limits."""
    for path, text in sorted(files.items()):
        if (lines := text.count("\n")) > LONGEST_FILE:
            yield f"{path}: {lines} lines"
        for function in functions(ast.parse(text)):
            if (lines := length(function)) > LONGEST_FUNCTION:
                yield f"{path}:{function.lineno} {function.name}: {lines} lines"


def present() -> dict[str, str]:
    """The files as they lie here."""
    folder = ROOT / SOURCE
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}


def at(ref: str) -> dict[str, str]:
    """The files as a commit has them."""
    packed = subprocess.run(["git", "archive", ref, SOURCE], cwd=ROOT, capture_output=True)
    if packed.returncode:
        raise SystemExit(f"sizes: git knows no source at {ref!r}: {packed.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        members = [(one.name, archive.extractfile(one)) for one in archive if one.name.endswith(".py")]
        return {
            name.removeprefix(f"{SOURCE}/"): held.read().decode("utf-8") for name, held in members if held is not None
        }


def main(arguments: list[str]) -> None:
    if len(arguments) > 1 or any(one.startswith("-") for one in arguments):
        raise SystemExit("sizes: it takes at most one commit, whose sizes are compared: sizes.py [REF]")
    before = packages(at(arguments[0])) if arguments else None
    files = present()
    for row in table(packages(files), before):
        print(row)
    for part in long_parts(files):
        print(f"look again: {part}")


if __name__ == "__main__":
    main(sys.argv[1:])
