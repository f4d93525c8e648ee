"""Programs that fetch the server that they run (npx, uvx): which package, and how they start without a network."""

from collections.abc import Sequence
from typing import Protocol

from adderclaw.record import NamedTuple

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
NAMED = ("-p", "--package", "--from", "--spec")
"""Options whose value is the package."""
VALUED = ("--python", "--with", "-c", "--call", "-w", "--workspace", "--index", "--index-url", "--cache")
NO_SETTINGS = {"UV_NO_CONFIG": "1"}
"""What keeps them from reading settings in the workspace, which may name code to load."""
OFFLINE = {"npm_config_offline": "true", "UV_OFFLINE": "1"}
"""What lets them take the package out of their cache, and ask nobody."""


class Fetched(NamedTuple):
    program: str
    package: str


def fetched(argv: Sequence[str]) -> Fetched | None:
    """What a command line fetches before it runs it; None for all others."""
    program = argv[0].rpartition("/")[2]
    words = FETCHERS.get(program)
    if words is None or tuple(argv[1 : 1 + len(words)]) != words:
        return None
    rest = iter(argv[1 + len(words) :])
    for word in rest:
        option, equals, value = word.partition("=")
        if option in NAMED:
            return Fetched(program, value if equals else next(rest, ""))
        if word in VALUED:
            next(rest, "")
        elif not word.startswith("-"):
            return Fetched(program, word)
    return None


def apart(argv: Sequence[str]) -> list[str]:
    """The command line with which npm looks for packages and settings in `/`, where none are, not in the workspace.

    What it runs is still there: a server's own `.` is the workspace.
    """
    program = argv[0].rpartition("/")[2]
    if program not in ("npx", "npm"):
        return list(argv)
    place = 1 + len(FETCHERS[program])
    return [*argv[:place], "--prefix=/", *argv[place:]]


class Fetch(Protocol):
    """A package that has to be there before a server can start."""

    @property
    def package(self) -> str: ...
    @property
    def is_there(self) -> bool:
        """Whether it was fetched before, so that it starts without a network."""
        ...

    async def begin(self) -> str:
        """Ask the operator, and open the way to its registries; says why not."""
        ...

    def end(self, *, came: bool) -> None:
        """Shut the way again, and remember whether it came."""
        ...
