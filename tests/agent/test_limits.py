"""One budget for a run and all its children: it refuses before the spending, and never because of a mere worst case."""

import asyncio
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adderclaw.agent.loop.loop import run_turn
from adderclaw.agent.loop.model_call import Count, count_tokens, estimate_tokens
from adderclaw.agent.run import Options, Run, open_run, start
from adderclaw.agent.session.limits import TYPICAL_ANSWER, Budget, LoopDetector
from adderclaw.agent.session.session import Session, State, TurnResult
from adderclaw.config.model_facts.catalogue import (
    ModelFacts,
    Prices,
    Quote,
    Served,
    cost,
    facts,
    facts_of,
    first_answering,
)
from adderclaw.config.schema import Config, Limits, Managed, ModelEntry, ProviderEntry, Providers
from adderclaw.core.errors import LimitError, ProviderError
from adderclaw.core.history import History
from adderclaw.core.host import ToolContext
from adderclaw.core.types import (
    ChatRequest,
    ChatResponse,
    MediaBlock,
    Message,
    OnDelta,
    ProviderCapabilities,
    TextBlock,
    Usage,
)
from adderclaw.storage import transcript
from adderclaw.terminal.operators import Terminal
from tests.rows import rows
from tests.scripted import ScriptedModel

TEN_DOLLARS = ModelFacts(input_per_mtok=10.0, output_per_mtok=10.0, cache_read_per_mtok=1.0)
"""A hundred thousand tokens are a dollar; those that are cached, ten cents."""
PRICED = Quote("priced", TEN_DOLLARS, None)
UNPRICED = Quote("mystery", ModelFacts(), None)


class Time:
    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


def budget(**limits: Any) -> Budget:
    return Budget(Limits(**limits), Time(), Prices(Config()))


def pay(held: Any, usage: Usage) -> None:
    held.settle(usage, cost(usage, TEN_DOLLARS))


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("limits", "quote", "named"),
    [
        ({"tokens": 0}, PRICED, "limits.tokens"),
        ({"tokens": 0}, UNPRICED, "limits.tokens"),
        ({"cost_usd": 0.0}, PRICED, "limits.cost_usd"),
        ({"cost_usd": 0.0}, UNPRICED, r'cannot be enforced; give its price under \[models."mystery"\]'),
        ({"seconds": 0.0}, PRICED, "limits.seconds"),
        ({"tokens": 5_999}, PRICED, r"the next call needs about 6,000, of 5,999"),
        ({"cost_usd": 0.0599}, PRICED, r"the next call costs about \$0.0600, of \$0.0599"),
    ],
)
def test_a_call_that_would_pass_a_limit_is_not_made(limits: dict[str, Any], quote: Quote, named: str) -> None:
    with pytest.raises(LimitError, match=named):
        budget(**limits).reserve(quote, 5_000)


def test_what_is_reserved_counts_until_it_is_settled() -> None:
    shared = budget(tokens=10_000)
    first = shared.reserve(PRICED, 5_000)
    with pytest.raises(LimitError, match=r"0 used, 6,000 in calls under way"):
        shared.reserve(PRICED, 5_000)
    pay(first, Usage(100, 20))
    shared.reserve(PRICED, 5_000)
    assert shared.usage == Usage(100, 20)


def test_what_was_spent_counts_for_good() -> None:
    shared = budget(cost_usd=0.10)
    pay(shared.reserve(PRICED, 1_000), Usage(8_000, 1_500))
    assert shared.cost == pytest.approx(0.095)
    with pytest.raises(LimitError, match=r"\$0.0950 spent, the next call costs about"):
        shared.reserve(PRICED, 1_000)


def test_an_answer_that_broke_off_counts_against_the_limit_and_in_no_report() -> None:
    shared = budget(tokens=10_000)
    shared.reserve(PRICED, 5_000).forfeit()
    with pytest.raises(LimitError, match="6,000 used"):
        shared.reserve(PRICED, 5_000)
    assert (shared.usage, shared.cost) == (Usage(), 0.0)


def test_tool_calls_and_time() -> None:
    shared = budget(tool_calls=1)
    shared.before_tool_call()
    shared.tool_calls += 1
    with pytest.raises(LimitError, match=r"limits.tool_calls"):
        shared.before_tool_call()
    late = Budget(Limits(seconds=5.0), clock := Time(), Prices(Config()))
    late.reserve(PRICED, 10)
    clock.at = 6.0
    with pytest.raises(LimitError, match=r"limits.seconds"):
        late.reserve(PRICED, 10)
    late.exclude_wait(4.0)  # until a quota began anew: that is no work
    late.reserve(PRICED, 10)


# ------------------------------------------------------------------ permissions


