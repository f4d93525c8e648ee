"""Which token may ask what: a table of every route, held against the routes that the application really has."""

import asyncio
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from adderclaw.agent.run import Options
from adderclaw.flows.request import RunRequest
from adderclaw.flows.schedules import adding
from adderclaw.flows.schedules.adding import New
from adderclaw.server import app, openapi
from adderclaw.server.endpoint import SCOPES, ApiRequest, Endpoint
from adderclaw.server.limits import Rate, Rates
from adderclaw.server.state import ServerState
from adderclaw.storage import approvals, checkpoints, notices
from adderclaw.storage.checkpoints import Draft
from adderclaw.tools.mcp.server import TokenGuard
from tests.program import Cli
from tests.server.conftest import ORIGIN, Server
from tests.server.seeded import Seed

TABLE = """
GET    /health                                         open
GET    /ready                                          open
GET    /openapi.json                                   open
GET    /login                                          open
POST   /login                                          open
GET    /ui/style.css                                   open
GET    /ui/app.js                                      open
GET    /ui/icon.svg                                    open
POST   /channels/{name}/messages                       open      signed
POST   /triggers/{name}                                open      signed
POST   /fleet/answers                                  open      signed

POST   /estop                                          operate   machine
DELETE /estop                                          admin     machine
GET    /fleet/questions                                read      machine
POST   /fleet/questions/{run_id}/{id}/answer           approve   machine
GET    /receipts/head                                  read      machine
GET    /receipts/verification                          read      machine
POST   /doctor                                         operate   machine
GET    /notices/targets                                read      machine
GET    /plugins                                        read      machine
GET    /plugins/{name}                                 read      machine
POST   /plugins/{name}/disable                         admin     machine
GET    /metrics                                        read      machine
GET    /ui/fleet                                       read      machine

GET    /conversations/{id}                             read      conversation
GET    /conversations/{id}/items                       read      conversation
GET    /conversations/{id}/events                      read      conversation
POST   /conversations/{id}/messages                    operate   conversation
GET    /conversations/{id}/turns/{turn}                read      conversation
POST   /conversations/{id}/interrupt                   operate   conversation
POST   /conversations/{id}/branch                      operate   conversation
POST   /conversations/{id}/close                       operate   conversation
POST   /conversations/{id}/questions/{question}/answer operate   conversation
GET    /conversations/{id}/prompts                     operate   conversation
POST   /conversations/{id}/rewind                      operate   conversation
GET    /ui/conversations/{id}                          read      conversation
GET    /ui/conversations/{id}/events                   read      conversation
GET    /runs/{id}                                      read      run
GET    /runs/{id}/events                               read      run
GET    /runs/{id}/report                               read      run
GET    /runs/{id}/steps                                read      run
POST   /runs/{id}/cancel                               operate   run
POST   /runs/{id}/questions/{question}/answer          operate   run
GET    /ui/runs/{id}                                   read      run
GET    /ui/runs/{id}/events                            read      run
POST   /questions/{id}/answer                          approve   question
GET    /checkpoints/{id}                               read      checkpoint
POST   /checkpoints/{id}/restore                       operate   checkpoint
GET    /receipts/{seq}                                 read      receipt
GET    /ui/ledger/{seq}                                read      receipt
GET    /schedules/{name}                               read      schedule
DELETE /schedules/{name}                               admin     schedule
GET    /schedules/{name}/history                       read      schedule
POST   /schedules/{name}/run                           operate   schedule
POST   /schedules/{name}/pause                         operate   schedule
POST   /schedules/{name}/resume                        operate   schedule
POST   /schedules/{name}/approve                       admin     schedule
GET    /ui/schedules/{name}                            read      schedule

GET    /status                                         read      filtered
POST   /logout                                         read      filtered
POST   /chat                                           operate   filtered
GET    /conversations                                  read      filtered
POST   /conversations                                  operate   filtered
GET    /runs                                           read      filtered
POST   /runs                                           operate   filtered
GET    /sops                                           read      filtered
GET    /sops/{name}                                    read      filtered
GET    /schedules                                      read      filtered
POST   /schedules                                      admin     filtered
GET    /questions                                      read      filtered
GET    /usage                                          read      filtered
GET    /usage/series                                   read      filtered
GET    /receipts                                       read      filtered
GET    /checkpoints                                    read      filtered
GET    /memory/search                                  read      filtered
GET    /tools                                          read      filtered
POST   /policy/explain                                 read      filtered
GET    /mcp                                            read      filtered
GET    /skills                                         read      filtered
GET    /hooks                                          read      filtered
GET    /settings                                       read      filtered
GET    /notices                                        read      filtered
GET    /                                               read      filtered
GET    /ui/overview/events                             read      filtered
GET    /ui/questions                                   read      filtered
GET    /ui/conversations                               read      filtered
GET    /ui/runs                                        read      filtered
GET    /ui/schedules                                   read      filtered
GET    /ui/usage                                       read      filtered
GET    /ui/ledger                                      read      filtered
GET    /ui/settings                                    read      filtered
GET    /v1/models                                      openai    filtered
GET    /v1/models/{model:path}                         openai    filtered
POST   /v1/chat/completions                            openai    filtered
POST   /v1/responses                                   openai    filtered
"""
"""Method, path, scope, and how a token for folders is held to them: `machine` is refused to each of them."""

