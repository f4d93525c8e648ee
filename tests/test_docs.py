"""The documentation is executed: every example of README and docs runs and prints what it shows, or says why not.

In a ```console block a line `$ command` is run by bash, in a home that all examples of the page share. Variables that
one sets are there in the next. `# exits 3` at its end names the exit code (else 0). The lines below it are looked for
in what came out, `…` standing for anything. Settings (```toml) are loaded, JSON is parsed. A comment above a block
says what else happens to it: it is saved as a file, another test executes it, or it is not executed, with a reason.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from adderclaw import config
from adderclaw.flows.sop.parse import parse as parse_sop
from adderclaw.models.http import signing
from adderclaw.terminal.commands.table import COMMANDS
from scripts import acceptance, generate_reference
from tests.program import Cli
from tests.rows import rows

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*) -->\n+)?```(?P<kind>[^\n]*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
COMMAND = re.compile(r"^(\$ |(adderclaw|curl|make|pip|pipx|uv|docker|git|sudo|export|cd) )", re.MULTILINE)
SHOWN_ONLY = {"", "text", "markdown"}
"""Kinds of blocks that hold no command; where one does, it is an example like the others."""
REASONS = (
    "needs a real model",
    "needs a person at a terminal",
    "needs another machine",
    "needs root",
    "needs a program that is not ours",
    "installs on this machine",
    "stays in the foreground",
    "is a file of another program",
    "shows a form, not a command",
    "takes minutes",
)
"""Why an example is not executed; docs/testing.md explains them."""


class Block(NamedTuple):
    kind: str
    text: str
    mark: str
    line: int


class Example(NamedTuple):
    command: str
    code: int
    output: list[str]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: str) -> Iterator[Block]:
    for found in BLOCK.finditer(page):
        yield Block(found["kind"], found["text"], found["mark"] or "", page.count("\n", 0, found.start()) + 1)


def saved_as(block: Block) -> str:
    """The file that the examples below use it as."""
    return found[1] if (found := re.fullmatch(r"saved as (\S+)", block.mark)) else ""


def examples(page: str) -> Iterator[Example]:
    for block in blocks(page):
        if path := saved_as(block):
            yield Example(f"mkdir -p $(dirname {path}) && cat > {path} <<'END OF FILE'\n{block.text}END OF FILE", 0, [])
        if block.kind != "console" or block.mark:
            continue
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, output = part.replace("\\\n", "").partition("\n")
            exits = re.search(r"\s+# exits (\d+)$", command)
            code = int(exits[1]) if exits else 0
            yield Example(command[: exits.start()] if exits else command, code, output.splitlines())


def expected(lines: list[str]) -> re.Pattern[str]:
    """The documented lines in order, other lines between them allowed."""
    wanted = (".*".join(map(re.escape, line.rstrip().split("…"))) for line in lines if line.strip("… "))
    return re.compile("".join(rf"^{line}\s*$(?s:.*?)" for line in wanted), re.MULTILINE)


def of_one_page(command: str, variables: Path) -> list[str]:
    """The command as bash runs it, with the variables of the examples before it."""
    keep = f"trap 'export -p | grep -v \"PWD=\" > {variables}' EXIT"
    return ["bash", "-c", f"[ ! -f {variables} ] || . {variables}; {keep}; set -a\n{command}\n"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_run(page: Path, cli: Cli, needs: Callable[[str], str]) -> None:
    env = {**cli.env, "PATH": f"{cli.folder}:{cli.env['PATH']}"}
    found = [*examples(page.read_text(encoding="utf-8"))]
    if any(example.command.startswith("curl ") for example in found):
        needs("curl")
    try:
        for example in found:
            shell = of_one_page(example.command, cli.home / ".variables")
            done = subprocess.run(shell, env=env, cwd=cli.cwd, input="", capture_output=True, text=True, timeout=180)
            said = f"$ {example.command}\n{done.stdout}\n--- stderr\n{done.stderr}"
            wrong = f"exit code {done.returncode}, {page.name} says {example.code}\n{said}"
            assert done.returncode == example.code, wrong
            assert "Traceback" not in done.stderr, said
            shown = expected(example.output)
            assert shown.search(done.stdout + done.stderr), (
                f"{page.name} shows:\n" + "\n".join(example.output) + f"\n\n{said}"
            )
    finally:
        running = cli.data / "server" / "running.json"
        if running.exists():
            os.kill(json.loads(running.read_bytes())["pid"], signal.SIGTERM)


def unmarked(block: Block) -> str:
    """Why a block that has no comment above it would be no executed example; nothing where it is one."""
    if block.kind == "console":
        return "" if block.text.startswith("$ ") else "has no line that begins with `$ `"
    if block.kind in SHOWN_ONLY:
        return "shows commands: make it ```console" if COMMAND.search(block.text) else ""
    return "" if block.kind in ("toml", "json") else f"is {block.kind}, which nothing executes"


def why_not(block: Block) -> str:
    """What is wrong with the comment above a block."""
    if saved_as(block):
        return ""
    if test := re.fullmatch(r"executed by (tests/\S+)", block.mark):
        return "" if acceptance.exists(test[1]) else f"names {test[1]}, which is not there"
    if block.mark == "executed by .ci/run":
        steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
        commands = [line.removeprefix("$ ") for line in block.text.splitlines()]
        missing = [command for command in commands if f"step {command}" not in steps and f'"{command}"' not in steps]
        return f"has {missing}, which .ci/run does not run" if missing else ""
    reason = block.mark.removeprefix("not executed: ")
    known = reason != block.mark and reason.startswith(REASONS)
    return "" if known else f"has the comment {block.mark!r}, which gives none of the known reasons"


@rows("page", PAGES, ids=name_of)
def test_every_example_is_executed_or_says_why_not(page: Path) -> None:
    found = [
        f"{name_of(page)}:{block.line} {wrong}"
        for block in blocks(page.read_text(encoding="utf-8"))
        if (wrong := why_not(block) if block.mark else unmarked(block))
    ]
    assert not found


def test_the_reasons_are_explained() -> None:
    page = (DOCS / "testing.md").read_text(encoding="utf-8")
    assert not [reason for reason in REASONS if f"`{reason}`" not in page]


SILENT = {
    "```sh\nls\n```\n": "which nothing executes",
    "```\nadderclaw serve\n```\n": "make it ```console",
    "```text\n$ adderclaw serve\n```\n": "make it ```console",
    "```console\nadderclaw serve\n```\n": "no line that begins",
    "<!-- not executed: no time -->\n```console\n$ ls\n```\n": "none of the known reasons",
    "<!-- needs root -->\n```console\n$ ls\n```\n": "none of the known reasons",
    "<!-- executed by tests/test_docs.py::test_gone -->\n```console\n$ ls\n```\n": "which is not there",
    "<!-- executed by .ci/run -->\n```console\n$ make gone\n```\n": "which .ci/run does not run",
}


@rows("page", SILENT)
def test_a_silent_example_is_found(page: str) -> None:
    (block,) = blocks(page)
    assert SILENT[page] in (why_not(block) if block.mark else unmarked(block))


@rows("page", PAGES, ids=name_of)
def test_settings_that_are_shown_are_valid(page: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """```toml is a procedure (`[[steps]]`), a plugin's manifest (`capabilities`, tests/config) or configuration."""
    for name, value in cli.env.items():
        monkeypatch.setenv(name, value)
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.mark and not saved_as(block):
            continue
        if block.kind == "json" and "…" not in block.text:
            assert [json.loads(part) for part in re.split(r"(?<=\})\n(?=\{)", block.text.strip())]
        if block.kind == "toml":
            found = tomllib.loads(block.text)
            if "steps" in found:
                parse_sop(block.text, "SOP.toml")
            elif not found.keys() & {"capabilities", "rules"}:
                cli.configure(block.text)
                config.load(config_file=str(cli.data / "config.toml"), cwd=str(cli.cwd))


def test_the_six_lines_that_verify_a_notice() -> None:
    (lines,) = (block.text for block in blocks((DOCS / "channels.md").read_text()) if "def is_genuine" in block.text)
    given: dict[str, Any] = {}
    exec(lines, given)
    secret = signing.new_secret()
    sent = signing.headers([secret], b"{}", id="notice-1", now=1_800_000_000)
    assert given["is_genuine"](sent, b"{}", secret)
    assert not given["is_genuine"](sent, b"{ }", secret)
    assert not given["is_genuine"](sent, b"{}", signing.new_secret())


def test_every_command_has_an_example() -> None:
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    commands = [example.command for example in examples(page)]
    missing = [name for name in COMMANDS if not any(f"adderclaw {name}" in command for command in commands)]
    assert not missing, f"docs/commands.md has no example of {missing}"


# ------------------------------------------------------------------ what is generated, what is named


@rows("script", ["generate_reference", "draw_pictures"])
def test_what_is_generated_is_current(script: str) -> None:
    argv = [sys.executable, str(ROOT / "scripts" / f"{script}.py"), "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_variables_that_are_listed_are_read_somewhere() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    made = {"ADDERCLAW_FLEET_KEY_FILE", "ADDERCLAW_UNPACK"}
    assert {name for name in generate_reference.VARIABLES if name not in source} == made
    assert {"GOOGLE_API_KEY", "ADDERCLAW_UNPACK", "ADDERCLAW_PASSPHRASE"} <= generate_reference.read_variables()


@rows("page", PAGES, ids=name_of)
def test_commands_and_files_that_are_named_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    words = set(re.findall(r"`adderclaw ([a-z]+)\b", text)) - COMMANDS.keys()
    paths = set(re.findall(r"`((?:tests|scripts|examples|demo)/[\w./-]+)`", text))
    assert not words | {path for path in paths if not (ROOT / path).exists()}


# ------------------------------------------------------------------ links


def anchors(page: Path) -> set[str]:
    """What can stand behind `#`, as a code host and the site make it of a heading."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@rows("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    broken: list[str] = []
    for path, anchor in LINK.findall(text):
        target = page.parent / path if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(f"{path}#{anchor}")
    assert not broken


def listed(page: Path) -> list[Path]:
    """The pages that an index lists: one line each, `- [Title](page.md): what it is for`."""
    found = re.findall(r"^- \[[^]]*\]\(([\w/-]+\.md)\)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [page.parent / one for one in found]


def test_every_page_is_listed_in_an_index_once() -> None:
    reached = [DOCS / "index.md", *(page for index in DOCS.rglob("index.md") for page in listed(index))]
    missing = [name_of(page) for page in DOCS.rglob("*.md") if page not in reached]
    assert not missing, f"a line in docs/index.md makes a page a part of the site: {missing}"
    assert len(reached) == len(set(reached)), "a page has one place in the navigation"
