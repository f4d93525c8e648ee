"""`adderclaw models`: the table is listed, and brought up to date from a package index on loopback."""

import hashlib
import io
import json
import zipfile
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config.model_facts import table
from adderclaw.core import home_names
from tests.acceptance.terminal import at_a_terminal
from tests.acceptance.world import World
from tests.listening import served
from tests.program import Cli
from tests.scripted_anthropic import ScriptedMessages
from tests.scripted_gemini import ScriptedGemini
from tests.scripted_responses import ScriptedResponses

SOURCE = (Path(__file__).parents[1] / "fixtures" / "genai_prices_data.py.txt").read_bytes()


class Index:
    """A package index with one package, whose answers a test changes."""

    def __init__(self) -> None:
        self.url = ""
        self.wheel = b""
        self.answer: dict[str, Any] = {}
        self.offer(SOURCE)

    def offer(self, source: bytes, *, name: str = "genai_prices/data.py") -> None:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, source)
        self.wheel = file.getvalue()
        digest = hashlib.sha256(self.wheel).hexdigest()
        row = {"packagetype": "bdist_wheel", "url": "/files/x.whl", "upload_time": "2026-11-10T21:51:41"}
        self.answer = {"info": {"version": "0.2.3"}, "urls": [{**row, "digests": {"sha256": digest}}]}


