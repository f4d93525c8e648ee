"""What deleting adds to writing, as a table: refusals that nothing lifts, and the question that no mode answers."""

from dataclasses import replace
from typing import Any

import pytest

from adderclaw import policy as gate
from adderclaw.core.types import PathFact
from adderclaw.policy import Decision
from tests.policy.conftest import HOME, WS, build
from tests.rows import rows


def deleted(path: str, *inner: str, gits: tuple[str, ...] = (), lost: str = "", **facts: Any) -> Decision:
    made = build("Delete", writes=(path, *inner), **facts)
    removes = (PathFact(path, path, path),)
    return gate.judge(replace(made, touch=replace(made.touch, removes=removes, gits=gits, lost=lost, why="deletes it")))


FULL = {"policy": {"autonomy": "full"}, "allow": ("Delete", "Edit")}


@rows(
    ("path", "facts", "by"),
    [
        (WS, {}, "protected"),
        ("/", {}, "protected"),
        (f"{WS}/more", {"policy": {"autonomy": "full", "roots": (WS, f"{WS}/more/further")}}, "protected"),
        (f"{WS}/.git", {}, "protected"),
        (f"{WS}/x", {"inner": (f"{WS}/x/.git",)}, "protected"),
        (f"{WS}/x", {"gits": (f"{WS}/x/store",)}, "protected"),
        (f"{WS}/runs", {}, "protected"),
        (f"{WS}/x", {"policy": {"autonomy": "full", "started": (f"{WS}/x/hook.sh",)}}, "protected"),
        (f"{WS}/x", {"policy": {"autonomy": "full", "own_files": (f"{WS}/x/agent.db",)}}, "protected"),
        (f"{WS}/x", {"policy": {"autonomy": "full", "forbidden_paths": (f"{WS}/x/y/z",)}}, "forbidden_paths"),
        ("/elsewhere/x", {}, "workspace"),
        (HOME, {}, "protected"),
        (f"{WS}/x", {"deny": ("Edit(./x/**)",), "inner": (f"{WS}/x/y",)}, "permission rules"),
        (f"{WS}/x", {"deny": ("Edit",)}, "permission rules"),
        (f"{WS}/x", {"deny": ("Delete(./x)",)}, "permission rules"),
        (f"{WS}/x", {"deny": ("Read(./x/secret)",), "inner": (f"{WS}/x/secret",)}, "permission rules"),
        (f"{WS}/x", {"policy": {"autonomy": "readonly"}}, "readonly"),
        (f"{WS}/x", {"policy": {"mode": "plan"}}, "readonly"),
    ],
)
def test_denied_whatever_is_allowed(path: str, facts: dict[str, Any], by: str) -> None:
    given: dict[str, Any] = {**FULL, **facts}
    decision = deleted(path, *given.pop("inner", ()), **given)
    assert (decision.verdict, decision.by) == ("deny", by), decision.reason


@rows("autonomy", ["supervised", "full"])
@rows("mode", [None, "default", "acceptEdits", "bypassPermissions"])
def test_what_cannot_be_undone_is_asked_in_every_mode(autonomy: str, mode: str | None) -> None:
    policy = {"autonomy": autonomy, "mode": mode}
    decision = deleted(f"{WS}/x", lost="no checkpoint keeps x", policy=policy, allow=("Delete",))
    assert (decision.verdict, decision.by, decision.risk) == ("ask", "checkpoint", "medium")
    assert decision.reason == "deletes it, which cannot be undone: no checkpoint keeps x"
    alone = deleted(f"{WS}/x", lost="…", policy=policy, allow=("Delete",), interactive=False)
    assert (alone.verdict, alone.by) == ("deny", "no_operator")


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ({}, "ask"),
        ({"policy": {"autonomy_set": False, "mode": "acceptEdits"}}, "ask"),
        ({"allow": ("Edit", "Write")}, "ask"),
        ({"allow": ("Edit(./x)",)}, "ask"),
        ({"allow": ("Delete(./x)",)}, "allow"),
        ({"policy": {"autonomy": "full"}}, "allow"),
        ({"policy": {"autonomy": "full"}, "ask": ("Edit(./x)",)}, "ask"),
    ],
)
def test_who_may_edit_may_not_therefore_delete(facts: dict[str, Any], verdict: str) -> None:
    assert deleted(f"{WS}/x", **facts).verdict == verdict


@pytest.mark.parametrize("command", ["rm -r old", "xargs rm", "nice rm x"])
def test_a_forbidden_rm_names_the_tool(command: str) -> None:
    decision = gate.judge(build("Bash", command=command))
    assert (decision.verdict, decision.by) == ("deny", "forbidden_commands")
    assert "the tool Delete takes a path of the workspace" in decision.reason
    assert "Delete" not in gate.judge(build("Bash", command="dd if=/dev/zero of=x")).reason
