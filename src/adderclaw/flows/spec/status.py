"""The scenarios of a project and which of them have passed: `.adderclaw/status.json`, the project's own file.

Other facts about them (blocked, deprecated, the last seen steps) are in `spec.json` in the same folder.
"""

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType

from adderclaw.config.own_paths import SPEC_MARKS_FILE, SPEC_STATUS_FILE
from adderclaw.core.decode import Invalid, decode
from adderclaw.core.errors import AdderClawError, PathRefused, UsageError
from adderclaw.core.json_text import to_json
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.redaction import visible
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath

FOLDER, NAME = SPEC_STATUS_FILE.split("/")
FILE, MARKS = SPEC_STATUS_FILE, SPEC_MARKS_FILE
MAX_BYTES = 1_000_000
MAX_SCENARIOS = 2_000
MAX_TEXT = 300
LOCK_SECONDS = 15.0
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@record
class Scenario:
    """An acceptance criterion."""

    id: str
    feature: str
    name: str
    passed: bool = False


@record
class Mark:
    """What is known about a scenario in addition to whether it passed."""

    blocked: str = ""
    """Why it cannot be done without a person's help."""
    deprecated: str = ""
    """Why it is no longer wanted."""
    steps: str = ""
    """A digest of its steps when the feature file was last read."""
    tree: str = ""
    """The digest of the project on which its pass was verified (`tree.digest_of`); empty if it was not verified."""


NO_MARK = Mark()


@record
class _StatusFile:
    scenarios: tuple[Scenario, ...]


@record
class _MarksFile:
    scenarios: dict[str, Mark]


class Status(NamedTuple):
    scenarios: tuple[Scenario, ...]
    marks: Mapping[str, Mark] = MappingProxyType({})

    @property
    def wanted(self) -> tuple[Scenario, ...]:
        """The scenarios that are not deprecated."""
        return tuple(scenario for scenario in self.scenarios if not self.mark(scenario).deprecated)

    @property
    def passed(self) -> int:
        return sum(scenario.passed for scenario in self.wanted)

    @property
    def total(self) -> int:
        return len(self.wanted)

    @property
    def left(self) -> tuple[Scenario, ...]:
        """The scenarios that a session can work on."""
        return tuple(scenario for scenario in self.wanted if not scenario.passed and not self.mark(scenario).blocked)

    @property
    def blocked(self) -> tuple[Scenario, ...]:
        return tuple(scenario for scenario in self.wanted if not scenario.passed and self.mark(scenario).blocked)

    def outdated(self, tree: str) -> tuple[Scenario, ...]:
        """Passed scenarios that were not verified on the current state of the project."""
        return tuple(
            scenario for scenario in self.wanted if scenario.passed and (not tree or self.mark(scenario).tree != tree)
        )

    def mark(self, scenario: Scenario) -> Mark:
        return self.marks.get(scenario.id, NO_MARK)

    def with_(self, changed: Scenario) -> "Status":
        return Status(
            tuple(changed if scenario.id == changed.id else scenario for scenario in self.scenarios), self.marks
        )


class NotFound(UsageError):
    """The scenario is not declared."""


# ------------------------------------------------------------------ the file


def read(project: str) -> Status | None:
    """Reads the project's status; None if it has none. Raises UsageError if it cannot be used."""
    with _folder(project) as folder:
        return None if folder is None else _read(project)


def require_active_scenario(project: str, scenario_id: str) -> tuple[Status, Scenario]:
    """The status and the scenario with that id; raises UsageError if it is not declared, or deprecated."""
    now, scenario = _find(read(project), scenario_id)
    return now, _require_wanted(now, scenario)


def update(project: str, scenario_id: str, passed: bool, tree: str = "") -> Status:
    """Records whether a scenario passed, and unblocks it. `tree` is the digest that its pass was verified on."""

    def change(status: Status | None) -> Status:
        now, scenario = _find(status, scenario_id)
        _require_wanted(now, scenario)
        mark = replace(now.mark(scenario), blocked="", tree=tree)
        return _with_mark(now, scenario, mark).with_(replace(scenario, passed=passed))

    return change_status(project, change)


def block(project: str, scenario_id: str, reason: str) -> Status:
    """Marks a scenario as blocked, with the reason; an empty reason unblocks it."""

    def change(status: Status | None) -> Status:
        now, scenario = _find(status, scenario_id)
        if reason and scenario.passed:
            raise UsageError(f"{scenario.id} has passed, so it cannot be blocked")
        return _with_mark(now, scenario, replace(now.mark(scenario), blocked=_reason(reason)))

    return change_status(project, change)


def deprecate(project: str, scenario_id: str, reason: str) -> Status:
    """Marks a scenario as no longer wanted, but keeps it in the file; an empty reason undoes that."""

    def change(status: Status | None) -> Status:
        now, scenario = _find(status, scenario_id)
        return _with_mark(now, scenario, replace(now.mark(scenario), deprecated=_reason(reason)))

    return change_status(project, change)


def _find(status: Status | None, scenario_id: str) -> tuple[Status, Scenario]:
    now = status if status is not None else Status(())
    for scenario in now.scenarios:
        if scenario.id == scenario_id:
            return now, scenario
    raise NotFound(f"scenario not found: {visible(scenario_id)[:100]!r}; {FILE} has {_names(now.scenarios)}")


def _require_wanted(now: Status, scenario: Scenario) -> Scenario:
    if now.mark(scenario).deprecated:
        raise UsageError(f"{scenario.id} is deprecated ({now.mark(scenario).deprecated}), so it cannot pass or fail")
    return scenario


def _reason(text: str) -> str:
    """One line of a bounded length, from a model or a person."""
    return visible(" ".join(text.split()), keep_newlines=False)[:MAX_TEXT]


