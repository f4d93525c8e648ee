"""Pieces of Perl and Ruby: what is refused, and what is taken."""

from collections.abc import Callable

import pytest

from adderclaw.gate import perlish, rubyish
from adderclaw.gate.javascript import Reading
from tests.gate.test_corpus import sections

READERS: dict[str, Callable[[str], Reading | None]] = {
    "Perl": lambda code: perlish.read(("perl", "-ne", code)),
    "Ruby": lambda code: rubyish.read(("ruby", "-e", code)),
}


def read(language: str, code: str) -> Reading:
    return READERS[language](code.replace("␤", "\n")) or Reading("no piece")


@pytest.mark.parametrize(("language", "listed"), sections("pieces_refused.txt"))
def test_what_could_reach_further_is_refused(language: str, listed: list[str]) -> None:
    assert len(listed) > 90
    assert [code for code in listed if not read(language, code).why] == []


@pytest.mark.parametrize(("language", "listed"), sections("pieces_taken.txt"))
def test_what_computes_and_prints_is_taken(language: str, listed: list[str]) -> None:
    assert [code for code in listed if read(language, code).why] == []


@pytest.mark.parametrize(
    "words",
    [
        "perl -x -e 1", "perl -Mx -e 1", "perl -I. -e 1", "perl -s -e 1", "perl -S x", "perl -d -e 1", "perl -n",
        "perl -F/x/ -ane 1", "perl -pie 1 x", "perl -ne 1 x -e 2", "ruby -ne 1", "ruby -r./x -e 1", "ruby -rx -e 1",
        "ruby -e 1 -e 2", "ruby -e 1 x", "ruby -C x -e 1", "ruby -x -e 1", "ruby x", "ruby -Ilib -e 1", "ruby",
    ],
)  # fmt: skip
def test_other_forms_are_no_pieces(words: str) -> None:
    given = tuple(words.split())
    assert (perlish.read(given) if given[0] == "perl" else rubyish.read(given)) is None


def test_files_are_said_and_have_plain_names() -> None:
    assert perlish.read(("perl", "-i", "-pe", "s/a/b/", "x", "y")) == Reading("", ("x", "y"), ("x", "y"))
    for name in ("id|", ">x", "<x", "x y", "a;b", "-"):
        found = perlish.read(("perl", "-ne", "print", name))
        assert found is None or found.why
    assert rubyish.read(("ruby", "-e", 'puts File.read("../x").size')) == Reading("", ("../x",))
