"""A question as a card: what is asked, with the plan or the change, and the answer; or how it was answered."""

import hashlib

from adderclaw.agent.conversation.asking import Request
from adderclaw.agent.tool_call.approvals import questions_of, shown
from adderclaw.agent.view.calls import parsed
from adderclaw.agent.view.html import Child, Html, el, whole
from adderclaw.agent.view.html_items import diff
from adderclaw.agent.view.items import Change
from adderclaw.core.questions import ApprovalRequest, Question
from adderclaw.core.record import NamedTuple
from adderclaw.server.endpoint import Called
from adderclaw.server.pages.parts import badge, facts, iso_seconds, moment, sent_form
from adderclaw.storage.approvals import Approval

RISKS = {"low": "good", "medium": "warn", "high": "bad"}
OUTCOMES = {
    "yes": ("good", "Answered: yes"),
    "no": ("bad", "Answered: no"),
    "expired": ("warn", "Nobody answered in time"),
}


class Asked(NamedTuple):
    """A question with all that is known of it."""

    row: Approval
    conversation_id: str
    title: str
    folder: str
    request: Request | None = None
    """Where it is asked in this process: with the change that it is about."""
    state: str = "pending"
    answer_at: str = ""
    """Where the answer is sent; empty: to this server's own questions."""


def card_id(id: str) -> str:
    return f"q-{hashlib.sha256(id.encode('utf-8', 'replace')).hexdigest()[:20]}"


def card(called: Called, asked: Asked, *, with_place: bool = True) -> Html:
    """With a form for the answer where this client may give one."""
    is_open = asked.state in ("pending", "left")
    place = _place(asked) if with_place else None
    inner: list[Child] = [_head(asked), place, *_about(asked)]
    if not is_open:
        inner = [_head(asked), place, _outcome(asked)]
    elif called.client.has("approve"):
        inner.append(_form(asked))
    else:
        inner.append(el("p", "Your token may not answer: it needs the scope approve.", class_="quiet"))
    kind = "card asks stack" if is_open else "card stack"
    return el("article", inner, class_=kind, id=card_id(asked.row.id), aria_label=f"Question about {asked.row.tool}")


def _head(asked: Asked) -> Html:
    row = asked.row
    words = "The agent asks you" if row.questions else f"May {shown(row).tool} run?"
    is_step = shown(row).is_step
    if is_step:
        words = f"{shown(row).tool} asks you"
    has_risk = row.risk and not row.questions and not is_step
    risk = badge(RISKS.get(row.risk, ""), f"{row.risk} risk") if has_risk else None  # pyright: ignore[reportArgumentType]
    when = moment(iso_seconds(row.created_at))
    return el("div", el("h3", words), risk, el("span", when, class_="quiet small") if when else None, class_="row")


def _place(asked: Asked) -> Html:
    who = f" · subagent {asked.row.agent}" if asked.row.agent else ""
    where = el("a", asked.title or asked.conversation_id, href=f"/ui/conversations/{asked.conversation_id}")
    return el("p", where, f" · {asked.folder}{who}", class_="quiet small")


def _about(asked: Asked) -> list[Child]:
    if asked.row.questions:
        return []
    seen = shown(asked.row)
    made: list[Child] = [el("p", seen.reason) if seen.reason else None]
    request = asked.request
    if isinstance(request, ApprovalRequest) and request.preview:
        made.append(diff(Change(_path(request), parsed(request.preview)), whole_text=True))
    else:
        made.append(el("pre", whole(asked.row.shown), class_="block", tabindex=0))
    if isinstance(request, ApprovalRequest) and request.touches:
        made.append(facts([("It would touch", el("span", whole("\n".join(request.touches)), class_="mono"))]))
    if seen.lookalikes:
        warning = f"Letters of several alphabets in one word: {', '.join(seen.lookalikes)}"
        made.append(el("p", badge("warn", "look closely"), " ", warning))
    return made


