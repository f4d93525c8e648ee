"""`adderclaw fleet`: runs on many machines, coordinated by PostgreSQL."""

import os
import socket
import sys
import time
from dataclasses import replace
from typing import Annotated

import typer

# first: it says how to install the extra if that is missing
from adderclaw.terminal.commands.fleet_common import DatabaseUrl, RunId, app, full_run_id, open_fleet, submitter_name

# isort: split

from adderclaw.config import home, load
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.fleet import controls, identities, keys, requests, submit, where
from adderclaw.fleet.database import Database, create, migrate, shown
from adderclaw.fleet.where import Fleet
from adderclaw.terminal.commands import fleet_list, fleet_proof, fleet_submit
from adderclaw.terminal.commands.common import OutputFormat, print_result
from adderclaw.terminal.output import print_json

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
            help="Where states are stored: postgresql (or as before), a folder, s3://, gs:// or az://.",
        ),
    ] = None,
    output_format: OutputFormat = "text",
) -> None:
    """Create the fleet's tables, its storage key, and fleet.toml in this home.

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
        print_json({"database": shown(database), "objects": chosen.objects, "applied": applied, "key": key})
        return
    print(f"the fleet uses {shown(database)}; states are stored in {chosen.objects}")
    print(f"every worker needs {key} and {where.path(home())}; then `adderclaw fleet enroll`, `adderclaw fleet worker`")
    print(f"a machine that only submits needs {where.path(home())} and no key")


@app.command()
def enroll(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The worker's name; default: this host's.")
    ] = None,
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Its public key; default: the key of this home.")
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
    """Enroll a worker or a submitter with its name and public key.

    Example: adderclaw fleet enroll builder-1
    """
    fleet = open_fleet(database)
    if submitter:
        called = name or submitter_name()
        public = key or requests.identity(home(), called).public
        requests.enrol(fleet.database, called, public)
        text = f"submitter {called} is enrolled with the key {public}"
        print_result({"name": called, "public_key": public}, text, output_format)
        return
    called = name or socket.gethostname()
    public = key or identities.identity(home(), called).public
    identities.enrol(fleet.database, called, public)
    print_result(
        {"name": called, "public_key": public}, f"worker {called} is enrolled with the key {public}", output_format
    )


@app.command()
def worker(
    slots: Annotated[int, typer.Option("--slots", min=1, max=256, help="How many runs at a time.")] = 2,
    labels: Annotated[
        list[str] | None, typer.Option("--labels", help="Also take runs with this label; repeatable.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The enrolled name; default: this host's.")] = None,
    root: Annotated[
        str | None, typer.Option("--root", metavar="DIR", help="The folder for runs; default: fleet-runs in this home.")
    ] = None,
    lease: Annotated[
        float,
        typer.Option(
            "--lease", min=1, max=3600, help="Seconds without a heartbeat after which other workers take its runs."
        ),
    ] = 30.0,
    save_every: Annotated[
        int, typer.Option("--save-every", min=0, help="Also save the state after N tool calls; 0: never.")
    ] = 10,
    enrolls: Annotated[bool, typer.Option("--enroll", help="Enroll this worker first: for your own machines.")] = False,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Exit when the queue is empty.")] = False,
    database: DatabaseUrl = None,
) -> None:
    """Work on runs of the fleet until a signal ends it. SIGTERM hands its runs to other workers at once.

    Example: adderclaw fleet worker --slots 4 --labels gpu
    """
    from adderclaw.fleet.attempt import Means
    from adderclaw.fleet.tracing import Tracing
    from adderclaw.fleet.warm import RunForker
    from adderclaw.fleet.worker import Settings, Worker

    for label in labels or ():
        if requests.LABEL.fullmatch(label) is None:
            raise UsageError(f"--labels {label!r}: use lower-case letters, digits, - and _, at most 32")
    _check_confinement()
    fleet = open_fleet(database, patience=lease)
    means = Means(
        database=fleet.database,
        objects=fleet.objects(),
        key=fleet.key(),
        identity=identities.identity(home(), name or socket.gethostname()),
        warm=RunForker(keys.environment_for_runs(os.environ)),
        home=home(),
        root=os.path.abspath(os.path.expanduser(root or os.path.join(home(), home_names.FLEET_RUNS))),
        tracing=Tracing(load().config),
        save_every=save_every,
        local_repos=fleet.where.local_repos,
    )
    if enrolls:
        identities.enrol(fleet.database, means.identity.name, means.identity.public)
    Worker(means, Settings(slots, tuple(dict.fromkeys(labels or ())), lease, until_idle)).run()


def _check_confinement() -> None:
    """Refuses a worker without a sandbox: it runs what others submit, and nobody can be asked."""
    from adderclaw.sandbox import confinement

    if sys.platform != "linux":  # a run's processes are tracked by pidfd
        raise AdderClawError(f"a worker needs Linux, and this system is {sys.platform}; you can submit runs from here")
    config = load().config
    if config.runtime.profile == "permissive" and not config.security.sandbox_required:
        return
    if confinement.probe(()) == "none":
        why = confinement.failure_reasons(())
        fix = 'install bubblewrap, or say that runs need none: profile = "permissive" under [runtime] in config.toml'
        raise AdderClawError(f"a worker needs an OS sandbox, and none starts on this system: {why}; {fix}")


@app.command()
def cancel(run_id: RunId, database: DatabaseUrl = None, output_format: OutputFormat = "text") -> None:
    """End a run on any worker. Calls it had started are recorded.

    Example: adderclaw fleet cancel 20260512-140000-1f2e3d4c5b6a
    """
    fleet = open_fleet(database)
    run = full_run_id(fleet.database, run_id)
    was = submit.cancel(fleet.database, run, submitter_name())
    print_result(
        {"run_id": run, "was": was}, f"run {run} had ended" if was == "ended" else f"run {run} ends", output_format
    )


@app.command()
def retry(
    run_id: RunId,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over instead of from the last unit.")] = False,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Queue a run that did not complete again.

    Example: adderclaw fleet retry 20260512-140000-1f2e3d4c5b6a
    """
    fleet = open_fleet(database)
    run = full_run_id(fleet.database, run_id)
    submit.retry(fleet.database, run, fresh=fresh)
    print_result({"run_id": run, "state": "queued"}, f"run {run} is queued again", output_format)


