"""Tools that steer the work itself: questions, lists, plans, subagents, and the search for further tools."""

from typing import TYPE_CHECKING, Any

from adderclaw.types import Tool

if TYPE_CHECKING:
    from adderclaw.tools import Kit


def tools(kit: "Kit") -> tuple[Tool[Any], ...]:
    from adderclaw.tools.control import agent, catalogue, lists, plans, questions, skill

    return (
        *agent.tools(kit),
        *skill.tools(kit),
        *questions.tools(kit),
        *lists.tools(kit),
        *plans.tools(kit),
        *catalogue.tools(kit),
    )
