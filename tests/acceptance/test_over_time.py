"""Nothing is lost under load and over time: long outputs, many runs, a store that disappears, a server that stalls."""

import re
from pathlib import Path

import pytest

from tests.acceptance.world import World, call, text


def result_of(world: World, command: str, **more: object) -> str:
    world.configure(autonomy="full")
    world.script(call("Bash", command=command, **more), text("done"))
    done = world.agent("go")
    assert done.code == 0, done.err
    return world.entries("tool_result")[-1]["content"]


def kept_file(shown: str) -> Path:
    found = re.search(r"Read (\S+) has", shown)
    assert found, shown[14_900:15_300]
    return Path(found[1])


def test_31_the_end_of_a_long_output_is_shown_and_the_file_has_all_of_it(world: World) -> None:
    shown = result_of(world, "seq 1 400000 && echo ERROR && false")
    assert "399999\n400000\nERROR\n" in shown
    assert "has all of it" in shown
    lines = kept_file(shown).read_text(encoding="utf-8").splitlines()
    assert lines == ["Exit code 1", *map(str, range(1, 400_001)), "ERROR"]


def test_31_what_is_past_the_limit_is_dropped_and_counted_and_nothing_is_killed(world: World) -> None:
    shown = result_of(world, "seq 1 9000000 && echo ERROR >&2 && touch reached && false")
    assert "8999999\n9000000\n" in shown
    assert "--- stderr ---\nERROR\n" in shown
    assert "has all of it" not in shown
    assert (world.workspace / "reached").exists()
    kept = kept_file(shown).read_bytes()
    told = re.search("\n\\[… (\\d+) bytes were dropped here …\\]\n".encode(), kept)
    assert told
    assert f"{int(told[1]):,} bytes dropped" in shown
    whole = ("\n".join(map(str, range(1, 9_000_001))) + "\n").encode()
    head = kept[: told.start()].removeprefix(b"Exit code 1\n")
    tail = kept[told.end() :].split(b"[SDLC_TRUNCATED]")[0]
    assert len(head) + len(tail) + int(told[1]) == len(whole)
    assert whole.startswith(head)
    assert whole.endswith(tail)


@pytest.mark.parametrize("command", ["git status && seq 1 400000 >&2 && git nonsense", "seq 1 400000 >&2; exit 3"])
def test_31_the_end_of_stderr_too_and_of_each_part_of_a_command(world: World, command: str) -> None:
    world.cli.cwd = world.workspace
    shown = result_of(world, f"git init -q; {command}")
    assert "399999\n400000\n" in shown
    assert kept_file(shown).read_text(encoding="utf-8").count("\n400000\n") == 1
