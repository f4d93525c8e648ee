"""What is owed and what shows it: run the rows of acceptance/rows.toml, or write docs/ACCEPTANCE_MATRIX.md of them.

.venv/bin/python scripts/acceptance.py matrix [--check]
.venv/bin/python scripts/acceptance.py left-to-test-all
.venv/bin/python scripts/acceptance.py run [--junit FILE [--rest]] [--passed COMMAND]… [--delivered] [ID]…
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.extended import reason  # noqa: E402

ROWS = ROOT / "acceptance" / "rows.toml"
PAGE = ROOT / "docs" / "ACCEPTANCE_MATRIX.md"
TEST = re.compile(r"tests/[\w/]+\.py::[\w:]+(\[.+\])?")
STEPS = {8: "the fleet", 9: "packages"}
"""The steps that are still to come; a row may also be open in the one that is being built."""
BUILDING = 8
KEYS = {"owed", "shows", "rows", "open", "why", "by_hand"}
FORBIDDEN = re.compile("manual review|TBD|smoke test|nightly only", re.IGNORECASE)


class Check(NamedTuple):
    """One command and its expected outcome."""

    run: str
    exit: int = 0
    prints: str = ""
    apart: bool = False
    """Whether it is no part of each commit's run: too long, or a test of which that runs nothing five times in six."""

    @property
    def is_test(self) -> bool:
        return self.run.startswith("tests/")

    def __str__(self) -> str:
        shown = "`" + self.run.replace("|", "\\|") + "`"
        shown += f" exits {self.exit}" if self.exit else ""
        return shown + (f" and prints `{self.prints}`" if self.prints else "")


class Row(NamedTuple):
    """One obligation; `open` is the step that owes it, 0 where it is met."""

    name: str
    owed: str
    checks: tuple[Check, ...]
    open: int = 0
    why: str = ""
    by_hand: tuple[str, str] | None = None
    rows: tuple[str, ...] = ()
    """Other rows of which it is the sum: it is met when all of them are."""


class Rows(NamedTuple):
    """All rows in their order, and each title with the first row below it."""

    all: dict[str, Row]
    titles: dict[str, str]


class Wrong(Exception):
    """The file of rows, or a report, cannot be used."""


# ------------------------------------------------------------------ reading


