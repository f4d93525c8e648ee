"""The REPL: a conversation in a terminal, with its slash commands."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from adderclaw.channels.cli.agent import Shown, at_terminal, converse
from adderclaw.channels.repl import conversations, leaving
from adderclaw.channels.repl.conversations import Next
from adderclaw.channels.terminal import STDIN, Terminal, typed
from adderclaw.config.model_catalogue import first_of
from adderclaw.credentials.redaction import visible
from adderclaw.errors import AdderClawError, InUse, UsageError
from adderclaw.kernel import lifecycle
from adderclaw.kernel.compact import compact
from adderclaw.kernel.loop import run_turn, silent
from adderclaw.kernel.session import TurnResult
from adderclaw.near import near
from adderclaw.runtime import Options, Resume, Run
from adderclaw.runtime.drive import drive
from adderclaw.runtime.signals import until_signal
from adderclaw.store import Store, memory, transcript
from adderclaw.types import Json, Operator
from adderclaw.view.items import Notice

if TYPE_CHECKING:
    from adderclaw.channels.repl.talk import Talk


class Slash(NamedTuple):
    help: str
    run: Callable[[Run, str], bool | Awaitable[bool]]
    """Takes what follows the name; False ends the conversation."""


class Repl:
    """Read, answer, until /exit or the end of the input."""

    name = "repl"
    supports_draft_updates = True

    def __init__(self, first: str | None = None, began: str = "") -> None:
        self._first, self._began = first, began
        self.next: Next | None = None
        """What is held after this one."""
        self.talk: Talk | None = None
        self._on_screen = is_screen()
        self.operator: Operator = Terminal()
        if self._on_screen:
            from adderclaw.channels.repl.panel import OnScreen

            self.operator = OnScreen()

    def start(self, run: Run) -> int:
        REPLS[run.run_id] = self
        run.session.began = self._began or run.session.began
        work = self._on_a_screen(run) if self._on_screen else _converse(run)
        return asyncio.run(drive(run, work, code=lambda _result: 0)).exit_code

    async def _on_a_screen(self, run: Run) -> TurnResult:
        from adderclaw.channels.repl.panel import OnScreen
        from adderclaw.channels.repl.screen import manner
        from adderclaw.channels.repl.talk import Talk

        assert isinstance(self.operator, OnScreen)
        talk = self.talk = Talk(run, self.operator, manner())
        talk.screen.greet(talk.rows.conversation(run.session.conversation_id))
        await lifecycle.begin(run.session)
        run.session.ends_with = "prompt_input_exit"
        place = Notice("", "note", f"AdderClaw in {_place(run)}. /help lists the commands, Ctrl-D leaves.")
        talk.screen.show(place)
        return await until_signal(run, talk.converse(_slash, self._first), goes_on=True)

    def send(self, conversation_id: str, message: str) -> None:  # noqa: ARG002 - there is one conversation
        print(visible(message))


def hold(options: Options, again: Resume | None, *, first: str | None = None, words: str | None = None) -> int:
    """One conversation after the other, until somebody leaves. With `words` the one that is meant is looked for."""
    if words is not None and at_terminal():
        if (again := _meant(options, words)) is None:
            return 0
    elif again is not None:
        again = again._replace(go_on=False)
    began = ""
    while True:
        channel = Repl(first, began)
        try:
            code = converse(channel, options, again)
        except InUse:
            if again is None or (again := _copied(again)) is None:
                raise
            continue
        if (after := channel.next) is None:
            return code
        again, began, first = after.again, after.began, None
        if after.words is not None:
            again = _meant(options, after.words) or again


def _copied(again: Resume) -> Resume | None:
    """A conversation that is open elsewhere goes on in a copy of it, if the person wants that."""
    if again.fork or not at_terminal():
        return None
    asked = "This conversation is open in another terminal. Go on in a copy of it? [y/N] "
    answer = asyncio.run(typed(asked)) or ""
    return again._replace(fork=True) if answer.strip().lower() in ("y", "yes") else None


def _meant(options: Options, words: str) -> Resume | None:
    from adderclaw.config import load

    loaded = load(config_file=options.config_file, workspace=options.workspace)
    store = Store.open(loaded.config.memory.path, read_only=True)
    try:
        return conversations.chosen(store, loaded.workspace, words)
    finally:
        store.close()


async def _converse(run: Run) -> TurnResult:
    """Turn after turn; the last one's result is the conversation's."""
    print(f"AdderClaw in {_place(run)}", file=sys.stderr)
    print("/help lists the commands, /exit leaves.", file=sys.stderr)
    _follow_in_lines(run)
    last = TurnResult("completed", "")
    await lifecycle.begin(run.session)
    run.session.ends_with = "prompt_input_exit"
    while (line := await _plainly()) is not None:
        text = line.strip()
        if text.startswith("/"):
            if not await _slash(run, text):
                break
        elif text and leaving.bypass_is_over(run):
            break
        elif text:
            last = await _turn(run, text)
    return last


def _follow_in_lines(run: Run) -> None:
    """Calls and notices as lines that are printed once: for screen readers, plain terminals and files."""
    if os.environ.get("ADDERCLAW_LOG") == "json":
        return
    from adderclaw.channels.repl.draw import ASCII, Drawing, ansi
    from adderclaw.view.items import Call, Item
    from adderclaw.view.live import Live
    from adderclaw.view.rows import Rows

    place = run.session.scene.context.workspace.root

    def show(item: Item) -> None:
        if not isinstance(item, Call) or item.ended:
            print(ansi(Drawing(LINE, ASCII).item(item), colours=False), end="", file=sys.stderr, flush=True)

    live = Live(Rows(run.session.store, run.session.secrets.clean, place), run.session.session_id, show, place)
    run.runtime.bus.leave("log")
    run.runtime.bus.listen("lines", live.hear)


LINE = 100
"""Columns of a line where nobody knows how wide the terminal is."""

REPLS: "dict[str, Repl]" = {}
"""Run → the REPL that it is."""


def is_screen() -> bool:
    """Whether lines can be redrawn here: a terminal on both sides that is not a plain one."""
    plain = os.environ.get("TERM", "dumb") in ("dumb", "unknown", "")
    return sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty() and not plain


async def _turn(run: Run, message: str | None) -> TurnResult:
    """One turn; at the limit of tool rounds the person decides whether it goes on."""
    if (talk := REPLS[run.run_id].talk) is not None:
        return await talk.turn(message)
    run.session.budget.begin()
    while True:
        shown = Shown(run.runtime.secrets)
        whole = "MessageDisplay" in run.session.hooks  # what is shown is known when all of it is there
        turn = run_turn(run.session, message, silent if whole else shown)
        result = await until_signal(run, turn, goes_on=True)
        if not (result.answer and shown.text.endswith(result.answer)):
            print(visible(await lifecycle.displayed(run.session, result.answer)), end="")
        print()
        if result.outcome == "completed":
            return result
        print(f"[{result.outcome}] {visible(result.reason)}", file=sys.stderr)
        if result.outcome != "limit" or "max_tool_rounds" not in result.reason:
            return result
        if (await typed("Go on? [y/N] ") or "").strip().lower() not in ("y", "yes"):
            return result
        message = "Go on."


# ------------------------------------------------------------------ slash commands


async def _slash(run: Run, text: str) -> bool:
    name, _, rest = text[1:].partition(" ")
    command = SLASH.get(name)
    if command is None and name.startswith("mcp__"):
        command = Slash("a prompt of an MCP server", partial(_prompt, name))
    kit = run.session.scene.kit
    if command is None and kit.skills is not None and kit.skills.has(name):
        command = Slash("a skill", partial(_skill, name))
    if command is None:
        skills, _ = kit.skills.offered() if kit.skills is not None else ((), True)
        meant = near(name, [*SLASH, *(known for known, _ in skills)])
        hint = f"did you mean /{meant}? " if meant else ""
        print(f"there is no command /{visible(name)}: {hint}/help lists them.", file=sys.stderr)
        return True
    try:
        done = command.run(run, rest.strip())
        return done if isinstance(done, bool) else await done
    except AdderClawError as error:
        print(f"/{name}: {run.runtime.secrets.clean(str(error))}", file=sys.stderr)
        return True


def _place(run: Run) -> str:
    """The workspace, and why it is this one."""
    loaded = run.runtime.loaded
    return f"{visible(loaded.workspace, keep_newlines=False)} ({visible(loaded.workspace_reason, keep_newlines=False)})"


def _exit(_run: Run, _rest: str) -> bool:
    return False


def _help(_run: Run, rest: str) -> bool:
    for name, command in SLASH.items():
        if rest in name or rest in command.help:
            print(f"/{name:<10} {command.help}")
    return True


def _tools(run: Run, _rest: str) -> bool:
    for tool in run.session.scene.offered.values():
        print(f"{tool.name:<14} {tool.description.splitlines()[0]}")
    return True


def _memory(run: Run, rest: str) -> bool:
    if not rest:
        files = run.session.instructions.files if run.session.instructions is not None else []
        for file in files:
            how = f", imported by {visible(file.parent)}" if file.parent else ""
            print(f"{visible(file.path)} ({file.scope.lower()}, {len(file.text):,} characters{how})")
        print(visible(memory.context(run.session.store)) or "no memories yet")
        return True
    hits = transcript.search(run.session.store, rest, 10)
    for hit in hits:
        print(f"{hit.conversation_id}  {hit.created_at}  {hit.role}: {visible(hit.snippet, keep_newlines=False)}")
    if not hits:
        print(f"nothing found for {visible(rest)!r}")
    return True


def _policy(run: Run, _rest: str) -> bool:
    security, here = run.runtime.config.security, run.session.scene.context.workspace
    policy = run.session.scene.policy
    print(f"autonomy: {policy.autonomy_now}" + (f", mode {policy.mode}" if policy.mode else ""))
    print(f"workspace: {here.root} (only there: {'yes' if security.workspace_only else 'no'})")
    for extra in here.extra:
        print(f"also: {extra}")
    print(f"forbidden paths: {', '.join(security.forbidden_paths)}")
    print(f"forbidden commands: {', '.join(security.forbidden_commands)}")
    print(f"sandbox: {run.session.scene.confinement}")
    return True


async def _model(run: Run, rest: str) -> bool:
    if rest:
        await run.switch(rest)
    session = run.session
    served = first_of(session.provider.name, session.model, session.config)
    through = "" if served.provider == session.provider.name else f", through {visible(session.provider.name)}"
    print(f"model {visible(served.model)} of the provider {visible(served.provider)}{through}")
    if not rest:
        others = ", ".join(visible(name) for name in session.config.providers.models)
        print(f"/model NAME takes another of it; /model ENTRY or ENTRY/NAME another provider: {others}")
    return True


async def _compact(run: Run, rest: str) -> bool:
    before = run.session.state.history.size
    if await compact(run.session, "manual", rest):
        print(f"compacted: {before:,} bytes of history are now {run.session.state.history.size:,}")
    else:
        print("there is nothing to compact yet")
    return True


async def _rewind(run: Run, rest: str) -> bool:
    from adderclaw.channels import restoring

    if (talk := REPLS[run.run_id].talk) is not None:
        from adderclaw.channels.repl.rewinding import go_back

        await go_back(run, talk.screen, rest)
    else:
        await restoring.slash(run, rest, restoring.asker())
    return True


async def _login(run: Run, rest: str) -> bool:
    from adderclaw.channels.cli import auth

    name = auth.chosen(rest or None, run.session.config)
    place = await auth.logged_in(run.runtime.credentials, name, "auto")
    print(f"logged in to {visible(name)}; kept in {place}")
    return True


async def _logout(run: Run, rest: str) -> bool:
    from adderclaw.channels.cli import auth

    name = auth.chosen(rest or None, run.session.config)
    for complaint in (await auth.logged_out(run.runtime.credentials, [name])).values():
        print(complaint, file=sys.stderr)
    if name != run.session.provider.name:
        return True
    print("the conversation's own provider was logged out of: it ends here")
    run.session.ends_with = "logout"
    return False


async def _status(run: Run, _rest: str) -> bool:
    """Whether credentials can be used, and of which class; never a part of one."""
    from adderclaw.channels.cli import auth

    now = run.session.config
    served = first_of(run.session.provider.name, run.session.model, now)
    print(f"model {visible(served.model)} of the provider {visible(served.provider)}")
    for row in await auth.rows(run.runtime.credentials, now, [served.provider]):
        print(auth.line(row))
    return _ids(run, "")


async def _mcp(run: Run, rest: str) -> bool:
    """What is known of the MCP servers; with a name, that server's prompts too."""
    servers = run.runtime.servers
    if servers is None:
        print("no MCP server is configured; `adderclaw mcp add` adds one")
        return True
    for row in servers.status():
        if rest in ("", row.entry.name):
            off = sum(not pin.usable for pin in row.pins.values())
            said = f"{len(row.pins)} tools" + (f", {off} off until approved" if off else "")
            print(f"{row.entry.name:<16} {row.state:<9} {said}  {visible(row.reason, keep_newlines=False)}")
    for prompt in await servers.prompts(rest) if rest else ():
        print(f"/{visible(prompt['name'])} {' '.join(map(visible, prompt['arguments']))}  {prompt['description']}")
    return True


