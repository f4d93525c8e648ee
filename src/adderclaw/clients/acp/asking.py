"""Approvals and questions as requests to an editor, and the editor's responses as answers."""

from acp import schema

from adderclaw.agent.tool_call.approvals import displayed_request
from adderclaw.agent.view import calls
from adderclaw.agent.view.items import Call, Change
from adderclaw.agent.view.page import fenced
from adderclaw.clients.acp import updates
from adderclaw.core.questions import (
    MOST_GRANTED,
    Answer,
    ApprovalRequest,
    Question,
    QuestionRequest,
    approval_with_registries,
)
from adderclaw.core.redaction import visible
from adderclaw.policy.grants import describe_rules

ONCE, SESSION, REGISTRIES, REJECT = "allow-once", "allow-session", "allow-registries", "reject-once"
OPTION = "option-"
NOT_OFFERED = "the editor's answer is not one of the offered options"
DISMISSED = "the editor closed the question without an answer"


# ------------------------------------------------------------------ approvals


def options(request: ApprovalRequest) -> list[schema.PermissionOption]:
    """The options of an approval, each naming exactly what it grants."""
    offered = [schema.PermissionOption(option_id=ONCE, name="Allow once", kind="allow_once")]
    if _grants(request):
        name = f"Allow for this session: {updates.line(describe_rules(request.grants))}"
        offered.append(schema.PermissionOption(option_id=SESSION, name=name, kind="allow_always"))
    if request.registries:
        hosts = updates.line(", ".join(request.registries))
        name = f"Allow, and allow the commands of this session to reach {hosts}"
        offered.append(schema.PermissionOption(option_id=REGISTRIES, name=name, kind="allow_always"))
    return [*offered, schema.PermissionOption(option_id=REJECT, name="Reject", kind="reject_once")]


def _grants(request: ApprovalRequest) -> bool:
    return bool(request.grants) and len(request.shown) <= MOST_GRANTED


def about(request: ApprovalRequest, root: str) -> schema.ToolCallUpdate:
    """What is to be approved, complete: a change as a diff, anything else as text."""
    seen = displayed_request(request)
    tool, arguments = calls.unwrapped(request.tool, request.input)
    call = Call(request.tool_use_id or request.id, "", tool, calls.argument(tool, arguments, root), arguments)
    content = [updates.text_content(seen.reason if seen.is_step else f"{request.risk} risk: {seen.reason}")]
    if request.preview:
        path = next((arguments[name] for name in updates.PATHS if isinstance(arguments.get(name), str)), "")
        lines = calls.parsed(visible(request.preview, directions=False))
        content += updates.diffs(Change(path, lines), root, whole=True)
    else:
        content.append(updates.text_content(fenced(seen.text)))
    content += [updates.text_content(mark) for mark in seen.marks]
    return schema.ToolCallUpdate(
        tool_call_id=call.key,
        title=updates.title_of(call),
        kind=updates.kind_of(tool),
        status="pending",
        content=content,
        locations=updates.locations(call, root),
    )


def answer(request: ApprovalRequest, response: schema.RequestPermissionResponse) -> Answer:
    """The answer of an editor's response. Only an option that was offered approves the call."""
    if not isinstance(response.outcome, schema.AllowedOutcome):
        return Answer(approved=False, by="operator", comment=DISMISSED)
    chosen = response.outcome.option_id
    if chosen == ONCE:
        return Answer(approved=True, by="operator")
    if chosen == SESSION and _grants(request):
        return Answer(approved=True, by="operator", remember="session")
    if chosen == REGISTRIES and request.registries:
        return approval_with_registries(request)
    if chosen == REJECT:
        return Answer(approved=False, by="operator")
    return Answer(approved=False, by="no_operator", comment=NOT_OFFERED)


# ------------------------------------------------------------------ questions


def choices(question: Question) -> list[schema.PermissionOption]:
    offered = [
        schema.PermissionOption(option_id=f"{OPTION}{number}", name=updates.line(option.label), kind="allow_once")
        for number, option in enumerate(question.options)
    ]
    return [*offered, schema.PermissionOption(option_id=REJECT, name="Give no answer", kind="reject_once")]


def asked(request: QuestionRequest, question: Question) -> schema.ToolCallUpdate:
    lines = [
        f"{updates.line(option.label)}: {visible(option.description)}"
        for option in question.options
        if option.description
    ]
    text = "\n".join([visible(question.question), *(f"- {line}" for line in lines)])
    return schema.ToolCallUpdate(
        tool_call_id=request.tool_use_id or request.id,
        title=updates.line(question.question),
        kind="other",
        status="pending",
        content=[updates.text_content(text)],
    )


def reply(question: Question, response: schema.RequestPermissionResponse) -> str | None:
    """The chosen label; None if none was chosen."""
    if not isinstance(response.outcome, schema.AllowedOutcome):
        return None
    labels = {f"{OPTION}{number}": option.label for number, option in enumerate(question.options)}
    return labels.get(response.outcome.option_id)
