"""The built-in list of programs, as data: which options make a harmless program run, write or reconfigure something.

A program is here only with its option table: `any options` is a table too, and says that none of them can do harm.
"""

from typing import NamedTuple


def names(text: str) -> frozenset[str]:
    """A set of names that is written as one text."""
    return frozenset(text.split())


class Options(NamedTuple):
    refused: tuple[str, ...] = ()
    """Options that run a program, write a file or change where things are read from: `-o`, `--output`, `-exec`."""
    commands: frozenset[str] = frozenset()
    """The first operands that are accepted; empty means that there are no subcommands."""
    single_dash: bool = False
    """Long options are written with one dash (find, go): no bundles of letters."""


ANY = Options()

SUITES: dict[str, frozenset[str]] = {
    "look": names(
        """ls pwd cat head tail grep egrep fgrep wc nl tac cut tr comm paste fold column rev seq basename dirname
    realpath readlink stat du df uname whoami id which diff cmp md5sum sha1sum sha256sum sleep jq echo printf
    true false test [ : cd exit"""
    ),
    "change": names("mkdir cp mv touch rmdir tee uniq"),
    "build": names("tsc esbuild vite jest vitest playwright eslint prettier"),
    "python": names("pytest ruff black isort flake8 tox nox"),
}

PROGRAMS: dict[str, Options] = {
    **{name: ANY for names in SUITES.values() for name in names},
    "find": Options(
        ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from"),
        single_dash=True,
    ),
    "sort": Options(("-o", "--output", "--compress-program", "-T", "--temporary-directory", "--files0-from")),
    "rg": Options(("--pre", "--hostname-bin", "-z", "--search-zip")),
    "tree": Options(("-o", "--fromfile")),
    "file": Options(("-C", "--compile", "-m", "--magic-file", "-f", "--files-from")),
    "date": Options(("--set",)),
    "mypy": Options(("--python-executable", "--install-types", "--config-file")),
    "pyright": Options(("--pythonpath", "--venvpath", "-v")),
    "pylint": Options(("--init-hook", "--load-plugins", "--rcfile")),
    "git": Options(
        (
            "--upload-pack",
            "--receive-pack",
            "--exec",
            "--exec-path",
            "--ext-diff",
            "--textconv",
            "--output",
            "--open-files-in-pager",
            "--template",
            "--separate-git-dir",
            "--config",
            "--git-dir",
            "--work-tree",
            "--namespace",
            "--no-index",
            "--recurse-submodules",
            "--edit-description",
            "--strategy",
        ),
        names(
            """status log diff show branch tag add commit checkout switch restore stash init rev-parse rev-list ls-files
    ls-tree cat-file blame describe shortlog reflog merge-base reset merge cherry-pick revert mv rm grep remote
    fetch pull clone rebase config"""
        ),
    ),
    "npm": Options(
        (
            "--script-shell",
            "--prefix",
            "-C",
            "--globalconfig",
            "--userconfig",
            "--registry",
            "--node-options",
            "--shell",
            "-g",
            "--global",
            "--location",
        ),
        names(
            """install i ci test t run run-script start ls list outdated view info audit update uninstall prune dedupe
    explain why root bin help version"""
        ),
    ),
    "pip": Options(
        (
            "--python",
            "--target",
            "-t",
            "--prefix",
            "--root",
            "--src",
            "--index-url",
            "-i",
            "--extra-index-url",
            "--find-links",
            "-f",
            "--trusted-host",
            "--config-settings",
            "-C",
            "--proxy",
        ),
        names("install list show freeze check uninstall"),
    ),
    "go": Options(
        ("-exec", "-toolexec", "-vettool", "-overlay", "-modfile", "-ldflags", "-gccgoflags", "-w", "-u"),
        names("build test run vet fmt list version env doc mod"),
        single_dash=True,
    ),
    "make": Options(("--eval", "-E")),
    # These run what they are given; `programs` looks at what that is.
    "node": ANY,
    "npx": ANY,
    "python": ANY,
    "python3": ANY,
    "uv": ANY,
    "coverage": ANY,
    "sed": ANY,
    "env": ANY,
    "nice": ANY,
    "nohup": ANY,
    "stdbuf": ANY,
    "timeout": ANY,
}

HARMLESS = frozenset({"pwd", "ls", "echo", "printf", "true", "false", "test", "[", ":", "cd"})
"""What a readonly session may still run."""

PYTHON_MODULES = names(
    """pytest unittest pip venv ruff black mypy isort flake8 pylint coverage compileall py_compile json.tool"""
)
NODE_PROGRAMS = SUITES["build"]
UV_COMMANDS = names("sync lock add remove pip run venv tree version")
