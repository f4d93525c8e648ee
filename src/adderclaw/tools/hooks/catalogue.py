"""The catalogue of hook events: the fields, matcher, time limit and possible answers of each."""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, cast

from adderclaw.core.types import Json

TOOL_SECONDS = 600.0
"""Time limit of tool and prompt events; every other event has `SECONDS`."""
SECONDS = 60.0
SESSION_END_SECONDS = 1.5

type ExitTwoEffect = Literal["block", "model", "user", "ignore"]
"""What exit code 2 does: blocks what the event is about, tells the model, tells the person, or nothing."""


class Kind(NamedTuple):
    """A JSON type: its description and its check."""

    description: str
    accepts: Callable[[object], bool]


def _is(*kinds: type) -> Callable[[object], bool]:
    # bool is not a number here, although it is an int in Python
    return lambda value: type(value) in kinds


def _all(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, cast(list[object], value)))


def _one_of(*words: str) -> Kind:
    return Kind(f"one of {', '.join(words)}", words.__contains__)


def _anything(_value: object) -> bool:
    return True


TEXT = Kind("text", _is(str))
NULLABLE = Kind("text or null", _is(str, type(None)))
BOOL = Kind("true or false", _is(bool))
NUMBER = Kind("a number", _is(int, float))
ANY = Kind("JSON", _anything)
TABLE = Kind("an object", _is(dict))
LIST = Kind("a list", _is(list))
TEXTS = Kind("a list of texts", _all(_is(str)))


