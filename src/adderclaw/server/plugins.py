"""Plugins for programs: what is installed, what each brings, and switching one off. Trusting one is done at a terminal.

Who trusts a plugin lets its hooks run outside of the sandbox, as the operator. So it takes what a token cannot give:
a person at the machine. Switching one off takes `admin`, since its hooks may have been a guard.
"""

import asyncio

from adderclaw.agent.queries import plugins as facts
from adderclaw.agent.queries.plugins import PluginRow
from adderclaw.config import home
from adderclaw.config.plugins import installed
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.refusal import Refusal


async def listed(_called: Called) -> list[PluginRow]:
    return await asyncio.to_thread(facts.listed)


async def one(called: Called) -> PluginRow:
    return await asyncio.to_thread(_one, called.path["name"])


async def disable(called: Called) -> PluginRow:
    def work() -> PluginRow:
        from adderclaw.tools.plugins import changes

        _one(called.path["name"])
        changes.disable_plugin(home(), called.path["name"])
        return _one(called.path["name"])

    return await asyncio.to_thread(work)


def _one(name: str) -> PluginRow:
    found = installed.one(home(), name)
    if found is None:
        raise Refusal(404, "not_found", f"there is no plugin {name[:100]!r}")
    return facts.row(found)


ENDPOINTS = (
    Endpoint("GET", "/plugins", "read", listed, "The plugins with all that they bring.", gives=list[PluginRow]),
    Endpoint("GET", "/plugins/{name}", "read", one, "One plugin.", gives=PluginRow),
    Endpoint(
        "POST",
        "/plugins/{name}/disable",
        "admin",
        disable,
        "Disable a plugin from the next conversation on; only a person at a terminal enables one.",
        gives=PluginRow,
    ),
)
