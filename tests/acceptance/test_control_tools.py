"""Questions, lists, plans, the search for tools, and Brief: each by its contract, through the installed program."""

import json
from typing import Any

import pytest

from tests.acceptance.world import World, call, text


def refused(world: World, tool: str, cases: list[tuple[dict[str, Any], str]]) -> None:
    """Each of these inputs is an error that says so, and the turn goes on."""
    world.script(*(call(tool, **given) for given, _ in cases), text("done"))
    done = world.agent("go", stdin="1\n" * len(cases))
    assert "Traceback" not in done.err
    assert done.out == "done\n"
    for (given, said), result in zip(cases, world.entries("tool_result"), strict=True):
        assert result["is_error"], given
        assert said in result["content"], given


ASKED = {"question": "Which one?", "header": "Choice", "options": [{"label": "red"}, {"label": "blue"}]}


# ------------------------------------------------------------------ AskUserQuestion


def test_questions_that_are_none(world: World) -> None:
    refused(
        world,
        "AskUserQuestion",
        [
            ({"questions": []}, "ask 1 to 4"),
            ({"questions": [ASKED] * 5}, "ask 1 to 4"),
            ({"questions": [ASKED] * 2}, "are the same"),
            ({"questions": [{**ASKED, "question": " "}]}, "empty"),
            ({"questions": [{**ASKED, "options": [{"label": "one"}]}]}, "2 to 4"),
            ({"questions": [{**ASKED, "options": [{"label": "a"}, {"label": "A "}]}]}, "2 to 4"),
            ({"questions": [{**ASKED, "question": "x" * 5000}]}, "longer than 4000"),
            ({"questions": "what?"}, "do not fit"),
            ({}, "do not fit"),
        ],
    )


def test_x38_without_an_operator_a_question_is_rejected_at_once(world: World) -> None:
    world.script(
        call("AskUserQuestion", questions=[ASKED]),
        call("AskUserQuestion", questions=[ASKED], answers={"Which one?": "red"}),  # not in the operator's place
        call("ask_user", questions=[ASKED]),
        text("I cannot know."),
    )
    done = world.agent("choose")
    assert (done.code, done.out) == (5, "I cannot know.\n")
    assert world.rows("SELECT outcome FROM runs") == [("needs_input",)]
    results = world.entries("tool_result")
    assert len(results) == 3
    for result in results:
        assert result["is_error"] is True
        assert "No operator" in result["content"]


def test_a_question_that_was_worked_around_is_no_open_question(world: World) -> None:
    world.script(call("AskUserQuestion", questions=[ASKED]), call("time"), text("I took red."))
    assert world.agent("choose").code == 0


def test_the_operator_answers_by_number_label_or_own_words(world: World) -> None:
    answers = {"2": "blue", "RED": "red", "a mix of both": "a mix of both", "7": "7"}
    world.script(*[call("AskUserQuestion", questions=[ASKED])] * len(answers), text("{{last_result}}"))
    done = world.agent("choose", stdin="".join(f"{line}\n" for line in answers))
    assert done.code == 0
    assert done.out == "Which one?\n→ 7\n"
    assert "1. red" in done.err
    wanted = [f"Which one?\n→ {answer}" for answer in answers.values()]
    assert [result["content"] for result in world.entries("tool_result")] == wanted


def test_several_answers_and_a_plain_question(world: World) -> None:
    several = {**ASKED, "multiSelect": True}
    world.script(
        call("AskUserQuestion", questions=[several]), call("ask_user", question="Your name?"), text("{{last_result}}")
    )
    done = world.agent("ask", stdin="1, blue\nAda\n")
    assert done.out == "Your name?\n→ Ada\n"
    assert "red, blue" in world.entries("tool_result")[0]["content"]


# ------------------------------------------------------------------ TodoWrite and tasks


def todo(content: str, status: str = "pending") -> dict[str, str]:
    return {"content": content, "status": status, "activeForm": f"Doing {content}"}


def test_todos_that_are_none(world: World) -> None:
    refused(
        world,
        "TodoWrite",
        [
            ({"todos": [{"content": "x", "status": "soon"}]}, "do not fit"),
            ({"todos": [todo("")]}, "empty"),
            ({"todos": [todo("x" * 9000)]}, "longer than"),
            ({"todos": [todo("x")] * 201}, "at most 200"),
            ({}, "do not fit"),
        ],
    )


