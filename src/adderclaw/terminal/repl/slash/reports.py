"""Commands that show the state of the session, some of which also change it: lists, usage, permissions, tasks, keys."""

import os
import sys

from adderclaw.agent.loop.model_call import context_parts
from adderclaw.agent.run import Run
from adderclaw.agent.tool_call import permission_updates
from adderclaw.config import project_grants
from adderclaw.config.model_facts.catalogue import first_answering
from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import visible
from adderclaw.storage import memory as memories
from adderclaw.storage import transcript
from adderclaw.terminal import notes
from adderclaw.terminal.repl import here
from adderclaw.terminal.repl.slash import command_line
from adderclaw.terminal.repl.slash.command import Done


def tools(run: Run, _rest: str) -> Done:
    for tool in run.session.environment.offered_tools.values():
        print(f"{tool.name:<14} {tool.description.splitlines()[0]}")


def memory(run: Run, rest: str) -> Done:
    does, _, key = rest.partition(" ")
    if not rest:
        for file in run.session.instructions.files if run.session.instructions is not None else []:
            how = f", imported by {visible(file.parent)}" if file.parent else ""
            print(f"{visible(file.path)} ({file.scope.lower()}, {len(file.text):,} characters{how})")
        stored = memories.listing(run.session.store, _project(run), notes.SHOWN)
        for note in stored:
            print(notes.note_line(note))
        print("/memory confirm|forget|edit KEY" if stored else "no memories yet")
    elif does in ("confirm", "forget", "edit") and memories.get(run.session.store, key.strip(), _project(run)):
        _change_note(run, does, key.strip())
    else:
        hits = transcript.search(run.session.store, rest, 10)
        for hit in hits:
            print(f"{hit.conversation_id}  {hit.created_at}  {hit.role}: {visible(hit.snippet, keep_newlines=False)}")
        if not hits:
            print(f"nothing found for {visible(rest)!r}")


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
    print(visible(f"{'forgot' if does == 'forget' else 'stored'} {key}", keep_newlines=False))


def _project(run: Run) -> str:
    return run.session.environment.context.workspace.root


def policy(run: Run, _rest: str) -> Done:
    security, workspace = run.runtime.config.security, run.session.environment.context.workspace
    policy = run.session.environment.policy
    print(f"autonomy: {policy.autonomy_now}" + (f", mode {policy.mode}" if policy.mode else ""))
    root = visible(workspace.root, keep_newlines=False)
    print(f"workspace: {root} (only there: {'yes' if security.workspace_only else 'no'})")
    for extra in workspace.extra:
        print(f"also: {visible(extra, keep_newlines=False)}")
    print(visible(f"forbidden paths: {', '.join(security.forbidden_paths)}", keep_newlines=False))
    print(visible(f"forbidden commands: {', '.join(security.forbidden_commands)}", keep_newlines=False))
    print(f"sandbox: {run.session.environment.confinement}")


async def status(run: Run, _rest: str) -> Done:
    """Shows whether credentials can be used and their class, never any part of one."""
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
        print("there are no skills; `adderclaw skills list` shows where they are searched for")
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
    print(visible("\n".join(lines)) or "the to-do list is empty")


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


KEYS: tuple[tuple[str, str], ...] = (
    ("Enter", "send the message, or take the selected entry of the menu"),
    ("/ at the start", "show the menu of commands"),
    (
        "Alt-Enter, Ctrl-J, \\ at the end",
        "start a new line; Enter does too while a ``` fence or a quote at the start of the message is open",
    ),
    ("@", "name a file, a folder or an MCP resource, whose content is sent with the message"),
    ("! at the start", "run a command yourself; its output is sent with the next message"),
    ("# at the start", "remember a line for later conversations"),
    ("Tab", "complete from the menu"),
    ("Up, Down", "search the history for what is typed so far; Up in an empty input takes back a queued message"),
    ("Ctrl-R", "search the history; Enter takes the match, Ctrl-G cancels"),
    ("Ctrl-G", "edit the message in $EDITOR"),
    ("Ctrl-O", "show the whole output of the last call"),
    ("Shift+Tab", "switch to the next permission mode"),
    ("Esc", "interrupt the turn; its work so far stays"),
    ("Esc Esc", "go back: conversation, files, or both"),
    ("Ctrl-C", "clear the input, else interrupt the turn; twice in an empty input: leave"),
    ("Ctrl-D", "leave if the input is empty; during a turn, press it twice"),
    ("Ctrl-Z", "suspend; `fg` resumes"),
    ("1-9, letters, arrows", "select the answer to a question; Enter confirms it"),
)


def keys(_run: Run, _rest: str) -> Done:
    for key, does in KEYS:
        print(f"{key:<34} {does}")


BEHAVIOURS = ("allow", "ask", "deny")


def context(run: Run, _rest: str) -> Done:
    """Shows what the next request consists of; sizes are estimates."""
    session = run.session
    parts = context_parts(session)
    limit = session.provider.capabilities().context_tokens
    total = sum(parts.values())
    for name, tokens in parts.items():
        print(f"{name:<20} about {tokens:>9,} tokens{_share(tokens, limit)}")
    print(f"{'total':<20} about {total:>9,} tokens{_share(total, limit)}")
    print(f"the window of {visible(session.model)}: {f'{limit:,} tokens' if limit else 'unknown'}")


def _share(tokens: int, limit: int | None) -> str:
    return f"  {100 * tokens / limit:5.1f} %" if limit else ""


