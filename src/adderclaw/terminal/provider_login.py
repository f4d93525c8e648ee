"""Logs in to providers and out of them, and describes a credential: for the command line and the REPL."""

import sys

from adderclaw.config.schema import Config
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.models.credentials.login_flows import Method, Person, log_in
from adderclaw.models.credentials.oauth import OAuthError
from adderclaw.models.credentials.sources import Sources
from adderclaw.terminal.operators import STDIN


async def log_in_to(sources: Sources, name: str, method: Method) -> str:
    def tell(text: str) -> None:
        print(visible(text), file=sys.stderr, flush=True)

    logins = sources.logins()
    tokens = await log_in(logins.client(name), method, Person(tell, STDIN.read, sources.path()))
    return await logins.keep(name, tokens)


async def log_out_of(sources: Sources, names: list[str]) -> dict[str, str]:
    """Logs out of each and returns the problems by name. A login is forgotten even if it could not be revoked."""
    wrong: dict[str, str] = {}
    logins = sources.logins()
    for name in names:
        try:
            tokens = await logins.stored(name)
            was_stored = await logins.forget(name)
            print(f"logged out of {visible(name)}" if was_stored else f"there was no login of {visible(name)}")
            if tokens is not None:
                await logins.client(name).revoke(tokens)
        except OAuthError as error:
            wrong[name] = f"the login is forgotten here, but was not revoked: {error}"
        except AdderClawError as error:
            wrong[name] = str(error)
    return wrong


def chosen_provider(provider: str | None, now: Config) -> str:
    """The named provider; otherwise the default one, or the only one with an authorization server."""
    servers = now.auth.oauth
    if provider is None:
        only = next(iter(servers)) if len(servers) == 1 else None
        provider = now.default_provider if now.default_provider in servers else only
    if provider in servers:
        return provider
    known = ", ".join(sorted(servers)) or "none"
    what = f"{provider!r} has no authorization server" if provider else "say which provider"
    raise UsageError(f"{what}; [auth.oauth.NAME] in the configuration has: {known} (see docs/credentials.md)")


def credential_line(row: Json) -> str:
    mark = "*" if row["default"] else " "
    source = f" {row['source']}" if row["source"] and row["class"] != "login" else ""
    until = f", until {_time(row['expires_at'])}" if row["expires_at"] else ""
    note = f" ({row['note']})" if row["note"] else ""
    state = f"{'usable' if row['usable'] else 'not usable'}: {row['class']}{source}{until}{note}"
    return visible(f"{mark} {row['provider']:<26} {state}", keep_newlines=False)


def _time(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
