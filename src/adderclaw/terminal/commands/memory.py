"""`adderclaw memory`: shows, changes and deletes conversations and notes."""

import os
from typing import Annotated

import typer

from adderclaw.config import load
from adderclaw.config.legacy.options import Options
from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json
from adderclaw.storage import Store, memory, transcript, turns
from adderclaw.storage.transcript import Entry
from adderclaw.storage.turns import Line
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, group, print_result
from adderclaw.terminal.export import Format
from adderclaw.terminal.output import print_json

app = group("List, search, show, edit and clear conversations and notes.")

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most N.")]
Key = Annotated[str, typer.Argument(help="The note's key.")]
Workspace = Annotated[str | None, typer.Option("--workspace", metavar="DIR", help="The project whose notes these are.")]
clean = Secrets().clean
ABOUT = ("turn_id", "role", "provider", "model")


@app.command("list")
def list_conversations(limit: Limit = 20, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """List conversations, the most recent first.

    Example: adderclaw memory list
    """
    store = Store.open(load(config_file=config).config.memory.path, read_only=True)
    rows = transcript.conversations(store, limit)
    if output_format == "json":
        print_json([clean(conversation._asdict()) for conversation in rows])
        return
    for talk in rows:
        print(clean(f"{talk.id}  {talk.last_active}Z  {talk.entries:>4} entries  {talk.title}"))
    if not rows:
        print("no conversations yet")


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="Words or part of a message.")],
    limit: Limit = 10,
    workspace: Annotated[
        str | None, typer.Option("--workspace", metavar="DIR", help="Only conversations held in this folder.")
    ] = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Search the messages of all projects, best and most recent first.

    Example: adderclaw memory search "aardvark"
    """
    from adderclaw.agent.queries import conversations

    held = None if workspace is None else [load(config_file=config, workspace=workspace).workspace]
    hits = conversations.search(Options(config_file=config), query, limit, held)
    if output_format == "json":
        print_json(hits)
        return
    for hit in hits:
        print(f"{hit['conversation_id']}  {hit['created_at']}Z  {hit['role']}: {hit['snippet']}")
    if not hits:
        print(clean(f"nothing found for {query!r}"))


@app.command()
def show(
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION_ID", help="Its id or a prefix of it.")],
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show one conversation, entry by entry.

    Example: adderclaw memory show conversation-1f2e
    """
    store = Store.open(load(config_file=config).config.memory.path, read_only=True)
    conversation_id = transcript.conversation_of(store, conversation)
    if conversation_id is None:
        raise UsageError(f"there is no conversation {conversation!r} in {store.path}: see `adderclaw memory list`")
    sessions = {
        session: transcript.entries(store, session) for session in transcript.sessions_of(store, conversation_id)
    }
    lines = turns.of_conversation(store, conversation_id)
    if output_format == "json":
        listed: list[Json] = [
            {"session_id": session, **entry._asdict(), **_about(lines.get(entry.id))}
            for session, entries in sessions.items()
            for entry in entries
        ]
        print_json(clean({"conversation_id": conversation_id, "entries": listed}))
        return
    print(f"conversation {clean(conversation_id)}")
    for session, entries in sessions.items():
        print(f"session {clean(session)}")
        turn = None
        for entry in entries:
            if (line := lines.get(entry.id)) and line.turn_id != turn:
                turn = line.turn_id
                print(clean(f"turn {turn}"))
            print(clean(f"[{entry.sequence}] {entry.created_at}Z {_state_words(entry)}"))


