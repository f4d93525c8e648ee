"""Reads `--limit NAME=VALUE`."""

from adderclaw.core.errors import UsageError

LIMITS: dict[str, type[int] | type[float]] = {
    "cost_usd": float,
    "tokens": int,
    "tool_calls": int,
    "seconds": float,
    "rounds": int,
}
"""What `--limit` takes: the keys of [limits], and the rounds of a turn or of a LOOP."""


def limits(given: list[str] | None) -> dict[str, float]:
    """`--limit tokens=1000`, each name once, as numbers."""
    found: dict[str, float] = {}
    for item in given or []:
        name, _, value = item.partition("=")
        if name not in LIMITS:
            raise UsageError(f"--limit {item[:100]!r}: it takes NAME=VALUE, and NAME is one of {', '.join(LIMITS)}")
        if name in found:
            raise UsageError(f"--limit {name}: given twice")
        try:
            found[name] = LIMITS[name](value)
        except ValueError:
            kind = "a number" if LIMITS[name] is float else "a whole number"
            raise UsageError(f"--limit {item[:100]!r}: {name} is {kind}") from None
        if not 0 <= found[name] < float("inf"):
            raise UsageError(f"--limit {item[:100]!r}: it is 0 or more")
    return found