def test_the_todo_list_is_replaced_and_shown(world: World) -> None:
    first, second = [todo("plan"), todo("build")], [todo("plan", "completed"), todo("build", "in_progress")]
    world.script(call("TodoWrite", todos=first), call("TodoWrite", todos=second), text("going on"))
    done = world.cli.typed("agent", stdin="work\n/todos\n/exit\n")
    assert "[x] plan\n[~] build" in done.out
    assert world.rows("SELECT content, status FROM todos ORDER BY position") == [
        ("plan", "completed"),
        ("build", "in_progress"),
    ]
    assert "1 of 2 done" in world.entries("tool_result")[1]["content"]


def test_the_task_list(world: World) -> None:
    world.script(
        call("Call", tool="TaskCreate", input={"subject": "design", "description": "draw it"}),
        call("Call", tool="TaskCreate", input={"subject": "build", "description": "make it", "metadata": {"a": 1}}),
        call("TaskUpdate", taskId="2", addBlockedBy=["1"], owner="me", metadata={"a": None, "b": 2}),
        call("TaskUpdate", taskId="1", addBlockedBy=["2"]),
        call("TaskList"),
        call("TaskUpdate", taskId="1", status="completed"),
        call("TaskGet", taskId="#2"),
        call("TaskUpdate", taskId="1", status="deleted"),
        call("TaskGet", taskId="1"),
        text("done"),
    )
    done = world.cli.typed("agent", stdin="work\n/todos\n/exit\n")
    results = world.entries("tool_result")
    assert results[0]["content"] == "Task #1 created: design"
    assert "they would wait for each other" in results[3]["content"]
    assert results[4]["content"] == "#1 [ ] design\n#2 [ ] build (me) [waits for #1]"
    assert results[6]["content"] == '#2 [ ] build (me)\nmake it\nmetadata: {"b":2}'
    assert results[8]["is_error"] is True
    assert "#2 [ ] build (me)" in done.out


# ------------------------------------------------------------------ ToolSearch and Call


FOUND = {
    "select:EnterPlanMode": "EnterPlanMode",
    "select:TaskGet, Brief": "TaskGet",
    "approval of the plan": "ExitPlanMode",
    "+task create": "TaskCreate",
    "message the operator": "Brief",
}
NOT_FOUND = [
    ("", True, "query is empty"),
    ("select:", True, "needs a name"),
    ("select:TaskGett", True, "did you mean TaskGet?"),
    ("zebra", False, "No tool matches 'zebra'. Available: "),
    ("x" * 2000, True, "at most 1000"),
]


def test_tools_are_found_with_their_schema_or_not_at_all(world: World) -> None:
    queries = [*FOUND, *FOUND, *(query for query, _, _ in NOT_FOUND)]
    world.script(*(call("ToolSearch", query=query) for query in queries), text("done"))
    assert world.agent("look").out == "done\n"
    results = world.entries("tool_result")
    first, second, missed = results[:5], results[5:10], results[10:]
    for tool, result in zip(FOUND.values(), first, strict=True):
        found = json.loads(result["content"].splitlines()[0])
        assert found["tool"] == tool
        assert found["input"]["type"] == "object"
    assert [one["content"] for one in first] == [one["content"] for one in second], "the same every time"
    for (query, is_error, said), result in zip(NOT_FOUND, missed, strict=True):
        assert result["is_error"] is is_error, query
        assert said in result["content"], query


def test_a_call_is_judged_and_recorded_as_what_it_is_about(world: World) -> None:
    world.script(
        call("Call", tool="Bash", input={"command": "rm -rf /"}),
        call("Call", tool="file_read", input={"path": "/etc/passwd"}),
        call("Call", tool="Time", input="{}"),
        call("Call", tool="TaskGet", input={"id": 1}),
        call("Call", tool="Call", input={}),
        call("Call", input={}),
        text("done"),
    )
    world.agent("go")
    assert [(receipt["tool"], receipt["status"]) for receipt in world.receipts()] == [
        ("Bash", "denied"),
        ("file_read", "denied"),
        ("Time", "allowed"),
        ("TaskGet", "failed"),
        ("Call", "failed"),
        ("Call", "failed"),
    ]
    results = world.entries("tool_result")
    assert '"taskId"' in results[3]["content"], "a call that does not fit is told the schema"
    assert world.cli("receipt", "verify").code == 0
    assert [entry["name"] for entry in world.entries("tool_use")][:3] == ["Bash", "file_read", "Time"]


