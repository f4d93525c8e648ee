"""What a rule denies to Read is not seen by looking, which nobody is asked about."""

from typing import Any

from tests.acceptance.world import call
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
