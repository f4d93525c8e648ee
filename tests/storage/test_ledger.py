"""The ledger: when it refuses to go on, what a crash leaves, several writers, and the form of a receipt."""

import fcntl
import hashlib
import hmac
import json
import os
import random
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

import pytest

from adderclaw.core.errors import LedgerError, StoreError
from adderclaw.storage import Store, transcript
from adderclaw.storage.ledger.ledger import Ledger, archive
from adderclaw.storage.ledger.verify import verify
from tests.program import Soak
from tests.storage.book import Book, Ticking, call, child, codes, draft, integrity, nothing, numbered


def cut_last(book: Book) -> None:
    book.log.write_bytes(b"".join(book.lines()[:-1]))


def cut_newline(book: Book) -> None:
    book.log.write_bytes(book.log.read_bytes()[:-1])


def emptied(book: Book) -> None:
    book.log.write_bytes(b"")


def deleted(book: Book) -> None:
    book.log.unlink()


def last_edited(book: Book) -> None:
    book.log.write_bytes(book.log.read_bytes().replace(b'"t2"', b'"t9"')[:-3] + b"0}\n")


def key_removed(book: Book) -> None:
    book.key.unlink()


def key_replaced(book: Book) -> None:
    book.key.write_bytes(os.urandom(32))


def key_cut(book: Book) -> None:
    book.key.write_bytes(book.key.read_bytes()[:31])


def linked(book: Book) -> None:
    book.log.rename(book.log.with_name("elsewhere"))
    book.log.symlink_to("elsewhere")


def key_linked(book: Book) -> None:
    book.key.rename(book.key.with_name("elsewhere"))
    book.key.symlink_to("elsewhere")


def a_pipe(book: Book) -> None:
    book.log.unlink()
    os.mkfifo(book.log)


def a_folder(book: Book) -> None:
    book.log.unlink()
    book.log.mkdir()


def forged_tail(book: Book) -> None:
    """Somebody without the key adds a receipt with a right hash."""
    last = json.loads(book.lines()[-1])
    last |= {"seq": 4, "previous_hash": last["receipt_hash"]}
    del last["receipt_hash"]
    text = json.dumps(last, sort_keys=True, separators=(",", ":"))
    last["receipt_hash"] = hashlib.sha256(text.encode()).hexdigest()
    with book.log.open("a") as file:
        file.write(json.dumps(last, sort_keys=True, separators=(",", ":")) + "\n")


def duplicated(book: Book) -> None:
    with book.log.open("ab") as file:
        file.write(book.lines()[-1])


def garbage_line(book: Book) -> None:
    with book.log.open("ab") as file:
        file.write(b"garbage\n")


SPOILED: list[tuple[Callable[[Book], None], str]] = [
    (cut_last, "was truncated"),
    (cut_newline, "was truncated"),
    (emptied, "was truncated"),
    (deleted, "was deleted"),
    (last_edited, "mirror"),
    (key_removed, "is missing"),
    (key_replaced, "key was replaced"),
    (key_cut, "not the key"),
    (linked, "symbolic link"),
    (key_linked, "symbolic link"),
    (a_pipe, "not a regular file"),
    (a_folder, "cannot be opened"),
    (forged_tail, "mac"),
    (duplicated, "receipt 3"),
    (garbage_line, "not JSON"),
]


@pytest.mark.parametrize(("spoil", "said"), SPOILED)
def test_a_spoiled_ledger_does_not_open(book: Book, spoil: Callable[[Book], None], said: str) -> None:
    book.write(3)
    spoil(book)
    with pytest.raises(LedgerError, match=said):
        book.ledger()
    assert book.mirrored() == 3


RUNNING: list[tuple[Callable[[Book], None], str]] = [
    (cut_last, "was truncated"),
    (emptied, "was truncated"),
    (deleted, "is missing"),
    (linked, "was replaced"),
    (forged_tail, "mac"),
    (duplicated, "receipt 3"),
    (garbage_line, "not JSON"),
]


@pytest.mark.parametrize(("spoil", "said"), RUNNING)
def test_no_tool_runs_once_the_log_is_spoiled(book: Book, spoil: Callable[[Book], None], said: str) -> None:
    ledger = book.ledger()
    for number in range(3):
        call(ledger, f"t{number}")
    spoil(book)
    with pytest.raises(LedgerError, match=said):
        ledger.require_ready()
    with pytest.raises(LedgerError, match=said):
        ledger.append(draft(), nothing)
    assert book.mirrored() == 3


