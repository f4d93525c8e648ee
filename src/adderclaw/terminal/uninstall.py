"""Lists and removes what this program created on this machine, and names what it leaves behind."""

import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial

from adderclaw.config import installation, places
from adderclaw.config.paths import OWN_ENDINGS, beneath, followed
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, StoreError, UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.server.service.backend import is_written_by_us
from adderclaw.server.service.managers import BACKENDS
from adderclaw.storage.backup.restore import user_of_home
from adderclaw.storage.damage import is_own_database

type Remove = Callable[[], object]


class Item(NamedTuple):
    what: str
    where: str
    removed: bool = False
    problem: str = ""


class UninstallList(NamedTuple):
    items: list[Item]
    left: list[str]
    """What stays, with how to remove it."""
    program: installation.Installed
    really: bool

    @property
    def complete(self) -> bool:
        return not any(item.problem for item in self.items)

    def as_json(self) -> Json:
        return {
            "items": [item._asdict() for item in self.items],
            "left": self.left,
            "program": dict(self.program),
            "removed": self.really,
        }


def uninstall(home: str, *, really: bool) -> UninstallList:
    _require_home(home)
    if really and (why := user_of_home(home)):
        raise UsageError(f"{home} is in use ({why}). End that first; nothing was removed.")
    left = [*_items_left_behind(home)]
    removable = [*_removable_items(home)]  # complete before the first removal, because the home says what to remove
    items = [_remove(item, remove) if really else item for item, remove in removable]
    return UninstallList(items, left, installation.found(), really)


def _require_home(home: str) -> None:
    """Raises UsageError for a folder in which removing files by name could remove somebody's own files."""
    if beneath(followed(os.path.expanduser("~")), followed(home)):
        raise UsageError(f"ADDERCLAW_HOME is {home}, which contains your home folder. Nothing was removed.")
    if os.path.islink(home):
        raise UsageError(f"{home} is a link. Set ADDERCLAW_HOME to the folder it points to; nothing was removed.")
    if not os.path.lexists(home):
        return
    if not os.path.isdir(home):
        raise UsageError(f"{home} is not a folder. Nothing was removed.")
    if (owner := os.stat(home).st_uid) != os.geteuid():
        raise UsageError(f"{home} belongs to another user (uid {owner}). Run this as that user; nothing was removed.")
    names = set(os.listdir(home))
    if names and not _is_home(home, names):
        raise UsageError(
            f"{home} is not a home of adderclaw: it has neither adderclaw's database ({home_names.DATABASE}) nor its "
            f"receipt key ({home_names.RECEIPT_KEY}). Nothing was removed."
        )
    if marker := _project_marker(home):
        raise UsageError(
            f"{home} also belongs to a project ({marker} is there), whose files may have the same names. Nothing was "
            "removed: remove adderclaw's files there by hand."
        )


def _is_home(home: str, names: set[str]) -> bool:
    """Whether adderclaw made this folder: by its database, or by its receipt key where the database is elsewhere."""
    if home_names.DATABASE not in names:
        return home_names.RECEIPT_KEY in names
    try:
        return is_own_database(os.path.join(home, home_names.DATABASE))
    except sqlite3.DatabaseError:  # damaged
        return home_names.RECEIPT_KEY in names and home_names.RECEIPTS in names


def _project_marker(home: str) -> str:
    """A file that makes the folder, or the parent of a project's `.adderclaw`, a project; empty if there is none."""
    markers = [name for name in (*places.MARKERS, *places.MANIFESTS) if name not in home_names.USERS]
    parent, name = os.path.split(home)
    if name == ".adderclaw" and parent != os.path.expanduser("~"):
        markers += [f"../{marker}" for marker in (*places.MARKERS, *places.MANIFESTS) if marker != name]
    return next((marker for marker in markers if os.path.lexists(os.path.join(home, marker))), "")


def _remove(item: Item, remove: Remove) -> Item:
    try:
        remove()
    except (OSError, AdderClawError) as error:
        return item._replace(problem=str(error))
    return item._replace(removed=True)


# ------------------------------------------------------------------ what is removed


def _removable_items(home: str) -> Iterator[tuple[Item, Remove]]:
    from adderclaw.models.credentials.vault import names_in, system_ring

    for name, make in BACKENDS.items():
        service = make()
        if is_written_by_us(service.unit):
            yield Item(f"service ({name})", service.unit), service.uninstall
    logins = names_in(home)
    ring = system_ring(home) if logins else None
    for name in logins:
        if ring is None:
            yield Item("login in the system's keyring", name), _report_missing_keyring
        elif ring.get(name) is not None:
            yield Item("login in the system's keyring", name), partial(ring.delete, name)
    for path in _completions():
        yield Item("completion", path), partial(os.unlink, path)
    if os.path.lexists(home):
        yield Item("home, with database, receipts, settings, plugins and caches", home), partial(_remove_home, home)


def _report_missing_keyring() -> None:
    raise AdderClawError("the system's keyring does not answer. Unlock it, and run this again.")


