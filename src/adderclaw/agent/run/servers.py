"""The MCP servers of a session, bound to its tools, sandbox, hooks, operator and model."""

from typing import TYPE_CHECKING, Any

from adderclaw.agent.loop import model_call
from adderclaw.agent.run.fetches import Fetches, asking
from adderclaw.agent.run.sandbox_setup import SessionNetwork
from adderclaw.agent.run.start import Runtime, operators_own
from adderclaw.agent.session.session import Session, ToolEnvironment
from adderclaw.config.servers import Entry, Server, entries, filled, slug
from adderclaw.config.urls import check_url
from adderclaw.core.errors import StoreError, UsageError
from adderclaw.core.history import History
from adderclaw.core.host import Host
from adderclaw.core.questions import QuestionRequest
from adderclaw.core.types import Json, Message, TextBlock, Tool
from adderclaw.storage import Store
from adderclaw.tools.mcp import forms
from adderclaw.tools.mcp.servers import Servers
from adderclaw.tools.mcp.setup import ConnectionSetup

if TYPE_CHECKING:
    from adderclaw.sandbox.process import Starter


def configured(runtime: Runtime) -> list[Entry]:
    loaded, own = runtime.loaded, runtime.options.own_servers
    server_entries = [
        entry._replace(by_operator=_is_operators(runtime, entry))
        for entry in entries(loaded.config.mcp_servers, loaded.origins, loaded.workspace, runtime.home)
    ]
    taken = {entry.name for entry in server_entries}
    if runtime.plugins is not None and not runtime.options.strict_servers:
        server_entries += [entry for entry in runtime.plugins.servers if entry.name not in taken]
        taken = {entry.name for entry in server_entries}
    for name in own:
        if not slug(name) or slug(name) in taken:
            raise UsageError(f"mcp_servers: {name!r} is not a valid name, or another server has it; use another name")
        taken.add(slug(name))
    if loaded.config.managed.mcp is not None:
        server_entries = [entry for entry in server_entries if _is_allowed(runtime, entry)]
        if own:
            raise UsageError(
                f"mcp_servers: {', '.join(own)}: the administrator of this machine does not allow servers of a program"
            )
    return server_entries + [Entry(slug(name), name, Server(), "program", live) for name, live in own.items()]


def _is_operators(runtime: Runtime, entry: Entry) -> bool:
    """Whether the operator's own files or command line configure the server."""
    key = f"mcp_servers.{entry.given}"
    return key in runtime.loaded.origins and operators_own(runtime.options, runtime.loaded, key)


def _is_allowed(runtime: Runtime, entry: Entry) -> bool:
    """Whether an administrator allows a server: by the host of its URL, or by the absolute path of its program."""
    import os

    from adderclaw.config import managed

    if entry.scope.startswith("plugin:") and runtime.config.managed.plugins is not None:
        return True  # allowed with the plugin's content
    allowed, server = runtime.config.managed.mcp or [], entry.server
    if server.url:
        there = managed.is_allowed(_host(server.url), allowed)
    else:
        there = os.path.isabs(server.command or "") and server.command in allowed
    if not there:
        message = f"the MCP server {entry.given!r} is denied: {managed.FILE} does not allow it"
        runtime.bus.publish({"event_type": "warning", "message": message})
    return there


def _host(url: str) -> str:
    """The host of a server's URL after its variables are filled in, because they may change the host."""
    from urllib.parse import urlsplit

    try:
        return urlsplit(check_url(filled(url))).hostname or ""
    except ValueError:
        return ""


