"""Rows of the requirements that were only partly kept: what a user sees of each, through the installed program."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.world import World, call, text

KEY = "sk-live-abcdefghij0123456789"


def settings(world: World, **keys: Any) -> None:
    (world.cli.data / "settings.json").write_text(json.dumps(keys), encoding="utf-8")


def hook(command: str, matcher: str = "") -> dict[str, Any]:
    return {"matcher": matcher, "hooks": [{"type": "command", "command": command}]}


def results(world: World) -> list[tuple[str, bool]]:
    return [(entry["content"], entry["is_error"]) for entry in world.entries("tool_result")]


# ------------------------------------------------------------------ C-34: autonomy `full`


def test_25_c34_full_runs_all_that_no_path_or_command_forbids(world: World) -> None:
    world.configure("full", security=f'forbidden_paths = ["{world.workspace}/secret"]\nforbidden_commands = ["shred"]')
    (world.workspace / "secret").mkdir()
    (world.workspace / "secret" / "a.txt").write_text("x")
    world.script(
        call("LS", path="."),
        call("Write", file_path="b.txt", content="b"),
        call("Bash", command="mkdir made"),
        call("Bash", command="lsblk --version || true"),
        call("Read", file_path="secret/a.txt"),
        call("Bash", command="shred b.txt"),
        text("done"),
    )
    done = world.agent("go")
    assert "Approve?" not in done.err
    assert [(r["status"], r["decision"]["by"]) for r in world.receipts()] == [
        *[("allowed", "mode")] * 4,
        ("denied", "forbidden_paths"),
        ("denied", "forbidden_commands"),
    ]
    assert (world.workspace / "b.txt").read_text() == "b"


def test_25_c34_full_asks_only_what_the_page_names(world: World) -> None:
    world.configure("full")
    world.script(call("Write", file_path=".github/workflows/ci.yml", content="x"), text("done"))
    done = world.agent("go", stdin="y\n")
    assert done.code == 0, done.err
    assert done.err.count("Approve? [y/N]") == 1
    assert (world.workspace / ".github/workflows/ci.yml").exists()


# ------------------------------------------------------------------ C-43: what memory keeps


def test_25_c43_every_message_has_its_turn_and_its_model(world: World) -> None:
    world.configure("full")
    (world.workspace / "a.txt").write_text("heliotrope\n")
    once = f"test -e {world.cli.home}/once || {{ touch {world.cli.home}/once; echo more >&2; exit 2; }}"
    settings(world, hooks={"Stop": [hook(once)]})
    steps = [{**call("Read", file_path="a.txt"), "text": "Looking."}, text("first"), text("second")]
    world.script(*steps)
    assert world.agent("one").code == 0
    world.script(*steps, text("third"))
    assert world.cli("agent", "-m", "two", "--continue").code == 0
    columns = "conversation_id, turn_id, timestamp, role, content, tool_calls, tool_results, provider, model, metadata"
    log = world.rows(f"SELECT {columns} FROM memory_log")
    assert [row[3] for row in log] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    turns = [row[1] for row in log]
    assert len(set(turns)) == 2, "what a Stop hook sends back belongs to the same turn"
    assert turns == [turns[0]] * 6 + [turns[-1]] * 2
    assert len({row[0] for row in log}) == 1
    assert all(row[2].endswith("Z") for row in log)
    assert json.loads(log[1][5])[0]["name"] == "Read"
    assert "heliotrope" in json.loads(log[2][6])[0]["content"]
    assert [row[7:9] for row in log if row[3] == "assistant"] == [("local", "mock")] * 4
    assert "usage" in json.loads(log[1][9])
    shown = world.cli("memory", "show", log[0][0])
    assert [line.split()[1] for line in shown.out.splitlines() if line.startswith("turn ")] == [turns[0], turns[-1]]
    listed = json.loads(world.cli("memory", "show", log[0][0], "--output-format", "json").out)["entries"]
    assert {entry["turn_id"] for entry in listed if entry["entry_type"] == "assistant"} == set(turns)
    assert log[0][0] in world.cli("memory", "search", "liotrop").out
    assert world.cli("memory", "clear", "--yes").code == 0
    assert world.rows("SELECT count(*) FROM turns") == [(0,)]


# ------------------------------------------------------------------ D-09: `model_config`


def own_row(world: World, chosen: dict[str, str]) -> None:
    with sqlite3.connect(world.database) as connection:
        sql = "INSERT OR REPLACE INTO settings_snapshot(scope, json, updated_at) VALUES ('effective', ?, '2026-01-01')"
        connection.execute(sql, (json.dumps({"model_config": chosen}),))


def test_25_d09_no_secret_gets_into_the_snapshot(world: World) -> None:
    world.script(text("hi"))
    assert world.agent("go").code == 0
    (kept,) = world.rows("SELECT json FROM settings_snapshot WHERE scope = 'effective'")
    assert json.loads(kept[0])["model_config"] == {"provider": "local", "model_id": "mock"}
    by_flag = world.agent("go", "--model", KEY)
    assert by_flag.code == 2
    assert "looks like a key" in by_flag.err
    for chosen in ({"provider": "local", "model_id": KEY}, {"provider": "local", "model_id": "mock", "api_key": KEY}):
        own_row(world, chosen)
        done = world.agent("go")
        assert done.code == 2
        assert "keys and secrets do not belong" in done.err
        assert KEY not in done.err + by_flag.err
    others = world.rows("SELECT json FROM settings_snapshot WHERE scope <> 'effective'")
    assert KEY not in repr(others)
    assert world.rows("SELECT count(*) FROM model_calls WHERE model LIKE 'sk-%'") == [(0,)]


# ------------------------------------------------------------------ D-50: matchers


def test_25_d50_which_hooks_a_matcher_means(world: World) -> None:
    log = world.cli.home / "log"
    means = ("Write|Edit", "Writ", "W.*e", "(", "file_write", "Edit, Write", "^rite", "*")
    settings(world, hooks={"PreToolUse": [hook(f"echo '{matcher}' >> {log}", matcher) for matcher in means]})
    world.configure("full")
    world.script(call("Write", file_path="a.txt", content="x"), text("ok"))
    assert world.agent("go").code == 0
    assert log.read_text().splitlines() == ["Write|Edit", "W.*e", "file_write", "Edit, Write", "*"]


def test_25_d50_a_hyphen_in_a_files_name_is_searched_for(world: World) -> None:
    """Of files and errors a matcher is exact only where it is letters, digits, `_` and `|`."""
    log, watched = world.cli.home / "log", world.workspace / "my-notes.md"
    watched.write_text("1")
    means = ("my-notes", "my-notes.md", "Bash|shell")
    hooks = [hook(f"echo {number} >> {log}", matcher) for number, matcher in enumerate(means)]
    start = {"hookSpecificOutput": {"hookEventName": "SessionStart", "watchPaths": [str(watched)]}}
    settings(world, hooks={"SessionStart": [hook(f"echo '{json.dumps(start)}'")], "FileChanged": hooks})
    world.configure("full")
    world.script(call("Bash", command="echo 2 >> my-notes.md"), call("LS", path="."), text("ok"))
    assert world.agent("go").code == 0
    assert log.read_text().split() == ["0", "1"]


# ------------------------------------------------------------------ D-63: what passes between us and a hook


def test_25_d63_streams_of_a_hook(world: World) -> None:
    heard = world.cli.home / "in"
    answer = json.dumps({"systemMessage": "with a mark"})
    marked = f"printf '\\357\\273\\277%s' '{answer}'"
    flood = f"cat > {heard}; head -c 4194310 /dev/zero | tr '\\0' a; printf 'x\\377y' >&2"
    settings(world, hooks={"SessionStart": [hook(marked)], "UserPromptSubmit": [hook(flood)]})
    world.script(text("ok"))
    done = world.agent("zwölf")
    assert done.code == 0, done.err
    sent = heard.read_bytes()
    assert sent.endswith(b"}\n")
    assert not sent.endswith(b"\n\n")
    assert json.loads(sent)["prompt"] == "zwölf"
    (first, second) = world.rows("SELECT stdout_text, stderr_text FROM hook_invocations ORDER BY id")
    assert first[0] == answer, "a byte order mark is no part of the text"
    assert "with a mark" in done.err
    assert second[0] == "a" * 4_194_304 + "\n[SDLC_OUTPUT_TRUNCATED]\n"
    assert second[1] == "x\ufffdy"


# ------------------------------------------------------------------ D-70: the reference's schemas


def test_25_d70_every_key_of_the_references_schemas_is_understood(world: World) -> None:
    world.configure("full")
    (world.workspace / "a.txt").write_text("heliotrope\n")
    world.script(
        call("Bash", command="echo hi", description="Says hi", timeout=5000, dangerouslyDisableSandbox=True),
        call("Read", file_path="a.txt", allow_large=True),
        call("TaskStop", shell_id="none"),
        call("Read", file_path="a.txt", colour="red"),
        text("ok"),
    )
    assert world.agent("go").code == 0
    told = results(world)
    assert [error for _, error in told] == [False, False, True, True]
    assert "hi" in told[0][0]
    assert "heliotrope" in told[1][0]
    assert "no background task 'none'" in told[2][0]
    assert "colour: unknown key" in told[3][0]
    assert world.receipts()[0]["decision"]["sandbox"] != "none", "a model does not leave the sandbox by asking"


# ------------------------------------------------------------------ D-72: what Bash printed


def test_25_d72_what_is_not_whole_ends_with_the_mark(world: World) -> None:
    world.configure("full")
    world.script(
        call("Bash", command="printf out; printf err >&2"),
        call("Bash", command="printf err >&2"),
        call("Bash", command="seq 1 300000; seq 1 300000 >&2; false"),
        text("ok"),
    )
    assert world.agent("go").code == 0
    (both, _), (alone, _), (long, failed) = results(world)
    assert both == "out\n--- stderr ---\nerr"
    assert alone == "\n--- stderr ---\nerr"
    assert failed
    assert long.startswith("Exit code 1\n1\n2\n")
    assert long.split()[-3:] == ["299999", "300000", "[SDLC_TRUNCATED]"]
    (path,) = (word for word in long.split() if word.endswith(".txt"))
    assert "300000\n\n--- stderr ---\n1\n" in Path(path).read_text()


# ------------------------------------------------------------------ D-111: payloads

SHAPES: dict[str, set[str]] = {
    "user": {"_t", "uuid", "content"},
    "assistant": {"_t", "uuid", "content"},
    "tool_use": {"_t", "id", "name", "input"},
    "tool_result": {"_t", "tool_use_id", "content", "is_error"},
    "attachment": {"_t", "attachment"},
}
BLOCKS = {"text": {"type", "text"}, "tool_use": {"type", "id", "name", "input"}}


def test_25_d111_entries_have_their_shapes(world: World) -> None:
    world.configure("full")
    settings(world, hooks={"UserPromptSubmit": [hook("echo more")]})
    (world.workspace / "a.txt").write_text("x")
    world.script(
        {**call("Read", file_path="a.txt"), "text": "Let me look."},
        call("Bash", command="echo x", run_in_background=True),
        call("TaskOutput", task_id="nope"),
        text("ok"),
    )
    assert world.agent("go").code == 0
    seen: set[str] = set()
    for kind, payload in world.rows("SELECT entry_type, payload_json FROM transcript_entries"):
        entry = json.loads(payload)
        assert entry["_t"] == kind
        # which part of a result came from outside, and how the call ended: nobody needs them to read the entry
        assert entry.keys() - {"frame", "outcome", "denied_by"} == SHAPES[kind]
        for block in entry["content"] if kind in ("user", "assistant") else ():
            assert block.keys() == BLOCKS[block["type"]]
        seen.add(kind)
    assert seen >= {"user", "assistant", "tool_use", "tool_result"}


# ------------------------------------------------------------------ D-113: permissions at load


def test_25_d113_rules_keys_and_directories(world: World, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (more / "a.txt").write_text("heliotrope\n")
    rules: list[Any] = ["Read(", "", " ", 5, ["Bash"], "Write"]
    settings(world, permissions={"allow": rules, "additionalDirectories": [str(more)]})
    world.script(
        call("Read", file_path=str(more / "a.txt")),
        call("Write", file_path=str(more / "b.txt"), content="b"),
        call("Read", file_path=str(tmp_path / "elsewhere.txt")),
        text("ok"),
    )
    done = world.agent("go")
    assert done.err.count("is not a valid rule and is ignored") == 5
    assert [receipt["status"] for receipt in world.receipts()] == ["allowed", "allowed", "denied"]
    settings(world, permissions={"allow": [], "alow": []})
    refused = world.agent("go")
    assert refused.code == 2
    assert 'permissions.alow: unknown key; did you mean "allow"?' in refused.err


@pytest.mark.parametrize("mode", ["auto", "Default"])
def test_25_d113_modes_are_a_closed_set(world: World, mode: str) -> None:
    settings(world, permissions={"defaultMode": mode})
    done = world.agent("go")
    assert done.code == 2
    assert "permissions.defaultMode" in done.err
