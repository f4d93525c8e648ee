"""The registry: names, aliases, what is advertised, and the generated file that it comes from."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adderclaw.agent.session.prompt import advertised_tools
from adderclaw.config.schema import Config
from adderclaw.core.host import ToolContext
from adderclaw.core.tool_traits import NAMES
from adderclaw.core.types import Alias, ToolResult, Workspace
from adderclaw.storage import Store, transcript
from adderclaw.tools import (
    Kit,
    builtin_tools,
    decode_arguments,
    find_tool,
    generate,
    nearest_name,
    resolve_arguments,
    specs,
)
from tests.rows import rows
from tests.tools.conftest import Bench, FixedClock

# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Raed", "Read"),
        ("frobnicate", None),
        ("READ", "Read"),
        ("file_raed", "file_read"),
        ("", None),
        ("x" * 9999, None),
    ],
)
def test_unknown_names(name: str, near: str | None) -> None:
    tools = builtin_tools(Kit(Config(), None, FixedClock()))
    assert find_tool(tools, name) is None
    assert nearest_name(tools, name) == near


ALIASES = {
    "file_read": "Read", "read": "Read", "file_write": "Write", "write": "Write", "edit": "Edit", "file_list": "LS",
    "ls": "LS", "glob": "Glob", "grep": "Grep", "http": "Http", "time": "Time", "memory_search": "MemorySearch",
    "memory_read": "MemoryRead", "memory_write": "MemoryWrite", "shell": "Bash", "bash": "Bash",
}  # fmt: skip


@rows("name", ALIASES)
def test_every_seeds_name_is_found(name: str) -> None:
    found = find_tool(builtin_tools(Kit(Config(), None, FixedClock())), name)
    assert found
    assert found[0].name == ALIASES[name]
    assert found[1]
    assert found[1].name == name


def test_the_order_never_changes() -> None:
    assert tuple(builtin_tools(Kit(Config(), None, FixedClock()))) == NAMES


def test_an_aliases_arguments_and_defaults() -> None:
    alias = Alias("x", {"path": "file_path"}, {"limit": 5, "offset": 1})
    assert resolve_arguments(alias, {"path": "a", "limit": 7}) == {"file_path": "a", "limit": 7, "offset": 1}
    assert resolve_arguments(None, {"path": "a"}) == {"path": "a"}


# ------------------------------------------------------------------ what is advertised


def test_the_generated_file_is_what_the_types_say() -> None:
    assert Path(specs.FILE).read_text(encoding="utf-8") == generate.render_schemas(generate.load_all_tools()), (
        "run `python -m adderclaw.tools.generate`"
    )


def test_everything_advertised_fits_in_a_small_request() -> None:
    tools = advertised_tools(builtin_tools(Kit(Config(), None, FixedClock())).values())
    told = [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools]
    assert len(json.dumps(told, separators=(",", ":")).encode()) <= 7400


def test_every_tool_has_a_description_and_a_closed_schema() -> None:
    for name, spec in specs.specs().items():
        assert spec.description, name
        assert spec.parameters["type"] == "object"
        assert spec.parameters["additionalProperties"] is False


def test_building_the_tools_imports_nothing_heavy() -> None:
    heavy = "pydantic rich prompt_toolkit yaml tomlkit tree_sitter httpx2 httpcore2 anyio pathspec ctypes difflib"
    code = (
        "import sys; from adderclaw.tools import Kit, builtin_tools;"
        "from adderclaw.config.schema import Config;"
        "builtin_tools(Kit(Config(), None, None));"
        f"print([name for name in {heavy.split()} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ------------------------------------------------------------------ Time


def test_time_tells_three_things(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        shown = bench.call("time").content
    finally:
        monkeypatch.undo()
        time.tzset()
    assert shown == (
        "local time: 2023-11-15 03:43:20\nUTC: 2023-11-14T22:13:20Z\ntimezone: Asia/Kolkata (IST, UTC+05:30)"
    )


# ------------------------------------------------------------------ memory


async def remembered(store: Store | None, name: str, **given: Any) -> ToolResult:
    found = find_tool(builtin_tools(Kit(Config(), store, FixedClock())), name)
    assert found
    tool, alias = found
    context = ToolContext("c", "s", Workspace(os.getcwd()))
    return await tool.prepare(decode_arguments(tool, resolve_arguments(alias, given)), context).run()


def memory(store: Store | None, name: str, **given: Any) -> ToolResult:
    import asyncio

    return asyncio.run(remembered(store, name, **given))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "memory.sqlite"))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("MemorySearch", {"query": "  "}),
        ("MemorySearch", {"query": "x", "limit": 0}),
        ("MemorySearch", {"query": "x", "limit": 1000}),
        ("MemoryRead", {"key": "never written"}),
        ("MemoryWrite", {"key": "", "value": "x"}),
        ("MemoryWrite", {"key": "a\nb", "value": "x"}),
        ("MemoryWrite", {"key": "k" * 201, "value": "x"}),
        ("MemoryWrite", {"key": "k", "value": "x" * 70_000}),
    ],
)
def test_memory_that_is_rejected(name: str, given: dict[str, Any], store: Store) -> None:
    assert memory(store, name, **given).error_class == "tool_rejected"


@pytest.mark.parametrize("name", ["memory_read", "memory_write", "memory_search"])
def test_no_store_is_said(name: str) -> None:
    given = {"memory_read": {"key": "k"}, "memory_write": {"key": "k", "value": "v"}, "memory_search": {"query": "q"}}
    assert "without a database" in memory(None, name, **given[name]).content


def test_notes_are_kept(store: Store) -> None:
    assert memory(store, "memory_write", key="colour", value="blue").content.startswith("Saved colour (4 bytes)")
    assert memory(store, "memory_write", key="colour", value="grün").content.startswith("Saved colour (5 bytes)")
    assert memory(store, "memory_read", key="colour").content == "grün"
    assert "Similar keys: colour" in memory(store, "MemoryRead", key="colou").content


def test_earlier_conversations_are_found(store: Store) -> None:
    with store.write() as cursor:
        transcript.begin(cursor, conversation_id="conv-1", session_id="s-1", project_dir=os.getcwd())
        transcript.append(cursor, "s-1", "user", {"content": "The code is heron."})
    found = memory(store, "memory_search", query="heron").content
    assert re.match(r"conv-1 \d{4}-\d\d-\d\d.* user: .*heron", found)
    assert "No matches found" in memory(store, "memory_search", query="flamingo").content
