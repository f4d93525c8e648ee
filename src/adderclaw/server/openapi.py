"""The API's description (OpenAPI 3.1), generated from the endpoints themselves."""

import re
from collections.abc import Sequence
from typing import Any

from adderclaw import __version__
from adderclaw.core import decode
from adderclaw.core.types import Json
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.refusal import ErrorAnswer, OpenAIError

_NAMED = re.compile(r"{(\w+)(?::\w+)?}")


def endpoint(described: Sequence[Endpoint]) -> Endpoint:
    """The endpoint that gives the description of the others, and of itself."""
    made: list[Json] = []

    async def answer(_: Called) -> object:
        if not made:
            made.append(description([*described, own]))
        return made[0]

    own = Endpoint("GET", "/openapi.json", "open", answer, "This description.", gives=dict[str, Any])
    return own


def description(endpoints: Sequence[Endpoint]) -> Json:
    paths: dict[str, Json] = {}
    for one in endpoints:
        if not one.is_page:
            paths.setdefault(_NAMED.sub(r"{\1}", one.path), {})[one.method.lower()] = _operation(one)
    bearer = {"type": "http", "scheme": "bearer", "description": "A token of `adderclaw token create`."}
    words = "Standard Webhooks: with `webhook-id` and `webhook-timestamp`, over the whole body (docs/channels.md)."
    signed = {"type": "apiKey", "in": "header", "name": "webhook-signature", "description": words}
    return {
        "openapi": "3.1.0",
        "info": {"title": "AdderClaw", "version": __version__, "description": "An agent runtime on this machine."},
        "paths": paths,
        "components": {
            "securitySchemes": {"token": bearer, "signature": signed},
            "schemas": {"Error": decode.json_schema(ErrorAnswer), "OpenAIError": decode.json_schema(OpenAIError)},
        },
    }


def _operation(one: Endpoint) -> Json:
    words = re.findall(r"\w+", one.path) or ["root"]
    made: Json = {
        "operationId": "_".join([one.method.lower(), *words]),
        "summary": one.summary,
        "responses": {str(one.status): _answer(one), **_errors(one)},
        "security": [{"token": []}] if one.scope != "open" else [{"signature": []}] if one.is_signed else [],
    }
    if one.is_signed:
        made["responses"] |= {"202": _answer(one)}  # it goes on
    if one.scope != "open":
        made["description"] = f"Scope: {one.scope}." + ("" if one.reach else " Not for a token with folders.")
    parameters = [_in_path(name) for name in _NAMED.findall(one.path)]
    if one.takes is not None and one.method in ("GET", "DELETE"):
        parameters += _in_query(one.takes)
    elif one.takes is not None:
        schema = decode.json_schema(one.takes, nulls=not one.is_form)
        form = "application/x-www-form-urlencoded" if one.is_form else "application/json"
        made["requestBody"] = {"required": bool(schema.get("required")), "content": {form: {"schema": schema}}}
    if parameters:
        made["parameters"] = parameters
    return made


def _in_path(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _in_query(kind: type) -> list[Json]:
    schema = decode.json_schema(kind)
    needed = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": entry}
        for name, entry in schema.get("properties", {}).items()
    ]


def _answer(one: Endpoint) -> Json:
    content: Json = {}
    if one.gives is not None:
        content["application/json"] = {"schema": decode.json_schema(one.gives, nulls=True)}
    if one.media_type != "application/json" or one.gives is None:
        content[one.media_type] = {}
    return {"description": one.summary, "content": content}


ALWAYS = {
    400: "The request does not fit.",
    403: "A page of another origin, or more than the token may: a scope, a folder, a limit.",
    421: "A host that is not this server's.",
    429: "Too many requests.",
    503: "The server cannot do it now.",
}
WITH_TOKEN = {401: "No token, or one that does not count."}
SIGNED = {401: "There is no such door, or the request is not signed for it."}
OF_ONE = {404: "There is nothing of this name.", 409: "What is there stands in the way."}
WITH_BODY = {408: "The body came too slowly.", 413: "The body is too large.", 415: "The body is of another type."}
OF_AGENT = {404: "There is no such model or response.", 502: "The agent gave no answer."}


def _errors(one: Endpoint) -> Json:
    """All that may go wrong: an answer with another status is a defect."""
    known = dict(ALWAYS)
    known |= WITH_TOKEN if one.scope != "open" else {}
    known |= SIGNED if one.is_signed else {}
    known |= OF_ONE if "{" in one.path or one.method != "GET" else {}
    known |= WITH_BODY if one.method not in ("GET", "DELETE") else {}
    known |= OF_AGENT if one.scope == "openai" and one.method == "POST" else {}
    name = "OpenAIError" if one.path.startswith("/v1/") else "Error"
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    return {str(status): {"description": words, "content": content} for status, words in sorted(known.items())}
