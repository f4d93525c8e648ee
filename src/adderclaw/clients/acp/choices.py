"""Modes, options and slash commands that an editor offers."""

from typing import TYPE_CHECKING

from acp import helpers, schema

from adderclaw.agent.conversation import by_name
from adderclaw.agent.loop.compaction import compact
from adderclaw.agent.run import Run
from adderclaw.agent.session.session import Session
from adderclaw.agent.tool_call import permission_updates
from adderclaw.config.model_facts import found_keys
from adderclaw.config.model_facts.catalogue import model_of
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import PermissionMode

if TYPE_CHECKING:
    from adderclaw.tools.mcp.servers import Servers

MODE, MODEL = "mode", "model"
ABOUT: dict[str, str] = {
    "default": "Asks before it changes files or runs commands that do more than read.",
    "acceptEdits": "Changes files of the workspace without asking; asks before running commands.",
    "plan": "Only reads, and proposes a plan.",
    "dontAsk": "Never asks: calls that need approval are denied.",
    "bypassPermissions": "Never asks; the sandbox and deny rules still apply.",
    "readonly": "Only reads.",
    "supervised": "Asks before it changes files or runs commands that do more than read.",
    "full": "Works without asking, within the sandbox.",
}
MOST_COMMANDS = 200


# ------------------------------------------------------------------ modes


def mode_now(session: Session) -> str:
    policy = session.environment.policy
    return policy.mode or ("default" if policy.autonomy_now == "supervised" else policy.autonomy_now)


def _modes(session: Session) -> dict[str, PermissionMode | None]:
    """Name → mode. The autonomy that a session began with is one of them, under its own name (None)."""
    began = session.environment.active_policy.initial.autonomy_now
    modes: dict[str, PermissionMode | None] = {mode or began: mode for mode in permission_updates.mode_cycle(session)}
    modes.setdefault(mode_now(session), session.environment.policy.mode)
    return modes


def modes(session: Session) -> schema.SessionModeState:
    listed = [schema.SessionMode(id=name, name=name, description=ABOUT.get(name)) for name in _modes(session)]
    return schema.SessionModeState(current_mode_id=mode_now(session), available_modes=listed)


def set_mode(session: Session, name: str) -> None:
    known = _modes(session)
    if name not in known:
        raise UsageError(f"this session has no mode {name[:60]!r}; it has: {', '.join(known)}")
    if name != mode_now(session):
        permission_updates.choose_mode(session, known[name])


# ------------------------------------------------------------------ options


def _model_now(session: Session) -> str:
    entry = session.config.providers.models.get(session.provider.name)
    own = (
        entry is not None
        and entry.model is not None
        and model_of(session.provider.name, session.config) == session.model
    )
    return session.provider.name if own else f"{session.provider.name}/{session.model}"


def _models(session: Session) -> list[str]:
    """The configured models, without entries that only play a script."""
    now = session.config
    names = [name for name in now.providers.models if not found_keys.is_unscripted(now, name)]
    return list(dict.fromkeys([*names, _model_now(session)]))


def options(session: Session) -> list[schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean]:
    of_modes = [
        schema.SessionConfigSelectOption(value=name, name=name, description=ABOUT.get(name)) for name in _modes(session)
    ]
    entries = session.config.providers.models
    of_models = [
        schema.SessionConfigSelectOption(value=name, name=name, description=entries[name].model or None)
        if name in entries
        else schema.SessionConfigSelectOption(value=name, name=name)
        for name in _models(session)
    ]
    return [
        schema.SessionConfigOptionSelect(
            type="select", id=MODE, name="Mode", category="mode", current_value=mode_now(session), options=of_modes
        ),
        schema.SessionConfigOptionSelect(
            type="select",
            id=MODEL,
            name="Model",
            category="model",
            current_value=_model_now(session),
            options=of_models,
        ),
    ]


async def set_option(run: Run, id: str, value: str | bool, *, busy: bool) -> None:
    session = run.session
    if id == MODE and isinstance(value, str):
        set_mode(session, value)
    elif id == MODEL and isinstance(value, str):
        if value not in _models(session):
            raise UsageError(f"there is no model {value[:60]!r}; use one of: {', '.join(_models(session))}")
        if busy:
            raise UsageError("the model is in use; choose another when the turn has ended, or cancel the turn")
        if value != _model_now(session):
            await run.switch(value)
    else:
        raise UsageError(f"there is no option {id[:60]!r} with a value of this type; use one of: {MODE}, {MODEL}")


# ------------------------------------------------------------------ commands


COMPACT = "compact"


async def commands(run: Run) -> schema.AvailableCommandsUpdate:
    """Built-in commands, skills, and prompts of connected MCP servers. No server is started for this."""
    skills = run.session.environment.kit.skills
    entries = [(name, text, "what matters") for name, text in by_name.OWN.items()]
    entries.append((COMPACT, "replace the older part of the conversation by a summary", "what matters"))
    taken = {name for name, _, _ in entries}
    callable_skills = skills.callable() if skills is not None else []
    entries += [(name, text, "words") for name, text in callable_skills if name not in taken]
    servers = run.runtime.servers
    for row in servers.status() if servers is not None else ():
        if servers is not None and row.state == "ready":
            entries += await _prompts(servers, row.entry.name)
    return helpers.update_available_commands(
        [_command(*entry) for entry in entries if _is_name(entry[0])][:MOST_COMMANDS]
    )


async def _prompts(servers: "Servers", name: str) -> list[tuple[str, str, str]]:
    from mcp import MCPError

    try:
        rows = await servers.prompts(name)
    except (AdderClawError, MCPError):
        return []
    return [(row["name"], row["description"], " ".join(row["arguments"])) for row in rows]


def _is_name(name: str) -> bool:
    """Whether a name can be shown unchanged; others are not offered."""
    return bool(name) and name.isprintable() and " " not in name and visible(name) == name


def _command(name: str, text: str, hint: str) -> schema.AvailableCommand:
    about = visible(text, keep_newlines=False)[:200]
    command_input = schema.UnstructuredCommandInput(hint=visible(hint, keep_newlines=False)[:100])
    return schema.AvailableCommand(name=name, description=about, input=schema.AvailableCommandInput(root=command_input))


async def expanded(run: Run, text: str) -> str | None:
    """The message to send for a text that may call a command; None if the command is done. The turn finds skills."""
    line, _, below = text.lstrip().partition("\n")
    name, _, rest = line.strip().partition(" ")
    if name == f"/{COMPACT}":
        await compact(run.session, "manual", rest.strip())
        return None
    if name[:1] == "/" and name[1:] in by_name.OWN:
        message = by_name.own(name[1:], rest.strip())
    elif name.startswith("/mcp__"):
        try:
            message = await by_name.prompted(run, name[1:], rest.strip())
        except AdderClawError as error:
            raise UsageError(f"{visible(name)[:100]}: {error}") from error
    else:
        return text
    return f"{message}\n{below}" if below.strip() else message
