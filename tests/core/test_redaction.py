"""Redaction: what must not be seen is not seen, in any form; what is harmless stays as it is."""

import base64
import json
import re
import textwrap
import urllib.parse
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adderclaw.core.redaction import MARK, MOST_MARKS, Secrets, is_secret_name, lookalikes, looks_secret, visible
from tests.rows import rows

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


@rows("form", FORMS.values(), ids=FORMS)
def test_exact_values_are_replaced_in_every_form(form: str) -> None:
    assert secrets(SECRET).scrub(f"before {form} after") == f"before {MARK} after"


@rows("before", ["", "u", "us", "usr"])
@rows("after", ["", "t", "tt"])
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


def test_a_placeholder_is_no_secret() -> None:
    assert secrets("ollama", "not-needed").scrub("ollama needs a key, not-needed") == "ollama needs a key, not-needed"


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
    "sk-or-v1-0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d",
    "sk-ant-api03-aB-cD_eF-gH_iJ-kL_mN-oP_qR-sT_uV-wX_yZ-0",
    "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "whsec_4eC39HqLyjWDarjt",
    "ya29.a0AfH6SMBx-abcdefghijkl",
    "npm_abcdefghijklmnopqrstuvwxyz",
    "pypi-AgEIcHlwaS5vcmcCJDU3",
    "xapp-1-A0123456789-abcdef",
    "ASIAIOSFODNN7EXAMPLE",
]


@rows("shape", SHAPES)
def test_shapes_are_taken_out(shape: str) -> None:
    assert looks_secret(shape)
    assert Secrets().clean(f"x {shape} y").replace(" y", "") == f"x {MARK}"


_BEGIN, _END = (f"-----{word} RSA PRIVATE KEY-----" for word in ("BEGIN", "END"))


@rows(
    "text",
    [
        f"{_BEGIN}\n{_BEGIN}\nMIIEow\nAB12\n{_END}",
        f"{_BEGIN} {_BEGIN}\nMIIEow\nAB12\n{_END}",
        f"{_BEGIN}\nMIIEowIBAAKCAQEA\nMIIEowIBAAKCAQEA\nAB12\n{_BEGIN}\nMIIEow\nAB12\n{_END}",
    ],
)
def test_nothing_of_a_key_is_shown_because_another_one_begins_before_it(text: str) -> None:
    shown = Secrets().clean(f"x {text} y")
    assert shown.replace(MARK, "").split() == ["x", "y"]


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
    ("https://abcdef123@example.org/x", "abcdef123"),
    ("the password: correcthorse is mine", "correcthorse"),
    ("passphrase: correct horse", "correct "),
    ("client secret: correcthorse", "correcthorse"),
    ("API_TOKEN=letmein", "letmein"),
    ("PASSWORD=changeme", "changeme"),
    ("PASSWORD=required", "required"),
    ("token: abcdefghij", "abcdefghij"),
    ("the token: abcdef12 is new", "abcdef12"),
    ("the token: aBcDeFgH is new", "aBcDeFgH"),
    ("Bearer abcdefghijkl9", "abcdefghijkl9"),
    ("Bearer AbCdEfGhIjKlMn", "AbCdEfGhIjKlMn"),
    ("PWD=hunter22", "hunter22"),
    ("cookie: sid=abc123def", "abc123def"),
    ("password = hunter22(x", "hunter22"),
]


@rows(("text", "secret"), IN_CONTEXT)
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
    "missing_provider_api_key: anthropic has no key",
    "missing_provider_api_key: provider 'x': needs its key in the variable OPENAI_API_KEY, which is not set",
    "error: missing_provider_api_key: OPENAI_API_KEY is not set",
    "missing_provider_api_key: 'anthropic' has none",
    "missing_provider_api_key: https://api.example.org/models wants one",
    "missing_provider_api_key: credentials",
    "basic authentication is needed, or the bearer authentication scheme",
    "a basic understanding of it",
    "password: required",
    "wrong password: access denied",
    "token: expired at noon",
    "invalid token: expected identifier",
    "next token: PUNCTUATION",
    "credentials: 'include'",
    "keyword: secret: hidden",
    "ssh://git@example.org/a.git",
    "postgresql://USER@HOST:5432/adderclaw",
    "token = get_token()",
    "secret_key = os.environ['KEY']",
    "self.token = self.config.token",
    "password: string",
    "pwd: /home/me/project",
    "pip install sk-learn-contrib-version2",
    "größe 東京 🙂 ok",
    "tab\tand\nnewline",
]


@rows("text", HARMLESS)
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


