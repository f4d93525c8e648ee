"""The questions in the store, for every channel: lists them as they are shown, and answers them."""

import os
import time

from adderclaw import config
from adderclaw.agent.tool_call.approvals import (
    BY_ROW,
    answer_row,
    displayed_request,
    person_answering,
    questions_json,
    questions_of,
)
from adderclaw.core import home_names
from adderclaw.core.errors import UsageError
from adderclaw.core.questions import Answer, Replies
from adderclaw.core.types import Json
from adderclaw.sandbox.operator_only import require_operator
from adderclaw.storage import Store, approvals
from adderclaw.storage.approvals import Approval
from adderclaw.storage.ledger.log_files import read_or_create_key


def listed(path: str, *, everything: bool = False, limit: int = 20) -> list[Approval]:
    """The open questions, or all; the oldest first."""
    if not Store.exists(path):
        return []
    store = Store.open(path, read_only=True)
    try:
        return approvals.listing(store, everything=everything, limit=limit)
    finally:
        store.close()


def as_json(asked: Approval) -> Json:
    """A question as JSON, with the escaped texts that a person is shown."""
    row: Json = {name: value for name, value in asked._asdict().items() if name not in ("mac", "terminal")}
    seen = displayed_request(asked)
    row |= {"tool": seen.tool, "reason": seen.reason, "shown": seen.text, "lookalikes": seen.lookalikes}
    row |= {"questions": questions_json(questions_of(asked)), "only_at_a_terminal": bool(asked.terminal)}
    return {**row, "replies": asked.reply_values, "state": asked.state(time.time())}


def found(store: Store, id: str) -> Approval:
    asked = approvals.get(store, id)
    if asked is None:
        raise UsageError(f"no approval {id!r}; `adderclaw approvals list` shows what is waiting")
    return asked


def answered(
    path: str,
    id: str,
    channel: str,
    *,
    approved: bool,
    replies: Replies | None = None,
    comment: str = "",
    plan: str = "",
    at_terminal: bool = False,
) -> Approval:
    """Answer a question of any process; raises AnswerRejected if the answer does not count."""
    require_operator("Answering a question", path)
    if not Store.exists(path):
        raise UsageError(f"no approval {id!r}: there is no database at {path}")
    store = Store.open(path)
    try:
        asked = found(store, id)
        if approved and bool(asked.questions) != (replies is not None):
            expected = "replies to its questions" if asked.questions else "a yes or a no"
            raise UsageError(f"{asked.id} asks for {expected}")
        answer = Answer(approved, BY_ROW, comment, who=person_answering(channel), replies=replies)
        key_path = os.path.join(config.home(), home_names.RECEIPT_KEY)
        return answer_row(store, lambda: read_or_create_key(key_path), asked, answer, plan, at_terminal=at_terminal)
    finally:
        store.close()


def store_path(config_file: str | None, workspace: str | None = None, overrides: Json | None = None) -> str:
    loaded = config.load(config_file=config_file, workspace=workspace, overrides=overrides or {})
    return loaded.config.memory.path
