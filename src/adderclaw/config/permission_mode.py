"""The permission mode as the autonomy: which layer may set it, and what it stands for (X-85)."""

from collections.abc import Collection

from adderclaw.config.baseline import MODE
from adderclaw.config.places import FLAGS
from adderclaw.config.schema.settings import MODE_AUTONOMY
from adderclaw.core.types import Json

BYPASS = "bypassPermissions"
AUTONOMY = "security.autonomy"
BY_MODE = f"{MODE} in "
"""How the origin of an autonomy begins that a mode stands for."""


def as_autonomy(tree: Json, origins: dict[str, str], project_files: Collection[str]) -> None:
    """A mode that the operator chose is the autonomy; what a project says of that can only tighten it."""
    origin, mode = origins[MODE], tree["permissions"]["defaultMode"]
    if mode in (None, "plan") or origin in project_files or origins[AUTONOMY] == FLAGS:
        return
    tree["security"]["autonomy"] = MODE_AUTONOMY[mode]
    origins[AUTONOMY] = BY_MODE + origin


def without_bypass(tree: Json, origins: dict[str, str]) -> list[str]:
    """Where a layer has switched bypassPermissions off, the mode is `default`, wherever the other was set."""
    permissions: Json = tree["permissions"]
    if permissions["defaultMode"] != BYPASS or not permissions["disableBypassPermissionsMode"]:
        return []
    permissions["defaultMode"] = "default"
    if origins[AUTONOMY].startswith(BY_MODE):
        tree["security"]["autonomy"] = MODE_AUTONOMY["default"]
    by = f"disableBypassPermissionsMode in {origins['permissions.disableBypassPermissionsMode']}"
    return [f"{origins[MODE]}: {BYPASS} is switched off by {by}: the mode is default"]