ROWS = [(row[0], row[1], row[2], (*row, "")[3]) for row in map(str.split, TABLE.splitlines()) if row]
GRANTS = {"read": {"read", "admin"}, "operate": {"operate", "admin"}, "approve": {"approve", "admin"}}
"""Scopes of a token that open a route of this scope; of the others only the same one."""


class Folders:
    """A server with two folders, and in each one thing of every kind. Handlers only say that they were reached."""

    def __init__(self, root: Path) -> None:
        self.alpha, self.bravo = root / "alpha", root / "bravo"
        for folder in (self.alpha, self.bravo):
            folder.mkdir()
        plenty = Rate(1e6, 1e6)
        options = Options(workspace=str(self.alpha), log_level="error")
        self.state = ServerState(options, [str(self.alpha), str(self.bravo)], openai=True)
        self.state.rates = Rates(self.state.clock.monotonic, requests=plenty, failures=plenty, open_to_all=plenty)
        self.things = {folder.name: self._filled(folder) for folder in (self.alpha, self.bravo)}
        self.server = Server(self.state)

    def _filled(self, folder: Path) -> dict[str, str]:
        state, data, name = self.state, Path(self.state.home), folder.name
        now = state.clock.now()
        seed = Seed(data / "memory.sqlite", data / "tool_receipts.log", data / "receipt.key", now)
        seed.numbers = dict.fromkeys(("conv", "session", "r", "call", "entry"), 100 if name == "alpha" else 200)
        conversation, session = seed.conversation(str(folder), f"words of {name}")
        run = seed.run("task", conversation, session)
        seed.asks(run, session)
        seed.calls(run, conversation, session, "Bash", given={"command": f"echo {name}"})
        seed.finish(run, "completed", f"answer of {name}")
        seq = str(seed.store.read("SELECT max(seq) FROM receipts")[0][0])
        seed.close()
        with state.store.write() as cursor:
            approvals.ask(
                cursor, id=f"approval-{name}", session_id=session, tool_use_id="t", tool="Bash", risk="medium",
                reason="", shown=f"echo {name}", plan_hash="0", now=now, seconds=None,
            )  # fmt: skip
            notices.put(
                cursor, id=f"notice-{name}", target="t", kind="done", about="", run_id=run, workspace=str(folder),
                body={"title": f"done in {name}"}, now=now, due_at=now,
            )  # fmt: skip
            draft = Draft(str(folder), conversation, session, session, 1, "call", "Write", f"use-{name}")
            point = str(checkpoints.add(cursor, draft, []))
        new = New(
            name=f"schedule-{name}", what=RunRequest(message="look", workspace=str(folder)), zone="UTC", cron="@daily"
        )
        adding.add_schedule(state.store, adding.make_schedule(new, state.options, state.key, now, "test"))
        kinds = {"conversation": conversation, "session": session, "run": run, "question": f"approval-{name}"}
        return kinds | {"checkpoint": point, "receipt": seq, "schedule": new.name, "folder": str(folder)}


@pytest.fixture
def folders(home: Path, tmp_path: Path) -> Any:
    made = Folders(tmp_path)
    yield made
    made.state.store.close()


def _routes(server: Server) -> dict[tuple[str, str], Endpoint]:
    """Those that the application dispatches to."""
    made: dict[tuple[str, str], Endpoint] = {}
    for route in server.app._inner.routes:
        made |= {(method, route.path): endpoint for method, endpoint in route.endpoint._methods.items()}
    return made


