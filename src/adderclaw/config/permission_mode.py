"""The permission mode as the autonomy: which layer may set it, and which autonomy it means."""

from collections.abc import Collection

from adderclaw.config.baseline import MODE
from adderclaw.config.places import FLAGS
from adderclaw.config.schema import MODE_AUTONOMY
from adderclaw.core.types import Json

BYPASS = "bypassPermissions"
AUTONOMY = "security.autonomy"
BY_MODE = f"{MODE} in "
"""Prefix of the origin of an autonomy that comes from a mode."""


def as_autonomy(tree: Json, origins: dict[str, str], project_files: Collection[str]) -> None:
    """Set the autonomy from the mode that the operator chose. A project can only tighten it."""
    origin, mode = origins[MODE], tree["permissions"]["defaultMode"]
    if mode in (None, "plan") or origin in project_files or origins[AUTONOMY] == FLAGS:
        return
    tree["security"]["autonomy"] = MODE_AUTONOMY[mode]
    origins[AUTONOMY] = BY_MODE + origin


def without_bypass(tree: Json, origins: dict[str, str]) -> list[str]:
    """Reset the mode to `default` if any layer disables bypassPermissions."""
    permissions: Json = tree["permissions"]
    if permissions["defaultMode"] != BYPASS or not permissions["disableBypassPermissionsMode"]:
        return []
    permissions["defaultMode"] = "default"
    if origins[AUTONOMY].startswith(BY_MODE):
        tree["security"]["autonomy"] = MODE_AUTONOMY["default"]
    by = f"disableBypassPermissionsMode in {origins['permissions.disableBypassPermissionsMode']}"
    return [f"{origins[MODE]}: {BYPASS} is disabled by {by}; the mode is default"]