async def _skill(name: str, run: Run, rest: str) -> bool:
    """Send a skill as the person's own message; what it asks to be allowed counts for this turn, if it is trusted."""
    session = run.session
    kit = session.scene.kit
    assert kit.skills is not None
    called = kit.skills.called(name, rest, session.session_id)
    if (refused := await lifecycle.skill_expanded(session, name, rest, called.path)) is not None:
        print(f"/{visible(name)}: a hook refused it: {visible(refused)}", file=sys.stderr)
        return True
    from adderclaw.tools.control.skill import with_outputs

    message = await with_outputs(called, session.host)
    session.scene.in_force.lend(called.rules)
    await _turn(run, message)
    return True


def _skills(run: Run, _rest: str) -> bool:
    kit = run.session.scene.kit
    listed, whole = kit.skills.offered() if kit.skills is not None else ([], True)
    for name, description in listed:
        print(f"/{name:<24} {description[:120]}")
    if not listed:
        print("there are no skills; `adderclaw skills list` says where they are looked for")
    elif not whole:
        print("there are more: `adderclaw skills list` shows all")
    return True


async def _prompt(name: str, run: Run, rest: str) -> bool:
    """Send a prompt of an MCP server as the person's own message."""
    servers = run.runtime.servers
    if servers is None:
        print(f"there is no command /{visible(name)}: no MCP server is configured.", file=sys.stderr)
        return True
    prompt = await servers.prompt(name, rest.split())
    fields: Json = {"expansion_type": "mcp_prompt", "command_name": name, "command_args": rest, "prompt": prompt}
    if (refused := await lifecycle.expanded(run.session, fields)) is not None:
        print(f"/{visible(name)}: a hook refused it: {visible(refused)}", file=sys.stderr)
        return True
    await _turn(run, prompt)
    return True


