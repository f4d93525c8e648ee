"""Which package a command line fetches before it runs it."""

from adderclaw.mcp.fetches import Fetched, fetched
from tests.rows import rows


@rows(
    ("line", "found"),
    [
        ("npx -y @modelcontextprotocol/server-filesystem .", Fetched("npx", "@modelcontextprotocol/server-filesystem")),
        ("/usr/bin/npx --yes a@1.2 x", Fetched("npx", "a@1.2")),
        ("npx -y --package=a b", Fetched("npx", "a")),
        ("npx -p a b", Fetched("npx", "a")),
        ("uvx mcp-server-git --repository .", Fetched("uvx", "mcp-server-git")),
        ("uvx --python 3.12 --from git-tools server", Fetched("uvx", "git-tools")),
        ("uvx --with more server", Fetched("uvx", "server")),
        ("uv tool run server", Fetched("uv", "server")),
        ("npm exec -- a", Fetched("npm", "a")),
        ("pipx run server", Fetched("pipx", "server")),
        ("npx", None),
        ("npx -y", None),
        ("npm start", None),
        ("uv run server.py", None),
        ("node server.js", None),
        ("./npx-like a", None),
    ],
)
def test_what_is_fetched(line: str, found: Fetched | None) -> None:
    assert fetched(line.split()) == found
