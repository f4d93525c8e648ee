"""Parses a project's feature files with Gherkin's own parser, in any of its languages, and syncs them to the status."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, cast

from adderclaw.core.errors import PathRefused, UsageError
from adderclaw.core.json_text import digest
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.flows.spec import status
from adderclaw.flows.spec.status import Mark, Scenario, Status
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath

if TYPE_CHECKING:
    from gherkin.errors import ParserException
    from gherkin.parser_types import Background, Rule, Step, TableRow
    from gherkin.parser_types import Scenario as Written

    class Child(TypedDict, total=False):
        """A child of a feature or a rule is one of these."""

        background: Background
        rule: Rule
        scenario: Written


FOLDER = "features"
MAX_FILES = 500
MAX_BYTES = 256 * 1024
_ID = re.compile(r"@(SC-[A-Za-z0-9._-]{1,61})")
STEPS_CHANGED = (
    "its steps in {file} are no longer the required ones, so it was not verified: restore them. If they must change, "
    "an operator has to decide that (`adderclaw spec sync`): report it with `blocked`"
)
GONE = f"no file in {FOLDER}/ contains it any more"


class FeatureScenario(NamedTuple):
    """A scenario of a feature file."""

    id: str
    """The id in its tag (`@SC-F001`); empty without one."""
    feature: str
    """Its file, relative to the folder of features."""
    name: str
    steps: str
    """A digest of its steps, including those of its background, and its examples."""
    line: int


class SyncResult(NamedTuple):
    """What syncing the feature files changed in the status, by id."""

    status: Status
    added: tuple[str, ...]
    changed: tuple[str, ...]
    """They had passed, but their steps have changed, so they must pass again."""
    deprecated: tuple[str, ...]
    undescribed: tuple[str, ...]
    """They are declared, but no feature file contains them."""

    def as_json(self) -> Json:
        lists = {key: list(value) for key, value in self._asdict().items() if key != "status"}
        return {**lists, "scenarios_passed": self.status.passed, "scenarios_total": self.status.total}


def read_features(project: str) -> list[FeatureScenario]:
    """All scenarios of all feature files. Raises UsageError with every invalid line."""
    scenarios: list[FeatureScenario] = []
    wrong: list[str] = []
    for file in _feature_files(project):
        feature = file.text.removeprefix(WorkspacePath(project, FOLDER).text).lstrip("/")
        try:
            scenarios += _parse_feature(file, feature)
        except ValueError as error:
            wrong += [f"{FOLDER}/{visible(feature)}:{line}" for line in str(error).splitlines()]
    wrong += _duplicates(scenarios)
    if wrong:
        raise UsageError("\n".join(visible(line) for line in wrong[:20]))
    return scenarios


def steps_of(project: str, scenario: Scenario) -> str:
    """The digest of a scenario's steps in its feature file; empty if the file does not contain it."""
    try:
        written = _parse_feature(WorkspacePath(project, f"{FOLDER}/{scenario.feature}"), scenario.feature)
    except ValueError:
        return ""
    named = [candidate for candidate in written if candidate.id == scenario.id]
    named = named or [candidate for candidate in written if not candidate.id and candidate.name == scenario.name]
    return named[0].steps if len(named) == 1 else ""


def pin_steps(project: str, now: Status | None) -> None:
    """Records the steps of declared scenarios without recorded steps; from now on these are required."""
    seen = {
        scenario.id: steps_of(project, scenario)
        for scenario in (now.wanted if now is not None else ())
        if not scenario.passed
    }
    fresh = {id: steps for id, steps in seen.items() if steps and now is not None and not _steps(now, id)}
    if not fresh:
        return

    def change(status: Status | None) -> Status:
        assert status is not None
        known = {scenario.id for scenario in status.scenarios}
        marks = {id: replace(status.marks.get(id, Mark()), steps=steps) for id, steps in fresh.items() if id in known}
        return Status(status.scenarios, {**status.marks, **marks})

    status.change_status(project, change)


def _steps(now: Status, id: str) -> str:
    return now.marks.get(id, Mark()).steps


def changed_steps(project: str, now: Status, scenario: Scenario) -> str:
    """Why the steps in the feature file are not the required ones; empty if they are."""
    noted = _steps(now, scenario.id)
    if not noted or steps_of(project, scenario) == noted:
        return ""
    return STEPS_CHANGED.format(file=f"{FOLDER}/{scenario.feature}")


def sync(project: str) -> SyncResult:
    """Adds new scenarios, requires changed ones again, and deprecates missing ones; never removes any."""
    described = read_features(project)
    if not described and status.read(project) is None:
        raise UsageError(f"{FOLDER}/*.feature has no scenarios: write one, or let `adderclaw run` write them")
    results: list[SyncResult] = []

    def change(now: Status | None) -> Status:
        results.append(_sync_status(now if now is not None else Status(()), described))
        return results[0].status

    status.change_status(project, change)
    return results[0]


