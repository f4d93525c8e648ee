"""`adderclaw cache`: what package managers have kept in the sandbox, by project."""

from typing import Annotated

import typer

from adderclaw import config
from adderclaw.sandbox import caches
from adderclaw.terminal.commands.common import OutputFormat
from adderclaw.terminal.output import print_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove what no session uses now.")] = False,
    output_format: OutputFormat = "text",
) -> None:
    """Show what package managers have kept in the sandbox, or remove it.

    Each project has a cache of its own, for npm, yarn, pip, uv, cargo and go; nothing outside the sandbox uses it.

    Example: adderclaw cache
    """
    found = list(caches.kept(config.home()))
    gone = {one.folder for one in found if clear and caches.cleared(one.folder)}
    if output_format == "json":
        print_json({"caches": [{**one._asdict(), "cleared": one.folder in gone} for one in found]})
        return
    for one in found:
        state = "cleared" if one.folder in gone else "in use by a session" if clear else ""
        print(f"{one.size / (1 << 20):8.1f} MiB  {one.workspace}  {state}".rstrip())
    if not found:
        print("nothing is kept.")
