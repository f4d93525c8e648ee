"""The common form of error responses: `{"error": {"code", "message", "problems"?}}`."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from starlette.responses import Response

from adderclaw.agent.conversation.watched import Full, NotYours, Unknown
from adderclaw.agent.tool_call.approvals import AnswerRejected
from adderclaw.core.decode import Invalid
from adderclaw.core.errors import AdderClawError, SessionInUse, UsageError
from adderclaw.core.redaction import Secrets
from adderclaw.storage.text import compact

clean = Secrets().clean


class Problem(TypedDict):
    """One thing that is wrong with what was given."""

    key: str
    message: str


class ErrorBody(TypedDict):
    code: str
    message: str
    problems: NotRequired[list[Problem]]


class ErrorAnswer(TypedDict):
    error: ErrorBody


class OpenAIErrorBody(TypedDict):
    message: str
    type: str
    param: str | None
    code: str


class OpenAIError(TypedDict):
    """The form of errors beneath `/v1/`."""

    error: OpenAIErrorBody


_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class Refusal(AdderClawError):
    """An error response: status, code for programs, message for people."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        problems: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status, self.code, self.message = status, code, message
        self.problems, self.headers = problems, dict(headers or {})
        super().__init__(message)

    def as_json(self) -> ErrorAnswer:
        wrong: ErrorBody = {"code": self.code, "message": clean(self.message)}
        if self.problems:
            wrong["problems"] = [{"key": clean(key), "message": clean(text)} for key, text in self.problems]
        return {"error": wrong}

    def as_openai(self) -> OpenAIError:
        """The error in the form of the OpenAI-compatible endpoints."""
        message = "; ".join(
            [self.message, *(f"{key}: {text}" for key, text in self.problems if key not in self.message)]
        )
        kind = _TYPES.get(self.status, "api_error" if self.status >= 500 else "invalid_request_error")
        param = self.problems[0][0] if self.problems else None
        return {"error": {"message": clean(message), "type": kind, "param": clean(param), "code": self.code}}

    def response(self, path: str = "") -> Response:
        body = self.as_openai() if path.startswith("/v1/") else self.as_json()
        return Response(compact(body), self.status, self.headers, "application/json")


def refusal_for(error: AdderClawError) -> Refusal:
    """The error response for an AdderClawError."""
    match error:
        case Refusal():
            return error
        case Invalid():
            return Refusal(400, "invalid", "the request does not fit: see problems", error.problems)
        case Unknown():
            return Refusal(404, "not_found", str(error))
        case NotYours():
            return Refusal(403, "client", str(error))
        case Full():
            return Refusal(429, "full", str(error), headers={"Retry-After": "5"})
        case AnswerRejected() | SessionInUse():
            return Refusal(409, "conflict", str(error))
        case UsageError():
            return Refusal(400, "refused", str(error))
        case _:
            return Refusal(503, "unavailable", str(error))


def shutting_down() -> Refusal:
    message = "the server is shutting down and starts nothing new: try again later"
    return Refusal(503, "ending", message, headers={"Retry-After": "5"})


def not_found(what: str, id: str) -> Refusal:
    return Refusal(404, "not_found", f"there is no {what} {id!r}")
