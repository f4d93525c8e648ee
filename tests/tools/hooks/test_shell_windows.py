"""Words for PowerShell: whatever is in them, they end where they were meant to end."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adderclaw.tools.hooks import scripts, settings, shell_windows
from adderclaw.tools.hooks.process import run_hook_command

QUOTES = "'\u2018\u2019\u201a\u201b"
WORDS = st.text(
    st.sampled_from("ab $`\"'\u2018\u2019\u201a\u201b;|&\n(){}%\\") | st.characters(exclude_characters="\0")
)


def read(text: str) -> list[str]:
    """The words of a command in which each is quoted, by PowerShell's rule for single quotes."""
    words, at = list[str](), 0
    while at < len(text):
        assert text[at] == "'"
        word, at = "", at + 1
        while text[at] not in QUOTES or text[at : at + 2] == text[at] * 2:
            word, at = word + text[at], at + (2 if text[at] in QUOTES else 1)
        words.append(word)
        assert text[at] == "'"
        at += 1
        assert text[at : at + 1] in ("", " ")
        at += 1
    return words


@given(st.lists(WORDS, min_size=1))
@example(["it's", "", "$(calc)", "a\u2019; calc; \u2018"])
def test_s_48_every_word_arrives_as_it_is(words: list[str]) -> None:
    command = shell_windows.call_script(words)
    assert command.startswith("& ")
    assert command.endswith("; exit $LASTEXITCODE")
    assert read(command[2 : -len("; exit $LASTEXITCODE")]) == words


def test_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        shell_windows.quote_word("a\0b")


def test_s_48_a_script_of_powershell_is_run_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in that prints what it was given: there is no PowerShell here."""
    stand_in = tmp_path / "bin" / "pwsh"
    stand_in.parent.mkdir()
    stand_in.write_text('#!/bin/sh\nprintf "%s|" "$@"\nexit 3\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
    script = tmp_path / "own" / "check it.ps1"
    script.parent.mkdir()
    script.write_text("exit 0")
    work = tmp_path / "work"
    work.mkdir()
    entry = {"hook_event_name": "PreToolUse", "command": str(script), "args": ["it's", "$HOME"]}
    (hook,) = settings.read_hooks([entry], origins={}, environ={}, home=str(tmp_path / "home"), project=str(work))
    done = asyncio.run(run_hook_command(hook, b"", ground=scripts.HookWorkspace((str(work),)), more={}, seconds=20))
    assert done.exit_code == 3, done
    said = f"& '{script}' 'it''s' '$HOME'; exit $LASTEXITCODE"
    assert done.stdout == f"-NoProfile|-NonInteractive|-Command|{said}|"
