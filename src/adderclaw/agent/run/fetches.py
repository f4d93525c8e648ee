"""Fetches the packages of MCP servers, once per user, in a sandbox without access to the workspace."""

import asyncio
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from adderclaw.agent.run.sandbox_setup import SessionNetwork
from adderclaw.agent.run.start import Runtime
from adderclaw.config.paths import beneath
from adderclaw.config.servers import Entry, Missing, filled
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError
from adderclaw.core.questions import Answer, ApprovalRequest
from adderclaw.core.redaction import visible
from adderclaw.tools.mcp.fetches import Recipe, fetch_recipe, fetched_package

if TYPE_CHECKING:
    from adderclaw.sandbox.box import Box

type Approve = Callable[[ApprovalRequest], Awaitable[Answer]]

NOBODY = (
    "{package} is not fetched yet. A project or a plugin configures {server}, so its fetch needs approval, and nobody "
    "can be asked. Run `adderclaw mcp test {server}` in this folder to fetch it"
)
NOWHERE = "{package} is not fetched yet, and none of the registries in [security] serves it"
NO_LOGIN = (
    "; its registry requires a login (401), but programs in the sandbox get no tokens from your settings. Use a "
    "registry that requires none, or install the server and configure its program"
)
TOLD = re.compile(r"(?i)(npm_config_|uv_|pip_|yarn_|pnpm_).*|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|REQUESTS_CA_BUNDLE")
"""Variables of a server that its package manager gets; it gets no others, and so none of the server's keys."""
SECONDS = 600.0
SHOWN = 400


class Fetches:
    """The packages of a session's servers."""

    def __init__(self, runtime: Runtime, roots: tuple[str, ...], ways: SessionNetwork) -> None:
        self.runtime, self.roots, self.ways = runtime, roots, ways
        self.approve: Approve | None = None
        """Asks the operator; None until the session exists."""

    def of(self, entry: Entry) -> "Fetch | None":
        if not self.ways.is_sealed or not entry.server.command:
            return None
        try:
            argv = [os.path.expanduser(filled(entry.server.command)), *map(filled, entry.server.args)]
            variables = {name: filled(text) for name, text in entry.server.env.items() if TOLD.fullmatch(name)}
        except Missing:
            return None  # reported when the server is started
        program = fetched_package(argv)
        return None if program is None else Fetch(self, entry, argv, program.program, program.package, variables)


