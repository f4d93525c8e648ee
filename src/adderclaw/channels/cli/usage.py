"""`adderclaw usage`: tokens and cost of the model calls, by run, day, model or provider."""

import re
import time
from typing import Annotated, Literal

import typer

from adderclaw.channels.cli.common import ConfigFile, OutputFormat
from adderclaw.channels.cli.plain import print_json
from adderclaw.config import load
from adderclaw.credentials.redaction import Secrets
from adderclaw.errors import UsageError
from adderclaw.store import Store, model_calls
from adderclaw.store.model_calls import Used
from adderclaw.types import Json

app = typer.Typer(add_completion=False, rich_markup_mode=None)

UNITS = {"h": 3600, "d": 86_400, "w": 604_800}


@app.command()
def usage(
    by: Annotated[
        Literal["run", "day", "model", "provider"], typer.Option("--by", help="What the calls are put together by.")
    ] = "day",
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="2026-05-01, 2026-05-01T12:00, or 12h, 7d, 4w ago; UTC."),
    ] = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show what model calls took: tokens, and US dollars by the known prices. The latest comes first.

    Example: adderclaw usage --by model --since 7d
    """
    start = moment(since, time.time()) if since else None
    store = Store.open(load(config_file=config).config.memory.path, read_only=True)
    rows = model_calls.used(store, by, start)
    total = next(iter(model_calls.used(store, None, start)), Used("", 0, 0, 0, 0, 0, 0, 0.0, 0))
    if output_format == "json":
        listed = [{by: row.key, **_counts(row)} for row in rows]
        print_json(Secrets().clean({"by": by, "since": start, "rows": listed, "total": _counts(total)}))
        return
    _print(by, rows, total)


def moment(text: str, now: float) -> str:
    """A point in time as the database writes it."""
    if ago := re.fullmatch(r"(\d{1,5})([hdw])", text):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(max(0.0, now - int(ago[1]) * UNITS[ago[2]])))
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"):
        try:
            return time.strftime("%Y-%m-%d %H:%M:%S", time.strptime(text.removesuffix("Z"), form))
        except ValueError:
            continue
    raise UsageError(f"--since {text!r} is no time; give a date such as 2026-05-01, or how long ago: 12h, 7d, 4w")


def _counts(row: Used) -> Json:
    counts = row._asdict()
    del counts["key"]
    return counts | {"cost": None if row.cost is None else round(row.cost, 6)}


def _print(by: str, rows: list[Used], total: Used) -> None:
    width = max((len(row.key) for row in rows), default=8)
    width = max(12, min(width, 60))
    print(f"{by:<{width}}  {'calls':>6}  {'in':>11}  {'cached':>11}  {'out':>9}  {'cost':>10}")
    for row in (*rows, total._replace(key="total")):
        shown = str(Secrets().clean(row.key or "(unknown)"))
        new = row.input_tokens + row.cache_write_tokens
        print(
            f"{shown:<{width}}  {row.calls:>6,}  {new:>11,}  {row.cache_read_tokens:>11,}"
            f"  {row.output_tokens:>9,}  {_money(row):>10}"
        )
    if total.unpriced:
        fix = 'give prices under [models."NAME"]'
        print(f"{total.unpriced} of {total.calls} calls have no known price and are not in the cost: {fix}")


def _money(row: Used) -> str:
    if row.cost is None:
        return "unknown" if row.unpriced else "-"
    return f"${row.cost:.4f}"
