"""What was said in earlier conversations, found by words."""

from collections.abc import Sequence
from typing import TypedDict

from adderclaw.agent.queries import clean, reading
from adderclaw.config.legacy.options import Options
from adderclaw.storage import transcript


class HitRow(TypedDict):
    conversation_id: str
    session_id: str
    entry_id: int
    role: str
    snippet: str
    score: float
    created_at: str
    """In UTC."""


def search(options: Options, query: str, limit: int = 10, projects: Sequence[str] | None = None) -> list[HitRow]:
    """Best and most recent first; of all projects, or of these by their folders."""
    with reading(options) as store:
        return [clean(hit._asdict()) for hit in transcript.search(store, query, limit, projects)]
