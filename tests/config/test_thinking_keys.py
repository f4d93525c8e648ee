"""What an entry may say of thinking, and what it may add to each request."""

import pytest

from tests.config.conftest import World
from tests.rows import rows

ENTRY = '[providers.models.lab]\nkind = "openai-compatible"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'


@pytest.mark.parametrize("level", ["none", "minimal", "low", "medium", "high", "xhigh", "max"])
def test_the_levels(world: World, level: str) -> None:
    world.user(f'{ENTRY}effort = "{level}"\nthinking = "enabled"\nthinking_tokens = 7\n')
    entry = world.load().config.providers.models["lab"]
    assert (entry.effort, entry.thinking, entry.thinking_tokens) == (level, "enabled", 7)


@rows(
    ("line", "words"),
    [
        ('effort = "huge"', ["effort", '"huge" is not allowed', '"xhigh"']),
        ("effort = 5", ["effort", "5 is not allowed"]),
        ('thinking = "on"', ["thinking", '"adaptive"']),
        ("thinking_tokens = -1", ["thinking_tokens", "-1 is not allowed"]),
        ("extra_body = 5", ["extra_body"]),
        ("extra_body = { messages = [] }", ["extra_body.messages", "controlled by AdderClaw"]),
        ("extra_body = { stream = false, model = 'x' }", ["extra_body.model", "extra_body.stream"]),
        ("extra_body = { tools = [], max_tokens = 9 }", ["extra_body.max_tokens", "extra_body.tools"]),
        ("extra_body = { mcp_servers = [] }", ["extra_body.mcp_servers"]),
        (
            "extra_body = { generationConfig = { maxOutputTokens = 9 } }",
            ["extra_body.generationConfig.maxOutputTokens"],
        ),
        (
            "extra_body = { generation_config = { max_output_tokens = 9 } }",
            ["extra_body.generation_config.max_output_tokens"],
        ),
        (f"extra_body = {{ a = '{'x' * 17_000}' }}", ["extra_body", "at most 16,384"]),
        ("extra_body = { api_key = 'sk-ant-0123456789abcdefghij' }", ["extra_body.api_key", "do not belong in a file"]),
    ],
)
def test_what_is_refused(world: World, line: str, words: list[str]) -> None:
    world.user(f"{ENTRY}{line}\n")
    found = " ".join(world.problems())
    assert [word for word in words if word not in found] == []


def test_a_project_adds_nothing_to_requests_until_it_is_trusted(world: World) -> None:
    world.user(ENTRY)
    world.project('providers: {models: {lab: {extra_body: {top_k: 3}, effort: "max"}}}\n')
    entry = world.load().config.providers.models["lab"]
    assert (entry.extra_body, entry.effort) == ({}, None)
    world.trust()
    entry = world.load().config.providers.models["lab"]
    assert (entry.extra_body, entry.effort) == ({"top_k": 3}, "max")
