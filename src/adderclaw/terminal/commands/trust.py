"""`adderclaw trust`: trusts a project's configuration as it is now."""

import os
import sys
import time
from typing import Annotated

import typer

from adderclaw.config import home, places
from adderclaw.config.plugins.preview import seen
from adderclaw.config.trust import trust as trusted
from adderclaw.core.errors import AdderClawError, ConfigError, UsageError
from adderclaw.core.json_text import canonical
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json
from adderclaw.terminal.commands.common import OutputFormat, print_line
from adderclaw.terminal.output import print_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def trust(
    path: Annotated[str | None, typer.Argument(metavar="[PATH]", help="The project folder; default: this one.")] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the trusted projects.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Show what would become active without trusting it.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Stop trusting this project.")] = False,
    output_format: OutputFormat = "text",
) -> None:
    """Trust a project as it is now: its configuration, hooks, MCP servers, plugins, skills, and the scripts
    they name. One hash covers all of it; after any change you are asked again.

    Example: adderclaw trust --show .
    """
    if listing:
        _list(as_json=output_format == "json")
        return
    project = _project(path)
    try:
        if revoke:
            revoked = trusted.revoke(home(), project)
            if output_format == "json":
                print_json({"project": project, "revoked": revoked})
            else:
                print_line(f"{project} {'is no longer trusted' if revoked else 'was not trusted'}")
        else:
            _record(project, only_show=show, as_json=output_format == "json")
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
        print_line(f"{row['project']}  {row.get('sha256')}  {row.get('trusted_at')}  {state}")
    if not rows:
        print("no project is trusted")


def _fingerprint(project: str) -> trusted.Fingerprint:
    try:
        return trusted.survey(project)
    except ConfigError:  # a file that cannot be read is a change
        return trusted.Fingerprint("", {})


def _record(project: str, *, only_show: bool, as_json: bool) -> None:
    fingerprint = trusted.survey(project)
    table = trusted.known(home())
    was = trusted.trusts(table, project, fingerprint)
    begins = _active_parts(project, fingerprint)
    hooks, warnings = _scripts(project)
    brings = bool(fingerprint.files or hooks)
    if brings and not only_show:
        trusted.record(home(), project, fingerprint, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), hooks)
    if as_json:
        report: Json = {"project": project, "trusted": brings and (was or not only_show)}
        report |= {"sha256": fingerprint.sha256, "files": fingerprint.files, "hooks": hooks, "active": begins}
        print_json(
            Secrets().clean({**report, "changed": trusted.changes(table, project, fingerprint), "warnings": warnings})
        )
        return
    if not brings:
        print_line(f"{project} has nothing that runs code or loosens security: there is nothing to trust")
        return
    for name, sha256 in fingerprint.files.items():
        print_line(f"{sha256}  {name}")
    for name, sha256 in hooks.items():
        if name not in fingerprint.files:
            print_line(f"{sha256}  {name} (named by one of your hooks)")
    for change in trusted.changes(table, project, fingerprint):
        print_line(f"since it was trusted: {change}")
    for row in begins:
        print_line(f"active: {row['what']} {row['name']}: {_short_value(row['value'])}{_trusted_before(row['now'])}")
    for warning in warnings:
        print(f"adderclaw: {seen(warning)}", file=sys.stderr)
    if only_show:
        print_line(f"{'trusted' if was else 'not trusted'}: {project} ({fingerprint.sha256})")
    else:
        print_line(f"trusted: {project} ({fingerprint.sha256})")


def _scripts(project: str) -> tuple[dict[str, str], list[str]]:
    """The files that hooks would run, and which of them are missing.

    A configuration that is not valid has no hooks, and says so for itself.
    """
    from adderclaw.agent.run import configured_hooks

    try:
        return configured_hooks.hashes(project), configured_hooks.incomplete(project)
    except ConfigError:
        return {}, []


def _active_parts(project: str, fingerprint: trusted.Fingerprint) -> list[Json]:
    """What becomes active; for an invalid configuration, its problems."""
    from adderclaw.config.trust.preview import active

    try:
        return active(project, fingerprint)
    except ConfigError as error:
        return [
            {"what": "problem", "name": problem.file, "value": problem.message, "now": None, "origin": problem.file}
            for problem in error.problems
        ]


def _short_value(value: object) -> str:
    """The whole value on one line: a command that would run must not be shortened or redacted."""
    text = value if isinstance(value, str) else canonical(value)
    return str(seen(text))


def _trusted_before(value: object) -> str:
    return f" (until now: {_short_value(value)})" if value not in (None, [], {}, "") else ""
