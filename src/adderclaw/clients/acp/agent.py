"""The agent as the protocol's SDK calls it: what it can do, its sessions, and every error in one form."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, Concatenate

from acp import PROTOCOL_VERSION, RequestError, schema
from acp.interfaces import Client

from adderclaw import __version__, config
from adderclaw.agent.conversation import questions
from adderclaw.agent.conversation.conversations import Conversations
from adderclaw.agent.run import Options, start
from adderclaw.agent.tool_call import permission_updates
from adderclaw.clients.acp import choices, prompts, servers
from adderclaw.clients.acp.servers import Server
from adderclaw.clients.acp.session import Editing
from adderclaw.clients.acp.unsaved import HOOK, Unsaved
from adderclaw.config.paths import beneath, followed
from adderclaw.config.permissions import PermissionUpdate
from adderclaw.core.decode import Invalid
from adderclaw.core.errors import AdderClawError, ConfigError, NoModelChosen, UsageError
from adderclaw.core.redaction import Secrets, visible
from adderclaw.core.types import Json
from adderclaw.storage import Store, transcript

AUTH_REQUIRED, INVALID, NO_SESSION, INTERNAL = -32000, -32602, -32002, -32603
LISTED = 50
"""Sessions of one page."""
MOST_LISTED = 2_000
MOST_SESSIONS = 50
"""Open at once."""
SETUP = "onboard"
NO_SUCH = "there is no session {id!r} here: open one by session/new, or bring it back by session/load"


def told[A: "Agent", **P, R](
    method: Callable[Concatenate[A, P], Awaitable[R]],
) -> Callable[Concatenate[A, P], Awaitable[R]]:
    """A method whose errors the editor is told in words, without secrets; no traceback is ever printed."""

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
    """All sessions of one editor. What it says of itself is a name for rows and receipts, and lets it do nothing."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.conversations = Conversations(options, "acp", patience=None)
        self._editor: Client | None = None
        self._name = "an editor"
        self._reads = False
        """The editor tells unsaved text."""
        self._sessions: dict[str, Editing] = {}
        self._opening = 0
        self._after: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: Client) -> None:
        self._editor = conn

    # -------------------------------------------------------------- the beginning

    @told
    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **_more: Any,
    ) -> schema.InitializeResponse:
        """Whatever version is wanted, ours is named: an editor that does not know it goes away."""
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
            auth_methods=_ways_in(can),
        )

    @told
    async def authenticate(self, method_id: str, **_more: Any) -> schema.AuthenticateResponse:
        """Keys are set up in a terminal and never pass through here: it is looked whether there is a model now."""
        if method_id not in (SETUP, f"{SETUP}-terminal"):
            raise UsageError(f"there is no way {method_id[:60]!r} to log in; there is: {SETUP}")
        from dataclasses import replace

        start(replace(self._options, asks="must", log_level="off"))
        return schema.AuthenticateResponse()

    # -------------------------------------------------------------- sessions

    @told
    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Server] | None = None,
        **_more: Any,
    ) -> schema.NewSessionResponse:
        opened = await self._opened(cwd, additional_directories, mcp_servers)
        return schema.NewSessionResponse(session_id=opened.id, **_choices(opened))

    @told
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

    @told
    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Server] | None = None,
        **_more: Any,
    ) -> schema.ResumeSessionResponse:
        """As load, but nothing is told anew."""
        opened = await self._opened(cwd, additional_directories, mcp_servers, resume=session_id)
        return schema.ResumeSessionResponse(**_choices(opened))

    @told
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

    @told
    async def close_session(self, session_id: str, **_more: Any) -> schema.CloseSessionResponse:
        await self._found(session_id).close()
        self._sessions.pop(session_id, None)
        return schema.CloseSessionResponse()

    @told
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_more: Any
    ) -> schema.ListSessionsResponse:
        """The most recent first; the cursor is how many were listed before."""
        at = int(cursor) if cursor is not None and cursor.isascii() and cursor.isdigit() and len(cursor) < 6 else 0
        if cursor is not None and str(at) != cursor:
            raise UsageError(f"{cursor[:60]!r} is no cursor of session/list")
        sessions = await asyncio.to_thread(self._listed, cwd)
        more = str(at + LISTED) if len(sessions) > at + LISTED else None
        return schema.ListSessionsResponse(sessions=sessions[at : at + LISTED], next_cursor=more)

    def _read[T](self, look: Callable[[Store], T], otherwise: T) -> T:
        """What the database says; `otherwise` where there is none yet."""
        path = questions.store_path(self._options.config_file, self._options.workspace, self._options.overrides)
        if not Store.exists(path):
            return otherwise
        store = Store.open(path, read_only=True)
        try:
            return look(store)
        finally:
            store.close()

    def _is_kept(self, session_id: str) -> bool:
        """Whether a conversation has exactly this id: the beginning of one names none here."""
        if not session_id.isascii():
            return False
        return self._read(lambda store: bool(transcript.sessions_of(store, session_id)), otherwise=False)

    def _listed(self, cwd: str | None) -> list[schema.SessionInfo]:
        clean = Secrets().clean
        rows = self._read(lambda store: transcript.conversations(store, MOST_LISTED), [])
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
    ) -> Editing:
        assert self._editor is not None
        folder = _folder(cwd)
        if resume is not None and not fork and (here := await self._here(resume)) is not None:
            return here
        if resume is not None and not await asyncio.to_thread(self._is_kept, resume):
            raise RequestError(
                NO_SESSION, f"there is no session {resume[:100]!r}: session/list has those that there are"
            )
        if len(self._sessions) + self._opening >= MOST_SESSIONS:
            raise UsageError(f"{MOST_SESSIONS} sessions are open already; close one of them")
        overrides: Json = {}
        if mcp_servers:
            taken = config.load(config_file=self._options.config_file, workspace=folder).config.mcp_servers
            if entries := servers.configured(mcp_servers, taken):
                overrides["mcp_servers"] = entries
        self._opening += 1
        try:
            session = await self._begun(folder, overrides, resume, fork=fork)
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

    async def _here(self, session_id: str) -> Editing | None:
        """A session that is open already; one whose conversation has ended is forgotten."""
        session = self._sessions.get(session_id)
        if session is not None and self.conversations.get(session_id) is None:
            del self._sessions[session_id]
            await session.leave()
            return None
        return session

    async def _begun(self, folder: str, overrides: Json, resume: str | None, *, fork: bool) -> Editing:
        editor, sessions = self._editor, list[Editing]()
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
        sessions.append(Editing(conversation, editor, self._name))
        return sessions[0]

    def _found(self, session_id: str) -> Editing:
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(NO_SESSION, NO_SUCH.format(id=session_id[:100]))
        return session

    # -------------------------------------------------------------- a turn

    @told
    async def prompt(self, session_id: str, prompt: list[prompts.Block], **_more: Any) -> schema.PromptResponse:
        return await self._found(session_id).prompt(prompt)

    async def cancel(self, session_id: str, **_more: Any) -> None:
        """A notification: of a session that is not there nobody can be told."""
        if (session := self._sessions.get(session_id)) is not None:
            session.cancel()

    @told
    async def set_session_mode(self, session_id: str, mode_id: str, **_more: Any) -> schema.SetSessionModeResponse:
        choices.set_mode(self._found(session_id).session, mode_id)
        return schema.SetSessionModeResponse()

    @told
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_more: Any
    ) -> schema.SetSessionConfigOptionResponse:
        session = self._found(session_id)
        await choices.set_option(session.run, config_id, value, busy=session.busy)
        return schema.SetSessionConfigOptionResponse(config_options=choices.options(session.session))

    async def ext_method(self, method: str, params: Json) -> Json:  # noqa: ARG002
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: Json) -> None:
        """Nobody's extension means anything here."""

    async def end(self) -> None:
        """The editor is gone, or we are told to end: every turn stops at a safe point, and can be gone on with."""
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