def _sync_status(now: Status, described: Sequence[FeatureScenario]) -> SyncResult:
    by_id = {scenario.id: scenario for scenario in now.scenarios}
    by_name = {(scenario.feature, scenario.name): scenario for scenario in now.scenarios}
    marks, added, changed = dict(now.marks), list[str](), list[str]()
    rows = {scenario.id: scenario for scenario in now.scenarios}
    seen: set[str] = set()
    for scenario in described:
        known = by_id.get(scenario.id) if scenario.id else by_name.get((scenario.feature, scenario.name))
        id = (
            known.id if known is not None else scenario.id or f"SC-{digest(f'{scenario.feature}\n{scenario.name}')[:8]}"
        )
        if known is None:
            added.append(id)
        mark = marks.get(id, Mark())
        is_changed = known is not None and known.passed and mark.steps not in ("", scenario.steps)
        if is_changed:
            changed.append(id)
        passed = known is not None and known.passed and not is_changed
        rows[id] = Scenario(id, scenario.feature, scenario.name, passed)
        marks[id] = replace(mark, deprecated="" if mark.deprecated == GONE else mark.deprecated, steps=scenario.steps)
        seen.add(id)
    gone = [id for id, mark in marks.items() if id in by_id and id not in seen and mark.steps and not mark.deprecated]
    for id in gone:
        marks[id] = replace(marks[id], deprecated=GONE)
    undescribed = tuple(id for id in by_id if id not in seen and not marks.get(id, Mark()).steps)
    synced = status.check_status(Status(tuple(rows.values()), marks))
    return SyncResult(synced, tuple(added), tuple(changed), tuple(gone), undescribed)


# ------------------------------------------------------------------ the files


def _feature_files(project: str) -> list[WorkspacePath]:
    files = [
        entry.path
        for entry in workspace.walk(WorkspacePath(project, FOLDER))
        if entry.is_file and entry.path.text.endswith(".feature")
    ]
    if len(files) > MAX_FILES:
        raise UsageError(f"{FOLDER}/ has {len(files)} feature files; at most {MAX_FILES} are read")
    return sorted(files, key=lambda file: file.text)


def _parse_feature(file: WorkspacePath, feature: str) -> list[FeatureScenario]:
    """Raises ValueError with the problems, one per line, each with its line number."""
    from gherkin.errors import CompositeParserException, ParserException
    from gherkin.parser import Parser

    try:
        text = workspace.read(file, MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"1: it is not UTF-8 text ({error.reason})") from error
    except (OSError, PathRefused) as error:
        raise ValueError(f"1: it cannot be read ({getattr(error, 'reason', None) or error})") from error
    try:
        document = Parser().parse(text)
    except CompositeParserException as error:
        raise ValueError("\n".join(_line(problem) for problem in error.errors)) from error
    except ParserException as error:
        raise ValueError(_line(error)) from error
    body = document.get("feature")
    return list(_scenarios(cast("list[Child]", body["children"]), feature, ())) if body else []


def _line(error: "ParserException") -> str:
    where, _, what = " ".join(str(error).split()).partition(": ")
    return f"{where.strip('()').partition(':')[0]}: {what}"


def _scenarios(children: "Sequence[Child]", feature: str, before: tuple[object, ...]) -> Iterator[FeatureScenario]:
    for child in children:
        if "background" in child:
            before = (*before, *map(_step, child["background"]["steps"]))
        elif "rule" in child:
            yield from _scenarios(cast("list[Child]", child["rule"]["children"]), feature, before)
        elif "scenario" in child:
            written = child["scenario"]
            named = [match[1] for tag in written["tags"] if (match := _ID.fullmatch(tag["name"]))]
            examples = [_cells((table.get("tableHeader"), *table["tableBody"])) for table in written["examples"]]
            steps = digest(repr((before, [_step(step) for step in written["steps"]], examples)))[:16]
            name = visible(" ".join(written["name"].split()), keep_newlines=False)[: status.MAX_TEXT]
            line = written["location"]["line"]
            if not name:
                raise ValueError(f"{line}: the scenario has no name; give it one")
            if len(named) > 1:
                raise ValueError(f"{line}: {', '.join(named)}: a scenario may have only one id")
            yield FeatureScenario(named[0] if named else "", feature, name, steps, line)


def _step(step: "Step") -> object:
    table, text = step.get("dataTable"), step.get("docString")
    return (
        step["keyword"].strip(),
        step["text"],
        text["content"] if text else "",
        _cells(table["rows"]) if table else [],
    )


def _cells(rows: "Iterable[TableRow | None]") -> list[list[str]]:
    return [[cell["value"] for cell in row["cells"]] for row in rows if row]


def _duplicates(scenarios: Sequence[FeatureScenario]) -> list[str]:
    """Problems for ids, and names within a file, that two scenarios have."""
    first: dict[tuple[str, str], FeatureScenario] = {}
    wrong: list[str] = []
    for scenario in scenarios:
        key = ("", scenario.id) if scenario.id else (scenario.feature, scenario.name)
        if (other := first.setdefault(key, scenario)) is not scenario:
            what = scenario.id or scenario.name
            at, first_at = (f"{FOLDER}/{row.feature}:{row.line}" for row in (scenario, other))
            wrong.append(f"{at}: {what!r} is also at {first_at}")
    return wrong
