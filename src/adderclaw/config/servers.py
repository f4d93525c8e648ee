"""Configured MCP servers: reads and checks entries; their variables are expanded when a server starts."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Annotated, Any, Literal, cast

from adderclaw.config.urls import check_url
from adderclaw.core.decode import Between, Invalid, decode, short_json
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import Json

FILE = ".mcp.json"
"""A project's own servers, in the shape that other programs share."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_FOREIGN = frozenset({"alwaysLoad", "headersHelper", "autoApprove", "alwaysAllow", "disabledTools", "description"})
"""Keys of other programs that are ignored here."""

type Milliseconds = Annotated[int, Between(1_000, 3_600_000)]


@record
class ServerLogin:
    """How to log in to a server that requires it; without this, the program registers itself there."""

    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    """Who logs in: a person in a browser, or this program with its own secret or key."""
    clientId: str | None = None
    """The client id of this program, if it was registered manually."""
    clientSecretEnv: str | None = None
    """The environment variable with the client's secret, if it has one."""
    clientKeyEnv: str | None = None
    """The environment variable that holds the client's private key (PEM), where it signs instead."""
    issuer: str | None = None
    """The authorization server of the client. Its secret is sent to no other server."""
    clientMetadataUrl: str | None = None
    """A document on the web that says who this client is, for servers that take such a client."""
    scopes: list[str] = field(default_factory=list[str])
    """The scopes to request; without them, those that the server names."""
    callbackPort: Annotated[int, Between(1, 65_535)] | None = None
    """The local port that the browser returns to, if the registration fixes one."""


@record
class Server:
    """An entry of `mcp_servers`: a program to start (`command`) or an address to connect to (`url`)."""

    type: Literal["stdio", "http", "streamable-http"] | None = None
    """Follows from `command` or `url`."""
    command: str | None = None
    """The program, by its name or path. It runs in the session's sandbox."""
    args: list[str] = field(default_factory=list[str])
    """Its arguments."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    """Additional variables; it always gets a few harmless ones."""
    cwd: str | None = None
    """Where it starts; default: the workspace."""
    reads: list[str] = field(default_factory=list[str])
    """Files and directories outside the workspace that it needs to read. Its program is always included."""
    url: str | None = None
    """The address of a server that speaks streamable HTTP."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """HTTP headers. Put secrets in a variable: `Bearer ${TOKEN}`."""
    oauth: ServerLogin | None = None
    """For `adderclaw mcp login`."""
    timeout: Milliseconds = 120_000
    """How long one call may take, in milliseconds."""
    startupTimeout: Milliseconds = 30_000
    """How long it may take to start, in milliseconds."""
    protocol: Literal["handshake", "auto"] = "handshake"
    """`auto` tries the protocol of 2026-07-28 first, in which few servers can send requests to the client yet."""
    sampling: bool = False
    """It may send requests to your model, at your cost."""
    disabled: bool = False
    """It is not used."""


class Entry(NamedTuple):
    """A server with its name and origin."""

    name: str
    """Lower case, as in the names of its tools."""
    given: str
    """The name as configured."""
    server: Server
    scope: str
    """`user` for the operator's own configuration, `plugin:NAME` for a plugin's, else the project's directory."""
    live: object = None
    """A server in the embedding program. It is that program's own code, so it is not pinned."""
    by_operator: bool = False
    """Whether it comes from the operator's configuration or the embedding program rather than a project's file."""
    changed: Callable[[], str] = lambda: ""
    """Why it may not start now, if its plugin changed since it was trusted."""


def slug(name: str) -> str:
    """The name in `mcp__NAME__tool`: lower case, and never two underscores in a row."""
    return re.sub(r"_+", "_", re.sub(r"[^a-z0-9-]", "_", name.lower())).strip("_")[:40]


def parse_server(entry: object) -> Server:
    """One entry; raises Invalid with every problem."""
    known: object = entry
    if isinstance(entry, dict):
        known = {key: value for key, value in cast(Json, entry).items() if key not in _FOREIGN}
    server = decode(Server, known)
    problems = [*_problems(server)]
    if problems:
        raise Invalid(problems)
    return server


