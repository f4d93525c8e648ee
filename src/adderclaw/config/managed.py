"""The managed layer: the settings in /etc/adderclaw limit every other layer, and no user can loosen them."""

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from adderclaw.config.baseline import BASELINE, MODE, TIGHTEN, Rule, RuleResult
from adderclaw.config.leaves import get, leaves, put
from adderclaw.config.permission_mode import AUTONOMY, BY_MODE, BYPASS, without_bypass
from adderclaw.config.places import FILE_LIMIT, MANAGED_FOLDER
from adderclaw.config.policy import NAME as POLICY
from adderclaw.config.schema import MODE_AUTONOMY, Config
from adderclaw.core.decode import decode, short_json
from adderclaw.core.errors import ConfigError, Problem
from adderclaw.core.json_text import to_json
from adderclaw.core.provider_kinds import ANTHROPIC, BY_NAME
from adderclaw.core.types import Json

if TYPE_CHECKING:
    from adderclaw.config import Loaded
    from adderclaw.config.layers import Composition

FILE = os.path.join(MANAGED_FOLDER, "managed.toml")
POLICY_FILE = os.path.join(MANAGED_FOLDER, POLICY)
PROFILES = ("readonly", "supervised", "sandboxed", "permissive")
"""From strictest to loosest."""
AUTONOMIES = ("readonly", "supervised", "full")
ACCEPTS = "acceptEdits"
PRICES = ("managed", "prices")
DIRECTORIES = (("security", "additional_directories"), ("permissions", "additionalDirectories"))
"""Two spellings of the same setting, which are bounded together."""
ONLY_HERE = f"only the administrator of this machine can set this, in {FILE}"


# ------------------------------------------------------------------ the files


def files() -> dict[str, bytes]:
    """The existing files. A folder or file that another user could write is an error and never ignored."""
    try:
        folder = os.lstat(MANAGED_FOLDER)
    except FileNotFoundError:
        return {}
    _require_roots(MANAGED_FOLDER, folder, stat.S_ISDIR(folder.st_mode), "folder")
    contents = {path: _read(path) for path in (FILE, POLICY_FILE)}
    return {path: data for path, data in contents.items() if data is not None}


def others() -> list[str]:
    """Names in the folder that are not read, such as misnamed files that have no effect."""
    try:
        return sorted(set(os.listdir(MANAGED_FOLDER)) - {os.path.basename(FILE), POLICY})
    except OSError:
        return []


