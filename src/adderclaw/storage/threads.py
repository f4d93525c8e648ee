"""Conversations of external senders, looked up by sender and thread, and the cost of each sender."""

from adderclaw.storage import Store
from adderclaw.storage.text import plain, sql_time

CLIENT = "webhook"
"""The prefix of client ids for such senders."""


def client_id(channel: str, sender: str) -> str:
    """The client id of a sender. Channel names contain no colon, so ids are unique."""
    return f"{CLIENT}:{channel}:{sender}"


def describe_sender(client: str) -> str:
    """The sender and the channel for display; empty for other clients."""
    kind, _, rest = client.partition(":")
    channel, _, sender = rest.partition(":")
    return f"{sender} over {channel}" if kind == CLIENT and sender else ""


def record_thread(store: Store, conversation_id: str, thread: str) -> None:
    """Record to which thread of the sender a conversation belongs."""
    with store.write() as cursor:
        cursor.execute(
            "INSERT OR REPLACE INTO state(conversation_id, key, value) VALUES (?, 'thread', ?)",
            (conversation_id, plain(thread)),
        )


def find(store: Store, client: str, thread: str, folder: str) -> str | None:
    """The latest conversation of a sender in a thread and folder."""
    rows = store.read(
        "SELECT c.id FROM state o JOIN state t ON t.conversation_id = o.conversation_id AND t.key = 'thread'"
        " JOIN conversations c ON c.id = o.conversation_id"
        " WHERE o.key = 'client' AND o.value = ? AND t.value = ? AND c.project_dir = ?"
        " ORDER BY c.last_active DESC, c.rowid DESC LIMIT 1",
        (plain(client), plain(thread), folder),
    )
    return str(rows[0][0]) if rows else None


def cost_since(store: Store, client: str, since: float) -> float:
    """The cost of a client's model calls since a time, as far as prices are known."""
    rows = store.read(
        "SELECT sum(m.cost) FROM state o JOIN sessions s ON s.conversation_id = o.conversation_id"
        " JOIN model_calls m ON m.session_id = s.session_id"
        " WHERE o.key = 'client' AND o.value = ? AND m.created_at >= ?",
        (plain(client), sql_time(since)),
    )
    return float(rows[0][0] or 0.0)
