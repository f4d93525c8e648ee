"""`adderclaw rpc`: a program drives AdderClaw by JSON-RPC 2.0 on stdin and stdout."""

import asyncio

import typer

from adderclaw.agent.run import Options
from adderclaw.core.types import Thinking
from adderclaw.terminal.commands.common import ConfigFile, EffortGiven, ModelName, Profile, ProviderName, WorkspaceDir

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def rpc(
    profile: Profile = None,
    provider: ProviderName = None,
    model: ModelName = None,
    effort: EffortGiven = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
) -> None:
    """Serve JSON-RPC 2.0 on stdin and stdout, one message per line, until stdin ends.

    Example: echo '{"jsonrpc":"2.0","id":1,"method":"initialize"}' | adderclaw rpc
    """
    from adderclaw.clients.json_rpc.server import serve

    options = Options(
        config_file=config,
        workspace=workspace,
        provider=provider,
        model=model,
        thinking=Thinking(effort),
        profile=profile,
        headless=True,
        asks="must",
        here=True,
    )
    raise typer.Exit(asyncio.run(serve(options)))
