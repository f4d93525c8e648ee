"""Endpoints that list, show and disable plugins. A plugin can only be trusted at a terminal.

The hooks of a trusted plugin run outside the sandbox, as the operator, so trusting one needs a person at the machine.
Disabling one needs `admin`, because its hooks may have protected something.
"""

import asyncio

from adderclaw.agent.queries import plugins as facts
from adderclaw.agent.queries.plugins import PluginRow
from adderclaw.config import home
from adderclaw.config.plugins import installed
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.refusal import Refusal


async def list_plugins(_called: ApiRequest) -> list[PluginRow]:
    return await asyncio.to_thread(facts.listed)


async def show_plugin(request: ApiRequest) -> PluginRow:
    return await asyncio.to_thread(_plugin_row, request.path["name"])


async def disable(request: ApiRequest) -> PluginRow:
    def work() -> PluginRow:
        from adderclaw.tools.plugins import changes

        _plugin_row(request.path["name"])
        changes.disable_plugin(home(), request.path["name"])
        return _plugin_row(request.path["name"])

    return await asyncio.to_thread(work)


def _plugin_row(name: str) -> PluginRow:
    plugin = installed.one(home(), name)
    if plugin is None:
        raise Refusal(404, "not_found", f"there is no plugin {name[:100]!r}")
    return facts.row(plugin)


ENDPOINTS = (
    Endpoint("GET", "/plugins", "read", list_plugins, "The plugins with all that they bring.", gives=list[PluginRow]),
    Endpoint("GET", "/plugins/{name}", "read", show_plugin, "One plugin.", gives=PluginRow),
    Endpoint(
        "POST",
        "/plugins/{name}/disable",
        "admin",
        disable,
        "Disable a plugin from the next conversation on; only a person at a terminal enables one.",
        gives=PluginRow,
    ),
)