def _problems(server: Server) -> Iterator[tuple[str, str]]:
    if (server.command is None) == (server.url is None):
        yield "", "needs either command (a program) or url (an address)"
        return
    if server.type is not None and (server.type == "stdio") != (server.command is not None):
        yield "type", f"{short_json(server.type)} does not go with {'command' if server.command is not None else 'url'}"
    if server.command is not None and not server.command.strip():
        yield "command", "is empty"
    if server.url is not None and not _VARIABLE.search(server.url):
        try:
            check_url(server.url)
        except ValueError as error:
            yield "url", str(error)
    if server.oauth is not None:
        yield from _login_problems(server.oauth)


def _login_problems(login: ServerLogin) -> Iterator[tuple[str, str]]:
    for name, address in (("issuer", login.issuer), ("clientMetadataUrl", login.clientMetadataUrl)):
        try:
            check_url(address or "https://x")
        except ValueError as error:
            yield f"oauth.{name}", str(error)
    if login.clientMetadataUrl and not re.match(r"https://[^/]+/.", login.clientMetadataUrl):
        yield "oauth.clientMetadataUrl", "must begin with https:// and name a document"
    if login.grant != "client_credentials":
        return
    for name, value in (("clientId", login.clientId), ("issuer", login.issuer)):
        if not value:
            yield f"oauth.{name}", "is required for client_credentials"
    if (login.clientSecretEnv is None) == (login.clientKeyEnv is None):
        yield "oauth", "client_credentials needs either clientSecretEnv or clientKeyEnv"


def problems(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with `mcp_servers`: (key, message)."""
    names_by_slug: dict[str, str] = {}
    for name, entry in table.items():
        key = f"mcp_servers.{name}"
        try:
            parse_server(entry)
        except Invalid as error:
            yield from ((f"{key}.{inner}" if inner else key, message) for inner, message in error.problems)
        short = slug(name)
        if not short:
            yield key, "the name needs a letter or a digit"
        elif short in names_by_slug:
            yield (
                key,
                f"is the same name as {short_json(names_by_slug[short])},"
                f" because both become mcp__{short}__…; rename one",
            )
        names_by_slug.setdefault(short, name)


class Missing(ValueError):
    """A variable that an entry names and that is not set."""


def filled(text: str, environment: Mapping[str, str] | None = None) -> str:
    """The text with `${NAME}` and `${NAME:-default}`, or a whole `$NAME`, expanded; raises Missing."""
    values = os.environ if environment is None else environment
    text = re.sub(r"\A\$([A-Za-z_][A-Za-z0-9_]*)\Z", r"${\1}", text)

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if values.get(name):
            return values[name]
        if default is None:
            raise Missing(f"the environment variable {name} is not set")
        return default

    return _VARIABLE.sub(value, text)


def entries(table: Mapping[str, Json], origins: Mapping[str, str], project: str, own: str) -> list[Entry]:
    """The servers that may be used, in their order. `own` is AdderClaw's folder, `project` the workspace."""
    enabled: list[Entry] = []
    for name, entry in table.items():
        server = parse_server(entry)
        if not server.disabled:
            enabled.append(
                Entry(slug(name), name, server, scope_of(origins.get(f"mcp_servers.{name}", ""), project, own))
            )
    return enabled


def scope_of(origin: str, project: str, own: str) -> str:
    inside = os.path.realpath(origin).startswith(os.path.join(os.path.realpath(project), ""))
    return os.path.realpath(project) if inside and os.path.dirname(origin) != own else "user"


def files(server: Server) -> list[str]:
    """The files of a server's program, as far as its command line names them, which must be visible in its sandbox."""
    paths: list[str] = []
    for text in (server.command or "", *server.args, *server.reads):
        try:
            path = os.path.expanduser(filled(text))
        except Missing:
            continue
        if os.path.isabs(path) and os.path.exists(path):
            paths.append(path if text in server.reads else _package(path))
    return paths


def _package(path: str) -> str:
    """The folder of packages or the virtual environment that contains a program; otherwise the program itself."""
    folder, modules, _ = path.rpartition("/node_modules/")
    if modules:
        return f"{folder}/node_modules"
    above = os.path.dirname(os.path.dirname(path))
    return above if os.path.exists(os.path.join(above, "pyvenv.cfg")) else path
