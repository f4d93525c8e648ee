"""`router` picks by hint and by what a request holds; what it does not know goes to its default."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config.schema import ProviderEntry
from adderclaw.core.errors import ConfigError
from adderclaw.core.types import MediaBlock, Message
from tests.models.providers.making import House, ask, chat_entry, request, user
from tests.program import Cli
from tests.scripted import ScriptedModel

IMAGE = Message("user", (MediaBlock("image/png", "AAAA", "a.png"),))
LONG = user("word " * 4_000)
"""Some 5,000 tokens."""


def house_of(tmp_path: Path, routes: dict[str, str], default: str | None = "d", **entries: dict[str, Any]) -> House:
    made: dict[str, ProviderEntry] = {}
    for name, more in {"d": {}, **entries}.items():
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({"steps": [{"text": name}] * 3, "partial": True}))
        made[name] = ProviderEntry(kind="mock", fixture=str(file), **more)
    return House({**made, "auto": ProviderEntry(kind="router", default=default, routes=routes)})


def answered(house: House, *messages: Message, hint: str | None = None) -> str:
    metadata = {} if hint is None else {"hint": hint}
    return ask(house.make("auto"), request(*(messages or (user("hi"),)), metadata=metadata))[0].final_text


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("auto", "message"),
    [
        (ProviderEntry(kind="router"), "default"),
        (ProviderEntry(kind="router", default="nobody"), "nobody"),
        (ProviderEntry(kind="router", default="d", routes={"cheap": "nobody"}), "nobody"),
        (ProviderEntry(kind="router", default="auto"), "auto → auto"),
        (ProviderEntry(kind="router", default="d", routes={"cheap": "r"}), "auto → r → auto"),
    ],
)
def test_a_router_that_leads_nowhere_or_in_circles(auto: ProviderEntry, message: str) -> None:
    ring = ProviderEntry(kind="reliable", providers=["auto"])
    house = House({"d": ProviderEntry(kind="mock"), "r": ring, "auto": auto})
    with pytest.raises(ConfigError, match=message):
        house.make("auto")


@pytest.mark.parametrize(
    ("entry", "key", "message"),
    [
        ("", "providers.models.auto.default", "is required"),
        ('default = "lokal"', "providers.models.auto.default", "local"),
        ('default = "local"\nroutes = { cheap = "nobody" }', "providers.models.auto.routes.cheap", "nobody"),
        ('default = "local"\nroutes = { cheap = "auto" }', "providers.models.auto.routes", "leads back to itself"),
        ('default = "local"\nroutes = { cheap = 3 }', "routes", "text"),
    ],
)
def test_the_configuration_says_what_is_wrong(cli: Cli, entry: str, key: str, message: str) -> None:
    cli.configure(f'[providers.models.auto]\nkind = "router"\n{entry}\n')
    done = cli("config", "validate")
    assert done.code == 2
    assert key in done.err
    assert message in done.err


@pytest.mark.parametrize("hint", [None, "", "unheard-of", "cheap", " , ", "CHEAP"])
def test_what_it_does_not_know_goes_to_the_default(tmp_path: Path, hint: str | None) -> None:
    assert answered(house_of(tmp_path, {"plan": "p"}, p={}), hint=hint) == "d"


# ------------------------------------------------------------------ hints


@pytest.mark.parametrize(
    ("hint", "who"),
    [("cheap", "c"), ("plan", "p"), ("mine", "c"), ("unheard-of, plan", "p"), ("plan,cheap", "p"), (" cheap ", "c")],
)
def test_a_hint_decides(tmp_path: Path, hint: str, who: str) -> None:
    routes = {"cheap": "c", "plan": "p", "mine": "c"}
    assert answered(house_of(tmp_path, routes, c={}, p={}), hint=hint) == who


def test_the_first_of_providers_is_the_default_where_none_is_named(tmp_path: Path) -> None:
    house = house_of(tmp_path, {}, p={})
    house.config.providers.models["auto"] = ProviderEntry(kind="router", providers=["p", "d"])
    assert answered(house) == "p"


# ------------------------------------------------------------------ facts


def test_an_image_goes_where_images_are_seen(tmp_path: Path) -> None:
    routes = {"vision": "v", "cheap": "c", "plan": "p"}
    house = house_of(tmp_path, routes, v={"model": "gpt-4o"}, c={}, p={"model": "claude-sonnet-4-5"})
    assert answered(house, IMAGE) == "v"
    assert answered(house, IMAGE, hint="cheap") == "v"
    assert answered(house, IMAGE, hint="plan") == "p"  # it was asked for, and it can see
    assert answered(house, IMAGE, user("and now?")) == "v"
    assert answered(house) == "d"


def test_a_long_history_goes_to_the_large_window(tmp_path: Path) -> None:
    small: Any = {"context_tokens": 4_000}
    large: Any = {"context_tokens": 100_000}
    house = house_of(tmp_path, {"long-context": "l", "cheap": "c", "vision": "c"}, l=large, c=small)
    house.config.providers.models["d"] = ProviderEntry(
        kind="mock", fixture=house.config.providers.models["d"].fixture, **small
    )
    assert answered(house) == "d"
    assert answered(house, LONG) == "l"
    assert answered(house, LONG, hint="cheap") == "l"
    assert answered(house, LONG, IMAGE) == "c"  # the large one does not see


def test_a_default_of_unknown_window_takes_what_comes(tmp_path: Path) -> None:
    assert answered(house_of(tmp_path, {"long-context": "l"}, l={}), LONG) == "d"


# ------------------------------------------------------------------ as a provider


def test_each_route_has_its_own_model_and_a_change_is_told() -> None:
    with ScriptedModel([{"text": "ok"}] * 3) as model:
        entries = {
            "d": chat_entry(model.base_url, model="model-d"),
            "c": chat_entry(model.base_url, model="model-c"),
            "auto": ProviderEntry(kind="router", default="d", routes={"cheap": "c"}),
        }
        house = House(entries)
        cheap = request(metadata={"hint": "cheap"})
        responses = ask(house.make("auto"), request(), cheap, cheap)
    assert [one.provider for one in responses] == ["d", "c", "c"]
    assert [one.json["model"] for one in model.requests] == ["model-d", "model-c", "model-c"]
    assert house.told == [{"event_type": "provider_selected", "provider": "c", "model": "model-c"}]


def test_made_of_providers_made_of_providers(tmp_path: Path) -> None:
    house = house_of(tmp_path, {"cheap": "r"}, c={})
    house.config.providers.models["r"] = ProviderEntry(kind="reliable", providers=["c"])
    assert answered(house, hint="cheap") == "c"


def test_what_its_routes_can_it_can(tmp_path: Path) -> None:
    house = house_of(tmp_path, {"long-context": "l"}, l={"context_tokens": 100_000})
    auto: Any = house.make("auto")
    can = auto.capabilities()
    assert (can.context_tokens, can.tools, can.streaming) == (100_000, True, True)
    assert asyncio.run(auto.count(request())) is None
    assert auto.finished() is None
