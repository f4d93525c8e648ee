"""The API's description is true: generated requests get the answers that it promises, and none of them a 500."""

import asyncio
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from adderclaw.agent.run import Options
from adderclaw.server.limits import Rate, Rates
from adderclaw.server.state import ServerState
from tests.acceptance.world import World, call, text
from tests.program import Cli, Soak
from tests.server.conftest import Server

CHECKS = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"),
    *("response_headers_conformance", "negative_data_rejection", "unsupported_method", "ignored_auth"),
)
LEFT_OUT = ("post_estop", "delete_estop", "post_doctor")
"""What would stop the others, and what takes seconds by itself."""


class Listening:
    """The real application on a real port, with a home in which something was done, and limits that nobody meets."""

    def __init__(self, cli: Cli, root: Path) -> None:
        world = World(cli, root)
        self._folder = root
        world.configure("full")
        world.script(call("Write", file_path="a.txt", content="one\n"), text("written"))
        assert world.agent("write").code == 0
        fixture = root / "answers.json"
        fixture.write_text(json.dumps({"steps": [text("ok")], "partial": True}), encoding="utf-8")
        mock = {"kind": "mock", "model": "mock", "fixture": str(fixture)}
        plenty = Rate(1e9, 1e9)
        options = Options(
            workspace=str(world.workspace),
            log_level="error",
            here=True,
            overrides={"providers": {"models": {"local": mock}}},
        )
        self.state = ServerState(options, [str(world.workspace)], openai=True)
        self.state.rates = Rates(self.state.clock.monotonic, requests=plenty, failures=plenty, open_to_all=plenty)
        self.server = Server(self.state)
        self.statuses: Counter[int] = Counter()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),))
        self._thread.start()
        self._ready.wait(60)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        async def seen(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.statuses[message["status"]] += 1
            await send(message)

        await self.server.app(scope, receive, seen)

    async def _serve(self) -> None:
        settings = uvicorn.Config(self._app, port=0, lifespan="off", log_config=None, interface="asgi3")
        self._uvicorn = uvicorn.Server(settings)
        self._uvicorn.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        serving = asyncio.ensure_future(self._uvicorn.serve())
        while not self._uvicorn.started:  # noqa: ASYNC110 - it has no event for this
            await asyncio.sleep(0.01)
        self.url = f"http://127.0.0.1:{self._uvicorn.servers[0].sockets[0].getsockname()[1]}"
        self._ready.set()
        await serving
        await self.state.close()

    def end(self) -> None:
        self._uvicorn.should_exit = True
        self._thread.join(60)
        self.state.store.close()

    def attacked(self, *arguments: str) -> None:
        """Schemathesis finds nothing."""
        given = [
            "-H",
            f"Authorization: Bearer {self.server.token()}",
            "--checks",
            ",".join(CHECKS),
            "--warnings",
            "off",
        ]
        given += ["--no-color", "--no-shrink", "--generation-database", "none", "--max-failures", "40"]
        done = subprocess.run(
            [Path(sys.executable).with_name("schemathesis"), "run", f"{self.url}/openapi.json", *given, *arguments],
            cwd=self._folder,  # where it keeps what it found
            capture_output=True,
            text=True,
            check=False,
            timeout=3_000,
        )
        assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]


@pytest.fixture
def listening(cli: Cli, tmp_path: Path) -> Generator[Listening]:
    made = Listening(cli, tmp_path)
    yield made
    made.end()


@pytest.mark.soak
def test_every_answer_is_one_that_the_description_promises(listening: Listening, soak: Soak) -> None:
    described = listening.server.ask("GET", "/openapi.json").json()["paths"]
    every = [one["operationId"] for path in described.values() for one in path.values()]
    assert len(set(every)) == len(every)
    wanted = [one for one in every if one not in LEFT_OUT]
    if soak.whole:
        listening.attacked("--phases", "examples,coverage,fuzzing,stateful", "-n", "25", *chosen(wanted))
    else:
        share = [wanted[place] for place in soak.of(len(wanted), 8)]
        listening.attacked("--phases", "coverage", *chosen(share))
        listening.attacked("--phases", "fuzzing", "-n", "1", "--seed", str(soak.seed), *chosen(wanted))
    assert listening.statuses[200] > 20
    assert not [status for status in listening.statuses if status >= 500]


def chosen(operations: list[str]) -> list[str]:
    return [word for one in operations for word in ("--include-operation-id", one)]


def test_the_page_has_every_endpoint() -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "generate_api_page.py"
    done = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert done.returncode == 0, "run: .venv/bin/python scripts/generate_api_page.py"
