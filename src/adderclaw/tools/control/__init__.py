"""Tools that steer the work itself: questions, lists, plans, subagents, and the search for more tools."""

from typing import TYPE_CHECKING, Any

from adderclaw.core.types import Tool

if TYPE_CHECKING:
    from adderclaw.tools.kit import Kit


def tools(kit: "Kit") -> tuple[Tool[Any], ...]:
    """The tools whose description depends on the session; `registry` builds the others."""
    from adderclaw.tools.control import agent, catalogue, skill

    return (*agent.tools(kit), *skill.tools(kit), *catalogue.tools())
