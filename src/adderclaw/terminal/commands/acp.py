"""`adderclaw acp`: an editor drives AdderClaw by the Agent Client Protocol on stdin and stdout."""

import asyncio
from typing import Annotated

import typer

from adderclaw.agent.run import Options
from adderclaw.core.types import Thinking
from adderclaw.terminal.commands.common import ConfigFile, EffortGiven, ModelName, Profile, ProviderName

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def acp(
    profile: Profile = None,
    provider: ProviderName = None,
    model: ModelName = None,
    effort: EffortGiven = None,
    config: ConfigFile = None,
    setup: Annotated[bool, typer.Option("--setup", help="Set up the model interactively, then exit.")] = False,
) -> None:
    """Serve the Agent Client Protocol on stdin and stdout for an editor, until stdin ends.

    Example: echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}' | adderclaw acp
    """
    if setup:
        from adderclaw.terminal.commands import setup as setup_commands
        from adderclaw.terminal.commands.common import run_typer

        run_typer("onboard", setup_commands, ["onboard"])
        return
    from adderclaw.clients.acp.serve import serve

    options = Options(
        config_file=config,
        provider=provider,
        model=model,
        thinking=Thinking(effort),
        profile=profile,
        asks="must",
        here=True,
    )
    raise typer.Exit(asyncio.run(serve(options)))
