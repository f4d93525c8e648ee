"""Programs that usually look, and write for once: writing works, a checkpoint keeps what was, and it is reported."""

import json
from pathlib import Path

from tests.acceptance.world import call
from tests.security.world import Den

WRITES = {
    "find . -name gone.txt -delete": "gone.txt",
    "awk 'BEGIN{system(\"mkdir -p .vscode; echo {} > .vscode/tasks.json\")}'": ".vscode",
    "sed -n 'w sed.out' a.txt": "sed.out",
    "git log --output=git.out -1": "git.out",
    "sort --outp=sort.out a.txt": "sort.out",
    "bash made.sh -c": "made.out",
    "printf '%s\\n' . -name handed.txt -delete | xargs find": "handed.txt",
    "bash -c 'find . -name inner.txt -delete'": "inner.txt",
}
"""Command → the name that comes or goes by it."""


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def planted(den: Den) -> None:
    for name in ("a.txt", "gone.txt", "inner.txt", "handed.txt"):
        (den.workspace / name).write_text("precious\n")
    (den.workspace / "made.sh").write_text("echo x > made.out\n")


def put_back(den: Den) -> None:
    (session,) = {one["session_id"] for one in json.loads(den.cli("checkpoint", "list", "--output-format", "json").out)}
    done = den.cli("checkpoint", "restore", session, "--force", "--path", ".")
    assert done.code == 0, done.err


def test_what_writes_is_no_look(on_each_rung: Den) -> None:
    den = on_each_rung
    planted(den)
    den.configure("supervised")
    before = names(den.workspace)
    made = den.attack(*WRITES)
    assert [one["decision"]["by"] for one in made.receipts] == ["operator"] * len(WRITES), made.results
    assert before ^ names(den.workspace) == {*WRITES.values()}, made.results
    assert ".vscode/tasks.json (new)" in made.done.err
    put_back(den)
    assert names(den.workspace) == before
    den.unharmed(made)


def test_what_writes_never_runs_beside_others(on_each_rung: Den) -> None:
    """All calls in one message: each begins when the one before has ended."""
    den = on_each_rung
    planted(den)
    den.configure("supervised")
    den.attack({"tool_calls": [{"name": "Bash", "arguments": {"command": command}} for command in WRITES]})
    rows = den.rows("SELECT entry_type FROM transcript_entries WHERE entry_type LIKE 'tool%' ORDER BY id")
    assert [row[0] for row in rows] == ["tool_use", "tool_result"] * len(WRITES)


def test_what_writes_is_denied_to_who_may_only_read(on_each_rung: Den) -> None:
    den = on_each_rung
    planted(den)
    den.configure("readonly")
    before = names(den.workspace)
    made = den.attack(*WRITES)
    assert {one["decision"]["verdict"] for one in made.receipts} == {"deny"}
    assert names(den.workspace) == before


def test_what_writes_is_kept_without_a_sandbox(world: Den) -> None:
    """Nothing there keeps even a plain look from writing: a checkpoint comes before each command."""
    planted(world)
    world.configure("full")
    before = names(world.workspace)
    world.script(call("Bash", command="find . -name gone.txt -delete"))
    done = world.cli("agent", "-m", "go", "--profile", "permissive", stdin="y\n" * 5, timeout=300)
    assert before - names(world.workspace) == {"gone.txt"}, done.err
    put_back(world)
    assert names(world.workspace) == before
