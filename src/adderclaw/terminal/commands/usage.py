"""`adderclaw usage`: tokens and cost of the model calls, by run, day, model, provider, project or conversation."""

from typing import Annotated, Literal

import typer

from adderclaw.agent.queries import usage as facts
from adderclaw.config.legacy.options import Options
from adderclaw.core.types import Json
from adderclaw.storage.model_calls import UsageSum
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat
from adderclaw.terminal.output import print_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def usage(
    by: Annotated[
        Literal["run", "day", "model", "provider", "project", "conversation"],
        typer.Option("--by", help="How to group the calls."),
    ] = "day",
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="2026-05-01, 2026-05-01T12:00, or 12h, 7d, 4w ago; UTC."),
    ] = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show the tokens and cost of model calls, in US dollars at known prices, the latest first.

    Example: adderclaw usage --by model --since 7d
    """
    report = facts.usage(Options(config_file=config), by, since)
    if output_format == "json":
        listed = [{by: row["key"], **_counts(row)} for row in report["rows"]]
        print_json({"by": by, "since": report["since"], "rows": listed, "total": _counts(report["total"])})
        return
    _print(by, report["rows"], report["total"])


def _counts(row: UsageSum) -> Json:
    return {name: value for name, value in row.items() if name != "key"}


def _print(by: str, rows: list[UsageSum], total: UsageSum) -> None:
    width = max((len(row["key"]) for row in rows), default=8)
    width = max(12, min(width, 60))
    print(f"{by:<{width}}  {'calls':>6}  {'in':>11}  {'cached':>11}  {'out':>9}  {'cost':>10}")
    last: UsageSum = {**total, "key": "total"}
    for row in (*rows, last):
        new = row["input_tokens"] + row["cache_write_tokens"]
        print(
            f"{row['key'] or '(unknown)':<{width}}  {row['calls']:>6,}  {new:>11,}  {row['cache_read_tokens']:>11,}"
            f"  {row['output_tokens']:>9,}  {_money(row):>10}"
        )
    if total["unpriced"]:
        fix = 'give prices under [models."NAME"]'
        print(f"{total['unpriced']} of {total['calls']} calls have no known price and are not in the cost: {fix}")
    if total["estimated"]:
        print(f"{total['estimated']} of {total['calls']} calls: the server sent no token count, so it is estimated")


def _money(row: UsageSum) -> str:
    if row["cost"] is None:
        return "unknown" if row["unpriced"] else "-"
    return f"${row['cost']:.4f}"
