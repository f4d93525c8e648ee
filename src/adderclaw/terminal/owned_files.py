"""Decides whether this program created a file: by its content; in a proven home, by its exact name."""

import contextlib
import json
import os
import re
import sqlite3
import stat

from adderclaw.config.paths import OWN_ENDINGS, followed
from adderclaw.config.places import MANIFESTS, MARKERS
from adderclaw.core import home_names

_KEPT = re.compile(
    r"memory\.sqlite(\.before-m\d{3}_\w+|\.last-backup)?|tool_receipts\.log(\.\d{8}T\d{6}Z(-\d+)?)?|\.trial-\d+\.toml"
)
"""The database, its copies before an update, the note on its last backup; the log of receipts and its earlier parts; a
trial of settings."""
TABLES = frozenset({"schema_meta", "transcript_entries", "tool_permission_log"})
"""Tables that our database had in every version."""
RECEIPT = frozenset({"args_hash", "previous_hash", "receipt_hash", "seq", "tool"})
"""What every receipt says."""
FIRST_LINE = "# AdderClaw's own configuration."
"""How the settings begin that `init` writes."""
COMPLETION, MANUAL = "_ADDERCLAW_COMPLETE", ".TH ADDERCLAW "
MOST_BYTES = 262_144


def in_home(home: str, name: str) -> bool:
    """Whether it is by its name and kind what the program makes at the top of a home; a link is somebody's own."""
    mode = os.lstat(os.path.join(home, name)).st_mode
    if stat.S_ISDIR(mode):
        return name in home_names.FOLDERS
    base = next(
        (name.removesuffix(end) for end in OWN_ENDINGS if name.endswith(end) and name not in home_names.FILES), name
    )
    return stat.S_ISREG(mode) and (name in home_names.FILES or _KEPT.fullmatch(base) is not None)


def is_home(home: str) -> bool:
    """Whether a folder is proved to be a home: by its database, its receipts, or the settings that `init` wrote."""
    return (
        is_database(os.path.join(home, home_names.DATABASE))
        or is_receipts(os.path.join(home, home_names.RECEIPTS))
        or first_bytes(os.path.join(home, home_names.CONFIG)).startswith(FIRST_LINE)
    )


def home_around(path: str) -> str:
    """The home that a file lies in, by the key or the settings that every home has; empty where it lies in none."""
    folder = os.path.dirname(followed(path))
    while folder != os.path.dirname(folder):
        settings = first_bytes(os.path.join(folder, home_names.CONFIG))
        if os.path.isfile(os.path.join(folder, home_names.RECEIPT_KEY)) or settings.startswith(FIRST_LINE):
            return folder
        folder = os.path.dirname(folder)
    return ""


def project_marker(home: str) -> str:
    """What says that the folder is a project at the same time, or a project's `.adderclaw`; empty if nothing does."""
    markers = [name for name in (*MARKERS, *MANIFESTS) if name not in home_names.USERS]
    project, name = os.path.split(home)
    if name == ".adderclaw" and project != os.path.expanduser("~"):
        markers += [f"../{marker}" for marker in (*MARKERS, *MANIFESTS) if marker != name]
    return next((marker for marker in markers if os.path.lexists(os.path.join(home, marker))), "")


def is_database(path: str) -> bool:
    """Whether it is an SQLite file with our tables."""
    if not first_bytes(path).startswith("SQLite format 3\0"):
        return False
    from urllib.parse import quote

    from adderclaw.storage.queries import databases

    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as database:
            return databases.tables(database) >= TABLES
    except sqlite3.Error:
        return False


def is_receipts(path: str) -> bool:
    """Whether its first line is a receipt."""
    first, end, _ = first_bytes(path).partition("\n")
    try:
        receipt = json.loads(first) if end else None
    except ValueError:
        return False
    return isinstance(receipt, dict) and receipt.keys() >= RECEIPT


def is_completion(path: str) -> bool:
    """Whether it is a shell's completion or a manual page that this program printed."""
    text = first_bytes(path)
    return COMPLETION in text or text.startswith(MANUAL)


def first_bytes(path: str) -> str:
    """The first bytes of a regular file, as text; nothing of anything else, and through no link."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(MOST_BYTES).decode("utf-8", "replace") if is_file else ""
    except OSError:
        return ""
