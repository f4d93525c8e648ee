"""The tool registry: every built-in tool, found by its name or by an alias."""

from adderclaw.tools.kit import CHECKER_FILES, CalledSkill, Kit, PreparedSkill, Skills
from adderclaw.tools.lookup import (
    aliases,
    decode_arguments,
    find_tool,
    nearest_name,
    resolve_arguments,
    unwrap_call,
    without_withheld,
)
from adderclaw.tools.registry import builtin_tools

__all__ = (
    "CHECKER_FILES",
    "CalledSkill",
    "Kit",
    "PreparedSkill",
    "Skills",
    "aliases",
    "builtin_tools",
    "decode_arguments",
    "find_tool",
    "nearest_name",
    "resolve_arguments",
    "unwrap_call",
    "without_withheld",
)
