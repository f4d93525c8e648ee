"""Plan mode: the model is told at once, commands that only read run, and an approved plan ends it."""

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

from adderclaw.agent.view.rows import Rows
from adderclaw.storage import Store
from tests.acceptance.test_hooks import hook, user
from tests.acceptance.world import World
from tests.scripted import ScriptedModel

PLAN = "# Change the title\n\n1. Edit README.md.\n"
ON, OFF = "Plan mode is on", "Plan mode is off"


def step(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def write(content: str) -> dict[str, Any]:
    return step("Write", file_path="README.md", content=content)


def typed(world: World, steps: list[dict[str, Any]], *lines: str, more: tuple[str, ...] = ()) -> ScriptedModel:
    """What a person types at the terminal, and the model with the requests that it got."""
    with ScriptedModel(steps) as model:
        entry = f'[providers.models.remote]\nkind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
        world.configure(more=entry)
        stdin = "\n".join([*lines, "/exit", ""])
        done = world.cli.typed("agent", "--provider", "remote", *more, stdin=stdin)
        assert done.code == 0, done.err
    return model


def heard(model: ScriptedModel, number: int) -> str:
    """The messages of a request since the one before."""
    before = len(model.requests[number - 1].json["messages"]) if number else 0
    return json.dumps(model.requests[number].json["messages"][before:])


def test_a_plan_is_made_approved_and_carried_out(world: World, needs: Callable[[str], str]) -> None:
    needs("bwrap")
    steps = [
        step("Bash", command="ls && cat notes.txt"),
        step("Bash", command="touch made"),
        write("too early"),
        step("ExitPlanMode", plan=PLAN),
        write("as planned"),
        {"text": "changed"},
        {"text": "nothing more"},
    ]
    (world.workspace / "notes.txt").write_text("AN OLD NOTE\n")
    model = typed(world, steps, "/plan Change the title", "y", "y", "thanks")
    assert ON in heard(model, 0)
    assert "AN OLD NOTE" in heard(model, 1), "a command that only reads runs"
    assert "plan mode" in heard(model, 2), "one that changes something does not"
    assert "plan mode" in heard(model, 3)
    assert "The plan is approved: carry it out" in heard(model, 4)
    assert OFF not in heard(model, 4), "the result of ExitPlanMode says so already"
    assert "verify" not in heard(model, 4), "nobody who uses plan mode asked for a proof"
    assert (world.workspace / "README.md").read_text() == "as planned"
    assert not (world.workspace / "made").exists()
    assert ON not in heard(model, 6)
    assert OFF not in heard(model, 6)
    assert world.rows("SELECT phase FROM conversations") == [("implement",)]
    assert world.rows("SELECT status FROM plans") == [("approved",)], "one plan is one version"
    ((run,),) = world.rows("SELECT run_id FROM runs")
    proved = world.cli("replay", run, "--verify")
    assert proved.code == 0, proved.out + proved.err


def test_a_refused_plan_leaves_plan_mode_on_and_can_be_approved_later(world: World) -> None:
    steps = [step("ExitPlanMode", plan=PLAN), {"text": "as you like"}, write("as planned"), {"text": "changed"}]
    model = typed(world, steps, "/plan Change the title", "n", "/plan approve", "go on", "y")
    assert "did not approve the plan" in heard(model, 1)
    assert OFF in heard(model, 2), "who approves it by hand does so between two messages"
    assert world.rows("SELECT status FROM plans") == [("approved",)]
    assert (world.workspace / "README.md").read_text() == "as planned"
    (decision,) = [line["decision"] for line in world.receipts() if line["status"] == "denied"]
    assert decision["by"] == "operator", "no rule and no mode turned the plan down"
    ((session, use),) = world.rows(
        "SELECT session_id, tool_use_id FROM tool_permission_log WHERE tool_name = 'ExitPlanMode'"
    )
    with closing(Store.open(str(world.database))) as store:
        shown = Rows(store, lambda value: value).call(session, use)
    assert shown is not None
    assert shown.by == decision["answered_by"], "the terminal shows who did"


def test_leaving_plan_mode_without_a_plan_frees_the_conversation(world: World) -> None:
    steps = [step("ExitPlanMode", plan=PLAN), {"text": "as you like"}, write("at once"), {"text": "changed"}]
    model = typed(world, steps, "/plan Change the title", "n", "/config mode=default", "just do it", "y")
    assert OFF in heard(model, 2)
    assert (world.workspace / "README.md").read_text() == "at once"
    assert world.rows("SELECT phase FROM conversations") == [("idle",)]


def test_what_was_switched_on_and_off_between_messages_is_not_told(world: World) -> None:
    lines = ("/config mode=plan", "/config mode=default", "hello")
    assert "Plan mode" not in json.dumps(typed(world, [{"text": "hi"}], *lines).requests[0].json)


def test_a_session_that_begins_in_plan_mode_ends_it_with_the_approval(world: World) -> None:
    steps = [step("ExitPlanMode", plan=PLAN), write("as planned"), {"text": "changed"}]
    model = typed(world, steps, "change the title", "y", "y", more=("--permission-mode", "plan"))
    assert ON in heard(model, 0)
    assert (world.workspace / "README.md").read_text() == "as planned"


def test_a_plan_that_nobody_could_approve_waits_for_the_operator(world: World) -> None:
    with ScriptedModel([step("ExitPlanMode", plan=PLAN), {"text": "waiting"}]) as model:
        entry = f'[providers.models.remote]\nkind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
        world.configure(more=entry)
        world.agent("plan it", "--provider", "remote", "--permission-mode", "plan")
    assert "stored as draft" in heard(model, 1)
    assert world.rows("SELECT phase FROM conversations") == [("planning",)]
    assert world.cli("sdlc", "approve", "--yes").code == 0
    assert world.rows("SELECT phase FROM conversations") == [("implement",)]
    assert world.rows("SELECT status FROM plans") == [("approved",)]


def test_a_read_only_session_says_that_another_has_to_carry_the_plan_out(world: World) -> None:
    steps = [step("EnterPlanMode"), step("ExitPlanMode", plan=PLAN), write("never"), {"text": "done"}]
    given = ("--profile", "readonly", "--permission-mode", "plan")
    model = typed(world, steps, "change the title", "y", more=given)
    assert "stays read-only" in heard(model, 2)
    assert not (world.workspace / "README.md").exists()


def test_an_approved_plan_goes_on_in_the_mode_of_the_last_turn(world: World) -> None:
    """Not in one that a person only passed on the way to plan mode, which would write unasked."""
    steps = [step("ExitPlanMode", plan=PLAN), write("refused"), {"text": "stopped"}]
    typed(world, steps, "/config mode=acceptEdits", "/plan Change the title", "y", "n")
    assert not (world.workspace / "README.md").exists()
    steps = [{"text": "hello"}, step("ExitPlanMode", plan=PLAN), write("unasked"), {"text": "changed"}]
    typed(world, steps, "/config mode=acceptEdits", "hello", "/plan Change the title", "y")
    assert (world.workspace / "README.md").read_text() == "unasked"


def test_who_approves_another_plan_is_told_that_it_replaces_the_approved_one(world: World) -> None:
    user(world, Notification=[hook("cat >> asked; echo >> asked")])
    again = [step("ExitPlanMode", plan=f"{PLAN}2. Run the tests.\n"), {"text": "as you like"}]
    steps = [step("ExitPlanMode", plan=PLAN), {"text": "approved"}, *again]
    typed(world, steps, "/plan Change the title", "y", "/plan And now the tests", "n")
    first, second = (line for line in (world.workspace / "asked").read_text().splitlines() if line)
    assert "replaces" not in first
    assert "it replaces plan 1, which you approved" in second
    assert world.rows("SELECT status FROM plans ORDER BY id") == [("approved",), ("draft",)]
    assert world.rows("SELECT phase FROM conversations") == [("implement",)]
