"""The table of slash commands, used by the menu, /help, completion and docs/repl.md."""

from adderclaw.agent.conversation import by_name
from adderclaw.agent.run import Run
from adderclaw.terminal.repl.slash import command_line, conversation, git, mcp, prompts, reports, sdlc, settings
from adderclaw.terminal.repl.slash.command import Action, Done, Row
from adderclaw.terminal.repl.slash.command_line import command_action


def show_help(_run: Run, rest: str) -> Done:
    word = rest.removeprefix("/").lower()
    rows = [row for row in ROWS if word in f"{row.name} {' '.join(row.aliases)} {row.help}".lower()]
    for row in rows:
        also = f" (also {', '.join(f'/{name}' for name in row.aliases)})" if row.aliases else ""
        print(f"{row.usage:<40} {row.help}{also}")
    if not rows:
        print(f"no command has {rest!r} in its name or help")


def _row(name: str, arguments: str, run: Action, text: str, *aliases: str, at_once: bool = False) -> Row:
    return Row(name, text, run, arguments, aliases, at_once)


ROWS: tuple[Row, ...] = (
    # ---- conversations
    _row("clear", "[NAME]", conversation.clear, "start a new conversation; this one can be resumed", "reset", "new"),
    _row("resume", "[ID or words]", conversation.resume, "continue another conversation", "continue"),
    _row("branch", "[NAME OF THE OLD ONE]", conversation.branch, "continue in a copy of this conversation"),
    _row("rename", "NAME", conversation.rename, "give this conversation a name"),
    _row("export", "[FILE.md, .html or .json]", conversation.export, "write this conversation to a file"),
    _row(
        "compact", "[WHAT MATTERS]", conversation.compact, "replace the older part of the conversation with a summary"
    ),
    _row(
        "rewind",
        "[NUMBER] [files|conversation] [--force]",
        conversation.rewind,
        "go back; without arguments, list the prompts",
        "checkpoint",
        "undo",
    ),
    _row("diff", "", reports.diff, "show what this conversation changed on disk"),
    _row("copy", "[N]", reports.copy, "copy the last answer, or the Nth from the end, to the clipboard"),
    _row("recap", "", prompts.recap, "summarize this conversation in a sentence or two"),
    _row("btw", "QUESTION", prompts.btw, "ask a side question that does not enter the conversation"),
    _row("cd", "PATH", conversation.cd, "continue in another folder, in a copy of this conversation"),
    _row("exit", "", conversation.leave, "leave", "quit"),
    # ---- work
    _row("plan", "[TASK or approve]", sdlc.plan, "show the plan and the phase; approve it; or plan a task"),
    _row("phase", "[PHASE]", sdlc.phase, "show what blocks the next phase, or enter it"),
    _row("goal", "[WORDS or clear]", prompts.goal, "work until this is reached; the model is asked at each stop"),
    _row(
        "sop",
        "[list|show|validate|approve …]",
        command_line.sop,
        "list the SOPs, show a run of one, answer its question",
    ),
    _row("todos", "", reports.todos, "show the to-do list"),
    _row("tasks", "[stop ID]", reports.tasks, "list background tasks, or stop one", "bashes", at_once=True),
    _row("agents", "", reports.agents, "list the kinds of subagents, and those of this conversation"),
    _row("init", "[WORDS]", prompts.own_prompt("init"), by_name.OWN["init"]),
    _row("review", "[TARGET]", prompts.own_prompt("review"), by_name.OWN["review"], "code-review"),
    _row("security-review", "[TARGET]", prompts.own_prompt("security-review"), by_name.OWN["security-review"]),
    _row("simplify", "[TARGET]", prompts.own_prompt("simplify"), by_name.OWN["simplify"]),
    _row("commit", "[WHAT MATTERS]", git.commit, "commit what is staged, or everything: drafts the message and asks"),
    _row("pr", "[WHAT MATTERS]", git.pr, "push the branch and open a pull request with gh: drafts it and asks"),
    # ---- what the session has
    _row("status", "", reports.status, "show the model, and whether its credentials can be used", at_once=True),
    _row("context", "", reports.context, "show what fills the model's window"),
    _row("usage", "[OPTIONS]", reports.usage, "show tokens and cost", "cost", "stats", at_once=True),
    _row("session", "", reports.ids, "show the ids of this conversation"),
    _row("tools", "", reports.tools, "list the active tools"),
    _row("skills", "", reports.skills, "list the skills; /NAME [ARGUMENTS] calls one"),
    _row(
        "mcp",
        "[NAME] or [reconnect|enable|disable|login|logout NAME]",
        mcp.mcp,
        "show the MCP servers and their problems; reconnect, disable for this session, log in",
    ),
    _row(
        "plugin",
        "[list|show|install|enable|disable|remove|verify …]",
        command_line.plugin,
        "list the plugins, show one, trust one, disable one",
        "plugins",
    ),
    _row(
        "memory",
        "[QUERY or confirm|forget|edit KEY]",
        reports.memory,
        "search memory; without arguments, show instruction files and notes",
    ),
    _row("receipts", "[list|verify|head]", command_action("receipt", alone=("list",)), "list or verify the receipts"),
    _row("replay", "RUN_ID [OPTIONS]", command_action("replay"), "show a run again, or prove it"),
    # ---- what it may do
    _row(
        "permissions",
        "[allow|ask|deny|remove RULE]",
        reports.permissions,
        "show the rules, or change those of this session",
        "allowed-tools",
        at_once=True,
    ),
    _row("policy", "", reports.policy, "show the autonomy and the workspace boundary"),
    _row("sandbox", "", reports.sandbox, "show the sandbox of commands"),
    _row("hooks", "", command_action("hooks", "list"), "list the configured hooks"),
    _row("add-dir", "PATH", settings.add_dir, "work in one more directory until the session ends", at_once=True),
    _row(
        "estop",
        "[--status|--clear]",
        command_action("estop"),
        "stop every tool now, until the stop is cleared",
        at_once=True,
    ),
    # ---- settings
    _row("model", "[NAME, ENTRY or ENTRY/NAME]", settings.model, "show the model, or change it at once"),
    Row(
        "effort",
        "show how much the model thinks, or change it from the next call on",
        settings.effort,
        "[none … max, or auto]",
        words=settings.EFFORT_WORDS,
    ),
    _row(
        "config",
        "[model=… mode=… theme=… editor=…]",
        settings.config,
        "show the configuration, or change some of it",
        "settings",
    ),
    _row("login", "[PROVIDER]", settings.login, "log in to a provider"),
    _row("logout", "[PROVIDER]", settings.logout, "forget a login"),
    _row("theme", "[auto|light|dark]", settings.theme, "change the colours: for a light or a dark terminal"),
    _row("vim", "", settings.vim, "switch between vi keys and the usual ones"),
    _row("keys", "", reports.keys, "list the keys", "keybindings"),
    _row("doctor", "", command_action("doctor"), "check this installation and say how to fix it"),
    _row("bug", "[WORDS]", reports.bug, "write a report into a file", "feedback", "share", at_once=True),
    _row("help", "[WORD]", show_help, "list the commands, or those that contain a word"),
)

SLASH: dict[str, Row] = {name: row for row in ROWS for name in (row.name, *row.aliases)}
