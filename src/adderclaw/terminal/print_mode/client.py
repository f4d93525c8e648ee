"""The client program as operator: it answers questions, runs its own hooks, and sends requests."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from adderclaw import __version__
from adderclaw.agent.run import Options, Run
from adderclaw.agent.tool_call.approvals import refuse_unaskable
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.questions import Answer, ApprovalRequest, QuestionRequest, Replies, answer_with
from adderclaw.core.tool_traits import ASK_USER
from adderclaw.core.types import Json
from adderclaw.storage import transcript
from adderclaw.terminal.print_mode import PrintOptions, Reports
from adderclaw.terminal.print_mode.control import Link, RequestRefused
from adderclaw.terminal.print_mode.lines import PROTOCOL
from adderclaw.terminal.print_mode.no_effect import report_unused_fields
from adderclaw.terminal.print_mode.requests import Requests, models_of
from adderclaw.terminal.print_mode.stream import Stream


class Client:
    """The client: what it set in `initialize`, and questions to it."""

    def __init__(self, link: Link, flags: Json, initialize: Json, reports: Reports) -> None:
        self._link, self._flags, self._initialize = link, flags, initialize
        self._reports = reports
        self._stream: Stream | None = None
        self.note_prompt: Callable[[str], None] = lambda _uuid: None
        """Called with the uuid of a message before its turn."""
        self.asks = flags.get("permission_prompt_tool") == "stdio" and flags.get("permission_prompts") != "none"
        """Whether the client answers questions that a person would be asked."""

    # ------------------------------------------------------------------ opening the conversation

    def flags(self) -> Json:
        """The flags, overridden or extended by the fields of `initialize`."""
        flags, fields = dict(self._flags), self._initialize
        report_unused_fields(fields, self._reports)
        own = {name: {"type": "sdk", "name": name} for name in _names(fields, "sdkMcpServers")}
        if servers := {**_table(fields, "mcpServers"), **own}:
            flags["mcp_config"] = [*flags.get("mcp_config", ()), json.dumps({"mcpServers": servers})]
        for plugin in _tables(fields, "plugins"):
            name = "plugin_dir_no_mcp" if plugin.get("skipMcpDiscovery") else "plugin_dir"
            flags[name] = [*flags.get(name, ()), str(plugin.get("path", ""))]
        if settings := _table(fields, "settings"):
            flags["settings"] = json.dumps(settings)
        if denied := _names(fields, "disallowedTools"):
            flags["disallowed"] = [*flags.get("disallowed", ()), *denied]
        for name, config in _table(fields, "sdkMcpServerConfigs").items():
            _apply_policy(flags, name, config)
        if fields.get("agents"):
            flags["own_agents"] = _table(fields, "agents")
        if fields.get("skills") not in (None, "all"):
            flags["skills"] = tuple(_names(fields, "skills"))
        return flags

    def options(self, options: Options, flags: Json) -> Options:
        """Adds the client's hooks and servers to the options."""
        from adderclaw.terminal.legacy.print_options import mcp_servers

        own: dict[str, object] = {}
        for name, entry in mcp_servers(flags.get("mcp_config", ())).items():
            if entry.get("type") == "sdk":
                from adderclaw.terminal.print_mode.servers import Bridge

                own[name] = Bridge(self._link, name)
        hooks = _hooks(self._initialize.get("hooks"))
        return replace(options, own_hooks=hooks, call_back=self._call_back, own_servers=own)

    def print_options(self, request: PrintOptions) -> PrintOptions:
        """The print options with the prompt fields of `initialize`."""
        system, append = self._initialize.get("systemPrompt"), self._initialize.get("appendSystemPrompt")
        if system is not None:
            request = replace(request, system=_prompt_of(system))
        if (schema := self._initialize.get("jsonSchema")) is not None:
            from adderclaw.terminal.print_mode.structured import Shape

            request = replace(request, shape=Shape(json.dumps(schema)))
        if append is not None and not isinstance(append, str):
            raise UsageError("initialize: appendSystemPrompt must be a string")
        return request if append is None else replace(request, append=append)

    def greeting(self, run: Run) -> Json:
        """The response to `initialize`."""
        from adderclaw.tools.control import definitions

        fields, kit = self._initialize, run.session.environment.kit
        skills = kit.skills.callable() if kit.skills is not None else []
        foreign = run.session.config.compat.claude
        agents = definitions.known_definitions(
            kit.home, kit.project, kit.agents, foreign=foreign, plugins=kit.plugins
        ).by_name
        manifests = _table(fields, "sdkMcpServerManifests")
        return {
            "commands": [{"name": name, "description": text, "argumentHint": ""} for name, text in skills],
            "agents": [
                {
                    "name": agent.name,
                    "description": agent.description,
                    **({"model": agent.model} if agent.model else {}),
                }
                for agent in agents.values()
            ],
            "output_style": "default",
            "available_output_styles": ["default"],
            "models": models_of(run),
            "account": {},
            "claude_code_version": PROTOCOL,
            "hook_on_failure_supported": True,
            "hooks_applied": not run.runtime.config.disableAllHooks,
            **({"plugins_applied": True} if fields.get("plugins") else {}),
            **({"mcp_servers_applied": True} if fields.get("mcpServers") else {}),
            **({"settings_applied": True} if fields.get("settings") else {}),
            **({"disallowed_tools_applied": True} if fields.get("disallowedTools") else {}),
            **({"sdk_mcp_manifests_parked": dict.fromkeys(manifests, "not_honoured")} if manifests else {}),
            "options_without_effect": self._reports.as_json(),
            "adderclaw_version": __version__,
        }

    def entitle(self, run: Run) -> None:
        """Sets the title from `initialize` on a new conversation."""
        title = self._initialize.get("title")
        if (
            isinstance(title, str)
            and title.strip()
            and not transcript.title(run.session.store, run.session.conversation_id)
        ):
            with run.session.store.write() as cursor:
                transcript.set_title(cursor, run.session.conversation_id, title.strip()[:200])

    def serve(self, run: Run, stream: Stream) -> None:
        """Starts serving the client's requests."""
        self._stream = stream
        requests = Requests(run, stream, can_bypass=bool(self._flags.get("allow_bypass")))
        self._link.serve(requests.table())
        self.note_prompt = requests.note_prompt

    # ------------------------------------------------------------------ hooks and questions

    async def _call_back(self, id: str, event: Json) -> Json:
        asked: Json = {"subtype": "hook_callback", "callback_id": id, "input": event}
        try:
            return await self._link.ask({**asked, "tool_use_id": event.get("tool_use_id")})
        except RequestRefused as error:
            raise AdderClawError(str(error)) from None

    async def approve(self, request: ApprovalRequest) -> Answer:
        if request.at_terminal:
            return Answer(approved=False, by="no_operator", comment="only a person at a terminal may approve this")
        if (refused := refuse_unaskable(request)) is not None:
            return refused
        try:
            reply = await self._link.ask(_question(request))
        except RequestRefused as error:
            return Answer(approved=False, by="no_operator", comment=f"the permission callback failed: {error}")
        message = str(reply.get("message", ""))[:10_000]
        if reply.get("behavior") == "allow":
            return _allowed(reply)
        if reply.get("behavior") != "deny":
            return Answer(approved=False, by="no_operator", comment="the client answered neither allow nor deny")
        if reply.get("interrupt") and self._stream is not None:
            self._stream.interrupt(f"the client denied {request.tool} and ended the turn: {message}")
        return Answer(approved=False, by="operator", comment=message)

    async def ask(self, request: QuestionRequest) -> Answer:
        """Asks questions as a permission request; the answers are in the returned input."""
        asked = [
            {
                "question": question.question,
                "header": question.header,
                "options": [{"label": option.label, "description": option.description} for option in question.options],
                "multiSelect": question.multi,
            }
            for question in request.questions
        ]
        call: Json = {"tool_name": ASK_USER, "input": {"questions": asked}}
        try:
            reply = await self._link.ask({"subtype": "can_use_tool", **call, "tool_use_id": request.tool_use_id})
        except RequestRefused:
            return answer_with(None)
        if reply.get("behavior") != "allow":
            return answer_with(None)
        return answer_with(_replies(reply.get("updatedInput"), {question.question for question in request.questions}))


