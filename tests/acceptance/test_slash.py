"""Slash commands: one table, what each does, and what an unknown one gets."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from adderclaw.storage import transcript
from adderclaw.terminal.commands.common import app_of
from adderclaw.terminal.commands.table import COMMANDS
from adderclaw.terminal.legacy.print_flags import FLAGS
from adderclaw.terminal.repl.slash.reports import KEYS
from adderclaw.terminal.repl.slash.table import ROWS, SLASH
from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World, call, text

ROOT = Path(__file__).parents[2]
WORKS = {name for flag in FLAGS for name in flag.names} | {"--version"}
REFERENCE = json.loads((Path(__file__).parent / "reference_names.json").read_text(encoding="utf-8"))


def talk(world: World, *lines: str) -> tuple[str, str]:
    done = world.cli.typed("agent", stdin="".join(f"{line}\n" for line in (*lines, "/exit")))
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    return done.out, done.err


def messages(world: World) -> list[str]:
    return [transcript.text_of(entry) for entry in world.entries("user")]


def has_command(words: list[str]) -> bool:
    """Whether the command line has this command or subcommand."""
    if not words or words[0] not in COMMANDS:
        return False
    command = get_command(app_of(import_module(f"adderclaw.terminal.commands.{COMMANDS[words[0]].module}")))
    for word in words:
        if isinstance(command, TyperGroup):
            known = command.commands.get(word)
            if known is None and word != words[0]:
                return False
            command = known or command
    return True


def missing() -> dict[str, str]:
    """The names of Claude Code's that docs/repl.md lists as missing, with what it says of each."""
    _, _, section = (ROOT / "docs" / "repl.md").read_text(encoding="utf-8").partition("\n## Claude Code's commands")
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    return {name: why for names, why in rows for name in re.findall(r"`([^`]+)`", names)}


# ------------------------------------------------------------------ one table


def test_d_02_every_command_and_flag_of_the_reference_works_or_is_listed_as_missing() -> None:
    reference = {*REFERENCE["flags"], *REFERENCE["subcommands"], *(f"/{name}" for name in REFERENCE["commands"])}
    here = WORKS | {f"/{name}" for name in SLASH}
    works = {name for name in reference if name in here or has_command(name.split())}
    assert sorted(works & missing().keys()) == [], "a command works, or is listed as missing: not both"
    assert sorted(works | missing().keys()) == sorted(reference)


def test_d_03_what_replaces_a_missing_name_exists() -> None:
    """Each command here, command of the command line, flag and key that the page names instead of a missing one."""
    names: dict[str, Callable[[str], bool]] = {
        "/": lambda word: word in SLASH,
        "`adderclaw ": lambda word: has_command(re.findall(r"(?<![\w-])[a-z]+(?!\S)", word)[:2]),
        "--": lambda word: f"--{word}" in WORKS | {"--workspace", "--worktree", "--detach"},
        "Ctrl-": lambda word: any(f"Ctrl-{word}" in keys for keys, _ in KEYS),
    }
    finds = {
        "/": r"(?<![\w~./])/([a-z][a-z-]+)",
        "`adderclaw ": r"`adderclaw ([a-z][^`]*)`",
        "--": r"(?<![\w-])--([a-z][a-z-]+)",
        "Ctrl-": r"Ctrl-([A-Z])",
    }
    checked: list[str] = []
    for name, why in missing().items():
        for mark, pattern in finds.items():
            for word in re.findall(pattern, why):
                assert names[mark](word), f"{name}: {why!r} names {mark}{word}, which does not exist"
                checked.append(word)
    assert len(checked) > 40, "the patterns match what is named"


def test_d_32_a_name_is_there_once() -> None:
    names = [name for row in ROWS for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names))
    assert [row.name for row in ROWS if not row.help or "\n" in row.help] == []


