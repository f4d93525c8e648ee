"""Commands that pages only mention are ones that the program takes: inside sentences, and in examples not executed."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from typer.exceptions import TyperException

from adderclaw.terminal.commands.table import AGENT_FLAGS, AGENT_OPTIONS, COMMANDS
from adderclaw.terminal.legacy.print_flags import FLAGS
from scripts.generate_command_table import commands
from tests.program import PROGRAM
from tests.rows import rows
from tests.test_docs import PAGES, blocks, name_of, saved_as

FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`adderclaw ([^`]+)`")
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")
EVERYWHERE = {"--help", "--quiet"}


@cache
def known() -> dict[str, Any]:
    """Every command by the words that call it."""
    return dict(commands())


def split(words: list[str]) -> tuple[str, list[str]]:
    """The name of the command that these words call, as far as there is one, and what is left."""
    for length in (2, 1):
        if " ".join(words[:length]) in known():
            return " ".join(words[:length]), words[length:]
    return "", words


def takes(name: str) -> set[str]:
    """The options of a command, or of the program without one."""
    if not name:
        return without_a_command()
    return EVERYWHERE | {one for param in known()[name].params for one in (*param.opts, *param.secondary_opts)}


@cache
def without_a_command() -> set[str]:
    listed = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
    return (
        EVERYWHERE
        | {*OPTION.findall(listed), *AGENT_FLAGS, *AGENT_OPTIONS}
        | {one for flag in FLAGS for one in flag.names}
    )


def passes_on(name: str) -> bool:
    """Whether it takes the options of another command, too."""
    return bool(name and known()[name].context_settings.get("ignore_unknown_options"))


def mentioned(text: str) -> Iterator[str]:
    """What is wrong with a command inside a sentence: its arguments may be left out, not its options misspelt."""
    name, rest = split(text.split())
    if not name and not text.startswith("-"):
        group, *inner = text.split()
        if inner and re.fullmatch("[a-z-]+", inner[0]) and group in COMMANDS:
            yield f"`adderclaw {text}`: {group} has no command {inner[0]}"
    elif not passes_on(name):
        line = re.split(r"[|;&]", " ".join(rest))[0]
        yield from (f"`adderclaw {text}` has {one}" for one in OPTION.findall(line) if one not in takes(name))


def shown(text: str) -> Iterator[str]:
    """What is wrong with a command line: it is parsed as the program does it, and not run."""
    name, rest = split(shlex.split(text, comments=True))
    if not name:
        return
    try:
        known()[name].make_context(name, rest)
    except TyperException as error:
        yield f"adderclaw {text}: {error}"


def lines(page: str) -> Iterator[str]:
    for block in blocks(page):
        if block.mark.startswith("not executed") and block.kind in ("console", "sh"):
            text = block.text.replace("\\\n", "")
            yield from re.findall(r"^(?:\$ )?adderclaw (.+)$", text, re.MULTILINE)


@rows("page", PAGES, ids=name_of)
def test_commands_that_are_named_take_these_options(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = [wrong for one in INLINE.findall(FENCED.sub("", text)) for wrong in mentioned(" ".join(one.split()))]
    assert [*found, *(wrong for line in lines(text) for wrong in shown(line))] == []


WRONG = {
    "fleet report --output report.html": "No such option",
    "fleet report --html report.html": "Missing parameter",
    "checkpoint restore": "Missing parameter",
    "fleet submit --priority high": "is not a valid int",
}


@rows("line", WRONG)
def test_a_command_line_that_would_fail_is_found(line: str) -> None:
    (wrong,) = shown(line)
    assert WRONG[line] in wrong


@rows("text", ["fleet report --output FILE", "run --bugdet 5", "fleet rebort", "-p X --outptu-format json"])
def test_a_command_in_a_sentence_that_is_none_is_found(text: str) -> None:
    assert [*mentioned(text)] != []


@rows("page", PAGES, ids=name_of)
def test_a_reader_is_told_which_file_to_save(page: Path) -> None:
    """The comment above a block is for the test; who reads the page does not see it."""
    text = page.read_text(encoding="utf-8")
    for block in blocks(text):
        if path := saved_as(block):
            before = text.partition(f"<!-- {block.mark} -->")[0].rstrip().rpartition("\n\n")[2]
            assert f"`{path}`" in before, f"{name_of(page)}:{block.line}: the sentence above it does not name {path}"
