"""`adderclaw models`: lists and updates the table of known models."""

import asyncio
import os
import sys
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from adderclaw.config import home
from adderclaw.config.model_facts import table as model_table
from adderclaw.config.model_facts.catalogue import facts
from adderclaw.config.model_facts.table import ALIASES, Table
from adderclaw.config.schema import Config
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.terminal.commands.common import OutputFormat, group
from adderclaw.terminal.output import Format, print_json

if TYPE_CHECKING:
    from adderclaw.agent.model_refresh import Fall

app = group("List the table of known models, or update it.")

STALE_DAYS = 30


@app.command("list")
def list_models(
    name: Annotated[str, typer.Argument(help="List only names that contain this; default: all.")] = "",
    output_format: OutputFormat = "text",
) -> None:
    """List the known models: context window, price, inputs; and what the aliases stand for. Uses no network.

    A name that ends in * is a prefix. Settings under `[models]` are not included.

    Example: adderclaw models list sonnet
    """
    table = model_table.in_effect()
    unused = model_table.refreshed()
    problem = f"{unused.path} is not used: {unused.problem}" if unused is not None and unused.problem else ""
    plain = Config()  # the table without the operator's settings
    rows = [_described(model, plain) for model in sorted(table.models) if name.lower() in model]
    aliases = _aliases()
    if output_format == "json":
        print_json({**_about(table), "problem": problem, "aliases": aliases, "models": rows})
        return
    for row in rows:
        if "@" not in row["model"] and not row["model"].endswith(model_table.DATED):  # other spellings
            print(_line(row))
    if not rows:
        print(f"No known model has {name!r} in its name.")
    print("aliases: " + ", ".join(f"{alias} = {model}" for alias, model in aliases.items()))
    print(_age(table))
    if problem:
        print(visible(problem), file=sys.stderr)


def _described(model: str, config: Config) -> Json:
    known = facts(model.removesuffix("*"), config)
    return {"model": model, **{key: value for key, value in known._asdict().items() if key != "assumed"}}


def _line(row: Json) -> str:
    window = f"{row['context_tokens']:,}" if row["context_tokens"] else "-"
    priced = row["input_per_mtok"] is not None and row["output_per_mtok"] is not None
    price = f"${row['input_per_mtok']:g} in, ${row['output_per_mtok']:g} out" if priced else "no price"
    takes = ", ".join(word for word in ("vision", "pdf", "thinking") if row[word])
    return f"{row['model']:<36} {window:>10}  {price:<24} {takes}".rstrip()


def _aliases() -> dict[str, str]:
    newest = {alias: model_table.newest(kind, alias) for kind, names in ALIASES.items() for alias in names}
    return {alias: model for alias, model in newest.items() if model is not None}


def _about(table: Table) -> Json:
    return {
        "file": table.path,
        "refreshed": table.path != model_table.packaged().path,
        "source": table.source,
        "fetched": table.fetched,
        "age_days": _days(table),
    }


def _days(table: Table) -> int:
    return max(0, (date.today() - date.fromisoformat(table.fetched)).days)


def _age(table: Table) -> str:
    days = _days(table)
    old = f"{days} day{'s' * (days != 1)} old"
    where = "packaged" if table.path == model_table.packaged().path else "refreshed"
    hint = "; `adderclaw models refresh` updates it" if days > STALE_DAYS else ""
    version = str(table.source.get("version", "?"))[:40]
    return visible(f"The {where} table is from {table.fetched} ({old}, genai-prices {version}){hint}.")


# ------------------------------------------------------------------ update


@app.command()
def refresh(
    accept: Annotated[
        bool, typer.Option("--accept-lower-prices", help="Accept prices that fall by more than half, without asking.")
    ] = False,
    index: Annotated[
        str, typer.Option("--index", metavar="URL", help="The package index to use.")
    ] = "https://pypi.org",
    output_format: OutputFormat = "text",
) -> None:
    """Update the table of models from the newest `genai-prices` on the package index.

    The package is verified by its hash and read as data: none of its code runs. A price that falls by more than half
    is shown, and applies only once you confirm it: at a terminal, or with --accept-lower-prices.

    Example: adderclaw models refresh
    """
    from adderclaw.agent import model_refresh

    current = model_table.in_effect()
    try:
        fetched = asyncio.run(model_refresh.fetch(index, date.today()))
    except AdderClawError as error:
        raise AdderClawError(f"{error}. Nothing was changed. {_age(current)}") from None
    fallen = model_refresh.falls(current, fetched)
    accepted = accept or not fallen or _confirm(fallen, output_format)
    if not accepted:
        fetched = model_refresh.without(fetched, current, fallen)
    table = model_refresh.merged(current, fetched)
    os.makedirs(home(), mode=0o700, exist_ok=True)
    model_table.write(table._replace(path=os.path.join(home(), home_names.MODELS)))
    _report(current, model_table.in_effect(), fallen, accepted, output_format)


def _confirm(fallen: "list[Fall]", output_format: Format) -> bool:
    """Whether the operator accepts the lower prices; without a terminal they are not accepted."""
    for fall in fallen:
        print(_print_price_fall(fall), file=sys.stderr)
    if output_format == "json" or not sys.stdin.isatty():
        return False
    return bool(typer.confirm("Accept these lower prices?", default=False, err=True))


def _print_price_fall(fall: "Fall") -> str:
    kind = fall.price.removesuffix("_per_mtok").replace("_", " ")
    return visible(f"{fall.model}: {kind} falls from ${fall.before:g} to ${fall.after:g} per million tokens")


def _report(before: Table, now: Table, fallen: "list[Fall]", accepted: bool, output_format: Format) -> None:
    new = sorted(now.models.keys() - before.models.keys())
    if output_format == "json":
        held = [] if accepted else [fall._asdict() for fall in fallen]
        print_json({**_about(now), "new": new, "aliases": _aliases(), "lower_prices_held_back": held})
        return
    print(f"{now.path}: {len(now.models)} models, {len(new)} of them new")
    for name in new[:20]:
        print(f"  {visible(name)}")
    if not accepted:
        print("The prices that would fall by more than half stay as they are; --accept-lower-prices accepts them.")
    print("aliases: " + ", ".join(f"{alias} = {model}" for alias, model in _aliases().items()))
    print(_age(now))
