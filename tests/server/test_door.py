"""Who may come in: a test for each sentence, on the real application with a real store."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from starlette.responses import StreamingResponse

from adderclaw.server import app
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.limits import Rate, Rates
from adderclaw.server.state import ServerState
from adderclaw.storage import Store, clients
from tests.program import Cli
from tests.server.conftest import ORIGIN, Server

HOST = ORIGIN.removeprefix("http://")


def code(server: Server, *given: object, **more: object) -> str:
    """How a request was refused; empty where it was let in."""
    answer = server.ask(*given, **more)  # pyright: ignore[reportArgumentType]
    return str(answer.json()["error"]["code"]) if answer.status_code >= 400 else ""


# ------------------------------------------------------------------ tokens


def test_a_token_is_shown_once_and_stored_as_a_hash(cli: Cli) -> None:
    made = cli("token", "create", "laptop", "--scope", "read,operate", "--output-format", "json")
    token = json.loads(made.out)["token"]
    listed = json.loads(cli("token", "list", "--output-format", "json").out)
    assert [(row["name"], row["scopes"], row["state"]) for row in listed] == [("laptop", ["operate", "read"], "valid")]
    secret = token[-20:]
    for path in (path for path in cli.home.rglob("*") if path.is_file()):
        assert secret.encode() not in path.read_bytes(), path


WIDENED = (
    """scopes_json = '["admin"]'""",
    """folders_json = '["/"]'""",
    "expires_at = NULL",
    "expires_at = '2999-01-01T00:00:00.000Z'",
    "name = 'operator'",
    "parent = 'client-000000000000'",
)


def test_somebody_who_can_only_write_the_database_widens_no_token(server: Server) -> None:
    for change in WIDENED:
        token = server.token("read", seconds=60)
        assert code(server, "GET", "/status", token) == ""
        with server.state.store.write() as cursor:
            cursor.execute(f"UPDATE clients SET {change}")
        assert code(server, "GET", "/status", token) == "token", change


def test_somebody_who_can_only_write_the_database_prolongs_no_login(server: Server) -> None:
    """A login ends with the token that was used for it: of that one's row nothing may be another than it was."""
    state = server.state
    for change in (*WIDENED[:5], "id = 'client-000000000000'"):
        now = state.clock.now()
        parent = clients.create(state.store, state.key, name="me", scopes=["read"], now=now, seconds=60).row.id
        login = clients.create(state.store, state.key, name="me", scopes=["read"], now=now, parent=parent).token
        assert code(server, "GET", "/status", login) == ""
        with state.store.write() as cursor:
            cursor.execute(f"UPDATE clients SET {change} WHERE id = ?", (parent,))
        assert code(server, "GET", "/status", login) == "token", change


def test_somebody_who_can_only_write_the_database_makes_no_token(server: Server) -> None:
    """A whole row, made with another key: of a home of their own."""
    other = clients.create(server.state.store, b"x" * 32, name="me", scopes=["admin"], now=time.time())
    assert code(server, "GET", "/status", other.token) == "token"


def test_a_token_that_expired_was_revoked_or_guessed_is_refused_in_the_same_words(server: Server) -> None:
    store, now = server.state.store, server.state.clock.now()
    expired = server.token("read", name="expired", seconds=-1)
    revoked = server.token("read", name="revoked")
    clients.revoke(store, "revoked", now)
    guessed = [revoked[:-1] + ("A" if revoked[-1] != "A" else "B"), "adk_x", "", "adk_" + "x" * 5_000, "\x80é"]
    answers = {
        server.ask("GET", "/status", headers={"Authorization": b"Bearer " + token.encode("latin-1")}).text
        for token in (expired, revoked, *guessed)
    }
    assert [json.loads(text)["error"]["code"] for text in answers] == ["token"] * len(answers)
    assert len(answers) <= 2  # the empty one is none at all
    with store.write() as cursor:  # what somebody who can write the database could still do
        cursor.execute("UPDATE clients SET revoked_at = NULL")
    assert code(server, "GET", "/status", revoked) == "token"


def test_guesses_are_slowed_down_and_a_good_token_is_not(server: Server) -> None:
    state = server.state
    state.rates = Rates(lambda: 0.0, failures=Rate(1, 3))
    token = server.token("read")
    guess = token[:-2]
    assert [code(server, "GET", "/status", guess) for _ in range(5)] == ["token"] * 3 + ["rate"] * 2
    refused = server.ask("GET", "/status", guess)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    login = {"data": {"token": guess}, "headers": {"Origin": ORIGIN}}
    assert code(server, "POST", "/login", **login) == "rate"
    assert code(server, "GET", "/status", token) == ""
    assert len(server.events("client_refused")) == 3  # what is above the rate fills no disk