BOUNDARY = "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__"
"""An element of a system prompt that only marks a cache boundary."""


def _prompt_of(system: object) -> str:
    """A system prompt as text, or as a list of its blocks."""
    if isinstance(system, str):
        return system
    if not isinstance(system, list) or not all(isinstance(part, str) for part in cast(list[Any], system)):
        raise UsageError("initialize: systemPrompt must be a string or a list of strings")
    return "\n\n".join(part for part in cast(list[str], system) if part != BOUNDARY)


def _table(fields: Json, name: str) -> Json:
    value: Any = fields.get(name)
    if value is not None and not isinstance(value, dict):
        raise UsageError(f"initialize: {name} must be an object")
    return cast(Json, value or {})


def _names(fields: Json, name: str) -> list[str]:
    value: Any = fields.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in cast(list[Any], value)):
        raise UsageError(f"initialize: {name} must be a list of names")
    return cast(list[str], value)


def _tables(fields: Json, name: str) -> list[Json]:
    value: Any = fields.get(name) or []
    if not isinstance(value, list) or not all(isinstance(table, dict) for table in cast(list[Any], value)):
        raise UsageError(f"initialize: {name} must be a list of objects")
    return cast(list[Json], value)


def _apply_policy(flags: Json, server: str, config: object) -> None:
    """Adds a client's permission policy for the tools of its own server as rules."""
    from adderclaw.config.servers import slug
    from adderclaw.tools.mcp.definitions import tool_name

    tools: Any = cast(Json, config).get("tools") if isinstance(config, dict) else None
    for tool in cast(list[Any], tools) if isinstance(tools, list) else []:
        name: Any = cast(Json, tool).get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str):
            continue
        policy = cast(Json, tool).get("permission_policy")
        if policy != "always_allow":  # a client allows with allowedTools; anything unknown is asked about
            kind = "disallowed" if policy == "always_deny" else "ask"
            flags[kind] = [*flags.get(kind, ()), tool_name(slug(server), name)]


