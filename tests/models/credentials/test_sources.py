"""Which credential wins, to whom it is shown, and what is said when there is none."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config.schema import Auth, ProviderEntry
from adderclaw.core.errors import ProviderError
from adderclaw.core.redaction import Secrets
from adderclaw.models.credentials.sources import Credential, Sources
from tests.models.credentials.making import CLAUDE, Time, entry, run, server_of, sources
from tests.oauth_server import OAuthServer
from tests.rows import rows

HELPER = "printf %s from-the-helper-1"
ANTHROPIC_NAMES = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN")


@pytest.fixture(autouse=True)
def clean(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in os.environ:
        if name.startswith(("CLAUDE_CODE_", "LM_STUDIO_", "OPENROUTER_")) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    return home


def given(made: Sources, of: ProviderEntry = CLAUDE, name: str = "claude", default: tuple[str, ...] = ()) -> Any:
    return run(made.get(name, of, default))


# ------------------------------------------------------------------ refusals

MISSING: list[tuple[str, ProviderEntry, tuple[str, ...], str]] = [
    ("claude_code_subscription", CLAUDE, (), "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"),
    ("p", entry("anthropic", base_url="http://127.0.0.1:1"), ("ANTHROPIC_API_KEY",), "ANTHROPIC_API_KEY"),
    ("p", entry("anthropic", api_key_env="OTHER_KEY"), (), "OTHER_KEY"),
    ("p", entry("openai"), ("OPENAI_API_KEY",), "export OPENAI_API_KEY="),
    ("p", entry("gemini"), ("GEMINI_API_KEY",), "export GEMINI_API_KEY="),
    ("p", entry("openrouter"), ("OPENROUTER_API_KEY",), "OPENROUTER_API_KEY"),
    ("p", entry("openai-compatible", base_url="https://m.invalid/v1", api_key_env="SOME_KEY"), (), "SOME_KEY"),
    ("p", entry("openai-compatible", base_url="http://127.0.0.1.evil.example", api_key_env="K"), (), "variable K"),
]


@rows(("name", "of", "default", "says"), MISSING)
def test_a_missing_key_names_its_variable(name: str, of: ProviderEntry, default: tuple[str, ...], says: str) -> None:
    with pytest.raises(ProviderError) as caught:
        given(sources(), of, name, default)
    assert caught.value.kind == "missing_key"
    assert caught.value.stop_failure == "authentication_failed"
    assert says in str(caught.value)


def test_blank_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "  \n")
    with pytest.raises(ProviderError, match="is set"):
        given(sources())


@pytest.mark.parametrize("value", ["two words here", "first\nbreak-in-it", "schlüssel-1234", "a\x1bb-escape"])
def test_what_cannot_be_a_key_is_not_sent_and_not_shown(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", value)
    with pytest.raises(ProviderError) as caught:
        given(sources())
    assert caught.value.kind == "authentication_failed"
    assert "ANTHROPIC_API_KEY" in str(caught.value)
    assert value.split()[0] not in str(caught.value)


def test_openai_compatible_with_the_environments_address_needs_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """D-13, though the server is on this machine."""
    local = entry("openai-compatible", base_url="http://127.0.0.1:1/v1", api_key_env="OPENAI_API_KEY")
    assert given(sources(), local, "openai_compatible") is None
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    with pytest.raises(ProviderError, match="OPENAI_API_KEY"):
        given(sources(), local, "openai_compatible")


OTHERS: list[tuple[str, ProviderEntry]] = [
    ("another account", entry("anthropic", api_key_env="OTHER_KEY")),
    ("another vendor", entry("openai-compatible", base_url="https://m.invalid/v1", api_key_env="OTHER_KEY")),
    ("a router", entry("openrouter", api_key_env="OTHER_KEY")),
]


@pytest.mark.parametrize(("name", "of"), OTHERS)
def test_anthropics_credentials_are_shown_to_nobody_else(
    monkeypatch: pytest.MonkeyPatch, name: str, of: ProviderEntry
) -> None:
    for variable in ANTHROPIC_NAMES:
        monkeypatch.setenv(variable, f"value-of-{variable}")
    made = sources() if of.kind == "anthropic" else sources(api_key_helper=HELPER)
    with pytest.raises(ProviderError, match="OTHER_KEY"):
        given(made, of, name)


# ------------------------------------------------------------------ the order

ORDER = [
    ("environment ANTHROPIC_AUTH_TOKEN", "bearer"),
    ("environment ANTHROPIC_API_KEY", "api_key"),
    ("apiKeyHelper", "api_key"),
    ("environment CLAUDE_CODE_OAUTH_TOKEN", "bearer"),
    ("environment CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR", "bearer"),
    ("login", "bearer"),
]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_order_of_anthropics_sources(clean: Path, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """Everything from `first` on is there: it wins."""
    there = [source for source, _ in ORDER[first:]]
    for source in there:
        kind, _, variable = source.partition(" ")
        if kind == "environment" and not variable.endswith("DESCRIPTOR"):
            monkeypatch.setenv(variable, f"value-of-{variable}")
    if any(source.endswith("DESCRIPTOR") for source in there):
        monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR", str(handed("value-of-descriptor")))
    with OAuthServer() as server:
        helper = HELPER if "apiKeyHelper" in there else None
        made = sources(clean, api_key_helper=helper, oauth={"claude": server_of(server)})
        logged_in(made, server)
        found = given(made)
    assert (found.source, found.scheme) == ORDER[first]


def handed(text: str) -> int:
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)
    return reading


def logged_in(made: Sources, server: OAuthServer) -> None:
    async def exchanged() -> None:
        logins = made.logins()
        client = logins.client("claude")
        attempt = client.attempt("http://127.0.0.1:9/callback")
        query = server.location_of(attempt.url).partition("?")[2]
        await logins.keep("claude", await client.exchange(attempt, client.code_of(attempt, query)))

    run(exchanged())


def test_the_order_of_the_others(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-28: the named variable, the entry's own helper, a login."""
    with OAuthServer() as server:
        of = entry("openai-compatible", base_url="https://m.invalid", api_key_env="K", api_key_helper=HELPER)
        made = sources(clean, oauth={"claude": server_of(server)})
        logged_in(made, server)
        assert given(made, entry("openai-compatible", base_url="https://m.invalid", api_key_env="K")).source == "login"
        assert given(made, of).source == "apiKeyHelper"
        monkeypatch.setenv("K", "value-of-k")
        assert given(made, of) == Credential("value-of-k", "api_key", "environment K")


