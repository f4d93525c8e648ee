"""The control requests a client may send during a conversation."""

import os
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from adderclaw import __version__
from adderclaw.agent.run import Run
from adderclaw.core.errors import UsageError
from adderclaw.core.types import EFFORTS, Json, Thinking
from adderclaw.storage import transcript
from adderclaw.terminal.print_mode.lines import PROTOCOL, mcp_status
from adderclaw.terminal.print_mode.no_effect import AUTO
from adderclaw.terminal.print_mode.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adderclaw.terminal.print_mode.control import Handler
    from adderclaw.tools.mcp.servers import Servers

MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
FLAG_SETTINGS = frozenset({"model", "effortLevel", "permissions"})
"""Settings that can be changed in a running session."""


class Requests:
    """Serves the control requests of one conversation."""

    def __init__(self, run: Run, stream: Stream, *, can_bypass: bool) -> None:
        self._run, self._stream = run, stream
        self._can_bypass = can_bypass or run.session.config.permissions.defaultMode == "bypassPermissions"
        self._prompts: dict[str, int] = {}
        """The transcript position of each client message."""

    def table(self) -> "dict[str, Handler]":
        return {name: partial(handle, self) for name, handle in HANDLERS.items()}

    def note_prompt(self, uuid: str) -> None:
        """Records that this message becomes the next entry of the transcript."""
        self._prompts[uuid] = transcript.next_sequence(self._run.session.store, self._run.session.session_id)

    async def refuse_initialize(self, _request: Json) -> Json:
        raise UsageError("initialize is allowed only once, before the first message")

    async def interrupt(self, _request: Json) -> Json:
        return {"interrupted": self._stream.interrupt()}

    # ------------------------------------------------------------------ modes, models, settings

    async def set_mode(self, request: Json) -> Json:
        self._change_mode(self._allowed_mode(request.get("mode")))
        return {"mode": request.get("mode")}

    def _allowed_mode(self, requested: object) -> Any:
        if requested == "auto":
            raise UsageError(f"the permission mode auto has no effect: {AUTO}")
        mode = "default" if requested == "manual" else requested
        if mode not in MODES:
            raise UsageError(f"{str(mode)[:40]!r} is not a permission mode; use one of {', '.join(MODES)}")
        if mode == "bypassPermissions" and not self._can_bypass:
            raise UsageError(
                "bypassPermissions must be allowed at the start: --permission-mode bypassPermissions, or "
                "--allow-dangerously-skip-permissions to switch to it later"
            )
        return mode

    def _change_mode(self, mode: Any) -> None:
        from adderclaw.agent.tool_call import permission_updates
        from adderclaw.config.permissions import PermissionUpdate

        update = PermissionUpdate("setMode", "session", mode=mode)
        permission_updates.apply_update(self._run.session, update, may_bypass=self._can_bypass)

    async def set_model(self, request: Json) -> Json:
        from adderclaw.agent.run.start import chosen_model

        model = request.get("model")
        if model in (None, "", "default"):
            chosen = chosen_model(self._run.runtime.options, self._run.session.config)
            model = f"{chosen.provider}/{chosen.model}"
        if not isinstance(model, str):
            raise UsageError("the model must be a string: its name, or an entry of providers.models")
        async with self._stream.free:  # a turn keeps the model it started with
            await self._run.switch(model)
        return {"model": self._run.session.model}

    async def apply_settings(self, request: Json) -> Json:
        """Applies all settings or none; the error names one that cannot be changed."""
        settings: Any = request.get("settings")
        if not isinstance(settings, dict):
            raise UsageError("apply_flag_settings: settings must be an object")
        fields = cast(Json, settings)
        permissions: Any = fields.get("permissions") or {}
        if not isinstance(permissions, dict):
            raise UsageError("settings: permissions must be an object")
        rules = cast(Json, permissions)
        fixed = [*(fields.keys() - FLAG_SETTINGS), *(f"permissions.{key}" for key in rules.keys() - {"defaultMode"})]
        if fixed:
            raise UsageError(
                f"nothing was changed: {', '.join(sorted(fixed))[:300]} cannot be changed in a running session; "
                "model, effortLevel and permissions.defaultMode can"
            )
        effort = fields.get("effortLevel")
        if effort is not None and effort not in EFFORTS:
            raise UsageError(f"effortLevel: {str(effort)[:40]!r} is not one of {', '.join(EFFORTS)}")
        mode = self._allowed_mode(rules["defaultMode"]) if rules.get("defaultMode") is not None else None
        if "model" in fields:
            await self.set_model(fields)
        if "effortLevel" in fields:
            self._run.session.thinking = self._run.session.thinking._replace(effort=effort)
        if mode is not None:
            self._change_mode(mode)
        return {}

    async def set_thinking(self, request: Json) -> Json:
        """Sets the thinking tokens; 0 turns thinking off, null restores the initial setting."""
        tokens: Any = request.get("max_thinking_tokens")
        session = self._run.session
        if request.get("thinking_display") is not None:
            raise UsageError("thinking_display has no effect: thinking is shown as the model sends it")
        if tokens is None:
            session.thinking = self._run.runtime.options.thinking
        elif isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 <= tokens < 10_000_000:
            raise UsageError(f"max_thinking_tokens: {str(tokens)[:40]!r} is not a whole number from 0 to 9,999,999")
        else:
            session.thinking = Thinking(session.thinking.effort, "enabled" if tokens else "disabled", tokens or None)
        return {}

    async def rename(self, request: Json) -> Json:
        title = request.get("title")
        if not isinstance(title, str) or not title.strip():
            raise UsageError("rename_session: the title is empty")
        session = self._run.session
        with session.store.write() as cursor:
            transcript.set_title(cursor, session.conversation_id, title.strip()[:200])
        return {}

    async def list_models(self, _request: Json) -> Json:
        return {"models": models_of(self._run)}

    async def version(self, _request: Json) -> Json:
        return {"version": PROTOCOL, "adderclaw_version": __version__}

    # ------------------------------------------------------------------ MCP

    def _servers(self) -> "Servers":
        if self._run.runtime.servers is None:
            raise UsageError("this session has no MCP server")
        return self._run.runtime.servers

    def _server(self, request: Json) -> str:
        """The server with the name that the client uses for it."""
        name = str(request.get("serverName", ""))
        names = [row.entry.name for row in self._servers().status() if name in (row.entry.name, row.entry.given)]
        if not names:
            known = ", ".join(row.entry.given for row in self._servers().status())
            raise UsageError(f"there is no MCP server {name[:60]!r}. Configured: {known}")
        return names[0]

    async def mcp_status(self, _request: Json) -> Json:
        servers = self._run.runtime.servers
        rows = servers.status() if servers is not None else []
        return {"mcpServers": [mcp_status(row.entry.given, row.state) for row in rows]}

    async def mcp_reconnect(self, request: Json) -> Json:
        if why := await self._servers().reconnect(self._server(request)):
            raise UsageError(why)
        return {}

    async def mcp_toggle(self, request: Json) -> Json:
        name = self._server(request)
        if request.get("enabled") is True:
            self._servers().enable(name)
        else:
            await self._servers().disable(name)
        return {}

    async def mcp_read_resource(self, request: Json) -> Json:
        uri = str(request.get("uri", ""))
        result = await self._servers().read(self._server(request), uri)
        if result.is_error:
            raise UsageError(result.content)
        return {"contents": [{"uri": uri, "text": result.content}]}

    # ------------------------------------------------------------------ the conversation and its tasks

    async def context(self, _request: Json) -> Json:
        from adderclaw.agent.loop.model_call import context_parts

        session = self._run.session
        parts = context_parts(session)
        limit = session.provider.capabilities().context_tokens or 0
        total = sum(parts.values())
        categories = [{"name": name, "tokens": tokens, "color": "", "kind": "used"} for name, tokens in parts.items()]
        if limit:
            left = {"name": "free space", "tokens": max(limit - total, 0), "color": "", "kind": "free"}
            categories.append({"id": "free_space", **left})
        return {
            "categories": categories,
            "totalTokens": total,
            "maxTokens": limit,
            "rawMaxTokens": limit,
            "percentage": round(100 * total / limit) if limit else 0,
            "gridRows": [],
            "model": session.model,
            "memoryFiles": [],
            "mcpTools": [],
            "agents": [],
            "isAutoCompactEnabled": True,
        }

    async def rewind(self, request: Json) -> Json:
        from adderclaw.agent.queries import restoring

        sequence = self._prompts.get(str(request.get("user_message_id", "")))
        if sequence is None:
            why = "no message of this process has that uuid: send messages with a uuid, or with --replay-user-messages"
            return {"canRewind": False, "error": why}
        async with self._stream.free:
            dry = request.get("dry_run") is True
            restored = await restoring.files_back(self._run, sequence, None, force=False, dry_run=dry)
        if restored is None:
            return {"canRewind": True, "filesChanged": []}
        if restored.refused:
            return {
                "canRewind": False,
                "error": "other programs have changed these files since, so nothing was restored",
            }
        changed = [step.path for step in restored.steps if step.acts and not restored.failed.get(step.path)]
        root = self._run.session.environment.context.workspace.root
        return {"canRewind": True, "filesChanged": [os.path.join(root, path) for path in changed]}

    async def stop_task(self, request: Json) -> Json:
        tasks = self._run.session.environment.kit.tasks
        id = str(request.get("task_id", ""))
        task = tasks.find(id) if tasks is not None else None
        if tasks is None or task is None:
            known = ", ".join(listed.id for listed in tasks.listed()) if tasks is not None else ""
            raise UsageError(f"there is no background task {id[:60]!r}. Known: {known or 'none'}")
        await tasks.stop(task)
        return {}


