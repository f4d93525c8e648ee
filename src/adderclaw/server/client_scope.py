"""Which folders a client sees: checked before every handler runs, and what its lists are limited to."""

import os
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING

from starlette.requests import Request

from adderclaw.config.legacy.options import Options
from adderclaw.config.paths import followed
from adderclaw.server.endpoint import ApiRequest, Client, Reach
from adderclaw.server.refusal import Refusal
from adderclaw.storage import Store
from adderclaw.storage.queries import conversations
from adderclaw.storage.text import plain

if TYPE_CHECKING:
    from adderclaw.server.state import ServerState

NO_FOLDERS = ("no folder",)
"""A folder that matches nothing: real folders are absolute, and records of the whole machine have an empty one."""

_NAMES = {
    "workspace": "folder",
    "project": "folder",
    "conversation": "conversation",
    "conversation_id": "conversation",
    "session": "session",
    "run": "run",
    "resume": "resume",
    "previous_response_id": "response",
}
"""Fields of a query or a body that refer to something in a folder, and the kind of thing that each names."""
_PATHS = {"receipt": "seq", "schedule": "name"}
"""The part of the path that names it, if that is not `id`."""


def require_folder(state: "ServerState", client: Client, request: Request, reach: Reach | None) -> None:
    """Refuse a request of a token with folders for anything outside them, or for the whole machine.

    What does not exist is refused with the same message, so that a client cannot learn what other folders contain.
    """
    if not client.folders:
        return
    if reach is None:
        raise Refusal(403, "folder", "this endpoint concerns the whole machine: use a token without folders")
    if reach != "filtered":
        _require(state, client, reach, str(request.path_params[_PATHS.get(reach, "id")]))
    for name, value in request.query_params.multi_items():
        if name in _NAMES and value.strip():  # a field of a form that was left empty names nothing
            _require(state, client, _NAMES[name], value.strip())


def require_named(state: "ServerState", client: Client, body: object) -> None:
    """The same check for everything that a body names, including nested records."""
    if not client.folders or not is_dataclass(body):
        return
    for name in body.__dataclass_fields__:
        value = getattr(body, name)
        if name in _NAMES and isinstance(value, str):
            _require(state, client, _NAMES[name], value)
        else:
            require_named(state, client, value)


def _require(state: "ServerState", client: Client, kind: str, value: str) -> None:
    folders = _folders(state.store, kind, value)
    if not folders or not all(client.sees(folder) and client.sees(followed(folder)) for folder in folders):
        what = "conversation or run" if kind == "resume" else kind
        raise Refusal(403, "folder", f"{what} {value[:100]!r} is not in the folders of this token")


def _folders(store: Store, kind: str, value: str) -> list[str]:
    match kind:
        case "folder":
            return [followed(os.path.abspath(value))] if os.path.isabs(value) else []
        case "resume":
            return _folders(store, "conversation", value) + _folders(store, "run", value)
        case "response":
            return _folders(store, "conversation", value.partition("_")[2].partition("_")[2])
        case _:
            return conversations.folders_of(store, kind, plain(value))


def visible_folders(request: ApiRequest) -> tuple[str, ...]:
    """The folders whose conversations the client may see; empty: all."""
    client, state = request.client, request.state
    if not client.folders:
        return ()
    return tuple(folder for folder in conversations.projects(state.store) if client.sees(folder)) or NO_FOLDERS


def options_for(request: ApiRequest, workspace: str | None = None) -> Options:
    """The options for the folder that the client names, or for the first that it may open."""
    return replace(request.state.options, workspace=request.state.folder_for(request.client, workspace))