@rows(("name", "expected"), NAMES)
def test_names_of_secrets(name: str, expected: bool) -> None:
    assert is_secret_name(name) is expected


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
    ("a\u200db", "a\\u{200d}b"),
    ("a\u200cb", "a\\u{200c}b"),
    ("\U0001f468\u200d", "\U0001f468\\u{200d}"),
    ("\u0634\u200c\u200c", "\u0634\u200c\\u{200c}"),
    ("\u202b\u05e9\u202c", "\\u{202b}\u05e9\\u{202c}"),
    ("\u2067\u05e9", "\\u{2067}\u05e9"),
    ("\u05e9\u2069\u2067", "\u05e9\\u{2069}\\u{2067}"),
    ("a\u200eb", "a\\u{200e}b"),
    ("\xad\u2060\u180e", "\\u{ad}\\u{2060}\\u{180e}"),
    ("\U0001f44d\ufe0f\ufe01\ufe02", "\U0001f44d\ufe0f\\u{fe01}\\u{fe02}"),
    ("a" + "\u0301" * 12, "a" + "\u0301" * MOST_MARKS + "\\u{301}" * 2),
    ("\U0001f3f4\U000e0067\U000e007f", "\U0001f3f4\\u{e0067}\\u{e007f}"),
]
"""What steers a terminal, hides or reorders, and how it is shown."""

WRITTEN = [
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "\u2764\ufe0f\u200d\U0001f525",
    "\U0001f3f3\ufe0f\u200d\U0001f308 \U0001f1e9\U0001f1ea 1\ufe0f\u20e3",
    "\U0001f469\U0001f3fd\u200d\U0001f4bb \U0001f937\u200d\u2642\ufe0f",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u0915\u094d\u200d\u0937 \u0915\u094d\u200c\u0937 \u0dc1\u0dca\u200d\u0dbb\u0dd3",
    "\u0647\u200d.\u0634",
    "Tie\u0302\u0301ng Vie\u0323\u0302t, \u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd",
    "\u0645\u0631\u062d\u0628\u0627 \u2068John\u2069 \u05e9\u05dc\u05d5\u05dd\u200f!",
    "\u845b\U000e0100 \u1820\u180b \u06dd12",
    "\u1781\u17d2\u1798\u17c2\u179a\u200b\u1797\u17b6\u179f\u17b6",
]
"""What people write."""


@rows("text", WRITTEN)
def test_what_people_write_stays(text: str) -> None:
    assert visible(text) == text
    assert visible(f"line\n{text} x", keep_newlines=True) == f"line\n{text} x"


def test_what_is_approved_shows_every_mark_of_direction() -> None:
    assert visible("\u05e9\u2067a\u2069\u200f", directions=False) == "\u05e9\\u{2067}a\\u{2069}\\u{200f}"


@rows(("text", "expected"), CONTROL)
def test_control_characters_are_escaped(text: str, expected: str) -> None:
    assert visible(text) == expected
    assert visible(f"line\n{text}") == f"line\n{expected}"


def test_newlines_can_be_escaped_too() -> None:
    assert visible("a\nb\tc", keep_newlines=False) == "a\\u{a}b\\u{9}c"


ODD = (
    "\u200b\u200c\u200d\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufe0f\U000e0100"
    "\u0301\u20e3\u05e9\u0634\u0915\u094d\u1781\U0001f468\u2764\U000e0041\x1b\x9b\u2028\xad\ufeff\n\r\t a"
)


@pytest.mark.parametrize(
    "hidden", "\u034f\u115f\u1160\u17b4\u2065\u2800\u3164\uffa0\ufff0\U0001d159\U000e0080\U000e0fff"
)
def test_letters_that_nobody_sees_are_written_out(hidden: str) -> None:
    assert visible(f"rm{hidden}-rf") == f"rm\\u{{{ord(hidden):x}}}-rf"


@given(st.text() | st.text(alphabet=ODD, max_size=40), st.booleans())
def test_what_is_visible_steers_no_terminal(text: str, directions: bool) -> None:
    for newlines in (True, False):
        shown = visible(text, keep_newlines=newlines, directions=directions)
        assert visible(shown, keep_newlines=newlines, directions=directions) == shown
        shown.encode()
        assert not [char for char in shown if ord(char) < 32 and char not in "\n\t" * newlines]
        assert not [char for char in shown if 0x7F <= ord(char) < 0xA0 or char in "\u2028\u2029\xad\ufeff"]
        assert not [char for char in shown if 0x202A <= ord(char) <= 0x202E or 0xE0000 <= ord(char) <= 0xE007F]
        assert not re.search("[\u200c\u200d]{2}|[a-z][\u200b-\u200d]|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}", shown)
        assert directions or not re.search("[\u2066-\u2069\u200e\u200f\u061c]", shown)
        for line in shown.split("\n"):
            depth = [0]
            for char in line:
                depth.append(depth[-1] + (char in "\u2066\u2067\u2068") - (char == "\u2069"))
            assert (min(depth), depth[-1]) == (0, 0), "an isolate goes on past its line"
            stacks = "".join("m" if category(char) in ("Mn", "Me") else " " for char in line).split()
            assert all(len(stack) <= MOST_MARKS for stack in stacks)


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
