"""`adderclaw notices`: lists and tests the targets of notices, and shows the last ones."""

import sys
from typing import Annotated, Literal

import typer

from adderclaw.agent.queries import loaded, notices, read_only
from adderclaw.config import home
from adderclaw.config.legacy.options import Options
from adderclaw.config.notice_targets import STORED
from adderclaw.core.decode import unknown_key_hint
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, group, print_result
from adderclaw.terminal.output import print_json

app = group("Where notices are sent when something needs you or is done; try them, and see what became of the last.")

MOST_SECRET = 8_192


@app.command("list")
def list_targets(config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """List the targets and their known problems. Nothing is sent.

    Example: adderclaw notices list
    """
    rows = notices.targets(Options(config_file=config))
    if output_format == "json":
        print_json(rows)
        return
    for row in rows:
        state = "" if row["enabled"] else "  (switched off)"
        waits = f"  {row['waiting']} waiting" if row["waiting"] else ""
        print(f"{row['name']:<16} {row['kind']:<8} {row['to']}{state}{waits}")
        print(f"{'':<16} {'':<8} on: {', '.join(row['on'])}; {row['detail']}")
        if row["problem"]:
            print(f"{'':<16} {'':<8} problem: {row['problem']}")
    if not rows:
        print(f"{notices.NO_TARGETS}; {notices.SHOWN}")


@app.command("test")
def try_targets(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only this target.")] = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Send a real notice to one target or to all, and report each result. Exits with 1 if one did not arrive.

    Example: adderclaw notices test phone
    """
    results = notices.tried(Options(config_file=config), name)
    if output_format == "json":
        print_json(results)
    else:
        for row in results:
            word = "delivered" if row["delivered"] else f"not delivered: {row['error']}"
            print(f"{row['target']} ({row['kind']}): {word} ({row['seconds']:g} s)")
    if not all(row["delivered"] for row in results):
        raise typer.Exit(AdderClawError.exit_code)


@app.command()
def history(
    target: Annotated[str, typer.Option("--target", help="Only notices to this target.")] = "",
    state: Annotated[
        Literal["all", "waiting", "sent", "failed", "moot"], typer.Option("--state", help="Only those in this state.")
    ] = "all",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many of the last ones.")] = 20,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """List the last notices, the newest first: sent, waiting, failed with the reason, or moot.

    Example: adderclaw notices history --state failed
    """
    state_filter = "" if state == "all" else state
    rows = notices.history(Options(config_file=config), limit=limit, target=target, state=state_filter)
    if output_format == "json":
        print_json(rows)
        return
    for row in rows:
        tries = f" after {row['attempts']} attempts" if row["attempts"] > 1 else ""
        print(f"{row['created_at']}  {row['target']}  {row['kind']}  {row['state']}{tries}  {row['title']}")
        if row["error"]:
            print(f"  {row['error']}")
    if not rows:
        print("no notices yet" if state == "all" and not target else "no notice matches")


@app.command()
def secret(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A target.")],
    part: Annotated[Literal["url", "secret", "token", "password"], typer.Argument(metavar="url|secret|token|password")],
    new: Annotated[bool, typer.Option("--new", help="Create a signing secret, store it, and print it once.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Remove the stored secret.")] = False,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Store a target's secret in the keyring or the encrypted file instead of an environment variable.

    It is read from stdin, or asked for at a terminal. The target uses it if it has `stored = ["secret"]`.

    Example: adderclaw notices secret phone secret --new
    """
    import asyncio

    from adderclaw.agent.notices.letter import stored_name
    from adderclaw.agent.session.clock import SystemClock
    from adderclaw.core.redaction import Secrets
    from adderclaw.models.credentials.stored_logins import Logins

    settings = loaded(read_only(Options(config_file=config))).config
    _check(settings.notices.targets, name, part)
    logins = Logins(settings.auth, home(), Secrets(), SystemClock())
    if forget:
        was = asyncio.run(logins.forget(stored_name(name, part)))
        print_result(
            {"target": name, "part": part, "removed": was}, "removed" if was else "nothing was stored", output_format
        )
        return
    if new and part != "secret":
        raise UsageError(f"--new makes a signing secret; a {part} comes from the receiver")
    text = _make_secret() if new else _read_secret(name, part)
    where = asyncio.run(logins.keep_text(stored_name(name, part), text))
    target = settings.notices.targets[name]
    fix = "" if part in target.stored else f'; add stored = ["{part}"] to [notices.targets.{name}] so that it counts'
    row = {"target": name, "part": part, "stored": where} | ({"secret": text} if new else {})
    shown = f"\nthe receiver needs this secret, which is shown only once: {text}" if new else ""
    print_result(row, f"stored in {where}{fix}{shown}", output_format)


def _check(known: "dict[str, notices.NoticeTarget]", name: str, part: str) -> None:
    if name not in known:
        raise UsageError(f"there is no target {name!r} under [notices.targets]{unknown_key_hint(name, list(known))}")
    parts = STORED[known[name].kind]
    if part not in parts:
        there = ", ".join(parts) or "no secret"
        raise UsageError(f"a target of kind {known[name].kind!r} has {there}, not a {part}")


def _make_secret() -> str:
    from adderclaw.models.http.signing import new_secret

    return new_secret()


def _read_secret(name: str, part: str) -> str:
    """Reads the secret from stdin; at a terminal the input is hidden."""
    if sys.stdin.isatty():
        from getpass import getpass

        text = getpass(f"The {part} of {name}: ")
    else:
        text = sys.stdin.read(MOST_SECRET + 1)
    text = text.strip()
    if not text or len(text) > MOST_SECRET:
        raise UsageError(f"give the {part} on standard input, in one line of at most {MOST_SECRET:,} characters")
    if part == "secret":
        from adderclaw.models.http.signing import key_of

        for address in text.split():
            key_of(address)
    return text
