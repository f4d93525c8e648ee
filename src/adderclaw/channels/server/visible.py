"""Which workspaces a client sees: what it asks for is of these alone."""

from dataclasses import replace

from adderclaw.channels.server.endpoint import Called
from adderclaw.config.options import Options

NONE = ("",)
"""No conversation was held there."""


def places(called: Called) -> tuple[str, ...]:
    """The folders whose conversations the client may look at; empty: all."""
    client, house = called.client, called.house
    if client.has("admin") or not client.folders:
        return ()
    held = [str(row[0]) for row in house.store.read("SELECT DISTINCT project_dir FROM conversations")]
    return tuple(folder for folder in held if client.sees(folder)) or NONE


def options(called: Called, workspace: str | None = None) -> Options:
    """Of the folder that the client names, or the first that it may open."""
    return replace(called.house.options, workspace=called.house.folder_for(called.client, workspace))
