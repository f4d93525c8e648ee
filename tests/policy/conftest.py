"""Cases for the gate, built from a few words."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from adderclaw import policy as gate
from adderclaw.core.types import HostFact, PathFact, Touch
from adderclaw.policy import rules
from adderclaw.policy.case import Case, Decision, Policy
from adderclaw.policy.legacy.looking import only_looks
from adderclaw.policy.legacy.shell import planner as shell

WS = "/ws"
HOME = "/home/u/.adderclaw"
PROGRAMS = frozenset(
    """ls cat head tail grep find git npm npx node python python3 pip uv pytest make go mkdir cp mv rm touch
    tee sed sort wc curl wget sh bash zsh dash pulumi docker sudo env nice timeout xargs
    dd chmod chown mkfs.ext4 perl awk tar mount which nohup busybox rg jq uniq diff stat ruff""".split()  # noqa: SIM905
)

type Place = str | tuple[str, str] | PathFact
type Build = Callable[..., Case]
type Judge = Callable[..., Decision]


def resolve(name: str) -> str | None:
    if name.startswith("/"):
        return name if os.path.dirname(name) in ("/bin", "/usr/bin") and os.path.basename(name) in PROGRAMS else None
    return f"/usr/bin/{name}" if name in PROGRAMS else None


def fact(place: Place) -> PathFact:
    if isinstance(place, PathFact):
        return place
    path, real = place if isinstance(place, tuple) else (place, place)
    return PathFact(path, path, real)


def web(url: str, method: str = "GET") -> HostFact:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    port = parts.port if parts.port is not None else 443 if parts.scheme == "https" else 80
    return HostFact(method, url, parts.hostname or "", port, parts.scheme)


def build(
    tool: str = "Read",
    *,
    reads: tuple[Place, ...] = (),
    writes: tuple[Place, ...] = (),
    command: str | None = None,
    url: str | None = None,
    method: str = "GET",
    cwd: str = WS,
    opaque: bool = False,
    deny: tuple[str, ...] = (),
    ask: tuple[str, ...] = (),
    allow: tuple[str, ...] = (),
    aliases: dict[str, str] | None = None,
    policy: dict[str, Any] | None = None,
    **facts: Any,
) -> Case:
    settings: dict[str, Any] = {
        "workspace": WS,
        "roots": (WS,),
        "forbidden_paths": ("/etc", "/sys", "/boot", "/home/u/.ssh"),
        "forbidden_commands": ("rm", "shutdown", "reboot", "mkfs", "dd"),
        "home": HOME,
        "user_home": "/home/u",
        "own_files": (f"{HOME}/memory.sqlite", f"{HOME}/tool_receipts.log", "/data/agent.db"),
        "run_folders": (f"{WS}/runs",),
        "rules": rules.parse_all(deny, ask, allow, rules.Anchors(WS, WS, "/home/u"), aliases),
        **(policy or {}),
    }
    seen = [*map(fact, reads)]
    written = [*map(fact, writes)]
    compiled = shell.plan(command, resolve) if command is not None else None
    if compiled is not None:
        named = shell.paths_of(compiled, cwd, "/home/u")
        seen += [PathFact(path, os.path.normpath(path), os.path.normpath(path)) for path in named.reads]
        written += [PathFact(path, os.path.normpath(path), os.path.normpath(path)) for path in named.writes]
    hosts = (web(url, method),) if url else ()
    inside = all(place.path == WS or place.path.startswith(f"{WS}/") for place in (*seen, *written))
    looks = isinstance(compiled, shell.Plan) and inside and only_looks(compiled)
    touch = Touch(tuple(seen), tuple(written), hosts, compiled, opaque, looks=looks)
    arguments = facts.pop("arguments", {})
    return Case(tool=tool, called_as=tool, arguments=arguments, touch=touch, policy=Policy(**settings), **facts)


@pytest.fixture
def case() -> Build:
    return build


@pytest.fixture
def judge() -> Judge:
    return lambda *args, **facts: gate.judge(build(*args, **facts))
