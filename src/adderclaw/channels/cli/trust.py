"""`adderclaw trust`: let a project's configuration count in full, as it is now."""

import os
import time
from typing import Annotated

import typer

from adderclaw.channels.cli.common import OutputFormat, print_json
from adderclaw.config import home, load, places
from adderclaw.config import trust as trusted
from adderclaw.credentials.redaction import visible
from adderclaw.errors import AdderClawError, ConfigError, UsageError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def trust(
    path: Annotated[str | None, typer.Argument(metavar="[PATH]", help="The project; default: this one.")] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the trusted projects.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Trust this project no longer.")] = False,
    output_format: OutputFormat = "text",
) -> None:
    """Trust what a project's configuration files say, as they are now. One changed byte, and it is asked again.

    Example: adderclaw trust .
    """
    if listing:
        _list(as_json=output_format == "json")
        return
    project = _project(path)
    try:
        if revoke:
            _revoke(project, as_json=output_format == "json")
        else:
            _record(project, as_json=output_format == "json")
    except OSError as error:
        raise AdderClawError(f"{trusted.place(home())} cannot be written: {error.strerror}") from None


def _project(path: str | None) -> str:
    request = places.request(None, path, None, None)
    project = request.workspace or request.project or request.cwd
    if not os.path.isdir(project):
        raise UsageError(f"{path}: there is no such directory")
    return os.path.realpath(project)


def _list(*, as_json: bool) -> None:
    known = trusted.known(home())
    rows = [
        {"project": project, **entry, "current": trusted.trusts(known, project, _fingerprint(project))}
        for project, entry in sorted(known.items())
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        state = "trusted" if row["current"] else "changed since, so no longer trusted"
        say(f"{row['project']}  {row.get('sha256')}  {row.get('trusted_at')}  {state}")
    if not rows:
        print("no project is trusted")


def _fingerprint(project: str) -> trusted.Fingerprint:
    try:
        return trusted.fingerprint(trusted.contents(project))
    except ConfigError:  # a file that cannot be read is a change
        return trusted.Fingerprint("", {})


def _revoke(project: str, *, as_json: bool) -> None:
    revoked = trusted.revoke(home(), project)
    if as_json:
        print_json({"project": project, "revoked": revoked})
    else:
        say(f"{project} {'is no longer trusted' if revoked else 'was not trusted'}")


def _record(project: str, *, as_json: bool) -> None:
    found = trusted.fingerprint(trusted.contents(project))
    ignored = _ignored(project)
    if found.files:
        trusted.record(home(), project, found, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    if as_json:
        print_json({"project": project, "trusted": bool(found.files), "sha256": found.sha256, "files": found.files})
        return
    if not found.files:
        say(f"{project} has no configuration files: there is nothing to trust")
        return
    for name, sha256 in found.files.items():
        say(f"{sha256}  {name}")
    for warning in ignored:
        say(f"until now: {warning}")
    say(f"trusted: {project} ({found.sha256})")


def _ignored(project: str) -> tuple[str, ...]:
    """What was held back so far, so that the operator sees what begins to count."""
    try:
        return load(workspace=project).warnings
    except ConfigError as error:
        return tuple(map(str, error.problems))


def say(line: str) -> None:
    """A line that may hold a path or a file's words: it must not steer the terminal."""
    print(visible(line, keep_newlines=False))
