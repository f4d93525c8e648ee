"""The MCP servers configured for a session: the operator's, the project's, those of plugins and of programs."""

from adderclaw.agent.run.start import Runtime, operators_own
from adderclaw.config.servers import Entry, Server, entries, filled, slug
from adderclaw.config.urls import check_url
from adderclaw.core.errors import UsageError


def configured(runtime: Runtime) -> list[Entry]:
    loaded, own = runtime.loaded, runtime.options.own_servers
    server_entries = [
        entry._replace(by_operator=_is_operators(runtime, entry))
        for entry in entries(loaded.config.mcp_servers, loaded.origins, loaded.workspace, runtime.home)
    ]
    taken = {entry.name for entry in server_entries}
    if runtime.plugins is not None and not runtime.options.strict_servers:
        server_entries += [entry for entry in runtime.plugins.servers if entry.name not in taken]
        taken = {entry.name for entry in server_entries}
    for name in own:
        if not slug(name) or slug(name) in taken:
            raise UsageError(f"mcp_servers: {name!r} is not a valid name, or another server has it; use another name")
        taken.add(slug(name))
    if loaded.config.managed.mcp is not None:
        server_entries = [entry for entry in server_entries if _is_allowed(runtime, entry)]
        if own:
            raise UsageError(
                f"mcp_servers: {', '.join(own)}: the administrator of this machine does not allow servers of a program"
            )
    return server_entries + [Entry(slug(name), name, Server(), "program", live) for name, live in own.items()]


def _is_operators(runtime: Runtime, entry: Entry) -> bool:
    """Whether the operator's own files or command line configure the server."""
    key = f"mcp_servers.{entry.given}"
    return key in runtime.loaded.origins and operators_own(runtime.options, runtime.loaded, key)


def _is_allowed(runtime: Runtime, entry: Entry) -> bool:
    """Whether an administrator allows a server: by the host of its URL, or by the absolute path of its program."""
    import os

    from adderclaw.config import managed

    if entry.scope.startswith("plugin:") and runtime.config.managed.plugins is not None:
        return True  # allowed with the plugin's content
    allowed, server = runtime.config.managed.mcp or [], entry.server
    if server.url:
        there = managed.is_allowed(_host(server.url), allowed)
    else:
        there = os.path.isabs(server.command or "") and server.command in allowed
    if not there:
        message = f"the MCP server {entry.given!r} is denied: {managed.FILE} does not allow it"
        runtime.bus.publish({"event_type": "warning", "message": message})
    return there


def _host(url: str) -> str:
    """The host of a server's URL after its variables are filled in, because they may change the host."""
    from urllib.parse import urlsplit

    try:
        return urlsplit(check_url(filled(url))).hostname or ""
    except ValueError:
        return ""