def test_the_longest_possible_answer_is_not_what_is_reserved() -> None:
    """A model that could write 64,000 tokens is still asked when 5,000 are left."""
    held = budget(tokens=5_000).reserve(PRICED._replace(max_tokens=64_000), 3_000)
    assert held.expected.total == 3_000 + TYPICAL_ANSWER


def test_a_short_answer_reserves_less() -> None:
    assert budget(tokens=3_050).reserve(PRICED._replace(max_tokens=50), 3_000).expected.output_tokens == 50


def test_a_refused_call_costs_nothing() -> None:
    shared = budget(tokens=6_000)
    for _ in range(3):
        shared.reserve(PRICED, 5_000).release()


def test_a_reservation_ends_once() -> None:
    shared = budget()
    held = shared.reserve(PRICED, 5_000)
    pay(held, Usage(10, 10))
    held.release()
    held.forfeit()
    pay(held, Usage(10, 10))
    assert shared.usage == Usage(10, 10)


def test_what_the_provider_keeps_is_reserved_at_its_own_price() -> None:
    with pytest.raises(LimitError, match=r"limits.cost_usd"):
        budget(cost_usd=0.05).reserve(PRICED, 20_000)
    held = budget(cost_usd=0.05).reserve(PRICED, 20_000, cached=19_000)
    assert held.price == pytest.approx(0.019 + 0.01 + 0.01)


def test_a_free_model_runs_when_nothing_may_be_spent() -> None:
    free = Quote("mock", facts("mock", Config()), None)
    shared = budget(cost_usd=0.0)
    shared.reserve(free, 1_000).settle(Usage(10, 10), 0.0)
    assert shared.cost == 0.0


def test_cost_is_unknown_only_when_no_call_had_a_price() -> None:
    shared = budget()
    shared.unpriced.add("mystery")
    shared.reserve(UNPRICED, 10).settle(Usage(10, 10), None)
    assert shared.cost is None
    pay(shared.reserve(PRICED, 10), Usage(100_000, 0))
    assert shared.cost == pytest.approx(1.0)


# ------------------------------------------------------------------ children


def test_ten_tasks_under_one_cap() -> None:
    """Each call takes 7,000 tokens where 4,000 were expected: ten under way pass the cap by at most 30,000."""
    shared, refused = budget(tokens=100_000, cost_usd=1000.0), 0

    async def child() -> None:
        nonlocal refused
        while True:
            try:
                held = shared.reserve(PRICED, 3_000)
            except LimitError:
                refused += 1
                return
            await asyncio.sleep(0.001)
            pay(held, Usage(5_000, 2_000))

    async def all_of_them() -> None:
        await asyncio.gather(*(child() for _ in range(10)))

    asyncio.run(all_of_them())
    assert refused == 10
    assert 100_000 - 4_000 < shared.usage.total <= 100_000 + 10 * 3_000


def test_ten_threads_lose_no_count() -> None:
    shared = budget(tokens=10_000_000, cost_usd=1000.0)

    def child(_number: int) -> None:
        for _ in range(200):
            pay(shared.reserve(PRICED, 100), Usage(10, 5))

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(child, range(10)))
    assert shared.usage == Usage(20_000, 10_000)
    assert shared.cost == pytest.approx(0.3)
    shared.reserve(PRICED, 10_000_000 - 30_000 - TYPICAL_ANSWER)  # nothing is held any more


CONFIG = """
workspace_dir = "{workspace}"
default_provider = "here"
[security]
autonomy = "readonly"
[limits]
cost_usd = {cap}
[models.priced]
input_per_mtok = 10.0
output_per_mtok = 10.0
[providers.models.here]
kind = "openai-compatible"
model = "priced"
base_url = "{url}"
"""


@contextmanager
def family(home: Path, workspace: Path, url: str, cap: float) -> Generator[tuple[Run, list[Session]]]:
    """A run, and ten sessions of it that share its budget."""
    file = home / "config.toml"
    file.write_text(CONFIG.format(workspace=workspace, cap=cap, url=url))
    with open_run(start(Options(config_file=str(file), log_level="error")), Terminal(), kind="agent") as run:
        yield run, [child_of(run.session, f"session-child-{number}") for number in range(10)]


def child_of(parent: Session, session_id: str) -> Session:
    context = ToolContext(parent.conversation_id, session_id, parent.environment.context.workspace)
    with parent.store.write() as cursor:
        transcript.begin(
            cursor, conversation_id=parent.conversation_id, session_id=session_id, project_dir=context.workspace.root
        )
    return replace(parent, environment=replace(parent.environment, context=context), state=State(LoopDetector(3, 5)))


