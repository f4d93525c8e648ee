"""An MCP server on 127.0.0.1 that wants a login at an authorization server elsewhere (tests/oauth_server.py)."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.oauth_server import OAuthServer

type Json = dict[str, Any]
ADD: Json = {
    "name": "whoami",
    "description": "Says how often it was asked.",
    "inputSchema": {"type": "object", "properties": {}},
}


class Guarded:
    """`with Guarded(oauth) as server: server.url`; only who brings a token that is good is heard."""

    def __init__(self, oauth: OAuthServer) -> None:
        self.oauth = oauth
        self.calls = self.refused = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.get(self)

            def do_POST(self) -> None:
                server.post(self)

            def do_DELETE(self) -> None:
                answer(self, 200)

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self._http.server_address[1]}"
        self.url = f"{self.origin}/mcp"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()

    def get(self, http: BaseHTTPRequestHandler) -> None:
        if http.path.startswith("/.well-known/oauth-protected-resource"):
            answer(http, 200, {"resource": self.url, "authorization_servers": [self.oauth.url]})
        else:
            answer(http, 405)

    def post(self, http: BaseHTTPRequestHandler) -> None:
        body: Json = json.loads(http.rfile.read(int(http.headers["content-length"])) or b"{}")
        if http.path != "/mcp":
            answer(http, 404)
        elif http.headers.get("authorization", "").removeprefix("Bearer ") not in self.oauth.access:
            self.refused += 1
            place = f"{self.origin}/.well-known/oauth-protected-resource/mcp"
            answer(http, 401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{place}"'})
        elif "id" not in body:
            answer(http, 202)
        else:
            answer(http, 200, {"jsonrpc": "2.0", "id": body["id"], "result": self._result(body)})

    def _result(self, body: Json) -> Json:
        match body["method"]:
            case "initialize":
                version = body["params"]["protocolVersion"]
                about = {"name": "guarded", "version": "1"}
                return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
            case "tools/list":
                return {"tools": [ADD]}
            case "tools/call":
                self.calls += 1
                return {"content": [{"type": "text", "text": f"asked {self.calls} times"}]}
            case _:
                return {}


def answer(
    http: BaseHTTPRequestHandler, status: int, body: Json | None = None, headers: dict[str, str] | None = None
) -> None:
    data = json.dumps(body).encode() if body is not None else b""
    http.send_response(status)
    kind = {"Content-Type": "application/json"} if data else {}
    for name, value in {**kind, **(headers or {}), "Content-Length": str(len(data))}.items():
        http.send_header(name, value)
    http.end_headers()
    http.wfile.write(data)
