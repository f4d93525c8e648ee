"""The scenarios of a project and which of them have passed: `.adderclaw/status.json`, the project's own file.

What else is known of them (blocked, deprecated, the steps that were seen last) stands beside it in `spec.json`.
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
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import Place

FOLDER, NAME = SPEC_STATUS_FILE.split("/")
FILE, MARKS = SPEC_STATUS_FILE, SPEC_MARKS_FILE
MAX_BYTES = 1_000_000
MAX_SCENARIOS = 2_000
MAX_TEXT = 300
PATIENCE = 15.0
"""Seconds."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@record
class Scenario:
    """One acceptance criterion, as the file has it."""

    id: str
    feature: str
    name: str
    passed: bool = False

    def as_json(self) -> Json:
        return {"id": self.id, "feature": self.feature, "name": self.name, "passed": self.passed}


@record
class Mark:
    """What is known of a scenario beside whether it passed."""

    blocked: str = ""
    """Why it cannot be done without somebody's help."""
    deprecated: str = ""
    """Why it is no longer wanted."""
    steps: str = ""
    """A digest of its steps as the feature file had them when it was last looked at."""
    tree: str = ""
    """The digest of the project that its pass was verified on (`tree.digest_of`); empty: nobody has verified it."""

    def as_json(self) -> Json:
        known = {"blocked": self.blocked, "deprecated": self.deprecated, "steps": self.steps, "tree": self.tree}
        return {key: value for key, value in known.items() if value}


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
        """All but those that are deprecated."""
        return tuple(one for one in self.scenarios if not self.mark(one).deprecated)

    @property
    def passed(self) -> int:
        return sum(one.passed for one in self.wanted)

    @property
    def total(self) -> int:
        return len(self.wanted)

    @property
    def left(self) -> tuple[Scenario, ...]:
        """What a session can work on."""
        return tuple(one for one in self.wanted if not one.passed and not self.mark(one).blocked)

    @property
    def blocked(self) -> tuple[Scenario, ...]:
        return tuple(one for one in self.wanted if not one.passed and self.mark(one).blocked)

    def outdated(self, tree: str) -> tuple[Scenario, ...]:
        """What passed, and was not verified on the project as it is now."""
        return tuple(one for one in self.wanted if one.passed and (not tree or self.mark(one).tree != tree))

    def mark(self, scenario: Scenario) -> Mark:
        return self.marks.get(scenario.id, NO_MARK)

    def with_(self, changed: Scenario) -> "Status":
        return Status(tuple(changed if one.id == changed.id else one for one in self.scenarios), self.marks)


class NotFound(UsageError):
    """A scenario that nobody has declared."""


# ------------------------------------------------------------------ the file


def read(project: str) -> Status | None:
    """What the project's file says; None where there is none. One that is there and cannot be used is an error."""
    with _folder(project) as folder:
        return None if folder is None else _read(project)


def found(project: str, scenario_id: str) -> tuple[Status, Scenario]:
    """The scenario of that id, among the others; raises UsageError for one that nobody declared or waits for."""
    now, one = _one(read(project), scenario_id)
    return now, _awaited(now, one)


def update(project: str, scenario_id: str, passed: bool, tree: str = "") -> Status:
    """Say of one scenario whether it passed; nothing blocks it any more. `tree`: what its pass was verified on."""

    def change(status: Status | None) -> Status:
        now, one = _one(status, scenario_id)
        _awaited(now, one)
        mark = replace(now.mark(one), blocked="", tree=tree)
        return _marked(now, one, mark).with_(replace(one, passed=passed))

    return changed(project, change)


def block(project: str, scenario_id: str, reason: str) -> Status:
    """It cannot be done without somebody's help; without a reason, it can be again."""

    def change(status: Status | None) -> Status:
        now, one = _one(status, scenario_id)
        if reason and one.passed:
            raise UsageError(f"{one.id} has passed: what is done cannot be blocked")
        return _marked(now, one, replace(now.mark(one), blocked=_reason(reason)))

    return changed(project, change)


def deprecate(project: str, scenario_id: str, reason: str) -> Status:
    """It is no longer wanted, and stays in the file; without a reason, it is wanted again."""

    def change(status: Status | None) -> Status:
        now, one = _one(status, scenario_id)
        return _marked(now, one, replace(now.mark(one), deprecated=_reason(reason)))

    return changed(project, change)


def _one(status: Status | None, scenario_id: str) -> tuple[Status, Scenario]:
    now = status if status is not None else Status(())
    for one in now.scenarios:
        if one.id == scenario_id:
            return now, one
    raise NotFound(f"scenario not found: {visible(scenario_id)[:100]!r}; {FILE} has {_names(now.scenarios)}")


def _awaited(now: Status, one: Scenario) -> Scenario:
    if now.mark(one).deprecated:
        raise UsageError(f"{one.id} is deprecated ({now.mark(one).deprecated}): nobody waits for it any more")
    return one


def _reason(text: str) -> str:
    """One line of a bounded length, from a model or a person."""
    return visible(" ".join(text.split()), keep_newlines=False)[:MAX_TEXT]


def _marked(now: Status, one: Scenario, mark: Mark) -> Status:
    return Status(now.scenarios, {**now.marks, one.id: mark})


