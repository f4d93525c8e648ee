"""`adderclaw attach`: the REPL on a running server."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from adderclaw.core.errors import UsageError
from adderclaw.core.types import Json
from adderclaw.terminal.commands.common import ConfigFile, ModelName, Profile, ProviderName, WorkspaceDir

if TYPE_CHECKING:
    from adderclaw.terminal.legacy.attach.lines import InLines
    from adderclaw.terminal.legacy.attach.link import Link
    from adderclaw.terminal.legacy.attach.screen import OnServer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def attach(
    conversation: Annotated[
        str | None, typer.Argument(metavar="[CONVERSATION]", help="Its id, or the beginning of it; else a new one.")
    ] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="The first message.")] = None,
    workspace: WorkspaceDir = None,
    profile: Profile = None,
    provider: ProviderName = None,
    model: ModelName = None,
    plain: Annotated[bool, typer.Option("--plain", help="Lines only, each printed once.")] = False,
    config: ConfigFile = None,
) -> None:
    """Open a conversation on the server of this home, or go on with one: it goes on when you leave.

    Without a terminal each line of stdin is a message, and answers go to stdout.

    Example: adderclaw attach
    """
    from adderclaw.terminal.legacy.attach import link

    wanted: Json = {"workspace": workspace, "profile": profile, "provider": provider, "model": model}
    asyncio.run(_attached(link.Link(config, "attach"), conversation, wanted, message, plain=plain))


async def _attached(link: "Link", conversation: str | None, wanted: Json, message: str | None, *, plain: bool) -> None:
    from adderclaw.terminal.legacy.attach.remote import Remote

    await link.connect()
    try:
        id: str | None = await _found(link, conversation, wanted)
        while id is not None:
            face = _face(plain=plain)
            id, message = await face.converse(Remote(link, id, face), message), None
    finally:
        await link.close()


def _face(*, plain: bool) -> "OnServer | InLines":
    from adderclaw.terminal.repl import is_screen

    if plain or not is_screen():
        from adderclaw.terminal.legacy.attach.lines import InLines

        return InLines()
    from adderclaw.terminal.legacy.attach.screen import OnServer
    from adderclaw.terminal.repl.terminal_mode import manner

    return OnServer(manner())


async def _found(link: "Link", name: str | None, wanted: Json) -> str:
    """The one that is meant, or a new one."""
    given = {key: value for key, value in wanted.items() if value is not None}
    if name is None:
        if "workspace" not in given:
            from adderclaw.config import load

            given["workspace"] = load(here=True).workspace
        return str((await link.post("/conversations", given))["id"])
    rows = (await link.get("/conversations", limit=500))["conversations"]
    found = [str(row["id"]) for row in rows if str(row["id"]).startswith(name)]
    found = [name] if name in found else found
    if len(found) != 1:
        fix = "give more of its id" if found else "`adderclaw memory list` shows them"
        raise UsageError(f"{'several conversations begin' if found else 'no conversation begins'} with {name!r}: {fix}")
    return str((await link.post("/conversations", {**given, "resume": found[0]}))["id"])
