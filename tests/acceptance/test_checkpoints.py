"""What tools changed on disk can be put back: commands and subagents included, nobody else's work lost."""

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_replay import verified
from tests.acceptance.world import World, call, text


@pytest.fixture
def full(world: World) -> World:
    world.configure(autonomy="full", security='raw_bash = "ask"\nforbidden_commands = []')
    return world


ALL = ("--force", "--path", ".")
"""Also what changed while a command ran that names no path."""


def bash(command: str) -> dict[str, Any]:
    return call("Bash", command=command)


def ran(world: World, *steps: dict[str, Any], message: str = "do it", more: tuple[str, ...] = ()) -> None:
    world.script(*steps, text("done"))
    done = world.agent(message, *more, stdin="y\n" * 20)
    assert done.code == 0, done.err


def tree(folder: Path) -> dict[str, Any]:
    """Everything in a folder: content, target or kind, with the mode."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name, mode = str(path.relative_to(folder)), stat.S_IMODE(path.lstat().st_mode)
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("folder", mode)
        else:
            found[name] = (path.read_bytes(), mode)
    return found


def checkpoint(world: World, *arguments: str) -> Any:
    done = world.cli("checkpoint", *arguments, "--output-format", "json")
    assert "Traceback" not in done.err
    return json.loads(done.out)


def fates(report: Any) -> dict[str, str]:
    return {step["path"]: step["fate"] for step in report["steps"]}


SETUPS: dict[str, str] = {
    "change": "echo new > a.txt",
    "append in place": "echo more >> a.txt",
    "make": "mkdir -p x/y && echo 1 > x/y/z.txt",
    "delete": "rm a.txt",
    "delete a folder": "rm -r sub",
    "rename": "mv a.txt b.txt",
    "rename a folder": "mv sub other",
    "mode": "chmod 755 a.txt",
    "mode of a folder": "chmod 700 sub",
    "binary": "printf 'a\\000b\\377' > bin.dat",
    "turn a link": "ln -sfn sub link",
    "file becomes folder": "rm a.txt && mkdir a.txt && echo in > a.txt/in",
    "folder becomes file": "rm -r sub && echo flat > sub",
    "file becomes link": "rm a.txt && ln -s bin.dat a.txt",
    "swap": "mv a.txt t && mv bin.dat a.txt && mv t bin.dat",
    "a name with spaces and a line end": "echo x > $'odd name\\n.txt'",
}


def test_what_commands_did_is_undone_and_redone(full: World) -> None:
    """Each in a folder of its own, all of them at once."""
    folders = {full.workspace / name.replace(" ", "-"): command for name, command in SETUPS.items()}
    for work in folders:
        work.mkdir()
        (work / "a.txt").write_text("old\n")
        (work / "bin.dat").write_bytes(bytes(range(256)))
        (work / "sub").mkdir()
        (work / "sub" / "s.txt").write_text("s\n")
        (work / "link").symlink_to("a.txt")
    before = {work: tree(work) for work in folders}
    ran(full, *(bash(f"(cd {work.name} && {command})") for work, command in folders.items()))
    after = {work: tree(work) for work in folders}
    for work in folders:
        assert after[work] != before[work], work
    undone = checkpoint(full, "restore", "1")
    assert {work: tree(work) for work in folders} == before
    assert not undone["failed"]
    checkpoint(full, "restore", str(undone["undo"][0]))
    assert {work: tree(work) for work in folders} == after


def test_write_and_edit_and_their_folders(full: World) -> None:
    (full.workspace / "a.txt").write_text("one\n")
    before = tree(full.workspace)
    ran(
        full,
        call("Read", file_path="a.txt"),
        call("Edit", file_path="a.txt", old_string="one", new_string="two"),
        call("Write", file_path="deep/er/n.txt", content="n"),
    )
    listed = checkpoint(full, "list")
    assert [(group["kind"], group["text"], group["calls"]) for group in listed] == [("call", "do it", 2)]
    checkpoint(full, "restore", "1")
    assert tree(full.workspace) == before


def test_turns_and_calls_one_by_one(full: World) -> None:
    file = full.workspace / "f"
    ran(full, bash("echo 1 > f"), bash("echo 2 > f"), message="first")
    full.script(bash("echo 1 > f"), bash("echo 2 > f"), text("done"), bash("echo 3 > f"), text("done"))
    assert full.agent("second", "--continue").code == 0
    listed = checkpoint(full, "list")
    assert [group["text"] for group in listed] == ["first", "second"]
    shown = checkpoint(full, "show", str(listed[0]["id"]))
    assert [(point["tool"], point["changes"][0]["what"]) for point in shown] == [("Bash", "made"), ("Bash", "changed")]
    checkpoint(full, "restore", str(listed[1]["id"]))
    assert file.read_text() == "2\n"
    checkpoint(full, "restore", str(shown[1]["id"]))
    assert file.read_text() == "1\n"
    checkpoint(full, "restore", listed[0]["session_id"])
    assert not file.exists()


def test_a_dry_run_changes_nothing(full: World) -> None:
    ran(full, bash("echo 1 > f"))
    report = checkpoint(full, "restore", "1", "--dry-run")
    assert fates(report) == {"f": "delete"}
    assert (full.workspace / "f").exists()
    assert len(checkpoint(full, "list")) == 1


def test_what_others_changed_or_made_is_left_alone(full: World) -> None:
    work = full.workspace
    (work / "theirs").write_text("v1")
    (work / "kept").write_text("k")
    ran(full, bash("echo agent > theirs; mkdir d; echo 1 > d/agent; echo x > kept"))
    (work / "theirs").write_text("the user's own words")
    (work / "d" / "users").write_text("made by the user")
    refused = full.cli("checkpoint", "restore", "1")
    assert refused.code == 3
    assert "conflict" in refused.out
    assert (work / "kept").read_text() == "x\n"
    assert (work / "theirs").read_text() == "the user's own words"
    forced = checkpoint(full, "restore", "1", "--force")
    assert (work / "theirs").read_text() == "v1"
    assert (work / "kept").read_text() == "k"
    assert (work / "d" / "users").read_text() == "made by the user"
    assert not (work / "d" / "agent").exists()
    checkpoint(full, "restore", str(forced["undo"][0]))
    assert (work / "theirs").read_text() == "the user's own words"


def test_what_others_changed_between_two_calls_is_not_the_calls(full: World) -> None:
    work = full.workspace
    (work / "f").write_text("user 1")
    ran(full, bash("echo 1 > g"), message="one")
    (work / "f").write_text("user 2")
    full.script(bash("echo 1 > g"), text("done"), bash("echo 2 > g"), text("done"))
    assert full.agent("two", "--continue").code == 0
    checkpoint(full, "restore", "1")
    assert (work / "f").read_text() == "user 2"
    assert not (work / "g").exists()


def test_git_and_generated_trees_are_not_touched(full: World) -> None:
    work = full.workspace
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    for folder in ("node_modules", "env", "target"):
        (work / folder).mkdir()
    (work / "env" / "pyvenv.cfg").write_text("")
    (work / "target" / "CACHEDIR.TAG").write_text("")
    head = (work / ".git" / "HEAD").read_bytes()
    ran(full, bash("for d in node_modules env target; do echo x > $d/made; done; echo y > own"))
    assert fates(checkpoint(full, "restore", "1")) == {"own": "delete"}
    assert all((work / folder / "made").exists() for folder in ("node_modules", "env", "target"))
    assert (work / ".git" / "HEAD").read_bytes() == head


def test_special_huge_and_unreadable_files_are_said_and_harmless(full: World) -> None:
    work = full.workspace
    os.mkfifo(work / "fifo")
    with open(work / "huge", "wb") as sparse:
        sparse.truncate(5 << 30)
    (work / "locked").mkdir()
    (work / "locked" / "f").write_text("x")
    (work / "locked").chmod(0)
    (work / "small").write_text("s")
    full.script(bash("echo a >> huge; echo b > small; rm fifo"), text("done"))
    done = full.agent("go", stdin="y\n")
    (work / "locked").chmod(0o755)
    assert done.code == 0
    assert "the content of huge" in done.err
    found = fates(checkpoint(full, "restore", "1"))
    assert found["huge"] == "impossible"
    assert found["small"] == "restore"
    assert (work / "small").read_text() == "s"


def test_a_link_that_leads_out_is_never_written_through(full: World, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("precious")
    (full.workspace / "d").mkdir()
    (full.workspace / "d" / "f").write_text("inside")
    ran(full, bash("echo changed > d/f"))
    (full.workspace / "d" / "f").unlink()
    (full.workspace / "d").rmdir()
    (full.workspace / "d").symlink_to(outside)
    full.cli("checkpoint", "restore", "1", "--force")
    assert (outside / "f").read_text() == "precious"


def test_looking_costs_nothing(full: World) -> None:
    (full.workspace / "a").write_text("x")
    ran(full, bash("cat a | wc -l"), bash("git status"), bash("ls -la"), call("Read", file_path="a"))
    assert not (full.cli.data / "checkpoints").exists()


def test_off_means_off(world: World) -> None:
    world.configure(autonomy="full", more="[checkpoints]\nenabled = false")
    ran(world, call("Write", file_path="a", content="x"))
    assert checkpoint(world, "list") == []
    assert not (world.cli.data / "checkpoints").exists()


def test_only_the_owner_reads_them_and_contents_are_kept_once(full: World) -> None:
    for name in ("a", "b", "c"):
        (full.workspace / name).write_text("the same " * 1000)
    ran(full, bash("echo 1 > d"))
    folder = full.cli.data / "checkpoints"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert sum(file.stat().st_size for file in folder.glob("pack-*")) < 10_000
    ran(full, bash("echo 2 > d"))
    assert sum(file.stat().st_size for file in folder.glob("pack-*")) < 10_000


def test_wrong_names_are_said(full: World) -> None:
    ran(full, bash("echo 1 > f"))
    for arguments, said in (
        (("restore", "99"), "there is no checkpoint 99"),
        (("restore", "nonsense"), "'nonsense' is no checkpoint"),
        (("restore", "1", "--path", "other"), "'other' was not changed"),
        (("show", "99"), "there is no checkpoint 99"),
        (("list", "--conversation", "none"), "there is no conversation 'none'"),
    ):
        done = full.cli("checkpoint", *arguments)
        assert done.code == 2, arguments
        assert said in done.err


def test_one_path_alone(full: World) -> None:
    ran(full, bash("echo 1 > f; echo 2 > g"))
    checkpoint(full, "restore", "1", "--path", "f")
    assert not (full.workspace / "f").exists()
    assert (full.workspace / "g").exists()


def test_a_restore_that_was_cut_off_is_finished_by_the_next(full: World) -> None:
    """The rows of a restore come first: what is left of it when it dies at any point is what they say."""
    work = full.workspace
    for name in "abc":
        (work / name).write_text("old")
    ran(full, bash("echo new > a; echo new > b; echo new > c"))
    checkpoint(full, "restore", "1")
    import sqlite3

    with sqlite3.connect(full.database) as database:  # as if it had died after the first of three files
        database.execute("UPDATE checkpoints SET status = 'pending' WHERE kind = 'restore'")
    (work / "b").write_text("new\n")
    (work / "c").write_text("new\n")
    (work / ".b.adderclaw-restore").write_text("half")
    assert "UNFINISHED" in full.cli("checkpoint", "list").out
    done = full.cli("checkpoint", "restore", "1")
    assert "finished restore 2" in done.out
    assert {(work / name).read_text() for name in "abc"} == {"old"}
    assert not (work / ".b.adderclaw-restore").exists()
    assert "UNFINISHED" not in full.cli("checkpoint", "list").out


def test_too_many_files_are_said_and_file_tools_still_kept(full: World) -> None:
    full.configure(autonomy="full", more="[checkpoints]\nmax_files = 50")
    for number in range(60):
        (full.workspace / str(number)).write_text("x")
    (full.workspace / "a").write_text("old")
    full.script(
        bash("touch made; echo y > 1"),
        call("Read", file_path="a"),
        call("Write", file_path="a", content="new"),
        text("done"),
    )
    done = full.agent("go")
    assert done.code == 0
    assert "has more than 50 files" in done.err
    assert fates(checkpoint(full, "restore", "1")).items() >= {"a": "restore", "1": "restore"}.items()
    assert (full.workspace / "a").read_text() == "old"


DIED = [
    ("rm a && mkdir a && echo in > a/in", "rm a"),  # the folder is gone, the file not there yet
    ("rm -r d && echo flat > d", "rm -r d"),  # the file is gone, the folder not there yet
    ("rm -r d && echo flat > d", "rm -r d && mkdir -m 700 d"),  # the folder is there, its mode is not
    ("rm a && ln -s d a", "rm a && ln -s d a"),  # it had not begun
]


def test_one_that_died_between_two_kinds_of_things_is_finished(full: World) -> None:
    import sqlite3

    folders = [full.workspace / f"case-{number}" for number in range(len(DIED))]
    for work in folders:
        work.mkdir()
        (work / "a").write_text("old")
        (work / "d").mkdir(mode=0o750)
        (work / "d" / "x").write_text("x")
    before = tree(full.workspace)
    ran(full, *(bash(f"(cd {work.name} && {command})") for work, (command, _) in zip(folders, DIED, strict=True)))
    checkpoint(full, "restore", "1")
    assert tree(full.workspace) == before
    with sqlite3.connect(full.database) as database:
        rows = database.execute("UPDATE checkpoints SET status = 'pending' WHERE kind = 'restore'")
        assert rows.rowcount == 1
    for work, (_, left) in zip(folders, DIED, strict=True):
        subprocess.run(left, shell=True, cwd=work, check=True)
    assert "finished restore 5" in full.cli("checkpoint", "restore", "1").out
    assert tree(full.workspace) == before


def test_a_restore_that_is_really_killed_is_finished_and_can_be_undone(full: World) -> None:
    work, count = full.workspace, 1500
    for number in range(count):
        (work / f"{number}.txt").write_text("old")
    ran(full, bash("for f in *.txt; do echo new > $f; done"))
    process = full.cli.start("checkpoint", "restore", "1", *ALL)
    probes = [work / f"{number}.txt" for number in range(0, count, 50)]
    while process.poll() is None and not any(probe.read_text() == "old" for probe in probes):
        pass
    process.kill()
    process.communicate()
    restored = sum(path.read_text() == "old" for path in work.glob("*.txt"))
    assert {path.read_text() for path in work.glob("*.txt")} <= {"old", "new\n"}, "each file is the one or the other"
    assert 0 < restored <= count
    assert full.cli("checkpoint", "restore", "1", *ALL).code == 0
    assert {path.read_text() for path in work.glob("*.txt")} == {"old"}
    assert not list(work.glob(".*adderclaw-restore"))
    assert len(list(work.iterdir())) == count
    undo = checkpoint(full, "list")[-1]["id"]
    assert full.cli("checkpoint", "restore", str(undo)).code == 0
    assert {path.read_text() for path in work.glob("*.txt")} == {"new\n"}


def test_two_subagents_that_write_at_once_are_both_undone(full: World) -> None:
    fixture = full.fixture.with_name("child.json")
    steps = [bash("sleep 0.3; mkdir -p deep; echo $$ > deep/$$.txt; echo more >> shared.txt"), text("did it")]
    fixture.write_text(json.dumps({"steps": steps, "partial": True}))
    entry = f'[providers.models.child]\nkind = "mock"\nmodel = "m"\nfixture = "{fixture}"'
    full.configure(autonomy="full", security='raw_bash = "ask"', more=entry)
    (full.workspace / "shared.txt").write_text("old\n")
    order = {"description": "a task", "prompt": "do it", "model": "child", "run_in_background": True}
    both = [{"name": "Agent", "arguments": order}, {"name": "Agent", "arguments": order}]
    full.script({"tool_calls": both}, text("waiting"), text("waiting"), text("done"))
    full.agent("go")
    assert (full.workspace / "shared.txt").read_text() == "old\nmore\nmore\n"
    assert full.cli("checkpoint", "restore", "1", *ALL).code == 0
    assert tree(full.workspace) == {"shared.txt": (b"old\n", 0o644)}


def test_a_tree_that_changes_while_it_is_looked_at(tmp_path: Path) -> None:
    """No error, nothing half read for ever: once it is calm, the index is what is there."""
    from threading import Event, Thread

    from adderclaw.sandbox.legacy.checkpoints.tree import Forgets, Index, Limits, scan

    for number in range(100):
        (tmp_path / str(number)).write_text("x")
    over = Event()

    def busy() -> None:
        count = 0
        while not over.is_set():
            count += 1
            with (tmp_path / "log").open("a") as log:
                log.write("line\n" * (count % 50))
            folder = tmp_path / "come and go"
            folder.mkdir(exist_ok=True)
            (folder / "f").write_text(str(count))
            (folder / "f").unlink()
            folder.rmdir()
            (tmp_path / str(count % 100)).write_text(str(count))

    limits = Limits(10_000, 1 << 20, 1 << 26)
    index: Index = {}
    thread = Thread(target=busy)
    thread.start()
    for _ in range(40):
        index = scan(str(tmp_path), index, limits, Forgets()).now
    over.set()
    thread.join()
    now = scan(str(tmp_path), index, limits, Forgets()).now
    fresh = scan(str(tmp_path), {}, limits, Forgets()).now
    assert {path: seen.state for path, seen in now.items()} == {path: seen.state for path, seen in fresh.items()}


def test_pruning_frees_what_nobody_needs(full: World) -> None:
    """Old checkpoints go, and with them the packs of which nothing is left in the workspace."""
    import sqlite3

    ran(full, bash("echo first > f"))
    ran(full, bash("echo second > f"))
    ran(full, bash("rm f"))
    packs = sorted((full.cli.data / "checkpoints").glob("pack-*"))
    assert len(packs) == 2
    assert checkpoint(full, "prune", "--days", "1") == {"checkpoints": 0, "bytes": 0}
    with sqlite3.connect(full.database) as database:
        database.execute("UPDATE checkpoints SET created_at = datetime('now', '-3 days')")
    assert checkpoint(full, "prune", "--days", "1") == {"checkpoints": 3, "bytes": 0}, "another process may write them"
    for pack in packs:
        os.utime(pack, (0, 0))
    assert checkpoint(full, "prune", "--days", "1") == {"checkpoints": 0, "bytes": len("first\nsecond\n")}
    assert not [pack for pack in packs if pack.exists()]
    assert full.rows("SELECT count(*) FROM checkpoint_blobs") == [(0,)]
    assert checkpoint(full, "list") == []


# ------------------------------------------------------------------ /rewind


def test_rewind_lists_prompts_and_goes_back(full: World) -> None:
    work = full.workspace
    (work / "f").write_text("0\n")
    full.script(bash("echo 1 > f"), text("one"), bash("echo 2 > f"), text("two"), text("{{last_user}} after all"))
    typed = "first\nsecond\n/rewind\n/rewind 2\nthird\n/rewind 9\n/rewind 1 nonsense\n/exit\n"
    full.fixture.write_text(json.dumps({"steps": json.loads(full.fixture.read_text())["steps"], "partial": True}))
    done = full.cli.typed("agent", stdin=typed)
    assert done.code == 0, done.err
    assert "  1    1 paths  first" in done.out
    assert "  2    1 paths  second" in done.out
    assert "the conversation is as it was before: second" in done.out
    assert "'9' is not one of the" in done.err
    assert "'nonsense' is not one of" in done.err
    # the model is at its second answer again: the script plays that step once more
    assert full.entries("system")[-1]["subtype"] == "rewind"
    assert (work / "f").read_text() == "2\n"
    verified(full)


def test_rewind_files_or_conversation_alone(full: World) -> None:
    work = full.workspace
    full.script(bash("echo 1 > f"), text("one"), text("two"))
    full.fixture.write_text(json.dumps({"steps": json.loads(full.fixture.read_text())["steps"], "partial": True}))
    done = full.cli.typed("agent", stdin="first\n/rewind 1 files\n/exit\n")
    assert done.code == 0, done.err
    assert not (work / "f").exists()
    assert full.entries("system") == []
    (work / "f").write_text("the user's")
    done = full.cli.typed("agent", stdin="first\n/rewind 1 conversation\n/exit\n")
    assert full.entries("system")[-1]["to"] == 0
    assert (work / "f").read_text() == "1\n"


def test_what_runs_in_the_background_is_the_agents_doing(full: World) -> None:
    full.script(
        call("Bash", command="sleep 0.3; echo late > late", run_in_background=True),
        bash("sleep 1.5"),
        bash("touch other"),
        text("done"),
    )
    done = full.agent("go", stdin="y\n" * 9)
    assert done.code == 0, done.err
    assert fates(checkpoint(full, "restore", "1", *ALL)).items() >= {"late": "delete", "other": "delete"}.items()


def test_of_a_workspace_with_too_many_files_none_is_copied(full: World) -> None:
    """They are counted first: the copies would be made for nothing."""
    full.configure(autonomy="full", more="[checkpoints]\nmax_files = 50")
    for number in range(60):
        (full.workspace / f"{number % 6}").mkdir(exist_ok=True)
        (full.workspace / f"{number % 6}" / f"{number}.txt").write_text(f"content {number}\n")
    full.script(call("Bash", command="python3 -c 'print(1)'"), text("done"))
    done = full.agent("go")
    assert done.code == 0, done.err
    assert "has more than 50 files (checkpoints.max_files)" in done.err
    assert not [*(full.cli.data / "checkpoints").glob("pack-*")]
