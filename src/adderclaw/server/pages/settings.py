"""The page of every setting with its origin; secrets are never shown."""

import json
from typing import TYPE_CHECKING

from adderclaw.agent.queries import parts as configured
from adderclaw.agent.queries.parts import SettingRow, Settings
from adderclaw.agent.view.html import Html, el
from adderclaw.core.errors import AdderClawError
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages.asked import failed, filters, folder_field, found, here_options, one_of, select, tilde, word
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.parts import badge, empty, field, link, part, table

if TYPE_CHECKING:
    from starlette.responses import HTMLResponse

HERE = "/ui/settings"
SHOWN = (("changed", "only what somebody set"), ("all", "all settings"))


async def _answer(called: Called) -> "HTMLResponse":
    try:
        now = await found(lambda: configured.settings(here_options(called)))
    except AdderClawError as error:
        return failed(called, "Settings", error, "/")
    wanted = word(called, "q")
    which = one_of(called, "show", [key for key, _ in SHOWN], "all" if wanted else "changed")
    rows = [row for row in now["settings"] if _fits(row, wanted, which)]
    lead = "What counts here, and where each value is from. To change one: adderclaw config set KEY VALUE."
    return layout(called, "Settings", _filters(called, wanted, which), _region(now, rows), here=HERE, lead=lead)


def _fits(row: SettingRow, wanted: str, which: str) -> bool:
    if which == "changed" and row["origin"] == "default":
        return False
    return wanted.lower() in f"{row['key']} {row['origin']}".lower()


def _files(now: Settings) -> Html:
    listed = [el("li", el("code", tilde(file))) for file in now["files"]]
    warned = [el("p", badge("warn", "warning"), " ", text) for text in now["warnings"]]
    read = el("ol", listed, class_="plain-list") if listed else el("p", "No file: the defaults stand.")
    trusted = badge("good", "trusted") if now["trusted"] else badge("warn", "not trusted")
    where = el("div", el("b", tilde(now["workspace"])), trusted, class_="row")
    why = el("p", now["workspace_reason"], class_="quiet small")
    note = el("p", "Files that were read; a later one goes before an earlier one:", class_="quiet small")
    return el("section", where, why, note, read, warned, class_="card part stack", aria_label="Where settings are from")


def _filters(called: Called, wanted: str, which: str) -> Html:
    box = el(
        "input", type="search", id="s-q", name="q", value=wanted, autocomplete="off", data_first=True, maxlength=200
    )
    return filters(
        HERE,
        "settings",
        folder_field(called),
        field("Name or origin", box, id="s-q"),
        field("Which", select("s-show", "show", which, SHOWN), id="s-show"),
    )


def _region(now: Settings, rows: list[SettingRow]) -> Html:
    if not rows:
        none = empty("No setting is like this.", el("div", link("Show all settings", f"{HERE}?show=all"), class_="row"))
        return el("div", _files(now), none, id="settings")
    made = [
        (
            el("code", row["key"]),
            el("code", _value(row["value"])) if row["value"] is not None else el("span", "not set", class_="quiet"),
            el("span", tilde(row["origin"]), class_="quiet" if row["origin"] == "default" else None),
        )
        for row in rows
    ]
    shown = table(("Setting", "Value", "From"), made, caption="Settings")
    return el(
        "div",
        _files(now),
        part("Settings", el("div", shown, class_="card flush settings"), note=str(len(rows))),
        id="settings",
    )


def _value(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


ENDPOINTS = (Endpoint("GET", HERE, "read", _answer, "Every setting with its origin.", is_page=True, reach="filtered"),)