def test_rare_tools_wait_behind_the_search(world: World) -> None:
    listed = json.loads(world.cli("tool", "list", "--output-format", "json").out)
    late = {tool["name"] for tool in listed if tool["deferred"]}
    assert {"EnterPlanMode", "ExitPlanMode", "Brief", "TaskCreate", "TaskUpdate"} <= late
    assert not late & {"Bash", "Read", "Edit", "Agent", "AskUserQuestion", "ToolSearch", "Call", "TodoWrite"}
    (search,) = [tool for tool in listed if tool["name"] == "ToolSearch"]
    for name in late:
        assert name in search["description"]


# ------------------------------------------------------------------ plans


PLAN = "1. Write a.txt\nSuccess: a.txt is there"


def test_d78_d79_d83_nothing_is_changed_until_the_plan_is_approved(world: World) -> None:
    world.configure(autonomy="full")
    write = {"path": "a.txt", "content": "x"}
    world.script(
        call("EnterPlanMode"),
        call("file_write", **write),
        call("Bash", command="touch b.txt"),
        call("Call", tool="Edit", input={"file_path": "a.txt", "old_string": "a", "new_string": "b"}),
        call("NotebookEdit", notebook_path="n.ipynb", cell_id="c", new_source="x"),
        call("Time"),
        call("ExitPlanMode", plan=PLAN),
        call("file_write", **write),
        text("done"),
    )
    done = world.agent("plan it", stdin="y\n")
    assert done.code == 0, done.err
    statuses = [receipt["status"] for receipt in world.receipts()]
    assert statuses == ["allowed", *["denied"] * 4, "allowed", "allowed", "allowed"]
    assert (world.workspace / "a.txt").exists()
    assert not (world.workspace / "b.txt").exists()
    assert world.rows("SELECT content, status, approved_at IS NOT NULL FROM plans") == [(PLAN, "approved", 1)]
    assert world.rows("SELECT phase FROM conversations") == [("implement",)]
    moves = [json.loads(row[0]) for row in world.rows("SELECT detail FROM events WHERE event_type = 'phase_changed'")]
    assert [(move["from"], move["to"]) for move in moves] == [("idle", "planning"), ("planning", "implement")]


@pytest.mark.parametrize(
    ("stdin", "code", "said"), [("n\n", 3, "did not approve"), ("", 5, "The plan was not approved (")]
)
def test_a_plan_that_nobody_approves_stays_a_draft(world: World, stdin: str, code: int, said: str) -> None:
    world.configure(autonomy="full")
    world.script(call("EnterPlanMode"), call("ExitPlanMode", plan=PLAN), text("waiting"))
    assert world.agent("plan it", stdin=stdin).code == code
    assert said in world.entries("tool_result")[1]["content"]
    assert world.rows("SELECT status FROM plans") == [("draft",)]
    assert world.rows("SELECT phase FROM conversations") == [("planning",)]


def test_a_plan_is_needed_to_leave_and_a_new_one_supersedes_the_old(world: World) -> None:
    world.script(
        call("ExitPlanMode", plan=PLAN),
        call("EnterPlanMode"),
        call("ExitPlanMode"),
        call("ExitPlanMode", plan=PLAN),
        call("EnterPlanMode"),
        call("Bash", command="touch b.txt"),
        text("done"),
    )
    world.agent("go", stdin="y\n")
    results = world.entries("tool_result")
    assert "nothing is being planned" in results[0]["content"]
    assert "no plan to approve" in results[2]["content"]
    assert results[3]["content"].startswith("The plan is approved")
    assert "while planning" in results[5]["content"]
    assert world.rows("SELECT status FROM plans") == [("superseded",)]


def test_a_plan_can_be_looked_at_and_approved_later(world: World) -> None:
    world.script(call("EnterPlanMode"), call("ExitPlanMode", plan=PLAN), text("waiting"))
    done = world.cli.typed("agent", stdin="plan it\nn\n/plan\n/plan approve\n/exit\n")
    assert "phase: planning" in done.out
    assert "phase: implement" in done.out
    assert PLAN in done.out


# ------------------------------------------------------------------ Brief


def test_brief_tells_the_operator_beside_the_answer(world: World) -> None:
    (world.workspace / "a.txt").write_text("abc")
    world.script(
        call("Brief", message="half way \x1b[31m", attachments=["a.txt"]),
        call("SendUserMessage", message="x", attachments=["/etc/passwd"]),
        call("Brief", message="x", attachments=["missing.txt"]),
        call("Brief", message="  "),
        text("the answer"),
    )
    done = world.agent("go")
    assert done.out == "the answer\n"
    assert "[normal] half way" in done.err
    assert "a.txt (3 bytes)" in done.err
    assert "\x1b" not in done.err
    assert [receipt["status"] for receipt in world.receipts()] == ["allowed", "denied", "failed", "failed"]
