"""The agent that the protocol's SDK calls: its capabilities, its sessions, and its errors."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate

from acp import PROTOCOL_VERSION, RequestError, schema
from acp.interfaces import Client

from adderclaw import __version__, config
from adderclaw.agent.conversation import questions
from adderclaw.agent.conversation.conversations import Conversations
from adderclaw.agent.run import Options, start
from adderclaw.agent.tool_call import permission_updates
from adderclaw.clients.acp import choices, prompts
from adderclaw.clients.acp.session import EditorSession
from adderclaw.clients.acp.unsaved import HOOK, Unsaved
from adderclaw.config.paths import beneath, followed
from adderclaw.config.permissions import PermissionUpdate
from adderclaw.config.servers import slug
from adderclaw.core.decode import Invalid
from adderclaw.core.errors import AdderClawError, ConfigError, NoModelChosen, UsageError
from adderclaw.core.redaction import Secrets, visible
from adderclaw.core.types import Json
from adderclaw.storage import Store, transcript

type Server = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio

AUTH_REQUIRED, INVALID, NO_SESSION, INTERNAL = -32000, -32602, -32002, -32603
LISTED = 50
"""Sessions per page."""
MOST_LISTED = 2_000
MOST_SERVERS = 50
"""The maximum number of MCP servers that an editor may name for a session."""
MOST_SESSIONS = 50
"""The maximum number of open sessions."""
SETUP = "onboard"
NO_SUCH = "the session {id!r} is not open: open a new one with session/new, or load it with session/load"


def reporting_errors[A: "Agent", **P, R](
    method: Callable[Concatenate[A, P], Awaitable[R]],
) -> Callable[Concatenate[A, P], Awaitable[R]]:
    """Wrap a method so that its errors reach the editor as messages without secrets, and no traceback is printed."""

    @wraps(method)
    async def called(self: A, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await method(self, *args, **kwargs)
        except NoModelChosen as error:
            raise _error(AUTH_REQUIRED, str(error)) from error
        except (UsageError, ConfigError, Invalid) as error:
            raise _error(INVALID, str(error)) from error
        except AdderClawError as error:
            raise _error(INTERNAL, str(error)) from error
        except RequestError as error:
            raise _error(error.code, str(error)) from error
        except OSError as error:
            raise _error(INTERNAL, f"the operating system refused a call: {error.strerror or error}") from error

    return called


def _error(code: int, message: str) -> RequestError:
    return RequestError(code, visible(Secrets().clean(message)))


class Agent:
    """All sessions of one editor. The name that it sends is used in rows and receipts, and grants no rights."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.conversations = Conversations(options, "acp", patience=None)
        self._editor: Client | None = None
        self._name = "an editor"
        self._reads = False
        """Whether the editor can send the text of unsaved files."""
        self._sessions: dict[str, EditorSession] = {}
        self._opening = 0
        self._after: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: Client) -> None:
        self._editor = conn

    # -------------------------------------------------------------- connecting

    @reporting_errors
    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **_more: Any,
    ) -> schema.InitializeResponse:
        """Answer with the supported version whatever was requested; an editor that does not support it disconnects."""
        del protocol_version
        if client_info is not None:
            named = re.sub(r"[^\w .+/-]", "", f"{client_info.title or client_info.name} {client_info.version}")
            self._name = " ".join(visible(named).split())[:80] or self._name
        can = client_capabilities or schema.ClientCapabilities()
        self._reads = bool(can.fs is not None and can.fs.read_text_file)
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="adderclaw", title="AdderClaw", version=__version__),
            agent_capabilities=CAPABILITIES,
            auth_methods=_auth_methods(can),
        )

    @reporting_errors
    async def authenticate(self, method_id: str, **_more: Any) -> schema.AuthenticateResponse:
        """Check whether a model is configured now. Keys are set up in a terminal and never pass through the editor."""
        if method_id not in (SETUP, f"{SETUP}-terminal"):
            raise UsageError(f"unknown authentication method {method_id[:60]!r}; use {SETUP}")
        from dataclasses import replace

        start(replace(self._options, asks="must", log_level="off"))
        return schema.AuthenticateResponse()

    # -------------------------------------------------------------- sessions

    @reporting_errors
    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Server] | None = None,
        **_more: Any,
    ) -> schema.NewSessionResponse:
        opened = await self._opened(cwd, additional_directories, mcp_servers)
        return schema.NewSessionResponse(session_id=opened.id, **_choices(opened))

    @reporting_errors
    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[Server] | None = None,
        additional_directories: list[str] | None = None,
        **_more: Any,
    ) -> schema.LoadSessionResponse:
        opened = await self._opened(cwd, additional_directories, mcp_servers, resume=session_id)
        await opened.replay()
        return schema.LoadSessionResponse(**_choices(opened))

    @reporting_errors
    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Server] | None = None,
        **_more: Any,
    ) -> schema.ResumeSessionResponse:
        """Like load, but without sending the conversation."""
        opened = await self._opened(cwd, additional_directories, mcp_servers, resume=session_id)
        return schema.ResumeSessionResponse(**_choices(opened))

    @reporting_errors
    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Server] | None = None,
        **_more: Any,
    ) -> schema.ForkSessionResponse:
        opened = await self._opened(cwd, additional_directories, mcp_servers, resume=session_id, fork=True)
        return schema.ForkSessionResponse(session_id=opened.id, **_choices(opened))

    @reporting_errors
    async def close_session(self, session_id: str, **_more: Any) -> schema.CloseSessionResponse:
        await self._open_session(session_id).close()
        self._sessions.pop(session_id, None)
        return schema.CloseSessionResponse()

    @reporting_errors
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_more: Any
    ) -> schema.ListSessionsResponse:
        """The most recent first; the cursor is the number of sessions listed before."""
        at = int(cursor) if cursor is not None and cursor.isascii() and cursor.isdigit() and len(cursor) < 6 else 0
        if cursor is not None and str(at) != cursor:
            raise UsageError(f"{cursor[:60]!r} is not a cursor of session/list")
        sessions = await asyncio.to_thread(self._listed, cwd)
        more = str(at + LISTED) if len(sessions) > at + LISTED else None
        return schema.ListSessionsResponse(sessions=sessions[at : at + LISTED], next_cursor=more)

    def _query[T](self, query: Callable[[Store], T], otherwise: T) -> T:
        """The result of a query on the database; `otherwise` if there is no database yet."""
        path = questions.store_path(self._options.config_file, self._options.workspace, self._options.overrides)
        if not Store.exists(path):
            return otherwise
        store = Store.open(path, read_only=True)
        try:
            return query(store)
        finally:
            store.close()

    def _is_stored(self, session_id: str) -> bool:
        """Whether a stored conversation has exactly this id; prefixes are not accepted here."""
        if not session_id.isascii():
            return False
        return self._query(lambda store: bool(transcript.sessions_of(store, session_id)), otherwise=False)

    def _listed(self, cwd: str | None) -> list[schema.SessionInfo]:
        clean = Secrets().clean
        rows = self._query(lambda store: transcript.conversations(store, MOST_LISTED), [])
        folder = followed(cwd) if cwd is not None else None
        return [
            schema.SessionInfo(
                session_id=row.id,
                cwd=row.project_dir,
                title=visible(clean(row.title), keep_newlines=False)[:200],
                updated_at=f"{row.last_active.replace(' ', 'T')}Z",
            )
            for row in rows
            if row.title and (folder is None or followed(row.project_dir) == folder)
        ]

    async def _opened(
        self,
        cwd: str,
        more: Sequence[str] | None,
        mcp_servers: Sequence[Server] | None,
        *,
        resume: str | None = None,
        fork: bool = False,
    ) -> EditorSession:
        assert self._editor is not None
        folder = _folder(cwd)
        if resume is not None and not fork and (already_open := await self._already_open(resume)) is not None:
            return already_open
        if resume is not None and not await asyncio.to_thread(self._is_stored, resume):
            raise RequestError(NO_SESSION, f"there is no session {resume[:100]!r}; session/list lists all")
        if len(self._sessions) + self._opening >= MOST_SESSIONS:
            raise UsageError(f"{MOST_SESSIONS} sessions are already open; close one of them")
        overrides: Json = {}
        if mcp_servers:
            taken = config.load(config_file=self._options.config_file, workspace=folder).config.mcp_servers
            if entries := server_entries(mcp_servers, taken):
                overrides["mcp_servers"] = entries
        self._opening += 1
        try:
            session = await self._start_session(folder, overrides, resume, fork=fork)
        finally:
            self._opening -= 1
        if more:
            changed = PermissionUpdate("addDirectories", "session", directories=[_absolute(path) for path in more])
            permission_updates.apply_update(session.session, changed)
        self._sessions[session.id] = session
        task = asyncio.ensure_future(session.announce())  # after the answer, which names the session
        self._after.add(task)
        task.add_done_callback(self._after.discard)
        return session

    async def _already_open(self, session_id: str) -> EditorSession | None:
        """An open session; one whose conversation has ended is removed."""
        session = self._sessions.get(session_id)
        if session is not None and self.conversations.get(session_id) is None:
            del self._sessions[session_id]
            await session.leave()
            return None
        return session

    async def _start_session(self, folder: str, overrides: Json, resume: str | None, *, fork: bool) -> EditorSession:
        editor, sessions = self._editor, list[EditorSession]()
        assert editor is not None

        async def ask(path: str) -> str:
            return (await editor.read_text_file(sessions[0].id, path)).content

        def roots() -> list[str]:
            folders = sessions[0].session.environment.context.workspace if sessions else None
            return [folders.root, *folders.extra] if folders is not None else []

        hooks: Json = {"own_hooks": (HOOK,), "call_back": Unsaved(ask, roots).called} if self._reads else {}
        conversation = await self.conversations.open(
            self._name, workspace=folder, resume=resume, fork=fork, overrides=overrides, granted=True, **hooks
        )
        sessions.append(EditorSession(conversation, editor, self._name))
        return sessions[0]

    def _open_session(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(NO_SESSION, NO_SUCH.format(id=session_id[:100]))
        return session

    # -------------------------------------------------------------- a turn

    @reporting_errors
    async def prompt(self, session_id: str, prompt: list[prompts.Block], **_more: Any) -> schema.PromptResponse:
        return await self._open_session(session_id).prompt(prompt)

    async def cancel(self, session_id: str, **_more: Any) -> None:
        """Cancel the turn. This is a notification, so an unknown session is ignored."""
        if (session := self._sessions.get(session_id)) is not None:
            session.cancel()

    @reporting_errors
    async def set_session_mode(self, session_id: str, mode_id: str, **_more: Any) -> schema.SetSessionModeResponse:
        choices.set_mode(self._open_session(session_id).session, mode_id)
        return schema.SetSessionModeResponse()

    @reporting_errors
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_more: Any
    ) -> schema.SetSessionConfigOptionResponse:
        session = self._open_session(session_id)
        await choices.set_option(session.run, config_id, value, busy=session.busy)
        return schema.SetSessionConfigOptionResponse(config_options=choices.options(session.session))

    async def ext_method(self, method: str, params: Json) -> Json:  # noqa: ARG002
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: Json) -> None:
        """Ignore extensions of the protocol."""

    async def end(self) -> None:
        """The connection ends: every turn stops at a safe point and can be resumed."""
        await self.conversations.close("the editor closed the connection")
        for session in self._sessions.values():
            await session.leave()


