"""The error tree. Each error defines its exit code, and its message names the value, its location and the fix.

AdderClawError                 1   any error shown to the operator
├── UsageError                 2   an invalid command line
│   ├── AlreadyCompleted       2   the run to resume is already completed; carries its answer
│   └── NoModelChosen          2   no model is configured
├── ConfigError                2   invalid configuration; carries every problem
├── StoreError                 1   the database cannot be used
├── LedgerError                1   the receipt log cannot be written, so no tool may run
├── ProviderError              1   a failed model call, classified by ProviderError.kind
├── DeniedError                3   a guard, a judge or the operator refused a call
├── LimitError                 4   a limit is exhausted
├── NeedsInput                 5   an answer is needed and nobody is there
│   └── AnswerPending          5   the question stays open and may be answered later
└── Stopped                    6   the emergency stop is set

The outcome of a run has the exit code of the corresponding error (`EXIT_CODES`). Signals exit with 130 and 143.
"""

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import MISSING_KEY, EndedBy, Outcome, ProviderErrorKind

EXIT_CODES: dict[Outcome, int] = {
    "completed": 0,
    "error": 1,
    "denied": 3,
    "limit": 4,
    "needs_input": 5,
    "stopped": 6,
}
EXIT_USAGE = 2


class AdderClawError(Exception):
    """An error shown to the operator: one message that includes the fix."""

    exit_code = 1


class SessionInUse(AdderClawError):
    """Another process is using the session."""


class UsageError(AdderClawError):
    exit_code = EXIT_USAGE


class AlreadyCompleted(UsageError):
    """The run to resume is already completed. Carries its answer."""

    def __init__(self, run_id: str, answer: str) -> None:
        super().__init__(f"run {run_id} is already completed; there is nothing left to resume")
        self.run_id, self.answer = run_id, answer

    def as_json(self) -> dict[str, str | int]:
        return {"outcome": "completed", "answer": self.answer, "reason": "", "run_id": self.run_id}


class NoModelChosen(UsageError):
    """A model is needed and none is configured."""


class Problem(NamedTuple):
    """A problem in the configuration."""

    file: str
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.key}: {self.message}" if self.key else f"{self.file}: {self.message}"


class ConfigError(AdderClawError):
    exit_code = EXIT_USAGE

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))


class StoreError(AdderClawError):
    pass


class NotMigrated(StoreError):
    """A database of an earlier version, opened read-only."""


class LedgerError(AdderClawError):
    pass


class ProviderError(AdderClawError):
    """A failed model call. `kind` decides on retry and fallback; `retry_after` comes from the server."""

    RETRYABLE = frozenset({"network", "timeout", "rate_limit", "server_error", "malformed"})
    FALLBACK = RETRYABLE | {"authentication_failed", "billing_error", "missing_key"}

    def __init__(
        self,
        kind: ProviderErrorKind,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ProviderErrorKind = kind
        self.provider = provider
        self.status = status
        self.retry_after = retry_after
        self.request_hash = ""
        """Identifies the request. The agent loop sets it and `attempts`, the number of tries."""
        self.attempts = 0

    @property
    def retryable(self) -> bool:
        return self.kind in self.RETRYABLE

    @property
    def summary(self) -> str:
        """The kind and the message, used as the failure reason of a run."""
        return f"{MISSING_KEY if self.kind == 'missing_key' else self.kind}: {self}"

    @property
    def stop_failure(self) -> str:
        """The kind mapped to the values that StopFailure hooks and the `events` table allow."""
        match self.kind:
            case "network" | "timeout" | "malformed":
                return "server_error"
            case "context_overflow":
                return "invalid_request"
            case "missing_key":
                return "authentication_failed"
            case "script":
                return "unknown"
            case kind:
                return kind


class DeniedError(AdderClawError):
    exit_code = EXIT_CODES["denied"]


class PathRefused(DeniedError, ValueError):
    """A path that must not be used, with the reason."""

    @property
    def reason(self) -> str:
        return str(self)


class LimitError(AdderClawError):
    exit_code = EXIT_CODES["limit"]

    def __init__(self, message: str, by: EndedBy = "") -> None:
        super().__init__(message)
        self.by: EndedBy = by
        """The limit that was reached."""


class NeedsInput(AdderClawError):
    exit_code = EXIT_CODES["needs_input"]


class AnswerPending(NeedsInput):
    """A question without an answer yet. Resuming the run asks it again."""

    def __init__(self, approval_id: str, comment: str = "") -> None:
        super().__init__(f"{approval_id} waits for an answer" + (f": {comment}" if comment else ""))
        self.approval_id, self.comment = approval_id, comment


class Stopped(AdderClawError):
    exit_code = EXIT_CODES["stopped"]


def ended_by(error: AdderClawError) -> EndedBy:
    """The machine-readable reason why an error ended a run."""
    match error:
        case LimitError():
            return error.by
        case ProviderError():
            return error.kind
        case _:
            return ""


def outcome_of(error: AdderClawError) -> Outcome:
    """The outcome of a run that this error ended, derived from its exit code."""
    outcomes: list[Outcome] = [outcome for outcome, code in EXIT_CODES.items() if code == error.exit_code]
    return outcomes[0] if outcomes else "error"