def test_every_route_has_a_row_and_every_row_a_route(folders: Folders) -> None:
    found = {
        (*at, one.scope, "signed" if one.is_signed else "" if one.scope == "open" else one.reach or "machine")
        for at, one in _routes(folders.server).items()
    }
    assert found == {*ROWS}
    for method, path, _, reach in ROWS:
        if reach == "signed":  # the signature is its credential
            assert folders.server.ask(method, path).status_code == 401, path


def _path(template: str, value: str) -> str:
    parts = ["x" if part.startswith("{") else part for part in template.split("/")]
    if "{" in template:  # the first part with a name in it says what is meant
        parts[next(at for at, part in enumerate(template.split("/")) if part.startswith("{"))] = value
    return "/".join(parts)


def test_scope_and_folder_are_checked_before_every_handler(folders: Folders) -> None:
    """A route × each kind of token × a thing in its folder, in another one, and one that does not exist."""
    state, reached = folders.state, list[str]()

    async def handler(request: ApiRequest) -> object:
        reached.append(request.http.url.path)
        return {}

    served = [replace(one, answer=handler, takes=None) for one in app.all_endpoints(openai=True)]
    server = Server(state, served)
    alpha = str(folders.alpha)
    tokens = {
        (scope, held): server.token(scope, folders=[alpha] if held else []) for scope in SCOPES for held in (0, 1)
    }
    wrong: list[str] = []

    async def expect(client: httpx2.AsyncClient, method: str, path: str, token: str | None, code: str) -> None:
        """`code`: of the refusal; empty: the handler is reached."""
        reached.clear()
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        answer = await client.request(method, path, headers=headers)
        got = "" if reached else str(answer.status_code)
        if got in ("401", "403") and "json" in answer.headers["content-type"]:
            got += f" {answer.json()['error']['code']}"
        if got != code:
            wrong.append(f"{method} {path}: {got!r}, not {code!r}")

    async def work() -> None:
        async with server.client() as client:
            for method, template, scope, reach in ROWS:
                if scope == "open":
                    continue
                is_page = template.startswith("/ui/") or template == "/"
                own, other = (folders.things[name].get(reach, "x") for name in ("alpha", "bravo"))
                out = "303" if is_page and method == "GET" else "401 token"
                await expect(client, method, _path(template, own), None, out)
                for (granted, held), token in tokens.items():
                    may = granted in GRANTS.get(scope, {scope})
                    at_own = "403 folder" if may and held and reach == "machine" else "" if may else "403 scope"
                    await expect(client, method, _path(template, own), token, at_own)
                    if reach in ("machine", "filtered"):
                        continue
                    for value in (other, "999999"):
                        code = "403 scope" if not may else "403 folder" if held else ""
                        await expect(client, method, _path(template, value), token, code)

    asyncio.run(work())
    assert wrong == []


