"""A plain command line means to us exactly what it means to typer; whatever else is written, typer decides."""

from typing import Annotated, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from adderclaw.terminal.commands.agent import agent
from adderclaw.terminal.commands.common import typer_app
from adderclaw.terminal.commands.plain import LIMIT, PROFILE, Option, Plain, ProfileName, parse_plain
from tests.rows import rows

DEFAULTS: dict[str, Any] = {"message": None, "go_on": False, "profile": None, "limit": None, "form": "text"}


def heard(into: list[dict[str, Any]]) -> Plain:
    """A command with one option of every kind that `agent` has; it keeps what it was handed."""

    def command(
        message: Annotated[str | None, Option(("--message", "-m"), "Text.")] = None,
        go_on: Annotated[bool, Option(("--continue", "-c"), "A flag.")] = False,
        profile: Annotated[ProfileName | None, PROFILE] = None,
        limit: Annotated[list[str] | None, LIMIT] = None,
        form: Annotated[str, Option(("--form",), "With a default.")] = "text",
    ) -> int:
        into.append({"message": message, "go_on": go_on, "profile": profile, "limit": limit, "form": form})
        return 7

    return command


WORDS = st.sampled_from(
    [
        *("--message", "-m", "--continue", "-c", "--profile", "--limit", "--form", "--help", "--", "-cm", "-mhello"),
        *("--mess", "--message=a=b", "--message=", "--continue=1", "--profile=readonly", "--profile=none"),
        *("--limit=a=1", "readonly", "hello", "x=y", "-", "-x", "~", "\ufffd"),
    ]
) | st.text(max_size=4)


@given(st.lists(WORDS, max_size=6))
@example(["-m", ""])
@example(["--message=", "-c"])
@example(["-m", "a", "-m", "b"])
@example(["--limit", "a=1", "--limit=b=2", "--form", "", "--profile", "readonly"])
def test_what_is_read_plainly_is_what_typer_reads(arguments: list[str]) -> None:
    into: list[dict[str, Any]] = []
    command = heard(into)
    plain = parse_plain(command, arguments)
    if plain is not None:
        done = CliRunner().invoke(typer_app(command), arguments)
        assert done.exit_code == 7, done.output
        assert [DEFAULTS | plain] == into


PLAIN: list[tuple[list[str], dict[str, Any]]] = [
    (["-m", "hello"], {"message": "hello"}),
    (["--message=a b", "--continue"], {"message": "a b", "go_on": True}),
    (["-r", "id", "-m", "go on"], {"resume": "id", "message": "go on"}),
    (["--profile", "readonly", "-m", "x"], {"profile": "readonly", "message": "x"}),
    (["--output-format", "stream-json", "-m", "x"], {"output_format": "stream-json", "message": "x"}),
    (["--limit", "tokens=5", "--limit", "rounds=1"], {"limit": ["tokens=5", "rounds=1"]}),
    ([], {}),
]


@pytest.mark.parametrize(("arguments", "values"), PLAIN)
def test_the_usual_command_lines_of_agent_are_plain(arguments: list[str], values: dict[str, Any]) -> None:
    assert parse_plain(agent, arguments) == values


TYPERS = [
    ["--help"], ["-m"], ["-mhello"], ["-cm", "x"], ["-m", "-x"], ["-m", "a", "-m", "b"], ["hello"], ["--"],
    ["--profile", "none"], ["--output-format", "xml"], ["--unknown"], ["--mess", "x"], ["-m", "a", "more"],
]  # fmt: skip


@rows("arguments", TYPERS)
def test_whatever_else_is_written_is_typers(arguments: list[str]) -> None:
    assert parse_plain(agent, arguments) is None


def test_help_names_every_option_of_agent() -> None:
    shown = CliRunner().invoke(typer_app(agent), ["--help"]).output
    for hint in agent.__annotations__.values():
        for option in getattr(hint, "__metadata__", ()):
            assert all(name in shown for name in option.names), option
            assert option.help.split()[0] in shown
