"""A SPEC.md made ready to be worked through: found, checked, with what its first session would be told."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from adderclaw.channels import browser
from adderclaw.channels.prepared import Prepared
from adderclaw.config.paths import beneath, followed
from adderclaw.drivers.spec import status
from adderclaw.drivers.spec.execute import NAMES, Execution
from adderclaw.drivers.spec.prompts import prompt
from adderclaw.errors import UsageError
from adderclaw.json_text import digest
from adderclaw.kernel.session import TurnResult
from adderclaw.runtime import Options, Run
from adderclaw.types import Json

if TYPE_CHECKING:
    from adderclaw.config import Loaded

NAME = "SPEC.md"


def find(options: Options) -> str | None:
    """The workspace's own SPEC.md, if it has one."""
    path = os.path.join(_loaded(options).workspace, NAME)
    return path if os.path.isfile(path) else None


def prepare(options: Options, path: str, most: int | None) -> Prepared:
    """`most` bounds the coding sessions."""
    loaded = _loaded(options)
    root, profile = loaded.workspace, options.profile or loaded.config.runtime.profile
    spec = _inside(path, root)
    status.read(root)  # one that cannot be used is said before anything begins
    if profile == "readonly":
        raise UsageError("nothing may be written in the profile readonly, and a specification is there to be worked on")
    own = {} if _has_own(loaded) else browser.settings(profile, (root,))
    options = replace(options, overrides={**options.overrides, **own})

    async def drive(run: Run) -> TurnResult:
        if not own and not _has_own(loaded):
            run.session.bus.tell({"event_type": "warning", "message": browser.MISSING})
        kit = run.session.scene.kit
        assert kit is not None
        assert kit.spawn is not None
        with _alone(run, root):
            return await Execution(run.session, spec, kit.spawn, most).run()

    return Prepared(options, "spec", drive, lambda: _plan(root, spec), task=spec, shown=_text)


def _loaded(options: Options) -> "Loaded":
    from adderclaw import config

    return config.load(config_file=options.config_file, workspace=options.workspace, here=options.here)


def _has_own(loaded: "Loaded") -> bool:
    """The operator has a server for the browser of their own; one that a project names is none."""
    from adderclaw.config import home
    from adderclaw.config.servers import scope_of

    origin = loaded.origins.get(f"mcp_servers.{browser.SERVER}", "")
    return browser.SERVER in loaded.config.mcp_servers and scope_of(origin, loaded.workspace, home()) == "user"


@contextmanager
def _alone(run: Run, root: str) -> Generator[None]:
    """One run at a time works through the specification of a folder."""
    from adderclaw.store import locks

    if by := locks.holder(run.session.store.path, name := f"spec-{digest(root)[:16]}"):
        raise UsageError(f"run {by} works through the specification of {root} already: wait for it, or end it")
    with locks.held(run.session.store.path, name, run.run_id):
        yield


def _inside(path: str, root: str) -> str:
    """The specification's path as its readers see it: they see the workspace only."""
    if not os.path.isfile(path):
        raise UsageError(f"there is no specification {path!r}; write one, or name a file that is there")
    real, top = followed(path), followed(root)
    if not beneath(real, top):
        raise UsageError(f"{path} lies outside the workspace {root}, where no session can read it; copy it there")
    if os.path.getsize(real) == 0:
        raise UsageError(f"{path} is empty: write into it what is to be built, and how one sees that it works")
    return os.path.relpath(real, top)


def _plan(root: str, spec: str) -> Json:
    now = status.read(root)
    return {
        "mode": "dry_run",
        "spec": spec,
        "scenarios": [one.as_json() for one in now.scenarios] if now is not None else None,
        "prompt": None if now is not None and not now.left else prompt(spec, now, NAMES),
    }


def _text(plan: Json) -> str:
    """The plan for a person."""
    rows = [f"{plan['spec']}: dry run, no model is asked"]
    if plan["prompt"] is None:
        return "\n".join([*rows, f"all {len(plan['scenarios'])} scenarios have passed: there is nothing to do"])
    return "\n".join([*rows, "the next session is told:", *(f"  | {line}" for line in plan["prompt"].split("\n"))])
