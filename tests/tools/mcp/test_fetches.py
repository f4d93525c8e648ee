"""Which package a command line fetches before it runs it."""

from adderclaw.tools.mcp.fetches import UV_SCRIPT, FetchedPackage, fetch_recipe, fetched_package
from tests.rows import rows


@rows(
    ("line", "found"),
    [
        (
            "npx -y @modelcontextprotocol/server-filesystem .",
            FetchedPackage("npx", "@modelcontextprotocol/server-filesystem"),
        ),
        ("/usr/bin/npx --yes a@1.2 x", FetchedPackage("npx", "a@1.2")),
        ("npx -y --package=a b", FetchedPackage("npx", "a")),
        ("npx -p a b", FetchedPackage("npx", "a")),
        ("uvx mcp-server-git --repository .", FetchedPackage("uvx", "mcp-server-git")),
        ("uvx --python 3.12 --from git-tools server", FetchedPackage("uvx", "git-tools")),
        ("uvx --with more server", FetchedPackage("uvx", "server")),
        ("uv tool run server", FetchedPackage("uv", "server")),
        ("uvx -p 3.12 server", FetchedPackage("uvx", "server")),
        ("npm exec -- a", FetchedPackage("npm", "a")),
        ("pipx run server", FetchedPackage("pipx", "server")),
        ("npx", None),
        ("npx -y", None),
        ("npm start", None),
        ("uv run server.py", None),
        ("node server.js", None),
        ("./npx-like a", None),
    ],
)
def test_what_is_fetched(line: str, found: FetchedPackage | None) -> None:
    assert fetched_package(line.split()) == found


@rows(
    ("line", "begin", "package", "arguments"),
    [
        ("npx -y a@1.2 . x", "npx --yes --prefix=/ -y --package=a@1.2 --call=", "a@1.2", ". x"),
        ("npx -y @scope/a", "npx --yes --prefix=/ -y --package=@scope/a --call=", "@scope/a", ""),
        ("npx -p a -p b c d", "npx --yes --prefix=/ --package=a --package=b --call=", "a", "d"),
        ("npm exec -- a b", "npm exec --yes --prefix=/ --package=a --call=", "a", "b"),
    ],
)
def test_how_npx_fetches_apart(line: str, begin: str, package: str, arguments: str) -> None:
    found = fetch_recipe(line.split())
    assert found is not None
    assert (found.package, list(found.arguments)) == (package, arguments.split())
    assert " ".join(found.fetch).startswith(begin)


@rows(
    ("line", "words"),
    [
        ("uvx server --here .", "uvx --from server python -c CODE server"),
        ("uvx server@1.2 x", "uvx --from server==1.2 python -c CODE server"),
        ("uvx server@latest", "uvx --refresh-package server --from server python -c CODE server"),
        ("uvx -p 3.12 --with more --from pack it", "uvx -p 3.12 --with more --from pack python -c CODE it"),
        ("uv tool run server", "uv tool run --from server python -c CODE server"),
    ],
)
def test_how_uvx_fetches_apart(line: str, words: str) -> None:
    found = fetch_recipe(line.split())
    assert found is not None
    assert list(found.fetch) == [UV_SCRIPT if word == "CODE" else word for word in words.split()]


@rows(
    "line",
    [
        *("npx ./a", "npx -p . a", "npx -y file:../a", "npx -c 'a'", "npx -w here a", "uvx --from . a", "uvx ~/a"),
        *("bunx a", "pnpm dlx a", "yarn dlx a", "pipx run a", "uvx python -m a", "npx", "node a.js"),
    ],
)
def test_what_lies_in_the_workspace_or_another_program_fetches_is_not_fetched_apart(line: str) -> None:
    assert fetch_recipe(line.split()) is None
