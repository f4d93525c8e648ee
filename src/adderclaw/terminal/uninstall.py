"""Lists and removes what this program created on this machine; files not proved to be its own are listed and kept."""

import os
import shutil
from collections.abc import Callable, Iterator

from adderclaw.config import installation
from adderclaw.config.paths import beneath, followed
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, StoreError, UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.server.service.backend import BACKENDS, is_written_by_us
from adderclaw.storage.backup.restore import user_of_home
from adderclaw.terminal import owned_files


class Item(NamedTuple):
    what: str
    where: str
    removed: bool = False
    problem: str = ""


class UninstallList(NamedTuple):
    items: list[Item]
    left: list[str]
    """Items that are kept, with how to remove them."""
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
    """Everything is listed first: what the list is made from is removed with the home."""
    _require_ours(home)
    if really and (why := user_of_home(home)):
        raise UsageError(f"{home} is in use ({why}): end that first; nothing was removed")
    left = [*_items_left_behind(home)]
    items = [_removed(item, remove, really) for item, remove in [*_removable_items(home)]]
    return UninstallList(items, left, installation.found(), really)


def _require_ours(home: str) -> None:
    if beneath(followed(os.path.expanduser("~")), followed(home)):
        raise UsageError(f"ADDERCLAW_HOME is {home}: that is no home of adderclaw's own, and nothing is removed")
    if os.path.islink(home):
        raise UsageError(f"{home} is a link: set ADDERCLAW_HOME to the folder that it leads to; nothing is removed")
    if not os.path.lexists(home):
        return
    if not os.path.isdir(home):
        raise UsageError(f"{home} is no folder: nothing is removed")
    if (owner := os.stat(home).st_uid) != os.geteuid():
        raise UsageError(f"{home} belongs to another user (uid {owner}): run this as that user; nothing is removed")
    if os.listdir(home) and not owned_files.is_home(home):
        why = "it has no database, no receipts and no settings that adderclaw wrote"
        raise UsageError(f"{home} is not proved to be a home of adderclaw's: {why}. Nothing is removed")
    if marker := owned_files.project_marker(home):
        names = ", ".join(sorted(name for name in os.listdir(home) if owned_files.in_home(home, name)))
        raise UsageError(
            f"{home} is a project, too ({marker} is there), whose files may have the same names: nothing is removed. "
            f"Remove by hand which of these are not the project's: {names}"
        )


type Remove = Callable[[], None]


def _removable_items(home: str) -> Iterator[tuple[Item, Remove]]:
    """The home comes last: what was in it says what the others are."""
    yield from _services()
    yield from _secrets(home)
    yield from ((Item("completion", path), _unlinker(path)) for path in _folders() if owned_files.is_completion(path))
    yield from _files_elsewhere(home)
    if os.path.lexists(home):
        yield Item("home, with database, receipts, settings, plugins and caches", home), _remove_if_empty(home)


def _services() -> Iterator[tuple[Item, Remove]]:
    for name, make in BACKENDS.items():
        service = make()
        if is_written_by_us(service.unit):
            yield Item(f"service ({name})", service.unit), service.uninstall


def _secrets(home: str) -> Iterator[tuple[Item, Remove]]:
    from adderclaw.models.credentials.vault import names_in, system_ring

    names = names_in(home)
    ring = system_ring(home) if names else None
    for name in names:
        if ring is None:
            yield Item("login in the system's keyring", name), _no_keyring
        elif ring.get(name) is not None:
            yield Item("login in the system's keyring", name), _forget(ring.delete, name)


def _no_keyring() -> None:
    raise AdderClawError("no keyring answers here: unlock it, and run this again")


def _forget(delete: Callable[[str], bool], name: str) -> Remove:
    def remove() -> None:
        delete(name)

    return remove


