"""Checks of a skill's frontmatter against the Agent Skills specification."""

import unicodedata
from typing import Any

from adderclaw.core.types import Json

FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_COMPATIBILITY = 500


def other_problems(fields: Json) -> list[str]:
    """Problems with fields other than the name that make a skill unusable."""
    messages: list[str] = []
    description: Any = fields.get("description")
    if "description" not in fields:
        messages.append("description: it is missing; say what the skill does and when to use it")
    elif not isinstance(description, str) or not description.strip():
        messages.append("description: it must be a non-empty text")
    compatibility: Any = fields.get("compatibility")
    if compatibility is not None and not isinstance(compatibility, str):
        messages.append("compatibility: it must be a text")
    elif compatibility and len(compatibility) > LONGEST_COMPATIBILITY:
        count = len(compatibility)
        messages.append(f"compatibility: it has {count} characters; at most {LONGEST_COMPATIBILITY} are allowed")
    return messages


def specification_objections(fields: Json) -> list[str]:
    """Violations of the specification that do not make a skill unusable."""
    messages: list[str] = []
    if extra := sorted(str(key) for key in fields if key not in FIELDS):
        named = ", ".join(key[:40] for key in extra[:10])
        messages.append(f"fields that the specification does not define: {named}; it defines {', '.join(FIELDS)}")
    if too_long := too_long_description(fields):
        messages.append(too_long)
    return messages


def too_long_description(fields: Json) -> str:
    value: Any = fields.get("description")
    if not isinstance(value, str) or len(value) <= LONGEST_DESCRIPTION:
        return ""
    return f"description: it has {len(value)} characters; only the first {LONGEST_DESCRIPTION} are used"


def normalize_name(name: str) -> str:
    return unicodedata.normalize("NFKC", name.strip())


def name_problems(fields: Json, folder: str) -> list[str]:
    """Problems with the skill's name; `folder` is the name of the folder that contains the skill."""
    if "name" not in fields:
        return ["name: it is missing"]
    value: Any = fields["name"]
    if not isinstance(value, str) or not value.strip():
        return ["name: it must be a non-empty text"]
    name = normalize_name(value)
    messages: list[str] = []
    if len(name) > LONGEST_NAME:
        messages.append(f"name: it has {len(name)} characters; at most {LONGEST_NAME} are allowed")
    if name != name.lower():
        messages.append(f"name: {name[:80]!r} must be lower case")
    if name.startswith("-") or name.endswith("-") or "--" in name:
        messages.append(f"name: {name[:80]!r} must not start or end with a hyphen or contain two in a row")
    if not all(char.isalnum() or char == "-" for char in name):
        messages.append(f"name: {name[:80]!r} may contain only letters, digits and hyphens")
    if normalize_name(folder) != name:
        messages.append(f"name: {name[:80]!r} must equal the name of its folder, {folder[:80]!r}")
    return messages
