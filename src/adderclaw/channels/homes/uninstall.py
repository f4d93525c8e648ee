"""Lists what this program made on this machine, and removes it; what is not its own is named and left."""

import os
import shutil
from collections.abc import Callable, Iterator

from adderclaw.channels import installed_by
from adderclaw.channels.homes.restore import in_use
from adderclaw.config.paths import beneath, followed
from adderclaw.errors import AdderClawError, StoreError, UsageError
from adderclaw.record import NamedTuple
from adderclaw.types import Json

OWN_NAMES = ("config.toml", "memory.sqlite", "tool_receipts.log", "receipt.key", "settings.json", "cache")
"""A folder with none of these is no home of ours, and is not removed."""


class Item(NamedTuple):
    what: str
    where: str
    removed: bool = False
    problem: str = ""


class Listed(NamedTuple):
    items: list[Item]
    left: list[str]
    """What is named and left, with how to remove it."""
    program: installed_by.Way
    really: bool

    @property
    def complete(self) -> bool:
        return not any(item.problem for item in self.items)

    def as_json(self) -> Json:
        return {
            "items": [item._asdict() for item in self.items],
            "left": self.left,
            "program": self.program._asdict(),
            "removed": self.really,
        }


def uninstall(home: str, *, really: bool) -> Listed:
    """Everything is listed first: what the list is made from is removed with the home."""
    _require_ours(home)
    if really and (why := in_use(home)):
        raise UsageError(f"{home} is in use ({why}): end that first; nothing was removed")
    left = [*_left(home)]
    items = [_done(item, remove, really) for item, remove in [*_parts(home)]]
    return Listed(items, left, installed_by.way(), really)


def _require_ours(home: str) -> None:
    real = followed(home)
    if beneath(followed(os.path.expanduser("~")), real):
        raise UsageError(f"ADDERCLAW_HOME is {home}: that is no home of adderclaw's own, and nothing is removed")
    if os.path.isdir(home) and os.listdir(home) and not any(os.path.lexists(os.path.join(home, n)) for n in OWN_NAMES):
        raise UsageError(f"{home} holds nothing that adderclaw makes ({', '.join(OWN_NAMES)}): nothing is removed")


type Remove = Callable[[], None]


def _parts(home: str) -> Iterator[tuple[Item, Remove]]:
    """The home comes last: what was in it says what the others are."""
    yield from _services()
    yield from _secrets(home)
    yield from ((Item("completion", path), _unlink(path)) for path in completions())
    yield from _elsewhere(home)
    if os.path.lexists(home):
        yield Item("home, with database, receipts, settings, plugins and caches", home), _tree(home)


def _services() -> Iterator[tuple[Item, Remove]]:
    from adderclaw.channels.service.backend import BACKENDS

    for name, make in BACKENDS.items():
        found = make()
        if os.path.lexists(found.unit):
            yield Item(f"service ({name})", found.unit), found.uninstall


def _secrets(home: str) -> Iterator[tuple[Item, Remove]]:
    from adderclaw.credentials.vault import names_in, system_ring

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


def completions() -> Iterator[str]:
    """Files that `--install-completion`, install.sh or the packages may have written for this user."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    places = (
        os.path.expanduser("~/.bash_completions/adderclaw.sh"),
        os.path.expanduser("~/.zfunc/_adderclaw"),
        os.path.expanduser("~/.config/fish/completions/adderclaw.fish"),
        os.path.join(settings, "fish/completions/adderclaw.fish"),
        os.path.join(data, "bash-completion/completions/adderclaw"),
        os.path.join(data, "zsh/site-functions/_adderclaw"),
        os.path.join(data, "fish/vendor_completions.d/adderclaw.fish"),
        os.path.join(data, "man/man1/adderclaw.1"),
        os.path.join(data, "applications/adderclaw.desktop"),
    )
    return (path for path in dict.fromkeys(places) if os.path.isfile(path))


def _elsewhere(home: str) -> Iterator[tuple[Item, Remove]]:
    """The database and the receipts, where the configuration keeps them outside of the home."""
    from adderclaw.config import load
    from adderclaw.config.paths import OWN_ENDINGS
    from adderclaw.errors import ConfigError

    try:
        now = load(looks=True, here=True).config
    except ConfigError:
        return
    for what, path in (("database", now.memory.path), ("receipts", now.receipts.path)):
        if beneath(followed(path), followed(home)):
            continue
        for ending in ("", *OWN_ENDINGS):
            one = f"{path}{ending}"
            if os.path.isfile(one) and not os.path.islink(one):
                yield Item(what, one), _unlink(one)


def _unlink(path: str) -> Remove:
    return lambda: os.unlink(path)


def _tree(path: str) -> Remove:
    def remove() -> None:
        if os.path.islink(path):
            raise AdderClawError("it is a link: remove it, and what it leads to, yourself")
        shutil.rmtree(path)

    return remove


def _done(item: Item, remove: Remove, really: bool) -> Item:
    if not really:
        return item
    try:
        remove()
    except (OSError, AdderClawError) as error:
        return item._replace(problem=str(error))
    return item._replace(removed=True)


# ------------------------------------------------------------------ what is not ours to remove


def _left(home: str) -> Iterator[str]:
    for line in _crontab():
        yield f"a line of your crontab, which is yours: `crontab -e` and remove: {line}"
    if folders := _run_folders(home):
        shown = ", ".join(folders[:10]) + (f" and {len(folders) - 10} more" if len(folders) > 10 else "")
        yield f"folders of runs in your projects: {shown}"
    for path in sorted(_copies(home)):
        yield f"a home that `restore` put aside: {path}"
    if os.path.isdir("/etc/adderclaw"):
        yield "/etc/adderclaw, which the administrator of this machine made"


def _crontab() -> list[str]:
    from adderclaw.channels.service.command import ran

    if shutil.which("crontab") is None:
        return []
    done = ran(["crontab", "-l"], timeout=10)
    lines = done.out.splitlines() if done.code == 0 else []
    return [line.strip() for line in lines if "adderclaw" in line and not line.lstrip().startswith("#")]


def _run_folders(home: str) -> list[str]:
    from adderclaw.store import Store

    path = os.path.join(home, "memory.sqlite")
    if not os.path.exists(path):
        return []
    try:
        store = Store.open(path, read_only=True)
    except StoreError:
        return []
    try:
        rows = store.read("SELECT DISTINCT root, way FROM traces")
    finally:
        store.close()
    folders = {os.path.dirname(os.path.join(os.fsdecode(root), os.fsdecode(way))) for root, way in rows}
    return sorted(folder for folder in folders if os.path.isdir(folder))


def _copies(home: str) -> Iterator[str]:
    folder, name = os.path.split(home)
    if os.path.isdir(folder):
        yield from (
            os.path.join(folder, one) for one in os.listdir(folder) if one.startswith(f"{name}.before-restore-")
        )


def said(done: Listed) -> Iterator[str]:
    """For people."""
    for item in done.items:
        state = f"FAILED ({item.problem})" if item.problem else "removed" if item.removed else "would be removed"
        yield f"{state}: {item.what}: {item.where}"
    if not done.items:
        yield "nothing that this program made is left."
    yield from (f"left: {one}" for one in done.left)
    yield f"the program itself ({done.program.kind}, {done.program.place}): {done.program.remove}"
    if not done.really and done.items:
        yield "nothing was removed: --yes removes it"