@pytest.mark.parametrize(("used", "over"), [((5_000, 2_000), 10), ((1_000, 100), 0)])
def test_ten_sessions_at_once_over_real_http(home: Path, tmp_path: Path, used: tuple[int, int], over: int) -> None:
    """They stop at the cap; each passes it by no more than what its last call took beyond what was reserved for it."""
    usage = {"prompt_tokens": used[0], "completion_tokens": used[1]}
    model = ScriptedModel([{"text": "more", "usage": usage}] * 400)
    cap = 0.8

    async def spend(session: Session) -> TurnResult:
        while True:
            result = await run_turn(session, "go on")
            if result.outcome != "completed":
                return result

    async def all_of_them(run: Run, children: list[Session]) -> list[TurnResult]:
        try:
            return await asyncio.gather(*map(spend, children))
        finally:
            await run.session.provider.close()

    model.__enter__()
    try:
        with family(home, tmp_path, model.base_url, cap) as (run, children):
            results = asyncio.run(all_of_them(run, children))
            spent, calls = run.session.budget.cost, len(model.requests)
            run.finish(TurnResult("limit", ""))
    finally:
        model.stop()  # steps are left over: how many are played is what is being looked at
    price = sum(used) / 100_000
    assert {result.outcome for result in results} == {"limit"}
    assert all("limits.cost_usd" in result.reason for result in results)
    assert spent == pytest.approx(calls * price)
    assert spent is not None
    assert cap - 0.08 <= spent <= cap + over * price


# ------------------------------------------------------------------ facts and prices


@rows(
    ("model", "prices", "window"),
    [
        ("claude-sonnet-4-5-20250929", (3, 15), 200_000),
        ("anthropic/claude-opus-4.5", (5, 25), 200_000),
        ("claude-opus-4-1-20250805", (15, 75), 200_000),
        ("claude-99", (None, None), 1_000_000),
        ("gpt-4o-2024-08-06", (2.5, 10), 128_000),
        ("gpt-4o-mini", (0.15, 0.6), 128_000),
        ("gpt-4o-audio-preview", (None, None), 128_000),
        ("gpt-5-mini", (0.25, 2), 400_000),
        ("gpt-5.9-ultra", (None, None), 400_000),
        ("gpt-oss:20b", (None, None), None),
        ("o3", (2, 8), 200_000),
        ("o3-mini-2025-01-31", (1.1, 4.4), 200_000),
        ("o9", (None, None), None),
        ("models/gemini-2.5-flash", (0.3, 2.5), 1_048_576),
        ("gemini-2.5-flash-lite", (0.1, 0.4), 1_000_000),
        ("llama3.2", (None, None), None),
        ("", (None, None), None),
    ],
)
def test_the_longest_pattern_gives_the_facts(model: str, prices: tuple[Any, Any], window: int | None) -> None:
    known = facts(model, Config())
    assert (known.input_per_mtok, known.output_per_mtok) == prices
    assert known.context_tokens == window


def test_a_users_own_prices_go_before_the_packaged_ones() -> None:
    own = ModelEntry(input_per_mtok=1.0, output_per_mtok=2.0)
    config = Config(models={"claude-sonnet-4-5*": own, "house": own, "gpt-4o": ModelEntry(context_tokens=9)})
    sonnet = facts("claude-sonnet-4-5-20250929", config)
    assert (sonnet.input_per_mtok, sonnet.context_tokens, sonnet.vision) == (1.0, 200_000, True)
    assert sonnet.cache_read_per_mtok is None  # that of another price list does not fit
    assert facts("house", config).priced
    assert facts("gpt-4o", config)._replace(context_tokens=128_000) == facts("gpt-4o", Config())


def test_cost_by_kind_of_token() -> None:
    known = facts("claude-sonnet-4-5", Config())
    part = 50_000
    assert cost(Usage(part, part, part, part), known) == pytest.approx((3 + 15 + 0.3 + 3.75) / 20)
    assert cost(Usage(0, 0, part, part), known._replace(cache_read_per_mtok=None)) == pytest.approx((3 + 3.75) / 20)
    assert cost(Usage(part, 0), ModelFacts()) is None


def entries(**models: ProviderEntry) -> Config:
    return Config(providers=Providers(models=models))


def test_own_hardware_is_free_unless_it_is_given_a_price() -> None:
    config = entries(mine=ProviderEntry(kind="ollama"), far=ProviderEntry(kind="openrouter", context_tokens=7))
    assert cost(Usage(10**6, 10**6), facts_of("mine", "gpt-4o", config)) == 0.0
    assert facts_of("far", "gpt-4o", config).input_per_mtok == 2.5
    assert facts_of("far", "gpt-4o", config).context_tokens == 7
    priced = replace(config, models={"gpt-4o": ModelEntry(input_per_mtok=1.0, output_per_mtok=1.0)})
    assert cost(Usage(10**6, 0), facts_of("mine", "gpt-4o", priced)) == 1.0