def test_a_log_that_was_put_back_under_another_inode_is_refused(book: Book) -> None:
    ledger = book.ledger()
    call(ledger, "t")
    copy = book.log.read_bytes()
    book.log.rename(book.log.with_name("old"))
    book.log.write_bytes(copy)
    with pytest.raises(LedgerError, match="was replaced"):
        ledger.require_ready()


def test_a_receipt_that_cannot_be_written_leaves_the_log_as_it_was(book: Book) -> None:
    book.write(2)
    before = book.log.read_bytes()

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, len(before) + 100))
        store = Store.open(str(book.database), read_only=True)
        ledger = Ledger.open(str(book.log), store, str(book.key), clock=Ticking(), ids=numbered())
        with pytest.raises(LedgerError, match="could not be written"):
            ledger.append(draft(), nothing)

    assert codes([child(work)]) == [0]
    assert book.log.read_bytes() == before
    assert book.verify().valid


def fill(hog: Path) -> None:
    with suppress(OSError), hog.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 65536)


def test_a_full_disk_stops_the_tool_before_it_runs(needs: Callable[[str], str], tmp_path: Path) -> None:
    mount = needs("mount")
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run([mount, "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        (tmp_path / "store").mkdir()
        store = Store.open(str(tmp_path / "store" / "memory.sqlite"))
        log = disk / "receipts.log"
        ledger = Ledger.open(str(log), store, str(tmp_path / "key"), clock=Ticking(), ids=numbered())
        ledger.require_ready()
        ledger.append(draft(), nothing)
        fill(disk / "hog")
        ledger.append(draft(), nothing)  # the space was set aside before
        ledger.close()
        again = Ledger.open(str(log), store, str(tmp_path / "key"), clock=Ticking(), ids=numbered())
        with pytest.raises(LedgerError, match="No space left"):
            again.require_ready()
        assert verify(str(log), store, str(tmp_path / "key")).valid
    finally:
        subprocess.run([needs("umount"), "-l", str(disk)], check=True)


def test_a_held_lock_is_waited_for(book: Book) -> None:
    ledger = book.ledger()
    with open(f"{book.log}.lock") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        pid = child(lambda: call(_again(book), "t") and None)
        time.sleep(0.2)
        assert book.log.read_bytes() == b""
        fcntl.flock(held, fcntl.LOCK_UN)
    assert codes([pid]) == [0]
    ledger.require_ready()
    assert book.verify().receipts == 1


def test_a_removed_lock_file_does_not_split_the_writers(book: Book) -> None:
    first, second = book.ledger(), book.ledger()
    os.unlink(f"{book.log}.lock")
    third = book.ledger()
    for number, ledger in enumerate((first, third, second, first)):
        call(ledger, f"t{number}")
    assert os.path.exists(f"{book.log}.lock")
    assert book.verify().receipts == 4


# ------------------------------------------------------------------ the form of a receipt


def test_the_line_is_what_the_specification_says(book: Book) -> None:
    receipts = book.write(2)
    first, second = (json.loads(line) for line in book.lines())
    ours = "id timestamp conversation_id tool args_hash result_hash status risk decision"
    assert list(first) == sorted(f"{ours} seq previous_hash mac receipt_hash".split())
    assert first["id"] == "receipt-1"
    assert first["timestamp"] == "2026-05-12T14:00:01.000Z"
    assert (first["seq"], first["previous_hash"]) == (1, "0" * 64)
    assert (second["seq"], second["previous_hash"]) == (2, first["receipt_hash"])

    def canonical(without: tuple[str, ...]) -> bytes:
        kept = {name: value for name, value in first.items() if name not in without}
        return json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    assert first["receipt_hash"] == hashlib.sha256(canonical(("receipt_hash",))).hexdigest()
    key = book.key.read_bytes()
    assert first["mac"] == hmac.new(key, canonical(("mac", "receipt_hash")), "sha256").hexdigest()
    assert receipts[0]._asdict() == first


def test_files_are_the_owners_alone(book: Book) -> None:
    book.write(1)
    for path in (book.log, book.key, Path(f"{book.log}.lock")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert book.key.stat().st_size == 32
    book.log.chmod(0o666)
    book.ledger()
    assert stat.S_IMODE(book.log.stat().st_mode) == 0o600


ODD_DECISIONS = [
    {"reason": "é 𝕌 \u2028"},
    {"reason": "\ud800"},
    {"reason": "line\nbreak\r\x00"},
    {"numbers": [1.5, 1e300, -0.0, 10**20, True, None]},
    {"tuple": (1, 2), 3: "int key", "nested": {2: "b", 10: "a"}},
    {"reason": "x" * 1_000_000},
    {},
]


@pytest.mark.parametrize("decision", ODD_DECISIONS, ids=range(len(ODD_DECISIONS)))
def test_any_decision_makes_a_receipt_that_verifies(book: Book, decision: dict[str, object]) -> None:
    ledger = book.ledger()
    ledger.append(draft(decision=decision, tool="\ud800 tool" * 100), nothing)
    ledger.append(draft(), nothing)
    assert all(len(line) < 33_000 for line in book.lines())
    assert book.verify().valid
    assert book.ledger().repairs == []


def test_receipt_and_rows_are_one_transaction(book: Book) -> None:
    ledger = book.ledger()

    def rows(cursor: sqlite3.Cursor) -> None:
        transcript.append(cursor, "session", "tool_result", {"content": "lost"})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ledger.append(draft("t1"), rows)
    assert (len(book.lines()), book.mirrored()) == (1, 0)
    assert transcript.entries(book.store, "session") == []
    assert book.verify().valid
    call(ledger, "t2")
    assert [tuple(row) for row in book.store.read("SELECT seq, tool_use_id FROM receipts")] == [(1, "t1"), (2, "t2")]


# ------------------------------------------------------------------ crashes


def test_a_torn_line_is_said_and_removed(book: Book) -> None:
    book.write(2)
    good = book.log.read_bytes()
    for piece in (b"{", book.lines()[1][:100], b"\x00" * 50, "é".encode()[:1]):
        book.log.write_bytes(good + piece)
        found = book.verify()
        assert found.valid
        assert "a crash tore the line of receipt 3" in found.notes[0]
        ledger = book.ledger()
        assert "torn" in ledger.repairs[0] or "tore" in ledger.repairs[0]
        assert book.log.read_bytes() == good
        ledger.close()
    assert book.verify().notes == ()


def test_a_log_ahead_of_the_mirror_is_mirrored(book: Book) -> None:
    book.write(3)
    for missing in (1, 2, 3):
        book.sql("DELETE FROM receipts WHERE seq > ?", 3 - missing)
        found = book.verify()
        assert (found.valid, found.completeness["unmirrored"]) == (True, missing)
        assert not found.completeness["complete"]
        ledger = book.ledger()
        assert ("restored to an older state" if missing > 1 else "a crash left receipt 3") in ledger.repairs[0]
        assert book.mirrored() == 3
        ledger.close()
    assert book.verify().completeness["unmirrored"] == 0


def test_a_line_that_lacks_only_its_end_is_kept(book: Book) -> None:
    book.write(2)
    book.sql("DELETE FROM receipts WHERE seq = 2")
    book.log.write_bytes(book.log.read_bytes()[:-1])
    assert book.verify().valid
    assert book.ledger().repairs
    assert (book.verify().receipts, book.mirrored()) == (2, 2)


def test_a_crash_of_another_is_repaired_while_we_run(book: Book) -> None:
    ours = book.ledger()
    call(ours, "t0")
    theirs = _again(book)
    with pytest.raises(StoreError, match="no such table"):
        theirs.append(draft("t1"), lambda cursor: cursor.execute("DELETE FROM nowhere") and None)
    with book.log.open("ab") as file:
        file.write(b'{"torn')
    ours.require_ready()
    assert len(ours.repairs) == 2
    call(ours, "t2")
    call(theirs, "t3")
    assert (book.verify().receipts, book.mirrored()) == (4, 4)
    assert book.store.read("SELECT tool_use_id FROM receipts WHERE seq = 2")[0][0] == "t1"


def test_another_store_for_the_same_log_catches_up(book: Book, tmp_path: Path) -> None:
    book.write(3)
    other = Book(tmp_path / "other")
    other.log, other.key = book.log, book.key
    call(other.ledger(), "t")
    assert other.mirrored() == 4
    assert other.verify().valid
    found = book.verify()
    assert (found.valid, found.completeness["unmirrored"]) == (True, 1)


def test_catching_up_costs_the_same_however_much_others_wrote(book: Book) -> None:
    ours, theirs = book.ledger(), _again(book)
    ours.require_ready()  # sets disk aside, once
    done: list[int] = []
    for number in (2, 50):
        for turn in range(number):
            call(theirs, f"{number}-{turn}")
        done.append(_calls(ours.require_ready))
        assert call(ours, f"after {number}").seq == book.mirrored()
    assert done[0] == done[1]
    found = book.verify()
    assert (found.valid, found.receipts, ours.repairs) == (True, 54, [])


def test_what_others_cut_is_found_before_a_tool_runs(book: Book) -> None:
    ours, theirs = book.ledger(), _again(book)
    for number in range(5):
        call(theirs, f"t{number}")
    cut_last(book)
    with pytest.raises(LedgerError, match="the store has 5 receipts, but the log ends earlier"):
        ours.require_ready()


def _calls(work: Callable[[], object]) -> int:
    """How many functions it calls."""
    count = 0

    def hear(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(hear)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def _again(book: Book, prefix: str = "x") -> Ledger:
    """As another process would have it: its own connection, its own descriptors."""
    store = Store.open(str(book.database))
    return Ledger.open(str(book.log), store, str(book.key), clock=Ticking(), ids=numbered(prefix))


@pytest.mark.soak
def test_eight_processes_append_one_chain(book: Book, soak: Soak) -> None:
    rounds = len(soak.of(300))

    def work(number: int) -> None:
        ledger = _again(book, f"{number}-")
        for turn in range(rounds):
            call(ledger, f"{number}-{turn}")

    assert codes([child(lambda number=number: work(number)) for number in range(8)]) == [0] * 8
    found = book.verify()
    assert (found.valid, found.receipts, book.mirrored()) == (True, 8 * rounds, 8 * rounds)
    assert found.completeness["complete"]
    assert found.completeness["tool_calls"] == 8 * rounds
    assert not book.ledger().repairs


@pytest.mark.soak
def test_kill_at_any_moment_leaves_a_chain_that_goes_on(book: Book, soak: Soak) -> None:
    def work(number: int) -> None:
        ledger = _again(book, f"{number}-")
        for turn in range(10_000):
            call(ledger, f"{number}-{turn}")

    for number in soak.of(200):
        chance = random.Random(number)
        pids = [child(lambda one=one, number=number: work(1000 * one + number)) for one in range(2)]
        time.sleep(chance.uniform(0.0, 0.06))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        assert codes(pids) == [-signal.SIGKILL] * 2
        before = book.verify()
        assert before.valid, before
        assert before.completeness["unmirrored"] <= 1
        assert before.completeness["complete"]
        ledger = _again(book, f"after-{number}-")
        assert ledger.append(draft(f"after-{number}"), nothing).seq == before.receipts + 1 + _finished(ledger)
    after = book.verify()
    assert (after.valid, after.receipts) == (True, book.mirrored())
    assert integrity(book.database) == "ok"


def _finished(ledger: Ledger) -> int:
    """How many torn lines turned out to be whole: verify had not counted them."""
    return sum("without its newline" in repair for repair in ledger.repairs)


# ------------------------------------------------------------------ archive


def test_an_archive_keeps_the_old_chain_and_begins_a_new_one(book: Book) -> None:
    book.write(3)
    name = archive(str(book.log), book.store, now=1_778_594_400.0)
    assert name == "receipts.log.20260512T140000Z"
    assert not book.log.exists()
    (receipt,) = book.write(1)
    assert (receipt.seq, receipt.previous_hash) == (1, "0" * 64)
    assert book.verify().completeness["archives"] == [name]
    old = verify(str(book.log), book.store, str(book.key), archive=name)
    assert (old.valid, old.receipts) == (True, 3)
    book.log.with_name(name).write_bytes(b"")
    assert verify(str(book.log), book.store, str(book.key), archive=name).first_broken == 1
    assert book.store.read("SELECT event_type FROM events")[0][0] == "receipts_archived"
    assert archive(str(book.log), book.store, now=1_778_594_400.0) == f"{name}-2"


@pytest.mark.parametrize("spoil", [deleted, emptied, key_removed, garbage_line, last_edited, linked])
def test_an_archive_is_the_way_on_from_a_spoiled_ledger(book: Book, spoil: Callable[[Book], None]) -> None:
    book.write(2)
    spoil(book)
    archive(str(book.log), book.store, now=0.0)
    assert book.write(1)[0].seq == 1
    assert book.verify().valid


def test_there_must_be_something_to_archive(book: Book) -> None:
    with pytest.raises(LedgerError, match="no receipt to archive"):
        archive(str(book.log), book.store, now=0.0)


def test_a_store_that_cannot_be_written_is_said(book: Book) -> None:
    book.write(1)
    reader = Store.open(str(book.database), read_only=True)
    ledger = Ledger.open(str(book.log), reader, str(book.key), clock=Ticking(), ids=numbered())
    with pytest.raises(StoreError, match="reading only"):
        ledger.append(draft(), nothing)
    assert book.verify().valid
