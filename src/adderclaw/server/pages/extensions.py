"""The page of what is added to the agent: plugins, MCP servers, skills, hooks; with state, origin and trust."""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from adderclaw.agent.queries import parts as configured
from adderclaw.agent.queries import plugins as plugin_facts
from adderclaw.agent.queries.parts import HookRow, ServerRow, Settings, Skills
from adderclaw.agent.queries.plugins import PluginRow
from adderclaw.agent.view.html import Html, el
from adderclaw.config.plugins import preview
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages.asked import failed, filters, folder_field, found, here_options, tilde
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.parts import Tone, badge, empty, facts, part, sent_form, table

if TYPE_CHECKING:
    from starlette.responses import HTMLResponse

HERE = "/ui/extensions"
TONES: dict[str, Tone] = {
    "active": "good",
    "enabled": "good",
    "untrusted": "warn",
    "broken": "bad",
    "approved": "good",
    "not trusted": "warn",
    "changed": "bad",
    "new": "warn",
    "disabled": "",
    "never runs": "warn",
    "not run": "warn",
}


SAID = 600
"""Characters of one part of a plugin that the page shows; `adderclaw plugin show` has all of it."""


class _Found(NamedTuple):
    plugins: list[PluginRow]
    servers: list[ServerRow]
    skills: Skills
    hooks: list[HookRow]
    settings: Settings


async def _answer(called: Called) -> "HTMLResponse":
    def look() -> _Found:
        options = here_options(called)
        return _Found(
            [] if called.client.folders else plugin_facts.listed(),  # they are of the whole machine
            configured.mcp_servers(options),
            configured.skills(options),
            configured.hooks(options),
            configured.settings(options),
        )

    try:
        shown = await found(look)
    except AdderClawError as error:
        return failed(called, "Extensions", error, "/")
    folder = folder_field(called)
    chosen = filters(HERE, "extensions", folder) if folder is not None else None
    brought = None
    if not called.client.folders:
        brought = _plugins(shown.plugins, may_disable=called.client.has("admin"))
    content = (_trust(shown.settings), brought, _servers(shown.servers), _skills(shown.skills), _hooks(shown.hooks))
    lead = "Plugins, MCP servers, skills and hooks, with where each comes from."
    return layout(called, "Extensions", chosen, el("div", content, id="extensions"), here=HERE, lead=lead)


def _trust(settings: Settings) -> Html:
    if settings["trusted"]:
        state, words = badge("good", "trusted"), "What this project brings may run, as it was when it was trusted."
    else:
        state, words = (
            badge("warn", "not trusted"),
            "Nothing that this project brings runs, and nothing of it loosens a rule.",
        )
    fix = el("p", "To trust its content as it is now: ", el("code", "adderclaw trust"), class_="quiet small")
    where = el("b", tilde(settings["workspace"]), class_="grow")
    return el(
        "section",
        el("div", state, where, class_="row"),
        el("p", words),
        fix if not settings["trusted"] else None,
        class_="card part",
        aria_label="Trust",
    )


def _plugins(found: list[PluginRow], *, may_disable: bool) -> Html:
    if not found:
        how = el("p", el("code", "adderclaw plugin install PATH"))
        return part("Plugins", empty("No plugin is installed.", how))
    shown = [_plugin(one, may_disable=may_disable) for one in found]
    return part("Plugins", shown, note=str(len(found)))


def _plugin(one: PluginRow, *, may_disable: bool) -> Html:
    """Switched on only at a terminal: what runs outside of the sandbox takes a person at the machine."""
    head = el(
        "div",
        el("h3", one["name"]),
        badge(TONES.get(one["state"], ""), one["state"]),
        el("span", one["version"], class_="quiet small grow"),
        _switch(one) if may_disable and one["state"] in ("enabled", "changed") else None,
        class_="row",
    )
    source = " ".join(str(value) for key, value in one["source"].items() if key != "kind") or "put there by hand"
    known = facts(
        (
            ("Content", el("code", one["sha256"][:16] or "–")),
            ("From", tilde(source)),
            ("Trusted", one["trusted_at"] or "never"),
        )
    )
    how = None
    if one["state"] != "enabled":
        command = f"adderclaw plugin {'remove' if one['state'] == 'broken' else 'enable'} {one['name']}"
        how = el("p", "At a terminal, after a look at it: ", el("code", command), class_="quiet small")
    rows = [(el("b", item["what"]), item["name"], _said(item["value"])) for item in one["brings"]]
    brings = table(("Brings", "Name", "What it says"), rows, caption=f"What {one['name']} brings") if rows else None
    wrong = [el("p", badge("bad", "wrong"), " ", text) for text in one["problems"][:20]]
    lead = el("p", one["description"], class_="quiet") if one["description"] else None
    return el("article", head, lead, known, wrong, brings, how, class_="card")


