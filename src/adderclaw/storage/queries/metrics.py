"""Counts of new rows since the last scrape, for Prometheus."""

from adderclaw.storage import Store

TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")

_SUMS = ", ".join(f"sum(json_extract(usage_json, '$.{name}'))" for name in TOKENS)
_COUNTED = {
    "conversations": "SELECT max(rowid), count(*) FROM conversations WHERE rowid > ?",
    "tool_calls": "SELECT max(id), sum(entry_type = 'tool_use') FROM transcript_entries WHERE id > ?",
    "tool_denials": "SELECT max(id), sum(decision = 'deny') FROM tool_permission_log WHERE id > ?",
    "model_calls": f"SELECT max(id), count(*), sum(status <> 'ok'), sum(cost), {_SUMS} FROM model_calls WHERE id > ?",  # noqa: S608
}
COUNTED = tuple(_COUNTED)


def count_after(store: Store, name: str, last: int) -> tuple[int | None, list[float | None]]:
    """The last row after `last` and the sums over the new rows, so that a scrape reads only those."""
    newest, *sums = store.read(_COUNTED[name], (last,))[0]
    return newest, sums
