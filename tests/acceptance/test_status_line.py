"""The operator's own command for the line below the input, in a real terminal."""

import json
import shlex

from adderclaw.core.redaction import Secrets
from adderclaw.terminal.repl.status import parse_fragments
from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World, text

SCRIPT = """#!/bin/sh
given=$(cat)
touch written.txt "$HOME/written" 2>/dev/null
[ -e fail ] && { echo broken >&2; exit 3; }
printf 'own \\033[31mline\\033[0m of %s\\033]0;evil\\007\\n' "$(printf %s "$given" | grep -o '"id": "[^"]*"')"
printf 'mode %s, %s columns\\n' "$(printf %s "$given" | grep -o '"permission_mode": "[^"]*"')" "$COLUMNS"
"""


def test_a_command_of_ones_own_fills_the_line_and_harms_nothing(world: World) -> None:
    script = world.cli.home / "line.sh"
    script.write_text(SCRIPT, encoding="utf-8")
    script.chmod(0o755)
    world.configure(more='[statusLine]\ncommand = "~/line.sh"\npadding = 2')
    world.script(text("answered"))
    with Tmux(world, "agent") as terminal:
        shown = terminal.wait('  own line of "id": "mock"\\u{1b}]0;evil\\u{7}', '"supervised", 80 columns')
        assert shown.split("\n")[-1] == "supervised", "how much happens unasked is said below it all the same"
        terminal.press("BTab")
        terminal.wait('"permission_mode": "acceptEdits"')
        terminal.write("!touch fail")
        terminal.press("Enter")
        terminal.wait("the statusLine command failed (exited with 3: broken)", "mock", gone="own line")
        terminal.write("!touch other; true")
        terminal.press("Enter")
        terminal.wait("touch other; true")
        terminal.write("hello")
        terminal.press("Enter")
        terminal.wait("answered", "acceptEdits", gone="own line")
        assert terminal.all().count("statusLine") == 1, "it is said once"
        terminal.write("!mv fail gone")
        terminal.press("Enter")
        terminal.wait("own line")
        terminal.press("C-d")
        terminal.wait("left with 0")
    assert not (world.workspace / "written.txt").exists()
    assert not (world.cli.home / "written").exists()


def test_a_projects_command_runs_once_it_is_trusted_and_opens_no_file_outside(world: World) -> None:
    secret = world.cli.home / "secret.sh"
    secret.write_text("echo the-canary", encoding="utf-8")
    line = f"echo the-project-was-here; sh {shlex.quote(str(secret))}"
    (world.workspace / ".adderclaw").mkdir()
    settings = {"statusLine": {"type": "command", "command": f"{line} || true"}}
    (world.workspace / ".adderclaw" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    world.script(text("answered"))
    for trusted in (False, True):
        with Tmux(world, "agent", "--workspace", str(world.workspace)) as terminal:
            terminal.wait("supervised")
            terminal.write("!echo by-hand")
            terminal.press("Enter")
            terminal.wait("by-hand\n", "ran")
            if trusted:
                terminal.wait("\nthe-project-was-here", "\nsupervised")
            else:
                terminal.wait("not trusted", "statusLine")
                assert "the-project-was-here\n" not in terminal.all()
            assert "the-canary" not in terminal.all()
            terminal.press("C-d")
            terminal.wait("left with 0")
        assert world.cli("trust", str(world.workspace)).code == 0


def test_what_is_printed_is_cleaned_and_cut() -> None:
    lines = parse_fragments(
        "a\x1b[2Jb\x1b[1;31mc\x1b[0m\u202e\nsk-ant-api03-abcdefghijklmnop\n3\n4", Secrets().clean, colours=True
    )
    words = ["".join(letter for _, letter in line) for line in lines]
    assert words == ["a\\u{1b}[2Jbc\\u{202e}", "[redacted]", "3"]
    assert [style for style, letter in lines[0] if letter == "c"] == ["ansired bold"]
    plain = parse_fragments("a\x1b[1;31mc" + "x" * 9_000, Secrets().clean, colours=False)
    assert len(plain[0]) < 1_000
    assert {style for style, _ in plain[0]} == {""}
    assert parse_fragments(" \n\n", Secrets().clean, colours=True) == []