def _switch(one: PluginRow) -> Html:
    asked = f"Nothing of {one['name']} is used from the next conversation on. Its hooks guard nothing any more."
    button = el("button", "Disable", type="submit", class_="danger")
    return sent_form(f"/plugins/{quote(one['name'], safe='')}/disable", button, then="reload", confirm=asked)


def _said(value: Any) -> list[Html]:
    """As a terminal shows it, a line for each key; a long one is cut."""
    found = preview.lines(value)
    return [el("div", el("code", text if len(text) <= SAID else f"{text[:SAID]}…")) for text in found]


def _servers(servers: list[ServerRow]) -> Html:
    if not servers:
        how = el("p", el("code", "adderclaw mcp add NAME -- COMMAND"))
        return part("MCP servers", empty("No MCP server is configured.", how))
    return part("MCP servers", [_server(one) for one in servers], note=str(len(servers)))


def _server(one: ServerRow) -> Html:
    head = el(
        "div",
        el("h3", one["name"]),
        badge("", one["transport"]),
        el("span", one["scope"], class_="quiet small"),
        class_="row",
    )
    target = el("p", el("code", one["target"] or "–"), class_="quiet")
    if not one["tools"]:
        inner: Html = el(
            "p", "Its tools were not seen yet: they are when a session first uses it.", class_="quiet small"
        )
    else:
        rows = [
            (
                el("b", tool["name"]),
                badge(TONES.get(tool["state"], ""), tool["state"]),
                tool["description"][:300],
                el("code", tool["sha256"][:12]),
            )
            for tool in one["tools"]
        ]
        inner = table(("Tool", "State", "What it says of itself", "Pinned as"), rows, caption=f"Tools of {one['name']}")
    return el("article", head, target, inner, class_="card")


def _skills(found: Skills) -> Html:
    if not found["skills"] and not found["invalid"]:
        places = ", ".join(found["directories"]) or "skills/"
        return part(
            "Skills", empty("No skill was found.", el("p", f"A skill is a folder with a SKILL.md in {places}."))
        )
    rows = [
        (
            el("b", one["name"]),
            badge("good", "usable") if one["usable"] else badge("bad", "not usable"),
            one["scope"],
            one["description"][:300] if one["usable"] else "; ".join(one["diagnosis"])[:400],
        )
        for one in (*found["skills"], *found["invalid"])
    ]
    rows += [
        (one["name"], badge("", "ignored"), "", f"{one['ignored']}: {one['used']} is used")
        for one in found["duplicates"]
    ]
    shown = table(("Skill", "State", "From", "What it is for"), rows, caption="Skills")
    return part("Skills", el("div", shown, class_="card flush"), note=str(len(found["skills"])))


def _hooks(hooks: list[HookRow]) -> Html:
    if not hooks:
        return part(
            "Hooks",
            empty(
                "No hook is configured.",
                el("p", "A hook is a command of yours that runs at an event: see docs/hooks.md."),
            ),
        )
    rows = [
        (
            el("b", one["event"]),
            badge(TONES.get(one["state"], ""), one["state"]),
            one["matcher"] or "any",
            el("code", one["command"][:300]),
            el("span", tilde(one["source"]), class_="quiet small"),
        )
        for one in hooks
    ]
    shown = table(("Event", "State", "For", "What runs", "From"), rows, caption="Hooks in the order in which they run")
    return part("Hooks", el("div", shown, class_="card flush"), note=str(len(hooks)))


ENDPOINTS = (
    Endpoint("GET", HERE, "read", _answer, "Plugins, MCP servers, skills and hooks.", is_page=True, reach="filtered"),
)
