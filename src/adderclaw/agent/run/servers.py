"""The MCP servers of a session, bound to its tools, sandbox, hooks, operator and model."""

from typing import TYPE_CHECKING, Any

from adderclaw.agent.loop import model_call
from adderclaw.agent.run.configured_servers import configured
from adderclaw.agent.run.fetches import Fetches, asking
from adderclaw.agent.run.sandbox_setup import SessionNetwork
from adderclaw.agent.run.start import Runtime
from adderclaw.agent.session.session import Session, ToolEnvironment
from adderclaw.config.servers import Entry
from adderclaw.core.errors import StoreError
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
