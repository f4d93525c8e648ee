"""The change that a call made, as it is drawn: what of its result is the diff."""

from adderclaw.agent.session.session import hook_text
from adderclaw.agent.view.calls import change, parsed
from adderclaw.agent.view.items import Line

DIFF = "@@ -1,3 +1,3 @@\n \n-old\n+new\n last"
LINES = (Line(" ", 1, ""), Line("-", 2, "old"), Line("+", 2, "new"), Line(" ", 3, "last"))
PRINTED = "ruff could not check a.py:\n-- stderr ---\n--- stderr ---\n+ more\n  indented\n\\ words"


def test_what_hooks_say_after_an_edit_is_no_part_of_its_diff() -> None:
    for after in (f"\n\n{hook_text('AfterEdit', [PRINTED])}", "\n(and 2 more)", "\n-- stderr ---\n  text", ""):
        made = change("Edit", {"file_path": "a.py"}, {"content": f"Edited a.py (3 lines):\n{DIFF}{after}"})
        assert made is not None
        assert made.lines == LINES, after


def test_a_diff_of_several_hunks_is_numbered_by_its_heads() -> None:
    lines = parsed(f"{DIFF}\n\\ No newline at end of file\n@@ -9 +9,2 @@\n-a\n+b\n+c\n\\ the rest is not shown")
    more = (
        Line("@", 9, ""),
        Line("-", 9, "a"),
        Line("+", 9, "b"),
        Line("+", 10, "c"),
        Line("@", 11, "the rest is not shown"),
    )
    assert lines == LINES + more
    assert parsed("@@ -0,0 +1,2 @@\n+a\n+b") == (Line("+", 1, "a"), Line("+", 2, "b"))
    assert parsed("@@ -1 +1 @@\n\\ it was no text before\n+a") == (
        Line("@", 1, "it was no text before"),
        Line("+", 1, "a"),
    )