CAPABILITIES = schema.AgentCapabilities(
    load_session=True,
    prompt_capabilities=schema.PromptCapabilities(image=True, audio=False, embedded_context=True),
    mcp_capabilities=schema.McpCapabilities(http=True, sse=False),
    session_capabilities=schema.SessionCapabilities(
        list=schema.SessionListCapabilities(),
        resume=schema.SessionResumeCapabilities(),
        fork=schema.SessionForkCapabilities(),
        close=schema.SessionCloseCapabilities(),
        additional_directories=schema.SessionAdditionalDirectoriesCapabilities(),
    ),
)


def _auth_methods(can: schema.ClientCapabilities) -> list[Any]:
    about = "Run `adderclaw onboard` in a terminal: it asks for the provider and its key (or `adderclaw login`)."
    methods: list[Any] = [schema.AuthMethodAgent(id=SETUP, name="Set up in a terminal", description=about)]
    if can.auth is not None and can.auth.terminal:
        name = f"{SETUP}-terminal"
        methods.append(schema.TerminalAuthMethod(type="terminal", id=name, name="Set up here", args=["--setup"]))
    return methods


def _choices(opened: EditorSession) -> dict[str, Any]:
    return {"modes": choices.modes(opened.session), "config_options": choices.options(opened.session)}


