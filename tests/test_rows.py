"""A table in one test: each row is run, and each that fails is named."""

import pytest

from tests.rows import rows


def test_every_row_is_run_and_each_that_fails_is_named() -> None:
    seen: list[tuple[int, str, str]] = []

    @rows("number", [1, 2, 3])
    @rows(("word", "other"), [("a", "x"), pytest.param("b", "y", id="the second")])
    def table(number: int, word: str, other: str) -> None:
        seen.append((number, word, other))
        assert (number, word) != (2, "a"), "not this one"
        if (number, word) == (3, "b"):
            pytest.fail("nor this")

    with pytest.raises(AssertionError) as caught:
        table()
    assert seen == [(n, w, o) for n in (1, 2, 3) for w, o in (("a", "x"), ("b", "y"))]
    first, *named = str(caught.value).splitlines()
    assert first == "2 of 6 rows:"
    assert named[0].startswith("  number=2 word='a' other='x': AssertionError: not this one")
    assert any(line.startswith("  number=3 the second: Failed: nor this") for line in named)


def test_a_table_without_rows_or_with_a_wrong_one_is_refused() -> None:
    with pytest.raises(ValueError, match="no row"):
        rows("number", [])
    with pytest.raises(AssertionError, match="is no row for"):
        rows(("a", "b"), [(1, 2, 3)])

    def of_one(number: int) -> None: ...

    with pytest.raises(AssertionError, match="takes no"):
        rows("word", [1])(of_one)


@rows("number", [1, 2])
def test_a_fixture_is_given_to_every_row(number: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert number
    assert tmp_path_factory.getbasetemp()
