"""Runs: which there are in a workspace, and which receipts are theirs."""

import json

from adderclaw.storage import Store, runs

SESSIONS = {"s": "here", "child": "here", "later": "here", "stranger": "there"}
RUNS = (
    ("r-1", "here", "s", "2026-05-12 14:00:00"),
    ("r-2", "here", "s", "2026-05-12 14:00:20"),
    ("r-3", "here", "s", "2026-05-12 14:00:20"),
    ("r-4", "there", "stranger", "2026-05-12 14:00:00"),
    ("r-5", "here", "later", "2026-05-12 13:00:00"),
)
RECEIPTS = (
    ("s", "14:00:00.000", "r-1"),
    ("child", "14:00:05.000", "r-1"),
    ("stranger", "14:00:07.000", "r-4"),
    ("s", "14:00:15.000", "r-1"),
    ("s", "14:00:20.100", "r-2"),
    ("s", "14:00:20.200", "r-3"),
    ("child", "14:00:20.300", "r-3"),
    ("later", "13:00:00.500", "r-5"),
)


def filled(store: Store) -> Store:
    with store.write() as cursor:
        for place in ("here", "there"):
            cursor.execute("INSERT INTO conversations(id, project_dir) VALUES (?, ?)", (place, f"/{place}"))
        cursor.executemany("INSERT INTO sessions(session_id, conversation_id) VALUES (?, ?)", SESSIONS.items())
        columns = "run_id, conversation_id, session_id, started_at"
        for row in RUNS:
            cursor.execute(f"INSERT INTO runs({columns}, kind, pid) VALUES (?, ?, ?, ?, 'agent', 1)", row)
        cursor.execute("INSERT INTO tape VALUES ('r-1', 'child', 1, '[]', '')")
        for seq, (session, time, run) in enumerate(RECEIPTS):
            line = json.dumps({"seq": seq, "timestamp": f"2026-05-12T{time}Z"})
            values = (seq, str(seq), line, session, run)
            columns = "seq, receipt_hash, line, end_offset, session_id, run_id"
            cursor.execute(f"INSERT INTO receipts({columns}) VALUES (?, ?, ?, 0, ?, ?)", values)
    return store


def of_runs(store: Store) -> dict[str, list[int]]:
    return {row[0]: [one["seq"] for one in runs.receipts(store, row[0], 100)] for row in RUNS}


def test_a_run_has_the_receipts_of_all_its_sessions_and_of_no_other_run(store: Store) -> None:
    """Also where two runs of a session began within one second."""
    filled(store)
    assert of_runs(store) == {"r-1": [3, 1, 0], "r-2": [4], "r-3": [6, 5], "r-4": [2], "r-5": [7]}
    assert [one["seq"] for one in runs.receipts(store, "r-1", 2)] == [3, 1]
    assert runs.receipts(store, "nobody", 100) == []


def test_runs_of_one_workspace_are_all_that_is_known_of_it(store: Store) -> None:
    filled(store)
    assert {run.run_id for run in runs.listing(store, 100)} == {row[0] for row in RUNS}
    assert [run.run_id for run in runs.listing(store, 100, ["/there", "/link"])] == ["r-4"]
    assert runs.listing(store, 100, ["/nowhere"]) == []
    assert runs.get(store, "r-1", ["/there"]) is None
    only = runs.get(store, "r-", ["/there"])
    assert only is not None
    assert only.run_id == "r-4", "another workspace's runs do not make a beginning ambiguous"
