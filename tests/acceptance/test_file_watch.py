"""Hooks hear of files that they watch, and of the directory that the shell goes to."""

import json
from typing import Any

from tests.acceptance.world import World, call, text


def listening(world: World, *hooks: dict[str, str]) -> None:
    tables = [
        "[[hooks]]\n" + "\n".join(f"{name} = {json.dumps(value)}" for name, value in hook.items()) for hook in hooks
    ]
    world.configure(autonomy="full", more="\n".join(tables))


def hook(event: str, command: str, matcher: str = "") -> dict[str, str]:
    return {"hook_event_name": event, "matcher": matcher, "command": command}


def heard(world: World) -> list[dict[str, Any]]:
    log = world.cli.home / "heard"
    return [json.loads(line) for line in log.read_text().splitlines() if line.strip()] if log.exists() else []


def test_add_change_and_unlink_of_watched_paths(world: World) -> None:
    log = world.cli.home / "heard"
    keep = f"cat >> {log}; echo >> {log}"
    start = json.dumps(
        {"hookSpecificOutput": {"hookEventName": "SessionStart", "watchPaths": ["a", "b", "\0", "gone"]}}
    )
    (world.cli.home / "start.json").write_text(start)
    listening(world, hook("SessionStart", "cat ~/start.json"), hook("FileChanged", keep))
    (world.workspace / "b").write_text("1")
    (world.workspace / "gone").write_text("1")
    world.script(
        call("Bash", command="touch a unwatched"), call("Bash", command="echo 22 > b"), call("Bash", command="true"),
        call("Bash", command="mv gone elsewhere"), text("done"),
    )  # fmt: skip
    assert world.agent("go").code == 0
    names = [(each["file_path"].rsplit("/", 1)[-1], each["event"]) for each in heard(world)]
    assert names == [("a", "add"), ("b", "change"), ("gone", "unlink")]


def test_a_matcher_is_a_list_of_names_to_watch(world: World) -> None:
    log = world.cli.home / "heard"
    listening(world, hook("FileChanged", f"cat >> {log}; echo >> {log}", matcher="package.json|.env"))
    world.script(call("Bash", command="touch package.json other"), text("done"))
    assert world.agent("go").code == 0
    assert [each["event"] for each in heard(world)] == ["add"]


def test_cwd_changed_is_told_and_may_watch(world: World) -> None:
    log = world.cli.home / "heard"
    answer = json.dumps({"hookSpecificOutput": {"hookEventName": "CwdChanged", "watchPaths": ["inner"]}})
    cwd = hook("CwdChanged", f"cat >> {log}; echo >> {log}; echo '{answer}'")
    listening(world, cwd, hook("FileChanged", f"cat >> {log}; echo >> {log}"))
    (world.workspace / "sub").mkdir()
    world.script(call("Bash", command="cd sub"), call("Bash", command="touch inner"), text("done"))
    assert world.agent("go").code == 0
    first, second = heard(world)
    assert (first["old_cwd"], first["new_cwd"]) == (str(world.workspace), str(world.workspace / "sub"))
    assert (second["file_path"], second["event"]) == (str(world.workspace / "sub" / "inner"), "add")
