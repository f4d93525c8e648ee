"""The table of commands, and the options of `agent` that may come before a command."""

from typing import NamedTuple  # adderclaw.core.record imports dataclasses, which --version does not need


class Command(NamedTuple):
    module: str
    help: str


COMMANDS: dict[str, Command] = {
    "init": Command("setup", "Create the home, the configuration, the database and the workspace."),
    "onboard": Command("setup", "Set up with questions: provider, key variable, autonomy."),
    "agent": Command("agent", "Talk to the agent: a REPL, or one turn with -m."),
    "run": Command("run", "Run a specification, a task or a workflow unattended."),
    "sop": Command("sop", "List, validate, run, show, resume and approve SOPs: procedures made of steps."),
    "spec": Command(
        "spec", "Manage the scenarios of a specification: sync feature files, show, verify, block, deprecate."
    ),
    "rpc": Command("rpc", "Serve JSON-RPC 2.0 on stdin and stdout for another program."),
    "serve": Command("serve", "Serve HTTP on this machine: an API for programs and a dashboard for people."),
    "service": Command("service", "Run the server in the background: install, start, stop, inspect."),
    "fleet": Command("fleet", "Run work on many machines, coordinated by PostgreSQL: submit, work, stop, verify."),
    "dashboard": Command("dashboard", "Open the dashboard of the running server in the browser, logged in."),
    "attach": Command("attach", "Open the REPL on a running server: start a conversation there, or continue one."),
    "token": Command("token", "Create, list and revoke access tokens for clients of the server."),
    "channel": Command("channel", "Manage chat systems that send messages through the server: list, secret, test."),
    "acp": Command("acp", "Serve the Agent Client Protocol on stdin and stdout for an editor."),
    "validate": Command("agentfile", "Check an Agentfile and every file it names."),
    "inspect": Command("agentfile", "Show what a workflow would do, as a tree, JSON or a graph."),
    "fmt": Command("agentfile", "Format an Agentfile."),
    "tool": Command("tool", "List, run and explain tools."),
    "config": Command("config", "Validate, show, change and create configuration."),
    "mcp": Command("mcp", "Add, list, approve and test MCP servers; or serve as one."),
    "provider": Command("provider", "List and test model providers."),
    "models": Command("models", "List the table of known models, or update it."),
    "login": Command("auth", "Log in to a provider: in the browser, by device code or by a pasted code."),
    "logout": Command("auth", "Forget a login, and revoke it where the provider can."),
    "auth": Command("auth", "Show which credentials are usable, and of which kind; never the credentials themselves."),
    "memory": Command("memory", "List, search, show, edit and clear conversations and notes."),
    "sdlc": Command("sdlc", "Take a conversation from plan to proof: its phase, its plan, its report."),
    "checkpoint": Command("checkpoint", "List, show and restore what tools changed on disk."),
    "later": Command("later", "List, accept or set aside changes by commands to files that other programs run."),
    "receipt": Command("receipt", "List and verify the tamper-evident receipts."),
    "runs": Command("runs", "List runs and how they ended."),
    "replay": Command("replay", "Show a run again, prove it, or judge its calls under another policy."),
    "usage": Command("usage", "Show the tokens and cost of model calls by run, day, model or provider."),
    "policy": Command("policy", "Check a policy.toml and explain what it would decide."),
    "approvals": Command("approvals", "List and answer pending questions, and see what you always allow."),
    "notices": Command(
        "notices", "List where notices are sent when something needs you or is done, test them, see the last ones."
    ),
    "hooks": Command("hooks", "List hooks, and run the hooks of an event by hand."),
    "skills": Command("skills", "List skills, show one, check one against the specification."),
    "plugin": Command("plugin", "Install, show, trust, enable, disable, verify, remove and create plugins."),
    "trust": Command("trust", "Trust a project's configuration as it is now."),
    "ci": Command("ci", "Deliver the changes of a CI run: as a commit, a pull or merge request, or a comment."),
    "cache": Command("cache", "Show or remove the sandbox caches of package managers."),
    "schedule": Command("schedule", "Schedule work: at set times, when files change, or on a request."),
    "estop": Command("estop", "Stop every tool now, until the stop is cleared."),
    "backup": Command("homes", "Back up the home to one file, even while sessions run."),
    "restore": Command("homes", "Restore a home from a backup, after every byte and receipt is checked."),
    "uninstall": Command("homes", "List and remove everything this program created."),
    "update": Command("update", "Show how to update, for the way AdderClaw was installed."),
    "doctor": Command("doctor", "Check this installation and say how to fix it."),
}

DISPLAY_FLAGS = ("--plain", "--no-motion")
AGENT_FLAGS = (*DISPLAY_FLAGS, "--bare", "--maintenance")
AGENT_OPTIONS = (
    "--profile",
    "--permission-mode",
    "--provider",
    "--model",
    "--effort",
    "--workspace",
    "--config",
    "--plugin-dir",
    "--limit",
)
"""Options of `agent` with a value. They may come first on a command line that opens a conversation, or alone."""
