"""The page of the receipts: whether the chain holds, its head, and every receipt with its neighbours."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from adderclaw.agent.queries import ledger
from adderclaw.agent.queries.ledger import ChainState, ReceiptRow, Receipts
from adderclaw.agent.view.html import Child, Html, el
from adderclaw.core.errors import AdderClawError
from adderclaw.server.client_scope import places
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages.asked import failed, filters, found, missing, number, one_of, select, word
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.parts import Tone, badge, empty, facts, field, iso_seconds, link, moment, part, table

if TYPE_CHECKING:
    from starlette.responses import HTMLResponse

HERE = "/ui/ledger"
PAGE = 50
STATUSES = ("allowed", "denied", "failed")
RISKS = ("low", "medium", "high")
TONES: dict[str, Tone] = {"allowed": "good", "denied": "bad", "failed": "warn", "high": "bad", "medium": "warn"}
TEXTS = ("tool", "session", "run", "answered_by")


async def _answer(called: Called) -> "HTMLResponse":
    asked: dict[str, Any] = {name: word(called, name) or None for name in TEXTS}
    asked["status"] = one_of(called, "status", STATUSES) or None
    asked["risk"] = one_of(called, "risk", RISKS) or None
    before, options = number(called, "before"), called.house.options
    whole_log = not called.client.folders  # the chain is of all folders
    verifies = whole_log and word(called, "verify") == "1"

    def look() -> tuple[Receipts, str, ChainState | None]:
        whole = ledger.state(options) if verifies else None
        shown = ledger.receipts(options, limit=PAGE, before=before, places=places(called), **asked)
        return shown, _head(called) if whole_log else "", whole

    try:
        shown, head, whole = await found(look)
    except AdderClawError as error:
        return failed(called, "Ledger", error, "/")
    lead = "One receipt for every tool call, each sealed with all before it."
    content = (_chain(head, whole) if whole_log else None, _filters(asked), _region(shown, asked, before))
    return layout(called, "Ledger", *content, here=HERE, lead=lead, wide=True)


def _head(called: Called) -> str:
    try:
        return ledger.head(called.house.options)
    except AdderClawError as error:
        return f"!{error}"


# ------------------------------------------------------------------ the chain


def _chain(head: str, whole: ChainState | None) -> Html:
    if head.startswith("!"):
        told: Child = (badge("bad", "broken"), el("p", head[1:], class_="grow"))
    elif whole is not None:
        told = _verified(whole)
    else:
        count, _, hash_ = head.partition(":")
        words = (
            "The end of the log and the database agree." if count != "0" else "There is no receipt yet.",
            el("span", "Head: ", el("code", f"{count}:{hash_}", class_="hash"), class_="block-line small quiet")
            if count != "0"
            else None,
        )
        told = (
            badge("good" if count != "0" else "", "the end holds" if count != "0" else "empty"),
            el("p", words, class_="grow"),
        )
    ask = el(
        "form",
        el("input", type="hidden", name="verify", value="1"),
        el("button", "Verify all", type="submit"),
        el("p", class_="error", role="alert", data_error=True),
        method="get",
        action=HERE,
        data_fill="chain",
    )
    return el("section", told, ask, class_="card part chain", id="chain", aria_label="The chain")


def _verified(whole: ChainState) -> Child:
    holds = whole["valid"] and whole["complete"]
    if not whole["valid"]:
        words = f"Receipt {whole['first_broken']} is the first that is not as it was written: {whole['reason']}"
    elif not whole["complete"]:
        words = (
            f"All {whole['receipts']:,} receipts are true, but not every call has one: {_counts(whole['completeness'])}"
        )
    else:
        words = f"All {whole['receipts']:,} receipts are true, and every call has one."
    notes = [el("span", note, class_="quiet small block-line") for note in whole["notes"]]
    tail = el("span", "Head: ", el("code", whole["head"], class_="hash"), class_="block-line small quiet")
    return badge("good" if holds else "bad", "verified" if holds else "does not hold"), el(
        "p", words, notes, tail, class_="grow"
    )


def _counts(figures: dict[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')}: {value}" for name, value in figures.items() if value not in (0, [], None)
    )


# ------------------------------------------------------------------ the list


def _filters(asked: dict[str, Any]) -> Html:
    def text(name: str, label: str, note: str = "") -> Html:
        box = el(
            "input",
            type="search",
            id=f"f-{name}",
            name=name,
            value=asked[name] or "",
            autocomplete="off",
            maxlength=200,
        )
        return field(label, box, id=f"f-{name}", note=note)

    verdicts = [("", "any"), *((one, one) for one in STATUSES)]
    risks = [("", "any"), *((one, one) for one in RISKS)]
    return filters(
        HERE,
        "receipts",
        text("tool", "Tool"),
        field("Verdict", select("f-status", "status", asked["status"] or "", verdicts), id="f-status"),
        field("Risk", select("f-risk", "risk", asked["risk"] or "", risks), id="f-risk"),
        text("answered_by", "Answered by"),
        text("session", "Session"),
        text("run", "Run"),
    )


def _region(shown: Receipts, asked: dict[str, Any], before: int | None) -> Html:
    given = {name: value for name, value in asked.items() if value}
    inner = _table(shown, given, before) if shown["receipts"] else _none(given, before)
    return el("div", inner, id="receipts", data_region=True, data_refresh="10" if before is None else None)


def _none(given: dict[str, Any], before: int | None) -> Html:
    if given or before is not None:
        return empty("No receipt is like this.", el("div", link("Show all receipts", HERE), class_="row"))
    return empty(
        "No tool was called yet.", el("p", "Each call of a tool, also one that is denied, leaves a receipt here.")
    )


def _table(shown: Receipts, given: dict[str, Any], before: int | None) -> Iterator[Html]:
    rows = [_row(one) for one in shown["receipts"]]
    head = ("No.", "When", "Tool", "Verdict", "Risk", "Decided by", "Why")
    yield el(
        "div",
        table(head, rows, caption="Receipts, the newest first", numbers=frozenset({0})),
        class_="card flush ledger",
    )
    newest = link("Newest", f"{HERE}?{urlencode(given)}" if given else HERE) if before is not None else None
    older = shown["next_before"]
    further = link("Older", f"{HERE}?{urlencode({**given, 'before': older})}") if older is not None else None
    span = f"{shown['receipts'][-1]['seq']:,} to {shown['receipts'][0]['seq']:,}"
    yield el("div", el("span", span, class_="quiet small grow"), newest, further, class_="row foot-row")


def _row(one: ReceiptRow) -> tuple[Child, ...]:
    at = iso_seconds(one["timestamp"])
    said = one["decision"]
    mended = None if one["intact"] else badge("bad", "not as written")
    return (
        el("a", f"{one['seq']:,}", href=f"{HERE}/{one['seq']}"),
        moment(at) if at is not None else one["timestamp"],
        el("b", one["tool"]),
        (badge(TONES.get(one["status"], ""), one["status"]), mended),
        badge(TONES.get(one["risk"], ""), one["risk"]),
        str(said.get("answered_by") or said.get("by") or "–"),
        str(said.get("reason") or "")[:200],
    )


# ------------------------------------------------------------------ one receipt


async def _one(called: Called) -> "HTMLResponse":
    wanted = called.path["seq"]
    title = f"Receipt {wanted[:20]}"
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 16):
        return missing(called, title, "A receipt is named by its number.", HERE)
    at = int(wanted)
    try:
        near = await found(lambda: _near(called, at))
    except AdderClawError as error:
        return failed(called, title, error, HERE)
    here = next((one for one in near if one["seq"] == at), None)
    if here is None:
        return missing(called, title, f"There is no receipt {at:,}.", HERE)
    beside = {one["seq"]: one for one in near}
    moves = [
        link(words, f"{HERE}/{at + step}")
        for step, words in ((-1, "The one before"), (1, "The one after"))
        if at + step in beside
    ]
    lead = f"{here['tool']}, {here['status']}"
    content = (_unfolded(here), _neighbours(near, at))
    return layout(called, f"Receipt {at:,}", *content, here=HERE, lead=lead, actions=moves)


def _near(called: Called, at: int) -> list[ReceiptRow]:
    """The two before it, itself and the two after it, the newest first."""
    shown = ledger.receipts(called.house.options, limit=5, before=at + 3, places=places(called))
    return [one for one in shown["receipts"] if abs(one["seq"] - at) < 3]


def _unfolded(one: ReceiptRow) -> Html:
    at = iso_seconds(one["timestamp"])
    intact = badge("good", "as it was written") if one["intact"] else badge("bad", f"not as written: {one['problem']}")
    pairs: list[tuple[str, Child]] = [
        (
            "when",
            (moment(at), " ", el("span", one["timestamp"], class_="quiet")) if at is not None else one["timestamp"],
        ),
        ("verdict", badge(TONES.get(one["status"], ""), one["status"])),
        ("risk", badge(TONES.get(one["risk"], ""), one["risk"])),
        ("seal", intact),
        ("conversation", _to("/ui/conversations/", one["conversation_id"])),
        ("run", _to("/ui/runs/", one["run_id"] or "")),
        ("session", one["session_id"] or "unknown"),
        ("call", one["tool_use_id"] or "unknown"),
        *(
            (name.replace("_", " "), el("code", one[name], class_="hash"))
            for name in ("args_hash", "result_hash", "receipt_hash")
        ),
    ]
    decided = json.dumps(one["decision"], indent=2, ensure_ascii=False)
    return el(
        "div",
        el("section", facts(pairs), class_="card"),
        part("How it was decided", el("pre", decided, class_="block")),
        class_="stack",
    )


def _to(path: str, id: str) -> Child:
    return el("a", id, href=f"{path}{quote(id, safe='')}") if id else "unknown"


def _neighbours(near: list[ReceiptRow], at: int) -> Html:
    rows = [
        (
            el("b", f"{one['seq']:,}") if one["seq"] == at else el("a", f"{one['seq']:,}", href=f"{HERE}/{one['seq']}"),
            one["tool"],
            badge(TONES.get(one["status"], ""), one["status"]),
            el("code", one["receipt_hash"][:16]),
        )
        for one in near
    ]
    shown = table(
        ("No.", "Tool", "Verdict", "Hash begins"), rows, caption="Before and after it", numbers=frozenset({0})
    )
    return part("Before and after it", el("div", shown, class_="card flush"))


ENDPOINTS = (
    Endpoint("GET", HERE, "read", _answer, "The page of the receipts.", is_page=True, reach="filtered"),
    Endpoint("GET", f"{HERE}/{{seq}}", "read", _one, "The page of one receipt.", is_page=True, reach="receipt"),
)
