"""Compaction: the window never overflows, what is pinned survives word for word, nothing leaves the store."""

import json
from typing import Any

from tests.acceptance.world import World
from tests.scripted import ScriptedModel
from tests.tools.test_media import png

CONSTRAINT = "Never touch the file vault.txt, whatever happens."


def configured(world: World, url: str, window: int) -> None:
    world.configure(
        autonomy="full",
        rounds=100,
        more=f"""
[providers.models.small]
kind = "openai-compatible"
base_url = "{url}"
model = "small"
context_tokens = {window}
""",
    )


def asked_to_summarise(request: dict[str, Any]) -> bool:
    return "tools" not in request and "Write the summary now." in json.dumps(request["messages"][-1])


def bodies(model: ScriptedModel) -> list[dict[str, Any]]:
    return [request.json for request in model.requests]


def test_a_long_run_is_compacted_and_keeps_what_the_user_said(world: World) -> None:
    (world.workspace / "big.txt").write_text("\n".join(f"line {n} " + "x" * 60 for n in range(120)))
    steps: list[Any] = [
        {"tool_calls": [{"name": "Read", "arguments": {"file_path": "big.txt", "offset": number + 1}}]}
        for number in range(12)
    ]
    # summaries are answered out of turn: the model server plays one whenever it is asked for one
    with ScriptedModel(
        [*steps, {"text": "done"}], aside={"Write the summary now.": {"text": "SUMMARY OF EVERYTHING"}}
    ) as model:
        configured(world, model.base_url, window=12_000)
        done = world.agent(CONSTRAINT, "--provider", "small")
        assert done.code == 0, done.err
        assert done.out == "done\n"
    sent = bodies(model)
    summaries = [request for request in sent if asked_to_summarise(request)]
    assert summaries, "a window of 12,000 tokens cannot hold twelve such results"
    last = json.dumps(sent[-1])
    assert CONSTRAINT in last
    assert "SUMMARY OF EVERYTHING" in last
    assert all(len(json.dumps(request)) < 12_000 * 4 for request in sent)
    assert "context_compacted" in done.err
    assert len(world.entries("tool_result")) == 12, "nothing is deleted from the store"
    boundaries = [entry for entry in world.entries("system") if entry["subtype"] == "compact_boundary"]
    assert len(boundaries) == len(summaries)
    assert world.cli("receipt", "verify").code == 0


def test_a_compacted_conversation_goes_on_in_another_process(world: World) -> None:
    (world.workspace / "big.txt").write_text("y" * 9_000)
    steps: list[Any] = [{"tool_calls": [{"name": "Read", "arguments": {"file_path": "big.txt"}}]} for _ in range(6)]
    answers = [*steps, {"text": "one"}, {"text": "two"}]
    with ScriptedModel(answers, aside={"Write the summary now.": {"text": "SUMMARY"}}) as model:
        configured(world, model.base_url, window=7_000)
        assert world.agent(CONSTRAINT, "--provider", "small").code == 0
        before = bodies(model)[-1]["messages"]
        done = world.agent("and now?", "--continue", "--provider", "small")
        assert done.out == "two\n"
        after = bodies(model)[-1]["messages"]
    assert after[: len(before)] == before, "a resumed history is the compacted one, byte for byte"
    assert CONSTRAINT in json.dumps(after)


def test_an_overflow_is_compacted_not_retried(world: World) -> None:
    overflow = {"error": {"status": 400, "body": {"error": {"code": "context_length_exceeded", "message": "too long"}}}}
    steps: list[Any] = [
        {"tool_calls": [{"name": "Time", "arguments": {}}]},
        {"tool_calls": [{"name": "LS", "arguments": {"path": "."}}]},
        overflow,
        {"text": "done"},
    ]
    with ScriptedModel(steps, aside={"Write the summary now.": {"text": "SUMMARY"}}) as model:
        configured(world, model.base_url, window=100_000)
        done = world.agent("go", "--provider", "small")
        assert done.code == 0, done.err
        assert done.out == "done\n"
    assert "llm_retry_scheduled" not in done.err


def test_a_model_that_cannot_summarise_still_lets_the_work_go_on(world: World) -> None:
    (world.workspace / "big.txt").write_text("z" * 9_000)
    steps: list[Any] = [{"tool_calls": [{"name": "Read", "arguments": {"file_path": "big.txt"}}]} for _ in range(4)]
    refusal = {"error": {"status": 401, "body": {"error": {"message": "no"}}}}
    with ScriptedModel([*steps, {"text": "done"}], aside={"Write the summary now.": refusal}) as model:
        configured(world, model.base_url, window=4_000)
        done = world.agent("go", "--provider", "small")
    assert done.code == 0, done.err
    listed = [entry for entry in world.entries("system") if "could not be asked" in entry.get("how", "")]
    assert listed


def test_compact_by_hand_in_the_repl(world: World) -> None:
    """The question for the summary goes to a model with a smaller window: it is asked again with less."""
    answers = [{"text": "first"}, {"text": "second"}, {"text": "third"}]
    too_long = {"error": {"status": 400, "body": {"error": {"code": "context_length_exceeded", "message": "too long"}}}}
    with ScriptedModel(answers, aside={"left out": {"text": "A SUMMARY"}, "Write the summary now.": too_long}) as model:
        configured(world, model.base_url, window=100_000)
        lines = ["hello " * 8_000, "how are you", "/compact the greetings", "still there?", "/exit"]
        done = world.cli.typed("agent", "--provider", "small", stdin="\n".join(lines) + "\n")
    assert "compacted:" in done.out, done.err
    assert "third" in done.out
    whole, less = [json.dumps(request) for request in bodies(model) if asked_to_summarise(request)]
    assert len(less) < len(whole) / 1.5
    for asked in (whole, less):
        assert "the greetings" in asked
    assert "A SUMMARY" in json.dumps(bodies(model)[-1])


def test_images_count_for_what_is_kept(world: World) -> None:
    for number in range(8):
        (world.workspace / f"{number}.png").write_bytes(png(number + 1))
    steps: list[Any] = [
        {"tool_calls": [{"name": "Read", "arguments": {"file_path": f"{number}.png"}}]} for number in range(8)
    ]
    with ScriptedModel([*steps, {"text": "done"}], aside={"Write the summary now.": {"text": "SUMMARY"}}) as model:
        configured(world, model.base_url, window=12_000)
        done = world.agent(CONSTRAINT, "--provider", "small")
        assert done.out == "done\n", done.err
    assert "context_compacted" in done.err, "eight images do not fit, though their words do"
    last = json.dumps(bodies(model)[-1], ensure_ascii=False)
    assert CONSTRAINT in last
    assert "8 × 3 pixels" in last, "the newest stay"
    assert "1 × 3 pixels" not in last


def test_a_second_compaction_keeps_what_the_first_had_kept(world: World) -> None:
    with ScriptedModel(
        [{"text": f"answer {n}"} for n in range(5)], aside={"Write the summary now.": {"text": "SUMMARY"}}
    ) as model:
        configured(world, model.base_url, window=100_000)
        lines = ["a " * 100, "b " * 100, "/compact", "c " * 100, "d " * 100, "/compact", "and now?", "/exit"]
        done = world.cli.typed("agent", "--provider", "small", stdin="\n".join(lines) + "\n")
    assert done.out.count("compacted:") == 2, done.err
    asked = [json.dumps(request) for request in bodies(model) if asked_to_summarise(request)]
    assert "summary of what came before" in asked[1]
    last = json.dumps(bodies(model)[-1])
    for said in ("a a a", "b b b", "c c c"):
        assert said in last
