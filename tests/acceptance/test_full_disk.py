"""An answer that was paid for is printed, also where the disk is full when it comes."""

import json
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.acceptance.world import World

MOUNTED = """
set -e
cp -a "$HOME/.adderclaw" "$1/before"
mount -t tmpfs -o size=4m tmpfs "$HOME/.adderclaw"
cp -a "$1/before/." "$HOME/.adderclaw"
(until [ -e "$1/asked" ]; do sleep 0.02; done
 dd if=/dev/zero of="$HOME/.adderclaw/filler" bs=512 2> /dev/null || touch "$1/full") &
signs=$1
shift
"$@" && code=0 || code=$?
touch "$signs/asked"
wait
exit $code
"""
"""A home of 4 MB of its own, filled to the last byte between the question and the answer."""
ANSWER = " ".join(f"word{number}" for number in range(2000))


@pytest.fixture
def signs(tmp_path: Path) -> Path:
    command = ["unshare", "-Urm", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    (tmp_path / "signs").mkdir()
    return tmp_path / "signs"


@contextmanager
def model(signs: Path) -> Generator[str]:
    """A model that answers once the disk is full."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            (signs / "asked").touch()
            limit = time.monotonic() + 60
            while not (signs / "full").exists() and time.monotonic() < limit:
                time.sleep(0.01)
            choice = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
            body = json.dumps({"id": "1", "object": "chat.completion", "model": "m", "choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("command", [["agent", "-m"], ["-p"], ["-p", "--output-format", "json"]])
def test_an_answer_is_printed_when_the_disk_is_full_at_the_last_write(
    world: World, signs: Path, command: list[str]
) -> None:
    with model(signs) as url:
        entry = f'kind = "openai-compatible"\nbase_url = "{url}"\nmodel = "m"\nstream = false\napi_key_env = "KEY"\n'
        world.configure(more=f"[providers.models.real]\n{entry}")
        world.cli.env["KEY"] = "none"
        assert world.cli("init").code == 0
        world.cli.before = ("unshare", "-Urm", "sh", "-c", MOUNTED, "sh", str(signs))
        done = world.cli(*command, "hello", "--model", "real")
    assert ANSWER in done.out, done.err
    assert done.code == 1
    assert "the disk is full: free some space" in done.out + done.err
    assert "Traceback" not in done.err
