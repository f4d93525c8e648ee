"""Notes as the operator manages them: show, change, confirm, forget."""

import os
import subprocess
import tempfile

from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import visible
from adderclaw.storage import Store, approvals, locks, memory, retention, tape
from adderclaw.storage.memory import Memory
from adderclaw.storage.queries import conversations
from adderclaw.terminal import editor
from adderclaw.tools.memory import MAX_VALUE, MemoryWriteArguments, note_problem

SHOWN = 200
"""How many notes one list shows."""


def note_line(note: Memory) -> str:
    """One note as a line, with its scope and whether it is confirmed."""
    marks = [] if note.project is not None else ["all projects"]
    marks += [] if note.confirmed else ["not confirmed"]
    mark = f" ({', '.join(marks)})" if marks else ""
    return visible(f"{note.key}{mark}: {' '.join(note.content.split())[:120]}", keep_newlines=False)


def require_note(store: Store, key: str, project: str | None) -> Memory:
    """The note with this key. Raises UsageError with similar keys if there is none."""
    if (note := memory.get(store, key, project)) is not None:
        return note
    near = [keys.key for keys in memory.find(store, key, 5, project)]
    hint = f"; near it: {', '.join(near)}" if near else "; `adderclaw memory notes` lists them"
    raise UsageError(visible(f"there is no note {key!r} here{hint}", keep_newlines=False))


def store_note(store: Store, key: str, value: str, project: str | None) -> None:
    """Write a note by the operator's word."""
    if why := note_problem(MemoryWriteArguments(key, value)):
        raise UsageError(why)
    with store.write() as cursor:
        memory.put(cursor, key, value, project=project)


def confirm_note(store: Store, key: str, project: str | None) -> Memory:
    """Confirms a note, so that later prompts contain it."""
    note = require_note(store, key, project)
    store_note(store, note.key, note.content, note.project)
    return note


def forget_note(store: Store, key: str, project: str | None) -> Memory:
    note = require_note(store, key, project)
    with store.write() as cursor:
        memory.remove(cursor, note)
    return note


def require_conversation(store: Store, id: str) -> str | None:
    """The conversation with this id, or the only one whose id starts with it."""
    ids = conversations.matching(store, id)
    if not id or not ids or (len(ids) > 1 and ids[0] != id):
        return None
    return ids[0]


def forget_conversation(store: Store, id: str) -> None:
    """Remove a conversation. UsageError while a process works in it or one of its questions waits."""
    for session in conversations.session_ids(store, id):
        if locks.run_in_session(store.path, session):
            raise UsageError(f"conversation {id} is in use by another process: wait until it ends, or end it")
        if approvals.is_waiting(store, session):
            raise UsageError(f"conversation {id} has a waiting question: answer it first (`adderclaw approvals list`)")
    store.read("PRAGMA secure_delete = ON")
    with store.write() as cursor:
        retention.delete_conversation(store, cursor, id)
        tape.remove_unused_texts(cursor)
        cursor.execute(
            "INSERT INTO transcript_fts(transcript_fts) VALUES ('optimize')"
        )  # removes the deleted words from the index
    store.read("PRAGMA wal_checkpoint(TRUNCATE)")


def edit_text(text: str) -> str | None:
    """Opens the text in the operator's editor; returns the new text, or None if unchanged."""
    command = editor.command()
    with tempfile.TemporaryDirectory(prefix="adderclaw-note-") as folder:
        path = os.path.join(folder, "note.txt")
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        try:
            code = subprocess.run([*command, path], check=False).returncode
        except OSError as error:
            fix = "set EDITOR, or give the text with --value"
            raise UsageError(f"the editor {command[0]!r} could not be started ({error.strerror}): {fix}") from error
        if code != 0:
            raise UsageError(f"{command[0]!r} ended with {code}; the note is as it was")
        with open(path, encoding="utf-8", errors="replace") as file:
            changed = file.read(4 * MAX_VALUE)
    changed = changed.removesuffix("\n") if not text.endswith("\n") else changed
    return None if changed == text else changed
