"""What an error says of the run that it ended."""

import pytest

from adderclaw.core.errors import (
    EXIT_CODES,
    AdderClawError,
    DeniedError,
    LimitError,
    NeedsInput,
    PathRefused,
    Stopped,
    UsageError,
    outcome_of,
)

ENDS: list[tuple[type[AdderClawError], str]] = [
    (DeniedError, "denied"),
    (PathRefused, "denied"),
    (LimitError, "limit"),
    (NeedsInput, "needs_input"),
    (Stopped, "stopped"),
    (UsageError, "error"),
    (AdderClawError, "error"),
]


@pytest.mark.parametrize(("kind", "outcome"), ENDS)
def test_outcome_and_exit_code_agree(kind: type[AdderClawError], outcome: str) -> None:
    error = kind("why")
    assert outcome_of(error) == outcome
    assert outcome == "error" or error.exit_code == EXIT_CODES[outcome_of(error)]
