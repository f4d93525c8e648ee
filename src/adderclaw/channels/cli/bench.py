"""`adderclaw bench tasks`: how many of 50 small tasks a model solves here, by checks that it never sees."""

import asyncio
import math
import os
import sys
from dataclasses import replace
from typing import Annotated

import typer

from adderclaw import __version__, home_names
from adderclaw.channels.bench import attempts, catalogue, checking, report, results
from adderclaw.channels.bench.attempts import Attempt, Runner
from adderclaw.channels.bench.catalogue import Named
from adderclaw.channels.bench.results import Board, Result, Terms
from adderclaw.channels.cli.common import ConfigFile, LimitsGiven, ModelName, OutputFormat, ProviderName, group
from adderclaw.channels.cli.plain import limits, print_json
from adderclaw.config import home
from adderclaw.config.model_catalogue import Prices
from adderclaw.config.options import Options
from adderclaw.credentials.redaction import Secrets
from adderclaw.errors import EXIT_SIGINT, UsageError
from adderclaw.kernel.clock import ids_with_runs
from adderclaw.runtime.session import chosen_by
from adderclaw.runtime.start import with_a_model
from adderclaw.types import Json

app = group("Measure a model at work: tasks with hidden checks.")
clean = Secrets().clean

DEFAULTS: dict[str, float] = {"cost_usd": 0.25, "tokens": 400_000, "tool_calls": 60, "seconds": 600.0}
"""What one attempt may use up."""
ROUNDS = 40
UNPRICED = (
    "the price of the model {0!r} is unknown, so {1}; "
    'give its price under [models."{0}"] (input_per_mtok, output_per_mtok)'
)
JOBS, MAX_COST = 1, 5.0
RUN_IDS = "YYYYMMDD-HHMMSS-<short-uuid>"


@app.callback()
def bench() -> None:
    """Measure a model at work: tasks with hidden checks."""


@app.command()
def tasks(
    list_them: Annotated[bool, typer.Option("--list", help="List the tasks; nothing runs.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME|KIND", help="Only these; may be repeated.")
    ] = None,
    provider: ProviderName = None,
    model: ModelName = None,
    config: ConfigFile = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, max=100, metavar="N", help="Attempts at each task.")] = 1,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, max=64, metavar="N", help="Attempts at once; default: 1.")
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option("--max-cost", min=0.0, metavar="USD", help="What all attempts may cost together; default: 5."),
    ] = None,
    limit: LimitsGiven = None,
    page: Annotated[
        str | None, typer.Option("--report", metavar="FILE", help="Write the results: .html or .md.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="DIR", help="Leave each attempt's workspace in this folder.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="BENCH_ID", help="Go on with a bench; `last` is the last one.")
    ] = None,
    output_format: OutputFormat = "text",
) -> None:
    """Run 50 small tasks with a model, each a run like any other, and check what came of each.

    The checks are outside of the workspace until the run has ended. Exit code 0 where every attempt was made,
    whatever it came to; 4 where --max-cost ended it, 1 where the provider failed, 130 after Ctrl-C.

    Example: adderclaw bench tasks --only docs --list
    """
    chosen = catalogue.chosen(only or [])
    if list_them:
        _list(chosen, output_format)
        return
    if page is not None:
        report.require_file(page)
    if keep is not None:
        attempts.require_keep(keep)
    if max_cost is not None and not math.isfinite(max_cost):
        raise UsageError(f"--max-cost {max_cost:g}: it is a number of dollars")
    folder = os.path.join(home(), home_names.BENCH)
    if resume is not None:
        if only or provider or model or config or limit or repeat != 1:
            raise UsageError("--resume goes on with the tasks, model and limits of that bench: leave the others out")
        board = results.resumed(folder, resume)
        said = {"jobs": jobs, "max_cost": max_cost}
        board.terms = replace(board.terms, **{name: value for name, value in said.items() if value is not None})
        board.terms = replace(board.terms, unpriced=_is_unpriced(board.terms, cost_limited=max_cost is not None))
    else:
        asked = Terms((), catalogue.digest(), __version__, provider, model, config, repeat, jobs or JOBS)
        given = limits(limit)
        cost_limited = max_cost is not None or "cost_usd" in given
        terms = _terms(asked, chosen, MAX_COST if max_cost is None else max_cost, given)
        terms = replace(terms, unpriced=_is_unpriced(terms, cost_limited=cost_limited))
        attempts.require_sandbox()
        board = results.begin(folder, ids_with_runs(RUN_IDS)("run"), terms)
    raise typer.Exit(_run(board, keep, page, output_format))


