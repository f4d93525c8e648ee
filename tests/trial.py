"""Whether a sandbox starts on this machine: tried once for all tests of a process."""

from functools import cache

import pytest

from adderclaw.sandbox import confinement, programs


@cache
def why_not(kind: str) -> str | None:
    """What keeps this kind of sandbox from starting; None where it starts."""
    return confinement.trial(kind, ())


def bubblewrap() -> str:
    """The path of a bubblewrap that starts here; skips the test where none does."""
    if why := why_not("bubblewrap"):
        pytest.skip(f"bubblewrap does not start on this machine: {why}")
    return programs.bubblewrap(()) or ""
