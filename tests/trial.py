"""Whether a sandbox starts on this machine: tried once for all tests of a process."""

from functools import cache

from adderclaw.sandbox import confinement


@cache
def why_not(kind: str) -> str | None:
    """What keeps this kind of sandbox from starting; None where it starts."""
    return confinement.trial(kind, ())
