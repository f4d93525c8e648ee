"""/commit and /pr: the message is drafted, the changes are shown, somebody is asked, and git runs by the gate."""

import subprocess
from pathlib import Path

import pytest

from adderclaw.terminal.repl.slash.git import FIXES
from tests.acceptance.test_repl import talk
from tests.acceptance.test_replay import verified
from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World, text
from tests.scripted_anthropic import ScriptedMessages


def git(world: World, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *words],
        cwd=world.workspace,
        env=world.cli.env,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def repository(world: World) -> World:
    """One commit, a staged change of a.txt, and a file that is not staged."""
    (world.cli.home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n")
    git(world, "init", "-q", "-b", "main")
    (world.workspace / "a.txt").write_text("one\n")
    git(world, "add", "-A")
    git(world, "commit", "-qm", "First")
    (world.workspace / "a.txt").write_text("two\n")
    git(world, "add", "a.txt")
    (world.workspace / "new.txt").write_text("new\n")
    world.configure(autonomy="full")
    return world


def messages(world: World) -> list[str]:
    return git(world, "log", "--format=%B%x00").strip("\n\0").split("\0\n")


def test_what_is_staged_is_committed_after_a_yes(repository: World) -> None:
    drafted = "Say two\n\nOne was not enough: it's 'more' $(touch owned) now."
    repository.script(text(drafted), text("second"))  # a question beside the conversation is answered by the first
    out, err = talk(repository, "hello", "/commit the reason matters", "y", "and again", "/exit")
    assert "-one\n+two" in out
    assert "The staged changes will be committed with this message:" in out
    assert "Commit? [y/N]" in err
    assert messages(repository)[0] == f"{drafted}\n"
    assert git(repository, "log", "-1", "--format=%an <%ae>") == "Ann <ann@example.org>\n"
    assert git(repository, "status", "--short") == "?? new.txt\n"
    assert not (repository.workspace / "owned").exists()
    commands = [receipt for receipt in repository.receipts() if receipt["tool"] == "Bash"]
    assert {receipt["status"] for receipt in commands} == {"allowed"}
    assert verified(repository)["verified"]


def test_on_a_screen_changes_that_are_no_longer_those_shown_are_not_committed(repository: World) -> None:
    repository.script(text("Say two"))
    with Tmux(repository, "agent") as terminal:
        terminal.wait("full")
        terminal.write("/commit ")
        terminal.press("Enter")
        terminal.wait("Commit?", "1. yes")
        (repository.workspace / "a.txt").write_text("three\n")
        git(repository, "add", "a.txt")
        terminal.press("y", "Enter")
        terminal.wait("the changes differ from those shown", gone="1. yes")
        assert len(messages(repository)) == 1
        terminal.write("/commit ")
        terminal.press("Enter")
        terminal.wait("+three", "Commit?", "1. yes")
        terminal.press("y", "Enter")
        terminal.wait("[main ", "] Say two")
        terminal.press("C-d")
        terminal.wait("left with 0")
    assert git(repository, "show", "HEAD:a.txt") == "three\n"


def test_lines_that_go_on_a_message_that_is_had_back_and_drafts_that_are_interrupted(repository: World) -> None:
    """No answer ever comes to its end, so everything is typed while something runs."""
    with ScriptedMessages([{"text": "never", "stall": 20}] * 3) as model:
        wire = f'kind = "anthropic"\nbase_url = "{model.base_url}"\nmodel = "claude-haiku-4-5"\n'
        repository.configure(autonomy="full", more=f"[providers.models.claude]\n{wire}")
        repository.cli.env["ANTHROPIC_API_KEY"] = "sk-ant-api03-canary-0123456789abcdefghij"
        with Tmux(repository, "agent", "--provider", "claude") as terminal:
            terminal.wait("full")
            enter(terminal, "one\\")
            terminal.wait("> one\n", gone="\\")
            enter(terminal, "two")
            terminal.until(lambda: len(model.requests) == 1)
            for line in ("```", "code", "```"):
                enter(terminal, line)
            terminal.wait("queued: ``` code ```")
            terminal.press("Up")
            terminal.wait("> ```\n", gone="queued:")
            terminal.press("C-c")
            terminal.wait("full", gone="code")
            enter(terminal, 'She said: 5" are enough')
            terminal.wait('queued: She said: 5" are enough')
            terminal.press("Up", "C-c")
            terminal.wait("full", gone="queued:")
            enter(terminal, '"open')
            enter(terminal, 'closed"')
            terminal.wait('queued: "open closed"')
            terminal.press("Escape")
            terminal.until(lambda: len(model.requests) == 2)
            terminal.press("Escape")
            terminal.wait_for_number("interrupted", 2)
            enter(terminal, "/commit ")
            terminal.until(lambda: len(model.requests) == 3)
            terminal.press("Escape")
            terminal.wait("the draft was interrupted. Nothing was changed.")
            terminal.press("C-d")
            terminal.wait("left with")
    first, second, _ = model.requests
    assert first.messages[-1]["content"][-1]["text"] == "one\ntwo"
    assert '"open\nclosed"' in [block["text"] for block in second.messages[-1]["content"]]
    assert len(messages(repository)) == 1


def enter(terminal: Tmux, line: str) -> None:
    terminal.write(line)
    terminal.press("Enter")


def test_without_a_yes_nothing_happens(repository: World) -> None:
    repository.script(text("Say two"))
    out, _ = talk(repository, "/commit", "n", "/commit", "", "/exit")
    assert out.count("nothing was committed") == 2
    assert len(messages(repository)) == 1


def test_where_nothing_is_staged_everything_is_committed(repository: World) -> None:
    git(repository, "reset", "-q")
    repository.script(text("```\nAdd all\n```"))
    out, _ = talk(repository, "/commit", "y", "/commit", "/exit")
    assert "?? new.txt" in out
    assert "All changes will be committed with this message:" in out
    assert "there is nothing to commit" in out
    assert messages(repository)[0] == "Add all\n"
    assert git(repository, "status", "--short") == ""


def test_where_the_gate_asks_that_is_the_question(repository: World) -> None:
    repository.configure()
    repository.script(text("Say two"))
    out, err = talk(repository, "/commit", "n", "/commit", "y", "/exit")
    assert "Commit? [y/N]" not in err
    assert err.count("Approve? [y/N]") == 2
    assert "git commit -m" in err
    assert len(messages(repository)) == 2
    assert "Denied by operator" in out


def test_readonly_commits_nothing(repository: World) -> None:
    repository.configure(autonomy="readonly")
    repository.script(text("Say two"))
    talk(repository, "/commit", "y", "/exit")
    assert len(messages(repository)) == 1


def test_the_co_author_is_off_unless_it_is_set(repository: World) -> None:
    repository.configure(autonomy="full", more='[git]\nco_author = "Bo <bo@example.org>"\n')
    repository.script(text("Say two"))
    talk(repository, "/commit", "y", "/exit")
    assert messages(repository)[0] == "Say two\n\nCo-authored-by: Bo <bo@example.org>\n"


def test_what_is_shown_is_what_is_committed_without_control_characters(repository: World) -> None:
    repository.script(text("Say \x1b[2J two\u202e"))
    out, _ = talk(repository, "/commit", "y", "/exit")
    assert "\x1b[2J" not in out
    assert "\x1b" not in messages(repository)[0]
    assert messages(repository)[0].strip() in out


def test_no_repository(world: World) -> None:
    world.configure(autonomy="full")
    _, err = talk(world, "/commit", "/exit")
    assert "/commit: `git diff --cached --stat --patch` failed" in err


def test_pr_needs_gh(repository: World, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("git", "bash", "sh"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    repository.cli.env["PATH"] = str(programs)
    _, err = talk(repository, "/pr", "/exit")
    assert "/pr: gh is not installed" in err


def test_pr_on_the_main_branch_says_what_to_do(repository: World, tmp_path: Path) -> None:
    gh(repository, tmp_path)
    remote(repository)
    _, err = talk(repository, "/pr", "/exit")
    assert "/pr: a pull request needs its own branch" in err


def test_pr_pushes_and_opens_one_each_asked_about(repository: World, tmp_path: Path) -> None:
    gh(repository, tmp_path)
    remote(repository)
    git(repository, "switch", "-qc", "more")
    git(repository, "commit", "-qm", "Say two")
    repository.configure()
    repository.script(text("Say two\n\nIt is more."))
    out, err = talk(repository, "/pr", "y", "y", "/exit")
    assert "more will be pushed to origin and proposed for main:\n\nSay two\n\nIt is more.\n" in out
    assert err.count("Approve? [y/N]") == 2
    assert "pr create --title Say two --body It is more. --base main --head more" in out


def test_pr_where_gh_fails_says_what_to_run(repository: World, tmp_path: Path) -> None:
    gh(repository, tmp_path, "echo no login >&2; exit 4")
    remote(repository)
    git(repository, "switch", "-qc", "more")
    git(repository, "commit", "-qm", "Say two")
    repository.script(text("Say two\n\nIt is more."))
    out, _ = talk(repository, "/pr", "y", "/exit")
    assert "no login" in out
    assert "gh failed. In the sandbox it has neither your login nor the network." in out
    assert "gh pr create --title 'Say two' --body 'It is more.' --base main --head more" in out
    assert "more" in git(repository, "ls-remote", "origin")


GH = r"""
# as gh pr create: flags with values, words on stderr, 4 where nobody is logged in, 1 for all else
test "$1 $2" = "pr create" || { echo "unknown command \"$1 $2\" for \"gh\"" >&2; exit 1; }
shift 2
while [ $# -gt 0 ]; do
  case "$1" in --title|--body|--base|--head) shift 2 ;; *) echo "unknown flag: $1" >&2; exit 1 ;; esac
done
echo x >> .tries
case $(wc -l < .tries) in
1) echo "To get started with GitHub CLI, please run:  gh auth login" >&2
   echo "Alternatively, populate the GH_TOKEN environment variable with a GitHub API authentication token." >&2
   exit 4 ;;
2) echo "none of the git remotes configured for this repository point to a known GitHub host. To tell gh about a new \
GitHub host, please use \`gh auth login\`" >&2; exit 1 ;;
3) echo "error connecting to api.github.com" >&2
   echo "check your internet connection or https://githubstatus.com" >&2; exit 1 ;;
4) echo 'a pull request for branch "more" into branch "main" already exists:' >&2
   echo "https://github.com/a/b/pull/1" >&2; exit 1 ;;
*) echo "https://github.com/a/b/pull/2" ;;
esac
"""


def test_pr_says_what_to_do_about_each_failure(repository: World, tmp_path: Path) -> None:
    gh(repository, tmp_path, GH)
    repository.script(text("Say two\n\nIt is more."))
    _, err = talk(repository, "/pr", "/exit")
    assert "/pr: there is no remote named origin: add one (`git remote add origin URL`)" in err
    remote(repository)
    git(repository, "remote", "set-head", "origin", "--delete")
    _, err = talk(repository, "/pr", "/exit")
    assert "run `git fetch origin` and `git remote set-head origin --auto`, then type /pr again" in err
    git(repository, "remote", "set-head", "origin", "main")
    git(repository, "switch", "-qc", "more")
    git(repository, "commit", "-qm", "Say two")
    out, _ = talk(repository, *(["/pr", "y"] * 5), "/exit")
    at = [out.find(means) for _, means in (FIXES[0], FIXES[1], FIXES[3], FIXES[4])]
    assert -1 < at[0] < at[1] < at[2] < at[3] < out.find("https://github.com/a/b/pull/2")
    assert out.count("gh pr create --title 'Say two' --body 'It is more.' --base main --head more") == 4
    (repository.workspace / ".remote.git").rename(tmp_path / "away")
    out, _ = talk(repository, "/pr", "y", "/exit")
    assert "Push the branch yourself, then type /pr again:\ngit push -u origin more" in out


def gh(world: World, tmp_path: Path, does: str = 'echo "$@"') -> None:
    """A program of that name that says what it is given: the service itself is nobody's to reach here."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "gh").write_text(f"#!/bin/sh\n{does}\n")
    (programs / "gh").chmod(0o755)
    world.cli.env["PATH"] = f"{programs}:{world.cli.env['PATH']}"


def remote(world: World) -> None:
    """A remote in the workspace: git inside reaches it without the network."""
    place = world.workspace / ".remote.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(place)], check=True)
    (world.workspace / ".git" / "info" / "exclude").write_text(".remote.git\n")
    git(world, "remote", "add", "origin", str(place))
    git(world, "push", "-q", "origin", "main")
    git(world, "remote", "set-head", "origin", "main")
