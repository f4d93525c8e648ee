"""The OpenAI-compatible endpoints as values."""

from typing import Literal, TypedDict

from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.openai.chat import ChatCompletion, completion
from adderclaw.server.openai.requests import ChatBody, ResponsesBody
from adderclaw.server.openai.responses import ResponseAnswer, response
from adderclaw.server.openai.turn import models
from adderclaw.server.refusal import Refusal


class Model(TypedDict):
    id: str
    object: Literal["model"]
    created: int
    owned_by: Literal["adderclaw"]


class Models(TypedDict):
    object: Literal["list"]
    data: list[Model]


async def list_models(request: ApiRequest) -> Models:
    return {"object": "list", "data": [_model(request, name) for name in models(request)]}


async def show_model(request: ApiRequest) -> Model:
    name = request.path["model"]
    if name not in models(request):
        raise Refusal(404, "model_not_found", f"there is no model {name!r}: GET /v1/models lists them")
    return _model(request, name)


def _model(request: ApiRequest, name: str) -> Model:
    return {"id": name, "object": "model", "created": int(request.state.started), "owned_by": "adderclaw"}


STREAM = "text/event-stream"
ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/models",
        "openai",
        list_models,
        "The agent, and the agent with each provider.",
        gives=Models,
        reach="filtered",
    ),
    Endpoint("GET", "/v1/models/{model:path}", "openai", show_model, "One of them.", gives=Model, reach="filtered"),
    Endpoint(
        "POST",
        "/v1/chat/completions",
        "openai",
        completion,
        "A turn of the agent in a conversation of its own.",
        ChatBody,
        ChatCompletion,
        media_type=STREAM,
        reach="filtered",
    ),
    Endpoint(
        "POST",
        "/v1/responses",
        "openai",
        response,
        "A turn of the agent, in a new conversation or in that of an earlier response.",
        ResponsesBody,
        ResponseAnswer,
        media_type=STREAM,
        reach="filtered",
    ),
)