async def _add_dir(run: Run, rest: str) -> bool:
    """Let the session work in one more directory, until it ends."""
    import os

    from adderclaw.config.paths import followed
    from adderclaw.config.permissions import PermissionUpdate
    from adderclaw.kernel import permission_updates

    place = followed(os.path.expanduser(rest)) if rest else ""
    if not os.path.isdir(place):
        raise UsageError(f"{rest!r} is no directory: /add-dir PATH takes one that is there")
    session = run.session
    # a link is judged by both its names; what `..` after a link means, only the real one says
    named = os.path.abspath(os.path.expanduser(rest))
    named = named if followed(named) == place else place
    permission_updates.apply(session, PermissionUpdate("addDirectories", "session", directories=[named]))
    print(f"{visible(place, keep_newlines=False)} belongs to this session now")
    await lifecycle.added(session, place)
    return True


def _ids(run: Run, _rest: str) -> bool:
    print(f"conversation {run.session.conversation_id}, session {run.session.session_id}, run {run.run_id}")
    return True


def _todos(run: Run, _rest: str) -> bool:
    from adderclaw.store import lists
    from adderclaw.tools.control.lists import MARKS, line

    session = run.session
    lines = [f"{MARKS[todo.status]} {todo.content}" for todo in lists.todos(session.store, session.session_id)]
    lines += map(line, lists.tasks(session.store, session.conversation_id))
    print(visible("\n".join(lines)) or "nothing is to be done")
    return True


