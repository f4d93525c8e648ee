"""`.adderclaw/status.json`: the scenarios of a project and which of them have passed. The project's own file."""

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from adderclaw import workspace
from adderclaw.credentials.redaction import visible
from adderclaw.decode import Invalid, decode
from adderclaw.errors import AdderClawError, Refused, UsageError
from adderclaw.record import record
from adderclaw.types import Json
from adderclaw.workspace import Place

FOLDER, NAME = ".adderclaw", "status.json"
FILE = f"{FOLDER}/{NAME}"
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
class Status:
    scenarios: tuple[Scenario, ...]

    @property
    def passed(self) -> int:
        return sum(one.passed for one in self.scenarios)

    @property
    def left(self) -> tuple[Scenario, ...]:
        return tuple(one for one in self.scenarios if not one.passed)


class NotFound(UsageError):
    """A scenario that nobody has declared."""


# ------------------------------------------------------------------ the file


def read(project: str) -> Status | None:
    """What the project's file says; None where there is none. One that is there and cannot be used is an error."""
    with _folder(project) as folder:
        return None if folder is None else _read(project)


def update(project: str, scenario_id: str, passed: bool) -> Status:
    """Say of one scenario whether it passed."""

    def change(status: Status | None) -> Status:
        known = status.scenarios if status is not None else ()
        if all(one.id != scenario_id for one in known):
            raise NotFound(f"scenario not found: {visible(scenario_id)[:100]!r}; {FILE} has {_names(known)}")
        given = (Scenario(one.id, one.feature, one.name, passed) if one.id == scenario_id else one for one in known)
        return Status(tuple(given))

    return _changed(project, change)


def declare(project: str, scenarios: Sequence[Scenario]) -> Status:
    """Add scenarios, none of them passed. What is declared already stays: it can be neither dropped nor renamed."""

    def change(status: Status | None) -> Status:
        known = status.scenarios if status is not None else ()
        ids = {one.id for one in known}
        fresh = (Scenario(one.id, one.feature, one.name) for one in scenarios if one.id not in ids)
        return _checked(Status((*known, *fresh)))

    return _changed(project, change)


def _names(scenarios: Sequence[Scenario]) -> str:
    if not scenarios:
        return "none"
    some = ", ".join(one.id for one in scenarios[:20])
    return some if len(scenarios) <= 20 else f"{some} and {len(scenarios) - 20} more"


def _changed(project: str, change: Callable[[Status | None], Status]) -> Status:
    """Read, change and write, with nobody else in between."""
    with _folder(project, make=True) as folder:
        assert folder is not None
        _lock(folder)
        status = change(_read(project))
        _write(project, status)
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
    except (OSError, Refused) as error:
        raise UsageError(f"{place.text} is no folder that can be used ({_why(error)}): remove it") from error
    try:
        yield folder
    finally:
        os.close(folder)


def _why(error: OSError | Refused) -> str:
    return error.reason if isinstance(error, Refused) else error.strerror or "it cannot be read"


def _read(project: str) -> Status | None:
    try:
        data, _ = workspace.start(Place(project, FILE), MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, Refused) as error:
        raise _unfit(project, _why(error)) from error
    if len(data) > MAX_BYTES:
        raise _unfit(project, f"it is larger than {MAX_BYTES} bytes")
    try:
        return _checked(decode(Status, json.loads(data)))
    except (ValueError, RecursionError, Invalid) as error:
        raise _unfit(project, visible(str(error))[:2_000]) from error


def _unfit(project: str, why: str) -> UsageError:
    fix = "mend it, or remove it to begin anew"
    return UsageError(f"{os.path.join(project, FILE)}: {why}; {fix}")


def _checked(status: Status) -> Status:
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


def _write(project: str, status: Status) -> None:
    """Whole or not at all."""
    text = json.dumps({"scenarios": [one.as_json() for one in status.scenarios]}, indent=2, ensure_ascii=False) + "\n"
    try:
        workspace.write(Place(project, FILE), text.encode("utf-8"), mode=0o644)
    except (OSError, Refused) as error:
        raise AdderClawError(f"{FILE} cannot be written: {_why(error)}") from error
