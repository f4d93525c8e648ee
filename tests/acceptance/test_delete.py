"""Delete through the program: who is asked and what is denied, that it is undone, and that `rm` leads to it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_checkpoints import checkpoint, tree
from tests.acceptance.test_replay import verified
from tests.acceptance.world import World, call, text

ACCEPT = '[permissions]\ndefaultMode = "acceptEdits"\n'


def delete(path: str) -> dict[str, Any]:
    return call("Delete", path=path)


def fill(world: World, *names: str) -> None:
    for name in names:
        path = world.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")


def decisions(world: World) -> list[dict[str, Any]]:
    return [{**receipt["decision"], "status": receipt["status"]} for receipt in world.receipts()]


# ------------------------------------------------------------------ refusals


PROTECTED = [
    ".",
    "..",
    ".git",
    "sub",
    "sub/.git/config",
    "bare",
    "bare/HEAD",
    ".adderclaw",
    "/etc/hostname",
    "secret",
    "held",
]


@pytest.mark.parametrize("autonomy", ["supervised", "full"])
def test_never_the_root_what_is_protected_or_a_git_directory(world: World, autonomy: str) -> None:
    fill(world, ".git/HEAD", "sub/.git/config", "bare/HEAD", "bare/objects/x", "bare/refs/x", ".adderclaw/notes.txt")
    fill(world, "secret/x", "held/secret/y")
    more = '[permissions]\ndeny = ["Edit(./held/secret/**)"]\n'
    world.configure(autonomy, security=f'forbidden_paths = ["{world.workspace}/secret/x"]', rounds=40, more=more)
    before = tree(world.workspace)
    world.script(*map(delete, PROTECTED), text("done"))
    world.agent("go", stdin="y\n" * 40)
    assert [one["verdict"] for one in decisions(world)] == ["deny"] * len(PROTECTED), decisions(world)
    assert {one["status"] for one in decisions(world)} == {"denied"}
    assert tree(world.workspace) == before
    assert Path("/etc/hostname").exists()


def test_what_no_checkpoint_keeps_is_a_question_of_its_own_in_every_mode(world: World) -> None:
    fill(world, "node_modules/p/index.js", "a.txt")
    world.configure("full", more='[permissions]\nallow = ["Delete"]\n')
    world.script(delete("node_modules"), delete("a.txt"), text("done"))
    done = world.agent("go", stdin="n\n")
    first, second = decisions(world)
    assert (first["verdict"], first["asked_by"]) == ("deny", "checkpoint")
    assert "cannot be undone: no checkpoint keeps node_modules" in first["reason"]
    assert "cannot be undone" in done.err
    assert second["verdict"] == "allow"
    assert (world.workspace / "node_modules/p/index.js").exists()
    assert not (world.workspace / "a.txt").exists()


def test_headless_what_cannot_be_undone_is_denied(world: World) -> None:
    fill(world, ".venv/bin/python", "a.txt")
    world.configure("full")
    world.script(delete(".venv"), delete("a.txt"), text("done"))
    world.agent("go")
    assert [one["by"] for one in decisions(world)][-2:] == ["no_operator", "mode"]
    assert (world.workspace / ".venv/bin/python").exists()
    assert not (world.workspace / "a.txt").exists()


@pytest.mark.parametrize("more", [ACCEPT, '[permissions]\nallow = ["Edit", "Write"]\n', ""])
def test_accepted_edits_do_not_cover_it(world: World, more: str) -> None:
    fill(world, "a.txt")
    world.configure(more=more)
    world.script(call("file_write", path="b.txt", content="x"), delete("a.txt"), text("done"))
    world.agent("go", stdin="y\nn\n" if not more else "n\n")
    assert decisions(world)[-1]["verdict"] == "deny"
    assert (world.workspace / "a.txt").exists()
    assert (world.workspace / "b.txt").exists() or more == ACCEPT


def test_readonly_and_a_denied_edit_deny_it(world: World) -> None:
    fill(world, "a.txt")
    for autonomy, more in (("readonly", ""), ("full", '[permissions]\ndeny = ["Edit"]\n')):
        world.configure(autonomy, more=more)
        world.script(delete("a.txt"), text("done"))
        world.agent("go", stdin="y\n")
        assert decisions(world)[-1]["verdict"] == "deny", autonomy
    assert (world.workspace / "a.txt").exists()


# ------------------------------------------------------------------ what it does


def test_x81_a_denied_rm_leads_to_it_and_it_is_undone(world: World) -> None:
    fill(world, "old/a.txt", "old/deep/b.txt", "kept.txt")
    (world.workspace / "old" / "link").symlink_to("/etc/hostname")
    (world.workspace / "old" / "a.txt").chmod(0o751)
    before = tree(world.workspace)
    world.script(
        call("Bash", command="rm -r old"),
        call("Call", tool="Delete", input={"path": "old"}),
        call("Call", tool="Delete", input={"file": "old"}),
        text("done"),
    )
    done = world.agent("remove the old folder", stdin="y\n")
    refused, deleted, unfit = (entry["content"] for entry in world.entries("tool_result"))
    assert "'rm' is in [security] forbidden_commands; the tool Delete takes a path of the workspace" in refused
    assert "Deleted old with 4 files and folders in it" in deleted
    assert '"path"' in unfit, "whoever calls it wrongly is told its schema"
    assert "medium" in done.err
    assert world.receipts()[1]["risk"] == "medium"
    assert not (world.workspace / "old").exists()
    assert (world.workspace / "kept.txt").exists()
    (one,) = checkpoint(world, "list")
    report = checkpoint(world, "restore", str(one["id"]))
    assert not report.get("failed"), report
    assert tree(world.workspace) == before
    verified(world)


def test_it_waits_behind_tool_search_and_the_first_request_stays_small(world: World) -> None:
    listed = json.loads(world.cli("tool", "list", "--output-format", "json").out)
    (spec,) = [one for one in listed if one["name"] == "Delete"]
    assert spec["deferred"] is True
