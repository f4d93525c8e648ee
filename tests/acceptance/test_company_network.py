"""Behind a company's proxy, which asks for a login and reads what is encrypted by an authority of its own."""

import shlex
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.acceptance.world import World, call
from tests.company import LOGIN, company
from tests.scripted import ScriptedModel
from tests.storage.telemetry.receivers import certificate

ASK = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).read().decode())"


@contextmanager
def page() -> Generator[int]:
    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.wfile.write(b"from within the company")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def test_commands_web_tools_and_the_model_go_through_it_and_none_sees_the_login(
    world: World, needs: Callable[[str], str], tmp_path: Path
) -> None:
    needs("bwrap")
    made = certificate(tmp_path, "wiki.invalid", "model.invalid")
    python = f"python3 -c {shlex.quote(ASK)}"
    steps = [
        call("Bash", command=f"{python} https://wiki.invalid/"),
        call("Bash", command=f"{python} https://other.invalid/ 2>&1 | tail -1"),
        call("Bash", command=f"{python} https://x.parts.invalid/ 2>&1 | tail -1"),
        call("Bash", command="env"),
        call("WebFetch", url="https://wiki.invalid/", prompt="What is it?"),
        {"text": "read: {{last_user}}"},
        {"text": "done"},
    ]
    with (
        page() as port,
        ScriptedModel(steps) as model,
        company(made.server(), {"wiki.invalid": port, "model.invalid": int(model.base_url.split(":")[2][:-3])}) as gate,
    ):
        entry = (
            '[providers.models.far]\nkind = "openai-compatible"\nmodel = "m"\nbase_url = "https://model.invalid/v1"\n'
        )
        listed = 'allowed_domains = ["wiki.invalid", "*.parts.invalid"]'
        world.configure("full", security=listed, more=entry)
        world.cli.env |= {"HTTPS_PROXY": gate.url, "NODE_EXTRA_CA_CERTS": str(made.file), "NO_PROXY": "near.invalid"}
        done = world.agent("go", "--provider", "far")
    assert done.code == 0, done.err
    found = [entry["content"] for entry in world.entries("tool_result")]
    assert "from within the company" in found[0], found[0]
    assert "neither in security.allowed_domains" in found[1], "the reason stands where programs show it"
    assert "has no address on this machine" in found[2], "by a pattern, nobody can tell where the proxy goes"
    assert "from within the company" in found[4], found[4]
    assert {"wiki.invalid:443", "model.invalid:443"} == set(gate.asked)
    assert "NODE_EXTRA_CA_CERTS=" in found[3]
    everything = done.out + done.err + "".join(found) + world.log.read_text(encoding="utf-8")
    everything += "".join(str(row) for row in world.rows("SELECT payload_json FROM transcript_entries"))
    assert LOGIN[1] not in everything


def test_a_wrong_login_is_said_without_it(world: World, tmp_path: Path) -> None:
    made = certificate(tmp_path, "model.invalid")
    entry = '[providers.models.far]\nkind = "openai-compatible"\nmodel = "m"\nbase_url = "https://model.invalid/v1"\n'
    world.configure(more=entry)
    with company(made.server(), {}) as gate:
        world.cli.env["https_proxy"] = gate.url.replace(LOGIN[1], "Wrong-Words-77")
        done = world.agent("hi", "--provider", "far")
    assert done.code != 0
    assert "answered 407" in done.err
    assert "HTTPS_PROXY" in done.err
    assert "Wrong-Words-77" not in done.err
