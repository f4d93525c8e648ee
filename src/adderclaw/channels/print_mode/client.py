"""The program at the other end: the operator who is asked, whose hooks are called, and whose requests are served."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from adderclaw import __version__
from adderclaw.channels.print_mode import Wanted
from adderclaw.channels.print_mode.control import Link, Refused
from adderclaw.channels.print_mode.lines import mcp_status
from adderclaw.channels.print_mode.stream import Stream
from adderclaw.errors import AdderClawError, UsageError
from adderclaw.kernel.approvals import unaskable
from adderclaw.questions import Answer, ApprovalRequest, QuestionRequest, Replies, replied
from adderclaw.runtime import Options, Run
from adderclaw.types import Json

MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")


class Client:
    """What the client said at the beginning, and what it is asked later."""

    def __init__(self, link: Link, given: Json, begun: Json) -> None:
        self._link, self._given, self._begun = link, given, begun
        self._stream: Stream | None = None
        self.asks = given.get("permission_prompt_tool") == "stdio"
        """It wants to be asked where a person would be."""

    # ------------------------------------------------------------------ at the beginning

    def options(self, options: Options) -> Options:
        """With the client's hooks, servers and subagents."""
        from adderclaw.channels.cli.print_options import agents_of, mcp_servers

        servers = mcp_servers(self._given.get("mcp_config", ()))
        own = {name: self._server(name) for name, entry in servers.items() if entry.get("type") == "sdk"}
        agents = {**options.agents, **agents_of(self._begun.get("agents") or {}, "initialize: agents")}
        hooks = _hooks(self._begun.get("hooks"))
        return replace(options, own_hooks=hooks, call_back=self._call_back, own_servers=own, agents=agents)

    def _server(self, name: str) -> object:
        from adderclaw.channels.print_mode.servers import Bridge

        return Bridge(self._link, name)

    def wanted(self, wanted: Wanted) -> Wanted:
        """With what `initialize` says of the prompt."""
        system, append = self._begun.get("systemPrompt"), self._begun.get("appendSystemPrompt")
        if isinstance(system, str):
            wanted = replace(wanted, system=system)
        if (schema := self._begun.get("jsonSchema")) is not None:
            from adderclaw.channels.print_mode.structured import Shape

            wanted = replace(wanted, shape=Shape(json.dumps(schema)))
        return replace(wanted, append=append) if isinstance(append, str) else wanted

    def greeting(self, run: Run) -> Json:
        """What `initialize` is answered."""
        skills = run.session.scene.kit.skills
        offered = skills.offered()[0] if skills is not None else []
        commands = [{"name": name, "description": text, "argumentHint": ""} for name, text in offered]
        model = run.session.model
        return {
            "commands": commands,
            "agents": [],
            "output_style": "default",
            "available_output_styles": ["default"],
            "models": [{"value": model, "displayName": model, "description": ""}],
            "account": {},
            "hook_on_failure_supported": True,
            "hooks_applied": not run.runtime.config.disableAllHooks,
            "adderclaw_version": __version__,
        }

    def serve(self, run: Run, stream: Stream) -> None:
        """Answer its requests from here on."""
        self._stream = stream
        requests = _Requests(run, stream)
        self._link.handlers |= requests.table()

    # ------------------------------------------------------------------ when it is asked

    async def _call_back(self, id: str, event: Json) -> Json:
        asked: Json = {"subtype": "hook_callback", "callback_id": id, "input": event}
        try:
            return await self._link.ask({**asked, "tool_use_id": event.get("tool_use_id")})
        except Refused as error:
            raise AdderClawError(str(error)) from None

    async def approve(self, request: ApprovalRequest) -> Answer:
        if request.at_terminal:
            return Answer(approved=False, by="no_operator", comment="only a person at a terminal may say yes to it")
        if (refused := unaskable(request)) is not None:
            return refused
        try:
            said = await self._link.ask(_question(request))
        except Refused as error:
            return Answer(approved=False, by="no_operator", comment=f"the permission callback failed: {error}")
        message = str(said.get("message", ""))[:10_000]
        if said.get("behavior") == "allow":
            return _allowed(said)
        if said.get("behavior") != "deny":
            return Answer(approved=False, by="no_operator", comment="the client's answer is neither allow nor deny")
        if said.get("interrupt") and self._stream is not None:
            self._stream.interrupt(f"the client denied {request.tool} and ended the turn: {message}")
        return Answer(approved=False, by="operator", comment=message)

    async def ask(self, request: QuestionRequest) -> Answer:
        """Questions go the way of permissions: the answers are in the input that comes back."""
        asked = [
            {
                "question": one.question,
                "header": one.header,
                "options": [{"label": option.label, "description": option.description} for option in one.options],
                "multiSelect": one.multi,
            }
            for one in request.questions
        ]
        call: Json = {"tool_name": "AskUserQuestion", "input": {"questions": asked}}
        try:
            said = await self._link.ask({"subtype": "can_use_tool", **call, "tool_use_id": request.tool_use_id})
        except Refused:
            return replied(None)
        if said.get("behavior") != "allow":
            return replied(None)
        return replied(_replies(said.get("updatedInput"), {one.question for one in request.questions}))


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