HANDLERS: "dict[str, Callable[[Requests, Json], Awaitable[Json]]]" = {
    "initialize": Requests.refuse_initialize,
    "interrupt": Requests.interrupt,
    "set_permission_mode": Requests.set_mode,
    "set_model": Requests.set_model,
    "set_max_thinking_tokens": Requests.set_thinking,
    "mcp_status": Requests.mcp_status,
    "mcp_reconnect": Requests.mcp_reconnect,
    "mcp_toggle": Requests.mcp_toggle,
    "mcp_read_resource": Requests.mcp_read_resource,
    "get_context_usage": Requests.context,
    "rewind_files": Requests.rewind,
    "stop_task": Requests.stop_task,
    "apply_flag_settings": Requests.apply_settings,
    "rename_session": Requests.rename,
    "list_models": Requests.list_models,
    "get_binary_version": Requests.version,
}
"""The handler of each request subtype."""


def models_of(run: Run) -> list[Json]:
    """The current model and those of the other entries."""
    from adderclaw.config.model_facts import found_keys

    now = run.session.config
    names = [name for name in now.providers.models if not found_keys.is_unscripted(now, name)]
    models = {run.session.model: run.session.model}
    models |= {name: now.providers.models[name].model or name for name in names}
    return [{"value": value, "displayName": shown, "description": ""} for value, shown in models.items()]
