"""Prints the first request of a task run, for `--dry-run`."""

from adderclaw.core.types import Json


def text(details: Json) -> str:
    rows = ["dry run, no model is called", "candidates:"]
    rows += [f"  {name} {score:g} ({reason})" for name, score, reason in details["candidates"]] or ["  none"]
    shares = ", ".join(f"{name} {tokens:,}" for name, tokens in details["allocated"].items())
    rows.append(f"tokens, by {details['counted']}: {shares}")
    rows += [f"  {change}" for change in details["trimmed"]]
    rows.append("prompt:")
    rows += [f"  | {line}" for line in details["prompt"].split("\n")]
    return "\n".join(rows)