def _allowed(said: Json) -> Answer:
    """A yes, with what it changes: whatever that is, it is decoded and judged before anything runs."""
    updated: Any = said.get("updatedInput")
    updates: Any = said.get("updatedPermissions") or []
    if updated is not None and not isinstance(updated, dict):
        return Answer(approved=False, by="no_operator", comment="the client's updatedInput is no object")
    listed = cast(list[Any], updates) if isinstance(updates, list) else [updates]
    if not all(isinstance(one, dict) for one in listed):
        return Answer(
            approved=False, by="no_operator", comment="the client's updatedPermissions are no list of updates"
        )
    bypass = [one for one in listed if one.get("mode") == "bypassPermissions"]
    if bypass:
        why = "bypassPermissions is set when the program is started, not by an update"
        return Answer(approved=False, by="no_operator", comment=why)
    return Answer(approved=True, by="operator", input=cast("Json | None", updated), updates=tuple(listed))


def _replies(updated: object, wanted: set[str]) -> Replies | None:
    answers: Any = cast(Json, updated).get("answers") if isinstance(updated, dict) else None
    if not isinstance(answers, dict):
        return None
    found = cast("dict[str, Any]", answers)
    texts = {
        key: ", ".join(map(str, cast(list[Any], value))) if isinstance(value, list) else str(value)
        for key, value in found.items()
        if key in wanted
    }
    return texts if set(texts) == wanted else None


def _hooks(given: object) -> tuple[Json, ...]:
    """The hooks of `initialize`: event → matchers, each with the ids of its callbacks."""
    if given is None:
        return ()
    from adderclaw.hooks.catalogue import EVENTS

    wrong = 'initialize: hooks are {"EVENT": [{"matcher": …, "hookCallbackIds": […]}]}'
    if not isinstance(given, dict):
        raise UsageError(wrong)
    found: list[Json] = []
    for event, groups in cast("dict[str, Any]", given).items():
        if event not in EVENTS:
            raise UsageError(f"initialize: there is no hook event {event[:60]!r}; there is: {', '.join(EVENTS)}")
        for group in cast(list[Any], groups) if isinstance(groups, list) else [groups]:
            if not isinstance(group, Mapping):
                raise UsageError(wrong)
            found += _group(event, cast(Json, group), wrong)
    return tuple(found)


def _group(event: str, group: Json, wrong: str) -> list[Json]:
    ids, timeout = group.get("hookCallbackIds"), group.get("timeout")
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in cast(list[Any], ids)):
        raise UsageError(wrong)
    more: Json = {"matcher": group.get("matcher") or ""}
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= 86_400:
            raise UsageError(f"initialize: a hook's timeout is a number of seconds, not {timeout!r:.40}")
        more["timeout"] = timeout
    if group.get("onFailure") not in (None, "continue"):
        more["onFailure"] = "block"
    base: Json = {"hook_event_name": event, "type": "callback", "source": "the client", **more}
    return [{**base, "callback_id": id} for id in cast(list[str], ids)]


class _Requests:
    """What a client may ask for while the conversation goes on."""

    def __init__(self, run: Run, stream: Stream) -> None:
        self._run, self._stream = run, stream
        self._began = run.session.config.permissions.defaultMode

    def table(self) -> "dict[str, Any]":
        return {
            "initialize": self._again,
            "interrupt": self._interrupt,
            "set_permission_mode": self._set_mode,
            "set_model": self._set_model,
            "mcp_status": self._mcp_status,
        }

    async def _again(self, _request: Json) -> Json:
        raise UsageError("initialize comes once, before the first message")

    async def _interrupt(self, _request: Json) -> Json:
        return {"interrupted": self._stream.interrupt()}

    async def _set_mode(self, request: Json) -> Json:
        from adderclaw.config.permissions import PermissionUpdate
        from adderclaw.kernel import permission_updates

        mode: Any = "default" if request.get("mode") == "manual" else request.get("mode")
        if mode not in MODES:
            raise UsageError(f"{str(mode)[:40]!r} is no permission mode; there is: {', '.join(MODES)}")
        if mode == "bypassPermissions" != self._began:
            raise UsageError(
                "bypassPermissions is set when the program is started: --permission-mode bypassPermissions"
            )
        permission_updates.apply(self._run.session, PermissionUpdate("setMode", "session", mode=mode))
        return {"mode": mode}

    async def _set_model(self, request: Json) -> Json:
        from adderclaw.runtime.session import chosen_by

        wanted = request.get("model")
        if wanted in (None, "", "default"):
            chosen = chosen_by(self._run.runtime.options, self._run.session.config)
            wanted = f"{chosen.provider}/{chosen.model}"
        async with self._stream.free:  # a turn goes on with the model that it began with
            await self._run.switch(str(wanted))
        return {"model": self._run.session.model}

    async def _mcp_status(self, _request: Json) -> Json:
        servers = self._run.runtime.servers
        rows = servers.status() if servers is not None else []
        return {"mcpServers": [mcp_status(row.entry.given, row.state) for row in rows]}
