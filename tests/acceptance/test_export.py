"""A conversation that others can read: what it shows is what the receipts have."""

import json
import re

import pytest

from tests.acceptance.world import World, call, text

HOSTILE = "</pre><script>alert(1)</script> ``` \x1b[2J"


@pytest.fixture
def talk(world: World) -> str:
    (world.workspace / "a.py").write_text("x = 1\ny = 2\n", encoding="utf-8")
    world.configure(autonomy="full")
    world.script(
        call("Read", file_path="a.py"),
        call("Edit", file_path="a.py", old_string="x = 1", new_string="x = 3"),
        call("Bash", command="sudo reboot"),
        call("TodoWrite", todos=[{"content": "tick", "status": "completed"}, {"content": "tock", "status": "pending"}]),
        text(f"All **done**. {HOSTILE}"),
    )
    assert world.agent("make x three").code in (0, 3)
    ((conversation,),) = world.rows("SELECT id FROM conversations")
    return str(conversation)


def test_markdown_has_words_calls_verdicts_and_diffs(world: World, talk: str) -> None:
    done = world.cli("memory", "export", talk)
    assert done.code == 0, done.err
    assert "> make x three" in done.out
    assert "-x = 1\n+x = 3" in done.out
    assert re.search(r"\*\*Bash\*\* `sudo reboot` \(denied by .+\)", done.out)
    assert "- [x] tick\n- [ ] tock" in done.out
    assert "\x1b" not in done.out


def test_the_page_runs_nothing_and_loads_nothing(world: World, talk: str) -> None:
    target = world.workspace / "talk.html"
    assert world.cli("memory", "export", talk, str(target)).code == 0
    page = target.read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "default-src 'none'" in page
    assert target.stat().st_mode & 0o777 == 0o600
    again = world.cli("memory", "export", talk, str(target))
    assert again.code == 2
    assert "already exists" in again.err


def test_json_has_each_call_as_its_receipt_does(world: World, talk: str) -> None:
    items = json.loads(world.cli("memory", "export", talk, "--format", "json").out)["items"]
    calls = [item for item in items if item["type"] == "call"]
    states = {"allowed": "ran", "denied": "denied", "failed": "failed"}
    assert [(one["tool"], one["state"], one["receipt"]) for one in calls] == [
        (receipt["tool"], states[receipt["status"]], receipt["seq"]) for receipt in world.receipts()
    ]
    assert [line["kind"] for line in calls[1]["change"]["lines"]] == ["-", "+", " "]


def test_a_conversation_that_is_not_there_is_named(world: World, talk: str) -> None:
    done = world.cli("memory", "export", "nothing-like-it")
    assert done.code == 2
    assert "nothing-like-it" in done.err
