"""The list of messages finds every kind, and the number of messages with worn-out phrases only goes down."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from scripts.list_messages import Message, messages
from tests.rows import rows

ROOT = Path(__file__).parents[1]
PHRASES = re.compile(
    r"\bis none\b|\bwhat is no\b|\banew\b|\bwhoever\b|\bof ours\b|\bto be had\b|\bit is said\b|\bmakes? itself known\b"
    r"|\bgo(?:es)? on\b|\bstands\b(?! for)|\blies\b|\bbeside\b|\blets? \w+ through\b|\bnobody is there\b"
    r"|\ball is as it was\b",
    re.IGNORECASE,
)
CEILINGS = {
    "agent": 24,
    "clients": 3,
    "config": 6,
    "core": 1,
    "fleet": 10,
    "flows": 35,
    "models": 9,
    "policy": 1,
    "sandbox": 3,
    "server": 12,
    "storage": 13,
    "terminal": 59,
    "tools": 11,
}
"""Room → how many of its messages have such a phrase. The numbers only go down: lower one when you rewrote some."""
ALLOWED: set[tuple[str, str]] = set()
"""(path, phrase): messages where the phrase is the right word. This set only shrinks."""

LISTED = list(messages())


SAMPLE = '''
"""A module, of which this is no message."""

class LostError(OSError):
    """A class, of which this is none."""

WARNINGS = {"a": "the key is old"}
HINT = "write two words"
HELP: str = text("words \\n of two lines")
type Word = Literal["of no interest"]
ROWS = compile(r"(?:two words)"), "SELECT two words", "two-words", Flag("--two", "A flag of a table.")

@app.command()
def show(*, name: Annotated[str, Option(help="An option to show.")]) -> None:
    """Show one of them."""
    if name == "two words":
        raise LostError(f"no run {name} of {len(runs)}")
    print(f"run {run.id}: {'is done' if run.done else state(run)}")

def denial() -> str:
    return "Denied by " + name, Denial(kind="rule", reason=f"the rule {rule.text!r} says no")

def look() -> str:
    return "nothing to see"
'''


def worn(message: Message) -> str:
    """The first phrase of a message that is not to be there, or nothing."""
    match = PHRASES.search(message.text)
    return match[0].lower() if match and (message.path, match[0].lower()) not in ALLOWED else ""


def test_worn_out_phrases_become_fewer() -> None:
    found = [message for message in LISTED if worn(message) and not message.room.endswith("/legacy")]
    counts = Counter(message.room for message in found)
    more = {room for room in counts if counts[room] > CEILINGS.get(room, 0)}
    assert more == set(), "say it in plain words:\n" + "\n".join(
        f"{message.path}:{message.line}: {worn(message)!r} in {message.text!r}"
        for message in found
        if message.room in more
    )


def test_every_exception_is_needed() -> None:
    used = {(message.path, match.lower()) for message in LISTED for match in PHRASES.findall(message.text)}
    assert used >= ALLOWED


@rows(
    ("kind", "text"),
    [
        ("error", "no run {name} of {runs}"),
        ("warning", "the key is old"),
        ("hint", "write two words"),
        ("help", "words \\n of two lines"),
        ("help", "Show one of them."),
        ("help", "An option to show."),
        ("print", "run {run.id}: {'is done' if run.done else state(run)}"),
        ("denial", "the rule {rule.text} says no"),
        ("return", "nothing to see"),
        ("text", "A flag of a table."),
    ],
)
def test_each_kind_of_message_is_listed(tmp_path: Path, kind: str, text: str) -> None:
    (tmp_path / "sample.py").write_text(SAMPLE)
    assert (kind, text.replace("\\n", "\n")) in {(message.kind, message.text) for message in messages(tmp_path)}


def test_what_is_no_message_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(SAMPLE)
    listed = {message.text for message in messages(tmp_path)}
    assert not listed & {"of no interest", "(?:two words)", "SELECT two words", "two-words", "two words"}
    assert not any(text.startswith(("A module", "A class")) for text in listed)


def test_the_script_prints_one_line_for_each_message() -> None:
    run = subprocess.run([sys.executable, "scripts/list_messages.py"], cwd=ROOT, capture_output=True, encoding="utf-8")
    lines = [line for line in run.stdout.split("\n") if line and not line.startswith("# ")]
    assert (run.returncode, len(lines)) == (0, len(LISTED))
    assert any(line.endswith(": return: Denied by {decision.by}: {decision.reason}") for line in lines)
    assert {f"# {message.room or 'adderclaw'}" for message in LISTED} <= set(run.stdout.split("\n"))