BARE = [
    (
        {"ANTHROPIC_AUTH_TOKEN": "a-bearer-token", "ANTHROPIC_API_KEY": "the-api-key"},
        None,
        "environment ANTHROPIC_API_KEY",
    ),
    ({"ANTHROPIC_AUTH_TOKEN": "a-bearer-token"}, HELPER, "apiKeyHelper"),
    ({"ANTHROPIC_AUTH_TOKEN": "a-bearer-token", "CLAUDE_CODE_OAUTH_TOKEN": "an-oauth-token"}, None, None),
    ({"ANTHROPIC_UNIX_SOCKET": "/tmp/no-such-socket"}, None, None),
]


@pytest.mark.parametrize(("environment", "helper", "wins"), BARE)
def test_bare_knows_only_the_key_and_the_helper(
    clean: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], helper: str | None, wins: str | None
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with OAuthServer() as server:
        logged_in(sources(clean, oauth={"claude": server_of(server)}), server)
        made = sources(clean, bare=True, api_key_helper=helper, oauth={"claude": server_of(server)})
        if wins:
            assert given(made).source == wins
        else:
            with pytest.raises(ProviderError) as caught:
                given(made)
            assert caught.value.kind == "missing_key"
            assert "adderclaw login" not in str(caught.value)


def test_bare_runs_no_projects_helper() -> None:
    made = Sources(Secrets(), Time(), auth=Auth(api_key_helper=HELPER), bare=True, operators_own=lambda _key: False)
    with pytest.raises(ProviderError) as caught:
        given(made)
    assert caught.value.kind == "missing_key"


# ------------------------------------------------------------------ descriptor, socket, defaults


