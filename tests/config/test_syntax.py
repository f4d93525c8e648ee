"""Three syntaxes: each malformed file is refused with file, line and column, and none can blow up."""

import pytest

from adderclaw.config.syntax import parse
from adderclaw.core.errors import ConfigError
from tests.rows import rows

REFUSED = [
    ("a.toml", b"a = 1\nb = = 2", "line 2, column 5"),
    ("a.toml", b"a = [1,", "line 1, column 8"),
    ("a.toml", b"a = 1\na = 2", "line 2"),
    ("a.toml", b"a = " + b"[" * 3000, "nested too deeply"),
    ("a.yaml", b"a: 1\nb: [1, 2\nc: 3", "line 3, column 2"),
    ("a.yaml", b"a: 1\na: 2", "line 2, column 1: the key 'a' is given twice"),
    ("a.yaml", b"a: {b: 1, b: 2}", "the key 'b' is given twice"),
    ("a.yaml", b"a: &a [*a, *a, *a]", "more than 100000 values"),
    ("a.yaml", b"a: &a 1\nb: [" + b"*a, " * 40 + b"1]", "more than 32 aliases"),
    ("a.yaml", b"a: &a {x: 1}\nb:\n  <<: *a", "merge keys"),
    ("a.yaml", b"a: *nowhere", "undefined alias"),
    ("a.yaml", b"a: !!python/object/apply:os.system [id]", "line 1, column 4"),
    ("a.yaml", b"a: !!set {x, y}", "a: a value of type set is not allowed"),
    ("a.yaml", b"a: !!int x", "invalid literal"),
    ("a.yaml", b"a: 1\n---\nb: 2", "line 2"),
    ("a.yaml", b"a:\n\t- 1", "line 2"),
    ("a.yaml", b"1: x", "1: the key must be text"),
    ("a.yaml", b"\x00", "unacceptable character"),
    ("a.yaml", b"- 1", "must be a table of keys and values, not a list"),
    ("a.yaml", b"[" * 5000, "nested too deeply"),
    ("a.yaml", b"a: " + b"[" * 40 + b"]" * 40, "nested more than 32 deep"),
    ("a.json", b'{"a": 1,}', "line 1, column 9"),
    ("a.json", b'{"a": 1,\n "a": 2}', "line 2, column 2: the key 'a' is given twice"),
    ("a.json", b'{"a":' + b"[" * 100_000, "nested too deeply"),
    ("a.json", b'{"a": ' + b"9" * 5000 + b"}", "digits"),
    ("a.json", b'{"a":\n\xff}', "line 2, column 1: not UTF-8"),
    ("a.ini", b"", "the suffix .ini is not known; allowed: .toml, .yaml, .yml, .json"),
]


@rows(("name", "data", "message"), REFUSED)
def test_refuses(name: str, data: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"/x/{name}", data)
    assert str(caught.value).startswith(f"/x/{name}: ")
    assert message in str(caught.value)


ACCEPTED: list[tuple[str, bytes, dict[str, object]]] = [
    ("a.toml", b"d = 2020-01-01\n[t]\nx = 1", {"d": "2020-01-01", "t": {"x": 1}}),
    ("a.yaml", b"d: 2020-01-01\nt: {x: 1}", {"d": "2020-01-01", "t": {"x": 1}}),
    ("a.yml", b"a: &a [1]\nb: *a", {"a": [1], "b": [1]}),
    ("a.yaml", b"# nothing", {}),
    ("a.json", b"\xef\xbb\xbf{}", {}),
    ("a.json", b"", {}),
]


@pytest.mark.parametrize(("name", "data", "expected"), ACCEPTED)
def test_accepts(name: str, data: bytes, expected: object) -> None:
    assert parse(name, data) == expected
