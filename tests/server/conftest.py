"""A server as tests reach it: in this process with a real store, or the installed program on a real port."""

import asyncio
import json
import re
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx2
import pytest

from adderclaw.agent.run import Options
from adderclaw.server import app
from adderclaw.server.endpoint import SCOPES, Endpoint
from adderclaw.server.limits import Rate, Rates
from adderclaw.server.state import ServerState
from adderclaw.storage import clients
from tests.program import Cli

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.server.browser import Site, Tab

FAILED = pytest.StashKey[bool]()
ORIGIN = "http://127.0.0.1:8423"


class Server:
    """One server in this process: its state, tokens for it, and clients that call it without a socket."""

    def __init__(self, state: ServerState, endpoints: Sequence[Endpoint] | None = None) -> None:
        self.state = state
        self.app: Any = app.make_app(state, endpoints)

    def token(
        self, *scopes: str, name: str = "tester", folders: Sequence[str] = (), seconds: float | None = 3_600
    ) -> str:
        """A token; without scopes it has all of them."""
        state, now = self.state, self.state.clock.now()
        return clients.create(
            state.store, state.key, name=name, scopes=scopes or SCOPES, folders=folders, now=now, seconds=seconds
        ).token

    def client(self, token: str | None = None, **headers: str) -> httpx2.AsyncClient:
        """A client of the app; `token` goes into its header."""
        given = {**({"Authorization": f"Bearer {token}"} if token is not None else {}), **headers}
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=True)
        return httpx2.AsyncClient(transport=transport, base_url=ORIGIN, headers=given)

    def ask(self, method: str, path: str, token: str | None = None, **more: Any) -> httpx2.Response:
        """One request in a loop of its own, for what needs no more than that."""

        async def asked() -> httpx2.Response:
            async with self.client(token) as client:
                return await client.request(method, path, **more)

        return asyncio.run(asked())

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """The events of these types, as the store has them."""
        with self.state.store.write():
            pass
        rows = self.state.store.read("SELECT event_type, detail FROM events ORDER BY id")
        return [json.loads(row[1]) for row in rows if row[0] in kinds]


@pytest.fixture
def workspace(home: Path, tmp_path: Path) -> Path:
    """A project of the operator's, and a home in which a scripted model answers (see `script`)."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("A project.\n", encoding="utf-8")
    return folder


@pytest.fixture
def state(workspace: Path) -> Generator[ServerState]:
    """What a server holds, with limits that no test meets by accident."""
    plenty = Rate(1e6, 1e6)
    made = ServerState(Options(workspace=str(workspace), log_level="error"), [str(workspace)])
    made.rates = Rates(made.clock.monotonic, requests=plenty, failures=plenty, open_to_all=plenty)
    yield made
    made.store.close()


@pytest.fixture
def server(state: ServerState) -> Server:
    """The real application with all its endpoints, in this process."""
    return Server(state)


class Process:
    """The installed program, serving."""

    def __init__(self, cli: Cli, *arguments: str) -> None:
        self.cli = cli
        self.process = cli.start("serve", "--port", "0", *arguments)
        assert self.process.stderr is not None
        self.lines: list[str] = []
        self.url = ""
        while line := self.process.stderr.readline().decode("utf-8", "replace"):
            self.lines.append(line)
            if found := re.search(r"https?://\S+", line):
                self.url = found[0]
                return
        raise AssertionError(f"the server did not start: {self.process.wait()} {''.join(self.lines)}")

    def token(self, *arguments: str, name: str = "tester") -> str:
        """A token made by the command line; without arguments it has the scope admin."""
        done = self.cli("token", "create", name, *(arguments or ("--scope", "admin")), "--output-format", "json")
        assert done.code == 0, done.err
        return str(json.loads(done.out)["token"])

    def client(self, token: str | None = None, **more: Any) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        return httpx2.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30, **more)

    def end(self, timeout: float = 30) -> int:
        """SIGTERM, and its exit code."""
        self.process.terminate()
        return self.process.wait(timeout)


@pytest.fixture
def serve(cli: Cli, workspace: Path) -> Generator[Callable[..., Process]]:
    """`serve("--workspace", …)` starts the installed program; whatever happens, it ends with the test."""
    started: list[Process] = []

    def start(*arguments: str) -> Process:
        given = arguments if "--workspace" in arguments else ("--workspace", str(workspace), *arguments)
        made = Process(cli, *given)
        started.append(made)
        return made

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait(30)
        for stream in (one.process.stdin, one.process.stdout, one.process.stderr):
            if stream is not None:
                stream.close()


# ------------------------------------------------------------------ in a browser


@pytest.fixture(scope="module")
def chromium() -> "Generator[Browser]":
    """One real Chromium for the module."""
    from tests.server import browser

    with browser.chromium() as found:
        yield found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> "Generator[list[Site]]":
    """The server of this module, once a test has asked for it."""
    made: list[Site] = []
    yield made
    for one in made:
        one.end()


@pytest.fixture
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sites: "list[Site]"
) -> "Generator[Site]":
    """One real server for the tests of a module; its `SEED(home, workspace)`, if there is one, fills the store before.

    After a test that failed the next one gets another: what was left undone is no one else's failure.
    """
    from tests.server import browser

    if not sites:
        sites.append(browser.Site(tmp_path_factory.mktemp("site"), getattr(cast(Any, request).module, "SEED", None)))
    yield sites[0]
    node = cast(pytest.Item, cast(Any, request).node)
    if node.stash.get(FAILED, False):
        sites.pop().end()
        return
    sites[0].check()


@pytest.fixture
def tab(chromium: "Browser", site: "Site") -> "Generator[Tab]":
    """A browser that is logged in; the test fails on a dialog, an error in the console, a request to elsewhere."""
    from tests.server import browser

    made = browser.Tab(chromium, site)
    made.login()
    yield made
    made.context.close()
    made.check()
