"""The API's description (OpenAPI 3.1), generated from the endpoints themselves."""

import re
from collections.abc import Sequence
from typing import Any

from adderclaw import __version__
from adderclaw.core import decode
from adderclaw.core.types import Json
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.refusal import ErrorAnswer, OpenAIError

_NAMED = re.compile(r"{(\w+)(?::\w+)?}")


def endpoint(described: Sequence[Endpoint]) -> Endpoint:
    """The endpoint that returns the description of the others and of itself."""
    cached: list[Json] = []

    async def answer(_: ApiRequest) -> object:
        if not cached:
            cached.append(description([*described, own]))
        return cached[0]

    own = Endpoint("GET", "/openapi.json", "open", answer, "This description.", gives=dict[str, Any])
    return own


def description(endpoints: Sequence[Endpoint]) -> Json:
    paths: dict[str, Json] = {}
    for described in endpoints:
        if not described.is_page:
            paths.setdefault(_NAMED.sub(r"{\1}", described.path), {})[described.method.lower()] = _operation(described)
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


def _operation(described: Endpoint) -> Json:
    words = re.findall(r"\w+", described.path) or ["root"]
    operation: Json = {
        "operationId": "_".join([described.method.lower(), *words]),
        "summary": described.summary,
        "responses": {str(described.status): _answer(described), **_errors(described)},
        "security": _security(described),
    }
    if described.is_signed:
        operation["responses"] |= {"202": _answer(described)}  # the turn continues
    if described.scope != "open":
        operation["description"] = f"Scope: {described.scope}." + (
            "" if described.reach else " Not for a token with folders."
        )
    parameters = [_in_path(name) for name in _NAMED.findall(described.path)]
    if described.takes is not None and described.method in ("GET", "DELETE"):
        parameters += _in_query(described.takes)
    elif described.takes is not None:
        schema = decode.json_schema(described.takes, nulls=not described.is_form)
        form = "application/x-www-form-urlencoded" if described.is_form else "application/json"
        operation["requestBody"] = {"required": bool(schema.get("required")), "content": {form: {"schema": schema}}}
    if parameters:
        operation["parameters"] = parameters
    return operation


def _security(described: Endpoint) -> list[Json]:
    if described.scope != "open":
        return [{"token": []}]
    return [{"signature": []}] if described.is_signed else []


def _in_path(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _in_query(kind: type) -> list[Json]:
    schema = decode.json_schema(kind)
    needed = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": entry}
        for name, entry in schema.get("properties", {}).items()
    ]


def _answer(described: Endpoint) -> Json:
    content: Json = {}
    if described.gives is not None:
        content["application/json"] = {"schema": decode.json_schema(described.gives, nulls=True)}
    if described.media_type != "application/json" or described.gives is None:
        content[described.media_type] = {}
    return {"description": described.summary, "content": content}


ALWAYS_ERRORS = {
    400: "The request does not fit.",
    403: "A page of another origin, or more than the token may: a scope, a folder, a limit.",
    421: "A host that is not this server's.",
    429: "Too many requests.",
    503: "The server cannot do it now.",
}
TOKEN_ERRORS = {401: "The token is missing or invalid."}
SIGNATURE_ERRORS = {401: "The endpoint does not exist, or the signature is not valid for it."}
PATH_ERRORS = {404: "There is nothing with this id.", 409: "The request conflicts with the current state."}
BODY_ERRORS = {408: "The body was sent too slowly.", 413: "The body is too large.", 415: "The body is of another type."}
AGENT_ERRORS = {404: "There is no such model or response.", 502: "The agent returned no answer."}


def _errors(described: Endpoint) -> Json:
    """All possible errors: a response with any other status is a defect."""
    known = dict(ALWAYS_ERRORS)
    known |= TOKEN_ERRORS if described.scope != "open" else {}
    known |= SIGNATURE_ERRORS if described.is_signed else {}
    known |= PATH_ERRORS if "{" in described.path or described.method != "GET" else {}
    known |= BODY_ERRORS if described.method not in ("GET", "DELETE") else {}
    known |= AGENT_ERRORS if described.scope == "openai" and described.method == "POST" else {}
    name = "OpenAIError" if described.path.startswith("/v1/") else "Error"
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    return {str(status): {"description": words, "content": content} for status, words in sorted(known.items())}
