"""What would take effect if the operator trusted a project: settings, policies, granted tools and programs to start."""

import os
from typing import Any, cast

from adderclaw.config import Loaded, places
from adderclaw.config.layers import compose
from adderclaw.config.leaves import leaves
from adderclaw.config.places import Request, read
from adderclaw.config.trust import trust
from adderclaw.core import home_names
from adderclaw.core.json_text import to_json
from adderclaw.core.types import Json


def active(project: str, fingerprint: trust.Fingerprint) -> list[Json]:
    """Rows of `{what, name, value, now, origin}`; raises ConfigError if the configuration is invalid."""
    request = places.request(None, project, project, None)
    return [*_settings(request), *_policies(request), *_skills(project, fingerprint), *_started(fingerprint)]


def _settings(request: Request) -> list[Json]:
    now, then = compose(request, trusted=False).loaded, compose(request, trusted=True).loaded
    before, after = _values(now), _values(then)
    rows: list[Json] = []
    for key, value in after.items():
        if before.get(key) == value:
            continue
        new = _added(before.get(key), value)
        rows.append(_row("setting", key, new, before.get(key), then.origins.get(key, "")))
    return rows


def _values(loaded: Loaded) -> dict[str, Any]:
    return {leaf.key: leaf.value for leaf in leaves(to_json(loaded.config))}


def _added(before: Any, after: Any) -> Any:
    """The added entries if a list only grows; otherwise the new value."""
    if not (isinstance(before, list) and isinstance(after, list)):
        return after
    old, new = cast(list[Any], before), cast(list[Any], after)
    return new[len(old) :] if new[: len(old)] == old else new


def _policies(request: Request) -> list[Json]:
    loaded = compose(request, trusted=True).loaded
    own = os.path.join(request.home, home_names.POLICY)
    files = [policy["file"] for policy in loaded.policies if policy["file"] != own]
    return [_row("policy", os.path.basename(file), "what it allows", "only what it denies", file) for file in files]


def _skills(project: str, fingerprint: trust.Fingerprint) -> list[Json]:
    """Skills and commands that grant themselves tools, or whose text contains commands to run."""
    rows: list[Json] = []
    for name in fingerprint.files:
        is_command = "/commands/" in name and name.endswith(".md")
        if os.path.basename(name) != "SKILL.md" and not is_command:
            continue
        what, shown = ("command", name) if is_command else ("skill", os.path.dirname(name))
        text = (read(os.path.join(project, name), project) or b"").decode("utf-8", "replace")
        head = text[:65_536].split("\n---", 1)[0]
        granted = [line.partition(":")[2].strip() for line in head.splitlines() if line.startswith("allowed-tools:")]
        if granted:
            rows.append(_row(f"{what}'s tools", shown, granted[0], None, os.path.join(project, name)))
        if "!`" in text or "```!" in text:
            rows.append(_row(f"{what}'s lines", shown, "those marked by ! run", None, os.path.join(project, name)))
    return rows


def _started(fingerprint: trust.Fingerprint) -> list[Json]:
    folders = ("hooks/", "plugins/")
    inside = [name for name in fingerprint.files if any(f"/{folder}" in f"/{name}" for folder in folders)]
    return [
        _row("runs", name, fingerprint.files[name], None, name)
        for name in dict.fromkeys((*fingerprint.started, *inside))
    ]


def _row(what: str, name: str, value: Any, now: Any, origin: str) -> Json:
    return {"what": what, "name": name, "value": value, "now": now, "origin": origin}
