"""`.adderclaw/status.json`: which scenarios a project has, and which of them pass. The project's own file.

Its folder is closed to the agent's own tools, but lies in a workspace that is not: it is opened through no link.
"""

import json
import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict, field, replace

from adderclaw.config.opening import ANCHOR, READ, opener
from adderclaw.decode import Invalid, decode
from adderclaw.errors import AdderClawError, UsageError
from adderclaw.record import record
from adderclaw.types import Json

FOLDER, NAME = ".adderclaw", "status.json"
MOST_BYTES, MOST, LONGEST = 4 * 1024 * 1024, 2_000, 500


@record
class Scenario:
    """One scenario of a feature file."""

    id: str
    feature: str
    name: str
    passed: bool = False


@record
class _Status:
    scenarios: list[Scenario] = field(default_factory=list[Scenario])


def read(project: str) -> tuple[Scenario, ...] | None:
    """The scenarios in their order; None where there is no file yet. Raises AdderClawError for one that is none."""
    place = os.path.join(project, FOLDER, NAME)
    try:
        with _root(project) as root:
            fd = opener()(root, f"{FOLDER}/{NAME}", READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AdderClawError(f"{place} cannot be read: {error.strerror}") from error
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            raise AdderClawError(f"{place} is no file of scenarios: it must be a file of at most {MOST_BYTES} bytes")
        data = file.read(MOST_BYTES)
    try:
        return tuple(decode(_Status, json.loads(data)).scenarios)
    except (ValueError, RecursionError) as error:
        raise AdderClawError(f"{place} is no JSON: {error}; mend it, or remove it to begin anew") from None
    except Invalid as error:
        raise AdderClawError(f"{place}: {error}; mend it, or remove it to begin anew") from None


def mark(project: str, scenario_id: str, *, passed: bool) -> Scenario:
    """Say of one scenario whether it passes. Raises UsageError for one that is not there."""
    with _alone(project) as folder:
        known = list(read(project) or ())
        for index, scenario in enumerate(known):
            if scenario.id == scenario_id:
                known[index] = replace(scenario, passed=passed)
                _write(folder, known)
                return known[index]
    shown = ", ".join(scenario.id for scenario in known[:20]) or "none yet"
    raise UsageError(f"scenario not found: {scenario_id[:200]!r}; there is: {shown}")


def add(project: str, given: Iterable[Json]) -> tuple[Scenario, ...]:
    """New scenarios, none of which passes yet; one that is known stays as it is. Says which are new."""
    wanted = [_checked(decode(Scenario, {**one, "passed": False})) for one in given]
    with _alone(project) as folder:
        known = {scenario.id: scenario for scenario in read(project) or ()}
        new = {one.id: one for one in wanted if one.id not in known}
        if len(known) + len(new) > MOST:
            raise UsageError(f"{len(known) + len(new)} scenarios are too many; at most {MOST}")
        _write(folder, [*known.values(), *new.values()])
    return tuple(new.values())


def _checked(scenario: Scenario) -> Scenario:
    for name, value in asdict(scenario).items():
        if isinstance(value, str) and not (0 < len(value) <= LONGEST and value.isprintable()):
            raise UsageError(f"{name}: {value[:100]!r} must be one line of 1 to {LONGEST} characters")
    return scenario


@contextmanager
def _root(project: str) -> Generator[int]:
    root = os.open(project, ANCHOR)
    try:
        yield root
    finally:
        os.close(root)


@contextmanager
def _alone(project: str) -> Generator[int]:
    """The folder's descriptor, for one writer at a time."""
    import fcntl

    try:
        with _root(project) as root:
            try:
                os.mkdir(FOLDER, 0o755, dir_fd=root)
            except FileExistsError:
                pass
            folder = opener()(root, FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise AdderClawError(f"{os.path.join(project, FOLDER)} cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(folder)


def _write(folder: int, scenarios: list[Scenario]) -> None:
    """Replaced in one step."""
    text = json.dumps({"scenarios": [asdict(scenario) for scenario in scenarios]}, indent=2, ensure_ascii=False)
    beside = f".{NAME}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(beside, flags, 0o644, dir_fd=folder), "w", encoding="utf-8") as file:
            file.write(text + "\n")
        os.replace(beside, NAME, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        raise AdderClawError(f"{FOLDER}/{NAME} cannot be written: {error.strerror}") from error