def _agents(run: Run, _rest: str) -> bool:
    from adderclaw.store import subagents
    from adderclaw.tools.control import definitions

    foreign = run.session.config.compat.claude
    known = definitions.known(run.runtime.home, run.session.scene.context.workspace.root, foreign=foreign)
    for one in known.by_name.values():
        print(visible(f"{one.name:<18} {one.description}  ({one.source})", keep_newlines=False))
    for problem in known.problems:
        print(f"note: {visible(problem, keep_newlines=False)}", file=sys.stderr)
    for child in subagents.of_parent(run.session.store, run.session.session_id):
        line = f"{child.session_id}  {child.agent_type}  {child.status}  {child.description}"
        print(visible(line, keep_newlines=False))
    return True


def _plan(run: Run, rest: str) -> bool:
    from adderclaw.store import plans

    store, conversation = run.session.store, run.session.conversation_id
    if rest not in ("", "approve"):
        raise UsageError(f"{rest!r}: it takes nothing, or `approve`")
    found = plans.last(store, conversation)
    if rest and found is not None and found.status == "draft":
        with store.write() as cursor:
            if plans.approve(cursor, found.id):
                plans.implement(cursor, conversation)
        found = plans.last(store, conversation)
    print(f"phase: {plans.phase_of(store, conversation)}")
    if found is None:
        print("there is no plan yet")
    else:
        print(f"plan {found.id}, {found.status}, of {found.created_at}:\n{visible(found.content)}")
    return True