def _absolute(path: str) -> str:
    if not os.path.isabs(path) or "\0" in path:
        raise UsageError(f"{path[:200]!r} is not an absolute path")
    return os.path.normpath(path)


def _folder(cwd: str) -> str:
    """The session's workspace: an existing folder that is not the home and does not contain AdderClaw's own files."""
    path = _absolute(cwd)
    if not os.path.isdir(path):
        raise UsageError(f"{path[:200]!r} is not a directory; open the editor in an existing one")
    real, own = followed(path), followed(config.home())
    if real in ("/", followed(os.path.expanduser("~"))) or beneath(own, real) or beneath(real, own):
        raise UsageError(f"{path[:200]!r} cannot be a workspace; open the editor in the folder of a project")
    return path


def server_entries(servers: Sequence[Server], taken: Iterable[str]) -> Json:
    """Entries of `mcp_servers` for the editor's servers, without those that the operator's configuration names.

    They are ordinary configuration entries, so that policy, pins and sandbox apply to them.
    """
    if len(servers) > MOST_SERVERS:
        raise UsageError(f"mcpServers: at most {MOST_SERVERS} servers are allowed, not {len(servers)}")
    known = {slug(name) for name in taken}
    entries: Json = {}
    for server in servers:
        name = slug(server.name)
        if not name:
            raise UsageError(f"mcpServers: {server.name[:60]!r} is not a valid server name")
        if name in known:
            continue
        known.add(name)
        entries[server.name] = _entry(server)
    return entries


def _entry(server: Server) -> Json:
    match server:
        case schema.McpServerStdio():
            return {
                "command": server.command,
                "args": list(server.args),
                "env": {pair.name: pair.value for pair in server.env},
            }
        case schema.HttpMcpServer():
            return {"type": "http", "url": server.url, "headers": {pair.name: pair.value for pair in server.headers}}
        case _:
            raise UsageError(f"mcpServers: {server.name[:60]!r}: only stdio and http servers are supported")
