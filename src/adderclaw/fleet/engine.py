"""DBOS: its tables, which `fleet init` creates, and how many runs a worker takes from its queues."""

from typing import Any, Protocol

from adderclaw.fleet.database import Cursor


def migrate_engine(url: str) -> None:
    """Creates or upgrades the tables, like `dbos migrate`."""
    import logging

    from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

    from adderclaw.fleet import queue

    logging.getLogger("dbos").setLevel(logging.ERROR)
    config: DBOSConfig = {
        "name": queue.APPLICATION,
        "system_database_url": url.replace("postgres://", "postgresql://", 1),
        "executor_id": "init",
        "application_version": queue.VERSION,
        "serializer": DBOSPortableJSONSerializer(),
        "log_level": "ERROR",
    }
    engine: Any = DBOS(config=config)
    DBOS.listen_queues([])
    DBOS.launch()
    del engine
    DBOS.destroy()


def grant_engine(cursor: Cursor) -> None:
    """Grants workers all rights on the engine's rows, but none on its schema."""
    cursor.execute("GRANT USAGE ON SCHEMA dbos TO adderclaw_worker")
    cursor.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dbos TO adderclaw_worker")
    cursor.execute("REVOKE INSERT, UPDATE, DELETE ON dbos.dbos_migrations FROM adderclaw_worker")
    cursor.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA dbos TO adderclaw_worker")
    cursor.execute("GRANT USAGE ON SCHEMA dbos TO adderclaw_operator")  # pruning removes ended workflows
    cursor.execute("GRANT SELECT, DELETE ON dbos.workflow_status TO adderclaw_operator")


def refuse_pickles() -> None:
    """Refuses pickled rows. A row of the engine may name pickle as its serializer, which runs code when it is read.

    Every worker may write these rows, so one worker could run code in all others. The fleet's own rows are JSON.
    """
    from dbos import _serialization  # pyright: ignore[reportPrivateUsage]

    def refuse(_: Any, text: str) -> Any:
        raise ValueError(
            f"a row of the queue has {len(text)} characters of pickled data, but the fleet only writes JSON"
        )

    serializer: Any = _serialization.DefaultSerializer
    serializer.deserialize = refuse


class QueueLimiter(Protocol):
    """A worker that takes runs from queues."""

    def room(self, queue_name: str) -> int: ...

    def asks(self, queue_name: str) -> None: ...

    def took(self, queue_name: str, workflows: list[str]) -> None: ...


def limit_per_worker(worker: QueueLimiter) -> None:
    """Limits the runs that this worker takes to its free slots, and polls a queue only if there may be something.

    A queue of DBOS has one limit for all workers, a row of its table, and no public way to set one for each. So the row
    is read once, and the function that takes from the queue gets this worker's own limit. This is the only place that
    uses private names of DBOS (ADR 12).
    """
    from dbos import _sys_db  # pyright: ignore[reportPrivateUsage]

    database: Any = _sys_db.SystemDatabase
    read, take = database.get_queue, database.start_queued_workflows
    known: dict[str, Any] = {}

    def once(self: Any, name: str, *arguments: Any, **named: Any) -> Any:
        if known.get(name) is None:
            known[name] = read(self, name, *arguments, **named)
        return known[name]

    def own(self: Any, queue: Any, executor: str, version: str, key: Any, running: int, **named: Any) -> Any:
        room = worker.room(queue.name)  # 0 for the engine's internal queue
        if not room:
            return [], None
        queue._worker_concurrency = running + room
        worker.asks(queue.name)
        workflows, why = take(self, queue, executor, version, key, running, **named)
        worker.took(queue.name, workflows)
        return workflows, why

    database.get_queue, database.start_queued_workflows = once, own
