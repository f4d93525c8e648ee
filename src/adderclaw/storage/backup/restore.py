"""Restores a home from a backup: checks every byte and receipt first, then replaces the home by one rename."""

import errno
import os
import shutil
import signal
import sqlite3
import stat
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import IO, cast
from urllib.parse import quote

from adderclaw import config
from adderclaw.config.paths import followed
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, ConfigError, LedgerError, StoreError, UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.storage import Store, damage
from adderclaw.storage.backup import contents
from adderclaw.storage.backup.archive import BadArchive, Manifest, Progress, Reader, key_id
from adderclaw.storage.backup.backup import DATABASE, LOG
from adderclaw.storage.files import IMAGE, folder_of
from adderclaw.storage.ledger.log_files import read_key
from adderclaw.storage.ledger.verify import Verification, verify

RESERVED_BYTES = 64 << 20
"""Bytes that must remain free on the disk."""


class Restored(NamedTuple):
    home: str
    files: int
    made_at: str
    made_by: str
    receipts: Verification
    sealed: bool
    """Whether the seals were checked as well, because the key was available."""
    kept_aside: str
    """The new path of the previous home; empty if there was none."""
    secrets: list[str]
    """The files with secrets that the home has now."""
    notes: list[str]


def restore(path: str, home: str, *, replace: bool, unverified: bool, dry_run: bool, progress: Progress) -> Restored:
    path, home = os.path.abspath(os.path.expanduser(path)), followed(os.path.abspath(os.path.expanduser(home)))
    with _open_archive(path) as file:
        _require_replaceable(home, replace=replace)
        reader = Reader(file, path)
        folder = _parent_folder(os.path.dirname(home), really=not dry_run)
        status = os.statvfs(folder)
        if status.f_bavail * status.f_frsize < reader.total + RESERVED_BYTES:
            needed = f"{folder}: needs {(reader.total + RESERVED_BYTES) >> 20} MiB of free space"
            raise AdderClawError(f"{needed}. Nothing was changed. Free some space and retry")
        try:
            staging = tempfile.mkdtemp(prefix=f".{os.path.basename(home)}.restoring-", dir=folder)
        except OSError as error:
            raise AdderClawError(
                f"{folder} cannot be written ({error.strerror}). Nothing was changed. Choose another place with --to"
            ) from error
        try:
            return _Restore(reader, staging, home, replace=replace, unverified=unverified).run(dry_run, progress)
        except OSError as error:
            if error.errno == errno.EBUSY:
                raise _mount_point_error(home) from error
            raise
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _parent_folder(folder: str, *, really: bool) -> str:
    """The folder that contains the home; in a dry run, its nearest existing parent."""
    if really:
        os.makedirs(folder, exist_ok=True)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def _open_archive(path: str) -> IO[bytes]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UsageError(f"{path} is not a regular file; give the file that `adderclaw backup` wrote")
    return open(fd, "rb")


# ------------------------------------------------------------------ the existing home


def _require_replaceable(home: str, *, replace: bool) -> None:
    if os.path.lexists(home) and not os.path.isdir(home):
        raise UsageError(f"{home} is not a folder; choose another with --to")
    if os.path.ismount(home):
        raise _mount_point_error(home)
    if not os.path.isdir(home) or not os.listdir(home):
        return
    if not replace:
        raise UsageError(f"{home} is not empty; --replace moves it aside, --to DIR restores to another place")
    if why := user_of_home(home):
        raise UsageError(f"{home} is in use ({why}). Nothing was changed. End that first")


def _mount_point_error(home: str) -> UsageError:
    return UsageError(
        f"{home} is a mount point and cannot be replaced. Nothing was changed. Restore to a folder in it with "
        f"--to {home}/home, and set ADDERCLAW_HOME to that folder"
    )


def user_of_home(home: str) -> str:
    """What is using a home now; empty if nothing is."""
    for path in _databases(home):
        if _is_locked(os.path.join(f"{path}.files", "lock")):
            return "a session is open"
        if os.path.exists(path) and _is_open_elsewhere(path):
            return f"a session or a server has {path} open"
    return ""


def _databases(home: str) -> Iterator[str]:
    """The home's default database, and, for the home in use, also the one that the settings name."""
    usual = os.path.join(home, home_names.DATABASE)
    yield usual
    if followed(home) != followed(config.home()):
        return
    with suppress(ConfigError):
        path = config.load(looks=True, here=True).config.memory.path
        if followed(path) != followed(usual):
            yield path


def _is_locked(path: str) -> bool:
    import fcntl

    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def _is_open_elsewhere(path: str) -> bool:
    """Whether another process has the database open: readers hold a lock too."""
    try:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return False


# ------------------------------------------------------------------ the restored home


