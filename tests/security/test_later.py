"""Places that programs run later: nothing is repaired through a link; all that appears is reported, also after kill."""

import hashlib
import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from adderclaw.sandbox.legacy.survey import MANY_ASKED, Surveyor
from tests.acceptance.world import call, text
from tests.program import Soak, keyboard
from tests.sandbox.test_process import wait_for
from tests.security.swapping import swapping
from tests.security.world import Den

LEFT = (".vscode/tasks.json", ".mcp.json", ".envrc")
WRITES = "mkdir -p .vscode; for f in .vscode/tasks.json .mcp.json .envrc; do echo evil > $f; done"


def program(den: Den, content: str, name: str = "x.sh") -> str:
    """A script of the project, into which no gate looks; the command that runs it."""
    (den.workspace / name).write_text(content)
    return f"bash {name}"


def reported(den: Den) -> list[str]:
    """What the receipts say."""
    decisions = [receipt["decision"] for receipt in den.receipts()]
    return sorted(one["path"] for decision in decisions for one in decision.get("changed_later", ()))


# ------------------------------------------------------------------ nothing is repaired


def test_a_link_to_the_home_in_the_place_of_a_folder_is_followed_by_nobody(everywhere: Den) -> None:
    """What was put back, by path, into `sub` and `.vscode` came to lie at home."""
    den = everywhere
    for name in ("sub/.bashrc", "sub/.ssh/authorized_keys", ".vscode/settings.json", ".github/workflows/ci.yml"):
        (den.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (den.workspace / name).write_text("from the project\n")
    swap = "for d in sub .vscode .github; do mv $d old.$d; ln -s {home} $d; done; rm -rf .github; ln -s {home} .github"
    text = f"{swap.format(home=den.home)}; true"
    made = den.attack(program(den, text), "ls", program(den, f"{text}; sleep 0.1; rm -f sub .vscode", "y.sh"), "ls")
    den.unharmed(made)
    if den.rung == "bubblewrap":
        assert (den.workspace / ".vscode/settings.json").read_text() == "from the project\n"


def test_links_that_a_repository_brings_are_followed_by_nobody(everywhere: Den) -> None:
    den = everywhere
    for name, target in {".vscode": den.home, ".claude": den.home / ".ssh", "lib": den.home, ".git2": "/etc"}.items():
        (den.workspace / name).symlink_to(target)
    (den.workspace / "a").mkdir()
    (den.workspace / "a/.git").symlink_to(den.home)
    (den.workspace / "b").mkdir()
    (den.workspace / "b/.git").write_text(f"gitdir: {den.home}\n")
    made = den.attack(
        program(den, "rm -f .vscode; mkdir .vscode; echo x > .vscode/tasks.json; rm .claude; ln -s /etc .claude; true"),
        "git status",
        call("Write", file_path=".envrc", content="x"),
        "ls",
    )
    den.unharmed(made)
    assert {".vscode/tasks.json", ".claude"} <= {*reported(den)}


def test_a_look_never_leaves_the_workspace_while_names_are_exchanged(tmp_path: Path, soak: Soak) -> None:
    root, outside = tmp_path / "ws", tmp_path / "outside"
    for folder in (root / ".vscode", root / "sub/.husky", root / "repo/.git/hooks", outside / "hooks"):
        folder.mkdir(parents=True)
    for name in ("x", "tasks.json", "pre-commit", "config", ".envrc", "hooks/pre-commit"):
        (outside / name).write_text("canary")
    word = hashlib.sha256(b"canary").hexdigest()
    pairs = [(root / ".vscode", root / "l1"), (root / "sub", root / "l2"), (root / "repo/.git", root / "l3")]
    for _, link in pairs:
        link.symlink_to(outside)
    (root / ".vscode/x").write_text("own")
    (root / ".vscode/y").symlink_to(outside / "x")
    surveyor, count = Surveyor(), 0
    for one, other in [*pairs, (root / ".vscode/x", root / ".vscode/y")]:
        with swapping(one, other) as swapper:
            for _ in soak.of(1200):
                assert not [path for path, mark in surveyor.survey([str(root)]).items.items() if word in mark]
        count += swapper.count
    assert count > 1000


# ------------------------------------------------------------------ the rest is reported


def test_what_appears_is_reported_in_result_receipt_event_and_json(anyone: Den) -> None:
    den = anyone
    den.script(call("Bash", command=program(den, WRITES)), text("done"))
    den.prepare()
    done = den.cli("agent", "-m", "go", "--output-format", "json", stdin="y\n" * 50)
    assert [(den.workspace / name).read_text() for name in LEFT] == ["evil\n"] * 3, "nothing is taken away"
    assert reported(den) == sorted(LEFT)
    assert all(f"{name} (new)" in json.dumps(den.entries("tool_result")) for name in LEFT)
    assert sorted(one["path"] for one in json.loads(done.out)["changed_later"]) == sorted(LEFT)
    (event,) = den.rows("SELECT detail FROM events WHERE event_type = 'changed_later'")
    assert ".mcp.json (new)" in event[0]
    assert "look at them before they do" in done.err


def test_what_appears_in_one_of_many_folders_is_reported(world: Den) -> None:
    """The kernel watches them from the second look on: it tells of what is changed in the sandbox's mounts, too."""
    for number in range(MANY_ASKED + 50):
        (world.workspace / f"many/{number}").mkdir(parents=True)
    for number in range(3):
        (world.workspace / f"{number}.sh").write_text(f"echo evil > many/{number}/.envrc")
    world.attack("true", *(f"bash {number}.sh" for number in range(3)))
    assert reported(world) == [f"many/{number}/.envrc" for number in range(3)]


def test_it_is_repeated_at_each_start_until_it_is_acknowledged(world: Den) -> None:
    world.attack(program(world, WRITES))
    again = world.attack("ls").done.err
    assert all(name in again for name in LEFT)
    listed = json.loads(world.cli("later", "list", "--output-format", "json", cwd=world.workspace).out)
    assert sorted(row["path"] for row in listed) == sorted(LEFT)
    assert world.cli("later", "accept", ".envrc", cwd=world.workspace).code == 0
    assert world.cli("later", "accept", "no-such", cwd=world.workspace).code == 2
    assert ".envrc" not in world.attack("ls").done.err
    assert world.cli("later", "set-aside", cwd=world.workspace).code == 0
    assert [name for name in LEFT if (world.workspace / name).exists()] == [".envrc"]
    kept = [path.name.partition("-")[2] for path in (world.cli.data / "set-aside").iterdir()]
    assert sorted(kept) == [".mcp.json", "tasks.json"]
    assert "acknowledged" not in world.attack("ls").done.err


@pytest.mark.parametrize(("answer", "left"), [("keep", True), ("set aside", False), ("2", False), ("", True)])
def test_an_operator_is_asked_whether_to_keep_it(answer: str, left: bool, world: Den) -> None:
    world.script(call("Bash", command=program(world, "echo evil > .envrc")), text("done"))
    world.prepare()
    done = world.cli("agent", "-m", "go", stdin=f"y\n{answer}\n")
    assert "Keep them, or set them aside?" in done.err
    assert (world.workspace / ".envrc").exists() == left
    waiting = json.loads(world.cli("later", "list", "--output-format", "json", cwd=world.workspace).out)
    assert len(waiting) == (answer == "")
    (event,) = world.rows("SELECT detail FROM events WHERE event_type = 'changed_later'")
    asked = {
        "": "look at them before they do: .envrc (new); then `adderclaw later accept`",
        "keep": "the operator keeps",
    }
    assert asked.get(answer, "the operator set aside .envrc (new)") in event[0]
    assert ("look at them" in event[0]) == (answer == "")


def test_an_answer_that_is_none_is_asked_for_once_more(world: Den) -> None:
    world.script(call("Bash", command=program(world, "echo evil > .envrc")), text("done"))
    world.prepare()
    done = world.cli("agent", "-m", "go", stdin="y\nbanana\n2\n")
    assert "Answer 1 or 2. These files take effect later" in done.err
    assert not (world.workspace / ".envrc").exists()


def test_the_command_names_other_workspaces_in_which_something_waits(world: Den) -> None:
    world.attack(program(world, WRITES))
    elsewhere = world.base / "elsewhere"
    elsewhere.mkdir()
    done = world.cli("later", "list", "--workspace", str(elsewhere))
    assert f"in {world.workspace}: 3; `adderclaw later list --workspace" in done.out
    assert "no changes are pending" in world.cli("later", "accept", "--workspace", str(elsewhere)).out


def test_in_the_home_our_own_files_are_no_report_and_are_never_moved(world: Den) -> None:
    """The database changes with every call; setting it aside would take the program's own memory away."""
    plants = "python3 -c \"open('.envrc', 'w').write('evil')\""
    attack = world.attack("touch a.txt", plants, arguments=("--workspace", str(world.home)))
    assert reported(world) == [".envrc"], attack.done.err
    done = world.cli("later", "set-aside", "--workspace", str(world.home))
    assert (done.code, (world.home / ".envrc").exists()) == (0, False)
    with sqlite3.connect(world.database) as connection:
        connection.execute(
            "INSERT INTO later_changes(workspace, path, change, mark, session_id) VALUES (?, ?, 'new', 'x', 's')",
            (str(world.home), str(world.database)),
        )
    done = world.cli("later", "set-aside", "--workspace", str(world.home))
    assert world.database.exists(), done.err
    assert "could not be moved" in done.err


def test_it_is_only_noted_where_the_operator_allows_it(world: Den) -> None:
    world.configure(security='later = "allow"')
    world.attack(program(world, WRITES))
    assert reported(world) == sorted(LEFT)
    assert "acknowledged" not in world.attack("ls").done.err


def test_what_goes_on_beside_the_calls_is_reported_too(world: Den) -> None:
    task = call("Bash", command=program(world, "sleep 0.3; echo evil > .envrc; sleep 30"), run_in_background=True)
    world.attack(task, program(world, "until [ -e .envrc ]; do sleep 0.05; done", "wait.sh"))
    assert reported(world) == [".envrc"]


# ------------------------------------------------------------------ after a kill


def killed(den: Den, writes: str, last: Path, number: signal.Signals = signal.SIGKILL) -> None:
    """A session that is killed while its command, which has written all, still runs."""
    (den.workspace / "x.sh").write_text(f"{writes}; sleep 600")
    den.script(call("Bash", command="bash x.sh"), text("done"))
    den.prepare()
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup make test` ignores it, and children inherit that
    process = den.cli.start("agent", "-m", "go")
    signal.signal(signal.SIGHUP, before)
    assert process.stdin is not None
    process.stdin.write(b"y\n")
    process.stdin.flush()
    wait_for(last.exists, 60, "the command to write")
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    assert not den.left_running()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP], ids=["SIGKILL", "SIGHUP"])
def test_the_next_session_reports_what_a_killed_one_left(number: signal.Signals, on_each_rung: Den) -> None:
    den = on_each_rung
    killed(den, WRITES, den.workspace / LEFT[-1], number)
    den.script(text("nothing to do"))
    done = den.cli("agent", "-m", "hello")
    assert all(f"{name} (new)" in done.err for name in LEFT)
    den.script(text("nothing to do"))
    assert all(name in den.cli("agent", "-m", "hello").err for name in LEFT), "until it is acknowledged"
    den.cli("later", "accept", cwd=den.workspace)
    (den.workspace / ".gitlab-ci.yml").write_text("the operator's own work")
    den.script(text("nothing to do"))
    assert "later" not in den.cli("agent", "-m", "hello").err


def test_so_does_it_for_additional_directories(on_each_rung: Den) -> None:
    den = on_each_rung
    more = den.base / "more"
    more.mkdir()
    (more / ".gitlab-ci.yml").write_text("there before\n")
    den.configure(security=f'additional_directories = ["{more}"]')
    killed(den, f"cd {more}; {WRITES}", more / LEFT[-1])
    den.script(text("nothing to do"))
    said = den.cli("agent", "-m", "hello").err
    assert all(f"{more}/{name} (new)" in said for name in LEFT)
    assert ".gitlab-ci.yml" not in said
    den.cli("later", "accept", cwd=den.workspace)
    killed(den, "touch finished", den.workspace / "finished")
    den.script(text("nothing to do"))
    assert "later" not in den.cli("agent", "-m", "hello").err, "what was there at the look after a kill is not new"


@pytest.mark.parametrize("first", [True, False], ids=["at first", "after a command"])
def test_and_for_one_that_the_operator_added_in_the_session(on_each_rung: Den, first: bool) -> None:
    """The next session does not have that directory; it looks there once, since the killed one could write there."""
    den = on_each_rung
    more = den.base / "more"
    more.mkdir()
    (more / ".gitlab-ci.yml").write_text("there before\n")
    den.configure("full", 'allowed_commands = ["bash"]')
    (den.workspace / "x.sh").write_text(f"cd {more}; {WRITES}; sleep 600")
    begin = [] if first else [call("Bash", command="true"), text("1")]
    den.script(*begin, call("Bash", command="bash x.sh"), text("2"))
    den.prepare()
    ours, theirs = keyboard()
    with ours:
        process = den.cli.start("agent", stdin=theirs)
        os.close(theirs)
        ours.write(f"{'' if first else 'begin\n'}/add-dir {more}\ngo\n".encode())
        wait_for((more / LEFT[-1]).exists, 60, "the command to write")
        process.kill()
        process.communicate(timeout=60)
    assert not den.left_running()
    for _ in range(2):
        den.script(text("nothing to do"))
        said = den.cli("agent", "-m", "hello").err
        assert all(f"{more}/{name} (new)" in said for name in LEFT), said
        assert ".gitlab-ci.yml" not in said
    den.cli("later", "accept", cwd=den.workspace)
    den.script(text("nothing to do"))
    assert "later" not in den.cli("agent", "-m", "hello").err


def test_a_directory_that_is_added_while_a_task_runs_brings_no_report(world: Den) -> None:
    """What lies in it was there before."""
    more = world.base / "more"
    more.mkdir()
    (more / ".gitlab-ci.yml").write_text("there before\n")
    world.configure("full", 'allowed_commands = ["sleep"]')
    task = call("Bash", command="sleep 600", run_in_background=True)
    world.script(task, text("1"), call("Bash", command="touch x"), text("2"))
    world.prepare()
    done = world.cli.typed("agent", stdin=f"go\n/add-dir {more}\non\n/exit\n")
    assert (world.workspace / "x").exists(), done.err
    assert reported(world) == []
    assert ".gitlab-ci.yml" not in done.err


def test_what_appears_in_a_further_directory_can_be_set_aside_too(world: Den) -> None:
    further = world.base / "further"
    further.mkdir()
    world.configure(security=f'additional_directories = ["{further}"]')
    world.attack(program(world, f"echo evil > {further}/.envrc"))
    assert (further / ".envrc").exists()
    done = world.cli("later", "set-aside", cwd=world.workspace)
    assert done.code == 0, done.err
    assert not (further / ".envrc").exists()
    (kept,) = (world.cli.data / "set-aside").iterdir()
    assert kept.read_text() == "evil\n"


# ------------------------------------------------------------------ dependency folders

PLANTS = """
for place in node_modules/pkg/lib/a/b/.git node_modules/new/x/y/z/bare.git \\
  .venv/lib/python3/site-packages/m/n/o/.git; do
  mkdir -p $place/objects $place/refs $place/hooks
  echo "ref: refs/heads/main" > $place/HEAD
  printf '[core]\\n\\tfsmonitor = touch pwned\\n' > $place/config
  echo "touch pwned" > $place/hooks/post-checkout
done
"""
AGAIN = "echo more >> node_modules/pkg/lib/a/b/.git/config; mv node_modules/pkg/lib node_modules/pkg/other; true"


def test_repositories_planted_deep_in_dependencies_are_reported_and_then_read_only(on_each_rung: Den) -> None:
    """Whoever goes there and asks git for the status would run what they name."""
    den = on_each_rung
    for folder in ("node_modules/pkg/lib/a/b", ".venv/lib/python3/site-packages/m/n/o"):
        (den.workspace / folder).mkdir(parents=True)
    made = den.attack("ls", program(den, PLANTS), program(den, AGAIN, "y.sh"))
    assert {
        *("node_modules/pkg/lib/a/b/.git/config", "node_modules/new/x/y/z/bare.git/config"),
        ".venv/lib/python3/site-packages/m/n/o/.git/hooks/post-checkout",
    } <= {*reported(den)}
    if den.rung == "bubblewrap":
        assert "more" not in (den.workspace / "node_modules/pkg/lib/a/b/.git/config").read_text()
    den.unharmed(made)


def test_a_gitlink_deep_in_dependencies_meets_no_filter(anyone: Den) -> None:
    """Git asks a submodule for its own status, and that has settings of its own."""
    den = anyone
    inner = den.workspace / "node_modules/pkg/lib/a/b"
    inner.mkdir(parents=True)
    den.git("init", "-q", cwd=inner)
    (inner / "x.txt").write_text("x\n")
    den.git("add", "x.txt", cwd=inner)
    den.git("commit", "-qm", "x", cwd=inner)
    den.git("add", "-f", "node_modules/pkg/lib/a/b")
    den.git("commit", "-qm", "link")
    (inner / ".git/info/attributes").write_text("* filter=evil\n")
    den.git("config", "filter.evil.clean", f"sh -c 'touch {den.workspace}/ran; cat'", cwd=inner)
    den.git("config", "core.fsmonitor", f"touch {den.workspace}/ran", cwd=inner)
    (inner / "x.txt").write_text("changed\n")
    made = den.attack("git status", "git diff", "git add -A", "git commit -m more", "git submodule status")
    assert not (den.workspace / "ran").exists(), made.results
    den.unharmed(made)
