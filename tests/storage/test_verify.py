"""Verification as an attacker meets it: every way to change the past, and what is said of each."""

import hashlib
import hmac
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adderclaw.core.errors import LedgerError, UsageError
from adderclaw.storage import Store, transcript
from adderclaw.storage.ledger.verify import head, receipts, verify
from tests.storage.book import Book, call, draft, nothing


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def rewritten(book: Book, key: bytes, change: Callable[[list[dict[str, Any]]], None]) -> bytes:
    """The whole chain made anew after a change, as well as somebody with this key can."""
    chain = [json.loads(line) for line in book.lines()]
    change(chain)
    previous, made = "0" * 64, b""
    for seq, receipt in enumerate(chain, start=1):
        receipt |= {"seq": seq, "previous_hash": previous}
        del receipt["mac"], receipt["receipt_hash"]
        receipt["mac"] = hmac.new(key, canonical(receipt), "sha256").hexdigest()
        receipt["receipt_hash"] = previous = hashlib.sha256(canonical(receipt)).hexdigest()
        made += canonical(receipt) + b"\n"
    return made


def blame_another(chain: list[dict[str, Any]]) -> None:
    chain[2]["tool"] = "Write"


def lines(book: Book, order: list[int]) -> None:
    kept = book.lines()
    book.log.write_bytes(b"".join(kept[number - 1] for number in order))


def edit_second(book: Book) -> None:
    """As a person would, in an editor."""
    kept = book.lines()
    kept[1] = kept[1].replace(b'"Read"', b'"Time"')
    book.log.write_bytes(b"".join(kept))


def edit_second_and_its_hash(book: Book) -> None:
    kept = book.lines()
    receipt = json.loads(kept[1])
    receipt["tool"] = "Time"
    del receipt["receipt_hash"]
    receipt["receipt_hash"] = hashlib.sha256(canonical(receipt)).hexdigest()
    book.log.write_bytes(kept[0] + canonical(receipt) + b"\n" + b"".join(kept[2:]))


def spaces_in_second(book: Book) -> None:
    kept = book.lines()
    kept[1] = kept[1].replace(b'":', b'": ', 1)
    book.log.write_bytes(b"".join(kept))


def rewrite_without_the_key(book: Book) -> None:
    book.log.write_bytes(rewritten(book, b"guessed", blame_another))


def rewrite_with_the_key(book: Book) -> None:
    book.log.write_bytes(rewritten(book, book.key.read_bytes(), blame_another))


def rewrite_log_mirror_and_key(book: Book) -> None:
    """Only a head that was kept elsewhere tells."""
    book.key.write_bytes(b"k" * 32)
    book.log.write_bytes(rewritten(book, b"k" * 32, blame_another))
    for seq, line in enumerate(book.lines(), start=1):
        book.sql("UPDATE receipts SET line = ? WHERE seq = ?", line.decode().rstrip("\n"), seq)


def roll_back_both(book: Book) -> None:
    lines(book, [1, 2, 3])
    book.sql("DELETE FROM receipts WHERE seq > 3")


def symbolic_link(book: Book) -> None:
    book.log.rename(book.log.with_name("other"))
    book.log.symlink_to("other")


INVALID: list[tuple[str, Callable[[Book], object], int, str]] = [
    ("edit", edit_second, 2, "hash does not match"),
    ("edit with its hash", edit_second_and_its_hash, 2, "mac"),
    ("spaces", spaces_in_second, 2, "canonical"),
    ("cut tail", lambda book: lines(book, [1, 2, 3]), 4, "was truncated"),
    ("cut head", lambda book: lines(book, [2, 3, 4, 5]), 1, "receipt 2"),
    ("removed from the middle", lambda book: lines(book, [1, 2, 4, 5]), 3, "receipt 4"),
    ("moved", lambda book: lines(book, [1, 3, 2, 4, 5]), 2, "receipt 3"),
    ("doubled", lambda book: lines(book, [1, 2, 2, 3, 4, 5]), 3, "receipt 2"),
    ("doubled at the end", lambda book: lines(book, [1, 2, 3, 4, 5, 5]), 6, "receipt 5"),
    ("inserted", lambda book: book.log.write_bytes(book.lines()[0] + b"{}\n" + b"".join(book.lines()[1:])), 2, ""),
    ("blank line", lambda book: book.log.write_bytes(b"\n" + book.log.read_bytes()), 1, "not JSON"),
    ("carriage returns", lambda book: book.log.write_bytes(book.log.read_bytes().replace(b"\n", b"\r\n")), 1, ""),
    ("emptied", lambda book: book.log.write_bytes(b""), 1, "was truncated"),
    ("deleted", lambda book: book.log.unlink(), 1, "deleted"),
    ("last newline", lambda book: os.truncate(book.log, book.log.stat().st_size - 1), 5, "cut"),
    ("half of the last", lambda book: os.truncate(book.log, book.log.stat().st_size - 99), 5, "cut"),
    ("zeros", lambda book: book.log.write_bytes(bytes(book.log.stat().st_size)), 1, ""),
    ("endless line", lambda book: book.log.write_bytes(book.log.read_bytes() + b"x" * 1_000_000), 6, ""),
    ("deep nesting", lambda book: book.log.write_bytes(book.lines()[0] + b"[" * 30_000 + b"\n"), 2, "not JSON"),
    ("rewrite without the key", rewrite_without_the_key, 1, "mac"),
    ("rewrite with the key", rewrite_with_the_key, 3, "mirror"),
    ("key removed", lambda book: book.key.unlink(), 1, "is missing"),
    ("key replaced", lambda book: book.key.write_bytes(os.urandom(32)), 1, "mac"),
    ("mirror row changed", lambda book: book.sql("UPDATE receipts SET line = '{}' WHERE seq = 4"), 4, "mirror"),
    ("mirror row removed", lambda book: book.sql("DELETE FROM receipts WHERE seq = 2"), 2, "mirror"),
]


@pytest.mark.parametrize(("spoil", "first", "said"), [row[1:] for row in INVALID], ids=[row[0] for row in INVALID])
def test_is_found_and_located(book: Book, spoil: Callable[[Book], object], first: int, said: str) -> None:
    book.write(5)
    spoil(book)
    found = book.verify()
    assert not found.valid
    assert found.first_broken == first, found.reason
    assert said in found.reason
    assert found.receipts == first - 1
    assert found.head.startswith(f"{first - 1}:")


KEPT: list[tuple[Callable[[Book], object], int]] = [
    (rewrite_log_mirror_and_key, 5),
    (roll_back_both, 4),
    (lambda book: (book.log.unlink(), book.sql("DELETE FROM receipts")), 1),
    (lambda book: (book.log.write_bytes(b""), book.sql("DELETE FROM receipts")), 1),
]


@pytest.mark.parametrize(("spoil", "first"), KEPT)
def test_a_head_kept_elsewhere_finds_what_nothing_else_can(
    book: Book, spoil: Callable[[Book], object], first: int
) -> None:
    book.write(5)
    kept = head(str(book.log), book.store, str(book.key))
    assert book.verify(kept).valid
    assert book.log_only(kept).valid
    spoil(book)
    assert book.verify().valid
    found = book.verify(kept)
    assert (found.valid, found.first_broken) == (False, first)
    assert not book.log_only(kept).valid


def test_a_rollback_of_both_leaves_calls_without_receipts(book: Book) -> None:
    book.write(5)
    roll_back_both(book)
    figures = book.verify().completeness
    assert (figures["complete"], figures["without_receipt"], figures["tool_calls"]) == (False, 2, 5)


@pytest.mark.parametrize("against", ["", "5", "x:" + "0" * 64, "-1:" + "0" * 64, "5:abc", "٥:" + "0" * 64])
def test_a_head_that_is_none_is_refused(book: Book, against: str) -> None:
    book.write(1)
    with pytest.raises(UsageError, match="receipt head"):
        book.verify(against)


@pytest.mark.parametrize("spoil", [edit_second, rewrite_without_the_key, rewrite_with_the_key])
def test_no_head_is_given_of_an_invalid_chain(book: Book, spoil: Callable[[Book], None]) -> None:
    book.write(5)
    spoil(book)
    with pytest.raises(LedgerError, match="invalid chain at receipt"):
        head(str(book.log), book.store, str(book.key))


def test_a_link_is_not_followed(book: Book) -> None:
    book.write(2)
    symbolic_link(book)
    with pytest.raises(LedgerError, match="symbolic link"):
        book.verify()
    with pytest.raises(LedgerError, match="symbolic link"):
        list(receipts(str(book.log)))


def test_a_good_chain(book: Book) -> None:
    assert book.verify().receipts == 0
    written = book.write(5)
    found = book.verify()
    assert (found.valid, found.receipts, found.first_broken, found.notes) == (True, 5, None, ())
    assert found.head == f"5:{written[-1].receipt_hash}"
    assert found.completeness["complete"]
    before = len(os.listdir("/proc/self/fd"))
    assert book.log_only().valid
    assert len(os.listdir("/proc/self/fd")) == before, "a server verifies for weeks"
    assert [receipt["seq"] for receipt in receipts(str(book.log))] == [1, 2, 3, 4, 5]


def test_without_a_store_the_log_alone_is_checked(book: Book) -> None:
    book.write(5)
    assert book.log_only().completeness == {"store": False}
    assert book.log_only().valid
    edit_second(book)
    assert book.log_only().first_broken == 2


def test_verifying_changes_nothing(book: Book, tmp_path: Path) -> None:
    book.write(3)
    book.sql("DELETE FROM receipts WHERE seq = 3")
    with book.log.open("ab") as file:
        file.write(b'{"torn')
    book.store.close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith("-shm")}
    reader = Store.open(str(book.database), read_only=True)
    assert verify(str(book.log), reader, str(book.key)).valid
    reader.close()
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith("-shm")}
    assert {name: content for name, content in after.items() if content} == {
        name: content for name, content in before.items() if content
    }
    book.store = Store.open(str(book.database))


def test_completeness_tells_a_crash_from_a_missing_receipt(book: Book) -> None:
    ledger = book.ledger()
    call(ledger, "t0")
    with book.store.write() as cursor:  # killed while the tool ran
        transcript.append(cursor, "session", "tool_use", {"id": "t1", "name": "Read", "input": {}}, "t1")
    figures = book.verify().completeness
    assert (figures["complete"], figures["interrupted"], figures["without_receipt"]) == (True, 1, 0)
    with book.store.write() as cursor:  # answered, and nobody wrote a receipt
        transcript.append(cursor, "session", "tool_result", {"tool_use_id": "t1", "content": ""}, "t1")
    figures = book.verify().completeness
    assert (figures["complete"], figures["interrupted"], figures["without_receipt"]) == (False, 0, 1)
    ledger.append(draft("t1"), nothing)
    ledger.append(draft("unheard of"), nothing)
    figures = book.verify().completeness
    assert (figures["complete"], figures["without_call"]) == (True, 1)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Book, bytes]:
    book = Book(tmp_path_factory.mktemp("written"))
    ledger = book.ledger()
    for number in range(6):
        call(ledger, f"t{number}", decision={"reason": "é \u2028 \\u0041 1.50", "n": [number, 0.5, None, True]})
    return book, book.log.read_bytes()


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_any_changed_byte_is_found(written: tuple[Book, bytes], place: float, byte: int) -> None:
    book, good = written
    at = int(place * len(good))
    spoiled = bytearray(good)
    spoiled[at] = byte
    book.log.write_bytes(spoiled)
    for found in (book.verify(), book.log_only()):
        if bytes(spoiled) == good:
            assert found.valid
        else:
            assert not found.valid
            assert found.first_broken == good.count(b"\n", 0, at) + 1


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(seed=st.integers())
def test_any_cut_insertion_or_move_is_found(written: tuple[Book, bytes], seed: int) -> None:
    book, good = written
    chance = random.Random(seed)
    start, end = sorted(chance.sample(range(len(good) + 1), 2))
    to = chance.randrange(len(good))
    piece, rest = good[start:end], good[:start] + good[end:]
    spoiled = chance.choice([rest, rest[:to] + piece + rest[to:], good[:to] + piece + good[to:]])
    book.log.write_bytes(spoiled)
    found = book.verify()
    # A beginning of a receipt behind the last line is what a crash leaves: said, and no change of the past.
    assert found.valid == (spoiled == good or (bool(found.notes) and spoiled.startswith(good)))
