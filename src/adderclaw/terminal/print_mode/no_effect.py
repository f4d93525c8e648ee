"""SDK options that have no effect here. Each is reported to the client once instead of being ignored silently."""

from collections.abc import Mapping
from typing import Any, cast

from adderclaw.core.types import Json
from adderclaw.terminal.print_mode import Reports

APPLIED = frozenset(
    (
        *("subtype", "hooks", "agents", "jsonSchema", "systemPrompt", "appendSystemPrompt", "skills", "title"),
        *("sdkMcpServers", "sdkMcpServerConfigs", "sdkMcpServerManifests", "sdkMcpServerManifestsOrigin"),
        *("plugins", "mcpServers", "settings", "disallowedTools", "perTaskStopAffordance"),
    )
)
"""Fields of `initialize` that are applied."""
NO_CALLS = "no model call is made without a request"
FIELDS: Mapping[str, str] = {
    "systemPromptSnapshot": "the system prompt is composed at each start and stays the same until the end",
    "excludeDynamicSections": "the system prompt names the workspace; replace it with systemPrompt",
    "planModeInstructions": "the plan mode has its own instructions",
    "toolAliases": "a tool keeps its own name; deny another one with disallowedTools",
    "promptSuggestions": NO_CALLS,
    "agentProgressSummaries": NO_CALLS,
    "forwardSubagentText": "the messages of subagents are not sent; `adderclaw replay RUN` shows them",
    "supportedDialogKinds": "no dialog is sent; questions come as can_use_tool",
}
"""Fields of `initialize` without effect, with the reason."""
MESSAGE_FIELDS: Mapping[str, str] = {
    "priority": "messages are answered in the order of their arrival",
    "parent_tool_use_id": "a message goes to the main conversation",
    "isSynthetic": "the model sees it like any other message",
    "tool_use_result": "results come only from the tools",
    "origin": "the model sees it like any other message",
}
"""Fields of a user message without effect."""
CITATIONS = "answers have no citations"
HOOK_FIELDS: Mapping[str, str] = {
    "contextOnly": "the hook is called like any other",
    "replacedByFrame": "the hook is called like any other",
    "whenUnanswered": "a hook that does not answer blocks",
}
"""Fields of a matcher in `hooks` without effect."""
VARIABLES: Mapping[str, str] = {
    "CLAUDE_CODE_QUESTION_PREVIEW_FORMAT": "questions have no previews",
    "CLAUDE_CODE_QUESTION_EXTENDED": "questions have their usual form",
    "CLAUDE_CODE_QUESTION_OPTIONAL_DESCRIPTIONS": "questions have their usual form",
    "CLAUDE_AGENT_SDK_CLIENT_APP": "requests to a model do not name the client",
}
"""Environment variables that an SDK sets for an option, with the reason why they have no effect."""
AUTO = "no model decides about calls here; use the mode default, which asks"


def report_unused_fields(initialize: Json, reports: Reports) -> None:
    """Reports the fields of an `initialize` request that have no effect."""
    for name, value in initialize.items():
        if name not in APPLIED and value not in (None, False, "", [], {}):
            reports.add(f"initialize.{name}"[:80], FIELDS.get(name, "AdderClaw does not know this field"))
    groups = [group for _, group in _items(initialize.get("hooks"))]
    matchers = [
        matcher for group in groups for matcher in (cast("list[Any]", group) if isinstance(group, list) else [group])
    ]
    for name in dict.fromkeys(key for matcher in matchers for key, value in _items(matcher) if value is not None):
        if name in HOOK_FIELDS:
            reports.add(f"initialize.hooks.{name}", HOOK_FIELDS[name])
    for name, matcher in _items(initialize.get("sdkMcpServerConfigs")):
        if "timeout" in dict(_items(matcher)):
            reports.add(f"initialize.sdkMcpServerConfigs.{name}.timeout"[:120], "a call may take at most 120 seconds")


def usable_agents(agents: Json, reports: Reports) -> Json:
    """Definitions of subagents without the fields that have no effect."""
    from adderclaw.tools.control.definitions import KEYS

    agents_by_name: Json = {}
    for name, definition in agents.items():
        fields = dict(_items(definition))
        for key in [key for key in fields if key not in KEYS | {"prompt"}]:
            if fields.pop(key) is not None:
                reports.add(f"agents.{name}.{key}"[:120], "subagents do not have this property here")
        if fields.get("permissionMode") == "auto":
            del fields["permissionMode"]
            reports.add(f"agents.{name}.permissionMode"[:120], AUTO)
        agents_by_name[name] = fields if isinstance(definition, dict) else definition
    return agents_by_name


def _items(value: object) -> list[tuple[str, Any]]:
    return list(cast("dict[str, Any]", value).items()) if isinstance(value, dict) else []
