"""The proof of a plan: what is generated, proved on the tree before, run on the tree as it is, and counted."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from adderclaw.storage.ledger import imprints
from tests.flows.proofs import AFTER, BEFORE, GOOD, PLAN, Project, hands_in, turn
from tests.scripted import ScriptedModel
from tests.trial import why_not


@pytest.fixture
def project(home: Path, tmp_path: Path) -> Iterator[Project]:
    if why := why_not("bubblewrap"):
        pytest.skip(f"bubblewrap does not start on this machine: {why}")
    root = tmp_path / "project"
    root.mkdir()
    with ScriptedModel() as model:
        yield Project(home, root, model)


def test_a_plan_is_proved_and_opens_the_gate(project: Project) -> None:
    project.approve()
    assert any("no test proves C1" in reason for reason in project.reasons())
    project.files(greet=AFTER)
    project.script(turn(hands_in("C1", GOOD["C1"]), hands_in("C2", GOOD["C2"])))
    report = project.prove()
    assert (report.result.outcome, report.result.reason) == ("completed", "")
    assert project.results() == [
        ("C1", "baseline", 1),
        ("C2", "baseline", 0),
        ("C2", "fault", 1),
        *(("C1", "now", 0), ("C1", "other", 1), ("C1", "empty", 1)),
        *(("C2", "now", 0), ("C2", "other", 1), ("C2", "empty", 1)),
    ]
    assert project.reasons() == []
    assert project.copies() == []


def test_what_the_generator_is_told_is_the_plan_and_its_documents(project: Project) -> None:
    """Nothing that was written since the approval, no source, nothing of the implementer's talk."""
    project.approve()
    project.files(greet=AFTER, **{"docs/usage.md": "# greet\nNEW-WORDS\n", "AGENTS.md": "NEW-RULES\n"})
    project.script(turn(hands_in("C1", GOOD["C1"]), hands_in("C2", GOOD["C2"])))
    project.prove()
    sessions = {test.session_id for test in project.tests()}
    held = project.sql("SELECT session_id, conversation_id FROM sessions WHERE session_id NOT IN ('implementer')")
    assert {row[1] for row in held}.isdisjoint({"conversation"})
    assert sessions < {row[0] for row in held}
    (folder,) = project.sql("SELECT DISTINCT project_dir FROM conversations WHERE id <> 'conversation'")
    assert folder[0] == str(project.home / "proof" / f"generator-{project.plan_id}")
    told = project.told()
    assert "The published usage." in told
    assert "C1: `./greet Ada` prints exactly" in told
    for word in ("NEW-WORDS", "NEW-RULES", "SECRET", "Hello, $1", str(project.root)):
        assert word not in told, word
    offered = [[tool["function"]["name"] for tool in request.json["tools"]] for request in project.model.requests]
    assert offered == [["SubmitTest"]] * 2


# ------------------------------------------------------------------ turned back


def test_a_test_that_passes_before_the_change_is_turned_back(project: Project) -> None:
    """The mutation proof: the generator hears why, in our words alone, and hands in another."""
    project.approve()
    project.files(greet=AFTER)
    lazy = 'out=$(./greet Ada)\n[ -n "$out" ] || exit 1\n'
    project.script(turn(hands_in("C1", lazy), hands_in("C2", GOOD["C2"])), turn(hands_in("C1", GOOD["C1"])))
    assert project.prove().result.outcome == "completed"
    assert [(one.criterion, one.status) for one in project.tests()] == [
        ("C1", "returned"),
        ("C2", "accepted"),
        ("C1", "accepted"),
    ]
    assert "it passes on the tree before the change" in project.tests()[0].reason
    assert "an earlier test was returned: it passes on the tree" in project.told()


SUMS = """# Sums

## Success criteria

- [C1] `./calc add 2 3` prints `5`
- [C2] `./calc mul 2 3` prints `6`
- [C3] `./calc div 1 0` exits with status 3
"""
GARBAGE = '#!/bin/sh\n[ "$1" != div ] || exit 3\necho garbage\n'


