"""The `events` table: queues every event as a row for the next transaction."""

from adderclaw.core.events import EventRecord, Sink
from adderclaw.storage import Store
from adderclaw.storage.text import compact, sql_time

_INSERT = "INSERT INTO events(conversation_id, session_id, timestamp, event_type, detail) VALUES (?, ?, ?, ?, ?)"


def sink(store: Store) -> Sink:
    def tell(record: EventRecord) -> None:
        detail = {"run_id": record.run_id, "span_id": record.span_id, **record.payload}
        store.write_later(
            _INSERT,
            (
                record.conversation_id,
                record.session_id or None,
                sql_time(record.timestamp),
                record.event_type,
                compact(detail),
            ),
        )

    return tell
