"""What a client sees on the pages: of its own folders alone; and a ledger of 100,000 receipts, page by page."""

import re
import time
from pathlib import Path

from adderclaw.storage import Store
from tests.server.conftest import Server
from tests.server.seeded import seed

PAGES = (
    "/ui/runs",
    "/ui/usage",
    "/ui/ledger",
    "/",
    "/ui/conversations",
    "/ui/questions",
    "/ui/schedules",
    "/ui/fleet",
    "/ui/settings",
)


def test_a_client_sees_what_happened_in_its_folders_alone(server: Server, workspace: Path) -> None:
    data = Path(server.state.home)
    made = seed(data / "memory.sqlite", data / "tool_receipts.log", data / "receipt.key", workspace, time.time())
    mine, other = (
        server.token("read", folders=[str(workspace)]),
        server.token("read", folders=["/elsewhere"], name="two"),
    )
    run = f"/ui/runs/{made.message}"
    assert server.ask("GET", run, mine).status_code == 200
    assert server.ask("GET", "/ui/ledger/3", server.token("read")).status_code == 200
    for path in (run, "/ui/ledger/3"):
        assert server.ask("GET", path, other).status_code == 403, path
    assert "website" in server.ask("GET", "/ui/usage", server.token("read")).text
    seen = server.ask("GET", "/ui/usage", mine).text
    assert "project" in seen
    assert "website" not in seen
    listed = server.ask("GET", "/ui/runs", other).text
    assert "Nothing ran yet." in listed
    assert made.message not in listed
    assert "No tool was called yet." in server.ask("GET", "/ui/ledger", other).text


def test_empty_pages_say_what_to_do_and_need_a_login(server: Server) -> None:
    token = server.token("read")
    for path in PAGES:
        answer = server.ask("GET", path, token)
        assert answer.status_code == 200, path
        assert "unsafe-inline" not in answer.headers["content-security-policy"]
        assert server.ask("GET", path).status_code in (303, 401), path
    for path, words in (("/ui/runs", "adderclaw run"), ("/ui/ledger", "leaves a receipt"), ("/ui/usage", "is counted")):
        assert words in server.ask("GET", path, token).text


def test_a_hundred_thousand_receipts_are_paged_without_reading_them_all(server: Server) -> None:
    """The query walks the key from where the page begins, and stops after the page."""
    with server.state.store.write() as cursor:
        cursor.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
            " INSERT INTO receipts(archive, seq, receipt_hash, line, end_offset, session_id, tool_use_id)"
            " SELECT '', i, '', json_object('seq', i, 'tool', 'Read', 'status', 'allowed', 'decision', json('{}')),"
            " i, 's', 'c' FROM n"
        )
    token, before, seen = server.token("read"), "", list[int]()
    for _ in range(3):
        shown = server.ask("GET", f"/ui/ledger{before}", token).text
        numbers = [int(one) for one in re.findall(r'href="/ui/ledger/(\d+)"', shown)]
        seen += numbers
        assert "not as written" in shown  # nobody has signed these
        before = f"?before={numbers[-1]}"
    assert seen == list(range(100_000, 100_000 - 150, -1))
    assert "50,000 to 50,049" in server.ask("GET", "/ui/ledger?before=50050", token).text
    store = Store.open(server.state.store_path, read_only=True)
    sql = "EXPLAIN QUERY PLAN SELECT seq, line FROM receipts WHERE archive = '' AND seq < ? ORDER BY seq DESC LIMIT 51"
    (plan,) = [row[3] for row in store.read(sql, (50_050,))]
    assert plan == "SEARCH receipts USING PRIMARY KEY (archive=? AND seq<?)"
    store.close()
