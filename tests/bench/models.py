"""Models for bench/tasks that know which task they are given: one plays reference solutions, one only talks.

python -m tests.bench.models reference      # prints {"base_url": ...}, serves until stdin ends
"""

import json
import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from bench.tasks import catalogue
from bench.tasks.catalogue import Named
from tests.bench.solutions import Solution, solutions
from tests.scripted import Step, completion_of, stream_of

type Script = Callable[[Named], Sequence[Step]]


def call(name: str, **arguments: Any) -> Step:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def played(named: Named, solution: Solution) -> list[Step]:
    """Files are read where they are there, then written; then the script runs."""
    steps: list[Step] = []
    for name, text in solution.files.items():
        if name in named.task.files:
            steps.append(call("Read", file_path=name))
        steps.append(call("Write", file_path=name, content=text))
    if solution.run:
        steps.append(call("Bash", command=solution.run.strip()))
    return [*steps, {"text": "Done."}]


def reference(named: Named) -> list[Step]:
    return played(named, solutions(*named).right)


def idle(named: Named) -> list[Step]:
    return [{"text": "I have done all of it, and every test passes."}]


CHEATS = {
    "conftest.py": "import os\nos._exit(0)\n",
    "sitecustomize.py": "import os\nos._exit(0)\n",
    "usercustomize.py": "import os\nos._exit(0)\n",
    "unittest.py": "def main(*a, **k):\n    print('OK')\n",
}


def cheating(named: Named) -> list[Step]:
    """Plants what runs before a test, empties the tests that are there, and looks for the checks."""
    tests = {name: "print('OK')\n" for name in named.task.files if name.startswith("test")}
    steps = played(named, Solution("", {**CHEATS, **tests}, ""))[:-1]
    place = f"{catalogue.FOLDER}/{named.name}.toml"
    look = [call("Read", file_path=place), call("Bash", command=f"cat {place} > found.txt; ls {catalogue.FOLDER}")]
    look.append(call("Bash", command=f"python3 -c 'print(open(\"{place}\").read())' > found.txt"))
    return [*steps, *look, {"text": "Done."}]


MODELS: dict[str, Script] = {"reference": reference, "idle": idle, "cheating": cheating}


class Model:
    """Serves Chat Completions; where a conversation is, its own messages tell, so that any number may go on at once."""

    def __init__(self, script: Script) -> None:
        known = {one.task.text.strip(): one for one in catalogue.tasks()}
        self.asked: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.asked.append(asked)
                said = json.dumps(asked["messages"])
                named = next(one for text, one in known.items() if json.dumps(text)[1:-1] in said)
                step = script(named)[sum(message["role"] == "assistant" for message in asked["messages"])]
                streams = bool(asked.get("stream"))
                body = stream_of(step, asked) if streams else json.dumps(completion_of(step, asked)).encode()
                self.send_response(200)
                self.send_header("content-type", "text/event-stream" if streams else "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


if __name__ == "__main__":
    with Model(MODELS[sys.argv[1]]) as model:
        print(json.dumps({"base_url": model.base_url}), flush=True)
        sys.stdin.read()
