"""Commands about the conversation itself: start another, copy, rename, export, compact, rewind."""

import os

from adderclaw.agent.loop.compaction import compact as compact_history
from adderclaw.agent.run import Resume, Run
from adderclaw.agent.session.session import hook_text
from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import visible
from adderclaw.terminal.repl import conversations, here
from adderclaw.terminal.repl.conversations import NextConversation
from adderclaw.terminal.repl.slash.command import Done

MOVED = (
    "The person moved this conversation from the folder {before} to {folder}. Files named earlier are in the old "
    "folder. Nothing in the new one has been read yet."
)


def clear(run: Run, rest: str) -> Done:
    """Starts a new conversation. The current one can be resumed; `rest` names it."""
    if rest:
        conversations.rename_conversation(run, rest)
    here.repl_of(run).next = NextConversation(None, "clear")
    run.session.end_reason = "clear"
    return "leave"


def resume(run: Run, rest: str) -> Done:
    here.repl_of(run).next = NextConversation(Resume(run.session.conversation_id, go_on=False), words=rest)
    run.session.end_reason = "resume"
    return "leave"


def branch(run: Run, rest: str) -> Done:
    if rest:
        conversations.rename_conversation(run, rest)
    here.repl_of(run).next = NextConversation(Resume(run.session.conversation_id, go_on=False, fork=True))
    run.session.end_reason = "other"
    return "leave"


def cd(run: Run, rest: str) -> Done:
    """Continues in another folder, with its own trust and configuration. This conversation stays unchanged."""
    from adderclaw.config import load

    before = run.session.environment.context.workspace.root
    folder = os.path.realpath(os.path.join(before, os.path.expanduser(rest)))
    if not rest or not os.path.isdir(folder):
        raise UsageError(f"{rest!r} is not a directory: /cd needs an existing one")
    if folder in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise UsageError(
            f"{folder} contains too much to be a workspace; to use it, start `adderclaw agent --workspace {folder}`"
        )
    load(config_file=run.runtime.options.config_file, workspace=folder)  # fails if no session can start there
    moved = MOVED.format(before=before, folder=folder)
    again = Resume(run.session.conversation_id, go_on=False, fork=True)
    here.repl_of(run).next = NextConversation(again, workspace=folder, notice=hook_text("CwdChanged", [moved]))
    run.session.end_reason = "other"
    return "leave"


def rename(run: Run, rest: str) -> Done:
    named = conversations.rename_conversation(run, rest)
    if (talk := here.repl_of(run).talk) is not None:
        talk.titles.show()
    print(f"this conversation is called {named!r}" if named else "this conversation is named by its first words again")


def export(run: Run, rest: str) -> Done:
    print(f"written to {visible(conversations.export_conversation(run, rest), keep_newlines=False)}")


async def compact(run: Run, rest: str) -> Done:
    before = run.session.state.history.size
    if await compact_history(run.session, "manual", rest):
        print(f"compacted: {before:,} bytes of history are now {run.session.state.history.size:,}")
    else:
        print("there is nothing to compact yet")


async def rewind(run: Run, rest: str) -> Done:
    from adderclaw.agent.queries import restoring
    from adderclaw.terminal.operators import terminal_question

    if (talk := here.repl_of(run).talk) is not None:
        from adderclaw.terminal.repl.rewinding import go_back

        await go_back(run, talk.screen, rest)
    else:
        await restoring.slash(run, rest, terminal_question())


def leave(_run: Run, _rest: str) -> Done:
    return "leave"