def read(text: str) -> Rows:
    """The rows of the file; every mistake in one message."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Wrong(f"acceptance/rows.toml: {error}") from None
    wrong: list[str] = []
    rows = {name: _row(name, given, wrong) for name, given in found.items()}
    plain = {name for name, row in rows.items() if not row.rows}
    for name, row in rows.items():
        if unknown := [one for one in row.rows if one not in plain]:
            wrong.append(f"{name}: {', '.join(unknown)} is no row that shows something itself")
    if wrong:
        raise Wrong("\n".join(f"acceptance/rows.toml: {one}" for one in wrong))
    titles: dict[str, str] = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("# ---- "):
            title = line[7:].strip()
        elif title and (named := re.fullmatch(r"\[([\w-]+)\]", line)):
            titles[named[1]], title = title, ""
    return Rows(rows, titles)


def _row(name: str, given: Any, wrong: list[str]) -> Row:
    if not isinstance(given, dict) or not isinstance(given.get("owed"), str) or not given["owed"]:
        wrong.append(f"{name}: it does not say what is owed")
        return Row(name, "", ())
    if strange := given.keys() - KEYS:
        wrong.append(f"{name}: {', '.join(sorted(strange))} is no key of a row")
    checks = tuple(_check(name, one, wrong) for one in given.get("shows", ()))
    step, why = given.get("open", 0), given.get("why", "")
    if step and (step not in (BUILDING, *STEPS) or not why):
        wrong.append(f"{name}: `open` names a step that is not finished ({BUILDING} to {max(STEPS)}), `why` a reason")
    if not step and not checks and not given.get("rows"):
        wrong.append(f"{name}: nothing shows it, and it is not open")
    if any(FORBIDDEN.search(text) for text in (given["owed"], why, *(check.run for check in checks))):
        wrong.append(f"{name}: it can be checked by a command, or it is open")
    hand = given.get("by_hand")
    return Row(name, given["owed"], checks, step, why, tuple(hand) if hand else None, tuple(given.get("rows", ())))


def _check(name: str, given: Any, wrong: list[str]) -> Check:
    try:
        check = Check(given) if isinstance(given, str) else Check(**given)
    except TypeError:
        wrong.append(f"{name}: {given!r} is no command with its outcome")
        return Check("")
    if check.is_test and (not TEST.fullmatch(check.run) or len(check) != len(Check._fields)):
        wrong.append(f"{name}: {check.run} is no name of a test")
    return check


# ------------------------------------------------------------------ the page


def page(rows: Rows) -> str:
    """docs/ACCEPTANCE_MATRIX.md."""
    owing = sorted({row.open for row in rows.all.values() if row.open})
    lines = [
        "# Acceptance matrix",
        "",
        "What is owed, and what shows it. Generated of `acceptance/rows.toml` by `scripts/acceptance.py matrix`: edit",
        "that file. A row is met when every command in its last column ends as the row says (exit code 0 where it says",
        "nothing); a name that begins with `tests/` is run with `.venv/bin/pytest NAME`. `scripts/sdlc-acceptance.sh`",
        "runs all of them. Ids are those of the requirements; M rows are measurements.",
        "",
        "A row with **spec-must** is open, with the step that owes it and the reason. While there is one, the project",
        f"is not DELIVERED. {_counted(rows)}",
        "",
        *(f"- Step {step}: {STEPS.get(step, 'being built')}" for step in owing),
        "",
    ]
    for name, row in rows.all.items():
        if name in rows.titles:
            lines += ["", f"## {rows.titles[name]}", "", "| id | obligation | shown by |", "|---|---|---|"]
        shown = ", ".join([*map(str, row.checks), *(["the rows " + ", ".join(row.rows)] if row.rows else [])])
        if row.open:
            shown = f"**spec-must**, step {row.open}: {row.why}" + (f"; so far {shown}" if shown else "")
        lines.append(f"| {name} | {_cell(row.owed)} | {shown} |")
    lines += [
        "",
        "## By hand",
        "",
        "What to run for the rows that a reader asks about first, and what it shows. A test of the row does the same.",
        "",
        "| row | run | it shows |",
        "|---|---|---|",
        *(
            f"| **{row.name}** | {_cell(row.by_hand[0])} | {_cell(row.by_hand[1])} |"
            for row in rows.all.values()
            if row.by_hand
        ),
    ]
    return re.sub("\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _counted(rows: Rows) -> str:
    owing = Counter(row.open for row in rows.all.values() if row.open)
    text = ", ".join(f"{count} of step {step}" for step, count in sorted(owing.items()))
    return f"Of {len(rows.all)} rows {sum(owing.values())} are open: {text}." if owing else "None is open."


def left_to_test_all(rows: Mapping[str, Row]) -> dict[str, list[str]]:
    """The rows of which `make test` runs no test, by the reason why it leaves out their tests."""
    left: dict[str, list[str]] = {}
    for row in rows.values():
        reasons = [reason(check.run) for check in row.checks if check.is_test]
        if reasons and all(reasons):
            left.setdefault(", ".join(dict.fromkeys(reasons)), []).append(row.name)
    return left


# ------------------------------------------------------------------ running


type Results = dict[str, str]
"""Test, with and without its parameters → "" where it passed, else what was wrong."""


def report(path: str, commit: str | None) -> Results:
    """What a junit report says of each test; the report has to be of this commit, which is the name of its suite."""
    try:
        root = ET.parse(path).getroot()  # noqa: S314
    except (OSError, ET.ParseError) as error:
        raise Wrong(f"{path} is no report of a test run: {error}") from None
    suites = root.findall("testsuite") if root.tag == "testsuites" else [root]
    results: Results = {}
    for suite in suites:
        if commit is not None and suite.get("name") != commit:
            raise Wrong(f"{path} is the report of {suite.get('name')}, and this is {commit}: run the tests again")
        for case in suite.iter("testcase"):
            wrong = next((one.tag for one in case if one.tag in ("failure", "error", "skipped")), "")
            where, name = case.get("classname", ""), case.get("name", "")
            for called in {f"{where}::{name}", f"{where}::{name.partition('[')[0]}"}:
                results[called] = results.get(called) or wrong
    return results


def in_report(test: str) -> str:
    """How a report calls a test: `tests/a/test_b.py::test_c` is `tests.a.test_b::test_c`."""
    path, _, name = test.partition("::")
    *classes, last = name.split("::")
    return ".".join([path.removesuffix(".py").replace("/", "."), *classes]) + "::" + last


def exists(test: str) -> bool:
    """Whether there is such a function: a name that pytest does not know would end its run before it begins."""
    path, _, name = test.partition("::")
    last = name.partition("[")[0].rpartition("::")[2]
    try:
        text = (ROOT / path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return re.search(rf"^\s*(async )?def {last}\(", text, re.MULTILINE) is not None


def run_tests(tests: Sequence[str], **more: str) -> Results:
    """The tests in one run of pytest; what it prints goes to stderr."""
    if not tests:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "report.xml")
        words = [sys.executable, "-m", "pytest", "-n", "4", "--dist", "worksteal", f"--junitxml={file}", *tests]
        subprocess.run(words, cwd=ROOT, stdout=sys.stderr, env={**os.environ, **more}, check=False)
        return report(file, None) if os.path.exists(file) else {}


def make_test() -> Results:
    """`make test` and each of its tests: what it ran need not run again."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "report.xml")
        done = subprocess.run(["make", "test", f"ARGS=--junitxml={file}"], cwd=ROOT, stdout=sys.stderr, check=False)
        results = report(file, None) if os.path.exists(file) else {}
    return results | {"make test": f"make test exits {done.returncode}" if done.returncode else ""}


