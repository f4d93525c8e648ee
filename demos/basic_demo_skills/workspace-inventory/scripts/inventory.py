#!/usr/bin/env python3
"""Counts the files of a folder by type, with sizes and lines, and names the largest and newest."""

import argparse
import json
import os
import re
import sys
import time
from collections import Counter

SKIPPED = {".git", "node_modules", ".venv", "__pycache__"}
RUN = re.compile(r"\d{8}-\d{6}-[0-9a-f]+")
MOST = 50_000
LINES_UP_TO = 5_000_000


def of_runs(path):
    """Whether a folder holds nothing but the traces of agent runs, this one's among them."""
    try:
        names = os.listdir(path) if os.path.basename(path) == "runs" else []
        names = [name for name in names if name != ".gitignore"]
    except OSError:
        return False
    return bool(names) and all(RUN.fullmatch(name) for name in names)


def walk(folder, found):
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError:
            found["unreadable"] += 1
            continue
        for entry in entries:
            if entry.is_symlink():
                continue
            if entry.is_dir():
                if entry.name in SKIPPED or of_runs(entry.path):
                    found["skipped"] += 1
                else:
                    found["folders"] += 1
                    waiting.append(entry.path)
            elif entry.is_file():
                if found["files"] >= MOST:
                    found["cut"] = True
                    return
                found["files"] += 1
                yield entry


def lines(path, size):
    if size > LINES_UP_TO:
        return 0
    with open(path, "rb") as file:
        data = file.read()
    return 0 if b"\0" in data else data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def inventory(folder, top):
    found = {"files": 0, "folders": 0, "bytes": 0, "lines": 0, "skipped": 0, "unreadable": 0, "cut": False}
    count, weight, rows = Counter(), Counter(), []
    for entry in walk(folder, found):
        try:
            status = entry.stat(follow_symlinks=False)
            found["lines"] += lines(entry.path, status.st_size)
        except OSError:
            found["unreadable"] += 1
            continue
        kind = os.path.splitext(entry.name)[1].lower() or "(none)"
        count[kind] += 1
        weight[kind] += status.st_size
        found["bytes"] += status.st_size
        rows.append((os.path.relpath(entry.path, folder), status.st_size, status.st_mtime))
    kinds = sorted(count, key=lambda kind: (-count[kind], kind))
    largest = sorted(rows, key=lambda row: (-row[1], row[0]))[:top]
    newest = sorted(rows, key=lambda row: (-row[2], row[0]))[:top]
    return {
        "folder": folder,
        **found,
        "types": [{"type": kind, "files": count[kind], "bytes": weight[kind]} for kind in kinds],
        "largest": [{"path": path, "bytes": size} for path, size, _ in largest],
        "newest": [
            {"path": path, "modified": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))}
            for path, _, when in newest
        ],
    }


def show(made, top):
    print(f"{made['files']} files in {made['folders']} folders, {made['bytes']} bytes, {made['lines']} lines of text")
    if made["skipped"] or made["unreadable"] or made["cut"]:
        print(f"skipped {made['skipped']} folders, unreadable {made['unreadable']}, cut {made['cut']}")
    print("\nTypes:")
    for row in made["types"][: top * 2]:
        print(f"  {row['type']:<12} {row['files']:>6} files {row['bytes']:>12} bytes")
    print("\nLargest:")
    for row in made["largest"]:
        print(f"  {row['bytes']:>12} {row['path']!a}")
    print("\nNewest:")
    for row in made["newest"]:
        print(f"  {row['modified']} {row['path']!a}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default=".")
    parser.add_argument("--top", type=int, default=5, help="how many names (1 to 100)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if not os.path.isdir(given.folder):
        sys.exit(f"inventory.py: {given.folder!r} is not a folder")
    if not 1 <= given.top <= 100:
        sys.exit("inventory.py: --top takes 1 to 100")
    made = inventory(given.folder, given.top)
    if given.json:
        print(json.dumps(made))
    else:
        show(made, given.top)


if __name__ == "__main__":
    main()