HEARD = 5.0
"""Seconds that `fleet stop` waits for the workers to confirm; the stop takes effect before that."""
StopLabel = Annotated[str | None, typer.Option("--label", help="Only runs with this label.")]
StopRun = Annotated[str | None, typer.Option("--run", metavar="RUN_ID", help="Only this run.")]


@app.command()
def stop(
    label: StopLabel = None,
    run: StopRun = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; every run it ends reports this.")] = "",
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Stop every run on every worker until `fleet resume`: the emergency stop of the fleet.

    Example: adderclaw fleet stop --reason "the key leaked"
    """
    fleet = open_fleet(database)
    scope, name = _scope(fleet.database, label, run)
    control = controls.stop(fleet.database, scope, name, reason, submitter_name())
    limit = time.monotonic() + HEARD
    while True:
        workers = controls.stop_receipts(fleet.database, control)
        if all(worker.ended is not None for worker in workers) or time.monotonic() > limit:
            break
        time.sleep(0.1)
    silent = [worker.worker for worker in workers if worker.heard is None]
    slow = [worker.worker for worker in workers if worker.heard is not None and worker.ended is None]
    ended = [worker.ended for worker in workers if worker.ended is not None]
    lines = [f"stopped: {scope} {name}".rstrip()]
    if ended:
        runs = sum(worker.runs for worker in workers)
        lines.append(f"{len(ended)} workers ended {runs} runs; the last after {max(ended):.1f} s")
    lines += [f"still ending runs: {', '.join(slow)}"] if slow else []
    if silent:
        lines.append(
            f"no answer from: {', '.join(silent)}; their runs end when they see the stop, or when their lease expires"
        )
    facts = [
        {"id": worker.worker, "heard": worker.heard, "ended": worker.ended, "runs": worker.runs} for worker in workers
    ]
    print_result({"scope": scope, "name": name, "workers": facts}, "\n".join(lines), output_format)


@app.command()
def resume(
    label: StopLabel = None, run: StopRun = None, database: DatabaseUrl = None, output_format: OutputFormat = "text"
) -> None:
    """Clear a stop. The runs it ended or held continue from their last unit.

    Example: adderclaw fleet resume
    """
    fleet = open_fleet(database)
    scope, name = _scope(fleet.database, label, run)
    count = controls.resume(fleet.database, scope, name)
    print_result(
        {"scope": scope, "name": name, "runs": count}, f"resumed: {count} runs are queued again", output_format
    )


@app.command()
def drain(
    worker_name: Annotated[str, typer.Argument(metavar="WORKER", help="Its name, or its id as in `fleet show`.")],
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Let a worker finish its runs, take no more, and exit.

    Example: adderclaw fleet drain builder-1
    """
    rows = open_fleet(database).database.rows(
        "UPDATE fleet.workers SET draining = true WHERE (id = %s OR name = %s) AND ended IS NULL RETURNING id",
        worker_name,
        worker_name,
    )
    if not rows:
        raise UsageError(f"no worker {worker_name!r} is running; list workers with `adderclaw fleet show`")
    print_result({"workers": [row.id for row in rows]}, f"{', '.join(row.id for row in rows)} drains", output_format)


def _scope(database: Database, label: str | None, run: str | None) -> tuple[str, str]:
    if label is not None and run is not None:
        raise UsageError("--label and --run cannot be combined: use only one")
    if label is not None:
        return "label", label
    return ("run", full_run_id(database, run)) if run is not None else ("fleet", "")