def test_what_a_query_or_a_body_names_lies_in_the_folders_of_the_token(folders: Folders) -> None:
    server, there = folders.server, folders.things["bravo"]
    conversation, bravo = there["conversation"], there["folder"]
    link = folders.alpha / "link"
    link.symlink_to(bravo)
    token = server.token(*SCOPES, folders=[str(folders.alpha)])
    message = {"message": "x"}
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/chat", {"message": "hi", "conversation_id": conversation}),
        ("/conversations", {"resume": conversation}),
        ("/conversations", {"resume": "999999"}),
        ("/conversations", {"resume": conversation, "workspace": str(folders.alpha)}),
        ("/runs", {"resume": there["run"]}),
        ("/v1/responses", {"model": "adderclaw", "input": "x", "previous_response_id": f"resp_1_{conversation}"}),
        ("/v1/responses", {"model": "adderclaw", "input": "x", "previous_response_id": "resp_1_x"}),
    ]
    for place in (bravo, str(link), f"{folders.alpha}/../bravo", "/", "relative", str(folders.alpha.parent)):
        bodies += [
            ("/chat", {"message": "hi", "workspace": place}),
            ("/conversations", {"workspace": place}),
            ("/runs", {**message, "workspace": place}),
            ("/schedules", {"name": "new", "cron": "@daily", "what": {**message, "workspace": place}}),
            ("/policy/explain", {"tool": "Read", "workspace": place}),
        ]
    queries = [
        f"/conversations?workspace={bravo}",
        f"/memory/search?q=x&workspace={bravo}",
        f"/ui/runs?project={bravo}",
    ]
    queries += [f"/checkpoints?conversation={conversation}", f"/receipts?conversation={conversation}"]
    queries += [f"/receipts?session={there['session']}", f"/receipts?run={there['run']}"]
    for path in (
        "/tools",
        "/mcp",
        "/skills",
        "/hooks",
        "/settings",
        "/sops",
        "/sops/x",
        "/ui/settings",
    ):
        queries += [f"{path}?workspace={bravo}", f"{path}?workspace={link}", f"{path}?workspace=%20{bravo}"]

    async def work() -> None:
        async with server.client(token) as client:
            for path, body in bodies:
                answer = await client.post(path, json=body)
                assert (answer.status_code, answer.json()["error"]["code"]) == (403, "folder"), (
                    path,
                    body,
                    answer.text,
                )
            for path in queries:
                answer = await client.get(path)
                assert answer.status_code == 403, (path, answer.text)

    asyncio.run(work())
    assert [row[0] for row in folders.state.store.read("SELECT name FROM schedules ORDER BY 1")] == [
        "schedule-alpha", "schedule-bravo"
    ]  # fmt: skip


def test_a_body_reaches_a_folder_only_by_a_field_that_is_checked() -> None:
    """A new field of a request whose name sounds like a folder, a file or something stored needs a decision here."""
    inside = {"agentfile", "spec", "skills_dir", "sop", "paths"}  # `runs.inside`; `paths` are of a checkpoint's folder
    signed = {"run_id", "question_id"}  # taken with a signature, not with a token
    no_place = {"dry_run", "profile"}
    checked = {"workspace", "conversation", "conversation_id", "session", "run", "resume", "previous_response_id"}
    sounds = re.compile(
        r"(folder|dir|path|file|cwd|root|place|workspace|project|conversation|session|run|resume|response|question"
        r"|spec|sop|checkpoint|schedule|receipt)s?(_id)?$"
    )
    names = {name for one in app.all_endpoints(openai=True) for name in _fields(one.takes) if sounds.search(name)}
    assert names == checked | inside | signed | no_place


def _fields(kind: Any) -> set[str]:
    found: set[str] = set()
    for name, spec in cast("dict[str, Any]", getattr(kind, "__dataclass_fields__", {})).items():
        found |= {name} | (_fields(spec.type) if isinstance(spec.type, type) else set())
    return found


def test_a_folder_in_which_nothing_happened_shows_nothing_of_the_machine(folders: Folders) -> None:
    """Such as a notice of the stop, which belongs to no folder."""
    server, now = folders.server, folders.state.clock.now()
    with server.state.store.write() as cursor:
        body = {"title": "everything is stopped"}
        notices.put(
            cursor, id="n", target="t", kind="done", about="", run_id="", workspace="", body=body, now=now, due_at=now
        )
    (folders.alpha / "empty").mkdir()
    token = server.token("read", folders=[str(folders.alpha / "empty")])
    assert server.ask("GET", "/notices", token).json() == []
    assert server.ask("GET", "/conversations", token).json() == {"conversations": []}


def test_what_is_shown_to_a_token_for_a_folder_has_nothing_of_another(folders: Folders) -> None:
    """The real answers of all routes that show several things; a stream shows what its page does."""
    server = folders.server
    narrow, wide = (server.token(*SCOPES, folders=held, name=str(len(held))) for held in ([str(folders.alpha)], []))
    asked = {"/memory/search": {"q": "words"}, "/usage": {"by": "project"}}
    of_bravo = {value for kind, value in folders.things["bravo"].items() if kind not in ("checkpoint", "receipt")}

    async def work() -> None:
        async with server.client(narrow) as client, server.client(wide) as every:
            seen, all_seen = "", ""
            for method, path, _, reach in ROWS:
                if method == "GET" and reach == "filtered" and "{" not in path and not path.endswith("/events"):
                    more = asked.get(path)
                    answer = await client.get(path, params=more)
                    assert answer.status_code in (200, 400), (path, answer.text)
                    assert "bravo" not in answer.text, path
                    assert not [one for one in of_bravo if one in answer.text], path
                    seen, all_seen = seen + answer.text, all_seen + (await every.get(path, params=more)).text
            for kind in ("conversation", "run", "question", "schedule", "folder"):
                assert folders.things["alpha"][kind] in seen, kind
                assert folders.things["bravo"][kind] in all_seen, kind

    asyncio.run(work())


