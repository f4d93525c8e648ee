"""Every request passes the same steps, and every error has one form."""

from collections.abc import Callable
from typing import Any

from adderclaw.core.record import record
from adderclaw.server import app
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.state import ServerState
from tests.server.conftest import Process, Server


@record
class Given:
    count: int
    flag: bool = False
    words: list[str] | None = None


async def _same(request: ApiRequest) -> object:
    return {"count": request.body.count, "flag": request.body.flag, "words": request.body.words or []}


async def _broken(_: ApiRequest) -> object:
    raise KeyError("a secret detail")


ECHO = (
    Endpoint("POST", "/echo", "read", _same, "Echo.", takes=Given, gives=dict[str, Any]),
    Endpoint("GET", "/echo", "read", _same, "Echo.", takes=Given, gives=dict[str, Any]),
    Endpoint("GET", "/broken", "read", _broken, "Fails.", gives=dict[str, Any]),
)


def test_a_request_is_decoded_with_every_problem_at_once(state: ServerState) -> None:
    server = Server(state, ECHO)
    token = server.token("read")
    assert server.ask("POST", "/echo", token, json={"count": 2, "words": ["a"]}).json() == {
        "count": 2,
        "flag": False,
        "words": ["a"],
    }
    assert server.ask("GET", "/echo?count=3&flag=true&words=a&words=b", token).json() == {
        "count": 3,
        "flag": True,
        "words": ["a", "b"],
    }
    for answer in (
        server.ask("POST", "/echo", token, json={"count": "x", "flag": 3, "other": 1}),
        server.ask("GET", "/echo?count=x&flag=3&other=1", token),
    ):
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "invalid")
        assert {one["key"] for one in error["problems"]} == {"count", "flag", "other"}


def test_what_fails_inside_is_an_answer_without_a_trace(state: ServerState) -> None:
    server = Server(state, ECHO)
    answer = server.ask("GET", "/broken", server.token("read"))
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal"
    assert "secret detail" not in answer.text
    assert "KeyError" in server.events("warning")[0]["message"]


def test_errors_have_one_form(server: Server) -> None:
    token = server.token("read")
    for answer, status, code in (
        (server.ask("GET", "/nowhere", token), 404, "not_found"),
        (server.ask("DELETE", "/status", token), 405, "method"),
        (server.ask("GET", "/status"), 401, "token"),
        (server.ask("POST", "/estop", token), 403, "scope"),
        (server.ask("GET", "/status?x=1", token), 400, "invalid"),
    ):
        assert answer.status_code == status
        assert answer.json()["error"]["code"] == code
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_the_description_names_every_endpoint(server: Server) -> None:
    found = server.ask("GET", "/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    described = {(path, method.upper()) for path, methods in found["paths"].items() for method in methods}
    assert described == {(one.path, one.method) for one in app.all_endpoints() if not one.is_page} | {
        ("/openapi.json", "GET")
    }


def test_the_program_serves(serve: Callable[..., Process]) -> None:
    process = serve()
    with process.client(process.token()) as client:
        assert client.get("/health").json()["status"] == "ok"
        assert client.get("/status").json()["client"] == "tester"
        with client.stream("GET", "/ui/overview/events") as page:  # a page that is open keeps no server from its end
            parts = page.iter_raw()
            assert next(parts)
            assert process.end() == 0


def test_a_server_that_ends_is_alive_and_not_ready(server: Server) -> None:
    """Nothing new begins then; the stop works to the last."""
    token = server.token()
    assert server.ask("GET", "/ready").json() == {"ready": True}
    server.state.ready = False
    assert server.ask("GET", "/health").status_code == 200
    assert server.ask("GET", "/ready").status_code == 503
    refused = server.ask("POST", "/chat", token, json={"message": "hello"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "ending")
    assert server.ask("POST", "/estop", token).json() == {"stopped": True}
