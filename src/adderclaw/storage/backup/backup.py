"""Backs up a home, even while sessions run: one file, one state of the database, with its receipts verified."""

import errno
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import IO
from urllib.parse import quote

from adderclaw import __version__
from adderclaw.config import load
from adderclaw.config.paths import beneath, followed, is_run_name
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, ConfigError, LedgerError, StoreError, UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store, damage
from adderclaw.storage.backup import contents
from adderclaw.storage.backup.archive import FORMAT, Manifest, Progress, Reader, Writer, key_id, name_problem
from adderclaw.storage.files import IMAGE, folder_of
from adderclaw.storage.ledger.log_files import Lock, open_log, read_key
from adderclaw.storage.ledger.verify import Verification, verify
from adderclaw.storage.queries import databases

DATABASE, LOG = "store/memory.sqlite", "store/tool_receipts.log"
"""Their names in an archive if they are in their usual places or outside of the home."""
PAGES = 2_000
"""Database pages copied per step."""


class BackupResult(NamedTuple):
    file: str
    size: int
    files: int
    receipts: Verification
    secrets: bool
    left_out: list[str]
    notes: list[str]

    @property
    def good(self) -> bool:
        return _problem(self.receipts) == ""


def _problem(verification: Verification) -> str:
    """Why a backup with these receipts is not usable; empty if it is."""
    if not verification.valid:
        return f"the receipts do NOT verify: invalid at {verification.first_broken}: {verification.reason}"
    if verification.completeness.get("behind"):
        missing = verification.completeness["unmirrored"]
        return (
            f"the database lacks {missing} of {verification.receipts} receipts: it was restored to an older state, its "
            "-wal file was lost, or another database was in use. `adderclaw receipt verify` shows details"
        )
    return ""


class _Sources(NamedTuple):
    home: str
    database: str
    log: str
    notes: list[str]

    @property
    def key(self) -> str:
        return os.path.join(self.home, home_names.RECEIPT_KEY)

    def archive_name(self, path: str, usual: str) -> str:
        """The name of the database or the log in an archive: its path in the home if the settings look for it there."""
        relative = os.path.relpath(followed(path), followed(self.home))
        inside = beneath(followed(path), followed(self.home)) and relative != os.path.basename(usual)
        return f"home/{relative}" if inside and not name_problem(f"home/{relative}") else usual


def backup(
    home: str, target: str, *, config: str | None, secrets: bool, replace: bool, progress: Progress
) -> BackupResult:
    """Writes the backup to `target`, a file or a folder. Raises if nothing can be backed up."""
    if not os.path.isdir(home):
        raise UsageError(f"there is no home at {home} and so nothing to back up; run `adderclaw init` first")
    places = _find_sources(home, config)
    target = _target_file(target, home, replace=replace)
    folder = os.path.dirname(target)
    try:
        with tempfile.TemporaryDirectory(prefix=".adderclaw-backup-", dir=folder) as scratch:
            return _Backup(places, scratch, secrets, progress).write(os.path.join(scratch, "backup.zip"), target)
    except OSError as error:
        raise AdderClawError(
            f"the backup cannot be written to {folder} ({error}). Nothing was written. Free some space there or "
            "choose another folder"
        ) from error


def _find_sources(home: str, config: str | None) -> _Sources:
    try:
        now = load(config_file=config, looks=True, here=True).config
    except ConfigError as error:
        note = f"the configuration cannot be read ({error.problems[0]}), so the default paths were used"
        return _Sources(home, os.path.join(home, home_names.DATABASE), os.path.join(home, home_names.RECEIPTS), [note])
    return _Sources(home, now.memory.path, now.receipts.path, [])


def _target_file(target: str, home: str, *, replace: bool) -> str:
    path = os.path.abspath(os.path.expanduser(target))
    if os.path.isdir(path):
        path = os.path.join(path, time.strftime("adderclaw-%Y%m%d-%H%M%SZ.zip", time.gmtime()))
    if beneath(followed(path), followed(home)):
        raise UsageError(f"{path} is inside of the home; choose a file elsewhere, preferably on another disk")
    if not os.path.isdir(os.path.dirname(path)):
        raise UsageError(f"{os.path.dirname(path)} is not a folder; create it or choose another file")
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path} is not a regular file; choose another")
    if os.path.lexists(path) and not replace:
        raise UsageError(f"{path} already exists; choose another file or use --replace")
    return path


