"""The settings that docs/providers.md shows are valid, all of them together."""

import re
from pathlib import Path

from adderclaw.core.provider_kinds import BY_NAME
from tests.program import Cli

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "providers.md").read_text(encoding="utf-8")


def test_the_settings_shown_are_valid(cli: Cli) -> None:
    blocks: list[str] = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    cli("init")
    cli.configure("\n".join(blocks))
    done = cli("config", "validate")
    assert done.code == 0, done.err
    listed = cli("provider", "list").out
    assert "cannot be used" not in listed
    assert "cheap → ollama, plan → claude, vision → gpt, long-context → gemini, all else → claude" in listed


def test_every_kind_is_on_the_page() -> None:
    missing = [kind for kind in BY_NAME if f"`{kind}`" not in PAGE]
    assert not missing
