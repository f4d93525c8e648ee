"""The browser of coding sessions: Playwright's MCP server in the sandbox, if it and Chromium are installed."""

import os
from collections.abc import Sequence

from adderclaw.config.paths import followed
from adderclaw.core.types import Json
from adderclaw.sandbox import confinement
from adderclaw.sandbox.programs import resolve

SERVER = "playwright"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
MISSING = "these sessions have no browser; it needs a sandbox, Chromium, and `npm install -g @playwright/mcp`"
DISABLED_PROJECT_BROWSER: Json = {"mcp_servers": {SERVER: {"command": "/bin/false", "disabled": True}}}
"""Prevents a project's server of the same name from starting if the built-in browser is not available."""
CHROMIUM_CONFIG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chromium.json")
"""Redirects Chromium's requests for updates and accounts to an address where nothing listens."""
DENIED_TOOLS = (f"mcp__{SERVER}__browser_run_code_unsafe", f"mcp__{SERVER}__browser_install")
"""Tools that run code in the server itself, or download a browser."""


def settings(profile: str, roots: Sequence[str]) -> Json:
    """Returns the settings that give a run's sessions a browser; empty if none is installed.

    Never uses programs of the workspace. Needs our sandbox, since Chromium starts without its own: that one needs
    namespaces, which ours removes.
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
