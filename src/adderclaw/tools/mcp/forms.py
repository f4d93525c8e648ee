"""Converts a server's form to questions for the operator, and the answers to the form's content."""

from typing import Any, cast

from adderclaw.config.foreign.json_schema import checked
from adderclaw.core.decode import Invalid
from adderclaw.core.questions import Option, Question, Replies
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json

MOST_FIELDS = 20
YES, NO, LEAVE = "yes", "no", "leave it empty"
DECLINE: Json = {"action": "decline"}
CANCEL: Json = {"action": "cancel"}


def form_questions(server: str, asked: Json) -> list[Question]:
    """One question for each field of a form, or one for a URL. The first includes the server's message."""
    message = _line(asked["message"], 1_000)
    if asked["mode"] == "url":
        text = f"The MCP server {server} says: {message} It wants you to open {_line(asked['url'], 2_000)} - have you?"
        return [Question(text, server[:12], (Option(YES), Option(NO)))]
    fields = _fields(asked["requested_schema"])
    if not fields:
        text = f"The MCP server {server} asks: {message}"
        return [Question(text, server[:12], (Option(YES), Option(NO)))]
    result: list[Question] = []
    for number, (name, field) in enumerate(fields.items()):
        head = f"The MCP server {server} asks: {message} " if number == 0 else ""
        result.append(
            Question(head + _label(name, field), _line(name, 12), _options(name, field, asked), _is_list(field))
        )
    return result


def form_answer(server: str, asked: Json, replies: Replies | None) -> Json:
    """`{action, content}` from the operator's answers; answers that do not fit the schema decline the form."""
    if replies is None:
        return CANCEL
    answers = [replies.get(question.question) for question in form_questions(server, asked)]
    fields = _fields(asked.get("requested_schema", {})) if asked["mode"] == "form" else {}
    if not fields:
        return {"action": "accept", "content": {}} if answers[0] == YES else DECLINE
    content: Json = {}
    for (name, field), reply in zip(fields.items(), answers, strict=True):
        if reply is not None and reply != LEAVE:
            content[name] = _value(field, reply)
    try:
        return {"action": "accept", "content": checked(asked["requested_schema"], content)}
    except Invalid:
        return DECLINE


def _fields(schema: Any) -> dict[str, Json]:
    properties: Any = cast(Json, schema).get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    table = cast(dict[str, Any], properties)
    return {name: cast(Json, field) for name, field in list(table.items())[:MOST_FIELDS] if isinstance(field, dict)}


def _label(name: str, field: Json) -> str:
    title, described = field.get("title") or name, field.get("description")
    return f"{_line(title, 100)}: {_line(described, 300)}" if described else f"{_line(title, 100)}?"


def _options(name: str, field: Json, asked: Json) -> tuple[Option, ...]:
    known = _choices(field)
    if field.get("type") == "boolean":
        known = {YES: "", NO: ""}
    default = field.get("default")
    options = [Option(_line(label, 200), _line(about, 200)) for label, about in known.items()]
    if default is not None and not known and not isinstance(default, list | dict):
        options.append(Option(_line(default, 200), "the server's default"))
    if name not in asked["requested_schema"].get("required", ()):
        options.append(Option(LEAVE))
    return tuple(options)


def _choices(field: Json) -> dict[str, str]:
    """Value → label."""
    inner = field.get("items", field) if _is_list(field) else field
    if not isinstance(inner, dict):
        return {}
    table = cast(Json, inner)
    titled: Any = table.get("oneOf") or table.get("anyOf")
    if isinstance(titled, list):
        rows = [cast(Json, row) for row in cast(list[Any], titled) if isinstance(row, dict) and "const" in row]
        return {str(row["const"]): str(row.get("title", "")) for row in rows}
    values: Any = table.get("enum")
    names: Any = table.get("enumNames")
    if not isinstance(values, list):
        return {}
    labels = cast(list[Any], names) if isinstance(names, list) else [""] * len(cast(list[Any], values))
    return {str(value): str(label) for value, label in zip(cast(list[Any], values), labels, strict=False)}


def _is_list(field: Json) -> bool:
    return field.get("type") == "array"


def _value(field: Json, reply: str) -> Any:
    match field.get("type"):
        case "boolean":
            return reply.strip().lower() in (YES, "y", "true", "1")
        case "array":
            return [part.strip() for part in reply.split(",") if part.strip()]
        case "integer" | "number":
            try:
                number = float(reply)
            except ValueError:
                return reply
            return int(number) if number.is_integer() else number
        case _:
            return reply


def _line(value: Any, most: int) -> str:
    return visible(str(value), keep_newlines=False)[:most]
