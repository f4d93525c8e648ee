"""Runs: which there are in a workspace, and which receipts are theirs."""

import json

from adderclaw.store import Store, runs

SESSIONS = {"s": "here", "child": "here", "grandchild": "here", "later": "here", "stranger": "there"}
RUNS = (
    ("r-1", "here", "s", "2026-05-12 14:00:00", "2026-05-12 14:00:10"),
    ("r-2", "here", "s", "2026-05-12 14:00:20", None),
    ("r-3", "here", "s", "2026-05-12 14:00:40", None),
    ("r-4", "there", "stranger", "2026-05-12 14:00:00", None),
    ("r-5", "here", "later", "2026-05-12 13:00:00", "2026-05-12 13:00:00"),
)
RECEIPTS = (
    ("s", "13:00:00.000"),
    ("s", "13:59:59.999"),
    ("s", "14:00:00.000"),
    ("child", "14:00:05.000"),
    ("grandchild", "14:00:06.000"),
    ("stranger", "14:00:07.000"),
    ("s", "14:00:10.900"),
    ("s", "14:00:15.000"),
    ("grandchild", "14:00:21.000"),
    ("s", "14:00:41.000"),
    ("later", "13:00:00.500"),
)


def filled(store: Store) -> Store:
    with store.write() as cursor:
        for place in ("here", "there"):
            cursor.execute("INSERT INTO conversations(id, project_dir) VALUES (?, ?)", (place, f"/{place}"))
        cursor.executemany("INSERT INTO sessions(session_id, conversation_id) VALUES (?, ?)", SESSIONS.items())
        columns = "run_id, conversation_id, session_id, started_at, finished_at"
        for row in RUNS:
            cursor.execute(f"INSERT INTO runs({columns}, kind, pid) VALUES (?, ?, ?, ?, ?, 'agent', 1)", row)
        # a ring, which no run makes, must not hang whoever asks
        for child, parent in (("child", "s"), ("grandchild", "child"), ("s", "grandchild")):
            cursor.execute("INSERT INTO subagents VALUES (?, ?, '', '', '', 0, 1, '', '', '', '', '')", (child, parent))
        cursor.execute("INSERT INTO tape VALUES ('r-5', 's', 0, '[]', '')")
        for seq, (session, time) in enumerate(RECEIPTS):
            line = json.dumps({"seq": seq, "timestamp": f"2026-05-12T{time}Z"})
            values = (seq, str(seq), line, session)
            sql = "INSERT INTO receipts(seq, receipt_hash, line, end_offset, session_id) VALUES (?, ?, ?, 0, ?)"
            cursor.execute(sql, values)
    return store


def test_a_run_has_the_receipts_of_all_sessions_below_it_and_of_no_other_run(store: Store) -> None:
    filled(store)
    found = {row[0]: [one["seq"] for one in runs.receipts(store, row[0], 100)] for row in RUNS}
    assert found == {
        "r-1": [6, 4, 3, 2],
        "r-2": [8],  # it was cut off: r-3 began in its session
        "r-3": [9],
        "r-4": [5],
        "r-5": [10, 0],  # it was resumed, and had another session before
    }
    assert [one["seq"] for one in runs.receipts(store, "r-1", 2)] == [6, 4]
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
