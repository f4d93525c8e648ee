#!/usr/bin/env python3
"""Check hooks without AdderClaw: Python 3 and its standard library are all that this file needs.

    verify_hook_order.py [DATABASE] [--json]

Without a database: whether the events that this AdderClaw knows stand in the normative order (seed 003, Appendix A).
With one, which is only read: whether every event in it is one of them, whether the hooks of each occasion ran one after
the other in ascending order, and whether nothing ran after a PreToolUse hook that blocked.
Exit code 0: all is in order, 1: it is not, 2: the command line makes no sense or a file cannot be read.
"""

import argparse
import json
import re
import sqlite3
import sys
from pathlib import Path

ORDER = (
    *("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionDenied", "Notification", "UserPromptSubmit"),
    *("SessionStart", "SessionEnd", "Stop", "StopFailure", "SubagentStart", "SubagentStop", "PreCompact"),
    *("PostCompact", "PermissionRequest", "Setup", "TeammateIdle", "TaskCreated", "TaskCompleted", "Elicitation"),
    *("ElicitationResult", "ConfigChange", "InstructionsLoaded", "WorktreeCreate", "WorktreeRemove", "CwdChanged"),
    "FileChanged",
)
NEWER = {
    "PostToolBatch",
    "UserPromptExpansion",
    "PreModelSwitch",
    "PostModelSwitch",
    "DirectoryAdded",
    "MessageDisplay",
}
SOURCE = Path(__file__).resolve().parent.parent / "src" / "adderclaw"
ROWS = (
    "SELECT id, session_id, hook_event, hook_ordinal, tool_use_id, exit_code, started_at, completed_at, skipped_reason"
    " FROM hook_invocations ORDER BY id"
)


def of_source():
    """The order in which the catalogue of the source names the events."""
    problems = []
    for name, pattern in (
        ("config/foreign/hooks.py", r'^    "(\w+)",$'),
        ("tools/hooks/catalogue.py", r'^    "(\w+)": Event\('),
    ):
        found = re.findall(pattern, (SOURCE / name).read_text(encoding="utf-8"), re.MULTILINE)
        if tuple(found[: len(ORDER)]) != ORDER:
            problems.append(f"{name}: the events do not stand in the order of Appendix A: {found[: len(ORDER)]}")
    return problems


def of_database(path):
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        rows = connection.execute(ROWS).fetchall()
    finally:
        connection.close()
    problems, last = [], {}
    for row in rows:
        problems += judged(row, last)
    return problems, len(rows)


def judged(row, last):
    """What is wrong with one row, given the one before it on the same occasion."""
    number, session, event, ordinal, use, _, started, _, skipped = row
    if event not in ORDER and event not in NEWER:
        yield f"row {number}: there is no event {event!r}"
    if not use:
        return  # two occasions of such an event cannot be told apart
    before = last.get((session, event, use))
    last[session, event, use] = row
    if before is None:
        return
    if ordinal <= before[3]:
        yield f"row {number}: {event} ordinal {ordinal} comes after ordinal {before[3]}"
    if before[7] and started < before[7]:
        yield f"row {number}: {event} ordinal {ordinal} started before ordinal {before[3]} ended"
    if event == "PreToolUse" and not skipped and (before[5] == 2 or before[8] == "prior_block_or_deny"):
        yield f"row {number}: {event} ordinal {ordinal} ran although ordinal {before[3]} had blocked"


def main():
    parser = argparse.ArgumentParser(description="Check the order of hook events and of the hooks that ran.")
    parser.add_argument("database", nargs="?", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    checked = len(ORDER)
    try:
        problems = of_source() if SOURCE.is_dir() else []
        if given.database is not None:
            found, checked = of_database(given.database)
            problems += found
    except (OSError, sqlite3.Error) as error:
        print(f"verify_hook_order: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps({"valid": not problems, "checked": checked, "problems": problems}))
    else:
        print("\n".join(problems) if problems else f"in order: {checked} {'rows' if given.database else 'events'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
