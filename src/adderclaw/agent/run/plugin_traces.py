"""What a plugin leaves behind beside its folder, and how that is forgotten: approvals and logins of its MCP servers."""

import asyncio
import os
import shutil

from adderclaw.agent.run.plugins import server_name
from adderclaw.agent.run.start import Runtime
from adderclaw.config.plugins import installed
from adderclaw.core.types import Json
from adderclaw.storage import Store


def forget(runtime: Runtime, name: str, servers: Json, *, keep_data: bool = False) -> list[str]:
    """Forget a plugin that is removed, and say what was forgotten; `servers` are the entries that it brought."""
    scope = f"plugin:{name}"
    remote = [server_name(name, server) for server, entry in servers.items() if "url" in entry]
    done: list[str] = []
    if Store.exists(runtime.config.memory.path):
        store = Store.open(runtime.config.memory.path)
        try:
            with store.write() as cursor:
                cursor.execute("DELETE FROM mcp_pins WHERE scope = ?", (scope,))
                if cursor.rowcount:
                    done.append("what was approved of its MCP servers")
        finally:
            store.close()
    if remote and asyncio.run(_logged_out(runtime, scope, remote)):
        done.append("its logins")
    data = installed.data_folder(runtime.home, name)
    if os.path.isdir(data) and not os.path.islink(data) and not keep_data:
        shutil.rmtree(data)
        done.append("its data")
    if os.path.isdir(above := os.path.dirname(data)) and not os.listdir(above):
        os.rmdir(above)
    return done


async def _logged_out(runtime: Runtime, scope: str, servers: list[str]) -> bool:
    logins = runtime.credentials.logins()
    removed = [await logins.forget(f"mcp:{scope}:{server}") for server in servers]
    return any(removed)
