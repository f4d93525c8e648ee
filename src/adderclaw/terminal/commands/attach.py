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
        str | None, typer.Argument(metavar="[CONVERSATION]", help="Its id or a prefix of it; default: a new one.")
    ] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="The first message.")] = None,
    workspace: WorkspaceDir = None,
    profile: Profile = None,
    provider: ProviderName = None,
    model: ModelName = None,
    plain: Annotated[bool, typer.Option("--plain", help="Print each line once; redraw nothing.")] = False,
    config: ConfigFile = None,
) -> None:
    """Open a conversation on the server of this home, or continue one. It keeps running when you leave.

    Without a terminal, each line of stdin is a message and answers go to stdout.

    Example: adderclaw attach
    """
    from adderclaw.terminal.legacy.attach import link

    settings: Json = {"workspace": workspace, "profile": profile, "provider": provider, "model": model}
    asyncio.run(_attach(link.Link(config, "attach"), conversation, settings, message, plain=plain))


async def _attach(link: "Link", conversation: str | None, settings: Json, message: str | None, *, plain: bool) -> None:
    from adderclaw.terminal.legacy.attach.remote import Remote

    await link.connect()
    try:
        id: str | None = await _conversation_id(link, conversation, settings)
        while id is not None:
            face = _channel(plain=plain)
            id, message = await face.converse(Remote(link, id, face), message), None
    finally:
        await link.close()


def _channel(*, plain: bool) -> "OnServer | InLines":
    from adderclaw.terminal.repl import is_screen

    if plain or not is_screen():
        from adderclaw.terminal.legacy.attach.lines import InLines

        return InLines()
    from adderclaw.terminal.legacy.attach.screen import OnServer
    from adderclaw.terminal.repl.terminal_mode import detect_mode

    return OnServer(detect_mode())


async def _conversation_id(link: "Link", name: str | None, settings: Json) -> str:
    """The id of the conversation with this prefix, or of a new one."""
    body = {key: value for key, value in settings.items() if value is not None}
    if name is None:
        if "workspace" not in body:
            from adderclaw.config import load

            body["workspace"] = load(here=True).workspace
        return str((await link.post("/conversations", body))["id"])
    rows = (await link.get("/conversations", limit=500))["conversations"]
    ids = [str(row["id"]) for row in rows if str(row["id"]).startswith(name)]
    ids = [name] if name in ids else ids
    if len(ids) != 1:
        fix = "give more of its id" if ids else "`adderclaw memory list` shows them"
        raise UsageError(f"{'several conversations begin' if ids else 'no conversation begins'} with {name!r}: {fix}")
    return str((await link.post("/conversations", {**body, "resume": ids[0]}))["id"])
