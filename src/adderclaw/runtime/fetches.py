"""Fetching the package of an MCP server: the operator is asked once, and the project's own cache keeps it."""

import hashlib
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from adderclaw.errors import AdderClawError
from adderclaw.mcp.fetches import fetched
from adderclaw.questions import Answer, ApprovalRequest
from adderclaw.runtime.sandbox_setup import WaysOut

type Approve = Callable[[ApprovalRequest], Awaitable[Answer]]

NOBODY = "{package} is not fetched yet, and nobody is there to be asked: `adderclaw mcp test {server}` fetches it"
NOWHERE = "{package} is not fetched yet, and [security] registries names none that has it"


class Fetches:
    """The packages of a session's servers, as they are kept for its project."""

    def __init__(self, home: str, root: str, ways: WaysOut) -> None:
        self._folder, self._root, self.ways = os.path.join(home, "fetched"), root, ways
        self.approve: Approve | None = None
        """Who is asked; nobody before the session is made."""

    def of(self, server: str, argv: Sequence[str]) -> "Fetch | None":
        found = fetched(argv)
        if found is None or not self.ways.is_sealed:
            return None
        known = hashlib.sha256("\0".join((self._root, *argv)).encode("utf-8", "replace")).hexdigest()
        return Fetch(self, server, argv, found.program, found.package, os.path.join(self._folder, known))


class Fetch:
    def __init__(
        self, fetches: Fetches, server: str, argv: Sequence[str], program: str, package: str, mark: str
    ) -> None:
        self.package = package
        self._fetches, self._server, self._argv, self._program, self._mark = fetches, server, argv, program, mark
        self._opened: tuple[str, ...] = ()

    @property
    def is_there(self) -> bool:
        return os.path.isfile(self._mark)

    async def begin(self) -> str:
        ways, named = self._fetches.ways, {"package": self.package, "server": self._server}
        hosts = ways.of_program(self._program)
        if not hosts:
            return NOWHERE.format(**named)
        shut = tuple(host for host in hosts if host not in ways.domains)
        if shut:
            if self._fetches.approve is None:
                return NOBODY.format(**named)
            answer = await self._fetches.approve(self._request(shut))
            if not answer.approved:
                said = f" ({answer.comment})" if answer.comment else ""
                return NOBODY.format(**named) if answer.by == "no_operator" else f"its fetch was denied{said}"
        self._opened = shut
        ways.open(shut)
        return ""

    def _request(self, hosts: tuple[str, ...]) -> ApprovalRequest:
        reason = f"fetches {self.package} and runs it in the sandbox; until it has started, commands reach "
        return ApprovalRequest(
            tool=f"MCP server {self._server}",
            risk="medium",
            reason=reason + ", ".join(hosts),
            shown=" ".join(self._argv),
            tool_use_id="",
        )

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


def asking(approve: Approve) -> Approve:
    """An operator who cannot be asked is nobody."""

    async def ask(request: ApprovalRequest) -> Answer:
        try:
            return await approve(request)
        except AdderClawError as error:
            return Answer(approved=False, by="no_operator", comment=str(error))

    return ask