def test_where_an_administrator_limits_money_nobody_makes_a_model_cheaper() -> None:
    free = ModelEntry(input_per_mtok=0.0, output_per_mtok=0.0)
    bound = Managed(prices={"house*": ModelEntry(input_per_mtok=5.0, output_per_mtok=9.0, cache_read_per_mtok=1.0)})
    config = replace(
        entries(
            far=ProviderEntry(kind="openai-compatible", base_url="https://llm.example/v1"),
            named=ProviderEntry(kind="ollama", base_url="https://llm.example/v1"),
            alike=ProviderEntry(kind="ollama", base_url="https://127.llm.example/v1"),
            here=ProviderEntry(kind="ollama"),
            by_number=ProviderEntry(kind="ollama", base_url="http://127.0.0.2:8080/v1"),
            nobody=ProviderEntry(kind="mock"),
        ),
        models={"*": free},
        managed=bound,
    )
    for name in ("far", "named", "alike", "gone"):
        assert cost(Usage(10**6, 10**6), facts_of(name, "house-1", config)) == 14.0, name
        assert cost(Usage(10**6), facts_of(name, "gpt-4o", config)) == 2.5, name
        assert cost(Usage(10**6), facts_of(name, "unheard-of", config)) == 0.0, name
    assert facts_of("far", "house-1", config).cache_read_per_mtok == 1.0
    assert facts_of("far", "house-1", config).cache_write_per_mtok == 5.0, "without one of its own it costs as input"
    for name in ("here", "by_number", "nobody"):
        assert cost(Usage(10**6, 10**6), facts_of(name, "house-1", config)) == 0.0, name
    dear = replace(config, models={"house-1": ModelEntry(input_per_mtok=50.0, output_per_mtok=1.0)})
    assert cost(Usage(10**6, 10**6), facts_of("far", "house-1", dear)) == 59.0
    asked = Served("far", "an-alias")
    assert Prices(config).before(*asked).facts.input_per_mtok == 0.0
    assert Prices(config).after(asked, Served("far", "house-2")).facts.input_per_mtok == 5.0
    anybody = replace(config, managed=Managed())
    assert cost(Usage(10**6, 10**6), facts_of("far", "house-1", anybody)) == 0.0


def test_who_answers_is_who_is_billed() -> None:
    config = entries(
        a=ProviderEntry(kind="anthropic", model="claude-sonnet-4-5"),
        b=ProviderEntry(kind="openai", model="gpt-4o"),
        both=ProviderEntry(kind="reliable", providers=["a", "b"]),
        auto=ProviderEntry(kind="router", default="both", routes={"cheap": "b"}),
    )
    assert first_answering("auto", "mock", config) == Served("a", "claude-sonnet-4-5")
    prices, asked = Prices(config), Served("auto", "mock")
    assert prices.before(*asked).facts.input_per_mtok == 3
    assert prices.after(asked, Served("b", "gpt-4o-2024-08-06")).facts.input_per_mtok == 2.5
    assert prices.after(Served("b", "no-such"), Served("b", "o3-2025-04-16")).facts.input_per_mtok == 2
    assert not prices.after(Served("b", "no-such"), Served("b", "neither")).facts.priced


# ------------------------------------------------------------------ sizes


def test_a_history_knows_its_size_and_an_image_is_not_its_bytes() -> None:
    history = History([Message("user", (TextBlock("x" * 4_000),))])
    assert 4_000 < history.size < 4_100
    before = history.size
    history.append(Message("user", (MediaBlock("image/png", "A" * 2_000_000, "big.png"),)))
    assert history.media == 1
    assert history.size - before < 7_000


def test_what_a_provider_counts_goes_before_the_estimate() -> None:
    """Without counting: a fourth of the size, rounded up, and a fifth more on the safe side."""
    asked = ChatRequest("", History([Message("user", (TextBlock("x" * 4_000),))]), (), "m")
    counting, silent, broken = Counting(77), Counting(None), Counting(ProviderError("network", "gone"))
    assert asyncio.run(count_tokens(counting, asked)) == Count(77, exact=True)
    estimate = asyncio.run(count_tokens(silent, asked, head=1_000))
    assert estimate == asyncio.run(count_tokens(broken, asked, head=1_000))
    assert not estimate.exact
    assert 5_000 / 4 * 1.2 < estimate.tokens < 5_100 / 4 * 1.2
    assert [estimate_tokens(size) for size in (0, 1, 4, 5)] == [0, 1, 1, 2]


class Counting:
    """A provider that only counts."""

    name = "counting"

    def __init__(self, says: int | ProviderError | None) -> None:
        self._says = says

    def capabilities(self) -> ProviderCapabilities:
        return ProviderCapabilities()

    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:
        raise ProviderError("script", "it only counts")

    async def count(self, request: ChatRequest) -> int | None:
        if isinstance(self._says, ProviderError):
            raise self._says
        return self._says

    async def ready(self) -> None:
        """It needs no key."""

    async def close(self) -> None:
        """Nothing is open."""
