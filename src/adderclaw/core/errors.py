"""The error tree: each error owns its exit code and says value, place and fix in its message.

AdderClawError                 1   anything the operator must read
├── UsageError                 2   a command line that makes no sense
│   ├── Completed              2   the run that is to go on has come to its end: carries what it answered
│   └── NoModel                2   nothing says which model to ask
├── ConfigError                2   configuration: carries every problem found, not the first
├── StoreError                 1   the database cannot be used
├── LedgerError                1   the receipt log cannot be written: no tool may run
├── ProviderError              1   a model call failed, classified (see ProviderError.kind)
├── DeniedError                3   a guard, a judge or the operator refused
├── LimitError                 4   a budget is used up
├── NeedsInput                 5   nobody is there to answer
│   └── StaysOpen              5   the question stays open, and may be answered later
└── Stopped                    6   the emergency stop is set

An outcome of a run has the exit code of the error of its name (`EXIT_CODES`). Signals end with 130 and 143.
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
EXIT_SIGINT = 130


class AdderClawError(Exception):
    """Something that the operator must read: one message, with the fix in it."""

    exit_code = 1


class InUse(AdderClawError):
    """Another process works in the session."""


class UsageError(AdderClawError):
    exit_code = EXIT_USAGE


class Completed(UsageError):
    """A run that is to go on has nothing left to do; whoever asked for that gets its answer."""

    def __init__(self, run_id: str, answer: str) -> None:
        super().__init__(f"run {run_id} is completed: there is nothing left to go on with")
        self.run_id, self.answer = run_id, answer

    def as_json(self) -> dict[str, str | int]:
        return {"outcome": "completed", "answer": self.answer, "reason": "", "run_id": self.run_id}


class NoModel(UsageError):
    """A model is to be asked and none is chosen."""


class Problem(NamedTuple):
    """One thing wrong in the configuration."""

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
    """A database of an earlier version that is only to be read."""


class LedgerError(AdderClawError):
    pass


class ProviderError(AdderClawError):
    """A model call that failed. `kind` decides on retry and fallback; `retry_after` is the server's own word."""

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
        """Which request it was, and how often it was tried: the kernel fills these in."""
        self.attempts = 0

    @property
    def retryable(self) -> bool:
        return self.kind in self.RETRYABLE

    @property
    def summary(self) -> str:
        """The kind and the message, as the reason of a run that it ended."""
        return f"{MISSING_KEY if self.kind == 'missing_key' else self.kind}: {self}"

    @property
    def stop_failure(self) -> str:
        """The word of the closed set that StopFailure hooks and the `events` table know."""
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


class Refused(DeniedError, ValueError):
    """A path or a place that must not be used, with the reason."""

    @property
    def reason(self) -> str:
        return str(self)


class LimitError(AdderClawError):
    exit_code = EXIT_CODES["limit"]

    def __init__(self, message: str, by: EndedBy = "") -> None:
        super().__init__(message)
        self.by: EndedBy = by
        """Which limit it is."""


class NeedsInput(AdderClawError):
    exit_code = EXIT_CODES["needs_input"]


class StaysOpen(NeedsInput):
    """A question has no answer yet, and may be answered later: whoever resumes the run asks it again."""

    def __init__(self, approval_id: str, comment: str = "") -> None:
        super().__init__(f"{approval_id} waits for an answer" + (f": {comment}" if comment else ""))
        self.approval_id, self.comment = approval_id, comment


class Stopped(AdderClawError):
    exit_code = EXIT_CODES["stopped"]


def ended_by(error: AdderClawError) -> EndedBy:
    """What an error says of the run that it ended, for a program to act on."""
    match error:
        case LimitError():
            return error.by
        case ProviderError():
            return error.kind
        case _:
            return ""


def outcome_of(error: AdderClawError) -> Outcome:
    """The outcome of a run that such an error ended: the one of its exit code."""
    found: list[Outcome] = [outcome for outcome, code in EXIT_CODES.items() if code == error.exit_code]
    return found[0] if found else "error"
