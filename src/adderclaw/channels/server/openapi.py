"""The API's description (OpenAPI 3.1), generated from the endpoints themselves."""

import re
from collections.abc import Sequence
from typing import Any

from adderclaw import __version__, decode
from adderclaw.channels.server.endpoint import Called, Endpoint
from adderclaw.channels.server.refusal import ErrorAnswer, OpenAIError
from adderclaw.types import Json

_NAMED = re.compile(r"{(\w+)(?::\w+)?}")


def endpoint(described: Sequence[Endpoint]) -> Endpoint:
    """The endpoint that gives the description of the others, and of itself."""
    made: list[Json] = []

    async def answer(_: Called) -> object:
        if not made:
            made.append(description([*described, own]))
        return made[0]

    own = Endpoint("GET", "/openapi.json", None, answer, "This description.", gives=dict[str, Any])
    return own


def description(endpoints: Sequence[Endpoint]) -> Json:
    paths: dict[str, Json] = {}
    for one in endpoints:
        if not one.is_page:
            paths.setdefault(_NAMED.sub(r"{\1}", one.path), {})[one.method.lower()] = _operation(one)
    bearer = {"type": "http", "scheme": "bearer", "description": "A token of `adderclaw token create`."}
    return {
        "openapi": "3.1.0",
        "info": {"title": "AdderClaw", "version": __version__, "description": "An agent runtime on this machine."},
        "paths": paths,
        "components": {
            "securitySchemes": {"token": bearer},
            "schemas": {"Error": decode.schema(ErrorAnswer), "OpenAIError": decode.schema(OpenAIError)},
        },
    }


def _operation(one: Endpoint) -> Json:
    words = re.findall(r"\w+", one.path) or ["root"]
    made: Json = {
        "operationId": "_".join([one.method.lower(), *words]),
        "summary": one.summary,
        "responses": {str(one.status): _answer(one), "default": _error(one)},
        "security": [{"token": []}] if one.scope else [],
    }
    if one.scope:
        made["description"] = f"Scope: {one.scope}."
    parameters = [_in_path(name) for name in _NAMED.findall(one.path)]
    if one.takes is not None and one.method in ("GET", "DELETE"):
        parameters += _in_query(one.takes)
    elif one.takes is not None:
        schema = decode.schema(one.takes)
        form = "application/x-www-form-urlencoded" if one.is_form else "application/json"
        made["requestBody"] = {"required": bool(schema.get("required")), "content": {form: {"schema": schema}}}
    if parameters:
        made["parameters"] = parameters
    return made


def _in_path(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _in_query(kind: type) -> list[Json]:
    schema = decode.schema(kind)
    needed = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": entry}
        for name, entry in schema.get("properties", {}).items()
    ]


def _answer(one: Endpoint) -> Json:
    content: Json = {}
    if one.gives is not None:
        content["application/json"] = {"schema": decode.schema(one.gives)}
    if one.media_type != "application/json" or one.gives is None:
        content[one.media_type] = {}
    return {"description": one.summary, "content": content}


def _error(one: Endpoint) -> Json:
    name = "OpenAIError" if one.path.startswith("/v1/") else "Error"
    reference = {"$ref": f"#/components/schemas/{name}"}
    return {"description": "An error, in the one form.", "content": {"application/json": {"schema": reference}}}