def _path(request: ApprovalRequest) -> str:
    given = request.input.get("file_path") or request.input.get("notebook_path") or request.input.get("path") or ""
    return str(given)


def _outcome(asked: Asked) -> Html:
    tone, words = OUTCOMES.get(asked.state, ("", asked.state))
    row = asked.row
    who = f" by {row.answered_who or row.answered_by}" if row.answer and (row.answered_who or row.answered_by) else ""
    comment = el("span", f" “{row.comment}”", class_="quiet") if row.comment else None
    return el("p", badge(tone, words), who, comment)  # pyright: ignore[reportArgumentType]


# ------------------------------------------------------------------ the answer


def _form(asked: Asked) -> Html:
    row, key = asked.row, card_id(asked.row.id)
    action = asked.answer_at or f"/questions/{row.id}/answer"
    if row.questions:
        fields = [_question(question, f"{key}-{number}") for number, question in enumerate(questions_of(row))]
        buttons = (_button("Answer", approved=True, main=True), _button("Do not answer", approved=False))
        return sent_form(action, fields, el("div", buttons, class_="row"), class_="stack", data_deliberate="")
    comment = el(
        "input",
        type="text",
        id=f"{key}-comment",
        name="comment",
        maxlength=4000,
        data_optional=True,
        placeholder="A word to the agent (optional)",
        aria_label="A word to the agent (optional)",
        autocomplete="off",
    )
    if row.terminal:
        alone = el("p", "Only a person at the terminal can say yes to this.", class_="quiet")
        return sent_form(
            action,
            comment,
            el("div", _button("No", approved=False), alone, class_="row"),
            class_="stack",
            data_deliberate="",
        )
    yes = [_button("Yes", approved=True, main=True), _button("No", approved=False)]
    plan = el("input", type="hidden", name="plan", value=row.plan_hash) if row.plan_hash else None
    return sent_form(
        action, plan, _remember(asked, key), comment, el("div", yes, class_="row"), class_="stack", data_deliberate=""
    )


def _button(words: str, *, approved: bool, main: bool = False) -> Html:
    value = "true" if approved else "false"
    kind = "main-one" if main else None
    return el("button", words, type="submit", name="approved", value=value, data_type="bool", class_=kind)


def _remember(asked: Asked, key: str) -> Html | None:
    """What a yes could also allow from now on; only where it can be said exactly."""
    request = asked.request
    if not isinstance(request, ApprovalRequest) or not (request.grants or request.registries):
        return None
    choices = [("", "This once")]
    if request.grants:
        rules = ", ".join(request.grants)
        choices += [("session", f"In this session: {rules}"), ("project", f"In this project: {rules}")]
    if request.registries:
        choices.append(("registries", f"With {', '.join(request.registries)} for this session"))
    options = [el("option", words, value=value) for value, words in choices]
    select = el(
        "select", options, name="remember", id=f"{key}-remember", data_optional=True, aria_label="How long a yes counts"
    )
    return el("div", el("label", "A yes counts", for_=f"{key}-remember"), select, class_="field")


def _question(question: Question, key: str) -> Html:
    """Its options, and always room for own words."""
    name = f"replies/{question.question}"
    choices = [
        el(
            "label",
            el(
                "input",
                type="checkbox" if question.multi else "radio",
                name=name,
                value=option.label,
                data_join=question.multi,
            ),
            el(
                "span",
                el("b", option.label),
                el("br") if option.description else None,
                el("span", option.description, class_="quiet small"),
                el("pre", option.preview, class_="block") if option.preview else None,
            ),
            class_="choice",
        )
        for option in question.options
    ]
    own = el(
        "input",
        type="text",
        id=f"{key}-own",
        data_instead=name,
        placeholder="In your own words",
        aria_label=f"In your own words: {question.question}",
        autocomplete="off",
    )
    return el("fieldset", el("legend", question.question), choices, own)
