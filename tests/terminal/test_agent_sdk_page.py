"""docs/agent-sdk.md: every option and request of both SDKs is in it, with the effect that the program has."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from adderclaw.terminal.legacy.print_flags import FLAGS
from adderclaw.terminal.print_mode import no_effect
from adderclaw.terminal.print_mode.control import REFUSED
from adderclaw.terminal.print_mode.requests import HANDLERS
from tests.tools.mcp.node import ROOT

PAGE = (ROOT / "docs" / "agent-sdk.md").read_text(encoding="utf-8")
TYPES = ROOT / ".cache" / "agent-sdk-ts" / "node_modules" / "@anthropic-ai" / "claude-agent-sdk" / "sdk.d.ts"
PYTHON = ROOT / ".cache" / "agent-sdk" / "claude_agent_sdk" / "types.py"
OF_THE_HOST = {"can_use_tool", "hook_callback", "mcp_message", "elicitation", "request_user_dialog"}
"""Requests that the program sends and the client answers."""
FLAG_OF = {name: flag for flag in FLAGS for name in flag.names}


class Row(NamedTuple):
    cells: tuple[str, ...]

    @property
    def effect(self) -> str:
        found = re.match(r"applied|no effect, reported|rejected, reported|in the SDK", self.cells[-1])
        assert found is not None, self.cells
        return found[0]


def rows(heading: str) -> Iterator[Row]:
    part = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    for line in part.splitlines():
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        if line.startswith("|") and not line.startswith("|---") and "`" in line:
            yield Row(cells)


def names(cell: str) -> set[str]:
    return set(re.findall(r"^`(\w+)`", cell))


def needed(path: Path) -> str:
    if not path.is_file():
        pytest.skip("the public SDKs are not there: scripts/agent-sdk brings them")
    return path.read_text(encoding="utf-8")


def test_each_option_has_the_effect_that_the_page_says() -> None:
    for row in rows("Options"):
        (sent,) = re.findall(r"`([^`]+)`", row.cells[2]) or [""]
        if row.effect == "in the SDK" or not sent:
            continue
        kind, _, name = sent.partition(".")
        if sent.startswith("--"):
            flag = FLAG_OF[sent]
            now = "rejected" if flag.rejected else "no effect" if flag.no_effect else "applied"
        elif kind == "initialize":
            assert (name in no_effect.FIELDS) is not (name in no_effect.APPLIED), sent
            now = "no effect" if name in no_effect.FIELDS else "applied"
        elif kind == "message":
            now = "applied"
        else:
            assert sent in no_effect.VARIABLES
            now = "no effect"
        assert row.effect.startswith(now), (sent, now)


def test_each_request_has_the_effect_that_the_page_says() -> None:
    table = {name: row.effect for row in rows("Control requests") for name in names(row.cells[0])}
    assert {name for name, effect in table.items() if effect == "applied"} == HANDLERS.keys()
    assert REFUSED.keys() <= {name for name, effect in table.items() if effect == "rejected, reported"}


def test_every_option_and_request_of_the_typescript_sdk_is_on_the_page() -> None:
    types = needed(TYPES)
    options = types.partition("export declare type Options = {\n")[2].partition("\n};")[0]
    wanted = set(re.findall(r"^    (\w+)\??:", options, re.M))
    assert len(wanted) > 60
    assert wanted == {name for row in rows("Options") for name in names(row.cells[0])}
    union = types.partition("declare type SDKControlRequestInner = ")[2].partition(";")[0]
    sent = {
        subtype
        for name in union.split(" | ")
        for subtype in re.findall(rf"declare type {name} = {{\n    subtype: '(\w+)'", types)
    }
    assert len(sent) > 30
    table = {name for row in rows("Control requests") for name in names(row.cells[0])}
    assert sent - OF_THE_HOST <= table


def test_every_option_of_the_python_sdk_is_on_the_page() -> None:
    options = needed(PYTHON).partition("\nclass ClaudeAgentOptions:")[2].partition("\n# SDK Control Protocol")[0]
    wanted = set(re.findall(r"^    ([a-z_]+): ", options, re.M))
    assert len(wanted) > 40
    assert wanted == {name for row in rows("Options") for name in names(row.cells[1])}