class _Backup:
    def __init__(self, places: _Sources, scratch: str, secrets: bool, progress: Progress) -> None:
        self._sources, self._secrets, self._progress = places, secrets, progress
        self._notes: list[str] = [*places.notes]
        self._left_out: list[str] = []
        self._copy, self._log = os.path.join(scratch, home_names.DATABASE), os.path.join(scratch, home_names.RECEIPTS)
        self._done = self._total = 0
        self._database_name = places.archive_name(places.database, DATABASE)
        """The database's name in the archive; a file store is a folder with this name."""
        self._log_name = places.archive_name(places.log, LOG)
        self._in_files = os.path.isdir(folder_of(places.database))
        self._snapshotted = (
            followed(folder_of(places.database) if self._in_files else places.database),
            followed(places.log),
        )
        """The real paths of the database and the log, which are backed up as snapshots of the same moment."""

    def write(self, unfinished: str, target: str) -> BackupResult:
        has_database = self._snapshot()
        with open(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w+b") as file:
            with Writer(file) as writer:
                runs = self._add_files(writer, has_database)
                verification = self._verify_copies(has_database)
                if (why := _problem(verification)) and os.path.lexists(target):
                    raise AdderClawError(f"{why}; the earlier backup in {target} was not replaced")
                writer.finish(self._manifest(writer, has_database, runs, verification))
            file.flush()
            os.fsync(file.fileno())
            reader = Reader(file, target)
            for name in reader.names():
                reader.copy(name, None)
        size = os.path.getsize(unfinished)
        os.replace(unfinished, target)
        result = BackupResult(
            target, size, len(writer.entries), verification, self._secrets, self._left_out, self._notes
        )
        if result.good and has_database:
            damage.record_backup(self._sources.database, target)
        return result

    # -------------------------------------------------------------- one state of the database and of the log

    def _snapshot(self) -> bool:
        """Copies the database and the receipts that it knows. Returns whether there is a database.

        Holds the lock of the receipts only while it begins a read transaction and reads the log's length. From then on
        both copies show that moment, regardless of how long they take and what is written meanwhile.
        """
        if not Store.exists(self._sources.database):
            if self._log_length():
                raise StoreError(damage.lost_message(self._sources.database, self._sources.log))
            return False
        if self._in_files:
            self._copy_log(self._copy_image())
        else:
            self._copy_log(self._copy_database())
        with closing(sqlite3.connect(self._copy)) as copy:
            if why := damage.find_damage(copy):
                raise StoreError(f"{damage.message(self._sources.database, why)}. No backup was written")
            if self._log_length() and not databases.tables(copy):
                raise StoreError(damage.lost_message(self._sources.database, self._sources.log))
        return True

    def _copy_image(self) -> int | None:
        """Copies the file of a file store. Each commit replaces the file, so the opened one does not change."""
        with self._receipts_locked(), open(os.path.join(folder_of(self._sources.database), IMAGE), "rb") as source:
            length = self._log_length()
            with open(os.open(self._copy, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_WRONLY, 0o600), "wb") as target:
                shutil.copyfileobj(source, target)
        return length

    def _copy_database(self) -> int | None:
        name = f"file:{quote(self._sources.database)}?mode=ro"
        try:
            with closing(sqlite3.connect(name, uri=True, timeout=30, isolation_level=None)) as source:
                with self._receipts_locked():
                    databases.begin_snapshot(source)
                    length = self._log_length()
                os.close(os.open(self._copy, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_RDWR, 0o600))
                with closing(sqlite3.connect(self._copy)) as target:
                    source.backup(target, pages=PAGES, progress=self._report_pages, sleep=0)
                    target.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            if damage.is_damage(error):
                raise StoreError(f"{damage.message(self._sources.database, error)}. No backup was written") from error
            raise StoreError(
                f"{self._sources.database} cannot be copied ({error}); run `adderclaw doctor` to find out why"
            ) from error
        return length

    @contextmanager
    def _receipts_locked(self) -> Generator[None]:
        """Holds the lock of the receipts, so that none is written."""
        try:
            lock = Lock(self._sources.log, shared=True)
        except (FileNotFoundError, LedgerError):
            yield
            return
        try:
            with lock:
                yield
        finally:
            lock.close()

    def _log_length(self) -> int | None:
        try:
            return os.lstat(self._sources.log).st_size
        except FileNotFoundError:
            return None

    def _report_pages(self, _status: int, remaining: int, total: int) -> None:
        self._progress(total - remaining, total)

    def _copy_log(self, length: int | None) -> None:
        try:
            fd = open_log(self._sources.log, os.O_RDONLY)
        except FileNotFoundError:
            return
        with open(fd, "rb") as source, open(self._log, "xb") as target:
            left = os.fstat(fd).st_size if length is None else length
            while left and (part := source.read(min(left, 1 << 20))):
                target.write(part)
                left -= len(part)

    # -------------------------------------------------------------- the files

    def _add_files(self, writer: Writer, has_database: bool) -> dict[str, str]:
        own = [self._log, *([self._copy] if has_database else [])]
        entries = [entry for entry in contents.files(self._sources.home) if self._is_included(entry)]
        runs = self._run_folders() if has_database else {}
        traces = [
            (name, entry)
            for name, folder in runs.items()
            for entry in contents.files(folder)
            if self._has_valid_name(name, entry)
        ]
        self._total = sum(entry.size for entry in (*entries, *(entry for _, entry in traces)))
        self._total += sum(os.path.getsize(path) for path in own if os.path.exists(path))
        for path, name in ((self._copy, self._rows_name), (self._log, self._log_name)):
            if path in own and os.path.exists(path):
                with open(path, "rb") as source:
                    self._add(writer, name, source)
        for entry in entries:
            self._add_file(writer, f"home/{entry.relative}", entry)
        for name, entry in traces:
            self._add_file(writer, f"{name}/{entry.relative}", entry)
        for link in contents.links(self._sources.home):
            self._left_out.append(f"{link} (a link)")
        self._add_files_outside_home(writer)
        return runs

    def _is_included(self, entry: contents.HomeFile) -> bool:
        path = followed(entry.path)
        if any(beneath(path, own) for own in self._snapshotted):
            return False
        if f"store/{entry.relative}" in (self._database_name, self._log_name):
            self._left_out.append(f"{entry.relative} (not the one in use)")
            return False
        if contents.is_secret(entry.relative) and not self._secrets:
            self._left_out.append(f"{entry.relative} ({contents.SECRET.get(entry.relative, 'a key')})")
            return False
        return self._has_valid_name("home", entry)

    def _has_valid_name(self, folder: str, entry: contents.HomeFile) -> bool:
        if name_problem(f"{folder}/{entry.relative}"):
            self._left_out.append(f"{entry.relative!r} (its name)")
            return False
        return True

    @property
    def _rows_name(self) -> str:
        return f"{folder_of(self._database_name)}/{IMAGE}" if self._in_files else self._database_name

    def _add_file(self, writer: Writer, name: str, entry: contents.HomeFile) -> None:
        try:
            fd = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # removed in the meantime
        except OSError as error:
            self._left_out.append(f"{entry.relative} ({error.strerror})")
            return
        with open(fd, "rb") as source:
            self._add(writer, name, source, mode=entry.mode, limit=os.fstat(fd).st_size)

    def _add(self, writer: Writer, name: str, source: IO[bytes], mode: int = 0o600, limit: int | None = None) -> None:
        self._done += writer.add(name, source, mode=mode, limit=limit)
        self._progress(min(self._done, self._total), self._total)

    def _run_folders(self) -> dict[str, str]:
        """Folder in the archive → the existing folder of a run that the database lists."""
        folders: dict[str, str] = {}
        with closing(sqlite3.connect(f"file:{quote(self._copy)}?mode=ro", uri=True)) as copy:
            for run_id, folder in databases.run_folders(copy):
                name = f"runs/{run_id}"
                inside = beneath(followed(folder), followed(self._sources.home))
                if (
                    os.path.isdir(folder)
                    and is_run_name(os.path.basename(folder))
                    and not inside
                    and not name_problem(name)
                ):
                    folders.setdefault(name, folder)
        return folders

    def _add_files_outside_home(self, writer: Writer) -> None:
        """Adds archived receipts from outside of the home, and notes on what `restore` cannot put back there."""
        home, folder, name = self._sources.home, *os.path.split(self._sources.log)
        for key, path in (("memory.path", self._sources.database), ("receipts.path", self._sources.log)):
            if Store.exists(path) and not beneath(followed(path), followed(home)):
                self._notes.append(
                    f"{key} is {path}, outside of the home; `restore` puts it into the home, so change the setting then"
                )
        if beneath(followed(folder), followed(home)) or not os.path.isdir(folder):
            return
        for other in sorted(os.listdir(folder)):
            path = os.path.join(folder, other)
            if other.startswith(f"{name}.2") and os.path.isfile(path) and not os.path.islink(path):
                status = os.lstat(path)
                self._add_file(writer, f"store/{other}", contents.HomeFile(other, path, status.st_size, 0o600))

    # -------------------------------------------------------------- verification and manifest

    def _verify_copies(self, has_database: bool) -> Verification:
        """Verifies the copies that go into the backup. The copy of an older database is migrated first."""
        try:
            store = Store.open(self._copy) if has_database else None
        except StoreError as error:
            raise StoreError(str(error).replace(self._copy, self._sources.database)) from error
        try:
            return verify(self._log, store, self._sources.key, results=True)
        finally:
            if store is not None:
                store.close()

    def _manifest(
        self, writer: Writer, has_database: bool, runs: dict[str, str], verification: Verification
    ) -> Manifest:
        return Manifest(
            format=FORMAT,
            adderclaw=__version__,
            made_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            home=self._sources.home,
            database=self._database_name if has_database else "",
            receipts=self._log_name if self._log_name in writer.entries else "",
            head=verification.head,
            key_id=self._key_id(),
            secrets=self._secrets,
            files=writer.entries,
            runs=runs,
            notes=self._notes,
        )

    def _key_id(self) -> str:
        with suppress(AdderClawError):
            return key_id(read_key(self._sources.key))
        return ""


def describe(result: BackupResult) -> Iterator[str]:
    """The result as lines for people."""
    yield f"wrote {result.file}: {result.files} files, {result.size / (1 << 20):.1f} MiB"
    yield f"{_problem(result.receipts) or f'{result.receipts.receipts} receipts verify'}; head {result.receipts.head}"
    if result.secrets:
        yield "it contains secrets and is not encrypted; store it as safely as your keys"
    if result.left_out:
        more = "" if result.secrets else "; --with-secrets includes secrets"
        yield f"left out: {', '.join(result.left_out)}{more}"
    yield "logins in the system's keyring are never backed up"
    yield from (f"note: {note}" for note in result.notes)