class Fetch:
    def __init__(
        self, fetches: Fetches, entry: Entry, argv: list[str], program: str, package: str, variables: Mapping[str, str]
    ) -> None:
        self.package = package
        self._fetches, self._entry, self._argv, self._program, self._told = fetches, entry, argv, program, variables
        self._opened: tuple[str, ...] = ()
        self._held = -1
        home, roots = fetches.runtime.home, fetches.roots
        # if AdderClaw's folder is in the workspace, commands cannot see it
        self._recipe = None if any(beneath(home, root) for root in roots) else fetch_recipe(argv)
        if self._recipe is None:
            known: Sequence[object] = (roots[0], *argv)
        else:  # a project's fetch must not be shared with the operator's own servers
            apart = () if entry.by_operator else (roots[0], entry.scope)
            known = (*apart, *self._recipe.fetch, *(f"{name}={variables[name]}" for name in sorted(variables)))
        name = hashlib.sha256("\0".join(map(str, known)).encode("utf-8", "replace")).hexdigest()
        self._mark = os.path.join(home, home_names.FETCHED, name)
        self.folder = os.path.join(home, home_names.CACHES, f"server-{name[:24]}")

    @property
    def is_apart(self) -> bool:
        return self._recipe is not None

    @property
    def is_there(self) -> bool:
        return os.path.lexists(self._started_by()) if self.is_apart else os.path.isfile(self._mark)

    def argv(self) -> list[str]:
        from adderclaw.sandbox import caches

        assert self._recipe is not None
        if self._held < 0:
            self._held = caches.lock_cache(self.folder, f"MCP server, for all projects: {visible(self.package)}")
        return [self._started_by(), *self._recipe.arguments]

    def release(self) -> None:
        """The server has ended; its packages may be cleared."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def _started_by(self) -> str:
        with suppress(OSError, UnicodeDecodeError), open(self._mark, encoding="utf-8") as file:
            return file.read(4096)
        return ""

    async def begin(self) -> str:
        ways, named = self._fetches.ways, {"package": self.package, "server": self._entry.given}
        hosts = ways.of_program(self._program)
        if not hosts:
            return NOWHERE.format(**named)
        shut = tuple(host for host in hosts if host not in ways.domains)
        if (shut or self.is_apart) and not self._entry.by_operator:
            if self._fetches.approve is None:
                return NOBODY.format(**named)
            answer = await self._fetches.approve(self._request(hosts if self.is_apart else shut))
            if not answer.approved:
                reason = f" ({answer.comment})" if answer.comment else ""
                return NOBODY.format(**named) if answer.by == "no_operator" else f"its fetch was denied{reason}"
        if self.is_apart:
            self._opened = hosts
            with suppress(OSError):
                os.unlink(self._mark)
        else:
            self._opened = shut
            ways.open(shut)
        return ""

    def _request(self, hosts: tuple[str, ...]) -> ApprovalRequest:
        reason = f"fetches {self.package} and runs it in the sandbox; until it has started, commands reach "
        if self.is_apart:
            reason = f"fetches {self.package}, apart from the workspace, and runs it in the sandbox; it comes from "
        return ApprovalRequest(
            tool=f"MCP server {self._entry.name}",
            risk="medium",
            reason=reason + ", ".join(hosts),
            shown=" ".join(self._argv),
            tool_use_id="",
        )

    async def bring(self) -> str:
        assert self._recipe is not None
        os.makedirs(os.path.dirname(self._mark), mode=0o700, exist_ok=True)
        lock = os.open(f"{self._mark}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            while not _locked(lock):  # noqa: ASYNC110 - another process has it
                await asyncio.sleep(0.1)
            return "" if self.is_there else await self._bring(self._recipe)
        finally:
            os.close(lock)

    async def _bring(self, how: Recipe) -> str:
        from adderclaw.sandbox import process

        refusals: list[str] = []
        box = self._box(refusals)
        env = process.environment(self._told, workspace_roots=self._fetches.roots)
        try:
            done = await process.run(how.fetch, cwd="/tmp", env=env, timeout=SECONDS, start=box.start)
        except OSError as error:
            return f"{how.fetch[0]!r} cannot be started: {error}"
        finally:
            box.close()
        program = _program(done.stdout)
        if done.returncode or not program:
            return self._failure(done.stderr.decode("utf-8", "replace"), refusals)
        temporary = f"{self._mark}.{os.getpid()}"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(program)
        os.replace(temporary, self._mark)
        return ""

    def _failure(self, printed: str, refusals: Sequence[str]) -> str:
        last = visible(" ".join(printed.split())[-SHOWN:], keep_newlines=False)
        refused = f" ({refusals[0]})" if refusals else ""
        login = NO_LOGIN if re.search(r"\bE401\b|\b401\b", printed) else ""
        return f"{self.package} could not be fetched{refused}: {last or 'nothing was printed'}{login}"

    def _box(self, refusals: list[str]) -> "Box":
        """A sandbox that can write only the package's cache and reach only its registries."""
        from adderclaw import policy as gate
        from adderclaw.models.http.addresses import is_named
        from adderclaw.policy import hosts
        from adderclaw.sandbox import confinement
        from adderclaw.sandbox.bubblewrap import SandboxSpec
        from adderclaw.sandbox.proxy import Proxy

        runtime, around = self._fetches.runtime, self._fetches.runtime.surroundings
        allowed = (*self._opened, *runtime.config.security.allowed_domains)
        policy = self._fetches.ways.policy

        def judge(host: str, port: int, addresses: list[str] | None) -> str | None:
            return gate.denied_host_reason(policy, host, port) or hosts.tunnel_refusal(host, port, addresses, allowed)

        def tell(host: str, why: str) -> None:
            refusals.append(f"access to {host} was denied: {why}")

        proxy = Proxy(judge, tell=tell, named=lambda host, port: is_named(host, port, allowed))
        room = SandboxSpec(
            unsearched=self._fetches.roots,
            hidden=tuple(self._fetches.roots),
            own=runtime.home,
            shown=around.shown,
            variables=around.variables,
            cache=self.folder,
            cache_at=self.folder,
        )
        return confinement.create_box("bubblewrap", room, proxy=proxy, tell=refusals.append)

    def end(self, *, came: bool) -> None:
        self._fetches.ways.shut(self._opened)
        self._opened = ()
        with suppress(OSError):
            if not came:
                os.unlink(self._mark)
                return
            os.makedirs(os.path.dirname(self._mark), mode=0o700, exist_ok=True)
            with open(self._mark, "w", encoding="utf-8", errors="replace") as file:
                file.write("\n".join(self._argv))


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _program(printed: bytes) -> str:
    """The path of the program that the fetch printed. It is only ever started in the sandbox."""
    for line in reversed(printed.decode("utf-8", "replace").splitlines()):
        with suppress(ValueError):
            arguments: Any = json.loads(line)
            program = cast(dict[str, Any], arguments).get("program") if isinstance(arguments, dict) else None
            if isinstance(program, str) and os.path.isabs(program) and program.isprintable() and len(program) < 4000:
                return program
    return ""


def asking(approve: Approve) -> Approve:
    """Wrap `approve` so that an operator who cannot be asked counts as absent."""

    async def ask(request: ApprovalRequest) -> Answer:
        try:
            return await approve(request)
        except AdderClawError as error:
            return Answer(approved=False, by="no_operator", comment=str(error))

    return ask