def test_a_client_has_a_rate_of_its_own(server: Server) -> None:
    server.state.rates = Rates(lambda: 0.0, requests=Rate(10, 2))
    busy, quiet = server.token("read", name="busy"), server.token("read", name="quiet")
    assert [code(server, "GET", "/status", busy) for _ in range(3)] == ["", "", "rate"]
    assert code(server, "GET", "/status", quiet) == ""


def test_a_token_may_open_its_folders_alone(server: Server, tmp_path: Path) -> None:
    state, project = server.state, server.state.workspaces[0]
    other = tmp_path / "other"
    other.mkdir()
    (Path(project) / "way-out").symlink_to(other)
    granted = server.ask("GET", "/status", server.token("read", folders=[str(other)], name="elsewhere")).json()
    assert granted["workspaces"] == []
    client = clients.authenticate(state.store, state.key, server.token("operate", name="here"), time.time())
    assert client is not None
    from adderclaw.server.authentication import client_of
    from adderclaw.server.refusal import Refusal

    assert state.folder_for(client_of(client, "http")) == project
    assert state.folder_for(client_of(client, "http"), project) == project
    for wanted in (str(other), f"{project}/way-out", f"{project}/..", "relative", "/", f"{project}/missing", "\0"):
        with pytest.raises(Refusal):
            state.folder_for(client_of(client, "http"), wanted)


def test_a_stream_ends_with_its_token(state: ServerState) -> None:
    async def endless(_: ApiRequest) -> object:
        async def parts() -> object:  # pyright: ignore[reportReturnType]
            while True:
                yield b"x"
                await asyncio.sleep(0.01)

        return StreamingResponse(parts())  # pyright: ignore[reportArgumentType]

    server = Server(state, [Endpoint("GET", "/endless", "read", endless, "Endless.")])
    state.recheck_seconds = 0.02
    token = server.token("read")
    began = asyncio.Event()

    async def followed() -> None:
        sent = 0

        async def send(message: object) -> None:
            nonlocal sent
            sent += 1
            if sent == 3:
                began.set()

        async def receive() -> dict[str, object]:
            await asyncio.Event().wait()
            return {}

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/endless",
            "query_string": b"",
            "headers": [(b"host", HOST.encode()), (b"authorization", f"Bearer {token}".encode())],
        }
        following = asyncio.ensure_future(server.app(scope, receive, send))
        await began.wait()
        clients.revoke(state.store, "tester", state.clock.now())
        await asyncio.wait_for(following, 20)

    asyncio.run(followed())


# ------------------------------------------------------------------ browsers


STRANGE = (
    *("evil.example", "127.0.0.1.evil.example:8423", "evil.example:8423", "", "127.0.0.1@evil.example", "[::1", "a b"),
)


def test_a_name_that_was_rebound_to_this_address_is_refused(server: Server) -> None:
    """With a good token, too; and before anything is looked at."""
    token = server.token()
    for host in STRANGE:
        for path in ("/status", "/health", "/nowhere", "/login"):
            assert code(server, "GET", path, token, headers={"Host": host}) == "host", host
    for host in ("127.0.0.1:8423", "localhost:8423", "LOCALHOST", "[::1]:8423", "localhost:9000"):
        assert code(server, "GET", "/status", token, headers={"Host": host}) == "", host