def _folders() -> list[str]:
    """Where `--install-completion` and install.sh write for this user."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    places = (
        os.path.expanduser("~/.bash_completions/adderclaw.sh"),
        os.path.expanduser("~/.zfunc/_adderclaw"),
        os.path.expanduser("~/.config/fish/completions/adderclaw.fish"),
        os.path.join(settings, "fish/completions/adderclaw.fish"),
        os.path.join(data, "bash-completion/completions/adderclaw"),
        os.path.join(data, "zsh/site-functions/_adderclaw"),
        os.path.join(data, "man/man1/adderclaw.1"),
    )
    return [path for path in dict.fromkeys(places) if os.path.lexists(path)]


_PROVED = {"database": owned_files.is_database, "receipts": owned_files.is_receipts}


def _files_outside(home: str) -> Iterator[tuple[str, str]]:
    """The database and the receipts, where the configuration keeps them outside of the home."""
    from adderclaw.config import load
    from adderclaw.core.errors import ConfigError

    try:
        now = load(looks=True, here=True).config
    except ConfigError:
        return
    for what, path in (("database", now.memory.path), ("receipts", now.receipts.path)):
        if not beneath(followed(path), followed(home)) and _PROVED[what](path):
            yield what, path


def _files_elsewhere(home: str) -> Iterator[tuple[Item, Remove]]:
    from adderclaw.config.paths import OWN_ENDINGS

    for what, path in _files_outside(home):
        if owned_files.home_around(path):
            continue
        for ending in ("", *OWN_ENDINGS):
            copy = f"{path}{ending}"
            if os.path.isfile(copy) and not os.path.islink(copy):
                yield Item(what, copy), _unlinker(copy)


def _unlinker(path: str) -> Remove:
    return lambda: os.unlink(path)


def _remove_if_empty(home: str) -> Remove:
    """Remove what is its own in a home, and the home where nothing else is in it."""

    def remove() -> None:
        for name in os.listdir(home):
            if owned_files.in_home(home, name):
                path = os.path.join(home, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        if not os.listdir(home):
            os.rmdir(home)

    return remove


def _removed(item: Item, remove: Remove, really: bool) -> Item:
    if not really:
        return item
    try:
        remove()
    except (OSError, AdderClawError) as error:
        return item._replace(problem=str(error))
    return item._replace(removed=True)


# ------------------------------------------------------------------ files of others


def _items_left_behind(home: str) -> Iterator[str]:
    others = (
        [name for name in sorted(os.listdir(home)) if not owned_files.in_home(home, name)]
        if os.path.isdir(home)
        else []
    )
    if others:
        yield f"in {home}, not made by adderclaw: {', '.join(others)}"
    for path in _folders():
        if not owned_files.is_completion(path):
            yield f"{path}, which adderclaw did not write as it is"
    for name, make in BACKENDS.items():
        if os.path.lexists(unit := make().unit) and not is_written_by_us(unit):
            yield f"{unit}, which adderclaw did not write: `adderclaw service uninstall --backend {name}` removes it"
    for what, path in _files_outside(home):
        if other := owned_files.home_around(path):
            yield f"{path}, the {what} of another home: {other}"
    for file, line in _shell_start_up_files():
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


def _shell_start_up_files() -> Iterator[tuple[str, str]]:
    """Lines that begin adderclaw's completion in start-up files of shells."""
    for file in ("~/.bashrc", "~/.zshrc", "~/.profile", "~/.config/fish/config.fish"):
        lines = owned_files.first_bytes(followed(os.path.expanduser(file))).splitlines()
        yield from ((file, line.strip()) for line in lines if "adderclaw" in line and line.strip()[:1] != "#")


def _crontab() -> list[str]:
    from adderclaw.server.service.command import run_command

    done = run_command("crontab", "-l", timeout=10)
    lines = done.out.splitlines() if done.code == 0 else []
    return [line.strip() for line in lines if "adderclaw" in line and not line.lstrip().startswith("#")]


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
    """For people."""
    for item in done.items:
        state = f"FAILED ({item.problem})" if item.problem else "removed" if item.removed else "would be removed"
        yield f"{state}: {item.what}: {item.where}"
    if not done.items:
        yield "nothing that this program made is left."
    yield from (f"left: {path}" for path in done.left)
    yield f"the program itself ({done.program['way']}, {done.program['where']}): {done.program['remove']}"
    if not done.really and done.items:
        yield "nothing was removed: --yes removes it"
