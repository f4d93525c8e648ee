"""Programs that fetch the server that they run (npx, uvx): which package, and how they start without a network."""

import re
from collections.abc import Sequence
from typing import Protocol

from adderclaw.core.record import NamedTuple

FETCHERS: dict[str, tuple[str, ...]] = {
    "npx": (),
    "pnpx": (),
    "bunx": (),
    "uvx": (),
    "npm": ("exec",),
    "pnpm": ("dlx",),
    "yarn": ("dlx",),
    "bun": ("x",),
    "uv": ("tool", "run"),
    "pipx": ("run",),
}
"""Program → the words behind it that let it run a package."""
PACKAGE_OPTIONS = ("-p", "--package", "--from", "--spec")
"""Options whose value is the package."""
VALUE_OPTIONS = ("--python", "--with", "-c", "--call", "-w", "--workspace", "--index", "--index-url", "--cache")
NO_SETTINGS = {"UV_NO_CONFIG": "1"}
"""What keeps them from reading settings in the workspace, which may name code to load."""
OFFLINE = {"npm_config_offline": "true", "UV_OFFLINE": "1"}
"""What lets them take the package out of their cache, and ask nobody."""


class FetchedPackage(NamedTuple):
    program: str
    package: str


def fetched_package(argv: Sequence[str]) -> FetchedPackage | None:
    """What a command line fetches before it runs it; None for all others."""
    program = argv[0].rpartition("/")[2]
    words = FETCHERS.get(program)
    if words is None or tuple(argv[1 : 1 + len(words)]) != words:
        return None
    rest = iter(argv[1 + len(words) :])
    for word in rest:
        option, equals, value = word.partition("=")
        of_python = option == "-p" and program in ("uvx", "uv")
        if option in PACKAGE_OPTIONS and not of_python:
            return FetchedPackage(program, value if equals else next(rest, ""))
        if word in VALUE_OPTIONS or of_python:
            next(rest, "")
        elif not word.startswith("-"):
            return FetchedPackage(program, word)
    return None


def outside_workspace(argv: Sequence[str]) -> list[str]:
    """The command line with which npm looks for packages and settings in `/`, where none are, not in the workspace.

    What it runs is still there: a server's own `.` is the workspace.
    """
    program = argv[0].rpartition("/")[2]
    if program not in ("npx", "npm"):
        return list(argv)
    index = 1 + len(FETCHERS[program])
    return [*argv[:index], "--prefix=/", *argv[index:]]


class Recipe(NamedTuple):
    """How a package is fetched where no workspace is, and what its server is called."""

    fetch: tuple[str, ...]
    """A command line that fetches it and prints, as JSON, where the program of the server lies then."""
    package: str
    arguments: tuple[str, ...]
    """What the server itself is given."""


NPM_SCRIPT = """
const fs = require('fs'), path = require('path'), [spec, command] = process.argv.slice(1);
const read = file => { try { return JSON.parse(fs.readFileSync(file)) } catch { return {} } };
const folders = process.env.PATH.split(':');
const bins = folders.filter(folder => folder.endsWith('/node_modules/.bin') && fs.existsSync(folder));
const tops = [...bins.map(path.dirname), path.resolve(process.execPath, '../../lib/node_modules')];
const listed = bins.length ? Object.keys(read(path.resolve(bins[0], '../../package.json')).dependencies || {}) : [];
let name = command;
if (!name) {
  const wanted = listed[0] || spec.replace(/(.)@.*$/, '$1'), short = wanted.split('/').pop();
  const bin = tops.map(top => read(`${top}/${wanted}/package.json`).bin).find(Boolean) || {};
  const names = typeof bin === 'string' ? [short] : Object.keys(bin);
  name = names.includes(short) ? short : new Set(Object.values(bin)).size === 1 ? names[0] : '';
}
const program = name && folders.map(folder => `${folder}/${name}`).find(file => fs.existsSync(file));
if (!program) { console.error(`it has no program ${name || 'that is its own'}`); process.exit(1) }
console.log(JSON.stringify({ program }));
"""
UV_SCRIPT = """
import json, os, sys
program = os.path.join(sys.prefix, "bin", sys.argv[1])
if not os.path.exists(program):
    sys.exit(f"it has no program {sys.argv[1]}; it has: " + ", ".join(sorted(os.listdir(os.path.dirname(program)))))
print(json.dumps({"program": program}))
"""


def fetch_recipe(argv: Sequence[str]) -> Recipe | None:
    """How npx and uvx are used for it; None where a package lies in the workspace, or another program fetches it."""
    program = argv[0].rpartition("/")[2]
    if program not in ("npx", "npm", "uvx", "uv") or fetched_package(argv) is None:
        return None
    index = 1 + len(FETCHERS[program])
    options: list[str] = []
    packages: list[str] = []
    rest = list(argv[index:])
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if option in ("-c", "--call", "-w", "--workspace", "--workspaces", "-ws"):
            return None
        if option in PACKAGE_OPTIONS and not (option == "-p" and program in ("uvx", "uv")):  # which is uv's --python
            packages.append(value if equals else rest.pop(0) if rest else "")
        elif word == "--":
            break
        else:
            options += [word, rest.pop(0)] if word in (*VALUE_OPTIONS, "-p") and rest else [word]
    if not rest or any(re.match(r"[./~]|(?:file|link):|$", package) for package in (*packages, rest[0])):
        return None
    build = _npm_recipe if program in ("npx", "npm") else _uv_recipe
    return build(tuple(argv[:index]), options, packages, rest)


def _npm_recipe(begin: tuple[str, ...], options: list[str], packages: list[str], rest: list[str]) -> Recipe:
    from shlex import join

    command = rest[0] if packages else ""
    packages = packages or rest[:1]
    asked = join(["node", "-e", NPM_SCRIPT, packages[0], command])
    named = [f"--package={package}" for package in packages]
    fetch = (*begin, "--yes", "--prefix=/", *options, *named, f"--call={asked}")
    return Recipe(fetch, packages[0], tuple(rest[1:]))


def _uv_recipe(begin: tuple[str, ...], options: list[str], packages: list[str], rest: list[str]) -> Recipe | None:
    name, at, version = rest[0].partition("@")
    if name.startswith("python") and not packages:
        return None
    package = packages[-1] if packages else name if version in ("", "latest") else f"{name}=={version}"
    command = rest[0] if packages else name
    latest = ["--refresh-package", name] if at and version == "latest" else []
    fetch = (*begin, *options, *latest, "--from", package, "python", "-c", UV_SCRIPT, command)
    return Recipe(fetch, package, tuple(rest[1:]))


class Fetch(Protocol):
    """A package that has to be there before a server can start."""

    @property
    def package(self) -> str: ...
    @property
    def is_there(self) -> bool:
        """Whether it was fetched before, so that it starts without a network."""
        ...

    @property
    def is_apart(self) -> bool:
        """Whether it is fetched where no workspace is, and then started as any other server."""
        ...

    def argv(self) -> list[str]:
        """What starts it then."""
        ...

    async def begin(self) -> str:
        """Ask the operator where one has to be asked, and open the way to its registries; says why not."""
        ...

    async def bring(self) -> str:
        """Fetch it into the cache of this user; says why that failed. Another session that fetches it is waited for."""
        ...

    def release(self) -> None:
        """It runs no longer."""
        ...

    def end(self, *, came: bool) -> None:
        """Shut the way again, and remember whether it came."""
        ...
