"""Which package registries a plan's programs fetch from: known here, and never said by the command itself."""

from collections.abc import Collection
from functools import cache

from adderclaw.core.types import CommandFact
from adderclaw.policy.legacy.programs.allowlist import listed
from adderclaw.policy.legacy.shell.planner import Plan, Raw, Simple, simples

type Managers = dict[str, tuple[tuple[str, ...], frozenset[str]]]
"""Program → where it fetches from, and with which first words it does; none: with all."""


@cache
def managers() -> Managers:
    found: Managers = {}
    for entry in listed("fetching"):
        name, hosts, *words = entry.split("=")
        found[name] = tuple(hosts.split(",")), frozenset(words[0].split(",") if words else ())
    return found


@cache
def known() -> frozenset[str]:
    """All of their registries."""
    return frozenset(host for hosts, _ in managers().values() for host in hosts)


def needed(command: CommandFact | None) -> tuple[str, ...]:
    """The registries that a plan's package managers fetch from."""
    if not isinstance(command, Plan):
        return ()
    return tuple(dict.fromkeys(host for simple in simples(command) for host in _of(simple)))


def is_networked(command: CommandFact | None) -> bool:
    """Whether a command has a program that wants the network."""
    if isinstance(command, Raw):
        return any(name in listed("networked") or name in managers() for name in command.programs)
    if not isinstance(command, Plan):
        return False
    return bool(needed(command)) or any(simple.name in listed("networked") for simple in simples(command))


def _of(simple: Simple) -> tuple[str, ...]:
    name, rest = simple.name, _operands(simple.words[1:])
    if name.startswith("python") and "-m" in simple.words[:3] and rest[:1] == ["pip"]:
        name, rest = "pip", rest[1:]
    hosts, words = managers().get(name, ((), frozenset[str]()))
    return hosts if not words or (rest[0] if rest else "") in words else ()


def _operands(words: Collection[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]
