"""The documentation is executed: every `$ adderclaw …` example of README and docs runs, and prints what it says.

In a ```console block a line `$ command` is run by bash, in a home that all examples of the page share. `# exits 3` at
its end names the exit code (else 0); the lines below it are looked for in what came out, `…` standing for anything.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from adderclaw.channels.cli import COMMANDS
from tests.program import PROGRAM, Cli
from tests.rows import rows

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
OURS = re.compile(r"(^|[\s|])adderclaw\s")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


class Example(NamedTuple):
    command: str
    code: int
    output: list[str]


def examples(page: str) -> Iterator[Example]:
    for block in BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.replace("\\\n", "").partition("\n")
            exits = re.search(r"\s+# exits (\d+)$", command)
            code = int(exits[1]) if exits else 0
            yield Example(command[: exits.start()] if exits else command, code, output.splitlines())


def expected(lines: list[str]) -> re.Pattern[str]:
    """The documented lines in order, other lines between them allowed."""
    wanted = (".*".join(map(re.escape, line.rstrip().split("…"))) for line in lines if line.strip("… "))
    return re.compile("".join(rf"^{line}\s*$(?s:.*?)" for line in wanted), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, cli: Cli) -> None:
    env = {**cli.env, "PATH": f"{PROGRAM.parent}:{cli.env['PATH']}"}
    for example in examples(page.read_text(encoding="utf-8")):
        if not OURS.search(example.command):
            continue
        shell = ["bash", "-c", example.command]
        done = subprocess.run(shell, env=env, cwd=cli.cwd, input="", capture_output=True, text=True, timeout=60)
        said = f"$ {example.command}\n{done.stdout}\n--- stderr\n{done.stderr}"
        assert done.returncode == example.code, f"exit code {done.returncode}, {page.name} says {example.code}\n{said}"
        assert "Traceback" not in done.stderr, said
        shown = expected(example.output)
        assert shown.search(done.stdout + done.stderr), (
            f"{page.name} shows:\n" + "\n".join(example.output) + f"\n\n{said}"
        )


def test_every_command_has_an_example() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    commands = [example.command for example in examples(page)]
    missing = [name for name in COMMANDS if not any(f"adderclaw {name}" in command for command in commands)]
    assert not missing, f"docs/commands.md has no example of {missing}"


@rows("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links: list[str] = LINK.findall(page.read_text(encoding="utf-8"))
    broken = [link for link in links if not (page.parent / link).exists()]
    assert not broken
