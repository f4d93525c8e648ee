"""Generated tests and what came of them: the copy that is kept here is the one that runs, whatever lies on disk."""

import hashlib
import sqlite3
from typing import Literal

from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store
from adderclaw.storage.text import compact, plain

type Status = Literal["submitted", "accepted", "returned", "withdrawn"]
"""Handed in; proved by its runs on the tree before the change; turned back; no longer wanted by the operator."""
type Tree = Literal["baseline", "fault", "now"]


type Variant = Literal["other", "status", "empty"]
"""What stands in for the programs that a test starts: one that prints something else, the same with another exit
status, one that prints nothing."""
_REPLACED = "replaced-"


class Test(NamedTuple):
    id: int
    plan_id: int
    plan_hash: str
    criterion: str
    language: str
    content: str
    hash: str
    status: Status
    reason: str
    """Why it was turned back."""
    session_id: str
    run_id: str
    created_at: str

    @property
    def is_whole(self) -> bool:
        """Whether the row is what was handed in: its text, its plan, and the criterion that it stands for."""
        return self.hash == hash_of(self.plan_hash, self.criterion, self.language, self.content)


class Result(NamedTuple):
    id: int
    test_id: int
    test_hash: str
    tree: Tree
    tree_digest: str
    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool
    run_id: str
    seal: str
    created_at: str

    @property
    def is_whole(self) -> bool:
        return self.seal == _seal(self[1:11])

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and not self.timed_out

    @property
    def variant(self) -> str:
        """What stood in for the programs of the project; empty where they ran."""
        before, colon, _ = self.tree_digest.partition(":")
        return before.removeprefix(_REPLACED) if colon and self.tree == "fault" else ""

    @property
    def own_digest(self) -> str:
        """Of the tree itself, whatever was replaced in it."""
        return self.tree_digest.rpartition(":")[2]


def replaced_digest(variant: Variant, digest: str) -> str:
    """The digest of a tree in which the programs that a test starts are replaced."""
    return f"{_REPLACED}{variant}:{digest}"


def hash_of(plan_hash: str, criterion: str, language: str, content: str) -> str:
    return hashlib.sha256(compact([plan_hash, criterion, language, content]).encode()).hexdigest()


def with_lent_digest(digest: str, lent: str) -> str:
    """The digest of a tree and, apart from it, of what was lent to the tests that ran on it."""
    return f"{digest}+{lent}"


def lent_digest(digest: str) -> str:
    return digest.partition("+")[2]


def _seal(values: tuple[object, ...]) -> str:
    """Of what a result says: one whose row was edited afterwards does not count."""
    return hashlib.sha256(compact(list(values)).encode()).hexdigest()


_TEST = (
    "SELECT id, plan_id, plan_hash, criterion, language, content, hash, status, reason, session_id, run_id, created_at"
    " FROM generated_tests"
)
_RESULT = (
    "SELECT id, test_id, test_hash, tree, tree_digest, exit_code, stdout, stderr, seconds, timed_out, run_id, seal,"
    " created_at FROM test_results"
)


# ------------------------------------------------------------------ writing


def submit(
    cursor: sqlite3.Cursor,
    *,
    plan_id: int,
    plan_hash: str,
    criterion: str,
    language: str,
    content: str,
    session_id: str,
    run_id: str,
    refused: str = "",
) -> int:
    """A test that was handed in; one that the static check refused is kept, too: it was an attempt."""
    content = plain(content)
    (number,) = cursor.execute(
        "INSERT INTO generated_tests(plan_id, plan_hash, criterion, language, content, hash, status, reason,"
        " session_id, run_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (
            *(plan_id, plan_hash, criterion, language, content, hash_of(plan_hash, criterion, language, content)),
            *("returned" if refused else "submitted", plain(refused), session_id, run_id),
        ),
    ).fetchone()
    return number


def settle(cursor: sqlite3.Cursor, test_id: int, status: Status, reason: str = "") -> None:
    cursor.execute("UPDATE generated_tests SET status = ?, reason = ? WHERE id = ?", (status, plain(reason), test_id))


def record(
    cursor: sqlite3.Cursor,
    test: Test,
    *,
    tree: Tree,
    tree_digest: str,
    exit_code: int,
    stdout: str,
    stderr: str,
    seconds: float,
    timed_out: bool,
    run_id: str,
) -> None:
    values = (
        *(test.id, test.hash, tree, tree_digest, exit_code, plain(stdout), plain(stderr), float(seconds)),
        *(timed_out, run_id),
    )
    cursor.execute(
        "INSERT INTO test_results(test_id, test_hash, tree, tree_digest, exit_code, stdout, stderr, seconds,"
        " timed_out, run_id, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, _seal(values)),
    )


# ------------------------------------------------------------------ reading


def of_plan(cursor: sqlite3.Cursor, plan_id: int) -> list[Test]:
    """All of them, oldest first, those that were turned back as well."""
    return [_test(row) for row in cursor.execute(f"{_TEST} WHERE plan_id = ? ORDER BY id", (plan_id,)).fetchall()]


def results_of(cursor: sqlite3.Cursor, test_id: int) -> list[Result]:
    """Oldest first."""
    return [_result(row) for row in cursor.execute(f"{_RESULT} WHERE test_id = ? ORDER BY id", (test_id,)).fetchall()]


def tests(store: Store, plan_id: int) -> list[Test]:
    return [_test(row) for row in store.read(f"{_TEST} WHERE plan_id = ? ORDER BY id", (plan_id,))]


def results(store: Store, plan_id: int) -> dict[int, list[Result]]:
    """Test → what came of it, oldest first."""
    by_test: dict[int, list[Result]] = {}
    where = "WHERE test_id IN (SELECT id FROM generated_tests WHERE plan_id = ?) ORDER BY id"
    for row in store.read(f"{_RESULT} {where}", (plan_id,)):
        by_test.setdefault(row["test_id"], []).append(_result(row))
    return by_test


def _test(row: sqlite3.Row) -> Test:
    return Test(*tuple(row))


def _result(row: sqlite3.Row) -> Result:
    values = list(row)
    values[9] = bool(values[9])
    return Result(*values)