def test_the_descriptor_is_read_once_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = handed("handed-over-token\n")
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR", str(descriptor))
    made = sources()
    assert given(made).value == "handed-over-token"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert given(made).value == "handed-over-token"


@pytest.mark.parametrize("number", ["x", "-1", "0", "2", "987654"])
def test_a_descriptor_that_is_none(monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR", number)
    with pytest.raises(ProviderError, match="CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR") as caught:
        given(sources())
    assert caught.value.kind == "authentication_failed"


def test_behind_the_socket_no_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_UNIX_SOCKET", "/run/proxy.sock")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "must-not-be-sent")
    made = sources()
    assert given(made) is None
    assert made.socket(CLAUDE) == "/run/proxy.sock"
    assert made.socket(entry("anthropic", api_key_env="OTHER_KEY")) == ""
    assert made.socket(entry("openai")) == ""


def test_lm_studio_has_a_key_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """L1; the word is no secret and stays readable."""
    secrets = Secrets()
    of = entry("lm-studio", base_url="http://127.0.0.1:1234/v1", api_key_env="LM_STUDIO_API_KEY")
    assert run(Sources(secrets, Time()).get("lm_studio_local", of, ())) == Credential("lm-studio", "bearer", "default")
    assert secrets.scrub("lm-studio") == "lm-studio"
    monkeypatch.setenv("LM_STUDIO_API_KEY", "its-own-key")
    assert given(sources(), of, "lm_studio_local").value == "its-own-key"


OPTIONAL = [
    entry("ollama"),
    entry("lm-studio"),
    entry("openai-compatible", base_url="http://localhost:8080/v1", api_key_env="SOME_KEY"),
    entry("openai-compatible", base_url="http://[::1]:8080/v1", api_key_env="SOME_KEY"),
    entry("openai-compatible", base_url="https://m.invalid/v1"),
]


@pytest.mark.parametrize("of", OPTIONAL)
def test_a_server_that_wants_no_key_gets_none(of: ProviderEntry) -> None:
    assert given(sources(), of, "p") is None


# ------------------------------------------------------------------ secrecy


def test_every_value_is_known_to_the_redaction_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = Secrets()
    made = Sources(secrets, Time())
    monkeypatch.setenv("ANTHROPIC_API_KEY", "abcdef-secret")
    found = given(made)
    assert secrets.scrub("it is abcdef-secret") == "it is [redacted]"
    assert "abcdef" not in repr(found)


def test_keys_of_all_entries_are_registered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = Secrets()
    for name in ("ANTHROPIC_AUTH_TOKEN", "SOME_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.setenv(name, f"value-of-{name}")
    Sources(secrets, Time()).register(
        {"a": entry("openai-compatible", api_key_env="SOME_KEY"), "b": entry("openrouter")}
    )
    text = "value-of-ANTHROPIC_AUTH_TOKEN value-of-SOME_KEY value-of-OPENROUTER_API_KEY"
    assert secrets.scrub(text) == "[redacted] [redacted] [redacted]"


def test_status_says_where_from_and_never_what(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with OAuthServer(expires_in=1800) as server:
        made = sources(clean, oauth={"claude": server_of(server)})
        assert run(made.status("claude", CLAUDE)).usable is False
        logged_in(made, server)
        found = run(made.status("claude", CLAUDE))
        assert (found.usable, found.kind, found.expires_at) == (True, "login", Time().at + 1800)
        assert not server.tokens_of("refresh_token")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret-1")
        found = run(made.status("claude", CLAUDE))
        assert (found.usable, found.kind, found.name) == (True, "environment variable", "ANTHROPIC_API_KEY")
        assert "very-secret" not in repr(found)


def test_status_does_not_run_the_helper(clean: Path) -> None:
    mark = clean / "ran"
    made = sources(clean, api_key_helper=f"touch {mark}; echo abcdefgh")
    assert run(made.status("claude", CLAUDE)).kind == "helper"
    assert not mark.exists()
    assert given(made).source == "apiKeyHelper"
    assert stat.S_ISREG(mark.stat().st_mode)
