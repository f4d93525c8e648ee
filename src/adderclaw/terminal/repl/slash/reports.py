"""Commands that only show something: tools, policy, memory, servers, lists."""

import sys

from adderclaw.agent.run import Run
from adderclaw.config.model_facts.catalogue import first_answering
from adderclaw.core.redaction import visible
from adderclaw.storage import memory as memories
from adderclaw.storage import transcript
from adderclaw.terminal import notes
from adderclaw.terminal.repl.slash.row import Done


def tools(run: Run, _rest: str) -> Done:
    for tool in run.session.environment.offered_tools.values():
        print(f"{tool.name:<14} {tool.description.splitlines()[0]}")


def memory(run: Run, rest: str) -> Done:
    does, _, key = rest.partition(" ")
    if not rest:
        _print_memory(run)
    elif does in ("confirm", "forget", "edit") and memories.get(run.session.store, key.strip(), _project(run)):
        _change_note(run, does, key.strip())
    else:
        hits = transcript.search(run.session.store, rest, 10)
        for hit in hits:
            print(f"{hit.conversation_id}  {hit.created_at}  {hit.role}: {visible(hit.snippet, keep_newlines=False)}")
        if not hits:
            print(f"nothing found for {visible(rest)!r}")


def _print_memory(run: Run) -> None:
    for file in run.session.instructions.files if run.session.instructions is not None else []:
        how = f", imported by {visible(file.parent)}" if file.parent else ""
        print(f"{visible(file.path)} ({file.scope.lower()}, {len(file.text):,} characters{how})")
    stored = memories.listing(run.session.store, _project(run), notes.SHOWN)
    for note in stored:
        print(notes.note_line(note))
    print("/memory confirm|forget|edit KEY" if stored else "no memories yet")


def _change_note(run: Run, does: str, key: str) -> None:
    store, project = run.session.store, _project(run)
    if does == "confirm":
        notes.confirm_note(store, key, project)
    elif does == "forget":
        notes.forget_note(store, key, project)
    elif (text := notes.edit_text(notes.require_note(store, key, project).content)) is not None:
        notes.store_note(store, key, text, notes.require_note(store, key, project).project)
    else:
        print("unchanged")
        return
    print(visible(f"{'forgot' if does == 'forget' else 'kept'} {key}", keep_newlines=False))


def _project(run: Run) -> str:
    return run.session.environment.context.workspace.root


def policy(run: Run, _rest: str) -> Done:
    security, here = run.runtime.config.security, run.session.environment.context.workspace
    policy = run.session.environment.policy
    print(f"autonomy: {policy.autonomy_now}" + (f", mode {policy.mode}" if policy.mode else ""))
    root = visible(here.root, keep_newlines=False)
    print(f"workspace: {root} (only there: {'yes' if security.workspace_only else 'no'})")
    for extra in here.extra:
        print(f"also: {visible(extra, keep_newlines=False)}")
    print(visible(f"forbidden paths: {', '.join(security.forbidden_paths)}", keep_newlines=False))
    print(visible(f"forbidden commands: {', '.join(security.forbidden_commands)}", keep_newlines=False))
    print(f"sandbox: {run.session.environment.confinement}")


async def status(run: Run, _rest: str) -> Done:
    """Whether credentials can be used, and of which class; never a part of one."""
    from adderclaw.models.credentials.status import credential_rows
    from adderclaw.terminal import provider_login

    now = run.session.config
    served = first_answering(run.session.provider.name, run.session.model, now)
    print(f"model {visible(served.model)} of the provider {visible(served.provider)}")
    for row in await credential_rows(run.runtime.credentials, now, [served.provider]):
        print(provider_login.credential_line(row))
    return ids(run, "")


def skills(run: Run, _rest: str) -> Done:
    kit = run.session.environment.kit
    listed, whole = kit.skills.offered() if kit.skills is not None else ([], True)
    for name, description in listed:
        print(f"/{name:<24} {description[:120]}")
    if not listed:
        print("there are no skills; `adderclaw skills list` says where they are looked for")
    elif not whole:
        print("there are more: `adderclaw skills list` shows all")


def ids(run: Run, _rest: str) -> Done:
    print(f"conversation {run.session.conversation_id}, session {run.session.session_id}, run {run.run_id}")


def todos(run: Run, _rest: str) -> Done:
    from adderclaw.storage import lists
    from adderclaw.tools.control.lists import MARKS, task_line

    session = run.session
    lines = [f"{MARKS[todo.status]} {todo.content}" for todo in lists.todos(session.store, session.session_id)]
    lines += map(task_line, lists.tasks(session.store, session.conversation_id))
    print(visible("\n".join(lines)) or "nothing is to be done")


def agents(run: Run, _rest: str) -> Done:
    from adderclaw.storage import subagents
    from adderclaw.tools.control import definitions

    foreign, kit = run.session.config.compat.claude, run.session.environment.kit
    known = definitions.known_definitions(run.runtime.home, kit.project, foreign=foreign, plugins=kit.plugins)
    for agent in known.by_name.values():
        print(visible(f"{agent.name:<18} {agent.description}  ({agent.source})", keep_newlines=False))
    for problem in known.problems:
        print(f"note: {visible(problem, keep_newlines=False)}", file=sys.stderr)
    for child in subagents.of_parent(run.session.store, run.session.session_id):
        line = f"{child.session_id}  {child.agent_type}  {child.status}  {child.description}"
        print(visible(line, keep_newlines=False))
