"""`adderclaw login`, `logout` and `auth status`: logins in secure storage, and which credentials are usable."""

import asyncio
import sys
from typing import Annotated

import typer

from adderclaw import config as configuration
from adderclaw.agent.run import Options, credentials
from adderclaw.agent.run.start import with_operators_own
from adderclaw.agent.session.clock import SystemClock
from adderclaw.config.schema import Config
from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import Secrets, visible
from adderclaw.models.credentials.login_flows import Method
from adderclaw.models.credentials.sources import Sources
from adderclaw.models.credentials.status import credential_rows
from adderclaw.terminal import provider_login
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, group
from adderclaw.terminal.output import print_json

app = group("Log in and out, and see which credentials can be used.")
auth_app = group("Which credentials can be used, and of which kind.")
app.add_typer(auth_app, name="auth")

Name = Annotated[str | None, typer.Argument(metavar="PROVIDER", help="A name under providers.models.")]


def _opened(config_file: str | None, *, bare: bool = False) -> tuple[Config, Sources]:
    loaded = with_operators_own(configuration.load(config_file=config_file))
    options = Options(config_file=config_file, bare=bare)
    return loaded.config, credentials(options, loaded, Secrets(), SystemClock())


# ------------------------------------------------------------------ login and logout


@app.command()
def login(
    provider: Name = None,
    method: Annotated[
        Method, typer.Option("--method", help="browser, device or paste; auto takes what this machine can do.")
    ] = "auto",
    config: ConfigFile = None,
) -> None:
    """Log in to a provider; its authorization server is configured in [auth.oauth.PROVIDER].

    The tokens are stored in the system's keyring, or in an encrypted file if there is none.

    Example: adderclaw login claude_code_subscription --method device
    """
    now, sources = _opened(config)
    name = provider_login.chosen_provider(provider, now)
    storage = asyncio.run(provider_login.log_in_to(sources, name, method))
    print(f"logged in to {visible(name)}; stored in {storage}")


@app.command()
def logout(
    provider: Name = None,
    everything: Annotated[bool, typer.Option("--all", help="Every login, readable or not.")] = False,
    config: ConfigFile = None,
) -> None:
    """Forget a login: removed from storage, and revoked where the provider has a revoke_url.

    Example: adderclaw logout claude_code_subscription
    """
    now, sources = _opened(config)
    names = list(now.auth.oauth) if everything else [provider_login.chosen_provider(provider, now)]
    complaints = asyncio.run(provider_login.log_out_of(sources, names))
    if everything:
        sources.logins().destroy_file()
        print("no logins are stored any more")
    for name, complaint in complaints.items():
        print(f"{visible(name)}: {complaint}", file=sys.stderr)
    if any(complaints.values()) and not everything:
        raise typer.Exit(1)


# ------------------------------------------------------------------ status


@auth_app.callback()
def _auth() -> None:
    """Which credentials can be used, and of which kind."""


@auth_app.command("status")
def status(
    provider: Name = None,
    bare: Annotated[bool, typer.Option("--bare", help="As `agent --bare` would see it.")] = False,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show for each provider whether a credential can be used, and where it comes from. Nothing is run or renewed.

    Exits with 0 when the named provider, or else the default one, is usable, and with 1 otherwise.

    Example: adderclaw auth status
    """
    now, sources = _opened(config, bare=bare)
    models = now.providers.models
    if provider is not None and provider not in models:
        raise UsageError(f"no provider has the name {provider!r}; known: {', '.join(sorted(models))}")
    names = [provider] if provider else list(models)
    rows = asyncio.run(credential_rows(sources, now, names))
    if output_format == "json":
        print_json(rows)
    else:
        for row in rows:
            print(provider_login.credential_line(row))
    asked = provider or now.default_provider
    if not next(row["usable"] for row in rows if row["provider"] == asked):
        raise typer.Exit(1)
