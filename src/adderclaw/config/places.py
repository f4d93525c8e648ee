"""Where configuration files can be, and which folder is the project."""

import os
import re
import stat

from adderclaw.config.paths import beneath, followed
from adderclaw.config.safe_open import open_real
from adderclaw.core.errors import ConfigError, Problem
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json

FILE_LIMIT = 1_048_576
MANAGED_FOLDER = "/etc/adderclaw"
"""Files here bound everybody's settings. No variable or option can change this folder."""
FLAGS = "command line"
"""The origin of values from the command line."""
PROJECT_FILES = ("agent.yaml", "agent.toml", "agent.json")
"""The first that exists is the project's configuration."""
SETTINGS_FILES = (".adderclaw/agent.json", ".adderclaw/settings.json")
"""Permissions, hooks, MCP servers and model of a project."""
FOREIGN_FILES = (".claude/settings.json", ".claude/settings.local.json")
"""The same in the files of another program. Our own files take precedence."""
SETTINGS = (*PROJECT_FILES, *SETTINGS_FILES, ".adderclaw/policy.toml", "policy.toml", *FOREIGN_FILES)
"""Files of a project that can contain denials. Only the operator may write them, even if they do not exist yet."""
MARKERS = (".git", "SPEC.md", "Agentfile", *PROJECT_FILES, ".adderclaw")
"""The nearest parent folder that contains one of these is the project."""
MANIFESTS = (
    *("AGENTS.md", "CLAUDE.md", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"),
    *("package.json", "deno.json", "deno.jsonc", "Cargo.toml", "go.mod", "pom.xml", "build.gradle", "build.gradle.kts"),
    *("build.sbt", "Gemfile", "composer.json", "mix.exs", "rebar.config", "pubspec.yaml", "Package.swift"),
    *("CMakeLists.txt", "meson.build", "dune-project", "stack.yaml", "cabal.project", "project.clj", "deps.edn"),
    *("Project.toml", "build.zig", "shard.yml"),
)
"""A folder with one of these is the project if no parent has a marker. A package belongs to its repository, because git
would not work in the package alone."""

VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([^}]*)\})")


def home() -> str:
    """AdderClaw's own folder: $ADDERCLAW_HOME, else ~/.adderclaw."""
    return os.path.abspath(os.path.expanduser(os.environ.get("ADDERCLAW_HOME") or "~/.adderclaw"))


def is_managed() -> bool:
    """Whether this machine may have managed settings."""
    return os.path.lexists(MANAGED_FOLDER)


def foreign_homes(counts: bool) -> tuple[str, ...]:
    """The operator's folder of another program, if its settings are enabled."""
    return (os.path.expanduser("~/.claude"),) if counts else ()


class Request(NamedTuple):
    """The arguments of `load` with resolved paths."""

    home: str
    config_file: str | None
    workspace: str | None
    cwd: str
    overrides: Json
    project: str | None
    """The nearest directory with a marker, upwards from `cwd`."""
    marker: str
    beside: str | None = None
    """The folder of the Agentfile to run, whose policy.toml also applies."""
    here: bool = False
    """Without a project, use the current directory as the workspace instead of `workspace_dir`."""
    looks: bool = False
    """The current directory is the home or `/` and nothing will run, so it is skipped instead of refused."""


def request(
    config_file: str | None,
    workspace: str | None,
    cwd: str | None,
    overrides: Json | None,
    beside: str | None = None,
    *,
    here: bool = False,
    looks: bool = False,
) -> Request:
    own = home()
    try:
        current = os.path.abspath(cwd or os.getcwd())
    except FileNotFoundError:
        raise ConfigError([Problem("current directory", "", "it does not exist any more; change to another")]) from None
    if workspace is not None and not workspace.strip():
        raise ConfigError([Problem(FLAGS, "--workspace", "it is empty; name a directory")])
    beside = beside and os.path.normpath(os.path.join(current, beside))
    project, marker = _project(current, own)
    if beside and (project is None or not f"{beside}/".startswith(f"{project}/")):
        project, marker = _project(beside, own)
    return Request(
        own,
        config_file and os.path.join(current, os.path.expanduser(config_file)),
        workspace and os.path.normpath(os.path.join(current, os.path.expanduser(workspace))),
        current,
        overrides or {},
        project,
        marker,
        beside,
        here,
        looks and followed(current) in ("/", followed(os.path.expanduser("~"))),
    )


def project_of(folder: str) -> str | None:
    """The project that a folder belongs to, as `request` finds it."""
    return _project(folder, home())[0]


def _project(current: str, own: str) -> tuple[str | None, str]:
    never = {"/", os.path.abspath(os.path.expanduser("~"))}
    folders = [current]
    while (parent := os.path.dirname(folders[-1])) != folders[-1]:
        folders.append(parent)
    folders = [folder for folder in folders if folder not in never and not _is_everybodys(folder)]
    for markers in (MARKERS, MANIFESTS):
        for folder in folders:
            for marker in markers:
                path = os.path.join(folder, marker)
                # AdderClaw's home is never a marker, wherever it is
                if path != own and os.path.lexists(path):
                    return folder, marker
    return None, ""


def _is_everybodys(folder: str) -> bool:
    """Whether anybody can create files in the folder, as in /tmp. Markers there are ignored."""
    try:
        return bool(os.stat(folder).st_mode & stat.S_ISVTX)
    except OSError:
        return False


def read(path: str, project: str = "") -> bytes | None:
    """The bytes of a configuration file; None if it does not exist or leads out of its project.

    Links are resolved once. The resolved path is checked and then opened without following links.
    """
    real = followed(path)
    if project and not beneath(real, followed(project)):
        return None
    try:
        descriptor = open_real(real)  # does not block; a pipe is refused below
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError([Problem(path, "", f"cannot be read: {error.strerror}")]) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfigError([Problem(path, "", "is not a regular file")])
    with open(descriptor, "rb") as file:
        data = file.read(FILE_LIMIT + 1)
    if len(data) > FILE_LIMIT:
        raise ConfigError([Problem(path, "", f"is larger than {FILE_LIMIT} bytes")])
    return data


class Unexpandable(ValueError):
    """A text with a variable that cannot be expanded."""


def expand_variables(text: str) -> str:
    """The text with `$NAME` and `${NAME}` expanded."""

    def fill(match: re.Match[str]) -> str:
        from adderclaw.core.redaction import is_secret_name

        name = match[1] or match[2]
        if is_secret_name(name):
            raise Unexpandable(f"${name} looks like a secret, which belongs neither in a path nor in a URL")
        if name not in os.environ:
            raise Unexpandable(f"the environment variable {name!r} is not set")
        return os.environ[name]

    return VARIABLE.sub(fill, text) if "$" in text else text


def expand_path(text: str, base: str) -> str:
    """The absolute path with `~` and variables expanded, relative to `base`."""
    path = os.path.expanduser(expand_variables(text))
    if path.startswith("~"):
        raise Unexpandable(f"{path.split('/')[0]} is not the home of any user")
    return os.path.normpath(os.path.join(base, path))


def replace(path: str, text: str, mode: int = 0o600) -> None:
    """Write a file atomically."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        os.replace(temporary, path)
    except OSError:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise
