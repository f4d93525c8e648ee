"""Anchors that were kept elsewhere, and the stand-alone verifier, which must say of every log what `verify` says."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.json_text import to_json
from adderclaw.storage.ledger import anchors, ledger, log_files, verify
from tests.storage.book import Book, call
from tests.storage.test_verify import (
    INVALID,
    lines,
    rewrite_log_mirror_and_key,
    rewrite_with_the_key,
    roll_back_both,
)

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "verify_receipts.py"


def anchor(book: Book, path: Path) -> None:
    key = log_files.read_key(str(book.key))
    assert key is not None
    head = verify.head(str(book.log), book.store, str(book.key))
    anchors.append(str(path), anchors.signed_anchor(verify.log_id(str(book.log)), head, key, now=1_778_594_400.0))


def alone(book: Book, *more: str, key: bool = True) -> dict[str, Any]:
    """What the script says, run with nothing but Python: no site packages, no environment of ours."""
    given = ("--key", str(book.key)) if key else ()
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), str(book.log), *given, "--json", *more],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
    )
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["valid"] else 1)
    return found


def agrees(book: Book, against: str | None = None) -> dict[str, Any]:
    """The script's word, after it was compared with that of the package on the log alone."""
    ours = to_json(book.log_only(against))
    theirs = alone(book, *(("--against", against) if against is not None else ()))
    assert theirs == {key: ours[key] for key in theirs}
    return theirs


# ------------------------------------------------------------------ the stand-alone verifier


@pytest.mark.parametrize("spoil", [row[1] for row in INVALID], ids=[row[0] for row in INVALID])
def test_the_script_agrees_on_every_broken_log(book: Book, tmp_path: Path, spoil: Callable[[Book], object]) -> None:
    book.write(5)
    kept = tmp_path / "anchors"
    anchor(book, kept)
    head = verify.head(str(book.log), book.store, str(book.key))
    in_the_mirror_only = spoil in [row[1] for row in INVALID if row[0].startswith("mirror")]
    spoil(book)
    for against in (None, head, str(kept)):
        found = agrees(book, against)
    # With an anchor it needs no mirror to find what was done to the log.
    assert found["valid"] == in_the_mirror_only
    assert not book.verify(str(kept)).valid


def test_the_script_agrees_on_good_logs(book: Book, tmp_path: Path) -> None:
    assert agrees(book)["valid"]
    book.write(3)
    anchor(book, tmp_path / "anchors")
    book.write(4)
    anchor(book, tmp_path / "anchors")
    found = agrees(book, str(tmp_path / "anchors"))
    assert (found["valid"], found["receipts"]) == (True, 7)
    assert book.verify(str(tmp_path / "anchors")).valid


def test_the_script_agrees_on_a_crash(book: Book) -> None:
    book.write(3)
    with open(book.log, "ab") as file:
        file.write(b'{"args_hash":"aa')
    found = agrees(book)
    assert found["valid"]
    assert "a crash tore the line of receipt" in found["notes"][0]


def test_without_the_key_macs_are_not_looked_at(book: Book) -> None:
    book.write(3)
    book.key.write_bytes(os.urandom(32))
    assert not alone(book)["valid"]
    found = alone(book, key=False)
    assert found["valid"]
    assert "no key" in found["notes"][0]


@pytest.mark.parametrize("arguments", [("/nowhere", "--key", "/dev/zero"), (), ("a", "--against", "/nowhere/x")])
def test_the_scripts_usage(arguments: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


# ------------------------------------------------------------------ anchors


@pytest.mark.parametrize(
    ("spoil", "first", "said"),
    [
        (roll_back_both, 4, "rolled back"),
        (rewrite_log_mirror_and_key, 1, "not signed with this key"),
        (rewrite_with_the_key, 3, ""),
    ],
)
def test_what_only_an_anchor_finds(
    book: Book, tmp_path: Path, spoil: Callable[[Book], object], first: int, said: str
) -> None:
    book.write(5)
    anchor(book, tmp_path / "anchors")
    spoil(book)
    found = book.verify(str(tmp_path / "anchors"))
    assert (found.valid, found.first_broken) == (False, first)
    assert said in found.reason


def test_a_log_made_anew_with_the_true_key_is_another_log(book: Book, tmp_path: Path) -> None:
    book.write(3)
    anchor(book, tmp_path / "anchors")
    book.log.unlink()
    book.sql("DELETE FROM receipts")
    opened = book.ledger()
    for number in range(5):
        call(opened, f"other{number}", tool="Write")
    opened.close()
    assert book.verify().valid
    found = book.verify(str(tmp_path / "anchors"))
    assert (found.valid, found.first_broken) == (False, 1)
    assert "another log" in found.reason
    assert not agrees(book, str(tmp_path / "anchors"))["valid"]


def test_every_anchor_of_the_file_counts(book: Book, tmp_path: Path) -> None:
    """A log that was rolled back and then grew past the last anchor is found by it all the same."""
    book.write(2)
    anchor(book, tmp_path / "anchors")
    book.write(2)
    anchor(book, tmp_path / "anchors")
    lines(book, [1, 2])
    book.sql("DELETE FROM receipts WHERE seq > 2")
    opened = book.ledger()
    for number in range(4):
        call(opened, f"other{number}", tool="Write")
    opened.close()
    assert book.verify().valid
    found = book.verify(str(tmp_path / "anchors"))
    assert (found.valid, found.first_broken) == (False, 4)
    assert not agrees(book, str(tmp_path / "anchors"))["valid"]


def test_an_archived_chain_keeps_its_anchors(book: Book, tmp_path: Path) -> None:
    book.write(3)
    anchor(book, tmp_path / "anchors")
    name = ledger.archive(str(book.log), book.store, now=1_778_600_000.0)
    book.write(1)
    now = book.verify(str(tmp_path / "anchors"))
    assert now.valid
    assert name in now.notes[0]
    old = verify.verify(str(book.log), book.store, str(book.key), str(tmp_path / "anchors"), archive=name)
    assert (old.valid, old.notes) == (True, ())


def test_a_made_up_archive_excuses_nothing(book: Book, tmp_path: Path) -> None:
    """Rows that only claim to be the anchored chain do not make its anchors those of another one."""
    book.write(3)
    anchor(book, tmp_path / "anchors")
    log_id = verify.log_id(str(book.log))
    roll_back_both(book)
    book.log.unlink()
    book.sql("DELETE FROM receipts")
    insert = "INSERT INTO receipts(archive, seq, receipt_hash, line, end_offset) VALUES ('old', ?, ?, '{}', 0)"
    book.sql(insert, 1, log_id)
    book.sql(insert, 3, "f" * 64)
    book.write(1)
    assert not book.verify(str(tmp_path / "anchors")).valid


BAD: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("another number", lambda text: text.replace(b'"seq":3', b'"seq":2'), "not signed"),
    ("another time", lambda text: text.replace(b'"time":"2', b'"time":"3'), "not signed"),
    ("a field more", lambda text: text.replace(b"}", b',"x":1}'), "is not an anchor"),
    ("a field less", lambda text: b'{"seq":3}\n', "is not an anchor"),
    ("no JSON", lambda text: b"hello}\n", "is not an anchor"),
    ("no hash", lambda text: text.replace(b'"hash":"', b'"hash":"zz'), "is not an anchor"),
    ("a number that is none", lambda text: text.replace(b'"seq":3', b'"seq":true'), "is not an anchor"),
    ("deep", lambda text: b"[" * 3000 + b"}\n", "is not an anchor"),
    ("empty", lambda text: b"", "contains no anchor"),
    ("blank line", lambda text: b"\n" + text, "is not an anchor"),
]


@pytest.mark.parametrize(("change", "said"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_changed_anchor_proves_nothing(
    book: Book, tmp_path: Path, change: Callable[[bytes], bytes], said: str
) -> None:
    book.write(3)
    kept = tmp_path / "anchors"
    anchor(book, kept)
    kept.write_bytes(change(kept.read_bytes()))
    found = book.verify(str(kept))
    assert not found.valid
    assert said in found.reason
    assert not agrees(book, str(kept))["valid"]


def test_a_torn_anchor_is_a_crash(book: Book, tmp_path: Path) -> None:
    book.write(3)
    kept = tmp_path / "anchors"
    anchor(book, kept)
    with open(kept, "ab") as file:
        file.write(b'{"hash":"aa')
    found = book.verify(str(kept))
    assert found.valid
    assert "a crash tore the last line" in found.notes[0]
    anchor(book, kept)
    assert agrees(book, str(kept))["valid"]


def test_a_file_that_cannot_be_used(book: Book, tmp_path: Path) -> None:
    book.write(1)
    with pytest.raises(UsageError, match="neither a head nor an existing file"):
        book.verify(str(tmp_path / "nothing"))
    with pytest.raises(AdderClawError, match="cannot be read"):
        book.verify(str(tmp_path))
    with pytest.raises(AdderClawError, match="cannot be written"):
        anchors.append(str(tmp_path), "x")
