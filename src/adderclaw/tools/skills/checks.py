"""What the Agent Skills specification asks of a skill's frontmatter: each thing that is wrong, in words."""

import unicodedata
from typing import Any

from adderclaw.core.types import Json

FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_COMPATIBILITY = 500


def other_problems(fields: Json) -> list[str]:
    """What else keeps it from being used."""
    return [*_description(fields), *_compatibility(fields)]


def specification_objections(fields: Json) -> list[str]:
    """What the specification objects to, and which keeps nobody from using it."""
    messages: list[str] = []
    if extra := sorted(str(key) for key in fields if key not in FIELDS):
        named = ", ".join(key[:40] for key in extra[:10])
        messages.append(f"fields that the specification does not have: {named}; it has {', '.join(FIELDS)}")
    if too_long := too_long_description(fields):
        messages.append(too_long)
    return messages


def too_long_description(fields: Json) -> str:
    value: Any = fields.get("description")
    if not isinstance(value, str) or len(value) <= LONGEST_DESCRIPTION:
        return ""
    return f"description: it has {len(value)} characters; at most {LONGEST_DESCRIPTION} are allowed, and used"


def normalize_name(name: str) -> str:
    return unicodedata.normalize("NFKC", name.strip())


def name_problems(fields: Json, folder: str) -> list[str]:
    """What is wrong with its name: `folder` is the name of the folder that it stands in."""
    if "name" not in fields:
        return ["name: it is missing"]
    value: Any = fields["name"]
    if not isinstance(value, str) or not value.strip():
        return ["name: it must be a text that is not empty"]
    name = normalize_name(value)
    messages: list[str] = []
    if len(name) > LONGEST_NAME:
        messages.append(f"name: it has {len(name)} characters; at most {LONGEST_NAME} are allowed")
    if name != name.lower():
        messages.append(f"name: {name[:80]!r} must be lower case")
    if name.startswith("-") or name.endswith("-") or "--" in name:
        messages.append(f"name: {name[:80]!r} must not begin or end with a hyphen, nor hold two in a row")
    if not all(char.isalnum() or char == "-" for char in name):
        messages.append(f"name: {name[:80]!r} may hold letters, digits and hyphens only")
    if normalize_name(folder) != name:
        messages.append(f"name: {name[:80]!r} must be the name of its folder, {folder[:80]!r}")
    return messages


def _description(fields: Json) -> list[str]:
    if "description" not in fields:
        return ["description: it is missing; say what the skill does and when to use it"]
    value: Any = fields["description"]
    if not isinstance(value, str) or not value.strip():
        return ["description: it must be a text that is not empty"]
    return []


def _compatibility(fields: Json) -> list[str]:
    value: Any = fields.get("compatibility")
    if value is None:
        return []
    if not isinstance(value, str):
        return ["compatibility: it must be a text"]
    if len(value) > LONGEST_COMPATIBILITY:
        return [f"compatibility: it has {len(value)} characters; at most {LONGEST_COMPATIBILITY} are allowed"]
    return []