def _ways_in(can: schema.ClientCapabilities) -> list[Any]:
    about = "Run `adderclaw onboard` in a terminal: it asks for the provider and its key (or `adderclaw login`)."
    methods: list[Any] = [schema.AuthMethodAgent(id=SETUP, name="Set up in a terminal", description=about)]
    if can.auth is not None and can.auth.terminal:
        name = f"{SETUP}-terminal"
        methods.append(schema.TerminalAuthMethod(type="terminal", id=name, name="Set up here", args=["--setup"]))
    return methods


def _choices(opened: Editing) -> dict[str, Any]:
    return {"modes": choices.modes(opened.session), "config_options": choices.options(opened.session)}


def _absolute(path: str) -> str:
    if not os.path.isabs(path) or "\0" in path:
        raise UsageError(f"{path[:200]!r} is no absolute path")
    return os.path.normpath(path)


def _folder(cwd: str) -> str:
    """The session's workspace: a folder that is there, and neither the home nor what holds our own files."""
    path = _absolute(cwd)
    if not os.path.isdir(path):
        raise UsageError(f"{path[:200]!r} is no directory; open the editor in one that is there")
    real, own = followed(path), followed(config.home())
    if real in ("/", followed(os.path.expanduser("~"))) or beneath(own, real) or beneath(real, own):
        raise UsageError(f"{path[:200]!r} is no place to work in: open the editor in the folder of a project")
    return path