def test_a_wrong_program_is_not_proved_by_tests_that_look_at_nothing(project: Project) -> None:
    """A new command fails before the change whatever is asserted: its test has to notice what it prints."""
    project.approve(SUMS)
    project.files(calc=GARBAGE)
    a_text = (
        "import subprocess\ndone = subprocess.run(['./calc', 'add', '2', '3'], capture_output=True, text=True)\n"
        "assert isinstance(done.stdout, str)\n"
    )
    anything = 'out=$(./calc mul 2 3) || exit 1\n[ -z "$out" ] || [ -n "$out" ] || exit 1\n'
    status = "./calc div 1 0\nrc=$?\n[ $rc -eq 3 ] || exit 1\n"
    project.script(
        turn(hands_in("C1", a_text, "python"), hands_in("C2", anything), hands_in("C3", "# again\n" + anything)),
        turn(hands_in("C3", status)),
        turn(hands_in("C1", '[ "$(./calc add 2 3)" = 5 ] || exit 1\n')),
        turn(hands_in("C2", '[ "$(./calc mul 2 3)" = 6 ] || exit 1\n')),
    )
    report = project.prove()
    assert report.result.outcome == "error"
    assert "2 of 3 tests fail on the tree as it is now: C1, C2" in report.result.reason
    returned = {one.id: one.reason for one in project.tests() if one.status == "returned"}
    assert [("same text" in why, "prints something else" in why) for why in returned.values()] == [
        *((False, True), (False, True), (True, False))
    ]
    assert any("test 5 of C1 failed with status 1" in reason for reason in project.reasons())
    project.files(calc=GARBAGE.replace("echo garbage", 'case "$1" in add) echo 5 ;; mul) echo 6 ;; esac'))
    project.script()
    assert project.prove().result.outcome == "completed"
    assert project.reasons() == []
    tree = project.tree()
    project.sql("DELETE FROM test_results WHERE tree_digest LIKE 'replaced-%'")
    assert "was not run with the programs that it starts replaced" in project.reasons(tree)[0]


def test_a_test_that_notices_no_fault_is_turned_back_and_then_not_delivered(project: Project) -> None:
    project.approve()
    project.files(greet=AFTER)
    blind = "./greet --version | grep -q greet || exit 1\n"
    late = './greet Ada | grep -q "Hello, Ada" || exit 1\n./greet --version | grep -q "greet 1.0" || exit 1\n'
    project.script(
        turn(hands_in("C1", GOOD["C1"]), *[hands_in("C2", blind)] * 3, hands_in("C2", late)),
        turn(*[hands_in("C2", blind)] * 2),
    )
    report = project.prove()
    assert report.result.outcome == "limit"
    assert "no test proves C2; 6 tests for each were returned" in report.result.reason
    reasons = {one.reason for one in project.tests() if one.criterion == "C2"}
    assert any("passes on a tree with the fault that the plan names" in reason for reason in reasons)
    assert any("fails on the tree before the change" in reason for reason in reasons)
    assert any("no test proves C2" in reason for reason in project.reasons())
    assert (report.result.details or {})["open"] == ["C2"]


def test_a_test_that_cannot_run_at_all_is_no_proof(project: Project) -> None:
    """A program that is not there yet is; a mistake of the test itself is not."""
    project.approve(PLAN.replace("`./greet Ada` prints", "`./hello Ada` prints"))
    project.files(hello=AFTER)
    typo = "import subprocess\nout = subprocess.run(['./greet'], capture_output=True)\nassert out.stdouts == b'x'\n"
    new = "import subprocess\nout = subprocess.run(['./hello', 'Ada'], capture_output=True, text=True)\n"
    project.script(
        turn(hands_in("C1", typo, "python")),
        turn(hands_in("C1", new + "assert out.stdout == 'Hello, Ada\\n'\n", "python"), hands_in("C2", GOOD["C2"])),
    )
    assert project.prove().result.outcome == "completed"
    assert "line 3 raises AttributeError" in project.tests()[0].reason
    assert [one.status for one in project.tests()] == ["returned", "accepted", "accepted"]