def declare(project: str, scenarios: Sequence[Scenario]) -> Status:
    """Add scenarios, none of them passed. What is declared already stays: it can be neither dropped nor renamed."""

    def change(status: Status | None) -> Status:
        known = status.scenarios if status is not None else ()
        ids = {one.id for one in known}
        fresh = (Scenario(one.id, one.feature, one.name) for one in scenarios if one.id not in ids)
        return checked(Status((*known, *fresh), status.marks if status is not None else {}))

    return changed(project, change)


def _names(scenarios: Sequence[Scenario]) -> str:
    if not scenarios:
        return "none"
    some = ", ".join(one.id for one in scenarios[:20])
    return some if len(scenarios) <= 20 else f"{some} and {len(scenarios) - 20} more"


def changed(project: str, change: Callable[[Status | None], Status]) -> Status:
    """Read, change and write, with nobody else in between."""
    with _folder(project, make=True) as folder:
        assert folder is not None
        _lock(folder)
        before = _read(project)
        status = change(before)
        if before is None or status.scenarios != before.scenarios:
            _write(project, FILE, [one.as_json() for one in status.scenarios])
        marks = {id: mark.as_json() for id, mark in sorted(status.marks.items()) if mark != NO_MARK}
        if marks or (before is not None and before.marks):
            _write(project, MARKS, marks)
        return status


def _lock(folder: int) -> None:
    """Whoever can read the folder can hold its lock, a command of the session too: nobody waits for ever."""
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                raise AdderClawError(f"another process has held {FOLDER}/ locked for {PATIENCE:g} s: end it") from None
            time.sleep(0.02)


@contextmanager
def _folder(project: str, *, make: bool = False) -> Generator[int | None]:
    """The project's own `.adderclaw`, open: a link in its place leads nowhere that we follow."""
    place = Place(project, FOLDER)
    try:
        if make:
            workspace.make_folders(place)
        folder = workspace.open_folder(place)
    except FileNotFoundError:
        yield None
        return
    except (OSError, PathRefused) as error:
        raise UsageError(f"{place.text} is no folder that can be used ({_why(error)}): remove it") from error
    try:
        yield folder
    finally:
        os.close(folder)


def _why(error: OSError | PathRefused) -> str:
    return error.reason if isinstance(error, PathRefused) else error.strerror or "it cannot be read"


def _read(project: str) -> Status | None:
    found = _decoded(project, FILE, _StatusFile, lambda file: checked(Status(file.scenarios)).scenarios)
    if found is None:
        return None
    marks = _decoded(project, MARKS, _MarksFile, lambda file: _checked_marks(file.scenarios))
    return Status(found, marks or {})


def _decoded[F, T](project: str, path: str, kind: type[F], check: Callable[[F], T]) -> T | None:
    try:
        data, _ = workspace.start(Place(project, path), MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, PathRefused) as error:
        raise _unfit(project, path, _why(error)) from error
    if len(data) > MAX_BYTES:
        raise _unfit(project, path, f"it is larger than {MAX_BYTES} bytes")
    try:
        return check(decode(kind, json.loads(data)))
    except (ValueError, RecursionError, Invalid) as error:
        raise _unfit(project, path, visible(str(error))[:2_000]) from error


def _unfit(project: str, path: str, why: str) -> UsageError:
    fix = "mend it, or remove it to begin anew"
    return UsageError(f"{os.path.join(project, path)}: {why}; {fix}")


def _checked_marks(marks: dict[str, Mark]) -> dict[str, Mark]:
    wrong = [
        (f"scenarios.{visible(id)[:100]}.{key}", f"one line of printable text is wanted, at most {MAX_TEXT} letters")
        for id, mark in marks.items()
        for key, text in mark.as_json().items()
        if not isinstance(text, str) or _reason(text) != text
    ]
    if wrong:
        raise Invalid(wrong[:20])
    return marks


def checked(status: Status) -> Status:
    """All that a file or a model may say wrongly, at once."""
    wrong: list[tuple[str, str]] = []
    seen: set[str] = set()
    if not 0 < len(status.scenarios) <= MAX_SCENARIOS:
        wrong.append(("scenarios", f"there are {len(status.scenarios)}; from 1 to {MAX_SCENARIOS} are taken"))
    for number, one in enumerate(status.scenarios[:MAX_SCENARIOS]):
        at = f"scenarios[{number}]"
        if not _ID.fullmatch(one.id):
            wrong.append((f"{at}.id", f"{visible(one.id)[:100]!r}: letters, digits, `.`, `_` and `-`, at most 64"))
        if one.id in seen:
            wrong.append((f"{at}.id", f"{visible(one.id)[:100]!r} is there twice"))
        seen.add(one.id)
        for key, text in (("feature", one.feature), ("name", one.name)):
            if not text.strip() or len(text) > MAX_TEXT or visible(text, keep_newlines=False) != text:
                wrong.append((f"{at}.{key}", f"one line of printable text is wanted, at most {MAX_TEXT} letters"))
    if wrong:
        raise Invalid(wrong[:20])
    return status


def _write(project: str, path: str, scenarios: object) -> None:
    """Whole or not at all."""
    text = json.dumps({"scenarios": scenarios}, indent=2, ensure_ascii=False) + "\n"
    try:
        workspace.write(Place(project, path), text.encode("utf-8"), mode=0o644)
    except (OSError, PathRefused) as error:
        raise AdderClawError(f"{path} cannot be written: {_why(error)}") from error