@app.command()
def export(
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION_ID", help="Its id or a prefix of it.")],
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="The file to write; default: standard output.")] = "",
    form: Annotated[
        Format | None, typer.Option("--format", help="markdown, html or json; default: by the file's extension.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Export one conversation for others to read, with its calls, their verdicts and their changes.

    Example: adderclaw memory export conversation-1f2e talk.html
    """
    from adderclaw.terminal import export

    store = Store.open(load(config_file=config).config.memory.path, read_only=True)
    conversation_id = transcript.conversation_of(store, conversation)
    if conversation_id is None:
        raise UsageError(f"there is no conversation {conversation!r} in {store.path}: see `adderclaw memory list`")
    text = export.render_conversation(store, conversation_id, form or export.form_of(file), clean)
    if file:
        export.write(file, text)
        print(f"{clean(conversation_id)} is in {clean(file)}")
    else:
        print(text, end="")


@app.command("notes")
def list_notes(
    everything: Annotated[bool, typer.Option("--all", help="For every project.")] = False,
    limit: Limit = 200,
    workspace: Workspace = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """List the notes of this project, the newest first, including unconfirmed ones.

    Example: adderclaw memory notes
    """
    from adderclaw.terminal import notes

    store, project = _notes_of(config, workspace, read_only=True)
    notes_listed = memory.listing(store, None if everything else project, limit)
    if output_format == "json":
        print_json([clean(note._asdict()) for note in notes_listed])
        return
    for note in notes_listed:
        print(clean(notes.note_line(note)))
    if not notes_listed:
        print("no notes yet")


@app.command()
def edit(
    key: Key,
    value: Annotated[str | None, typer.Option("--value", help="The text; default: open your editor.")] = None,
    everywhere: Annotated[bool, typer.Option("--everywhere", help="A note for all projects.")] = False,
    workspace: Workspace = None,
    config: ConfigFile = None,
) -> None:
    """Write or change a note; later conversations see it, as data.

    Example: adderclaw memory edit build --value "make, with Python 3.12"
    """
    from adderclaw.terminal import notes

    store, project = _notes_of(config, workspace)
    scope = None if everywhere else project
    before = memory.get(store, key, scope)
    where = before.project if before is not None else scope
    text = notes.edit_text(before.content if before is not None else "") if value is None else value
    if text is None:
        print("unchanged")
        return
    notes.store_note(store, key, text, where)
    store.close()
    print(clean(f"stored {key}{'' if where is not None else ', for all projects'}"))


@app.command()
def confirm(key: Key, workspace: Workspace = None, config: ConfigFile = None) -> None:
    """Confirm a note that a model wrote, so that later conversations see it.

    Example: adderclaw memory confirm build
    """
    from adderclaw.terminal import notes

    store, project = _notes_of(config, workspace)
    note = notes.confirm_note(store, key, project)
    store.close()
    print(clean(f"confirmed {notes.note_line(note._replace(confirmed=True))}"))


@app.command()
def forget(
    key: Annotated[str, typer.Argument(metavar="ID", help="The note's key, or the id of a conversation.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")] = False,
    workspace: Workspace = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Remove a note, or the content of one conversation. Receipts, permissions, hook rows and costs stay.

    Example: adderclaw memory forget build
    """
    from adderclaw.terminal import notes

    store, project = _notes_of(config, workspace)
    word = "would forget" if dry_run else "forgot"
    if memory.get(store, key, project) is None and (talk := notes.require_conversation(store, key)) is not None:
        if not dry_run:
            notes.forget_conversation(store, talk)
        target, text = {"conversation": talk}, f"{word} the conversation {talk}; its receipts stay"
    else:
        note = notes.require_note(store, key, project) if dry_run else notes.forget_note(store, key, project)
        target, text = {"note": note.key}, f"{word} {notes.note_line(note)}"
    store.close()
    print_result({"dry_run": dry_run, **target}, clean(text), output_format)


def _notes_of(config: str | None, workspace: str | None, *, read_only: bool = False) -> tuple[Store, str]:
    loaded = load(config_file=config, workspace=workspace)
    return Store.open(loaded.config.memory.path, read_only=read_only), os.path.realpath(loaded.workspace)


@app.command()
def clear(
    yes: Annotated[bool, typer.Option("--yes", help="Confirm: this cannot be undone.")] = False,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Delete all transcripts and memories. Receipts, permission and hook rows stay.

    Example: adderclaw memory clear --yes
    """
    path = load(config_file=config).config.memory.path
    if not yes:
        raise UsageError(f"this deletes every conversation and memory in {path}: confirm with `memory clear --yes`")
    Store.open(path, read_only=True).close()  # do not create a database only to clear it
    store = Store.open(path)
    count = transcript.clear(store)
    store.close()
    print_result(
        {"cleared": count}, f"cleared {count} conversation{'' if count == 1 else 's'}; the receipts stay", output_format
    )


def _about(line: Line | None) -> Json:
    """One line for an entry of a conversation."""
    return {} if line is None else {key: value for key, value in line._asdict().items() if key in ABOUT}


def _state_words(entry: Entry) -> str:
    payload = entry.payload
    if entry.entry_type == "tool_use":
        from adderclaw.storage.text import compact

        return f"tool_use {payload.get('name')} {compact(payload.get('input'))}"
    failed = " (error)" if payload.get("is_error") else ""
    return f"{entry.entry_type}{failed}: {transcript.text_of(payload)}"
