"""Generated tests and their results. The stored copy of a test is the one that runs, not a file on disk."""

import hashlib
import sqlite3
from typing import Literal

from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store
from adderclaw.storage.text import compact, plain

type Status = Literal["submitted", "accepted", "returned", "withdrawn"]
"""submitted; accepted after its runs on the earlier trees; returned to the author; withdrawn by the operator."""
type Tree = Literal["baseline", "fault", "now"]
type Variant = Literal["other", "status", "empty"]
"""The replacement of the programs that a test starts: it prints something else, does so with another exit status, or
prints nothing."""
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
    """Why it was returned."""
    session_id: str
    run_id: str
    created_at: str

    @property
    def is_whole(self) -> bool:
        """Whether the text, plan and criterion of the row are unchanged since the submission."""
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
        """The replacement of the project's programs; empty if they ran themselves."""
        before, colon, _ = self.tree_digest.partition(":")
        return before.removeprefix(_REPLACED) if colon and self.tree == "fault" else ""

    @property
    def own_digest(self) -> str:
        """The digest of the tree itself, without its replacements."""
        return self.tree_digest.rpartition(":")[2]


def stubbed_tree_digest(variant: Variant, digest: str) -> str:
    """The digest of a tree in which the programs that a test starts are replaced."""
    return f"{_REPLACED}{variant}:{digest}"


def hash_of(plan_hash: str, criterion: str, language: str, content: str) -> str:
    return hashlib.sha256(compact([plan_hash, criterion, language, content]).encode()).hexdigest()


def tree_and_packages_digest(digest: str, lent: str) -> str:
    """The digest of a tree, followed by that of the installed packages that its tests could use."""
    return f"{digest}+{lent}"


def lent_digest(digest: str) -> str:
    return digest.partition("+")[2]


def _seal(values: tuple[object, ...]) -> str:
    """A hash of a result, which reveals later changes of its row."""
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
    """Stores a submitted test, including one that the static check refused."""
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
    """All tests of a plan, oldest first, including returned ones."""
    return [_test(row) for row in cursor.execute(f"{_TEST} WHERE plan_id = ? ORDER BY id", (plan_id,)).fetchall()]


def results_of(cursor: sqlite3.Cursor, test_id: int) -> list[Result]:
    """The results of a test, oldest first."""
    return [_result(row) for row in cursor.execute(f"{_RESULT} WHERE test_id = ? ORDER BY id", (test_id,)).fetchall()]


def tests(store: Store, plan_id: int) -> list[Test]:
    return [_test(row) for row in store.read(f"{_TEST} WHERE plan_id = ? ORDER BY id", (plan_id,))]


def results(store: Store, plan_id: int) -> dict[int, list[Result]]:
    """Test → its results, oldest first."""
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
