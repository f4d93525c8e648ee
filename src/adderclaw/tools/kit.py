"""What the session gives to the tools: their kit, and its interface to skills."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from adderclaw.core.record import NamedTuple, mutable_record
from adderclaw.core.types import Clock, Effort, Json

if TYPE_CHECKING:
    from adderclaw.config.plugins.loaded_plugin import LoadedPlugin
    from adderclaw.config.schema import Config, Web
    from adderclaw.sandbox.process import Starter
    from adderclaw.sandbox.proxy import Judge
    from adderclaw.storage import Store
    from adderclaw.storage.sdlc.baselines import TreeSnapshot
    from adderclaw.tools.background import Tasks

CHECKER_FILES = (
    *("ruff.toml", ".ruff.toml", "pyproject.toml", "setup.cfg", "pyrightconfig.json", "mypy.ini", ".mypy.ini"),
    *("tsconfig.json", "Cargo.toml", "go.mod", ".eslintrc", ".eslintrc.json", ".eslintrc.js", ".eslintrc.cjs"),
    *(".eslintrc.yml", ".eslintrc.yaml", "eslint.config.js", "eslint.config.mjs", "eslint.config.cjs"),
    *("eslint.config.ts", "eslint.config.mts", "eslint.config.cts"),
)
"""Files that configure the checkers of `tools.checkers`. That module is imported only if one of them exists."""

AGENT_FOLDERS = (".claude/agents", ".adderclaw/agents")
"""Folders of a project's subagent definitions. `control.definitions` is imported only if one exists. Of two definitions
with the same name, the one in the later folder is used."""

CACHE_SECONDS = 900.0
MOST_PAGES = 50
MOST_CHARACTERS = 20_000_000
MINUTE = 60.0
MOST_SEARCHES = 200
"""Per session, including its children."""


class PreparedSkill(NamedTuple):
    """A skill call before it runs: the file to read, and how."""

    path: str
    """The file to read."""
    read: "Callable[[], CalledSkill]"
    """Reads exactly that file; raises PathRefused."""


class CalledSkill(NamedTuple):
    """The text and permissions of a called skill."""

    text: str
    """For the model."""
    path: str
    """Its SKILL.md."""
    rules: tuple[str, ...] = ()
    """Permission rules that apply with it: the part of its `allowed-tools` that the operator trusts."""
    inline: Mapping[str, str] = {}
    """Placeholder in the text → the command whose output replaces it."""
    asked: frozenset[str] = frozenset()
    """Placeholders whose command contains words of the model, so it still needs approval."""
    named: Mapping[str, str] = {}
    """Placeholder in the text → the absolute path of the file or folder whose content replaces it."""
    effort: Effort | None = None
    """The reasoning effort while the model follows the skill, if the operator trusts the skill."""


class Skills(Protocol):
    """The session's skills."""

    def offered(self) -> tuple[list[tuple[str, str]], bool]:
        """Name and description of the skills that the model may call, and whether the list is complete."""
        ...

    def callable(self) -> list[tuple[str, str]]:
        """Name and description of the skills that a person may call."""
        ...

    def has(self, name: str) -> bool: ...

    def called(self, name: str, arguments: str, session_id: str) -> CalledSkill:
        """A skill's text for the person who called it; raises PathRefused with the reason."""
        ...

    def prepared(self, name: str, arguments: str, file: str, session_id: str) -> PreparedSkill:
        """The file that the model's call reads, and a function that reads exactly it; raises PathRefused."""
        ...

    def granted(self, name: str) -> tuple[tuple[str, ...], str]:
        """The part of a skill's `allowed-tools` that the operator trusts, and why the rest is ignored."""
        ...


class Surfing:
    """Rate limits and page cache that the web tools of a session share with its child sessions."""

    def __init__(self) -> None:
        self._asked: dict[str, deque[float]] = {}
        self._pages: dict[str, tuple[float, str]] = {}
        self.searches = 0

    def seconds_to_wait(self, kind: str, most: int, clock: Clock) -> float:
        """Seconds until another request of this kind is allowed; 0 means now, and counts the request."""
        times, now = self._asked.setdefault(kind, deque()), clock.monotonic()
        while times and times[0] <= now - MINUTE:
            times.popleft()
        if len(times) >= most:
            return times[0] + MINUTE - now
        times.append(now)
        return 0.0

    def cached_page(self, url: str, clock: Clock) -> str | None:
        """The text of a page that was fetched within the last 15 minutes."""
        entry = self._pages.get(url)
        if entry is None or entry[0] <= clock.monotonic() - CACHE_SECONDS:
            self._pages.pop(url, None)
            return None
        return entry[1]

    def cache_page(self, url: str, text: str, clock: Clock) -> None:
        self._pages.pop(url, None)
        self._pages[url] = (clock.monotonic(), text)
        while len(self._pages) > MOST_PAGES or sum(len(text) for _, text in self._pages.values()) > MOST_CHARACTERS:
            del self._pages[next(iter(self._pages))]


@mutable_record
class Kit:
    """What tools are built with. Without a store they cannot run, but they can be listed and explained."""

    config: "Config"
    store: "Store | None"
    clock: Clock
    start: "Starter | None" = None
    """Starts a child in the session's sandbox; None without a sandbox."""
    has_look_room: bool = False
    """Whether that sandbox has a read-only view."""
    begin: Callable[[], None] = lambda: None
    """Starts the sandbox ahead of its first child, without waiting for it."""
    tmpdir: str | None = None
    """TMPDIR in the sandbox: empty if it is not set, None if it is not known before a child runs."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables from the settings for commands in the sandbox."""
    reach: "Judge | None" = None
    """Decides which hosts commands in the sandbox may reach; None if there are none."""
    refused: Callable[[], int] = lambda: 0
    """How many connections to hosts were refused so far."""
    tasks: "Tasks | None" = None
    """The background tasks of the session; None if nothing can run."""
    home: str = ""
    """AdderClaw's home folder."""
    project: str = ""
    """The folder with the project's own definitions."""
    agents: Json = field(default_factory=dict[str, Any])
    """Subagents that were defined on the command line."""
    plugins: "tuple[LoadedPlugin, ...]" = ()
    """The plugins that the operator trusts, by name."""
    skills: Skills | None = None
    """The skills of the operator and the project; None without a skills folder."""
    baseline: "Callable[[str], TreeSnapshot] | None" = None
    """Records the current state of a workspace when a plan is approved."""
    surfing: Surfing = field(default_factory=Surfing)
    """Page cache and rate limits that the web tools share with child sessions."""


def search_service(web: "Web") -> str | None:
    """The service that WebSearch uses: the configured one, otherwise the gateway if there is one."""
    return web.search or ("gateway" if web.gateway_url else None)