def _question(request: ApprovalRequest) -> Json:
    suggestions: list[Json] = []
    if request.grants:
        parts = (rule.partition("(") for rule in request.grants)
        rules = [{"toolName": tool, "ruleContent": rest.removesuffix(")")} for tool, _, rest in parts]
        suggestions = [{"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}]
    return {
        "subtype": "can_use_tool",
        "tool_name": request.tool,
        "input": request.input,
        "tool_use_id": request.tool_use_id,
        "permission_suggestions": suggestions,
        "decision_reason": request.why,
        "description": request.shown[:4_000],
    }


def _allowed(reply: Json) -> Answer:
    """The answer "allow" with its changes, which are decoded and judged before anything runs."""
    updated: Any = reply.get("updatedInput")
    updates: Any = reply.get("updatedPermissions") or []
    if updated is not None and not isinstance(updated, dict):
        return Answer(approved=False, by="no_operator", comment="the client's updatedInput is not an object")
    listed = cast(list[Any], updates) if isinstance(updates, list) else [updates]
    if not all(isinstance(update, dict) for update in listed):
        return Answer(
            approved=False, by="no_operator", comment="the client's updatedPermissions is not a list of updates"
        )
    bypass = [update for update in listed if update.get("mode") == "bypassPermissions"]
    if bypass:
        why = "bypassPermissions can only be set at the start, not by an update"
        return Answer(approved=False, by="no_operator", comment=why)
    return Answer(approved=True, by="operator", input=cast("Json | None", updated), updates=tuple(listed))


def _replies(updated: object, questions: set[str]) -> Replies | None:
    answers: Any = cast(Json, updated).get("answers") if isinstance(updated, dict) else None
    if not isinstance(answers, dict):
        return None
    answers_by_question = cast("dict[str, Any]", answers)
    texts = {
        key: ", ".join(map(str, cast(list[Any], value))) if isinstance(value, list) else str(value)
        for key, value in answers_by_question.items()
        if key in questions
    }
    return texts if set(texts) == questions else None


def _hooks(settings: object) -> tuple[Json, ...]:
    """The hooks of `initialize`: the matchers of each event with the ids of their callbacks."""
    if settings is None:
        return ()
    from adderclaw.tools.hooks.catalogue import EVENTS

    wrong = 'initialize: expected hooks as {"EVENT": [{"matcher": …, "hookCallbackIds": […]}]}'
    if not isinstance(settings, dict):
        raise UsageError(wrong)
    hooks: list[Json] = []
    for event, groups in cast("dict[str, Any]", settings).items():
        if event not in EVENTS:
            raise UsageError(f"initialize: unknown hook event {event[:60]!r}; the events are {', '.join(EVENTS)}")
        for group in cast(list[Any], groups) if isinstance(groups, list) else [groups]:
            if not isinstance(group, Mapping):
                raise UsageError(wrong)
            hooks += _group(event, cast(Json, group), wrong)
    return tuple(hooks)


def _group(event: str, group: Json, wrong: str) -> list[Json]:
    ids, timeout = group.get("hookCallbackIds"), group.get("timeout")
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in cast(list[Any], ids)):
        raise UsageError(wrong)
    more: Json = {"matcher": group.get("matcher") or ""}
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= 86_400:
            raise UsageError(f"initialize: the timeout of a hook must be a number of seconds, not {timeout!r:.40}")
        more["timeout"] = timeout
    if group.get("onFailure") not in (None, "continue"):
        more["onFailure"] = "block"
    base: Json = {"hook_event_name": event, "type": "callback", "source": "the client", **more}
    return [{**base, "callback_id": id} for id in cast(list[str], ids)]