def test_what_the_static_check_refuses_never_runs(project: Project) -> None:
    """Each is an attempt with its reason: mock, empty, sleeping, exists-only, skip."""
    project.approve()
    project.files(greet=AFTER)
    cheats = {
        "from unittest import mock\n": "do not mock or patch anything",
        "\n": "it is empty",
        "import time\ntime.sleep(1)\n": "it sleeps",
        "import os, subprocess\nsubprocess.run(['./greet'])\nassert os.path.exists('greet')\n": "only checks that",
    }
    project.script(
        turn(*(hands_in("C1", text, "python") for text in cheats)),
        turn(hands_in("C1", "exit 0\n" + GOOD["C1"]), hands_in("C9", GOOD["C1"]), hands_in("C2", GOOD["C2"])),
        turn(hands_in("C1", GOOD["C1"])),
    )
    assert project.prove().result.outcome == "completed"
    returned = [one for one in project.tests() if one.status == "returned"]
    assert [any(reason in one.reason for one in returned) for reason in cheats.values()] == [True] * 4
    assert "`exit 0` before the end" in returned[-1].reason
    assert {criterion for criterion, _, _ in project.results()} == {"C1", "C2"}
    assert [tree for _, tree, _ in project.results()].count("now") == 2


def test_a_generator_that_hands_in_nothing_ends_the_run(project: Project) -> None:
    project.approve()
    project.script(*[[{"text": "I could not."}, {"text": "Still not."}]] * 2)
    report = project.prove()
    assert (report.result.outcome, report.exit_code) == ("limit", 4)
    assert "submitted no test in 2 sessions" in report.result.reason


# ------------------------------------------------------------------ ways to open the gate


def proved(project: Project) -> None:
    project.approve()
    project.files(greet=AFTER)
    project.script(turn(hands_in("C1", GOOD["C1"]), hands_in("C2", GOOD["C2"])))
    assert project.prove().result.outcome == "completed"
    assert project.reasons() == []


CHANGED = [
    ("generated_tests", "criterion", "'C2'", "id = 1", "test 1 of C2 differs from the submitted one"),
    ("generated_tests", "content", "'true'", "id = 1", "test 1 of C1 differs from the submitted one"),
    ("generated_tests", "status", "'returned'", "id = 2", "no test proves C2"),
    ("test_results", "exit_code", "1", "tree = 'now'", "a result of test 1 of C1 differs from the recorded one"),
    ("test_results", "tree", "'fault'", "tree = 'baseline'", "differs from the recorded one"),
    ("test_results", "test_id", "1", "test_id = 2", "test 2 of C2 was not run on the workspace before the change"),
    ("test_results", "stdout", "'fine'", "id = 1", "its row was changed"),
    ("plans", "hash", "'other'", "id = 1", "test 1 of C1 was written for another version of the plan"),
]
"""Table, column, what somebody writes into it, where, and why the gate is closed then."""


def test_the_gate_closes_with_each_change_of_what_it_rests_on(project: Project) -> None:
    """The tree, the rows of tests, of results, the mapping, the plan, the checkpoint: each alone closes it again."""
    proved(project)
    tree = project.tree()
    project.files(greet=AFTER + "# one more line\n")
    assert any("the workspace has changed since test 1 of C1 was run" in one for one in project.reasons())
    project.files(greet=AFTER)
    assert project.reasons() == []
    assert "the current content of the workspace is unknown" in project.reasons("")[0]
    for table, name, values, where, reason in CHANGED:
        before = project.sql(f"SELECT id, {name} FROM {table} WHERE {where}")
        project.sql(f"UPDATE {table} SET {name} = {values} WHERE {where}")
        assert any(reason in one for one in project.reasons(tree)), (name, project.reasons(tree))
        for number, value in before:
            project.sql(f"UPDATE {table} SET {name} = ? WHERE id = ?", value, number)
        assert project.reasons(tree) == [], name
    project.sql("UPDATE plan_baselines SET digest = 'other'")
    assert "was not run on the workspace before the change" in project.reasons(tree)[0]
    project.sql("DELETE FROM plan_baselines")
    assert "is not stored, so nothing can be proved" in project.reasons(tree)[0]


