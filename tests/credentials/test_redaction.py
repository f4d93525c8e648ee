"""Redaction: what must not be seen is not seen, in any form; what is harmless stays as it is."""

import base64
import json
import textwrap
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adderclaw.credentials.redaction import MARK, Secrets, lookalikes, looks_secret, secret_name, visible

SECRET = 'hunter2 "very"/sécret+x=y'


def secrets(*values: str) -> Secrets:
    made = Secrets()
    for value in values:
        made.add(value)
    return made


FORMS = {
    "plain": SECRET,
    "quoted": urllib.parse.quote(SECRET, safe=""),
    "quoted path": urllib.parse.quote(SECRET),
    "quoted plus": urllib.parse.quote_plus(SECRET),
    "hex": SECRET.encode().hex(),
    "HEX": SECRET.encode().hex().upper(),
    "folded": "\n".join(textwrap.wrap(SECRET, 7)),
    "folded and indented": "\r\n  ".join(textwrap.wrap(SECRET, 5)),
    "json": json.dumps(SECRET)[1:-1],
    "json utf-8": json.dumps(SECRET, ensure_ascii=False)[1:-1],
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_exact_values_are_replaced_in_every_form(form: str) -> None:
    assert secrets(SECRET).scrub(f"before {form} after") == f"before {MARK} after"


@pytest.mark.parametrize("before", ["", "u", "us", "usr"])
@pytest.mark.parametrize("after", ["", "t", "tt"])
def test_base64_is_found_wherever_the_value_stands(before: str, after: str) -> None:
    data = (before + SECRET + after).encode()
    for text in (base64.b64encode(data), base64.urlsafe_b64encode(data)):
        assert MARK in secrets(SECRET).scrub(text.decode())


@given(st.text(min_size=6, max_size=40).map(str.strip).filter(lambda text: len(text) >= 6), st.text(), st.text())
def test_no_registered_value_survives(value: str, before: str, after: str) -> None:
    assert value not in secrets(value).scrub(before + value + after).replace(MARK, "\0")


def test_base64_is_found_across_its_lines() -> None:
    long = "sk-" + "0123456789abcdefghijklmnopqrstuvwxyz" * 4
    wrapped = base64.encodebytes(f"key={long}\n".encode()).decode()
    assert wrapped.count("\n") > 2
    left = secrets(long).scrub(wrapped)
    assert MARK in left
    assert len(left) < 40


def test_a_short_value_is_not_looked_for_across_words() -> None:
    assert secrets("password").scrub("pass\nword") == "pass\nword"


def test_short_values_are_not_registered() -> None:
    assert secrets("abc", "", "   ").scrub("abc is a word") == "abc is a word"


def test_a_value_that_is_part_of_another() -> None:
    assert secrets("secret-1", "secret-1-and-more").scrub("secret-1-and-more") == MARK


SHAPES = [
    "sk-ant-api03-abcdefghijklmnopqrstuvwx",
    "sk-proj-ABCDEFGHIJ0123456789abcdef",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0abcdefghijklmnop",
    "glpat-abcdefghijklmnopqrst",
    "xoxb-123456789012-abcdefghijkl",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234",
    "hf_abcdefghijklmnopqrstuvwxyz",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk and cut off",
]


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_are_taken_out(shape: str) -> None:
    assert looks_secret(shape)
    assert Secrets().clean(f"x {shape} y").replace(" y", "") == f"x {MARK}"


IN_CONTEXT = [
    ("Authorization: Bearer abcdefghijklmnop", "abcdefghijklmnop"),
    ("authorization: basic dXNlcjpwYXNzd29yZA==", "dXNlcjpw"),
    ("OPENAI_API_KEY=abcdef123", "abcdef123"),
    ("export DB_PASSWORD='correct-horse'", "correct-horse"),
    ('{"api_key": "abcdef123"}', "abcdef123"),
    ('{\\"client_secret\\": \\"abcdef123\\"}', "abcdef123"),
    ("password: correcthorse", "correcthorse"),
    ("https://user:pa55word@example.org/x", "pa55word"),
    ("postgres://svc:pa55word@db/x", "pa55word"),
    ("https://example.org/?access_token=abcdef123&x=1", "abcdef123"),
]


@pytest.mark.parametrize(("text", "secret"), IN_CONTEXT)
def test_secrets_are_known_by_what_stands_around_them(text: str, secret: str) -> None:
    assert secret not in Secrets().clean(text)


HARMLESS = [
    "a task-force-of-many-people-in-town",
    "max_tokens=409600, input_tokens: 1200000",
    "the key: value pairs",
    "https://example.org/a@b",
    "token: $GITHUB_TOKEN",
    "api_key_env = OPENAI_API_KEY",
    "def tokenize(text): return text",
    "secret: null",
    "größe 東京 🙂 ok",
    "tab\tand\nnewline",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_stays(text: str) -> None:
    assert Secrets().clean(text) == text


NAMES = [
    ("api_key", True),
    ("API-Key", True),
    ("x-auth-token", True),
    ("clientSecret", True),
    ("Authorization", True),
    ("api_key_env", False),
    ("gateway_token_env", False),
    ("max_tokens", False),
    ("key", False),
    ("tokens", False),
    ("keyboard", False),
]


@pytest.mark.parametrize(("name", "expected"), NAMES)
def test_names_of_secrets(name: str, expected: bool) -> None:
    assert secret_name(name) is expected


def test_clean_goes_through_everything() -> None:
    value = {"a": ["\x1b[31m", {"password": "x", "n": 1, "none": None}], SECRET: (True, 1.5), "token": 5}
    assert secrets(SECRET).clean(value) == {
        "a": ["\\u{1b}[31m", {"password": MARK, "n": 1, "none": None}],
        MARK: [True, 1.5],
        "token": 5,
    }


def test_clean_survives_deep_nesting() -> None:
    deep: list[object] = []
    for _ in range(900):
        deep = [deep]
    assert "[nested too deeply]" in str(Secrets().clean(deep))


CONTROL = [
    ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
    ("a\u202eb", "a\\u{202e}b"),
    ("a\u2066b\u2069", "a\\u{2066}b\\u{2069}"),
    ("a\u200bb\ufeff", "a\\u{200b}b\\u{feff}"),
    ("\x9b31m", "\\u{9b}31m"),
    ("\x7f\x00", "\\u{7f}\\u{0}"),
    ("a\rb", "a\\u{d}b"),
    ("a\r\nb", "a\nb"),
    ("a\u2028b", "a\\u{2028}b"),
    ("\ud800", "\\u{d800}"),
    ("\U000e0041", "\\u{e0041}"),
    ("a\xa0b\u3000", "a\xa0b\u3000"),
]


@pytest.mark.parametrize(("text", "expected"), CONTROL)
def test_control_characters_are_escaped(text: str, expected: str) -> None:
    assert visible(text) == expected
    assert visible(f"line\n{text}") == f"line\n{expected}"


def test_newlines_can_be_escaped_too() -> None:
    assert visible("a\nb\tc", keep_newlines=False) == "a\\u{a}b\\u{9}c"


@given(st.text())
def test_what_is_visible_steers_no_terminal(text: str) -> None:
    shown = visible(text)
    assert not any((ord(char) < 32 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0 for char in shown)
    shown.encode()
    assert visible(shown) == shown


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cat file.txt", []),
        ("caf\xe9 \u043f\u0440\u0438\u0432\u0435\u0442", []),
        ("curl p\u0430ypal.example", ["p\\u{430}ypal.example"]),
        ("rm \u03bfld/x n\u0435w n\u0435w", ["\\u{3bf}ld", "n\\u{435}w"]),
    ],
)
def test_words_of_several_alphabets_are_marked(text: str, found: list[str]) -> None:
    assert lookalikes(text) == found
