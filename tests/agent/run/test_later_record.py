"""What the session after a killed one reports as changed."""

from contextlib import closing
from pathlib import Path

from adderclaw.agent.legacy.later_report import Later
from adderclaw.storage import Store


def test_the_status_of_a_specification_is_no_change_that_takes_effect_later(tmp_path: Path) -> None:
    before = {"/ws/AGENTS.md": "1", "/ws/.adderclaw/spec.json": "1"}
    after = {
        "/ws/AGENTS.md": "2",
        "/ws/.adderclaw/hooks.json": "1",
        "/ws/.adderclaw/spec.json": "2",
        "/ws/.adderclaw/status.json": "1",
    }
    with closing(Store.open(str(tmp_path / "a.db"))) as store:
        Later(store, "/ws", "session-killed", str(tmp_path), allow=False).record_first(before, ["/ws"])
        found = Later(store, "/ws", "session-next", str(tmp_path), allow=False).record_first(after, ["/ws"])
    assert {one.path for one in found} == {"/ws/AGENTS.md", "/ws/.adderclaw/hooks.json"}
