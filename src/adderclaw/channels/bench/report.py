"""The results of a bench as a page: HTML that stands alone, or Markdown."""

import os
from collections.abc import Iterable

from adderclaw.channels.bench.results import Board
from adderclaw.credentials.redaction import Secrets
from adderclaw.errors import AdderClawError, UsageError
from adderclaw.types import Json

HEAD = ("task", "kind", "attempt", "result", "outcome", "steps", "tokens", "cost", "seconds", "run", "what failed")
PROOF = (
    "Each attempt is a run: `adderclaw replay RUN --verify` proves it from its tape, `adderclaw receipt verify` its "
    "tool calls. The interval is Wilson's, with the tasks as independent trials."
)
ENDINGS = (".html", ".htm", ".md")


def require_file(path: str) -> None:
    """Refuse a file of no known format, and one that cannot be written, before anything is spent."""
    if not path.endswith(ENDINGS):
        raise UsageError(f"--report {path}: the name says the format: it ends in .html or .md")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise UsageError(f"--report {path}: there is no folder {folder}; make it first")
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(f"--report {path}: it cannot be written; give another")


def write(board: Board, path: str) -> None:
    summary: Json = Secrets().clean(board.summary())
    made = _markdown(summary) if path.endswith(".md") else _html(summary)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(made)
    except OSError as error:
        again = f"`adderclaw bench tasks --resume {board.bench_id} --report FILE` writes it elsewhere"
        raise AdderClawError(f"--report {path}: {error.strerror}; {again}") from error


def headline(summary: Json) -> str:
    """The result in one line."""
    low, high = (f"{100 * bound:.0f}" for bound in summary["interval_95"])
    rate = f"{100 * summary['pass_rate']:.0f} % (95 %: {low} to {high})"
    return f"{summary['passed']} of {summary['attempts']} attempts at {summary['tried']} tasks passed: {rate}"


def facts(summary: Json) -> list[tuple[str, str]]:
    cost = "no price is known" if summary["cost"] is None else f"${summary['cost']:.4f}"
    of_kinds = ", ".join(f"{kind} {count}" for kind, count in summary["by_kind"].items())
    return [
        ("model", f"{summary['model']} ({summary['provider'] or 'the default provider'})"),
        ("AdderClaw", f"{summary['adderclaw']}, tasks {summary['tasks_digest']}"),
        ("by kind", of_kinds or "–"),
        ("cost", f"{cost}, {summary['tokens']:,} tokens, {summary['steps']:,} steps, {summary['seconds']:,.0f} s"),
        ("not done", f"{summary['left']} attempts"),
    ]


def _rows(summary: Json) -> Iterable[list[str]]:
    for one in summary["results"]:
        result = ("pass" if one["passed"] else "fail") if one["counted"] else "not counted"
        cost = "–" if one["cost"] is None else f"${one['cost']:.4f}"
        why = "; ".join(one["failed"]) or one["reason"]
        how = [one["task"], one["kind"], str(one["attempt"]), result, one["outcome"], str(one["steps"])]
        yield [*how, f"{one['tokens']:,}", cost, f"{one['seconds']:.1f}", one["run_id"], why]


def _markdown(summary: Json) -> str:
    def cell(text: str) -> str:
        return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())

    lines = [f"# Bench {summary['bench_id']}", "", headline(summary) + ".", ""]
    lines += [f"- {label}: {cell(text)}" for label, text in facts(summary)]
    lines += ["", PROOF, "", f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    lines += [f"| {' | '.join(map(cell, row))} |" for row in _rows(summary)]
    return "\n".join(lines) + "\n"


def _html(summary: Json) -> str:
    from adderclaw.view.page import Heading, Line, Table, page

    blocks = [Line("result", headline(summary)), *(Line(*fact) for fact in facts(summary)), Line("proof", PROOF)]
    return page(f"Bench {summary['bench_id']}", [*blocks, Heading("Attempts"), Table(HEAD, list(_rows(summary)))])
