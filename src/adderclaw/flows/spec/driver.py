"""The driver of a SPEC.md, which it finds and checks."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from adderclaw.agent.run.driver import Driver, Opening
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.config.legacy.options import Options
from adderclaw.config.paths import beneath, followed
from adderclaw.core.errors import UsageError
from adderclaw.core.json_text import digest, to_json
from adderclaw.core.types import Json
from adderclaw.flows.spec import browser, status
from adderclaw.flows.spec.execute import NAMES, SpecExecution
from adderclaw.flows.spec.prompts import prompt
from adderclaw.sandbox import workspace

if TYPE_CHECKING:
    from adderclaw.config import Loaded

NAME = "SPEC.md"
type Verifies = Literal["", "changed", "all"]
"""Only verify passed scenarios: those that passed before the project last changed, or all."""


def find(options: Options) -> str | None:
    """Returns the path of the workspace's SPEC.md, if it has one."""
    path = os.path.join(_loaded(options).workspace, NAME)
    return path if _is_file(path) else None


def prepare(options: Options, path: str | None, most: int | None, verifies: Verifies = "") -> "SpecDriver":
    """`most` limits the number of coding sessions. To only verify, a status is enough."""
    loaded = _loaded(options)
    root, profile = loaded.workspace, options.profile or loaded.config.runtime.profile
    spec = status.FILE if path is None else _path_in_workspace(path, root)
    status.read(root)  # reports an unusable status before anything begins
    if profile == "readonly":
        raise UsageError("a specification cannot run in the profile readonly, because it must write files; use another")
    own = _has_own_browser(loaded)
    settings = {} if own else browser.settings(profile, (root,))
    named = browser.SERVER in loaded.config.mcp_servers and not own
    shut = browser.DISABLED_PROJECT_BROWSER if named and not settings else {}
    options = replace(options, overrides={**options.overrides, **settings, **shut})
    return SpecDriver(options, root, spec, most, browser=own or bool(settings), verifies=verifies)


@dataclass(frozen=True)
class SpecDriver:
    options: Options
    root: str
    """The workspace."""
    spec: str
    """The specification's path in the workspace."""
    most: int | None = None
    """The largest number of coding sessions."""
    browser: bool = False
    """Whether the sessions have a browser."""
    verifies: Verifies = ""

    @property
    def opening(self) -> Opening:
        return Opening("spec", self.options, self.spec)

    def plan(self) -> Json:
        now = status.read(self.root)
        return {
            "mode": "dry_run",
            "spec": self.spec,
            "scenarios": to_json(now.scenarios) if now is not None else None,
            "prompt": None if now is not None and not now.left else prompt(self.spec, now, NAMES),
        }

    def plan_text(self) -> str:
        plan = self.plan()
        rows = [f"{self.spec}: dry run, no model is called"]
        if plan["prompt"] is None:
            return "\n".join([*rows, f"all {len(plan['scenarios'])} scenarios have passed: there is nothing to do"])
        return "\n".join([*rows, "the next session gets:", *(f"  | {line}" for line in plan["prompt"].split("\n"))])

    def dry(self) -> Driver | None:
        return None

    async def run(self, session: Session) -> TurnResult:
        if not self.browser:
            session.bus.publish({"event_type": "warning", "message": browser.MISSING})
        with _lock_specification(session, self.root):
            execution = SpecExecution(session, self.spec, session.host.spawn, self.most, must_check=bool(self.verifies))
            if self.verifies:
                return await execution.verify(everything=self.verifies == "all")
            return await execution.run()


def _loaded(options: Options) -> "Loaded":
    from adderclaw import config

    return config.load(config_file=options.config_file, workspace=options.workspace, here=options.here)


def _has_own_browser(loaded: "Loaded") -> bool:
    """Whether the operator has configured a browser server; one of a project does not count."""
    from adderclaw.config import home
    from adderclaw.config.servers import scope_of

    origin = loaded.origins.get(f"mcp_servers.{browser.SERVER}", "")
    return browser.SERVER in loaded.config.mcp_servers and scope_of(origin, loaded.workspace, home()) == "user"


@contextmanager
def _lock_specification(session: Session, root: str) -> Generator[None]:
    """Makes sure that only one run at a time works on the specification of a folder."""
    from adderclaw.storage import locks

    if by := locks.run_in_session(session.store.path, name := f"spec-{digest(root)[:16]}"):
        raise UsageError(f"run {by} is already working on the specification of {root}: wait for it, or end it")
    with locks.session_lock(session.store.path, name, session.bus.run_id):
        yield


def _is_file(path: str) -> bool:
    return workspace.is_file(workspace.resolved_path(followed(path)))


def _path_in_workspace(path: str, root: str) -> str:
    """Returns the specification's path in the workspace, which is all that the sessions can read."""
    if not _is_file(path):
        raise UsageError(f"there is no specification {path!r}; write one, or name an existing file")
    real, top = followed(path), followed(root)
    if not beneath(real, top):
        raise UsageError(
            f"{path} is outside the workspace {root}, so no session can read it; copy it into the workspace"
        )
    if workspace.status(workspace.resolved_path(real)).st_size == 0:
        raise UsageError(f"{path} is empty: describe in it what to build, and how to see that it works")
    return os.path.relpath(real, top)
