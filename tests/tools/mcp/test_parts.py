"""The pure parts: schemas of strangers, forms, names, entries of the configuration."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from mcp.client.auth import OAuthFlowError

from adderclaw import config
from adderclaw.config.foreign.json_schema import checked
from adderclaw.config.servers import Entry, Missing, files, filled, parse_server, problems, scope_of, slug
from adderclaw.core.decode import Invalid
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json
from adderclaw.tools.mcp import forms
from adderclaw.tools.mcp.definitions import Definition, list_definitions, server_of, tool_name
from adderclaw.tools.mcp.oauth import client_credentials_auth
from adderclaw.tools.mcp.results import call_result
from tests.program import Cli
from tests.rows import rows

# ------------------------------------------------------------------ schemas that strangers wrote

BLOWS_UP: Json = {"$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}} | {
    "$ref": "#/$defs/d0"
}
BLOWS_UP["$defs"]["d40"] = {"type": "object"}


@pytest.mark.parametrize(
    "schema",
    [
        BLOWS_UP,
        {"$ref": "#"},
        {"$ref": "https://example.org/schema.json"},
        {"type": "nonsense"},
        {"properties": 7},
        {"properties": {"a": {"pattern": "(a+)+$"}}},
        {"required": "a"},
    ],
)
def test_a_schema_that_is_no_use_takes_no_time_and_refuses_nothing(schema: Json) -> None:
    assert checked(schema, {"a": "a" * 40 + "!"}) == {"a": "a" * 40 + "!"}


def test_every_problem_at_once() -> None:
    schema: Json = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": [1]}}, "required": ["c"]}
    with pytest.raises(Invalid) as refused:
        checked(schema, {"a": "x", "b": 2})
    assert len(refused.value.problems) == 3


# ------------------------------------------------------------------ names and definitions


@pytest.mark.parametrize(
    ("given", "made"),
    [("GitHub", "github"), ("my server!", "my_server"), ("a__b", "a_b"), ("_x_", "x"), ("x-1", "x-1"), ("!", "")],
)
def test_slugs(given: str, made: str) -> None:
    assert slug(given) == made


@pytest.mark.parametrize(
    ("name", "server"),
    [("mcp__a__b", "a"), ("mcp__a_b__c__d", "a_b"), ("mcp__a", None), ("Bash", None), ("mcp__A__b", None)],
)
def test_the_server_of_a_name(name: str, server: str | None) -> None:
    assert server_of(name) == server


def _tool(name: str, **more: Any) -> Any:
    given: Json = {
        "name": name,
        "title": None,
        "description": "",
        "input_schema": {},
        "output_schema": None,
        "annotations": None,
    }
    return SimpleNamespace(**{**given, **more})


def test_what_cannot_be_offered_is_said() -> None:
    big = {"description": "x" * 70_000}
    tools = [_tool("a b"), _tool("a_b"), _tool("x\u202e"), _tool(""), _tool("big", input_schema=big), _tool("good")]
    kept, left_out = list_definitions("s", tools)
    assert [one.name for one in kept] == ["a b", "good"]
    assert len(left_out) == 4
    assert "same name" in left_out[0]
    assert tool_name("s", "a b") == "mcp__s__a_b"


def test_every_part_of_a_definition_counts_for_its_hash() -> None:
    base = Definition("n", "d", {"type": "object"})
    others = [
        base._replace(description="e"),
        base._replace(schema={}),
        base._replace(output={}),
        base._replace(read_only=True),
    ]
    assert len({one.sha256 for one in (base, *others)}) == 5


# ------------------------------------------------------------------ results


def _result(*content: Any, structured: Any = None) -> Any:
    return SimpleNamespace(content=content, structured_content=structured, is_error=False)


def _text(text: str) -> Any:
    return SimpleNamespace(type="text", text=text)


def test_structured_content_is_said_once() -> None:
    assert "structured" not in call_result(_result(_text('{"a": 1}'), structured={"a": 1})).content
    assert 'structured content: {"a":1}' in call_result(_result(_text("other"), structured={"a": 1})).content


def test_links_sounds_and_odd_images_are_named() -> None:
    link = SimpleNamespace(
        type="resource_link", uri="x://y", title=None, name="n", mime_type="text/plain", description=None
    )
    sound = SimpleNamespace(type="audio", mime_type="audio/wav", data="AAAA")
    odd = SimpleNamespace(type="image", mime_type="image/png", data="not base64!")
    result = call_result(_result(link, sound, odd))
    assert "[resource x://y (n, text/plain); ReadMcpResource reads it]" in result.content
    assert "audio/wav, 3 bytes: not shown" in result.content
    assert not result.media


# ------------------------------------------------------------------ forms

FORM: Json = {
    "mcp_server_name": "s",
    "message": "Who\u202e?",
    "mode": "form",
    "requested_schema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name"},
            "age": {"type": "integer"},
            "sure": {"type": "boolean", "default": True},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        },
        "required": ["name", "age"],
    },
}


def test_a_form_is_questions() -> None:
    name, age, sure, tags = forms.form_questions("s", FORM)
    assert name.question.startswith("The MCP server s asks: Who\\u{202e}? Name")
    assert age.options == ()
    assert [option.label for option in sure.options] == ["yes", "no", "leave it empty"]
    assert tags.multi


@pytest.mark.parametrize(
    ("said", "action"),
    [
        (None, "cancel"),
        (["Ann", "7", "no", "a, b"], "accept"),
        (["Ann", "seven", "no", "a"], "decline"),
        (["Ann", "leave it empty", "yes", "a"], "decline"),
        (["Ann", "7", "yes", "c"], "decline"),
    ],
)
def test_answers_fit_or_are_a_refusal(said: list[str] | None, action: str) -> None:
    questions = forms.form_questions("s", FORM)
    replies = None if said is None else {one.question: word for one, word in zip(questions, said, strict=True)}
    made = forms.form_answer("s", FORM, replies)
    assert made["action"] == action
    if action == "accept":
        assert made["content"] == {"name": "Ann", "age": 7, "sure": False, "tags": ["a", "b"]}


@pytest.mark.parametrize(("said", "action"), [("yes", "accept"), ("no", "decline"), ("maybe", "decline")])
def test_an_address_is_a_question(said: str, action: str) -> None:
    asked: Json = {"message": "Pay.", "mode": "url", "url": "https://x.org/", "elicitation_id": "1"}
    (question,) = forms.form_questions("s", asked)
    assert "https://x.org/" in question.question
    assert forms.form_answer("s", asked, {question.question: said})["action"] == action


# ------------------------------------------------------------------ entries

ITSELF = {"grant": "client_credentials", "clientId": "us", "issuer": "https://a.org", "clientSecretEnv": "S"}
LOGINS = [
    ({"url": "https://x.org", "oauth": oauth}, said)
    for oauth, said in (
        ({**ITSELF, "clientId": None}, "clientId: is required"),
        ({**ITSELF, "issuer": None}, "issuer: is required"),
        ({**ITSELF, "issuer": "a.org"}, "not a URL"),
        ({**ITSELF, "clientSecretEnv": None}, "either clientSecretEnv or clientKeyEnv"),
        ({**ITSELF, "clientKeyEnv": "K"}, "either clientSecretEnv or clientKeyEnv"),
        ({**ITSELF, "grant": "password"}, "not allowed"),
        ({"clientMetadataUrl": "https://x.org"}, "name a document"),
        ({"clientMetadataUrl": "http://x.org/me.json"}, "https://"),
    )
]


@pytest.mark.parametrize("kind", ["secret", "key"])
def test_a_client_shows_its_secret_to_its_own_authorization_server_alone(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    made = ec.generate_private_key(ec.SECP256R1())
    pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    monkeypatch.setenv("S", "the-secret")
    monkeypatch.setenv("K", pem)
    given = ITSELF if kind == "secret" else {**ITSELF, "clientSecretEnv": None, "clientKeyEnv": "K"}
    entry = Entry("x", "x", parse_server({"url": "https://x.org/mcp", "oauth": given}), "user")
    assert entry.server.oauth is not None
    auth = client_credentials_auth(entry, entry.server.oauth, "https://x.org/mcp", Secrets())
    sent: list[httpx2.Request] = []

    def answered(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        if "oauth-protected-resource" in request.url.path:
            evil = {"resource": "https://x.org/mcp", "authorization_servers": ["https://evil.org"]}
            return httpx2.Response(200, json=evil)
        if "well-known" in request.url.path:
            place = f"https://{request.url.host}"
            ends = {"authorization_endpoint": f"{place}/a", "token_endpoint": f"{place}/token"}
            return httpx2.Response(200, json={"issuer": place, "response_types_supported": ["code"], **ends})
        return httpx2.Response(401)

    async def ask() -> None:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answered), auth=auth) as client:
            await client.get("https://x.org/mcp")

    with pytest.raises(OAuthFlowError, match="mismatch"):
        asyncio.run(ask())
    assert any(request.url.host == "evil.org" for request in sent), "it was asked who it is"
    assert not any(request.method == "POST" for request in sent)


@rows(
    ("entry", "said"),
    [
        ({}, "either command"),
        ({"command": "x", "url": "https://x.org"}, "either command"),
        ({"command": " "}, "is empty"),
        ({"url": "ftp://x.org"}, "not a URL"),
        ({"url": "https://user:pass@x.org"}, "user name"),
        ({"command": "x", "type": "http"}, "does not go with"),
        ({"command": "x", "timeout": 5}, "timeout"),
        ({"command": "x", "argz": []}, 'did you mean "args"'),
        ({"type": "sse", "url": "https://x.org"}, "not allowed"),
        ("x", "expected"),
        *((entry, said) for entry, said in LOGINS),
    ],
)
def test_wrong_entries(entry: Any, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        parse_server(entry)


def test_keys_of_other_programs_pass() -> None:
    assert parse_server({"command": "x", "alwaysLoad": True, "headersHelper": "y"}).command == "x"


def test_two_names_that_become_one() -> None:
    assert any("same name" in message for _, message in problems({"A": {"command": "x"}, "a": {"command": "x"}}))


def test_variables() -> None:
    values = {"A": "1", "EMPTY": ""}
    assert filled("x${A}y${B:-2}${EMPTY:-3}", values) == "x1y23"
    assert filled("$A", values) == "1"
    assert filled("a$A", values) == "a$A"
    with pytest.raises(Missing, match="B is not set"):
        filled("${B}", values)


def test_what_must_be_visible_in_the_sandbox(tmp_path: Path) -> None:
    script = tmp_path / "node_modules" / "x" / "index.js"
    script.parent.mkdir(parents=True)
    script.touch()
    server = parse_server({"command": "node", "args": [str(script), "--flag"], "reads": [str(tmp_path)]})
    assert files(server) == [str(tmp_path / "node_modules"), str(tmp_path)]


def test_whose_a_server_is(tmp_path: Path) -> None:
    assert scope_of(str(tmp_path / ".mcp.json"), str(tmp_path), "/home/x/.adderclaw") == str(tmp_path)
    assert scope_of("/home/x/.adderclaw/config.toml", str(tmp_path), "/home/x/.adderclaw") == "user"


def test_a_shared_file_with_faults_stops_nobody(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (cli.cwd / ".git").mkdir()
    monkeypatch.chdir(cli.cwd)
    for text in ("{", "[]", '{"mcpServers": 7}', '{"mcpServers": {"x": {"cmd": "y"}}}', "\x00"):
        (cli.cwd / ".mcp.json").write_text(text)
        loaded = config.load()
        assert loaded.config.mcp_servers == {}
        assert any(".mcp.json" in warning for warning in loaded.warnings)
