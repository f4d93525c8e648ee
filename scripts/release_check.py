"""Run the slow shows of a release, or those whose inputs changed since they last held.

`make release-check` runs all of them, ARGS="single-file image" these two. ARGS=--due runs those that
acceptance/releases.toml does not record as held with the inputs as they are now. With --record, what came of each is
written into that file: commit it with the change that made the show due, and CI need not run it again.
"""

import argparse
import datetime
import hashlib
import json
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from release_shows import ROOT, SHOWS, Failed

RECORD = ROOT / "acceptance/releases.toml"
BUILDING = (
    *("pyproject.toml", "uv.lock", ".python-version", "LICENSE", "scripts/release_shows.py"),
    *("scripts/build-packages", "scripts/find-python", "scripts/hatch_build.py", "scripts/uv"),
)
BUNDLING = ("scripts/build_single_file.py", "scripts/install-locked", "scripts/release-tool")
RESTS_ON = {
    "single-file": (*BUILDING, *BUNDLING, "scripts/compile", "src/adderclaw/terminal/entry.py"),
    "wheel": (*BUILDING, "demo"),
    "readme": (*BUILDING, "scripts/setup", "Makefile", "demo"),
    "image": (*BUILDING, *BUNDLING, "scripts/stand-in-images", "Dockerfile", ".dockerignore"),
}
"""What each show is about: how the program is built, packed and begun. Its source is not among it but for the entry
point: the tests run that at every commit, installed, and with it each commit would make every show due."""
CHECKERS = frozenset({"ruff", "pyright", "pytest", "importlinter", "coverage"})
HELD = "holds"


class Outcome(NamedTuple):
    """What came of a show, when, and of which inputs."""

    outcome: str
    date: str
    seconds: int
    inputs: Mapping[str, str]


def digests(show: str, root: Path = ROOT) -> dict[str, str]:
    """Each input with the digest of its files: names, whether they can be executed, and content."""
    return {part: _digest(root / part) for part in RESTS_ON[show]}


def _digest(path: Path) -> str:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    whole = hashlib.sha256()
    for file in files:
        if file.is_file() and "__pycache__" not in file.parts:
            runs = bool(file.stat().st_mode & 0o100)
            content = hashlib.sha256(_counted(file)).hexdigest()
            whole.update(f"{file.relative_to(path.parent)} {runs} {content}\n".encode())
    return whole.hexdigest()[:16]


def _counted(file: Path) -> bytes:
    """What is in it; of pyproject.toml not what checkers and tests read there."""
    if file.name != "pyproject.toml":
        return file.read_bytes()
    found = tomllib.loads(file.read_text(encoding="utf-8"))
    found["tool"] = {name: table for name, table in found.get("tool", {}).items() if name not in CHECKERS}
    return json.dumps(found, sort_keys=True).encode()


def read(path: Path) -> dict[str, Outcome]:
    """The record; nothing where there is none."""
    if not path.exists():
        return {}
    return {show: Outcome(**found) for show, found in tomllib.loads(path.read_text(encoding="utf-8")).items()}


def write(path: Path, record: Mapping[str, Outcome]) -> None:
    lines = ["# What came of the slow shows, and of which inputs. Written by `make release-check ARGS=--record`."]
    for show in (one for one in SHOWS if one in record):
        found = record[show]
        lines += ["", f"[{show}]", f'outcome = "{found.outcome}"', f'date = "{found.date}"']
        lines += [f"seconds = {found.seconds}", f"[{show}.inputs]"]
        lines += [f'"{part}" = "{digest}"' for part, digest in found.inputs.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def why_due(found: Outcome | None, inputs: Mapping[str, str]) -> str:
    """Why a show has to be run; nothing where it held with exactly these inputs."""
    if found is None:
        return "no run of it is recorded"
    if found.outcome != HELD:
        return f"it failed on {found.date}"
    parts = sorted(part for part in {*inputs, *found.inputs} if inputs.get(part) != found.inputs.get(part))
    return f"{', '.join(parts)} changed since it held on {found.date}" if parts else ""


def run(show: str) -> Outcome:
    inputs, began = digests(show), time.monotonic()
    print(f"{show}: {SHOWS[show].__doc__}", flush=True)
    with tempfile.TemporaryDirectory(prefix="adderclaw-release-", ignore_cleanup_errors=True) as work:
        try:
            SHOWS[show](Path(work))
            outcome = HELD
        except (Failed, subprocess.TimeoutExpired, OSError) as error:
            outcome = "failed"
            print(f"{show}: FAILED: {error}", flush=True)
    seconds = round(time.monotonic() - began)
    print(f"{show}: {outcome}, {seconds} s", flush=True)
    return Outcome(outcome, datetime.datetime.now(datetime.UTC).date().isoformat(), seconds, inputs)


def due(shows: Iterable[str], record: Mapping[str, Outcome]) -> list[str]:
    """Those that have to be run; of each it is printed why, or when it held."""
    reasons = {show: why_due(record.get(show), digests(show)) for show in shows}
    for show, why in reasons.items():
        held = f"not due, it held on {record[show].date} with the same inputs" if show in record else ""
        print(f"{show}: {f'due, {why}' if why else held}", flush=True)
    return [show for show, why in reasons.items() if why]


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("shows", nargs="*", metavar="SHOW", help=f"of {', '.join(SHOWS)}; default: all")
    asked.add_argument("--due", action="store_true", help="only those whose inputs are not those with which they held")
    asked.add_argument("--list", action="store_true", help="with --due: run nothing; exits 1 where one is due")
    asked.add_argument("--record", action="store_true", help="write what came of them into acceptance/releases.toml")
    asked.add_argument("--file", type=Path, default=RECORD, help="another record")
    given = asked.parse_args()
    if unknown := {*given.shows} - {*SHOWS}:
        asked.error(f"{', '.join(sorted(unknown))}: the shows are {', '.join(SHOWS)}")
    record = read(given.file)
    wanted = [one for one in SHOWS if one in (given.shows or SHOWS)]
    if given.due:
        wanted = due(wanted, record)
    if given.list:
        return 1 if wanted else 0
    came = {show: run(show) for show in wanted}
    if given.record:
        write(given.file, {**record, **came})
    return 0 if all(one.outcome == HELD for one in came.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