def outcome(check: Check, results: Results, passed: Iterable[str]) -> str:
    """Nothing where the check holds, else what was wrong with it."""
    if check.run in results:
        return results[check.run]
    if check.is_test:
        wrong = results.get(in_report(check.run))
        if wrong is None:
            return f"{check.run} was not run: there is no such test in the report"
        return f"{check.run}: {wrong}" if wrong else ""
    if check.run in passed:
        return ""
    env = {**os.environ, "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ.get('PATH', os.defpath)}"}
    words = ["bash", "-c", check.run]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, stdin=-3, check=False)
    if done.returncode != check.exit:
        return f"{check.run} exits {done.returncode} instead of {check.exit}\n{(done.stdout + done.stderr)[-2000:]}"
    return "" if check.prints in done.stdout + done.stderr else f"{check.run} does not print {check.prints!r}"


class Tally(NamedTuple):
    """What came of the rows."""

    green: list[str]
    open: dict[str, int]
    failed: dict[str, str]
    apart: list[str]

    def __str__(self) -> str:
        owing = ", ".join(f"{count} of step {step}" for step, count in sorted(Counter(self.open.values()).items()))
        parts = [f"{len(self.green)} green", f"{len(self.open)} open" + (f" ({owing})" if owing else "")]
        parts += [f"{len(self.apart)} not run here ({', '.join(self.apart)})"] if self.apart else []
        return ", ".join([*parts, f"{len(self.failed)} failed"])

    @property
    def delivered(self) -> bool:
        return not (self.open or self.failed or self.apart)


