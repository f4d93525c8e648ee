"""`adderclaw fleet`: runs on many machines, by PostgreSQL."""

import os
import socket
import sys
import time
from dataclasses import replace
from typing import Annotated

import typer

from adderclaw.config import home, load
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.fleet import anchors, controls, keys, requests, submit, where
from adderclaw.fleet.database import Database, create, migrate, shown
from adderclaw.fleet.where import Fleet
from adderclaw.terminal.commands import fleet_list, fleet_proof, fleet_submit
from adderclaw.terminal.commands.common import OutputFormat, said
from adderclaw.terminal.commands.fleet_common import DatabaseUrl, RunId, app, opened, who, whole_id
from adderclaw.terminal.commands.plain import print_json

MODULES = (fleet_list, fleet_submit, fleet_proof)
"""They add their commands to `app`."""


@app.command()
def init(
    database: Annotated[str, typer.Option("--database", metavar="URL", help="postgresql://USER@HOST:PORT/DATABASE")],
    objects: Annotated[
        str | None,
        typer.Option(
            "--objects",
            metavar="PLACE",
            help="Where states are kept: postgresql (or as before), a folder, s3://, gs:// or az://.",
        ),
    ] = None,
    output_format: OutputFormat = "text",
) -> None:
    """Make the fleet's tables, a key for what is stored, and fleet.toml in this home.

    Example: adderclaw fleet init --database postgresql://adderclaw@127.0.0.1:5432/adderclaw
    """
    from adderclaw.fleet.engine import grant_engine, migrate_engine

    at = os.path.abspath(objects) if objects and objects.startswith(("/", ".")) else objects
    chosen = where.anew(home(), database, at)
    create(database)
    fleet = Fleet(home(), chosen)
    applied = migrate(fleet.database)
    migrate_engine(database)
    fleet.database.do(grant_engine)
    key = keys.make(home())
    where.write_settings(home(), replace(chosen, public=keys.read(home()).boxes.public.hex()))
    if output_format == "json":
        print_json(
            {
                "database": shown(database),
                "objects": chosen.objects,
                "applied": applied,
                "key": key,
            }
        )
        return
    print(f"the fleet is in {shown(database)}; states go to {chosen.objects}")
    print(f"every worker needs {key} and {where.path(home())}; then `adderclaw fleet enroll`, `adderclaw fleet worker`")
    print(f"a machine that only submits needs {where.path(home())} and no key")


@app.command()
def enroll(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Of the worker; default: this host's.")] = None,
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Its public key; default: that of this home.")
    ] = None,
    submitter: Annotated[
        bool,
        typer.Option(
            "--submitter", help="Enroll a submitter instead of a worker; default: you, with the key of this home."
        ),
    ] = False,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Enroll a worker or a submitter in the fleet, by its name and its public key.

    Example: adderclaw fleet enroll builder-1
    """
    fleet = opened(database)
    if submitter:
        called = name or who()
        public = key or requests.identity(home(), called).public
        requests.enrol(fleet.database, called, public)
        text = f"submitter {called} is enrolled with the key {public}"
        said({"name": called, "public_key": public}, text, output_format)
        return
    called = name or socket.gethostname()
    public = key or anchors.identity(home(), called).public
    anchors.enrol(fleet.database, called, public)
    said({"name": called, "public_key": public}, f"worker {called} is enrolled with the key {public}", output_format)


@app.command()
def worker(
    slots: Annotated[int, typer.Option("--slots", min=1, max=256, help="Runs at once.")] = 2,
    labels: Annotated[
        list[str] | None, typer.Option("--labels", help="Also take runs with this label; again for each.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="As it is enrolled; default: this host's.")] = None,
    root: Annotated[
        str | None, typer.Option("--root", metavar="DIR", help="Where runs work; default: fleet-runs in this home.")
    ] = None,
    lease: Annotated[
        float, typer.Option("--lease", min=1, max=3600, help="Seconds of silence after which others take its runs.")
    ] = 30.0,
    save_every: Annotated[
        int, typer.Option("--save-every", min=0, help="Put a state away after so many tool calls, too; 0: never.")
    ] = 10,
    enrolls: Annotated[bool, typer.Option("--enroll", help="Enroll it first: for an operator's own machines.")] = False,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when nothing is queued any more.")] = False,
    database: DatabaseUrl = None,
) -> None:
    """Work on runs of the fleet until a signal ends it. SIGTERM gives its runs to others at once.

    Example: adderclaw fleet worker --slots 4 --labels gpu
    """
    from adderclaw.fleet.attempt import Means
    from adderclaw.fleet.tracing import Tracing
    from adderclaw.fleet.warm import RunForker
    from adderclaw.fleet.worker import Settings, Worker

    for label in labels or ():
        if requests.LABEL.fullmatch(label) is None:
            raise UsageError(f"--labels {label!r}: small letters, digits, - and _, at most 32")
    _confined()
    fleet = opened(database, patience=lease)
    means = Means(
        database=fleet.database,
        objects=fleet.objects(),
        key=fleet.key(),
        identity=anchors.identity(home(), name or socket.gethostname()),
        warm=RunForker(keys.environment_for_runs(os.environ)),
        home=home(),
        root=os.path.abspath(os.path.expanduser(root or os.path.join(home(), home_names.FLEET_RUNS))),
        tracing=Tracing(load().config),
        save_every=save_every,
        local_repos=fleet.where.local_repos,
    )
    if enrolls:
        anchors.enrol(fleet.database, means.identity.name, means.identity.public)
    Worker(means, Settings(slots, tuple(dict.fromkeys(labels or ())), lease, until_idle)).run()


def _confined() -> None:
    """A worker runs what others submit, and nobody is there to be asked: without a sandbox it takes nothing."""
    from adderclaw.sandbox import confinement

    if sys.platform != "linux":  # a run's processes are known by pidfd alone
        raise AdderClawError(f"a worker runs on Linux, and this system is {sys.platform}; submit runs from here")
    config = load().config
    if config.runtime.profile == "permissive" and not config.security.sandbox_required:
        return
    if confinement.probe(()) == "none":
        why = confinement.failures(())
        fix = 'install bubblewrap, or say that runs need none: profile = "permissive" under [runtime] in config.toml'
        raise AdderClawError(f"a worker needs an OS sandbox, and none starts on this system: {why}; {fix}")


@app.command()
def cancel(
    run_id: RunId,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """End a run, wherever it is. What it had begun is recorded.

    Example: adderclaw fleet cancel 20260512-140000-1f2e3d4c5b6a
    """
    fleet = opened(database)
    run = whole_id(fleet.database, run_id)
    was = submit.cancel(fleet.database, run, who())
    said({"run_id": run, "was": was}, f"run {run} had ended" if was == "ended" else f"run {run} ends", output_format)


@app.command()
def retry(
    run_id: RunId,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew, not from the last unit.")] = False,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Queue a run again that did not complete.

    Example: adderclaw fleet retry 20260512-140000-1f2e3d4c5b6a
    """
    fleet = opened(database)
    run = whole_id(fleet.database, run_id)
    submit.retry(fleet.database, run, fresh=fresh)
    said({"run_id": run, "state": "queued"}, f"run {run} is queued again", output_format)


