"""The pages of receipts: the state of their chain, its head, and every receipt with its neighbours."""

from typing import Any

from adderclaw.agent.queries import ledger
from adderclaw.agent.queries.ledger import ChainState, ReceiptRow, Receipts
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.server.client_scope import visible_folders
from adderclaw.server.endpoint import ApiRequest
from adderclaw.server.pages.page import Entry, in_thread, page, query_number, query_text
from adderclaw.server.refusal import Refusal, not_found

PAGE = 50
STATUSES = ("allowed", "denied", "failed")
RISKS = ("low", "medium", "high")
TEXTS = ("tool", "answered_by", "session", "run")


class Listing(NamedTuple):
    shown: Receipts
    asked: dict[str, Any]
    """The filters that are set."""
    before: int | None
    whole_log: bool
    """Whether the client may see the chain: it covers all folders, so a token with folders may not."""
    head: str
    broken: str
    """Why the end of the log differs from the database."""
    chain: ChainState | None
    """The verified chain, if a person asked for it."""

    @property
    def older(self) -> dict[str, Any]:
        """The query of the next page."""
        return {**self.asked, "before": self.shown["next_before"]}


class Output(NamedTuple):
    receipt: ReceiptRow
    near: list[ReceiptRow]
    """The receipt and two before and after it, newest first."""


async def _list(request: ApiRequest) -> Listing:
    asked: dict[str, Any] = {name: query_text(request, name) for name in TEXTS}
    asked |= {"status": query_text(request, "status", STATUSES), "risk": query_text(request, "risk", RISKS)}
    asked = {name: value for name, value in asked.items() if value}
    before, options, whole_log = query_number(request, "before"), request.state.options, not request.client.folders

    def read() -> Listing:
        head, broken = "", ""
        try:
            head = ledger.head(options) if whole_log else ""
        except AdderClawError as error:
            broken = str(error)
        chain = ledger.state(options) if whole_log and query_text(request, "verify") == "1" else None
        shown = ledger.receipts(options, limit=PAGE, before=before, places=visible_folders(request), **asked)
        return Listing(shown, asked, before, whole_log, head, broken, chain)

    return await in_thread(read)


async def _read(request: ApiRequest) -> Output:
    name = request.path["seq"]
    if not (name.isascii() and name.isdigit() and len(name) < 16):
        raise Refusal(404, "not_found", "The address of a receipt must contain its number.")
    at, options = int(name), request.state.options
    shown = await in_thread(lambda: ledger.receipts(options, limit=5, before=at + 3, places=visible_folders(request)))
    near = [row for row in shown["receipts"] if abs(row["seq"] - at) < 3]
    receipt = next((row for row in near if row["seq"] == at), None)
    if receipt is None:
        raise not_found("receipt", name)
    return Output(receipt, near)


ENTRY = Entry(31, "/ui/ledger", "Ledger", "l")
ENDPOINTS = (
    page(ENTRY.path, _list, "ledger.html", "The receipts."),
    page(f"{ENTRY.path}/{{seq}}", _read, "receipt.html", "One receipt.", reach="receipt"),
)