@pytest.fixture
def index() -> Generator[Index]:
    offered = Index()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages = {"/pypi/genai-prices/json": json.dumps(offered.answer).encode(), "/files/x.whl": offered.wheel}
            body = pages.get(self.path)
            self.send_response(200 if body is not None else 404)
            self.send_header("content-length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    with served(Handler) as port:
        offered.url = f"http://127.0.0.1:{port}"
        yield offered


def refresh(cli: Cli, index: Index, *more: str) -> Any:
    return cli("models", "refresh", "--index", index.url, *more)


@pytest.fixture
def up_to_date(cli: Cli, index: Index) -> Index:
    """The index, once the home has the prices that it lists."""
    assert refresh(cli, index, "--accept-lower-prices").code == 0
    return index


def prices(cli: Cli, name: str) -> list[tuple[float | None, float | None]]:
    rows = json.loads(cli("models", "list", name, "--output-format", "json").out)["models"]
    return [(row["input_per_mtok"], row["output_per_mtok"]) for row in rows if row["model"] == name]


def test_the_table_is_listed_with_its_age_and_the_aliases(cli: Cli) -> None:
    text = cli("models", "list", "sonnet-4.5").out
    assert "claude-sonnet-4.5*                      200,000  $3 in, $15 out           vision, pdf, thinking\n" in text
    assert "sonnet = claude-sonnet-" in text
    assert "The packaged table is from 20" in text
    listed = json.loads(cli("models", "list", "--output-format", "json").out)
    assert listed["aliases"].keys() == table.ALIAS_NAMES
    assert (listed["refreshed"], listed["source"]["package"]) == (False, "genai-prices")
    assert listed["age_days"] >= 0
    assert "No known model" in cli("models", "list", "nothing-like-it").out


def test_a_refresh_brings_new_models_and_moves_the_alias(cli: Cli, home: Path, index: Index) -> None:
    index.offer(SOURCE.replace(b"claude-opus-5-5", b"claude-opus-98-7"))
    done = refresh(cli, index)
    assert (done.code, "  claude-opus-98-7\n" in done.out) == (0, True)
    assert "opus = claude-opus-98-7" in cli("models", "list", "opus-98").out
    assert prices(cli, "claude-sonnet-4.5*") == [(3.0, 15.0)], "what the source no longer lists is still known"
    file = home / ".adderclaw" / home_names.MODELS
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.name in home_names.FILES, "`uninstall` removes it"
    (home / ".adderclaw" / "config.toml").write_text(
        'default_provider = "a"\n[providers.models.a]\nkind = "anthropic"\nmodel = "opus"\n'
    )
    (row,) = [row for row in json.loads(cli("provider", "list", "--output-format", "json").out) if row["name"] == "a"]
    assert (row["model"], row["price"]["input_per_mtok"]) == ("claude-opus-98-7", 4.0)
    file.write_text("damaged")
    listed = cli("models", "list", "opus")
    assert (listed.code, "is not used" in listed.err, "claude-opus-98" in listed.out) == (0, True, False)


def test_a_price_that_falls_by_more_than_half_needs_to_be_accepted(cli: Cli, up_to_date: Index) -> None:
    lower = SOURCE.replace(b"output_mtok=Decimal('20'),\n                    cache", b"output_mtok=Decimal('9'), cache")
    up_to_date.offer(
        lower.replace(b"input_mtok=Decimal('4'),\n                    cache", b"input_mtok=Decimal('3'), cache")
    )
    shown = refresh(cli, up_to_date)
    assert shown.code == 0
    assert "claude-opus-5-5: output falls from $20 to $9 per million tokens" in shown.err
    assert "--accept-lower-prices" in shown.out
    assert prices(cli, "claude-opus-5-5") == [(4.0, 20.0)]
    as_json = json.loads(refresh(cli, up_to_date, "--output-format", "json").out)
    held = [one for one in as_json["lower_prices_held_back"] if one["model"] == "claude-opus-5-5"]
    assert held == [{"model": "claude-opus-5-5", "price": "output_per_mtok", "before": 20.0, "after": 9.0}]
    assert refresh(cli, up_to_date, "--accept-lower-prices").code == 0
    assert prices(cli, "claude-opus-5-5") == [(3.0, 9.0)]


def test_a_long_request_that_becomes_cheap_is_a_lower_price_too(cli: Cli, up_to_date: Index) -> None:
    up_to_date.offer(
        SOURCE.replace(b"base=Decimal('2'), tiers=[Tier(start=272000", b"base=Decimal('1.9'), tiers=[Tier(start=999999")
    )
    shown = refresh(cli, up_to_date)
    assert "gpt-6.1-sol: long input falls from $4 to $1.9 per million tokens" in shown.err
    row = json.loads(cli("models", "list", "gpt-6.1-sol", "--output-format", "json").out)["models"][0]
    assert (row["long_tokens"], row["long_input_per_mtok"]) == (272_000, 4.0)


def test_a_price_that_disappears_stays(cli: Cli, up_to_date: Index) -> None:
    up_to_date.offer(SOURCE.replace(b"output_mtok=Decimal('20')", b"output_audio_mtok=Decimal('20')"))
    assert refresh(cli, up_to_date).code == 0
    assert prices(cli, "claude-opus-5-5") == [(4.0, 20.0)]


def test_what_cannot_be_verified_or_read_changes_nothing(cli: Cli, home: Path, index: Index) -> None:
    good = index.answer
    wrong = {**good, "urls": [{**good["urls"][0], "digests": {"sha256": "0" * 64}}]}
    attempts: dict[str, Any] = {
        "its SHA-256 is": wrong,
        "cannot be read": {"info": 1},
        "has no wheel": {**good, "urls": [{**good["urls"][0], "yanked": True}]},
        "HTTP 404": {**good, "urls": [{**good["urls"][0], "url": "/other"}]},
        "127.0.0.1": {**good, "urls": [{**good["urls"][0], "url": "http://127.0.0.1:1/x.whl"}]},
    }
    for words, answer in attempts.items():
        index.answer = answer
        done = refresh(cli, index)
        assert done.code == 1, words
        assert words in done.err
        assert "Nothing was changed. The packaged table is from" in done.err
    for source, name in ((b"import os", "genai_prices/data.py"), (SOURCE, "other.py"), (b"#" * 17_000_000, "")):
        index.offer(source, name=name or "genai_prices/data.py")
        done = refresh(cli, index)
        assert (done.code, "Nothing was changed" in done.err) == (1, True), done.err
    index.wheel += b"x" * 9_000_000
    assert "larger than" in refresh(cli, index).err
    assert not (home / ".adderclaw" / home_names.MODELS).exists()


def test_without_a_network_the_age_of_the_table_is_shown(cli: Cli) -> None:
    done = cli("models", "refresh", "--index", "http://127.0.0.1:9")
    assert done.code == 1
    assert "The packaged table is from" in done.err
    assert "day" in done.err


def test_a_lower_price_is_asked_about_at_a_terminal(world: World, up_to_date: Index) -> None:
    up_to_date.offer(SOURCE.replace(b"output_mtok=Decimal('20')", b"output_mtok=Decimal('9')"))
    command = ("models", "refresh", "--index", up_to_date.url)
    code, shown = at_a_terminal(world, *command, typed=(("Accept these lower prices?", "n\n"),))
    assert (code, "stay as they are" in shown, prices(world.cli, "claude-opus-5-5")) == (0, True, [(4.0, 20.0)])
    code, shown = at_a_terminal(world, *command, typed=(("Accept these lower prices?", "y\n"),))
    assert (code, "stay as they are" in shown, prices(world.cli, "claude-opus-5-5")) == (0, False, [(4.0, 9.0)])


WIRES: dict[str, tuple[str, Any]] = {
    "anthropic": ("opus", ScriptedMessages),
    "openai": ("gpt", ScriptedResponses),
    "gemini": ("gemini", ScriptedGemini),
}


@pytest.mark.parametrize("kind", WIRES)
def test_the_vendor_is_asked_for_the_model_behind_the_alias(world: World, kind: str) -> None:
    alias, scripted = WIRES[kind]
    meant = table.newest(kind, alias)
    with scripted([{"text": "a"}, {"text": "b"}]) as model:
        entry = f'kind = "{kind}"\nbase_url = "{model.base_url}"\napi_key_env = "SOME_KEY"\n'
        entries = f'[providers.models.mine]\n{entry}model = "{alias}"\n[providers.models.other]\n{entry}model = "m"\n'
        world.configure(more=entries)
        world.cli.env["SOME_KEY"] = "k-0123456789"
        first = world.agent("hi", "--provider", "mine", "--output-format", "json")
        second = world.agent("hi", "--model", f"other/{alias}", "--output-format", "json")
        asked = [f"{request.path} {request.json.get('model')}" for request in model.requests]
    assert [json.loads(done.out)["model"] for done in (first, second)] == [meant, meant]
    assert all(str(meant) in one for one in asked), asked
