"""`adderclaw cache`: lists and removes the caches of package managers in the sandbox, by project."""

from typing import Annotated

import typer

from adderclaw import config
from adderclaw.sandbox import caches
from adderclaw.terminal.commands.common import OutputFormat
from adderclaw.terminal.output import print_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove caches that no session is using.")] = False,
    output_format: OutputFormat = "text",
) -> None:
    """Show or remove the caches of package managers in the sandbox.

    Each project has its own cache for npm, yarn, pip, uv, cargo and go; nothing outside the sandbox uses it.

    Example: adderclaw cache
    """
    folders = list(caches.project_caches(config.home()))
    gone = {row.folder for row in folders if clear and caches.remove_cache(row.folder)}
    if output_format == "json":
        print_json({"caches": [{**row._asdict(), "cleared": row.folder in gone} for row in folders]})
        return
    for row in folders:
        state = "cleared" if row.folder in gone else "in use by a session" if clear else ""
        print(f"{row.size / (1 << 20):8.1f} MiB  {row.workspace}  {state}".rstrip())
    if not folders:
        print("no caches")