def _is_unpriced(terms: Terms, *, cost_limited: bool) -> bool:
    """Whether no cost limit can hold; UsageError where the user set one, or where no model can be asked."""
    chosen = Options(config_file=terms.config, provider=terms.provider, model=terms.model, asks="must")
    loaded, said = with_a_model(chosen)
    for text in said:
        print(clean(f"adderclaw: {text}"), file=sys.stderr)
    models = loaded.config.providers.models
    if terms.provider is not None and terms.provider not in models:
        raise UsageError(f"--provider {terms.provider}: no provider has that name; known: {', '.join(sorted(models))}")
    unpriced = Prices(loaded.config).before(*chosen_by(chosen, loaded.config)).unpriced
    if not unpriced:
        return False
    if cost_limited or loaded.origins.get("limits.cost_usd", "default") != "default":
        raise UsageError(UNPRICED.format(unpriced, "no limit of the cost can be enforced"))
    told = UNPRICED.format(unpriced, "only tokens, calls and seconds bound an attempt")
    print(clean(f"adderclaw: {told}"), file=sys.stderr)
    return True


def _terms(asked: Terms, chosen: tuple[Named, ...], max_cost: float, given: dict[str, float]) -> Terms:
    """The terms with the tasks that can be run here; each that cannot is named."""
    able: list[str] = []
    for name, task in chosen:
        if missing := checking.lacking(task):
            print(f"adderclaw: {name} is left out: it needs {', '.join(missing)}", file=sys.stderr)
        else:
            able.append(name)
    if not able:
        raise UsageError("no task is left: install what is missing, or choose others by --only")
    config = None if asked.config is None else os.path.abspath(asked.config)
    rounds = int(given.pop("rounds", ROUNDS))
    bounds = {**DEFAULTS, **given}
    return replace(asked, tasks=tuple(able), config=config, max_cost=max_cost, rounds=rounds, limits=bounds)


def _run(board: Board, keep: str | None, page: str | None, output_format: str) -> int:
    known = {one.name: one for one in catalogue.tasks()}
    left = [Attempt(known[name], number) for name, number in board.left()]
    every = board.terms.repeat * len(board.terms.tasks)

    def told(result: Result) -> None:
        board.add(result)
        done = len({(one.task, one.attempt) for one in board.results if one.counted})
        print(clean(_line(result, done, every)), file=sys.stderr, flush=True)

    runner = Runner(board.terms, board.spent(), None if keep is None else os.path.abspath(keep), told)
    if left:
        asyncio.run(runner.run(left))
    summary: Json = clean(board.summary())
    if output_format == "json":
        print_json(summary)
    else:
        _show(summary)
    if page is not None:
        report.write(board, page)
    if runner.why:
        print(clean(f"adderclaw: {runner.why}"), file=sys.stderr)
    if summary["left"]:
        again = f"adderclaw bench tasks --resume {board.bench_id}"
        print(f"adderclaw: {summary['left']} attempts are left; `{again}` goes on", file=sys.stderr)
    return _code(runner, summary)


def _code(runner: Runner, summary: Json) -> int:
    if runner.interrupted:
        return EXIT_SIGINT
    if not summary["left"]:
        return 0
    return 4 if runner.spent_all else 1


def _line(result: Result, done: int, every: int) -> str:
    how = ("pass" if result.passed else "fail") if result.counted else result.outcome
    cost = "" if result.cost is None else f"  ${result.cost:.4f}"
    used = f"{result.steps:>3} steps  {result.tokens:>8,} tokens{cost}  {result.seconds:>6.1f} s"
    why = "" if result.passed else f"  ({'; '.join(result.failed) or result.reason})"
    return f"[{done:>3}/{every}] {how:<5} {result.task:<26} {used}  {result.run_id}{why[:200]}"


def _show(summary: Json) -> None:
    print(report.headline(summary))
    for label, text in report.facts(summary):
        print(f"{label:<10} {text}")
    print(f"results    {os.path.join(home(), home_names.BENCH, summary['bench_id'])}.jsonl")


def _list(chosen: tuple[Named, ...], output_format: str) -> None:
    if output_format == "json":
        rows = [{"name": one.name, "kind": one.task.kind, "needs": list(one.task.needs)} for one in chosen]
        print_json([{**row, "text": one.task.text} for row, one in zip(rows, chosen, strict=True)])
        return
    for name, task in chosen:
        first = task.text.strip().partition("\n")[0]
        print(f"{name:<26} {task.kind:<9} {first[:100]}")
    print(f"{len(chosen)} tasks")
