"""`adderclaw serve`: HTTP on this machine, for programs and for people."""

from typing import Annotated

import typer

from adderclaw.agent.run import Options
from adderclaw.core.types import Thinking
from adderclaw.terminal.commands.common import ConfigFile, EffortGiven, ModelName, Profile, ProviderName

app = typer.Typer(add_completion=False, rich_markup_mode=None)

PORT = 8423


@app.command()
def serve(
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; any other than loopback needs TLS and a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="The port; 0: any free one.")] = PORT,
    socket: Annotated[
        str | None,
        typer.Option("--socket", metavar="PATH", help="Also listen on a Unix socket; it must be in the home."),
    ] = None,
    workspace: Annotated[
        list[str] | None,
        typer.Option(
            "--workspace", metavar="DIR", help="A folder that clients may open; repeatable. Default: this project."
        ),
    ] = None,
    tls_cert: Annotated[str | None, typer.Option("--tls-cert", metavar="FILE", help="The certificate, PEM.")] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="Its key, PEM.")] = None,
    openai: Annotated[
        bool, typer.Option("--openai", help="Also serve an agent at /v1/chat/completions and /v1/responses.")
    ] = False,
    profile: Profile = None,
    provider: ProviderName = None,
    model: ModelName = None,
    effort: EffortGiven = None,
    config: ConfigFile = None,
) -> None:
    """Serve the API and the dashboard until SIGTERM or Ctrl-C; active runs then end at a safe point.

    Every client needs a token: `adderclaw token create NAME --scope …`.

    Example: adderclaw serve --port 8423
    """
    from adderclaw.server import listening, serving

    options = Options(
        config_file=config,
        provider=provider,
        model=model,
        thinking=Thinking(effort),
        profile=profile,
        log_level="warning",
        headless=False,
        asks="maybe",
        here=True,
    )
    where = listening.Listen(host, port, socket, tls_cert, tls_key)
    raise typer.Exit(serving.serve(options, workspace or [], where, openai=openai))
