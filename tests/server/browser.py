"""A real server and a real Chromium for a test module: pages that fail on a dialog, a foreign request or an error."""

import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    Request,
    ViewportSize,
    sync_playwright,
)

from tests.program import Cli
from tests.scripted import ScriptedModel
from tests.server.conftest import Process

WIDE: ViewportSize = {"width": 1280, "height": 860}
PHONE: ViewportSize = {"width": 390, "height": 844}


@contextmanager
def chromium() -> Generator[Browser]:
    """Debian's; a machine without it skips, or fails in CI."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed on this machine")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Site:
    """One server with a scripted model behind it, in a home of its own."""

    def __init__(self, folder: Path, seed: Callable[[Path, Path], object] | None = None) -> None:
        """`seed(home, workspace)` is called before the server starts: `home` is its `.adderclaw`."""
        (folder / "home").mkdir(mode=0o700)
        self.workspace = folder / "project"
        self.workspace.mkdir()
        (self.workspace / "AGENTS.md").write_text("A project.\n", encoding="utf-8")
        self.cli = Cli(folder / "home", self.workspace)
        self.model = ScriptedModel()
        self.model.__enter__()
        self.cli.configure(
            'default_provider = "scripted"\ndefault_model = "scripted-1"\n'
            '[providers.models.scripted]\nkind = "openai-compatible"\nmodel = "scripted-1"\n'
            f'base_url = "{self.model.base_url}"\n'
        )
        self.seeded: Any = seed(self.cli.data, self.workspace) if seed is not None else None
        self.start()
        self.token = self.process.token()

    def start(self, port: int = 0) -> None:
        more = ("--port", str(port)) if port else ()
        self.process = Process(self.cli, "--workspace", str(self.workspace), *more)
        self.url = self.process.url.rstrip("/")

    def check(self) -> None:
        """A test leaves nothing behind that another one would meet."""
        assert self.model.left == 0, f"{self.model.left} answers of the model were not asked for"
        assert not (self.cli.data / "ESTOP").exists(), "the stop was not released"

    def end(self) -> None:
        if self.process.process.poll() is None:
            self.process.end()
        self.model.stop()


class Tab:
    """A browser of its own that looks at the server; what must not happen in it is counted."""

    def __init__(self, browser: Browser, site: Site, **options: Any) -> None:
        self.site = site
        given: dict[str, Any] = {"viewport": WIDE, **options}
        self.context: BrowserContext = browser.new_context(**given)
        self.page: Page = self.context.new_page()
        self.wrong: list[str] = []
        self.allowed: tuple[str, ...] = ()
        """Errors of the console that belong to the test: parts of their texts."""
        self.watch(self.page)

    def watch(self, page: Page) -> None:
        page.set_default_timeout(20_000)
        page.on("dialog", self._dialog)
        page.on("console", self._console)
        page.on("pageerror", self._error)
        page.on("request", self._request)

    def login(self, next: str = "/") -> Page:
        self.page.goto(f"{self.site.url}/login?next={next}")
        self.page.get_by_label("Token").fill(self.site.token)
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url(f"{self.site.url}{next}")
        return self.page

    def goto(self, path: str) -> Page:
        self.page.goto(f"{self.site.url}{path}")
        return self.page

    def check(self) -> None:
        assert [one for one in self.wrong if not any(part in one for part in self.allowed)] == []

    def _dialog(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"console: {message.text}")

    def _error(self, error: Error) -> None:
        self.wrong.append(f"page error: {error.message}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.site.url}/", "data:image/", "about:blank")):
            self.wrong.append(f"request to {request.url}")


def screenshots() -> Path | None:
    """Where `make screenshots` wants pictures; None in a test run."""
    wanted = os.environ.get("ADDERCLAW_SCREENSHOTS")
    return Path(wanted) if wanted else None
