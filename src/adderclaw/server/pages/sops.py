"""The page of SOPs: what each does, what is wrong with it, and a form that runs it; and the steps of a run."""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from adderclaw.agent.view.html import Child, Html, el, whole
from adderclaw.core.errors import AdderClawError
from adderclaw.flows.queries import sops
from adderclaw.flows.queries.sops import InputRow, SopRow, SopState
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages.asked import failed, filters, folder_field, found, here_options, select, tilde
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.parts import badge, empty, field, part, sent_form, state, table

if TYPE_CHECKING:
    from starlette.responses import HTMLResponse

HERE = "/ui/sops"
SAID = 2_000
"""Characters of a step's output that the page of a run shows; `adderclaw sop show` has all of it."""


async def _answer(called: Called) -> "HTMLResponse":
    try:
        options = here_options(called)
        rows = await found(lambda: sops.listed(options))
    except AdderClawError as error:
        return failed(called, "SOPs", error, HERE)
    folder = folder_field(called)
    return layout(
        called,
        "SOPs",
        filters(HERE, "sops", folder) if folder is not None else None,
        el("div", [_card(called, row, options.workspace or "") for row in rows] or _none(), id="sops", class_="stack"),
        here=HERE,
        lead="Procedures of steps: tools, agents and approvals, in the order of a file.",
    )


def _none() -> Html:
    how = el("p", "A SOP is a file: ", el("code", "sops/NAME/SOP.toml"), " in the workspace. See docs/sop.md.")
    return empty("There is no SOP yet.", how)


def _card(called: Called, row: SopRow, folder: str) -> Html:
    head = el(
        "div",
        el("h3", row["name"]),
        badge("bad", "not valid") if row["problems"] else badge("", f"{len(row['steps'])} steps"),
        el("span", "yours" if row["scope"] == "home" else "of the workspace", class_="quiet small"),
        class_="row",
    )
    parts: list[Child] = [head, el("p", row["description"]) if row["description"] else None]
    parts.append(el("p", el("code", tilde(row["file"])), class_="quiet small"))
    if row["problems"]:
        parts.append(el("ul", [el("li", one) for one in row["problems"]], class_="small plain-list"))
    else:
        parts.append(el("ol", [el("li", _line(step)) for step in row["steps"]]))
    if row["hidden"]:
        parts.append(el("p", "The workspace has one of the same name, which is the one that runs.", class_="quiet"))
    elif not row["problems"] and called.client.has("operate"):
        parts.append(_form(row, folder))
    return el("article", parts, class_="card stack", aria_label=row["name"])


def _line(step: dict[str, Any]) -> list[Child]:
    what = f"{step['kind']} {step['tool']}" if step.get("tool") else str(step["kind"])
    prompt = el("span", f" {step['prompt'][:200]}", class_="quiet small") if step.get("prompt") else None
    return [el("b", step["id"]), f" ({what})", prompt]


def _form(row: SopRow, folder: str) -> Html:
    name = quote(row["name"], safe="")
    fields: list[Child] = [
        el("input", type="hidden", name="sop", value=row["name"]),
        el("input", type="hidden", name="workspace", value=folder) if folder else None,
    ]
    fields += [_input(one, f"i-{name}-{place}") for place, one in enumerate(row["inputs"])]
    fields.append(el("div", el("button", "Run", type="submit", class_="main-one"), class_="row"))
    return sent_form("/runs", fields, then="/ui/runs/{run_id}", class_="stack")


def _input(one: InputRow, id: str) -> Html:
    name, note = f"inputs/{one['name']}", one["description"] or one["type"]
    default = "" if one["default"] is None else str(one["default"])
    if one["choices"]:
        control = select(id, name, default, [(choice, choice) for choice in one["choices"]])
    elif one["type"] == "boolean":
        control = select(id, name, default.lower() or "false", [("true", "true"), ("false", "false")])
    else:
        control = el(
            "input", type="text", id=id, name=name, value=default, required=one["required"], autocomplete="off"
        )
    return field(one["name"], control, id=id, note=note)


# ------------------------------------------------------------------ a run


def steps(found: SopState) -> Html:
    """The steps of a run in their order, each with what came of it."""
    rows = [
        (
            number,
            (el("b", step["id"]), el("br"), el("span", step.get("tool") or step["kind"], class_="quiet small")),
            _state(str(step["status"])),
            _said(str(step.get("error") or step.get("output") or "")),
        )
        for number, step in enumerate(found["steps"], 1)
    ]
    shown = table(("", "Step", "State", "What came of it"), rows, caption="Steps", numbers=frozenset({0}))
    done = sum(step["status"] in ("succeeded", "skipped") for step in found["steps"])
    return part("Steps", el("div", shown, class_="card flush"), note=f"{done} of {len(rows)} done")


def _state(word: str) -> Html:
    return badge("good", word) if word == "succeeded" else state(word)


def _said(text: str) -> Child:
    if not text.strip():
        return None
    cut = f"{text[:SAID]}\n[…]" if len(text) > SAID else text
    first = text.strip().splitlines()[0]
    if cut == first:
        return cut
    return el("details", el("summary", first[:160]), el("pre", whole(cut), class_="block", tabindex=0), class_="fold")


def go_on(found: SopState) -> Html | None:
    """A button for a run that ended before its last step, where nothing is left to be answered."""
    if found["status"] in ("completed", "running", "denied"):
        return None
    if found["question"] is not None and found["question"]["answer"] is None:
        return None
    button = el("button", "Go on with it", type="submit", class_="main-one")
    resumed = el("input", type="hidden", name="resume", value=found["run_id"])
    return sent_form("/runs", resumed, button, then="reload")


ENDPOINTS = (
    Endpoint("GET", HERE, "read", _answer, "SOPs, and a form for each that runs it.", is_page=True, reach="filtered"),
)
