"""One reader of heads between `---` lines: for skills, agents and rules."""

import pytest

from adderclaw.config.foreign import frontmatter
from adderclaw.config.foreign.frontmatter import Malformed
from adderclaw.sandbox.workspace import globs
from tests.rows import rows


@rows(
    ("text", "body"),
    [
        ("---\nname: a\n---\nWords.\n", "Words.\n"),
        ("\ufeff---\nname: a\n---\nWords.\n", "Words.\n"),
        ("---\r\nname: a\r\n---\r\nWords.\r\n", "Words.\r\n"),
        ("---\n---\nWords.\n", "Words.\n"),
        ("---\nname: a\n---", ""),
        ("---\nname: a --- b\n---\n---\n", "---\n"),
        ("Words.\n---\nMore.\n---\n", "Words.\n---\nMore.\n---\n"),
        ("---\nname: a\nnever ended", "---\nname: a\nnever ended"),
        ("", ""),
    ],
)
def test_what_follows_a_head(text: str, body: str) -> None:
    assert frontmatter.body(text) == body


def test_values_are_texts_lists_and_mappings() -> None:
    data = b"---\nname: helper\nmaxTurns: 5\nbackground: true\ntools: [Read, Grep]\nempty:\n---\n\nDo it.\n"
    fields, body = frontmatter.whole(data)
    said = {"name": "helper", "maxTurns": "5", "background": "true", "tools": ["Read", "Grep"], "empty": None}
    assert (fields, body) == (said, "Do it.")


@rows("more", ["", "list: [a]\n"])
@rows("written", ["~", "null", "Null", "NULL"])
def test_nothing_is_not_an_empty_text(written: str, more: str) -> None:
    """Neither where a parser reads the head, nor where none has to."""
    fields, _ = frontmatter.whole(f"---\na: {written}\nb: \"\"\nc: '{written}'\n{more}---\n".encode())
    assert (fields["a"], fields["b"], fields["c"]) == (None, "", written)


@rows("written", ["true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"])
def test_truth_has_the_spellings_of_yaml(written: str) -> None:
    assert frontmatter.is_true(written)
    assert not any(map(frontmatter.is_true, (f"{written}x", "", None, ["true"], "false", "no", "off")))


@rows(
    ("data", "why"),
    [
        (b"Words.\n", "does not begin with"),
        (b"---\nname: a\n", "does not end"),
        (b"---\nname: \xff\n---\n", "not UTF-8"),
        (b"---\nname: a\n---\n\xff\n", "not UTF-8"),
        (b"---\nname: a\n---\n\0\n", "NUL"),
        (b"---\na: &x [1]\nb: *x\n---\n", "anchors"),
        (b"---\na: !!python/object:os.system x\n---\n", "tags"),
        (b"---\na: [1\n---\n", "not YAML"),
        (b"---\n- a\n---\n", "not a mapping"),
        (b"---\na: 1\na: {}\n---\n", "twice"),
    ],
)
def test_what_is_no_head(data: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        frontmatter.whole(data)


@pytest.mark.parametrize(
    ("pattern", "named", "others"),
    [
        ("*.py", ["a.py", ".a.py"], ["src/a.py", "a.pyc"]),
        ("src/**", ["src/a", "src/a/b.py"], ["lib/a"]),
        ("**/*.ts", ["a.ts", "x/y/a.ts"], ["a.tsx"]),
        ("src/**/*.{ts,tsx}", ["src/a.ts", "src/x/a.tsx"], ["src/a.js", "a.ts"]),
        ("{a,b}/[!x].md", ["a/y.md", "b/z.md"], ["a/x.md", "c/y.md"]),
    ],
)
def test_one_matcher_of_names(pattern: str, named: list[str], others: list[str]) -> None:
    assert [path for path in (*named, *others) if globs.matches(pattern, path)] == named


def test_braces_are_bounded() -> None:
    assert globs.is_bounded("{a,b}/{c,d}")
    assert not globs.is_bounded("/".join(["{a,b,c,d}"] * 5))