def _with_mark(now: Status, scenario: Scenario, mark: Mark) -> Status:
    return Status(now.scenarios, {**now.marks, scenario.id: mark})


def declare(project: str, scenarios: Sequence[Scenario]) -> Status:
    """Adds scenarios that have not passed. Declared ones stay: they can be neither dropped nor renamed."""

    def change(status: Status | None) -> Status:
        known = status.scenarios if status is not None else ()
        ids = {scenario.id for scenario in known}
        fresh = (
            Scenario(scenario.id, scenario.feature, scenario.name) for scenario in scenarios if scenario.id not in ids
        )
        return check_status(Status((*known, *fresh), status.marks if status is not None else {}))

    return change_status(project, change)


def _names(scenarios: Sequence[Scenario]) -> str:
    if not scenarios:
        return "none"
    some = ", ".join(scenario.id for scenario in scenarios[:20])
    return some if len(scenarios) <= 20 else f"{some} and {len(scenarios) - 20} more"


def change_status(project: str, change: Callable[[Status | None], Status]) -> Status:
    """Reads, changes and writes the status under a lock."""
    with _folder(project, make=True) as folder:
        assert folder is not None
        _lock(folder)
        before = _read(project)
        status = change(before)
        if before is None or status.scenarios != before.scenarios:
            _write(project, FILE, to_json(status.scenarios))
        marks = {id: to_json(mark, omit=("",)) for id, mark in sorted(status.marks.items()) if mark != NO_MARK}
        if marks or (before is not None and before.marks):
            _write(project, MARKS, marks)
        return status


def _lock(folder: int) -> None:
    """Locks the folder, with a timeout, since any command of the session could hold its lock."""
    ends = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                raise AdderClawError(f"another process has locked {FOLDER}/ for {LOCK_SECONDS:g} s: end it") from None
            time.sleep(0.02)


@contextmanager
def _folder(project: str, *, make: bool = False) -> Generator[int | None]:
    """Opens the project's `.adderclaw` without following links."""
    path = WorkspacePath(project, FOLDER)
    try:
        if make:
            workspace.make_folders(path)
        folder = workspace.open_folder(path)
    except FileNotFoundError:
        yield None
        return
    except (OSError, PathRefused) as error:
        raise UsageError(f"{path.text} cannot be used as a folder ({_why(error)}): remove it") from error
    try:
        yield folder
    finally:
        os.close(folder)


def _why(error: OSError | PathRefused) -> str:
    return error.reason if isinstance(error, PathRefused) else error.strerror or "it cannot be read"


def _read(project: str) -> Status | None:
    scenarios = _read_file(project, FILE, _StatusFile, lambda file: check_status(Status(file.scenarios)).scenarios)
    if scenarios is None:
        return None
    marks = _read_file(project, MARKS, _MarksFile, lambda file: _checked_marks(file.scenarios))
    return Status(scenarios, marks or {})


def _read_file[F, T](project: str, path: str, kind: type[F], check: Callable[[F], T]) -> T | None:
    try:
        data, _ = workspace.read_head(WorkspacePath(project, path), MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, PathRefused) as error:
        raise _unusable(project, path, _why(error)) from error
    if len(data) > MAX_BYTES:
        raise _unusable(project, path, f"it is larger than {MAX_BYTES} bytes")
    try:
        return check(decode(kind, json.loads(data)))
    except (ValueError, RecursionError, Invalid) as error:
        raise _unusable(project, path, visible(str(error))[:2_000]) from error


def _unusable(project: str, path: str, why: str) -> UsageError:
    return UsageError(f"{os.path.join(project, path)}: {why}; correct it, or remove it to start over")


def _checked_marks(marks: dict[str, Mark]) -> dict[str, Mark]:
    wrong = [
        (f"scenarios.{visible(id)[:100]}.{key}", f"it must be one line of printable text, at most {MAX_TEXT} letters")
        for id, mark in marks.items()
        for key, text in vars(mark).items()
        if not isinstance(text, str) or _reason(text) != text
    ]
    if wrong:
        raise Invalid(wrong[:20])
    return marks


def check_status(status: Status) -> Status:
    """Checks the scenarios of a file or a model, and reports all problems at once."""
    wrong: list[tuple[str, str]] = []
    seen: set[str] = set()
    if not 0 < len(status.scenarios) <= MAX_SCENARIOS:
        wrong.append(("scenarios", f"there are {len(status.scenarios)}; from 1 to {MAX_SCENARIOS} are allowed"))
    for number, scenario in enumerate(status.scenarios[:MAX_SCENARIOS]):
        at = f"scenarios[{number}]"
        if not _ID.fullmatch(scenario.id):
            wrong.append((f"{at}.id", f"{visible(scenario.id)[:100]!r}: letters, digits, `.`, `_` and `-`, at most 64"))
        if scenario.id in seen:
            wrong.append((f"{at}.id", f"{visible(scenario.id)[:100]!r} is used twice"))
        seen.add(scenario.id)
        for key, text in (("feature", scenario.feature), ("name", scenario.name)):
            if not text.strip() or len(text) > MAX_TEXT or visible(text, keep_newlines=False) != text:
                wrong.append((f"{at}.{key}", f"it must be one line of printable text, at most {MAX_TEXT} letters"))
    if wrong:
        raise Invalid(wrong[:20])
    return status


def _write(project: str, path: str, scenarios: object) -> None:
    """Replaces a file atomically."""
    text = json.dumps({"scenarios": scenarios}, indent=2, ensure_ascii=False) + "\n"
    try:
        workspace.write(WorkspacePath(project, path), text.encode("utf-8"), mode=0o644)
    except (OSError, PathRefused) as error:
        raise AdderClawError(f"{path} cannot be written: {_why(error)}") from error
