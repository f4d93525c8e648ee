"""Commands and flags of Claude Code that are none here: what to do instead, or why. The list is closed."""

from typing import Literal

from adderclaw.record import NamedTuple

type State = Literal["replaced", "omitted"]


class Elsewhere(NamedTuple):
    state: State
    why: str
    """Replaced: what to do instead. Omitted: because of what."""


def _replaced(by: str) -> Elsewhere:
    return Elsewhere("replaced", by)


def _omitted(because: str) -> Elsewhere:
    return Elsewhere("omitted", because)


CLOUD = "it needs a vendor's cloud service or account, and AdderClaw is local"

COMMANDS: dict[str, Elsewhere] = {
    **dict.fromkeys(
        [
            "advisor",
            "artifacts",
            "auto-mode-setup",
            "autofix-pr",
            "chrome",
            "design-login",
            "design-sync",
            "desktop",
            "app",
            "fast",
            "install-github-app",
            "install-slack-app",
            "mobile",
            "ios",
            "android",
            "passes",
            "powerup",
            "radio",
            "stickers",
            "upgrade",
            "usage-credits",
            "privacy-settings",
            "remote-control",
            "rc",
            "remote-env",
            "teleport",
            "tp",
            "web-setup",
            "schedule",
            "routines",
            "ultrareview",
            "team-onboarding",
        ],
        _omitted(CLOUD),
    ),
    "reload-plugins": _replaced("/clear: a new conversation begins with the plugins as they are now"),
    **dict.fromkeys(("pr-comments", "ultraplan"), _omitted("Claude Code has removed it, too")),
    **dict.fromkeys(
        ("background", "bg", "fork"),
        _replaced("`adderclaw run --detach` hands a run to the server, /branch makes a copy here"),
    ),
    "autocompact": _omitted(
        "the conversation is compacted when it nears the end of the model's window; /compact does it by hand"
    ),
    "batch": _replaced("an Agentfile: `adderclaw run FILE` has parallel steps"),
    "claude-api": _omitted("it is reference material of one vendor"),
    "color": _omitted("the prompt has the colours of your terminal; /theme chooses light or dark"),
    "dataviz": _replaced("a skill of your own in .adderclaw/skills"),
    "debug": _replaced("/replay, and the events.jsonl of the run's folder"),
    "deep-research": _replaced("ask for it: the web tools and subagents are there without a command"),
    "fewer-permission-prompts": _replaced("the answer `always` to a question, or /permissions allow RULE"),
    "focus": _omitted("finished output is folded already; Ctrl-O unfolds the last"),
    "heapdump": _omitted("it looks into a JavaScript engine, which is not there"),
    "ide": _omitted("no editor is attached; Ctrl-G opens yours"),
    "import": _replaced("`adderclaw onboard`, which offers what it finds in ~/.claude"),
    "insights": _replaced("/usage, and `adderclaw runs list`"),
    **dict.fromkeys(("list-agents", "peers"), _replaced("/agents")),
    **dict.fromkeys(("loop", "proactive"), _replaced("/goal, or a timer of the system that starts `adderclaw -p`")),
    "release-notes": _replaced("CHANGELOG.md of the installed version"),
    "reload-skills": _replaced("/clear: a new conversation begins with the skills as they are now"),
    **dict.fromkeys(
        ("run", "run-skill-generator", "verify"), _replaced("say so in words, or write a skill in .adderclaw/skills")
    ),
    **dict.fromkeys(("scroll-speed", "tui"), _omitted("the terminal's own scrollback is used")),
    "statusline": _replaced("`statusLine` in your settings: a command that fills the line below the input"),
    "terminal-setup": _omitted("Alt-Enter, Ctrl-J and \\ at the end of a line begin a new one in every terminal"),
    "voice": _omitted("no microphone is used"),
    **dict.fromkeys(
        ("setup-bedrock", "setup-vertex"), _replaced("`adderclaw onboard`, or an entry of providers.models")
    ),
    "stop": _replaced("/tasks stop ID, or Esc for the turn at hand"),
    "subtask": _replaced("ask for a subagent in words; /agents lists the kinds"),
    "workflows": _replaced("`adderclaw run FILE` and `adderclaw runs list`"),
}
"""Name → what there is instead."""