HELLO_ONLY = "# Greet\n\n## Success criteria\n\n- [C1] `./greet Ada` prints exactly `Hello, Ada`\n"
WHERE_MARKED = '#!/bin/sh\n[ -e mark ] || { echo Hi; exit 0; }\necho "Hello, $1"\n'


@pytest.mark.parametrize("folder", ["lib", ".venv"])
def test_what_is_lent_to_the_tests_is_part_of_what_they_prove(project: Project, folder: str) -> None:
    """Sources that call themselves a virtual environment, or lie in one, are not changed behind the tests."""
    project.files(greet=f'#!/bin/sh\nexec {folder}/core "$@"\n')
    project.approve(HELLO_ONLY)
    project.files(mark="", **{f"{folder}/pyvenv.cfg": "", f"{folder}/core": WHERE_MARKED})
    project.script(turn(hands_in("C1", GOOD["C1"])))
    assert project.prove().result.outcome == "completed"
    assert project.reasons() == []
    project.files(**{f"{folder}/core": WHERE_MARKED.replace("Hello", "Bello")})
    assert any("the workspace has changed since test 1 of C1 was run" in one for one in project.reasons())


def test_what_is_lent_is_the_same_before_and_after_the_change(project: Project) -> None:
    """A package that is broken while a test is proved, and whole while it counts, makes any test prove anything."""
    whole = '#!/bin/sh\necho "Hello, $1"\n'
    project.files(greet='#!/bin/sh\nexec .venv/core "$@"\n', **{".venv/pyvenv.cfg": "", ".venv/core": whole})
    project.approve(HELLO_ONLY)
    project.files(**{".venv/core": "#!/bin/sh\necho Hi\n"})
    project.script(turn(hands_in("C1", GOOD["C1"])), [{"text": "No."}] * 4)
    assert "1 of 1 tests fail on the tree as it is now" in project.prove().result.reason
    project.files(**{".venv/core": whole})
    assert any("what package managers installed in the workspace has changed" in one for one in project.reasons())
    project.prove()
    assert project.results()[-1] == ("C1", "baseline", 0), "it is proved anew, and proves nothing"
    assert project.tests()[0].status == "returned"
    assert any("no test proves C1" in one for one in project.reasons())


def test_the_tests_read_what_the_operator_lets_commands_read(project: Project, tmp_path: Path) -> None:
    """A toolchain or a cache of packages that lies elsewhere (`sandbox.read_paths`)."""
    tool = tmp_path / "tools" / "hello"
    tool.parent.mkdir()
    tool.write_text(AFTER)
    with (project.home / "config.toml").open("a") as file:
        file.write(f'[sandbox]\nread_paths = ["{tool.parent}"]\n')
    project.approve(HELLO_ONLY)
    project.files(greet=f'#!/bin/sh\nexec sh {tool} "$@"\n')
    project.script(turn(hands_in("C1", GOOD["C1"])))
    assert project.prove().result.outcome == "completed"


def test_a_full_disk_ends_the_run_and_the_next_goes_on(project: Project) -> None:
    """The system refuses the copy of a large file: the run has its outcome, and no test was judged by half a tree."""
    project.files(big="x" * 3_000_000)
    project.approve(HELLO_ONLY)
    project.files(greet=AFTER)
    project.script(turn(hands_in("C1", GOOD["C1"])))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, before[1]))
    try:
        result = project.prove().result
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert result.outcome == "error"
    assert "cannot be copied for its tests (File too large)" in result.reason
    assert (project.results(), project.copies()) == ([], [])
    assert project.prove().result.outcome == "completed", "what was handed in is still there"


