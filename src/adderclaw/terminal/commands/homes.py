"""`adderclaw backup`, `restore` and `uninstall`: a home as a whole."""

import signal
import sys
import time
from typing import Annotated

import typer

from adderclaw.agent.queries import clean
from adderclaw.config import home
from adderclaw.core.json_text import to_json
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, print_result

app = typer.Typer(add_completion=False, rich_markup_mode=None)

PROGRESS_SECONDS = 2.0
"""Seconds between two lines of progress."""


class ProgressPrinter:
    """Prints the progress of long work on stderr, and nothing for short work."""

    def __init__(self, what: str) -> None:
        self._what, self._last = what, time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if total and time.monotonic() - self._last > PROGRESS_SECONDS:
            self._last = time.monotonic()
            print(f"{self._what}: {100 * done // total} %", file=sys.stderr, flush=True)


def exit_on_signals() -> None:
    """Turns SIGTERM and SIGHUP into an exit, so that unfinished files are removed first."""

    def leave(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, leave)


@app.command()
def backup(
    target: Annotated[str, typer.Argument(metavar="FILE|DIR", help="The file to write, or a folder for it.")],
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Include the keys of receipts, logins, webhooks and the fleet.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite FILE if it exists.")] = False,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Write the home to one file, even while sessions run: database, receipts, run folders, settings, trust, plugins.

    The copy shows one moment. Its database is checked for damage and its receipts are verified; the exit code is 1 if
    either is wrong, and such a backup never replaces an earlier one. Secrets are included only if you ask for them, and
    the system's keyring never.

    Example: adderclaw backup ~/backups/
    """
    from adderclaw.storage.backup import backup as backups

    exit_on_signals()
    done = backups.backup(
        home(), target, config=config, secrets=with_secrets, replace=replace, progress=ProgressPrinter("backup")
    )
    print_result(clean(to_json(done)), clean("\n".join(backups.describe(done))), output_format)
    raise typer.Exit(0 if done.good else 1)


@app.command()
def restore(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file written by `adderclaw backup`.")],
    to: Annotated[
        str | None, typer.Option("--to", metavar="HOME", help="Restore to this home instead of the usual one.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Set the existing home aside; nothing may be using it.")
    ] = False,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Restore even if the receipts do not verify.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything and change nothing.")] = False,
    output_format: OutputFormat = "text",
) -> None:
    """Restore a home from a backup, after every byte and every receipt is checked.

    The home must be missing or empty. With --replace an existing one is renamed, and its secrets are used if the
    backup has none.

    Example: adderclaw restore ~/backups/adderclaw-20260512-140000Z.zip --replace
    """
    from adderclaw.storage.backup import restore as restoring

    exit_on_signals()
    done = restoring.restore(
        file, to or home(), replace=replace, unverified=unverified, dry_run=dry_run, progress=ProgressPrinter("restore")
    )
    print_result(
        clean({**to_json(done), "dry_run": dry_run}),
        clean("\n".join(restoring.describe(done, dry_run=dry_run))),
        output_format,
    )


@app.command()
def uninstall(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Really remove it; this cannot be undone.")] = False,
    output_format: OutputFormat = "text",
) -> None:
    """List what this program created on this machine, or remove it: home, caches, service, completions, logins.

    Without --yes nothing is removed. Run folders in your projects and lines of your crontab are listed and left.

    Example: adderclaw uninstall --dry-run
    """
    from adderclaw.terminal import uninstall as removal

    done = removal.uninstall(home(), really=yes and not dry_run)
    print_result(clean(done.as_json()), clean("\n".join(removal.result_lines(done))), output_format)
    raise typer.Exit(0 if done.complete else 1)