def _is_update(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    update = cast(Json, value)
    kind = update.get("type")
    return isinstance(kind, str) and kind in UPDATE_TYPES and not field_problems(UPDATE_TYPES[kind], update)


def _is_rule(value: object) -> bool:
    return isinstance(value, dict) and not field_problems({"toolName": TEXT, "ruleContent?": TEXT}, cast(Json, value))


def _is_decision(value: object) -> bool:
    """`{behavior: allow, updatedInput?, updatedPermissions?}` or `{behavior: deny, message?, interrupt?}`."""
    match value:
        case {"behavior": "allow"}:
            spec: Spec = {"updatedInput?": TABLE, "updatedPermissions?": UPDATES}
        case {"behavior": "deny"}:
            spec = {"message?": TEXT, "interrupt?": BOOL}
        case _:
            return False
    return not field_problems(spec, cast(Json, value))


UPDATES = Kind("a list of permission updates", _all(_is_update))
VERDICT = _one_of("allow", "deny", "ask")
MODE, ACTION = _one_of("form", "url"), _one_of("accept", "decline", "cancel")
COMPACTION = _one_of("manual", "auto")

type Spec = Mapping[str, Kind]
"""Field → its type; a name that ends in `?` may be left out."""

_CALL: Spec = {"tool_name": TEXT, "tool_input": ANY, "tool_use_id": TEXT}
_TASK: Spec = {
    "task_id": TEXT,
    "task_subject": TEXT,
    "task_description?": TEXT,
    "teammate_name?": TEXT,
    "team_name?": TEXT,
}
_SWITCH: Spec = {"from_model": TEXT, "to_model": TEXT, "requested_model": NULLABLE, "source": TEXT}
_CONTEXT: Spec = {"additionalContext?": TEXT}
_WATCH: Spec = {"watchPaths?": TEXTS}
_ELICITED: Spec = {"action?": ACTION, "content?": TABLE}


class Event(NamedTuple):
    fields: Spec
    """The fields of its stdin in addition to the base fields."""
    query: str = ""
    """The field that a matcher is compared with. Without one, only `""` and `*` match."""
    arm: Spec | None = None
    """The allowed fields of `hookSpecificOutput`; None: it must be left out."""
    on_exit_two: ExitTwoEffect = "ignore"
    seconds: float = SECONDS
    stdout_is_context: bool = False
    """Plain text on stdout is context for the model."""


EVENTS: dict[str, Event] = {
    "PreToolUse": Event(
        _CALL,
        "tool_name",
        {"permissionDecision?": VERDICT, "permissionDecisionReason?": TEXT, "updatedInput?": TABLE, **_CONTEXT},
        "block",
        TOOL_SECONDS,
    ),
    "PostToolUse": Event(
        {**_CALL, "tool_response": ANY},
        "tool_name",
        {**_CONTEXT, "updatedMCPToolOutput?": ANY},
        "model",
        TOOL_SECONDS,
    ),
    "PostToolUseFailure": Event(
        {**_CALL, "error": TEXT, "is_interrupt?": BOOL}, "tool_name", _CONTEXT, "model", TOOL_SECONDS
    ),
    "PermissionDenied": Event({**_CALL, "reason": TEXT}, "tool_name", {"retry?": BOOL}),
    "Notification": Event({"message": TEXT, "title?": TEXT, "notification_type": TEXT}, "notification_type", _CONTEXT),
    "UserPromptSubmit": Event({"prompt": TEXT}, "", _CONTEXT, "block", TOOL_SECONDS, stdout_is_context=True),
    "SessionStart": Event(
        {"source": _one_of("startup", "resume", "clear", "compact"), "agent_type?": TEXT, "model?": TEXT},
        "source",
        {**_CONTEXT, "initialUserMessage?": TEXT, **_WATCH},
        "user",
        stdout_is_context=True,
    ),
    "SessionEnd": Event(
        {"reason": _one_of("clear", "resume", "logout", "prompt_input_exit", "other", "bypass_permissions_disabled")},
        "reason",
        None,
        "user",
        SESSION_END_SECONDS,
    ),
    "Stop": Event({"stop_hook_active": BOOL, "last_assistant_message?": TEXT}, "", None, "block"),
    "StopFailure": Event(
        {
            "error": _one_of(
                "authentication_failed",
                "billing_error",
                "rate_limit",
                "invalid_request",
                "server_error",
                "unknown",
                "max_output_tokens",
            ),
            "error_details?": TEXT,
            "last_assistant_message?": TEXT,
        },
        "error",
    ),
    "SubagentStart": Event({"agent_id": TEXT, "agent_type": TEXT}, "agent_type", _CONTEXT, "user"),
    "SubagentStop": Event(
        {
            "stop_hook_active": BOOL,
            "agent_id": TEXT,
            "agent_transcript_path": TEXT,
            "agent_type": TEXT,
            "last_assistant_message?": TEXT,
        },
        "agent_type",
        None,
        "block",
    ),
    "PreCompact": Event({"trigger": COMPACTION, "custom_instructions": NULLABLE}, "trigger", None, "block"),
    "PostCompact": Event({"trigger": COMPACTION, "compact_summary": TEXT}, "trigger", None, "user"),
    "PermissionRequest": Event(
        {"tool_name": TEXT, "tool_input": ANY, "permission_suggestions?": UPDATES},
        "tool_name",
        {"decision": Kind("a decision: behavior allow or deny", _is_decision)},
    ),
    "Setup": Event({"trigger": _one_of("init", "maintenance")}, "trigger", _CONTEXT, "user"),
    "TeammateIdle": Event({"teammate_name": TEXT, "team_name": TEXT}, "", None, "block"),
    "TaskCreated": Event(_TASK, "", None, "block"),
    "TaskCompleted": Event(_TASK, "", None, "block"),
    "Elicitation": Event(
        {
            "mcp_server_name": TEXT,
            "message": TEXT,
            "mode?": MODE,
            "url?": TEXT,
            "elicitation_id?": TEXT,
            "requested_schema?": TABLE,
        },
        "mcp_server_name",
        _ELICITED,
        "block",
    ),
    "ElicitationResult": Event(
        {"mcp_server_name": TEXT, "elicitation_id?": TEXT, "mode?": MODE, "action": ACTION, "content?": TABLE},
        "mcp_server_name",
        _ELICITED,
        "block",
    ),
    "ConfigChange": Event(
        {
            "source": _one_of("user_settings", "project_settings", "local_settings", "policy_settings", "skills"),
            "file_path?": TEXT,
        },
        "source",
        None,
        "block",
    ),
    "InstructionsLoaded": Event(
        {
            "file_path": TEXT,
            "memory_type": _one_of("User", "Project", "Local", "Managed"),
            "load_reason": _one_of("session_start", "nested_traversal", "path_glob_match", "include", "compact"),
            "globs?": TEXTS,
            "trigger_file_path?": TEXT,
            "parent_file_path?": TEXT,
        },
        "load_reason",
    ),
    "WorktreeCreate": Event({"name": TEXT}, "", {"worktreePath": TEXT}, "block"),
    "WorktreeRemove": Event({"worktree_path": TEXT}),
    "CwdChanged": Event({"old_cwd": TEXT, "new_cwd": TEXT}, "", _WATCH, "user"),
    "FileChanged": Event({"file_path": TEXT, "event": _one_of("change", "add", "unlink")}, "file_path", _WATCH, "user"),
    # events of newer versions of the hook protocol
    "PostToolBatch": Event({"tool_calls": LIST}, "", _CONTEXT, "block"),
    "UserPromptExpansion": Event(
        {
            "expansion_type": _one_of("slash_command", "mcp_prompt"),
            "command_name": TEXT,
            "command_args": TEXT,
            "command_source?": TEXT,
            "prompt": TEXT,
        },
        "command_name",
        _CONTEXT,
        "block",
        stdout_is_context=True,
    ),
    "PreModelSwitch": Event(_SWITCH, "", {"permissionDecision?": VERDICT, "permissionDecisionReason?": TEXT}, "block"),
    "PostModelSwitch": Event(_SWITCH, "", _CONTEXT, "user"),
    "DirectoryAdded": Event({"directory": TEXT, "source": TEXT}, "source"),
    "MessageDisplay": Event(
        {"turn_id": TEXT, "message_id": TEXT, "index": NUMBER, "final": BOOL, "delta": TEXT},
        "",
        {"displayContent?": TEXT},
    ),
}

BASE: Spec = {
    "hook_event_name": TEXT,
    "session_id": TEXT,
    "conversation_id": TEXT,
    "runtime_db_path": TEXT,
    "cwd": TEXT,
    "permission_mode?": TEXT,
    "agent_id?": TEXT,
    "agent_type?": TEXT,
}
"""The fields of every event; there is no transcript_path."""

OUTPUT: Spec = {
    "continue?": BOOL,
    "suppressOutput?": BOOL,
    "stopReason?": TEXT,
    "decision?": _one_of("approve", "block"),
    "systemMessage?": TEXT,
    "reason?": TEXT,
    "hookSpecificOutput?": TABLE,
}


def field_problems(spec: Spec, data: Json, where: str = "") -> list[str]:
    """The problems with the known fields of `data`; `unknown_fields` reports the others."""
    messages: list[str] = []
    for name, kind in spec.items():
        key = name.removesuffix("?")
        if key not in data:
            messages += [] if name.endswith("?") else [f"{where}{key} is missing"]
        elif not kind.accepts(data[key]):
            messages.append(f"{where}{key} must be {kind.description}")
    return messages


def unknown_fields(spec: Spec, data: Json) -> list[str]:
    """Fields that the spec does not know."""
    known = {name.removesuffix("?") for name in spec}
    return [name for name in data if name not in known]


# ------------------------------------------------------------------ permission updates

_DESTINATION = _one_of("userSettings", "projectSettings", "localSettings", "session", "cliArg")
_RULES: Spec = {
    "rules": Kind("a list of rules", _all(_is_rule)),
    "behavior": VERDICT,
    "destination": _DESTINATION,
}
_FOLDERS: Spec = {"directories": TEXTS, "destination": _DESTINATION}
_MODES = _one_of("acceptEdits", "bypassPermissions", "default", "dontAsk", "plan")
UPDATE_TYPES: dict[str, Spec] = {
    "addRules": _RULES,
    "replaceRules": _RULES,
    "removeRules": _RULES,
    "setMode": {"mode": _MODES, "destination": _DESTINATION},
    "addDirectories": _FOLDERS,
    "removeDirectories": _FOLDERS,
}
