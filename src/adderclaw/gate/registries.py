"""Which package registries a plan's programs fetch from: known here, and never said by the command itself."""

from collections.abc import Collection

from adderclaw.gate.shell.planner import Plan, Raw, Simple, simples
from adderclaw.types import CommandFact

NODE = ("registry.npmjs.org", "registry.yarnpkg.com")
PYTHON = ("pypi.org", "files.pythonhosted.org")
RUST = ("index.crates.io", "static.crates.io", "crates.io")
GO = ("proxy.golang.org", "sum.golang.org")
RUBY = ("rubygems.org",)
JAVA = ("repo.maven.apache.org", "repo1.maven.org")

_INSTALLS = frozenset(("install", "i", "ci", "add", "update", "upgrade", "up", "exec", "x", "create", "init", "dlx"))
_PYTHONS = frozenset(("install", "download", "wheel", "index", "sync", "add", "lock", "run", "pip", "tool", "update"))
_CARGO = frozenset(("build", "b", "check", "c", "test", "t", "run", "r", "bench", "doc", "fetch", "add", "update"))
_GO = frozenset(("get", "mod", "install", "build", "test", "run", "vet", "list", "generate"))
_BUNDLE = frozenset(("install", "update", "add"))
_ANY = frozenset[str]()

MANAGERS: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "npm": (NODE, _INSTALLS),
    "pnpm": (NODE, _INSTALLS),
    "yarn": (NODE, _INSTALLS | {""}),
    "bun": (NODE, _INSTALLS),
    "npx": (NODE, _ANY),
    "pnpx": (NODE, _ANY),
    "bunx": (NODE, _ANY),
    "pip": (PYTHON, _PYTHONS),
    "pip3": (PYTHON, _PYTHONS),
    "uv": (PYTHON, _PYTHONS),
    "uvx": (PYTHON, _ANY),
    "pipx": (PYTHON, _PYTHONS | {"upgrade"}),
    "poetry": (PYTHON, _PYTHONS),
    "pdm": (PYTHON, _PYTHONS),
    "cargo": (RUST, _CARGO | {"install", "clippy"}),
    "go": (GO, _GO),
    "gem": (RUBY, _INSTALLS),
    "bundle": (RUBY, _BUNDLE | {""}),
    "mvn": (JAVA, _ANY),
    "gradle": (JAVA, _ANY),
}
"""Program → where it fetches from, and with which first words it does; none: with all."""
KNOWN = frozenset(host for hosts, _ in MANAGERS.values() for host in hosts)

NETWORKED = frozenset(("curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "telnet", "ftp", "ping", "dig", "nslookup"))
"""Programs that are nothing without a network."""


def needed(command: CommandFact | None) -> tuple[str, ...]:
    """The registries that a plan's package managers fetch from."""
    if not isinstance(command, Plan):
        return ()
    return tuple(dict.fromkeys(host for simple in simples(command) for host in _of(simple)))


def is_networked(command: CommandFact | None) -> bool:
    """Whether a command has a program that wants the network."""
    if isinstance(command, Raw):
        return any(name in NETWORKED or name in MANAGERS for name in command.programs)
    if not isinstance(command, Plan):
        return False
    return bool(needed(command)) or any(simple.name in NETWORKED for simple in simples(command))


def _of(simple: Simple) -> tuple[str, ...]:
    name, rest = simple.name, _operands(simple.words[1:])
    if name.startswith("python") and "-m" in simple.words[:3] and rest[:1] == ["pip"]:
        name, rest = "pip", rest[1:]
    hosts, words = MANAGERS.get(name, ((), _ANY))
    return hosts if not words or (rest[0] if rest else "") in words else ()


def _operands(words: Collection[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]