FLAGS: dict[str, Elsewhere] = {
    "--append-subagent-system-prompt": _replaced("the prompt of the subagent's own file"),
    "--autocompact": _omitted("the conversation is compacted when it nears the end of the model's window"),
    **dict.fromkeys(("--bg", "--exec", "--tmux"), _replaced("a second terminal, or `adderclaw run`")),
    **dict.fromkeys(("--name", "-n"), _replaced("/rename NAME")),
    "--from-pr": _replaced("`adderclaw -r WORDS`"),
    "--disable-slash-commands": _replaced("--bare, which has neither skills nor commands of your own"),
    "--exclude-dynamic-system-prompt-sections": _replaced("--system-prompt"),
    "--forward-subagent-text": _replaced("`adderclaw replay RUN` shows what subagents wrote"),
    "--prompt-suggestions": _omitted("no further model call is made that nobody asked for"),
    **dict.fromkeys(("--init", "--init-only"), _replaced("--maintenance, which begins with the Setup hooks")),
    "--plugin-url": _replaced("`adderclaw plugin install GIT`, which shows what it brings before it counts"),
    "--safe-mode": _replaced("--bare"),
    "-v": _replaced("-V or --version"),
    **dict.fromkeys(("--worktree", "-w"), _replaced("ask for a worktree; a run has `adderclaw run --worktree NAME`")),
    "--ide": _omitted("no editor is attached"),
    **dict.fromkeys(("--chrome", "--no-chrome"), _omitted("the browser tools start a browser of their own")),
}

SUBCOMMANDS: dict[str, Elsewhere] = {
    "install": _replaced("whatever installed it: `uv tool install adderclaw`, `pip install adderclaw`"),
    "auth login": _replaced("`adderclaw login`"),
    "auth logout": _replaced("`adderclaw logout`"),
    "agents": _replaced("/agents, and `adderclaw runs list`"),
    **dict.fromkeys(
        ("logs", "respawn"), _replaced("`adderclaw runs list`, `adderclaw replay RUN_ID`, `adderclaw -r ID`")
    ),
    **dict.fromkeys(("stop", "kill"), _replaced("`adderclaw estop`, or Ctrl-C in its terminal")),
    "rm": _omitted("what an agent did stays on record; `adderclaw memory clear` removes it"),
    "daemon": _replaced("`adderclaw serve`"),
    "import": _replaced("`adderclaw onboard`, which offers what it finds in ~/.claude"),
    "mcp add-json": _replaced("`adderclaw mcp add`, or an entry of mcp_servers in your configuration"),
    "mcp get": _replaced("`adderclaw mcp list NAME`"),
    "project purge": _replaced("`adderclaw memory clear`"),
    "auto-mode": _omitted("no model judges calls: the gate does, by rules; `adderclaw policy` explains them"),
    **dict.fromkeys(("setup-token", "remote-control", "self-hosted-runner", "gateway", "ultrareview"), _omitted(CLOUD)),
}
"""The same for commands of the command line."""


def typed_at_the_shell(name: str) -> str:
    """The same for the command line; empty where nobody knows it."""
    found = SUBCOMMANDS.get(name)
    if found is None:
        return ""
    return f"; it is left out: {found.why}" if found.state == "omitted" else f"; instead: {found.why}"


def said(name: str) -> str | None:
    """What a person reads who types a command that is none here; None where nobody knows it."""
    found = COMMANDS.get(name)
    if found is None:
        return None
    if found.state == "omitted":
        return f"/{name} is left out: {found.why}."
    return f"/{name} is not a command here. Instead: {found.why}."