def _clear(run: Run, rest: str) -> bool:
    """A new conversation; this one can be resumed, by its name if it gets one."""
    if rest:
        conversations.name(run, rest)
    REPLS[run.run_id].next = Next(None, "clear")
    run.session.ends_with = "clear"
    return False


def _resume(run: Run, rest: str) -> bool:
    REPLS[run.run_id].next = Next(Resume(run.session.conversation_id, go_on=False), words=rest)
    run.session.ends_with = "resume"
    return False


def _branch(run: Run, rest: str) -> bool:
    if rest:
        conversations.name(run, rest)
    REPLS[run.run_id].next = Next(Resume(run.session.conversation_id, go_on=False, fork=True))
    run.session.ends_with = "other"
    return False


def _rename(run: Run, rest: str) -> bool:
    named = conversations.name(run, rest)
    print(f"this conversation is called {named!r}" if named else "this conversation has its first words as its name")
    return True


def _export(run: Run, rest: str) -> bool:
    print(f"written to {visible(conversations.exported(run, rest), keep_newlines=False)}")
    return True


SLASH: dict[str, Slash] = {
    "clear": Slash("begin a new conversation; this one can be resumed: /clear [ITS NAME]", _clear),
    "reset": Slash("the same as /clear", _clear),
    "new": Slash("the same as /clear", _clear),
    "resume": Slash("go on with another conversation: /resume [ID or words]", _resume),
    "branch": Slash("go on in a copy of this conversation: /branch [NAME OF THE OLD ONE]", _branch),
    "rename": Slash("give this conversation a name: /rename NAME", _rename),
    "export": Slash("write this conversation to a file: /export [FILE.md, .html or .json]", _export),
    "help": Slash("list the commands, or those that contain a word", _help),
    "tools": Slash("list the active tools", _tools),
    "memory": Slash("search memory: /memory QUERY; alone, show the instruction files and what is kept", _memory),
    "policy": Slash("show the autonomy and the workspace boundary", _policy),
    "model": Slash("show the model, or take another: /model NAME, /model ENTRY, /model ENTRY/NAME", _model),
    "todos": Slash("show what is to be done", _todos),
    "agents": Slash("list the kinds of subagents, and those of this conversation", _agents),
    "plan": Slash("show the plan and the phase; /plan approve approves it", _plan),
    "add-dir": Slash("work in one more directory until the session ends: /add-dir PATH", _add_dir),
    "compact": Slash("replace the older part of the conversation by a summary: /compact [WHAT MATTERS]", _compact),
    "rewind": Slash("go back: /rewind lists the prompts, /rewind NUMBER [files|conversation] [--force]", _rewind),
    "login": Slash("log in to a provider: /login [PROVIDER]", _login),
    "logout": Slash("forget a login: /logout [PROVIDER]", _logout),
    "status": Slash("show the model, and whether its credentials can be used", _status),
    "mcp": Slash("show the MCP servers: /mcp; with a name, its prompts too", _mcp),
    "skills": Slash("list the skills; /NAME [ARGUMENTS] calls one", _skills),
    "session": Slash("show the ids of this conversation", _ids),
    "exit": Slash("leave", _exit),
    "quit": Slash("leave", _exit),
}


# ------------------------------------------------------------------ input


async def _plainly() -> str | None:
    print("> ", end="", file=sys.stderr, flush=True)
    return await STDIN.read()