def test_nothing_is_put_over_the_tree_before_the_change(project: Project) -> None:
    """A folder that calls itself a virtual environment now would decide what the tests see on the tree before."""
    project.files(greet='#!/bin/sh\nexec lib/core "$@"\n', **{"lib/core": AFTER})
    project.approve(HELLO_ONLY)
    project.files(mark="", **{"lib/pyvenv.cfg": "", "lib/core": WHERE_MARKED})
    project.script(turn(hands_in("C1", GOOD["C1"])), [{"text": "No."}] * 4)
    assert project.prove().result.outcome == "limit"
    assert project.results() == [("C1", "baseline", 0)]
    assert "it passes on the tree before the change" in project.tests()[0].reason


def test_a_faked_row_of_a_pass_opens_nothing(project: Project) -> None:
    """Whoever writes rows by hand has no seal for them; a test without its proof does not count."""
    project.approve()
    project.files(greet=BEFORE)
    project.script(turn(hands_in("C1", GOOD["C1"]), hands_in("C2", GOOD["C2"])))
    report = project.prove()
    assert report.result.outcome == "error"
    assert "1 of 2 tests fail on the tree as it is now: C1" in report.result.reason
    assert any("test 1 of C1 failed with status 1" in one for one in project.reasons())
    project.sql(
        "INSERT INTO test_results SELECT NULL, test_id, test_hash, tree, tree_digest, 0, stdout, stderr, seconds,"
        " timed_out, run_id, seal, created_at FROM test_results WHERE tree = 'now' AND test_id = 1"
    )
    assert any("differs from the recorded one" in one for one in project.reasons())
    store = project.store()
    found = dict(imprints.changed_rows(store, report.run.run_id, ended=True))
    store.close()
    assert found["test_results row 8"] == imprints.ADDED


def test_a_deleted_checkpoint_is_found_before_anything_is_proved(project: Project) -> None:
    project.approve()
    for pack in (project.home / "checkpoints").glob("pack-*"):
        pack.unlink()
    report = project.prove()
    assert report.result.outcome == "error"
    assert "is not stored, so nothing can be proved against it" in report.result.reason
    project.sql("DELETE FROM plan_baselines")
    assert "the workspace before plan 1 is not stored" in project.prove().result.reason


def test_a_byte_of_the_workspace_as_it_is_that_is_lost_is_no_fault_of_the_plan(project: Project) -> None:
    project.approve()
    before = set((project.home / "checkpoints").glob("pack-*"))
    project.files(greet=BEFORE + "# not yet\n")
    project.script(turn(hands_in("C1", GOOD["C1"]), hands_in("C2", GOOD["C2"])))
    assert "1 of 2 tests fail on the tree as it is now" in project.prove().result.reason
    for pack in set((project.home / "checkpoints").glob("pack-*")) - before:
        pack.unlink()
    reason = project.prove().result.reason
    assert "'greet' of the workspace as it is is not kept" in reason
    assert "approve the plan" not in reason


def test_no_room_for_a_copy_is_said_with_the_setting(project: Project) -> None:
    project.approve()
    (project.root / "large.bin").write_bytes(os.urandom(1 << 21))
    with (project.home / "config.toml").open("a") as file:
        file.write("\n[checkpoints]\nmax_total_mb = 1\n")
    project.script(turn(hands_in("C1", GOOD["C1"]), hands_in("C2", GOOD["C2"])))
    reason = project.prove().result.reason
    assert "there is no room for 'large.bin'" in reason
    assert "checkpoints.max_total_mb" in reason


def test_mending_and_running_again_asks_no_model(project: Project) -> None:
    """What is proved stays proved; the tests run again on the tree as it is then."""
    project.approve()
    project.files(greet=BEFORE)
    project.script(turn(hands_in("C1", GOOD["C1"]), hands_in("C2", GOOD["C2"])))
    assert project.prove().result.outcome == "error"
    project.files(greet=AFTER)
    project.script()
    assert project.prove().result.outcome == "completed"
    assert project.reasons() == []


def test_faults_that_cannot_be_made_are_the_plans_mistake(project: Project) -> None:
    """Found before a model is asked."""
    project.approve(PLAN.replace("replace `greet 1.0` with", "replace `no such words` with"))
    report = project.prove()
    assert report.result.outcome == "error"
    assert "which was not in greet before the change" in report.result.reason
    assert not project.model.requests
