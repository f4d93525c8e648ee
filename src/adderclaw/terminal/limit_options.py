"""Reads `--limit NAME=VALUE`."""

from dataclasses import fields

from adderclaw.config.schema import Limits
from adderclaw.core.decode import plain_type
from adderclaw.core.errors import UsageError

LIMITS: dict[str, type[int] | type[float]] = {spec.name: plain_type(spec.type) for spec in fields(Limits)}
LIMITS["rounds"] = int
"""The names `--limit` takes: the keys of [limits], and the rounds of a turn or of a LOOP."""


def limits(items: list[str] | None) -> dict[str, float]:
    """Parses `--limit tokens=1000` options, each name once, as numbers."""
    limits_by_name: dict[str, float] = {}
    for item in items or []:
        name, _, value = item.partition("=")
        if name not in LIMITS:
            raise UsageError(f"--limit {item[:100]!r}: expected NAME=VALUE, where NAME is one of {', '.join(LIMITS)}")
        if name in limits_by_name:
            raise UsageError(f"--limit {name}: given twice")
        try:
            limits_by_name[name] = LIMITS[name](value)
        except ValueError:
            kind = "a number" if LIMITS[name] is float else "a whole number"
            raise UsageError(f"--limit {item[:100]!r}: {name} must be {kind}") from None
        if not 0 <= limits_by_name[name] < float("inf"):
            raise UsageError(f"--limit {item[:100]!r}: must be 0 or more")
    return limits_by_name
