"""The page of settings: every setting with its origin, the project's trust, extensions, and notice targets."""

import json

from adderclaw.agent.queries import notices, parts, plugins
from adderclaw.agent.queries.notices import TargetRow
from adderclaw.agent.queries.parts import HookRow, ServerRow, Settings, Skills
from adderclaw.agent.queries.plugins import PluginRow
from adderclaw.core.record import NamedTuple
from adderclaw.server.client_scope import options_for as options_of
from adderclaw.server.endpoint import ApiRequest
from adderclaw.server.pages.page import Entry, in_thread, page, query_text, shorten_home

SHOWN = {"changed": "only what somebody set", "all": "all settings"}


class Row(NamedTuple):
    key: str
    value: str | None
    origin: str


class Output(NamedTuple):
    folders: list[tuple[str, str]]
    folder: str
    words: str
    show: str
    choices: list[tuple[str, str]]
    settings: Settings
    files: list[str]
    workspace: str
    rows: list[Row]
    plugins: list[PluginRow]
    servers: list[ServerRow]
    skills: Skills
    hooks: list[HookRow]
    targets: list[TargetRow]


async def _read(request: ApiRequest) -> Output:
    words = query_text(request, "q")
    show = query_text(request, "show", list(SHOWN), "all" if words else "changed")
    folder, is_whole = query_text(request, "workspace"), not request.client.folders

    def read() -> Output:
        options = options_of(request, folder or None)
        now = parts.settings(options)
        rows = [
            Row(row["key"], _value(row["value"]), shorten_home(row["origin"]))
            for row in now["settings"]
            if (show == "all" or row["origin"] != "default")
            and words.lower() in f"{row['key']} {row['origin']}".lower()
        ]
        return Output(
            [(workspace, workspace) for workspace in request.state.workspaces if request.client.sees(workspace)],
            folder,
            words,
            show,
            list(SHOWN.items()),
            now,
            [shorten_home(file) for file in now["files"]],
            shorten_home(now["workspace"]),
            rows,
            plugins.listed() if is_whole else [],  # plugins and targets concern the whole machine
            parts.mcp_servers(options),
            parts.skills(options),
            parts.hooks(options),
            notices.targets(request.state.options) if is_whole else [],
        )

    return await in_thread(read)


def _value(value: object) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    return json.dumps(value, ensure_ascii=False)


ENTRY = Entry(40, "/ui/settings", "Settings", "s")
ENDPOINTS = (page(ENTRY.path, _read, "settings.html", "Every setting with its origin."),)
