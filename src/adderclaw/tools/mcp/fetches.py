"""Programs that download the server that they run (npx, uvx): the package, and how to start it offline."""

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
"""Program → the subcommand with which it runs a package."""
PACKAGE_OPTIONS = ("-p", "--package", "--from", "--spec")
"""Options whose value is the package."""
VALUE_OPTIONS = ("--python", "--with", "-c", "--call", "-w", "--workspace", "--index", "--index-url", "--cache")
NO_SETTINGS = {"UV_NO_CONFIG": "1"}
"""Prevents them from reading settings in the workspace, which can name code to load."""
OFFLINE = {"npm_config_offline": "true", "UV_OFFLINE": "1"}
"""Makes them use their cache, without a network."""


class FetchedPackage(NamedTuple):
    program: str
    package: str


def fetched_package(argv: Sequence[str]) -> FetchedPackage | None:
    """The package that a command line downloads before it runs it; None if it downloads nothing."""
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
    """The command line that makes npm look for packages and settings in `/` instead of the workspace.

    The server itself still runs in the workspace.
    """
    program = argv[0].rpartition("/")[2]
    if program not in ("npx", "npm"):
        return list(argv)
    index = 1 + len(FETCHERS[program])
    return [*argv[:index], "--prefix=/", *argv[index:]]


class Recipe(NamedTuple):
    """How a package is downloaded outside of any workspace, and how its server is then called."""

    fetch: tuple[str, ...]
    """A command line that downloads it and prints the path of the server's program as JSON."""
    package: str
    arguments: tuple[str, ...]
    """The server's own arguments."""


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
    """The recipe for npx and uvx; None for a package in the workspace or another program."""
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
    """A package that must be downloaded before a server can start."""

    @property
    def package(self) -> str: ...
    @property
    def is_there(self) -> bool:
        """Whether it was downloaded before, so that it starts without a network."""
        ...

    @property
    def is_apart(self) -> bool:
        """Whether it is downloaded outside of any workspace, and then started like any other server."""
        ...

    def argv(self) -> list[str]:
        """The command line that starts it."""
        ...

    async def begin(self) -> str:
        """Asks the operator if needed, and allows access to its registries; returns why not, or an empty text."""
        ...

    async def bring(self) -> str:
        """Downloads it into this user's cache, or waits for a session that does; returns why it failed."""
        ...

    def release(self) -> None:
        """Called when it no longer runs."""
        ...

    def end(self, *, came: bool) -> None:
        """Ends the access to its registries, and records whether the download succeeded."""
        ...
