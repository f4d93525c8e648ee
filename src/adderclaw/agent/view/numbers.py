"""Numbers as pages show them: short, with their unit."""

from typing import Literal

type Unit = Literal["count", "tokens", "usd", "seconds", "share"]


def short(value: float | None, unit: Unit = "count") -> str:
    """A number in a short form for people."""
    if value is None:
        return "–"
    match unit:
        case "usd":
            return (
                f"${value:,.0f}" if value >= 1_000 else f"${value:.2f}" if value >= 0.1 or not value else _cents(value)
            )
        case "share":
            return f"{value * 100:.0f} %"
        case "seconds":
            return duration(value)
        case "count" | "tokens":
            return _counted(value)


def _cents(value: float) -> str:
    return f"${value:.4f}".rstrip("0") if value >= 0.0001 else "<$0.0001"


def _counted(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scaled = value / (1e3 if letter == "k" else size)
            return f"{scaled:.1f}".removesuffix(".0") + letter
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def duration(seconds: float) -> str:
    """A duration in the unit that reads best: milliseconds, seconds, minutes or hours."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
