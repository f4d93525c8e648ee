"""The table of slash commands: the menu, /help, completion and docs/REPL.md are made of it."""

from adderclaw.channels.repl.slash import conversation, reports, settings
from adderclaw.channels.repl.slash.row import Done, Row
from adderclaw.runtime import Run


def show_help(_run: Run, rest: str) -> Done:
    for row in ROWS:
        if rest in f"/{row.name} {' '.join(row.aliases)} {row.help}":
            print(f"{row.usage:<34} {row.help}")


ROWS: tuple[Row, ...] = (
    Row(
        "clear",
        "begin a new conversation; this one can be resumed, by NAME if it gets one",
        conversation.clear,
        "[NAME]",
        ("reset", "new"),
    ),
    Row("resume", "go on with another conversation", conversation.resume, "[ID or words]"),
    Row("branch", "go on in a copy of this conversation", conversation.branch, "[NAME OF THE OLD ONE]"),
    Row("rename", "give this conversation a name", conversation.rename, "NAME"),
    Row("export", "write this conversation to a file", conversation.export, "[FILE.md, .html or .json]"),
    Row("help", "list the commands, or those that contain a word", show_help, "[WORD]"),
    Row("tools", "list the active tools", reports.tools),
    Row(
        "memory",
        "search memory; alone, show the instruction files and what is stored",
        reports.memory,
        "[QUERY]",
    ),
    Row("policy", "show the autonomy and the workspace boundary", reports.policy),
    Row("model", "show the model, or change it", settings.model, "[NAME, ENTRY or ENTRY/NAME]"),
    Row("todos", "show what is to be done", reports.todos),
    Row("agents", "list the kinds of subagents, and those of this conversation", reports.agents),
    Row("plan", "show the plan and the phase; /plan approve approves it", conversation.plan, "[approve]"),
    Row("add-dir", "work in one more directory until the session ends", settings.add_dir, "PATH", at_once=True),
    Row(
        "compact",
        "replace the older part of the conversation by a summary",
        conversation.compact,
        "[WHAT MATTERS]",
    ),
    Row(
        "rewind",
        "go back; alone, it lists the prompts",
        conversation.rewind,
        "[NUMBER] [files|conversation] [--force]",
    ),
    Row("login", "log in to a provider", settings.login, "[PROVIDER]"),
    Row("logout", "forget a login", settings.logout, "[PROVIDER]"),
    Row("status", "show the model, and whether its credentials can be used", reports.status, at_once=True),
    Row("mcp", "show the MCP servers; with a name, its prompts too", reports.mcp, "[NAME]"),
    Row("skills", "list the skills; /NAME [ARGUMENTS] calls one", reports.skills),
    Row("session", "show the ids of this conversation", reports.ids),
    Row("exit", "leave", conversation.leave, aliases=("quit",)),
)

SLASH: dict[str, Row] = {name: row for row in ROWS for name in (row.name, *row.aliases)}