def judge(rows: Mapping[str, Row], results: Results, passed: Sequence[str], *, all_of_it: bool) -> Tally:
    """Every row in the order of the file; a row that is open still may not break what it has."""
    tally = Tally([], {}, {}, [])
    known: dict[Check, str] = {}
    for row in sorted(rows.values(), key=lambda row: bool(row.rows)):  # sums after what they are the sum of
        here = [check for check in row.checks if all_of_it or not check.apart]
        for check in here:
            if check not in known:
                known[check] = outcome(check, results, passed)
        if wrong := [known[check] for check in here if known[check]]:
            tally.failed[row.name] = "\n  ".join(wrong)
        elif failing := [name for name in row.rows if name in tally.failed]:
            tally.failed[row.name] = f"{', '.join(failing)} failed"
        elif step := max(row.open, *(tally.open.get(name, 0) for name in ("", *row.rows))):
            tally.open[row.name] = step
        elif len(here) < len(row.checks) or any(name in tally.apart for name in row.rows):
            tally.apart.append(row.name)
        else:
            tally.green.append(row.name)
    return tally


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def run(given: argparse.Namespace) -> int:
    rows = read(given.rows.read_text(encoding="utf-8")).all
    if given.ids:
        if unknown := [name for name in given.ids if name not in rows]:
            raise Wrong(f"there is no row {', '.join(unknown)}")
        wanted = {*given.ids, *(one for name in given.ids for one in rows[name].rows)}
        rows = {name: row for name, row in rows.items() if name in wanted}
    all_of_it = given.rest or not given.junit
    commands = {check.run for row in rows.values() for check in row.checks}
    checks = {check for row in rows.values() for check in row.checks if check.is_test and exists(check.run)}
    if given.junit:
        results = report(given.junit, commit())
    else:
        results = make_test() if "make test" in commands - {*given.passed} else {}
        left = (check.run for check in checks if not check.apart and in_report(check.run) not in results)
        results |= run_tests(sorted(left))
    if all_of_it:
        results |= run_tests(sorted(check.run for check in checks if check.apart), ADDERCLAW_SOAK="1")
    tally = judge(rows, results, given.passed, all_of_it=all_of_it)
    for name in filter(tally.failed.get, rows):
        print(f"{name} FAILED: {rows[name].owed}\n  {tally.failed[name]}", file=sys.stderr)
    for name in filter(tally.open.get, rows):
        print(f"{name} spec-must, step {tally.open[name]}: {rows[name].why or 'the sum of rows that are open'}")
    print(f"acceptance: {len(rows)} rows: {tally}")
    print(f"DELIVERED: {'true' if tally.delivered and not given.ids else 'false'}")
    if tally.failed:
        print(f"acceptance: the first row that failed is {next(filter(tally.failed.get, rows))}", file=sys.stderr)
        return 1
    return 3 if tally.open or (given.delivered and tally.apart) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    matrix = commands.add_parser("matrix", help="write docs/ACCEPTANCE_MATRIX.md")
    matrix.add_argument("--check", action="store_true", help="write nothing; exit 1 where it is not current")
    commands.add_parser("left-to-test-all", help="the rows that `make test` does not show, and what they need")
    running = commands.add_parser("run", help="run the rows")
    running.add_argument("ids", nargs="*", metavar="ID", help="these rows alone")
    running.add_argument("--junit", help="the report of a test run of this commit, instead of running the tests")
    running.add_argument(
        "--rest", action="store_true", help="with --junit: run what is no part of each commit's run, too"
    )
    running.add_argument("--passed", action="append", default=[], help="a command that was run already, and passed")
    running.add_argument("--rows", type=Path, default=ROWS, help="another file of rows")
    running.add_argument("--delivered", action="store_true", help="exit 3 also where a row was not run")
    given = parser.parse_args()
    try:
        if given.command == "run":
            return run(given)
        rows = read(ROWS.read_text(encoding="utf-8"))
        if given.command == "left-to-test-all":
            for needed, names in left_to_test_all(rows.all).items():
                print(f"left to make test-all ({needed}): {', '.join(names)}")
            return 0
        made = page(rows)
    except Wrong as error:
        print(error, file=sys.stderr)
        return 2
    if not given.check:
        PAGE.write_text(made, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
        print("docs/ACCEPTANCE_MATRIX.md is not current: run scripts/acceptance.py matrix", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
