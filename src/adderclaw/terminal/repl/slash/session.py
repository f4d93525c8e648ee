"""Commands about what this session uses and may do: context, permissions, tasks, sandbox, terminal."""

import os

from adderclaw.agent.loop.model_call import context_parts
from adderclaw.agent.run import Run
from adderclaw.agent.tool_call import permission_updates
from adderclaw.config import project_grants
from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import visible
from adderclaw.terminal.repl import here
from adderclaw.terminal.repl.slash import command_line
from adderclaw.terminal.repl.slash.row import Done

BEHAVIOURS = ("allow", "ask", "deny")


def context(run: Run, _rest: str) -> Done:
    """Shows what the next request consists of; sizes are estimates."""
    session = run.session
    parts = context_parts(session)
    limit = session.provider.capabilities().context_tokens
    total = sum(parts.values())
    for name, tokens in parts.items():
        print(f"{name:<20} about {tokens:>9,} tokens{_share(tokens, limit)}")
    print(f"{'together':<20} about {total:>9,} tokens{_share(total, limit)}")
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
    print("/permissions allow|ask|deny RULE adds one to this session, /permissions remove RULE takes it back")


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
        print(f"{what}: {visible(rule, keep_newlines=False)} counts in {visible(target, keep_newlines=False)}")
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
        print("nothing runs in the background, and nothing did")


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

    from adderclaw.storage import transcript

    if rest and not (rest.isdecimal() and int(rest) > 0):
        raise UsageError(f"{rest!r}: expected a number; 1 is the last answer")
    session = run.session
    entries = transcript.without_rewound(transcript.entries(session.store, session.session_id))
    texts = [transcript.text_of(entry.payload) for entry in entries if entry.entry_type == "assistant"]
    answers = [text for text in texts if text.strip()]
    number = int(rest or 1)
    if number > len(answers):
        raise UsageError(f"there are {len(answers)} answers so far")
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
