#!/usr/bin/env python3
"""Collects tasks from notes and files as a Markdown checklist with their places."""

import argparse
import json
import os
import re
import sys

SKIPPED = {".git", "node_modules", ".venv", "__pycache__"}
LARGEST = 2_000_000
VERBS = set(
    "add agree ask build buy call change check clean close collect compare confirm contact create decide define delete "
    "deploy design discuss document draft email ensure estimate explain find finish fix follow gather install "
    "investigate invite make measure merge migrate move organise organize plan prepare publish read reduce release "
    "remove rename replace reply report request research resolve review rewrite run schedule send set share ship sign "
    "split start stop submit summarise summarize test translate update upgrade upload verify visit write".split()
)
BOX = re.compile(r"\s*[-*+]\s+\[( |x|X)\]\s+(.+)")
MARK = re.compile(r"\b(?:TODO|FIXME)\b(?:\([^)]*\))?:?\s*(.+)")
OWNER = re.compile(r"\s*(?:[-*+]\s+)?(?:action|action item|ai|next step)\s*:\s*(.+)", re.IGNORECASE)
ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(.+)")


def task_of(line):
    """(text, done) of a line that holds a task, else None."""
    box = BOX.fullmatch(line)
    if box:
        return box[2], box[1] != " "
    found = OWNER.fullmatch(line) or MARK.search(line)
    if found:
        return found[1], False
    item = ITEM.fullmatch(line)
    if item and re.split(r"\W", item[1].lstrip("*_"), maxsplit=1)[0].lower() in VERBS:
        return item[1], False
    return None


def files(paths):
    for path in paths:
        if os.path.isfile(path):
            yield path
            continue
        for here, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if name not in SKIPPED)
            yield from (os.path.join(here, name) for name in sorted(names))


def tasks(paths):
    seen = set()
    for path in files(paths):
        try:
            if os.path.islink(path) or os.path.getsize(path) > LARGEST:
                continue
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            continue
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            found = task_of(line)
            if found is None:
                continue
            text = re.sub(r"\s*(?:\*/|-->)\s*$", "", " ".join(found[0].split()))[:300]
            text = "".join(char if char.isprintable() else "?" for char in text)
            if text and text.lower() not in seen:
                seen.add(text.lower())
                yield {"text": text, "done": found[1], "path": path, "line": number}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--done", action="store_true", help="show done tasks, too")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", help="write the list to this new file")
    given = parser.parse_args()
    missing = [path for path in given.paths if not os.path.exists(path)]
    if missing:
        sys.exit(f"checklist.py: there is no {missing[0]!r}")
    found = list(tasks(given.paths))
    done = sum(task["done"] for task in found)
    shown = [task for task in found if given.done or not task["done"]]
    if given.json:
        text = json.dumps({"tasks": shown, "done": done})
    else:
        lines = [f"- [{'x' if task['done'] else ' '}] {task['text']} ({task['path']}:{task['line']})" for task in shown]
        text = "\n".join([*lines, "", f"{len(found) - done} open, {done} done"])
    if not given.out:
        print(text)
        return
    try:
        with open(given.out, "x", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        sys.exit(f"checklist.py: {given.out!r} was not written: {error.strerror}")
    print(f"{len(shown)} tasks written to {given.out}")


if __name__ == "__main__":
    main()