class _Restore:
    def __init__(self, reader: Reader, staging: str, home: str, *, replace: bool, unverified: bool) -> None:
        self._reader, self._staging, self._home = reader, staging, home
        self._replace, self._unverified = replace, unverified
        self._manifest: Manifest = reader.manifest
        self._notes = list(self._manifest.notes)
        self._done = 0

    def run(self, dry_run: bool, progress: Progress) -> Restored:
        for name in self._reader.names():
            self._restore_file(name, progress)
        self._copy_old_secrets()
        verification, sealed = self._verify()
        kept_aside = ""
        if not dry_run:
            os.sync()
            with _signals_blocked():
                kept_aside = self._switch_homes()
        self._note_foreign_settings(dry_run)
        secrets = sorted(name for name in contents.SECRET if os.path.exists(self._restored_path(name, dry_run)))
        if self._manifest.runs:
            where = os.path.join(self._home, home_names.RESTORED_RUNS)
            self._notes.append(f"the folders of {len(self._manifest.runs)} runs are in {where}")
        return Restored(
            self._home,
            len(self._manifest.files),
            self._manifest.made_at,
            self._manifest.adderclaw,
            verification,
            sealed,
            kept_aside,
            secrets,
            self._notes,
        )

    def _restored_path(self, name: str, dry_run: bool) -> str:
        return os.path.join(self._staging if dry_run else self._home, name)

    def _target_path(self, name: str) -> str:
        """Where a file of the archive belongs. Its name has been checked."""
        top, _, way = name.partition("/")
        where = {"home": "", "store": "", "runs": home_names.RESTORED_RUNS}.get(top)
        if where is None or not way:
            raise BadArchive(f"{name!r} does not belong in a home. Nothing was written; use a backup that you trust")
        return os.path.join(self._staging, where, *way.split("/"))

    def _database_path(self, name: str, usual: str) -> str:
        """The new path of the database or the log that the manifest names."""
        if name and not {name, f"{folder_of(name)}/{IMAGE}"} & self._manifest.files.keys():
            raise BadArchive(f"it is not restored: its manifest names {name[:200]!r}, which is missing: it was changed")
        return self._target_path(name or usual)

    def _restore_file(self, name: str, progress: Progress) -> None:
        path = self._target_path(name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(path, flags, self._manifest.files[name].mode & 0o700 | 0o600)
        except FileExistsError:
            raise BadArchive(f"{name!r} would overwrite another file of the backup. Nothing was written") from None

        def more(size: int) -> None:
            self._done += size
            progress(self._done, self._reader.total)

        with open(fd, "wb") as target:
            self._reader.copy(name, target, more)

    def _note_foreign_settings(self, dry_run: bool) -> None:
        """Notes settings that name the database or log of the original home: the restored one would not be used."""
        import tomllib

        try:
            with open(self._restored_path(home_names.CONFIG, dry_run), "rb") as file:
                settings = tomllib.load(file)
        except (OSError, ValueError):  # missing, or `config validate` reports it
            return
        for section, name, usual in (
            ("memory", self._manifest.database, DATABASE),
            ("receipts", self._manifest.receipts, LOG),
        ):
            table, key = settings.get(section), f"{section}.path"
            path = cast(Json, table).get("path") if isinstance(table, dict) else None
            if not name or not isinstance(path, str):
                continue
            path = os.path.join(self._home, os.path.expanduser(path))
            here = os.path.join(self._home, os.path.relpath(self._database_path(name, usual), self._staging))
            if followed(path) != followed(here):
                where = os.path.join(self._home, home_names.CONFIG)
                self._notes.append(f"{key} is {path} in {where}, but the restored file is {here}; change the setting")

    def _copy_old_secrets(self) -> None:
        """Copies the secrets of the replaced home if the backup has none; the receipt key only if it is the same."""
        if self._manifest.secrets or not self._replace:
            return
        for name in contents.SECRET:
            before = os.path.join(self._home, name)
            if (
                not os.path.isfile(before)
                or os.path.islink(before)
                or os.path.exists(os.path.join(self._staging, name))
            ):
                continue
            if name == home_names.RECEIPT_KEY and key_id(read_key(before)) != self._manifest.key_id:
                self._notes.append(
                    "the receipt.key of the previous home is not the one of this backup and was not copied"
                )
                continue
            fd = os.open(os.path.join(self._staging, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(before, "rb") as source, open(fd, "wb") as target:
                shutil.copyfileobj(source, target)

    def _verify(self) -> tuple[Verification, bool]:
        """Verifies the restored receipts; without the key, their hashes but not their seals."""
        key = os.path.join(self._staging, home_names.RECEIPT_KEY)
        database, log = (
            self._database_path(self._manifest.database, DATABASE),
            self._database_path(self._manifest.receipts, LOG),
        )
        store = None
        try:
            if Store.exists(database):
                self._require_undamaged(database)
                store = Store.open(database)
            sealed = read_key(key) is not None
            verification = verify(log, store, key if sealed else "", results=True)
            usual = self._target_path(LOG)
            if (
                usual != log and verification.valid and os.path.lexists(usual)
            ):  # not the log in use, but it must be valid
                other = verify(usual, None, key if sealed else "")
                verification = verification if other.valid else other
        except (StoreError, LedgerError) as error:
            raise BadArchive(
                f"it is not restored: {_without_staging_path(str(error), self._staging)}. Nothing was written"
            ) from error
        finally:
            if store is not None:
                store.close()
        if store is None and verification.receipts:
            self._require_unverified(f"it has {verification.receipts} receipts but no database")
        if verification.completeness.get("behind"):
            self._require_unverified(
                f"its database lacks {verification.completeness['unmirrored']} of {verification.receipts} receipts"
            )
        if not verification.valid:
            why = _without_staging_path(
                f"its receipts do not verify: receipt {verification.first_broken}: {verification.reason}", self._staging
            )
            self._require_unverified(why)
        elif verification.head != self._manifest.head:
            raise BadArchive("it is not restored: its last receipt is not the one in the manifest: it was changed")
        if not sealed and verification.receipts:
            fix = "copy the original receipt.key into the home, or start a new chain: `adderclaw receipt archive --yes`"
            self._notes.append(f"the key of the receipts is not in this backup; {fix}")
        return verification, sealed

    def _require_unverified(self, why: str) -> None:
        """Refuses the backup, or adds a note if the operator gave --unverified."""
        if not self._unverified:
            raise BadArchive(f"it is not restored: {why}. Nothing was written; --unverified restores it anyway")
        self._notes.append(why)

    def _require_undamaged(self, database: str) -> None:
        folder = folder_of(database)
        path = os.path.join(folder, IMAGE) if os.path.isdir(folder) else database
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as copy:
            if why := damage.find_damage(copy):
                raise BadArchive(f"it is not restored: the database in it is damaged ({why}). Nothing was written")

    def _switch_homes(self) -> str:
        """Puts the restored home in place. Returns the new path of the previous home."""
        os.chmod(self._staging, 0o700)
        if not os.path.isdir(self._home) or not os.listdir(self._home):
            os.rename(self._staging, self._home)  # also replaces an empty folder
            return ""
        if why := user_of_home(self._home):
            raise UsageError(f"{self._home} is in use ({why}). Nothing was changed. End that first")
        self._carry_emergency_stop()
        aside = f"{self._home}.before-restore-{time.strftime('%Y%m%d-%H%M%SZ', time.gmtime())}"
        # The restored home first gets the name that the previous one will have, so that neither is ever in the staging
        # folder, which is deleted after a failure.
        os.rename(self._staging, aside)
        try:
            if _exchange_folders(aside, self._home):
                return aside
        except OSError:
            os.rename(aside, self._staging)
            raise
        os.rename(aside, self._staging)
        os.rename(self._home, aside)
        try:
            os.rename(self._staging, self._home)
        except OSError:
            os.rename(aside, self._home)
            raise
        return aside

    def _carry_emergency_stop(self) -> None:
        """Copies an emergency stop, because only `estop --clear` may lift it."""
        if os.path.lexists(os.path.join(self._home, home_names.ESTOP)):
            with open(os.path.join(self._staging, home_names.ESTOP), "ab"):
                self._notes.append("the emergency stop is still set: `adderclaw estop --clear` removes it")


@contextmanager
def _signals_blocked() -> Generator[None]:
    """Blocks signals, so that none ends the process between two renames."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _without_staging_path(text: str, staging: str) -> str:
    return text.replace(f"{staging}/", "")


def _exchange_folders(first: str, second: str) -> bool:
    """Swaps two folders atomically, so that the home always exists. Returns False if the system cannot."""
    import ctypes

    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    at, exchange = -100, 2
    if call(at, os.fsencode(first), at, os.fsencode(second), exchange) == 0:
        return True
    number = ctypes.get_errno()
    if number not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        raise OSError(number, os.strerror(number), second)
    return False


def describe(done: Restored, *, dry_run: bool) -> Iterator[str]:
    """The result as lines for people."""
    verb = "could be restored to" if dry_run else "restored"
    yield f"{verb} {done.home}: {done.files} files of {done.made_at}, backed up by adderclaw {done.made_by}"
    seals = "hashes and seals" if done.sealed else "hashes; without the key no seals"
    yield f"{done.receipts.receipts} receipts verify ({seals}); head {done.receipts.head}"
    if done.kept_aside:
        yield f"the previous home is in {done.kept_aside}; remove it when you no longer need it"
    yield f"secrets in it: {', '.join(done.secrets) or 'none; log in and set keys again'}"
    yield from (f"note: {note}" for note in done.notes)
