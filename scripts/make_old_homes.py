#!/usr/bin/env python3
"""Make a small home with the program of every commit that changed the database's schema: fixtures of the upgrade test.

    make_old_homes.py [FOLDER]

For each such commit the sources are taken from git and run with the Python of this environment: two turns of a scripted
model with tool calls. What they leave (database, receipts, key) becomes FOLDER/NNN-COMMIT.tar.xz. A home that is there
already is left as it is, so that a new schema adds one file.
"""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHERE = ("src/adderclaw/store/migrations.py", "src/adderclaw/store/steps", "src/adderclaw/store/schema.sql")
KEPT = ("memory.sqlite", "tool_receipts.log", "receipt.key")
STEPS = [
    {"tool_calls": [{"name": "file_list", "arguments": {"path": "."}}]},
    {"tool_calls": [{"name": "file_read", "arguments": {"path": "a.txt"}}]},
    {"text": "a.txt says hello"},
]


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def schemas() -> list[tuple[str, frozenset[str]]]:
    """The commits, oldest first, after which the list of steps is another one."""
    found: list[tuple[str, frozenset[str]]] = []
    for commit in git("log", "--reverse", "--format=%h", "--", *WHERE).split():
        text = git("show", f"{commit}:{WHERE[0]}")
        steps = frozenset(re.findall(r"\bm\d{3}_\w+", text))
        if not found or found[-1][1] != steps:
            found.append((commit, steps))
    return found


def home_of(commit: str, folder: Path) -> Path:
    """Run the program of a commit; the home that it leaves."""
    code, home, workspace = folder / "code", folder / "home", folder / "workspace"
    for place in (code, home, workspace):
        place.mkdir()
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x"], input=archive, cwd=code, check=True)
    (workspace / "a.txt").write_text("hello\n", encoding="utf-8")
    (folder / "script.json").write_text(json.dumps({"steps": STEPS}), encoding="utf-8")
    (home / "config.toml").write_text(
        f'workspace_dir = "{workspace}"\ndefault_provider = "local"\n'
        '[providers.models.local]\nkind = "mock"\nmodel = "mock"\n',
        encoding="utf-8",
    )
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(code / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "ADDERCLAW_HOME": str(home),
        "ADDERCLAW_MOCK_FIXTURE": str(folder / "script.json"),
    }
    for message in ("what is in a.txt?", "again"):
        subprocess.run(
            [sys.executable, "-c", "from adderclaw.channels.cli import main; main()", "agent", "-m", message],
            cwd=workspace,
            env=environment,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    return home


def packed(home: Path, target: Path) -> None:
    connection = sqlite3.connect(home / "memory.sqlite")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("VACUUM")
    connection.close()

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    unfinished = target.with_suffix(".unfinished")
    with tarfile.open(unfinished, "w:xz", preset=9) as archive:
        for name in KEPT:
            archive.add(home / name, name, filter=plain)
    unfinished.replace(target)


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "fixtures" / "homes"
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for commit, steps in schemas():
        if any(folder.glob(f"*-{commit}.tar.xz")):
            continue
        place = Path(tempfile.mkdtemp(prefix="old-home-"))
        try:
            target = folder / f"{len(steps):03}-{commit}.tar.xz"
            packed(home_of(commit, place), target)
            print(f"{target.name}: {len(steps)} steps, {target.stat().st_size} bytes")
        except subprocess.CalledProcessError as error:
            failed = 1
            print(f"{commit}: {error}", file=sys.stderr)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