def join(
    runtime: Runtime,
    store: Store | None,
    environment: ToolEnvironment,
    offered: dict[str, Tool[Any]],
    start_fetched: "Starter | None" = None,
) -> Servers:
    """Connect a session to its MCP servers, whose tools are added to `offered`."""
    allowed = runtime.config.channels.cli.tools_allow

    def offer(tool: Tool[Any]) -> None:
        if "*" in allowed or tool.name in allowed:
            offered[tool.name] = tool

    wires = ConnectionSetup(
        clock=runtime.clock,
        secrets=runtime.secrets,
        tell=runtime.bus.publish,
        roots=(environment.context.workspace.root, *environment.context.workspace.extra),
        start=environment.kit.start,
        start_fetched=start_fetched,
        allowed=tuple(runtime.config.security.allowed_domains),
        login=stored_login(runtime),
        env=environment.kit.env if environment.kit.start is not None else {},
    )
    if isinstance(environment.network, SessionNetwork):
        runtime.fetches = Fetches(runtime, wires.roots, environment.network)
        wires.fetch = runtime.fetches.of
    pins_store = store or _read_only(runtime)
    servers = Servers(configured(runtime), wires, pins_store, offer)
    if store is None and pins_store is not None:
        servers.detach()
        pins_store.close()
    environment.wait_for_tool = servers.start_server_of

    async def connecting() -> str:
        return "\n".join(await servers.wait_for_starting())

    environment.wait_for_servers = connecting
    return servers


def _read_only(runtime: Runtime) -> Store | None:
    """The store, for the tools that servers offered last time when nothing can run; None if there is none."""
    try:
        return Store.open(runtime.config.memory.path, read_only=True)
    except StoreError:
        return None


def stored_login(runtime: Runtime) -> Any:
    async def login(entry: Entry, url: str) -> Any:
        from adderclaw.tools.mcp.oauth import StoredLogin, auth_for

        login = StoredLogin(entry, url, runtime.credentials.logins(), runtime.secrets, runtime.clock)
        itself = entry.server.oauth is not None and entry.server.oauth.grant == "client_credentials"
        return auth_for(entry, url, login, None) if itself or await login.exists() else None

    return login


def elicitor(host: Host) -> Any:
    """Answers a server's questions: hooks may answer, else the operator does, and hooks may change the answer."""

    async def elicit(server: str, question: Json) -> Json:
        merged = await host.run_hooks("Elicitation", question)
        if merged.blocked:
            answered = forms.DECLINE
        elif merged.specific.get("action"):
            answered = _only(merged.specific)
        else:
            kind = "elicitation_url_dialog" if question.get("mode") == "url" else "elicitation_dialog"
            notification = {"message": question["message"], "title": f"The MCP server {server} asks"}
            await host.run_hooks("Notification", {**notification, "notification_type": kind})
            asked = QuestionRequest(tuple(forms.form_questions(server, question)), f"MCP server {server}")
            answered = forms.form_answer(server, question, (await host.ask(asked)).replies)
        known = {key: question[key] for key in ("mcp_server_name", "mode", "elicitation_id") if key in question}
        after = await host.run_hooks("ElicitationResult", {**known, **answered})
        if after.blocked:
            return forms.DECLINE
        return _only(after.specific) if after.specific.get("action") else answered

    return elicit


def _only(specific: Json) -> Json:
    return {key: specific[key] for key in ("action", "content") if key in specific}


def attach(runtime: Runtime, session: Session, servers: Servers) -> None:
    """Let servers use a session's model and operator, and start while the session waits for the model."""

    async def sample(server: str, system: str, exchange: list[tuple[str, str]], tokens: int) -> tuple[str, str, bool]:
        messages = [
            Message("assistant" if role == "assistant" else "user", (TextBlock(session.secrets.scrub(text)),))
            for role, text in exchange
        ]
        asked = system or f"The MCP server {server} asks."
        with session.tape.inside_tool():  # it belongs to a tool's result
            response = await model_call.ask_and_record(session, asked, History(messages), f"mcp:{server}", tokens)
        return response.final_text, response.model or session.model, response.stop_reason == "max_tokens"

    servers.answer_with(sample, elicitor(session.host))
    if runtime.fetches is not None:
        runtime.fetches.approve = asking(session.host.approve)
    warm = session.warm

    def both() -> None:
        warm()
        servers.begin()

    session.warm = both