def _read(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _broken(path, f"cannot be read ({error.strerror})") from error
    try:
        status = os.fstat(fd)
        _require_roots(path, status, stat.S_ISREG(status.st_mode), "regular file")
        data = os.read(fd, FILE_LIMIT + 1)
    finally:
        os.close(fd)
    if len(data) > FILE_LIMIT:
        raise _broken(path, f"is larger than {FILE_LIMIT} bytes")
    return data


def _require_roots(path: str, status: os.stat_result, is_kind: bool, kind: str) -> None:
    if not is_kind:
        raise _broken(path, f"is not a {kind}")
    if status.st_uid != 0:
        raise _broken(path, f"belongs to the user {status.st_uid} instead of root")
    if status.st_mode & 0o022:
        raise _broken(path, f"is writable by users other than root (mode {stat.S_IMODE(status.st_mode):o})")


def _broken(path: str, why: str) -> ConfigError:
    fix = "nothing runs until the administrator of this machine fixes it"
    return ConfigError([Problem(path, "", f"{why}; {fix}")])


def lay(composition: "Composition") -> None:
    """Read the managed settings. Every problem is an error, because an ignored rule would not bind."""
    composition.managed_files = files()
    composition.looked_at |= composition.managed_files
    if FILE not in composition.managed_files:
        return
    warned = len(composition.warnings)
    layer = composition.file(FILE, "managed", MANAGED_FOLDER)
    composition.problems += [Problem(FILE, "", text) for text in composition.warnings[warned:]]
    del composition.warnings[warned:]
    composition.managed = layer.data if layer is not None else {}
    composition.problems += _hooks_of_users(composition.managed.get("hooks", []))
    composition.raise_problems()


def _hooks_of_users(hooks: list[Json]) -> Iterator[Problem]:
    """Problems for hooks whose program depends on the user."""
    for at, entry in enumerate(hooks):
        if "name" in entry and not entry.get("command"):
            why = "a name refers to a program in each user's folder"
        elif entry.get("shell") == "powershell":
            why = "PowerShell is searched on each user's PATH"
        else:
            continue
        yield Problem(FILE, f"hooks[{at}]", f"{why}; set command to the absolute path of a program, with args")


def bound(composition: "Composition") -> None:
    composition.warnings += bind(composition.tree, composition.origins, composition.managed)
    composition.problems += remove_disallowed_providers(composition.tree, composition.origins)


# ------------------------------------------------------------------ the bounds


def held(loaded: "Loaded") -> "Loaded":
    """Reapply the bounds to settings that were changed after loading."""
    if not loaded.managed:
        return loaded
    tree, origins = to_json(loaded.config), dict(loaded.origins)
    messages = bind(tree, origins, loaded.managed)
    config = decode(Config, tree)
    return loaded._replace(config=config, origins=origins, warnings=(*dict.fromkeys((*loaded.warnings, *messages)),))


def bind(tree: Json, origins: dict[str, str], data: Json) -> list[str]:
    """Bound the settings by the managed ones; returns messages about settings that are ignored."""
    bounds = {leaf.path: leaf.value for leaf in leaves(data) if leaf.path[:2] != PRICES}
    if (folders := directories(data)) is not None:
        bounds |= dict.fromkeys(DIRECTORIES, folders)
    messages = [text for path, value in bounds.items() if (text := _bind_leaf(tree, origins, path, value))]
    if only_managed_allows(data):
        messages += _replaced(tree, origins, ("permissions", "allow"), data["permissions"].get("allow", []))
    if data.get("allowManagedHooksOnly"):
        messages += _only_managed_hooks(tree, origins, data.get("hooks", []))
    if data.get("hooks"):
        messages += _replaced(tree, origins, ("disableAllHooks",), bool(data.get("disableAllHooks")))
    named: Json | None = get(data, PRICES)
    if named is not None or data.get("models") or "cost_usd" in data.get("limits", {}):
        _fix(tree, origins, PRICES, {**data.get("models", {}), **(named or {})})
    messages += _bind_profile(tree, origins, data)
    messages += without_bypass(tree, origins)
    messages += _bind_mode(tree, origins, data)
    return messages


def _bind_leaf(tree: Json, origins: dict[str, str], path: tuple[str, ...], bound: Any) -> str:
    key, current = ".".join(path), get(tree, path)
    value = _bound(key, bound, current)
    before = origins.get(key, "default")
    if key == "hooks":
        origins |= {f"hooks[{at}]": FILE for at in range(len(cast("list[Any]", current)), len(value))}
    if value == current and value != bound:
        return ""  # already stricter than the bound
    _fix(tree, origins, path, value)
    if isinstance(value, list) and before != "default" and value != bound:
        origins[key] = ", ".join(dict.fromkeys((*before.split(", "), FILE)))
    if before == "default" or not _is_less(value, current):
        return ""
    return f"{before}: {key} = {short_json(current)} is ignored: {FILE} says {short_json(get(tree, path))}"


def _is_less(value: Any, current: Any) -> bool:
    """Whether the effective value loses something of the requested one."""
    if isinstance(value, list) and isinstance(current, list):
        return any(item not in value for item in cast("list[Any]", current))
    return value != current


def _fix(tree: Json, origins: dict[str, str], path: tuple[str, ...], value: Any) -> None:
    put(tree, path, value)
    origins[".".join(path)] = FILE


def _bound(key: str, managed: Any, current: Any) -> Any:
    """The effective value if the managed value is the loosest allowed."""
    if current is None:
        return managed
    if key in ("permissions.allow", "hooks"):
        return [*current, *(item for item in managed if item not in current)]
    if key.startswith("telemetry."):
        return managed  # neither more nor less
    rule: Rule = BASELINE.get(key) or TIGHTEN.get(key) or _stays
    return rule(managed, current).value


def _stays(managed: Any, _: Any) -> RuleResult:
    return RuleResult(managed, True)


def _replaced(tree: Json, origins: dict[str, str], path: tuple[str, ...], value: Any) -> Iterator[str]:
    """Replace a value; yields a message if that discards a user's setting."""
    key, current = ".".join(path), get(tree, path)
    before = ", ".join(origin for origin in origins.get(key, "default").split(", ") if origin not in ("default", FILE))
    _fix(tree, origins, path, value)
    if before and _is_less(value, current):
        yield f"{before}: {key} = {short_json(current)} is ignored: {FILE} says {short_json(value)}"


def _only_managed_hooks(tree: Json, origins: dict[str, str], hooks: list[Json]) -> Iterator[str]:
    for key in [key for key in origins if key.startswith("hooks[")]:
        del origins[key]
    yield from _replaced(tree, origins, ("hooks",), hooks)
    origins |= {f"hooks[{at}]": FILE for at in range(len(hooks))}


def only_managed_allows(data: Json) -> bool:
    """Whether only the administrator's rules and policies can allow calls."""
    return bool(data.get("permissions", {}).get("allowManagedPermissionRulesOnly"))


def directories(data: Json) -> list[str] | None:
    """The additional directories that users may work in; None for any."""
    lists = [
        cast("list[str]", folders_of_key) for path in DIRECTORIES if (folders_of_key := get(data, path)) is not None
    ]
    return [*dict.fromkeys(folder for folders in lists for folder in folders)] if lists else None


def exceeds_managed_mode(data: Json, mode: str | None) -> bool:
    """Whether a mode is looser than the managed limit."""
    most = data.get("permissions", {}).get("defaultMode")
    return most is not None and not TIGHTEN[MODE](most, mode).whole


def loosest_profile(data: Json) -> str:
    """The loosest profile that the managed settings allow; `permissive` means any.

    `permissive` has no sandbox, so it can neither restrict the network nor confine writes to the workspace.
    """
    security: Json = data.get("security", {})
    autonomy = security.get("autonomy", "full")
    mode = data.get("permissions", {}).get("defaultMode", BYPASS)
    bounds = [data.get("runtime", {}).get("profile", "permissive")]
    bounds += ["permissive" if autonomy == "full" else autonomy]
    bounds += {BYPASS: [], ACCEPTS: ["sandboxed"]}.get(mode, ["supervised"])
    kept_in = security.get("sandbox_required") or security.get("network") == "deny" or security.get("workspace_only")
    bounds += ["sandboxed"] if kept_in else []
    return min(bounds, key=PROFILES.index)


def profile_for_others(config: Config, started: str | None = None) -> str:
    """The loosest profile that the operator's settings allow for others, such as senders of messages and submitters of
    runs.

    `started`: the profile that the program was started with, which applies if it is stricter.
    """
    if config.security.autonomy == "readonly":
        return "readonly"
    own = config.runtime.profile
    own = "sandboxed" if own == "permissive" and config.security.sandbox_required else own
    return min(own, started or own, key=PROFILES.index)


def _bind_profile(tree: Json, origins: dict[str, str], data: Json) -> Iterator[str]:
    most, profile = loosest_profile(data), tree["runtime"]["profile"]
    if PROFILES.index(profile) > PROFILES.index(most):
        before = origins.get("runtime.profile", "default")
        _fix(tree, origins, ("runtime", "profile"), most)
        if before not in ("default", FILE):
            yield f"{before}: runtime.profile = {short_json(profile)} is ignored: {FILE} allows {most} at most"


def _bind_mode(tree: Json, origins: dict[str, str], data: Json) -> Iterator[str]:
    """Apply the managed bounds for autonomy also to the permission mode, which is equivalent to an autonomy."""
    profile = loosest_profile(data)
    most = data.get("security", {}).get("autonomy", "full")
    if profile in AUTONOMIES:
        most = min(most, profile, key=AUTONOMIES.index)
    accepts = most == "full" and data.get("permissions", {}).get("defaultMode") == ACCEPTS
    most = "supervised" if accepts else most
    if AUTONOMIES.index(tree["security"]["autonomy"]) > AUTONOMIES.index(most):
        yield from _replaced(tree, origins, ("security", "autonomy"), most)
        origins[AUTONOMY] = BY_MODE + FILE if accepts else FILE  # an explicit autonomy would ask about edits
    mode = tree["permissions"]["defaultMode"]
    if mode is not None and AUTONOMIES.index(_autonomy(mode)) > AUTONOMIES.index(most):
        before = origins.get(MODE, "default")
        _fix(tree, origins, ("permissions", "defaultMode"), "plan" if most == "readonly" else "default")
        yield f"{before}: {MODE} = {short_json(mode)} is ignored: {FILE} says {AUTONOMY} = {short_json(most)} at most"


def _autonomy(mode: Any) -> str:
    return "readonly" if mode == "plan" else MODE_AUTONOMY[mode]


# ------------------------------------------------------------------ allowed providers


def remove_disallowed_providers(tree: Json, origins: dict[str, str]) -> Iterator[Problem]:
    """Remove the entries of `providers.models` whose host is not allowed; yields a problem if one is the default."""
    allowed: list[str] | None = tree["managed"]["providers"]
    if allowed is None:
        return
    models: dict[str, Json] = tree["providers"]["models"]
    disallowed = {
        name: host
        for name, entry in models.items()
        if (host := host_of(entry.get("kind", ""), entry.get("base_url"))) and not is_allowed(host, allowed)
    }
    for name in disallowed:
        del models[name]
        for key in [key for key in origins if key.startswith(f"providers.models.{name}.")]:
            del origins[key]
    chosen = tree["default_provider"]
    if chosen in disallowed:
        fix = f"allowed are {', '.join(allowed) or 'none'}; choose another default_provider"
        yield Problem(
            FILE,
            "managed.providers",
            f"the provider {short_json(chosen)} uses {disallowed[chosen]}, {NOT_ALLOWED}; {fix}",
        )


NOT_ALLOWED = "which the administrator of this machine does not allow"


def host_of(kind: str, base_url: str | None) -> str:
    """The host that an entry connects to; empty if it connects to none."""
    from urllib.parse import urlsplit

    from adderclaw.core.provider_kinds import SOCKET_VARIABLE

    known = BY_NAME.get(kind)
    if known is None:
        return "an unknown host"
    if known.has_no_server:
        return ""
    if kind == ANTHROPIC and os.environ.get(SOCKET_VARIABLE, "").strip():
        return f"what listens at {SOCKET_VARIABLE}"
    address = base_url or os.environ.get(known.url_variable) or known.base_url
    try:
        return urlsplit(address).hostname or "an unknown host"
    except ValueError:
        return "an unknown host"


def is_allowed(host: str, allowed: list[str]) -> bool:
    host = host.lower().rstrip(".")
    return any(
        host == pattern.lower() or (pattern.startswith("*.") and host.endswith(pattern[1:].lower()))
        for pattern in allowed
    )
