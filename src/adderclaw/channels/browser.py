"""The browser of coding sessions: Playwright's MCP server in the session's sandbox, if it and a Chromium are there."""

import os
import shutil

from adderclaw.types import Json

SERVER = "playwright"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
MISSING = "no browser for these sessions: `npm install -g @playwright/mcp` and a Chromium give them one"
DENIED = (f"mcp__{SERVER}__browser_run_code_unsafe", f"mcp__{SERVER}__browser_install")
"""Not what a page shows, but code in the server itself; and a browser is not fetched by an agent."""


def settings(*, sandboxed: bool) -> Json:
    """What a run's configuration needs so that its sessions have a browser; nothing where none is installed."""
    server, node = shutil.which("playwright-mcp"), shutil.which("node")
    chromium = next((found for name in CHROMIUMS if (found := shutil.which(name))), None)
    if server is None or node is None or chromium is None:
        return {}
    # Chromium's own sandbox needs namespaces that ours takes away, and that root cannot use.
    own = [] if not sandboxed and os.geteuid() != 0 else ["--no-sandbox"]
    arguments = ["--headless", "--isolated", "--browser", "chromium", "--executable-path", chromium, *own]
    more = ["--caps", "testing", "--output-dir", "/tmp/playwright"]
    return {
        "mcp_servers": {SERVER: {"command": node, "args": [os.path.realpath(server), *arguments, *more]}},
        "permissions": {"deny": list(DENIED)},
    }