def _completions() -> list[str]:
    """What `--install-completion` and install.sh wrote for this user."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    paths = (
        os.path.expanduser("~/.bash_completions/adderclaw.sh"),
        os.path.expanduser("~/.zfunc/_adderclaw"),
        os.path.expanduser("~/.config/fish/completions/adderclaw.fish"),
        os.path.join(settings, "fish/completions/adderclaw.fish"),
        os.path.join(data, "bash-completion/completions/adderclaw"),
        os.path.join(data, "zsh/site-functions/_adderclaw"),
        os.path.join(data, "man/man1/adderclaw.1"),
    )
    return [path for path in dict.fromkeys(paths) if os.path.lexists(path)]


def _remove_home(home: str) -> None:
    """Removes this program's files in a home, and the home itself if nothing else is in it."""
    for name in os.listdir(home):
        if _is_own_name(home, name):
            path = os.path.join(home, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    if not os.listdir(home):
        os.rmdir(home)


_RECORDS = re.compile(
    r"(memory\.sqlite(\.before-m\d{3}_\w+|\.last-backup)?|tool_receipts\.log(\.\d{8}T\d{6}Z(-\d+)?)?|\.trial-\d+\.toml)"
    rf"({'|'.join(map(re.escape, OWN_ENDINGS))})?"
)
"""The database with its copies, the receipt log with its earlier parts, a trial of settings."""


def _is_own_name(home: str, name: str) -> bool:
    """Whether the program creates a file or folder of this name in its home. Links are always left."""
    path = os.path.join(home, name)
    if os.path.islink(path):
        return False
    if os.path.isdir(path):
        return name in home_names.FOLDERS
    return os.path.isfile(path) and (name in home_names.FILES or _RECORDS.fullmatch(name) is not None)


# ------------------------------------------------------------------ what is left


def _items_left_behind(home: str) -> Iterator[str]:
    names = sorted(os.listdir(home)) if os.path.isdir(home) else []
    if others := [name for name in names if not _is_own_name(home, name)]:
        yield f"in {home}, not made by adderclaw: {', '.join(others)}"
    for name, make in BACKENDS.items():
        if os.path.lexists(unit := make().unit) and not is_written_by_us(unit):
            yield f"{unit}, which adderclaw did not write: `adderclaw service uninstall --backend {name}` removes it"
    for what, path in _records_elsewhere(home):
        yield f"the {what}, which the configuration puts outside the home: {path}"
    for file in ("~/.bashrc", "~/.zshrc", "~/.profile", "~/.config/fish/config.fish"):
        for line in _lines_with_our_name(file):
            yield f"a line of {file}, which is yours to remove: {line}"
    for line in _crontab():
        yield f"a line of your crontab, which is yours: `crontab -e` and remove: {line}"
    if folders := _run_folders(home):
        shown = ", ".join(folders[:10]) + (f" and {len(folders) - 10} more" if len(folders) > 10 else "")
        yield f"folders of runs in your projects: {shown}"
    for path in sorted(_copies(home)):
        yield f"a home that `restore` put aside, or did not finish: {path}"
    if os.path.isdir(workspace := os.path.expanduser("~/adderclaw-workspace")):
        yield f"the workspace that `init` made, with what is in it: {workspace}"
    if os.path.isdir("/etc/adderclaw"):
        yield "/etc/adderclaw, which the administrator of this machine made"


def _records_elsewhere(home: str) -> Iterator[tuple[str, str]]:
    from adderclaw.config import load
    from adderclaw.core.errors import ConfigError

    try:
        now = load(looks=True, here=True).config
    except ConfigError:
        return
    for what, path in (("database", now.memory.path), ("receipts", now.receipts.path)):
        if os.path.lexists(path) and not beneath(followed(path), followed(home)):
            yield what, path


def _lines_with_our_name(file: str) -> list[str]:
    try:
        with open(os.path.expanduser(file), encoding="utf-8", errors="replace") as text:
            return _without_comments(text.read())
    except OSError:
        return []


def _crontab() -> list[str]:
    from adderclaw.server.service.command import run_command

    done = run_command("crontab", "-l", timeout=10)
    return _without_comments(done.out) if done.code == 0 else []


def _without_comments(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if "adderclaw" in line and not line.lstrip().startswith("#")]


def _run_folders(home: str) -> list[str]:
    from adderclaw.storage import Store
    from adderclaw.storage.queries.databases import trace_folders

    path = os.path.join(home, home_names.DATABASE)
    if not Store.exists(path):
        return []
    try:
        store = Store.open(path, read_only=True)
    except StoreError:
        return []
    try:
        folders = trace_folders(store)
    finally:
        store.close()
    return sorted(
        folder for folder in folders if os.path.isdir(folder) and not beneath(followed(folder), followed(home))
    )


def _copies(home: str) -> Iterator[str]:
    folder, name = os.path.split(home)
    beginnings = (f"{name}.before-restore-", f".{name}.restoring-")
    if os.path.isdir(folder):
        yield from (os.path.join(folder, entry) for entry in os.listdir(folder) if entry.startswith(beginnings))


def result_lines(done: UninstallList) -> Iterator[str]:
    """The result as lines of text."""
    for item in done.items:
        state = f"FAILED ({item.problem})" if item.problem else "removed" if item.removed else "would be removed"
        yield f"{state}: {item.what}: {item.where}"
    if not done.items:
        yield "nothing that this program made is left."
    yield from (f"left: {path}" for path in done.left)
    yield f"the program itself ({done.program['way']}, {done.program['where']}): {done.program['remove']}"
    if not done.really and done.items:
        yield "nothing was removed: --yes removes it"