HEARD = 5.0
"""Seconds that `fleet stop` waits for the workers' word; the stop itself stands before that."""
StopLabel = Annotated[str | None, typer.Option("--label", help="Only runs with this label.")]
StopRun = Annotated[str | None, typer.Option("--run", metavar="RUN_ID", help="Only this run.")]


@app.command()
def stop(
    label: StopLabel = None,
    run: StopRun = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; every run that it ends says so.")] = "",
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Stop every run on every worker, now and until `fleet resume`: the emergency stop of the fleet.

    Example: adderclaw fleet stop --reason "the key leaked"
    """
    fleet = opened(database)
    scope, name = _scope(fleet.database, label, run)
    control = controls.stop(fleet.database, scope, name, reason, who())
    limit = time.monotonic() + HEARD
    while True:
        workers = controls.stop_receipts(fleet.database, control)
        if all(one.ended is not None for one in workers) or time.monotonic() > limit:
            break
        time.sleep(0.1)
    silent = [one.worker for one in workers if one.heard is None]
    slow = [one.worker for one in workers if one.heard is not None and one.ended is None]
    ended = [one.ended for one in workers if one.ended is not None]
    lines = [f"stopped: {scope} {name}".rstrip()]
    if ended:
        runs = sum(one.runs for one in workers)
        lines.append(f"{len(ended)} workers have ended {runs} runs; the last after {max(ended):.1f} s")
    lines += [f"still ending runs: {', '.join(slow)}"] if slow else []
    if silent:
        lines.append(
            f"not heard from: {', '.join(silent)}; what they run ends when they hear it, or their lease is over"
        )
    facts = [{"id": one.worker, "heard": one.heard, "ended": one.ended, "runs": one.runs} for one in workers]
    said({"scope": scope, "name": name, "workers": facts}, "\n".join(lines), output_format)


@app.command()
def resume(
    label: StopLabel = None, run: StopRun = None, database: DatabaseUrl = None, output_format: OutputFormat = "text"
) -> None:
    """Clear a stop: the runs that it ended or held go on from their last unit.

    Example: adderclaw fleet resume
    """
    fleet = opened(database)
    scope, name = _scope(fleet.database, label, run)
    count = controls.resume(fleet.database, scope, name)
    said({"scope": scope, "name": name, "runs": count}, f"resumed: {count} runs are queued again", output_format)


@app.command()
def drain(
    worker_name: Annotated[str, typer.Argument(metavar="WORKER", help="Its name, or its id in `fleet show`.")],
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Let a worker finish what it has, take nothing more, and end.

    Example: adderclaw fleet drain builder-1
    """
    rows = opened(database).database.rows(
        "UPDATE fleet.workers SET draining = true WHERE (id = %s OR name = %s) AND ended IS NULL RETURNING id",
        worker_name,
        worker_name,
    )
    if not rows:
        raise UsageError(f"no worker {worker_name!r} is running; `adderclaw fleet show` lists them")
    said({"workers": [row.id for row in rows]}, f"{', '.join(row.id for row in rows)} drains", output_format)


def _scope(database: Database, label: str | None, run: str | None) -> tuple[str, str]:
    if label is not None and run is not None:
        raise UsageError("--label and --run each say what is meant: give one of them")
    if label is not None:
        return "label", label
    return ("run", whole_id(database, run)) if run is not None else ("fleet", "")
