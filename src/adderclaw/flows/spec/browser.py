"""The browser of coding sessions: Playwright's MCP server in the session's sandbox, if it and a Chromium are there."""

import os
from collections.abc import Sequence

from adderclaw.config.paths import followed
from adderclaw.core.types import Json
from adderclaw.sandbox import confinement
from adderclaw.sandbox.programs import resolve

SERVER = "playwright"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
MISSING = "no browser for these sessions: `npm install -g @playwright/mcp` and a Chromium give them one, in a sandbox"
DISABLED_PROJECT_BROWSER: Json = {"mcp_servers": {SERVER: {"command": "/bin/false", "disabled": True}}}
"""The browser is built in: where there is none, what a project calls so is not started in its place."""
CHROMIUM_CONFIG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chromium.json")
"""Chromium asks its maker for updates and accounts unless it is told another address: here nobody listens."""
DENIED_TOOLS = (f"mcp__{SERVER}__browser_run_code_unsafe", f"mcp__{SERVER}__browser_install")
"""Not what a page shows, but code in the server itself; and a browser is not fetched by an agent."""


def settings(profile: str, roots: Sequence[str]) -> Json:
    """What a run's configuration needs so that its sessions have a browser; nothing where none is installed.

    What lies in the workspace is nobody's browser. Outside a sandbox of ours there is none: Chromium's own needs
    namespaces that ours takes away, so it is started without.
    """
    server, node = resolve("playwright-mcp", roots), resolve("node", roots)
    chromium = next((path for name in CHROMIUMS if (path := resolve(name, roots))), None)
    if server is None or node is None or chromium is None:
        return {}
    if profile == "permissive" or confinement.probe(roots) == "none":
        return {}
    arguments = ["--headless", "--isolated", "--no-sandbox", "--browser", "chromium", "--executable-path", chromium]
    more = ["--caps", "testing", "--output-dir", "/tmp/playwright", "--config", CHROMIUM_CONFIG]
    return {
        "mcp_servers": {SERVER: {"command": node, "args": [followed(server), *arguments, *more]}},
        "permissions": {"deny": list(DENIED_TOOLS)},
    }