def test_a_browser_that_logged_in_is_held_to_the_folders_of_its_token(folders: Folders) -> None:
    """It is offered nothing either that its token may not."""
    bravo = folders.things["bravo"]
    token = folders.server.token(*SCOPES, folders=[str(folders.alpha)])

    async def work() -> None:
        async with folders.server.client(Origin=ORIGIN) as browser:
            assert (await browser.post("/login", data={"token": token})).status_code == 303
            page = (await browser.get("/")).text
            assert "Recent conversations" in page
            assert 'data-do="stop"' not in page
            assert "/ui/fleet" not in page
            for path in (f"/ui/conversations/{bravo['conversation']}", "/ui/fleet", "/metrics"):
                assert (await browser.get(path)).status_code == 403, path
            answer = await browser.post(f"/conversations/{bravo['conversation']}/close")
            assert answer.json()["error"]["code"] == "folder"

    asyncio.run(work())


@pytest.mark.parametrize("scope", ["operate", "admin"])
def test_an_administrator_of_a_folder_is_bounded_there(folders: Folders, scope: str) -> None:
    """A folder that became a link is not opened by default, and no profile is looser than the operator's."""
    server, state = folders.server, folders.state
    narrow = folders.alpha / "narrow"
    narrow.mkdir()
    token = server.token(scope, "read", folders=[str(narrow)])
    shown = {"workspace": str(narrow), "profile": "permissive", "message": "x"}
    asked = server.ask("POST", "/runs", token, json=shown)
    assert (asked.status_code, asked.json()["error"]["code"]) == (403, "profile"), asked.text
    if scope == "admin":
        new = {"name": "n", "cron": "@daily", "what": shown}
        assert server.ask("POST", "/schedules", token, json=new).json()["error"]["code"] == "profile"
        kept = server.ask("POST", "/schedules", token, json={**new, "what": {"message": "x", "workspace": str(narrow)}})
        assert kept.status_code == 201, kept.text
    resumed = server.ask("POST", "/runs", token, json={"resume": folders.things["bravo"]["run"]})
    assert "conversation or run" in resumed.json()["error"]["message"], resumed.text
    narrow.rmdir()
    narrow.symlink_to(folders.bravo)
    for path, body in (("/conversations", {}), ("/runs", {"message": "x"}), ("/chat", {"message": "x"})):
        answer = server.ask("POST", path, token, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "folder"), answer.text
    assert state.conversations.all() == []


@pytest.mark.parametrize("serves", ["serve", "mcp serve"])
def test_a_websocket_reaches_no_handler(folders: Folders, serves: str) -> None:
    sent: list[object] = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: object) -> None:
        sent.append(message)

    async def handler(*given: object) -> None:
        sent.append(given)

    served: Any = folders.server.app if serves == "serve" else TokenGuard(handler, "token")
    asyncio.run(served({"type": "websocket", "path": "/conversations", "headers": []}, receive, send))
    assert sent == []


def test_the_description_says_what_a_token_with_folders_may_not(folders: Folders) -> None:
    described = openapi.description(app.all_endpoints())["paths"]
    assert described["/metrics"]["get"]["description"] == "Scope: read. Not for a token with folders."
    assert described["/runs"]["post"]["description"] == "Scope: operate."


def test_a_folder_to_which_no_token_can_be_held_is_refused(cli: Cli, tmp_path: Path) -> None:
    """An empty name would be the current folder; the home has the records of all folders."""
    kept = cli.home / "kept"
    kept.mkdir()
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(odd)
    link = tmp_path / "link"
    link.symlink_to(cli.data)
    for scope in SCOPES:
        for folder, why in (
            ("", "is empty"),
            (odd, "not UTF-8"),
            (str(cli.data), "every folder"),
            (str(link), "every"),
        ):
            done = cli("token", "create", "x", "--scope", scope, "--folder", folder)
            assert (done.code, why in done.err) == (2, True), (folder, done.err)
    assert cli("token", "create", "x", "--scope", "admin", "--folder", str(kept)).code == 0