async def usage(run: Run, rest: str) -> Done:
    """Prints this session's usage, then the table of `adderclaw usage`."""
    if not rest:
        budget = run.session.budget
        cost = "unknown" if budget.cost is None else f"${budget.cost:.4f}"
        counts = ", ".join(f"{name} {value:,}" for name, value in budget.usage.as_json().items() if name != "estimated")
        counts += " (estimated)" if budget.usage.estimated else ""
        print(f"this session: {cost}; {budget.steps} model calls, {budget.tool_calls} tool calls; {counts}")
    await command_line.print_command(run, ["usage", *(rest.split() or ("--by", "model", "--since", "7d"))])


def permissions(run: Run, rest: str) -> Done:
    if rest:
        _change_rule(run, rest)
        return
    now = run.session.config.permissions
    policy = run.session.environment.policy
    print(f"mode: {policy.mode or policy.autonomy_now}")
    granted = project_grants.of(project_grants.known(run.runtime.home), run.session.environment.context.workspace.root)
    for behaviour in BEHAVIOURS:
        for rule in getattr(now, behaviour):
            always = "  (always in this project)" if behaviour == "allow" and rule in granted else ""
            print(f"{behaviour:<6} {visible(rule, keep_newlines=False)}{always}")
    for folder in run.session.environment.context.workspace.extra:
        print(f"also   {visible(folder, keep_newlines=False)}")
    print("/permissions allow|ask|deny RULE adds one to this session, /permissions remove RULE removes it")


def _change_rule(run: Run, rest: str) -> None:
    from dataclasses import replace

    from adderclaw.config.permissions import grant

    what, _, rule = rest.partition(" ")
    rule = rule.strip()
    if what not in (*BEHAVIOURS, "remove") or not rule:
        raise UsageError(f"{rest!r}: expected allow, ask, deny or remove, and a rule such as Bash(git log:*)")
    update = grant((rule,), "session")
    if what != "remove":
        target = permission_updates.apply_update(run.session, replace(update, behavior=what))
        print(f"{what}: {visible(rule, keep_newlines=False)} applies to {visible(target, keep_newlines=False)}")
        return
    behaviours = [name for name in BEHAVIOURS if rule in getattr(run.session.config.permissions, name)]
    if not behaviours:
        raise UsageError(f"there is no rule {rule!r}: /permissions lists them")
    for name in behaviours:
        permission_updates.apply_update(run.session, replace(update, type="removeRules", behavior=name))
    was_stored = project_grants.remove(run.runtime.home, run.session.environment.context.workspace.root, rule)
    where = "this session and from what is always allowed in this project" if was_stored else "this session"
    print(f"removed from {where}: {visible(rule, keep_newlines=False)}")


async def tasks(run: Run, rest: str) -> Done:
    known = run.session.environment.kit.tasks
    verb, _, named = rest.partition(" ")
    if verb not in ("", "stop") or bool(named.strip()) != (verb == "stop"):
        raise UsageError(f"{rest!r}: expected nothing or `stop ID`")
    if verb:
        task = known.find(named.strip()) if known is not None else None
        if known is None or task is None:
            raise UsageError(f"there is no background task {named.strip()!r}: /tasks lists them")
        await known.stop(task)
    listed = known.listed() if known is not None else []
    for task in listed:
        print(visible(f"{task.id}  {task.status:<9} {task.kind:<8} {task.title}", keep_newlines=False))
    if not listed:
        print("no background tasks")


def sandbox(run: Run, _rest: str) -> Done:
    environment = run.session.environment
    print(f"commands run in: {environment.confinement}")
    workspace = environment.context.workspace
    for folder in (workspace.root, *workspace.extra):
        print(f"they may change: {visible(folder, keep_newlines=False)}")
    if environment.network is not None:
        print(f"network: {visible(environment.network.describe(None))}")
    print("the settings are under [sandbox] of the configuration: /config shows them")


def diff(run: Run, _rest: str) -> Done:
    """Shows what this conversation changed on disk, from the checkpoints."""
    from adderclaw.agent.legacy import rewind
    from adderclaw.terminal.repl.changes import show_changes

    show_changes(run, rewind.prompts(run.session), back=False)


def copy(run: Run, rest: str) -> Done:
    """Copies the last answer, or the Nth from the end, to the terminal's clipboard."""
    from base64 import b64encode

    if rest and not (rest.isdecimal() and int(rest) > 0):
        raise UsageError(f"{rest!r}: expected a number; 1 is the last answer")
    session = run.session
    entries = transcript.without_rewound(transcript.entries(session.store, session.session_id))
    texts = [transcript.text_of(entry.payload) for entry in entries if entry.entry_type == "assistant"]
    answers = [text for text in texts if text.strip()]
    number = int(rest or 1)
    if number > len(answers):
        raise UsageError(f"there are only {len(answers)} answers so far")
    text = str(session.secrets.clean(answers[-number]))
    screen = here.screen_of(run)
    if screen is None:
        print(text)
        return
    screen.app.output.write_raw(f"\x1b]52;c;{b64encode(text.encode()).decode()}\x07")
    screen.app.output.flush()
    print(f"copied {len(text):,} characters to the terminal's clipboard")


async def bug(run: Run, rest: str) -> Done:
    """Writes a report to a file; nothing is sent anywhere."""
    from adderclaw import __version__
    from adderclaw.terminal import export

    session = run.session
    findings = await command_line.command_output(run, ["doctor"])
    ids = f"conversation {session.conversation_id}, session {session.session_id}, run {run.run_id}"
    text = f"# Report\n\n{rest or '(no description)'}\n\nAdderClaw {__version__}; {ids}\n\n```\n{findings}```\n"
    path = os.path.join(run.runtime.home, "reports", f"{run.run_id}.md")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    export.write(path, str(session.secrets.clean(text)))
    print(f"written to {visible(path, keep_newlines=False)}; nothing was sent. /export adds the conversation itself.")