FOREIGN = (
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:9999"},
    {"Origin": f"https://{HOST}"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
)


def test_a_page_of_another_origin_is_refused(server: Server) -> None:
    token = server.token()
    for headers in FOREIGN:
        assert code(server, "GET", "/status", token, headers=headers) == "origin"
        assert code(server, "POST", "/estop", token, headers=headers) == "origin"
    assert not server.state.stopped


def test_there_is_no_cors(server: Server) -> None:
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for answer in (
        server.ask("OPTIONS", "/estop", headers=asked),
        server.ask("GET", "/status", server.token(), headers={"Origin": ORIGIN}),
    ):
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def _cookie(server: Server, *scopes: str) -> str:
    token = server.token(*scopes, name="browser")
    answer = server.ask("POST", "/login", data={"token": token, "next": "/ui/usage"}, headers={"Origin": ORIGIN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/usage")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert token not in cookie
    return cookie.partition(";")[0]


def test_a_login_is_a_cookie_that_only_our_own_pages_can_use(server: Server) -> None:
    cookie = _cookie(server, "read", "operate")
    assert code(server, "GET", "/status", headers={"Cookie": cookie}) == ""
    assert code(server, "POST", "/estop", headers={"Cookie": cookie}) == "origin"
    for headers in FOREIGN:
        assert code(server, "POST", "/estop", headers={"Cookie": cookie, **headers}) == "origin"
    assert not server.state.stopped
    assert code(server, "DELETE", "/estop", headers={"Cookie": cookie, "Origin": ORIGIN}) == "scope"
    assert code(server, "POST", "/estop", headers={"Cookie": cookie, "Origin": ORIGIN}) == ""
    assert server.state.stopped
    assert server.events("client_request")[-1]["via"] == "dashboard"


def test_logging_out_ends_the_login_and_revoking_the_token_ends_all_of_them(server: Server) -> None:
    first, second = _cookie(server, "read"), None
    gone = server.ask("POST", "/logout", headers={"Cookie": first, "Origin": ORIGIN})
    assert gone.status_code == 303
    assert code(server, "GET", "/status", headers={"Cookie": first}) == "token"
    second = _cookie(server, "read")
    server.state.store.read("SELECT 1")
    clients.revoke(server.state.store, clients.listing(server.state.store)[-1].id, server.state.clock.now())
    assert code(server, "GET", "/status", headers={"Cookie": second}) == "token"


def test_a_login_is_no_token_for_another_login(server: Server) -> None:
    cookie = _cookie(server, "read").partition("=")[2]
    assert server.ask("POST", "/login", data={"token": cookie}, headers={"Origin": ORIGIN}).status_code == 401


def test_a_login_leads_nowhere_else(server: Server) -> None:
    token = server.token("read")
    for there in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x", "/a\nb"):
        data = {"token": token, "next": there}
        assert server.ask("POST", "/login", data=data, headers={"Origin": ORIGIN}).headers["location"] == "/"


def test_under_tls_the_cookie_is_for_this_host_and_tls_alone(server: Server) -> None:
    server.state.secure = True
    origin = ORIGIN.replace("http:", "https:")
    answer = server.ask("POST", "/login", data={"token": server.token("read")}, headers={"Origin": origin})
    assert answer.headers["set-cookie"].startswith("__Host-adderclaw=")
    assert "Secure" in answer.headers["set-cookie"]


def test_every_answer_has_a_strict_policy_for_browsers(server: Server) -> None:
    token = server.token()
    for endpoint in (*app.all_endpoints(), None):
        path = endpoint.path if endpoint is not None else "/nowhere"
        if endpoint is not None and (endpoint.method != "GET" or "{" in path or endpoint.gives is None):
            continue
        for answer in (server.ask("GET", path, token), server.ask("GET", path)):
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"


# ------------------------------------------------------------------ bodies, and what is noted


def test_a_body_that_no_page_could_send_without_asking_is_wanted(server: Server) -> None:
    """A form of another site sends text/plain: JSON in it is not read."""
    token = server.token()
    data = json.dumps({"message": "hello"})
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = server.ask("POST", "/chat", token, content=data, headers={"Content-Type": kind})
        assert answer.status_code in (404, 415)


def test_every_request_that_changes_something_is_an_event_with_its_client(server: Server) -> None:
    token = server.token("operate", name="phone")
    server.ask("POST", "/estop", token)
    server.ask("DELETE", "/estop", token)
    server.ask("GET", "/health")
    let_in, refused = server.events("client_request"), server.events("client_refused")
    assert [(one["client"], one["method"], one["path"]) for one in let_in] == [("phone", "POST", "/estop")]
    assert [(one["client"], one["method"], one["path"], one["code"]) for one in refused] == [
        ("phone", "DELETE", "/estop", "scope")
    ]


def test_a_login_is_an_event_with_its_client_and_a_guess_is_none(server: Server) -> None:
    _cookie(server, "read")
    server.ask("POST", "/login", data={"token": "adk_guess"}, headers={"Origin": ORIGIN})
    assert [(one["client"], one["path"]) for one in server.events("client_request")] == [("browser", "/login")]
    assert [one["code"] for one in server.events("client_refused")] == ["token"]


def test_clients_that_ended_are_forgotten_and_what_they_did_is_not(server: Server) -> None:
    store, now = server.state.store, server.state.clock.now()
    server.ask("POST", "/estop", server.token("operate", name="short", seconds=60))
    _cookie(server, "read")
    clients.revoke(store, "browser", now)
    clients.delete_ended(store, now + 120)
    assert [row.name for row in clients.listing(store, logins=True)] == ["short", "browser"]
    clients.delete_ended(store, now + 60 + clients.FORGET_SECONDS)
    assert clients.listing(store, logins=True) == []
    assert server.events("client_request")[0]["client"] == "short"


def test_when_a_client_was_last_there_is_known(server: Server) -> None:
    token = server.token("read")
    assert clients.listing(server.state.store)[0].used_at is None
    server.ask("GET", "/status", token)
    server.state.store.close()
    store = Store.open(server.state.store.path)
    assert clients.listing(store)[0].used_at is not None
    server.state.store = store
