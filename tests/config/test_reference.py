"""The reference and the examples are true: generated, and accepted by the schema."""

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config import example, load
from adderclaw.config.reference import reference
from adderclaw.config.schema import Config, ProviderEntry
from adderclaw.core.decode import field_docs, plain_type
from tests.config.conftest import World
from tests.rows import rows

ROOT = Path(__file__).resolve().parent.parent.parent


def classes(kind: Any) -> list[type]:
    inner = [plain_type(spec.type) for spec in fields(kind)]
    return [kind, *(found for each in inner if is_dataclass(each) for found in classes(each))]


@rows("kind", [*classes(Config), ProviderEntry])
def test_every_key_is_explained(kind: type) -> None:
    docs = field_docs(kind)
    missing = [spec.name for spec in fields(kind) if not docs.get(spec.name)]
    assert missing == []


def test_the_page_is_the_generated_one() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == reference(), "run: adderclaw config reference > docs/configuration.md"


def test_the_users_example_says_the_defaults(world: World) -> None:
    world.user(example.own())
    loaded = world.load()
    assert loaded.warnings == ()
    (world.own / "config.toml").unlink()
    assert loaded.config == world.load().config


@pytest.mark.parametrize("suffix", ["yaml", "toml", "json"])
def test_the_projects_example_is_valid(world: World, suffix: str) -> None:
    path = world.project(example.of_project(f"agent.{suffix}"), f"agent.{suffix}")
    config = load(config_file=str(path)).config
    assert config.default_provider == "anthropic"
    assert config.providers.models["anthropic"].model == "sonnet"
