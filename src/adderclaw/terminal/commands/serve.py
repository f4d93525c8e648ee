"""`adderclaw serve`: HTTP on this machine, for programs and for people."""

from typing import Annotated

import typer

from adderclaw.agent.run import Options
from adderclaw.core.errors import UsageError
from adderclaw.core.types import Thinking
from adderclaw.terminal.commands.common import ConfigFile, EffortGiven, ModelName, Profile, ProviderName

app = typer.Typer(add_completion=False, rich_markup_mode=None)

PORT = 8423


@app.command()
def serve(
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; another than loopback needs TLS and a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="0: any that is free.")] = PORT,
    socket: Annotated[
        str | None, typer.Option("--socket", metavar="PATH", help="A Unix socket, too; it lies in the home.")
    ] = None,
    workspace: Annotated[
        list[str] | None,
        typer.Option(
            "--workspace",
            metavar="DIR",
            help="A folder that clients may open, again for each; by default this project.",
        ),
    ] = None,
    tls_cert: Annotated[str | None, typer.Option("--tls-cert", metavar="FILE", help="The certificate, PEM.")] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="Its key, PEM.")] = None,
    openai: Annotated[
        bool, typer.Option("--openai", help="An agent behind /v1/chat/completions and /v1/responses, too.")
    ] = False,
    profile: Profile = None,
    provider: ProviderName = None,
    model: ModelName = None,
    effort: EffortGiven = None,
    config: ConfigFile = None,
) -> None:
    """Serve the API and the dashboard until SIGTERM or Ctrl-C comes; what runs then ends at a safe point.

    Every client needs a token: `adderclaw token create NAME --scope …`.

    Example: adderclaw serve --port 8423
    """
    try:
        from adderclaw.server import listening, serving
    except ModuleNotFoundError as error:
        raise without_extra("serve", error) from error
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


def without_extra(command: str, error: ModuleNotFoundError) -> UsageError:
    """What to do where the server's own packages are not installed."""
    from adderclaw.config.installation import lacking

    return UsageError(f"`adderclaw {command}`: {lacking('server', error.name)}")