def test_d_32_the_page_is_what_the_table_says() -> None:
    argv = [sys.executable, str(ROOT / "scripts" / "generate_repl_page.py"), "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------ what they do


def test_d_33_help_lists_all_of_them_and_filters(world: World) -> None:
    out, _ = talk(world, "/help")
    assert {*re.findall(r"^/([a-z-]+)", out, re.MULTILINE)} == {row.name for row in ROWS}
    out, _ = talk(world, "/help receipt")
    assert [line.split()[0] for line in out.splitlines()] == ["/receipts"]


def test_commands_that_show_something(world: World) -> None:
    world.script(call("Write", file_path="a.txt", content="new words\n"), text("written it is"))
    out, err = talk(
        world, "write", "y", "/context", "/usage", "/permissions", "/sandbox", "/tasks", "/keys", "/diff", "/copy"
    )
    assert re.search(r"^conversation +about +[\d,]+ tokens", out, re.MULTILINE)
    assert re.search(r"^this session: .*2 model calls, 1 tool calls", out, re.MULTILINE)
    assert re.search(r"^total +2 ", out, re.MULTILINE), "the table of `adderclaw usage`"
    assert "mode: supervised" in out
    assert "commands run in: " in out
    assert "no background tasks" in out
    assert "Shift+Tab" in out
    assert "+new words" in out
    assert out.count("written it is") == 2, "the answer, and the copy of it"
    assert "there is no" not in err


def test_commands_of_the_command_line_say_the_same_here(world: World) -> None:
    world.script(call("Read", file_path="missing.txt"), text("done"))
    out, _ = talk(world, "read", "/receipts", "/receipts verify", "/hooks", "/estop --status", "/config", "/doctor")
    for words in (("receipt", "list"), ("receipt", "verify"), ("hooks", "list"), ("estop", "--status")):
        assert world.cli(*words).out.strip().splitlines()[0] in out, words
    assert "default_provider" in out
    assert re.search(r"sandbox", out)
    run_id = str(world.rows("SELECT run_id FROM runs")[0][0])
    replayed, _ = talk(world, f"/replay {run_id}")
    assert world.cli("replay", run_id).out.strip() in replayed


def test_estop_of_the_slash_stops_tools(world: World) -> None:
    world.script(call("Read", file_path="a.txt"), text("done"))
    talk(world, "/estop", "read")
    assert "stopped" in json.dumps(world.rows("SELECT outcome FROM runs"))
    assert (world.cli.data / "ESTOP").exists()


def test_permissions_of_the_session_change_at_once(world: World) -> None:
    world.script(
        call("Write", file_path="a.txt", content="x\n"),
        text("one"),
        call("Write", file_path="b.txt", content="x\n"),
        text("two"),
    )
    out, err = talk(
        world,
        "/permissions allow Edit(a.txt)",
        "a",
        "/permissions deny Edit(b.txt)",
        "b",
        "/permissions remove Edit(a.txt)",
    )
    assert (world.workspace / "a.txt").exists()
    assert "Approve?" not in err
    assert not (world.workspace / "b.txt").exists()
    assert "removed from this session: Edit(a.txt)" in out


def test_d_33_config_changes_the_session_and_what_a_person_prefers_is_kept(world: World) -> None:
    world.script(call("Write", file_path="a.txt", content="x\n"), text("one"))
    own = world.cli.data / "config.toml"
    own.write_text(f"# mine\n{own.read_text()}")
    lines = (
        "/config mode=acceptEdits",
        "write",
        "/settings model=other theme=light",
        "/model",
        "/vim",
        "/config colour=red",
    )
    out, err = talk(world, *lines)
    assert "mode: acceptEdits, until this session ends" in out
    assert (world.workspace / "a.txt").exists()
    assert "model other of the provider local" in out
    assert "/config: 'colour=red': expected model=NAME" in err
    assert out.count(f"stored in {own}") == 3
    kept = own.read_text()
    assert kept.startswith("# mine\n"), "comments stay"
    now = tomllib.loads(kept)
    assert now["repl"] == {"theme": "light", "editing": "vi"}
    assert now["providers"]["models"]["local"]["model"] == "other"
    assert "defaultMode" not in kept
    out, err = talk(world, "/model", "/vim")
    assert "model other of the provider local" in out
    assert "keys of the input: emacs" in out, "what was kept counts in the next conversation"


def judge(world: World, answer: str) -> None:
    """The small model, by a fixture that the agent itself can write."""
    fixture = world.workspace / "judge.json"
    fixture.write_text(json.dumps({"steps": [text(answer)], "partial": True}))
    entry = f'[providers.models.judge]\nkind = "mock"\nmodel = "mock"\nfixture = "{fixture}"\n'
    world.configure("full", more=f'{entry}[providers]\nsmall = "judge"\n')


def test_a_task_is_planned_in_the_mode_plan(world: World) -> None:
    world.script(call("Write", file_path="a.txt", content="x\n"), text("a plan"))
    out, _ = talk(world, "/plan write a file", "y", "/permissions")
    assert "mode: plan" in out
    assert not (world.workspace / "a.txt").exists()
    first = messages(world)[0]
    assert first.startswith("write a file\n")
    assert "Plan mode is on" in first


def test_a_side_question_does_not_enter_the_conversation(world: World) -> None:
    judge(world, "beside it")
    world.script(text("first"), text("second"))
    out, _ = talk(world, "hello", "/btw what was that?", "/recap", "and again")
    assert out.splitlines() == ["first", "beside it", "beside it", "second"]
    assert messages(world) == ["hello", "and again"]
    purposes = world.rows("SELECT json_extract(response_json, '$.purpose') FROM model_calls WHERE provider = 'judge'")
    assert purposes == [("btw",), ("recap",)], "they are on record, and in the budget"
    ((run,),) = world.rows("SELECT run_id FROM runs")
    assert world.cli("replay", run, "--verify").code == 0


def test_a_goal_is_asked_about_at_each_stop_is_on_the_tape_and_goes_on_when_resumed(world: World) -> None:
    judge(world, "perhaps")
    answers = (text("hello to you"), text("half of it"))
    world.script(*answers)
    out, _ = talk(world, "hello", "/goal both halves are there", "/goal")
    assert out.endswith("half of it\nthe goal: both halves are there\n"), (
        "who cannot judge neither blocks nor clears it"
    )
    judge(world, '{"ok": false, "reason": "the other half is missing"}')
    reached = json.dumps({"steps": [text('{"ok": true}')], "partial": True})
    world.script(
        *answers,
        text("still half of it"),
        call("Read", file_path="judge.json"),
        call("Write", file_path="judge.json", content=reached),
        text("the whole of it"),
        text("nobody asks"),
    )
    ((conversation,),) = world.rows("SELECT id FROM conversations")
    out, err = talk(world, f"/resume {conversation}", "go on", "/goal", "and now?")
    assert "the goal: both halves are there; /goal clear drops it" in err
    assert out.endswith("the whole of it\nthere is no goal; /goal WORDS sets one\nnobody asks\n")
    assert "the goal is reached, or cannot be reached" in err
    assert "the other half is missing" in json.dumps(world.rows("SELECT payload_json FROM transcript_entries"))
    assert len(world.rows("SELECT id FROM model_calls WHERE provider = 'judge'")) == 3
    taped = world.rows("SELECT DISTINCT run_id FROM tape")
    assert len(taped) == 2
    for (run,) in taped:
        proof = world.cli("replay", run, "--verify")
        assert proof.code == 0, proof.out + proof.err


def test_prompts_of_our_own_are_messages(world: World) -> None:
    world.script(*map(text, ("one", "two", "three", "four")))
    talk(world, "/review src/a.py", "/init", "/simplify src/b.py", "/security-review")
    first, second, simpler, safer = messages(world)
    assert simpler.endswith("The person adds: src/b.py")
    assert "simple" in simpler
    assert "security" in safer
    assert first.startswith("Review a change")
    assert first.endswith("The person adds: src/a.py")
    assert "AGENTS.md" in second


def test_a_report_is_a_file_and_nothing_is_sent(world: World) -> None:
    secret = "sk-ant-" + "api03-a1B2c3D4" * 4
    out, _ = talk(world, f"/bug it hangs with {secret}")
    (path,) = re.findall(r"written to (.*?);", out)
    report = Path(path).read_text(encoding="utf-8")
    assert "it hangs" in report
    assert secret not in report


def test_cd_goes_on_in_another_folder_in_a_copy(world: World, tmp_path: Path) -> None:
    other, bad = tmp_path / "other", tmp_path / "bad"
    (bad / ".adderclaw").mkdir(parents=True)
    (bad / ".adderclaw" / "settings.json").write_text("{")
    other.mkdir()
    world.script(text("one"), call("Write", file_path="here.txt", content="x\n"), text("three"))
    world.configure("full")
    done = world.cli.typed("agent", stdin=f"hello\n/cd {bad}\n/cd ~\n/cd {other}\nwrite it\n/exit\n")
    assert done.code == 0, done.err
    assert done.err.count("/cd: ") == 2, "who cannot begin there stays here"
    assert f"/cd: {world.cli.home} contains too much to be a workspace" in done.err, "X-82"
    assert f"AdderClaw in {other}" in done.err
    assert (other / "here.txt").exists()
    assert not (world.workspace / "here.txt").exists()
    folders = world.rows("SELECT project_dir, id FROM conversations ORDER BY rowid")
    assert [row[0] for row in folders] == [str(world.workspace), str(other)]
    (first, second) = (
        [
            str(row)
            for row in world.rows(
                f"SELECT payload_json FROM transcript_entries WHERE session_id IN"
                f" (SELECT session_id FROM sessions WHERE conversation_id = '{row[1]}') ORDER BY sequence"
            )
        ]
        for row in folders
    )
    assert second[: len(first)] == first, "what was said goes along"
    assert f"moved this conversation from the folder {world.workspace} to {other}" in second[len(first)]
    for (run,) in world.rows("SELECT DISTINCT run_id FROM tape"):
        assert world.cli("replay", run, "--verify").code == 0


@pytest.mark.parametrize(
    "line", ["/cd /nowhere", "/copy x", "/tasks stop 7", "/permissions frob", "/theme pink", "/btw"]
)
def test_what_a_command_cannot_do_is_said_and_the_conversation_goes_on(world: World, line: str) -> None:
    world.script(text("still here"))
    out, err = talk(world, line, "hello")
    assert f"{line.split()[0]}: " in err
    assert out.endswith("still here\n")


def test_own_commands_run_and_read_by_the_gate_and_are_chained(world: World) -> None:
    own, theirs = world.cli.data / "commands", world.workspace / ".adderclaw" / "commands"
    for folder in (own, theirs):
        folder.mkdir(parents=True)
    (world.workspace / "a.txt").write_text("apples\n")
    (world.workspace / "secret.txt").write_text("canary\n")
    (own / "look.md").write_text("See @a.txt, @secret.txt and @nothing.txt. !`echo printed`\nOf $ARGUMENTS: @$1.\n")
    (own / "then.md").write_text("And then $ARGUMENTS.\n")
    (theirs / "foreign.md").write_text("See @a.txt. !`touch ran.txt`\n")
    world.configure("full", more='[permissions]\ndeny = ["Read(secret.txt)"]\n')
    for name, body in (("first", "Use the skill second."), ("second", "The end of it.")):
        (world.workspace / "skills" / name).mkdir(parents=True)
        about = f"---\nname: {name}\ndescription: Does the {name} half.\n---\n"
        (world.workspace / "skills" / name / "SKILL.md").write_text(f"{about}{body}\n")
    world.script(text("one"), text("two"), call("Skill", skill="first"), call("Skill", skill="second"), text("three"))
    talk(world, "/look /then x a.txt", "/foreign", "use the first")
    mine, foreign, _ = messages(world)
    first, second = (entry["content"] for entry in world.entries("tool_result") if "The skill" in entry["content"])
    assert "Use the skill second." in first
    assert "The end of it." in second, "one leads to another"
    assert mine.count("apples") == 2, "the file that the text names, and the one that it was given"
    assert "canary" not in mine
    assert "@nothing.txt" in mine
    assert "printed" in mine
    assert "\nAnd then x a.txt.\n" in mine, "each gets the words behind the last name"
    assert "See @a.txt." in foreign, "an untrusted project's command makes nobody read or run anything"
    assert "apples" not in foreign
    assert not (world.workspace / "ran.txt").exists()
    used = [json.loads(line)["tool"] for (line,) in world.rows("SELECT line FROM receipts ORDER BY seq")]
    assert sorted(used) == ["Bash"] + ["Read"] * 3 + ["Skill"] * 2, "each has its receipt"


# ------------------------------------------------------------------ what does not exist


def test_d_02_an_unknown_command_gets_a_suggestion(world: World) -> None:
    _, err = talk(world, "/teleport", "/reveiw")
    assert "there is no command /teleport: /help lists them." in err
    assert "there is no command /reveiw: did you mean /review? /help lists them." in err


# ------------------------------------------------------------------ in a terminal


def test_d_32_the_menu_filters_and_has_own_commands_and_skills(world: World) -> None:
    commands = world.workspace / ".adderclaw" / "commands"
    commands.mkdir(parents=True)
    (commands / "deploy-it.md").write_text("---\ndescription: Sends it out.\n---\nDeploy $ARGUMENTS.\n")
    (commands / "evil\u202egro.md").write_text("---\ndescription: Is not what it seems.\n---\nx\n")
    world.script(text("deployed"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("/")
        first = terminal.wait("/clear", "/resume")
        assert "/reset" not in first, "other names are shown once something is typed"
        terminal.write("rev")
        terminal.wait("/review", "/security-review", gone="/clear")
        terminal.press("C-c")
        terminal.write("/it")
        terminal.wait("/deploy-it", "Sends it out.")
        terminal.press("Tab")
        terminal.write(" now")
        terminal.press("Enter")
        terminal.wait("deployed")
        terminal.write("/evil")
        terminal.wait("> /evil")
        assert "Is not what it seems" not in terminal.screen()
        terminal.press("C-c")
        terminal.write("/effort x")
        terminal.wait("xhigh")
        terminal.press("C-c", "C-d")
        terminal.wait("left with 0")
    assert "\nDeploy now.\n" in messages(world)[0]


def test_a_command_that_runs_at_once_does_not_wait_for_the_turn(world: World) -> None:
    world.script(call("Bash", command="sleep 100"), text("after the interruption"))
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        terminal.write("sleep")
        terminal.press("Enter")
        terminal.wait("· runs ·")
        terminal.write("/permissions")
        terminal.press("Enter")
        terminal.wait("/permissions allow|ask|deny RULE", "· runs ·")
        terminal.write("/session")
        terminal.press("Enter")
        terminal.wait("queued: /session")
        terminal.press("Escape")
        terminal.wait("conversation conversation-", gone="queued")
        terminal.press("C-d")
        terminal.wait("left with 0")


def test_settings_of_the_terminal_change_while_it_is_there_and_a_bad_file_stays_as_it_is(world: World) -> None:
    own = world.cli.data / "config.toml"
    with Tmux(world, "agent") as terminal:
        terminal.wait("supervised")
        for line, shown in (("/theme light", "theme: light"), ("/vim", "keys of the input: vi")):
            terminal.write(line)
            terminal.press("Enter")
            terminal.wait(shown, "stored in ")
        bad = f"{own.read_text()}\n[broken"
        own.write_text(bad)
        terminal.write("/vim")
        terminal.press("Enter")
        terminal.wait("keys of the input: emacs", "this applies only to this session")
        assert own.read_text() == bad
        terminal.write("/config mode=plan")
        terminal.press("Enter")
        terminal.wait("mode: plan", "plan · ")
        terminal.press("C-d")
        terminal.wait("left with 0")


def test_the_clipboard_a_replay_and_a_report_on_the_screen(world: World) -> None:
    secret = "sk-ant-" + "api03-a1B2c3D4" * 4
    world.script(text("the answer of before"))
    world.agent("hello")
    ((run,),) = world.rows("SELECT run_id FROM runs")
    with Tmux(world, "agent", columns=140) as terminal:
        terminal.wait("supervised")
        for line, shown in (
            ("hello", "the answer of before"),
            ("/copy", "copied 20 characters to the terminal's clipboard"),
            (f"/replay {run} --verify", f"verified: {run}"),
            (f"/bug it hangs with {secret}", "written to"),
        ):
            terminal.write(line)
            terminal.press("Enter")
            terminal.wait(shown)
        assert terminal.clipboard() == "the answer of before"
        terminal.press("C-d")
        terminal.wait("left with 0")
    (report,) = (world.cli.data / "reports").iterdir()
    assert "it hangs with" in report.read_text()
    assert secret not in report.read_text()
