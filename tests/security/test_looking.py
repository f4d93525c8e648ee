"""What a rule denies to Read is not seen by looking, which nobody is asked about."""

import threading
import time
from typing import Any

import pytest

from tests.acceptance.world import call, text
from tests.security.world import Den

WORD = "tangerine"
DENIED = '[permissions]\ndeny = ["Read(./hidden/**)"]\n'


def planted(den: Den) -> None:
    (den.workspace / "hidden").mkdir()
    (den.workspace / "hidden" / "key").write_text(f"{WORD}\n")
    den.git("add", "-A")
    den.git("commit", "--quiet", "-m", "second")


def asked(den: Den, *commands: str) -> list[Any]:
    made = den.attack(*(call("Bash", command=command) for command in commands))
    return [receipt["decision"]["by"] == "operator" for receipt in made.receipts]


SHOWS = ("git log -p -1", "git show HEAD", f"git grep {WORD} HEAD", "git diff HEAD~1", "bash -c 'git show HEAD'")
NAMES = ("git status", "git ls-files", "git branch", "ls", "grep -rh tangerine .")


def test_what_git_keeps_of_a_denied_file_is_asked_about(world: Den) -> None:
    planted(world)
    world.configure(more=DENIED)
    assert asked(world, *SHOWS, *NAMES) == [True] * len(SHOWS) + [False] * len(NAMES)


def test_without_a_denial_nobody_is_asked(world: Den) -> None:
    planted(world)
    assert asked(world, *SHOWS, *NAMES) == [False] * len(SHOWS + NAMES)


def test_more_files_than_can_be_masked_are_asked_about(world: Den) -> None:
    for number in range(401):
        (world.workspace / f"{number}.key").write_text(f"{WORD}\n")
    world.configure(more='[permissions]\ndeny = ["Read(./*.key)"]\n')
    assert asked(world, "grep -rl tangerine .", "pwd") == [True, True]


PLANT = f"""
import os
os.makedirs("sub", exist_ok=True)
open("sub/.env", "w").write("{WORD[:4]}" + "{WORD[4:]}")
"""
SLEEPS = call("Bash", command="sleep 60", run_in_background=True)


@pytest.mark.parametrize("before", [(), (SLEEPS,)], ids=["idle", "while a task runs"])
def test_a_denied_file_that_comes_late_is_masked_or_asked_about(world: Den, before: tuple[Any, ...]) -> None:
    (world.workspace / "plant.py").write_text(PLANT)
    world.configure(more='[permissions]\ndeny = ["Read(**/.env)"]\n')
    made = world.attack(*before, "grep -rh nothing .", "python3 plant.py", f"grep -rh {WORD} .", "pwd")
    by = [receipt["decision"]["by"] == "operator" for receipt in made.receipts][len(before) :]
    assert by == ([False, True, True, True] if before else [False, True, False, False])
    assert ("denied to Read" in made.done.err + made.done.out) == bool(before)
    assert before or WORD not in made.results[-2]


def test_a_look_that_could_show_a_denied_file_is_denied_where_nobody_can_be_asked(world: Den) -> None:
    (world.workspace / "plant.py").write_text(PLANT)
    allowed = 'allow = ["Bash(sleep *)", "Bash(python3 plant.py)"]\n'
    world.configure(more=f'[permissions]\ndeny = ["Read(**/.env)"]\n{allowed}')
    world.script(
        SLEEPS, *(call("Bash", command=one) for one in ("python3 plant.py", f"grep -rh {WORD} .")), text("done")
    )
    world.prepare()
    world.agent("go")
    assert (world.workspace / "sub" / ".env").exists()
    assert not any(WORD in entry["content"].replace(f"{WORD} .", "") for entry in world.entries("tool_result"))
    assert world.receipts()[-1]["decision"]["verdict"] == "deny"


WAITS = """
import os, time
open("ready", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
"""


@pytest.mark.parametrize("before", [(), (SLEEPS,)], ids=["idle", "while a task runs"])
def test_a_denied_file_that_an_editor_replaces_is_masked_or_asked_about(world: Den, before: tuple[Any, ...]) -> None:
    """A mount goes with the file that it lies on."""
    env, new, ready, go = (world.workspace / name for name in (".env", "new", "ready", "go"))
    env.write_text(f"{WORD}\n")
    (world.workspace / "waits.py").write_text(WAITS)
    world.configure(more='[permissions]\ndeny = ["Read(**/.env)"]\n')

    def edit() -> None:
        while not ready.exists():
            time.sleep(0.01)
        new.write_text(f"{WORD} again\n")
        new.replace(env)
        go.touch()

    editor = threading.Thread(target=edit, daemon=True)
    editor.start()
    made = world.attack(*before, "python3 waits.py", f"grep -rh {WORD} .")
    assert env.read_text() == f"{WORD} again\n"
    assert (made.receipts[-1]["decision"]["by"] == "operator") == bool(before)
    assert before or f"{WORD} again" not in made.last
