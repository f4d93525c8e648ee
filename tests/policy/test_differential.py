"""The differential test: of every text that becomes a plan, bash does the same with the text as with what we render."""

import os
import random
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path

import pytest

from tests.policy import differential
from tests.policy.differential import Ground, Tally, compared
from tests.program import Soak

HERE = Path(__file__).parent
TOTAL = 100_000
LEAST = 0.6
"""The part of all texts that has to become plans."""
EXACT = 0.85
"""The part of the plans whose calls, output, status and files are compared one by one, in their order."""

WORDS = [
    *["a", "b.txt", "*.txt", "*.py", "src/*", "src/*.py", ".h*", "[ab].txt", "?.py", "nomatch*", '"a b"'],
    *["'c d.txt'", "a\\ b", '""', "''", "{a,b}", "{1..3}", "x{,y}z", "~", "~/q", "$HOME", '"$HOME"', "$USER"],
    *['"$USER"', "$X", '"$X"', "${X}", "${X:-dflt}", '"${X:-a b}"', "${Y:+set}", "$UNSET", '"$UNSET"'],
    *["$'t\\tx'", "$((1+2))", "$((X*2))", "-n", "--opt=v", "a=b", "a,b", "100%", "@x", '"x$X"y', "'$X'"],
    *["\\$X", '"it\'s"', '"q\\"q"', "src/", "docs/*.md", '-m "msg $X"', "{}", "}", "a#b", "HEAD~1"],
    *["$(cat <<<inner)", '"$(basename src/app.py .py)"', "${F%.py}", "${F##*/}", "${#F}", "${F/a/o}", "${F^^}"],
    *["${F:1:2}", "a{b,c{d,e}}f", '"a\nb"', "\\*", '"*"', "~x", "a~", "x=~/y", "[!a]*", "*/", "src/*/", '"$?"'],
    *["$?", '"$(good x)"', "$(seq 2 3)", "$((${#F}+1))", '"${X:0:2}"', "${X//a/o}", '"${X-none}"'],
]
PROGRAMS = ["good", "bad", "ok", "run", "git", "make", "ls"]
REDIRECTS = [
    "> out",
    ">> out",
    "2> err",
    "2>&1",
    "> /dev/null",
    "2>/dev/null",
    "< a.txt",
    "<<< x",
    '<<< "$X y"',
    "&> all",
    ">| out",
]
ASSIGNS = [
    "X=1",
    "X=a",
    "X='b c'",
    'X="$X$X"',
    "X=$((3))",
    "F=src/app.py",
    "Y=",
    "X=*.py",
    "CI=1",
    "export FOO=bar",
    "X=$(good)",
]
TESTS = [
    *["[ -f a.txt ]", '[ "$X" = a ]', '[ -n "$X" ]', "[[ -d src ]]", "[[ $X == a* ]]", "[[ -f a.txt && ! -d nope ]]"],
    *['test -z "$X"', "[[ $X != b ]]", "good", "! bad x", "true", "false", "[ 1 -lt 2 ]", "[[ a == a || b == c ]]"],
]


ARGUMENTS = [
    *['"$1"', "$1", '"$2"', "$2", '"$@"', '"$@"', "$@", '"$*"', "$*", "$#", '"${1:-none}"', "${1#a}", "${#1}"],
    *['"${@:2}"', '"${2-}"', '"<$@>"', '"$*$1"', "x$@y", "${3:+three}"],
]
"""Words inside of a function."""
INSIDE = [
    *["X=1", 'X="$1"', "X=$(good)", "X=", "X=2 Y=$1", "i=$X", "X=inner", "Z=$1; X+=$Z", '[ "$1" = a ] && good'],
    *["cd src", "set -e", '"$@"', '[ -n "$1" ] || bad', "exit 4", "export FOO=$1", "gn() { good again; }", "echo $?"],
    *['for i in "$@"; do good "$i"; done', 'case "$1" in a) bad;; *) good;; esac'],
]
ELEMENTS = [
    *['"${A[@]}"', '"${A[@]}"', "${A[@]}", '"${A[*]}"', "${A[*]}", "${#A[@]}", "${A[0]}", '"${A[1]}"', '"${A[@]:1}"'],
    *[
        '"${A[@]:0:2}"',
        "${!A[@]}",
        '"x${A[@]}y"',
        '"${A[-1]}"',
        '"${A[7]}"',
        '"${A[@]: -2}"',
        "${A[@]: -9}",
        '"${A[@]%.py}"',
        "${A[@]##*/}",
    ],
]
ARRAYS = [
    "A=()",
    "A=(a)",
    "A=(a 'b c' *.py)",
    'A=("$X" "" {1..3})',
    "A=(a $(good) b)",
    "A=('' x)",
    'A=(\n a # note\n "$USER"\n)',
]
MORE = [
    "A+=(z)",
    'A+=("$X" q)',
    "A=(new)",
    "A+=($(bad))",
    "A+=(*.txt)",
    "(A+=(sub))",
    'A=("${A[@]:1}")',
    'A=("${A[@]}" end)',
]


class Writer:
    """Texts from the grammar."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.words: list[str] = []
        """What may stand here beside the usual words, because of what stands around it."""
        self.commands: list[str] = []

    def text(self) -> str:
        """A script; some begin with functions, some with an array."""
        roll = self.rng.random()
        if roll < 0.18:
            return self.with_functions()
        if roll < 0.28:
            first, self.words, self.commands = self.rng.choice(ARRAYS), ELEMENTS, MORE
            return f"{first}\n{self.script(2)}"
        return self.script(2)

    def with_functions(self) -> str:
        rng, defined = self.rng, list[str]()
        for name in ("fn", "gn")[: rng.choice([1, 1, 2])]:
            self.words, self.commands = ARGUMENTS, [*INSIDE, *(["fn", 'fn "$@"', "fn x | good"] if defined else [])]
            opened, closed = rng.choice([("{", "; }"), ("{", "; }"), ("{", "; }"), ("(", ")"), ("{", "; } > out")])
            head = rng.choice([f"{name}()", f"{name} ()", f"function {name}"])
            defined.append(f"{head} {opened} {self.script(1)}{closed}")
        calls = ("fn", "gn")[: len(defined)]
        self.words, self.commands = (
            [],
            [
                f"{name}{given}"
                for name in calls
                for given in (
                    "",
                    " a",
                    " a 'b c'",
                    ' "$X" "" b',
                    " *.py",
                    ' "$(good x)" y',
                    " a > out",
                    " $X",
                    ' "$(cat <<<a)"',
                )
            ],
        )
        used = [
            rng.choice([f"{c} a b", f"{c}", f"{c} a || good", f'echo "$({c} a)"', f"X=0; {c} b; good $X"])
            for c in calls
        ]
        return rng.choice(["\n", "; "]).join(
            [*rng.sample(["set -e", "X=a"], rng.choice([0, 0, 1])), *defined, self.script(1), *used]
        )

    def word(self) -> str:
        word = self.rng.choice(self.words if self.words and self.rng.random() < 0.4 else WORDS)
        return word if self.rng.random() < 0.9 else word + self.rng.choice(WORDS)

    def simple(self) -> str:
        rng = self.rng
        if self.commands and rng.random() < 0.25:
            return rng.choice(self.commands)
        roll = rng.random()
        if roll < 0.1:
            return rng.choice(ASSIGNS)
        if roll < 0.2:
            return " ".join((rng.choice(["echo", "printf '%s,'"]), *(self.word() for _ in range(rng.randint(0, 3)))))
        if roll < 0.24:
            return rng.choice(["cd src", "cd nope", "pwd", "cd src/sub", "cd ..", ":", 'echo "$?"', "echo $(good a)"])
        words = [rng.choice(PROGRAMS), *(self.word() for _ in range(rng.randint(0, 3)))]
        if rng.random() < 0.08:
            words.insert(0, rng.choice(["FOO=1", "CI=$X", 'FOO="a b"']))
        if rng.random() < 0.2:
            words.append(rng.choice(REDIRECTS))
        return " ".join(words)

    def command(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.75:
            return self.simple()
        kind = rng.randrange(9)
        body = self.script(depth - 1)
        match kind:
            case 0:
                return f"({body})"
            case 1:
                return f"{{ {body}; }}"
            case 2:
                return f"if {rng.choice(TESTS)}; then {body}; fi"
            case 3:
                first, second = rng.choices(TESTS, k=2)
                return f"if {first}; then {body}; elif {second}; then {self.simple()}; else {self.simple()}; fi"
            case 4 | 5:
                words = " ".join(self.word() for _ in range(rng.randint(0, 3)))
                return f'for i in {words}; do {body}; {rng.choice(PROGRAMS)} "$i"; done'
            case 6:
                return f"case {rng.choice(['$X', 'a.txt', '$i'])} in a*|b) {body};; *) {self.simple()};; esac"
            case 7:
                return f"{rng.choice(TESTS)} {rng.choice(['&&', '||'])} {self.simple()}"
            case _:
                return f'while read -r line; do echo "$line"; {self.simple()}; done < a.txt'

    def script(self, depth: int) -> str:
        rng = self.rng
        parts = [self.command(depth)]
        while rng.random() < 0.4 and len(parts) < 8:
            beside = " & " if self.words is not ARGUMENTS else "; "
            parts.append(rng.choice([" && ", " || ", "; ", "\n", " | ", "; ", beside, " |& "]))
            parts.append(self.command(depth))
        return "".join(parts)


JUNK = list("'\"\\$`*?[]{}~!#&|;<>() \n=ax1")


def mutated(text: str, corpus: list[str], rng: random.Random) -> str:
    """A real command, changed in one or two places."""
    for _ in range(rng.choice([0, 1, 1, 2])):
        text = _mutation(text, corpus, rng)
    return text


def _mutation(text: str, corpus: list[str], rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    blanks = [found.start() for found in re.finditer(" ", text)] or [len(text)]
    blank = rng.choice(blanks)
    other = rng.choice(corpus)
    match rng.randrange(14):
        case 0:
            return text[:at] + rng.choice(JUNK) + text[at:]
        case 1:
            return text[:at] + text[at + 1 :]
        case 2:
            return f"{text[:blank]} {rng.choice(WORDS)}{text[blank:]}"
        case 3:
            return text[:blank] + rng.choice(["  ", "\t", " \\\n ", " ''", ' "" ']) + text[blank:]
        case 4:
            return f"{text}{rng.choice([' && ', ' || ', '; ', ' | ', chr(10)])}{other}"
        case 5:
            return f"{text} {rng.choice(REDIRECTS)}"
        case 6:
            return f"({text})"
        case 7:
            return f"{{ {text}; }}"
        case 8:
            return f"if {text}; then {other}; fi"
        case 9:
            return f"for i in 1 b*; do {text}; done"
        case 10:
            return f"! {text}" if rng.random() < 0.5 else f"{text} # note"
        case 11:
            return f"{rng.choice(ASSIGNS)}; {text}"
        case 12:
            return re.sub(r"\b(\w+)\b", r"'\1'", text, count=1)
        case _:
            return f"cd src && {text}" if rng.random() < 0.5 else f"set -e; {text}"


def blocks() -> list[str]:
    """The real commands: one after each blank line that is not in a here-document."""
    found: list[list[str]] = [[]]
    mark = ""
    for line in (HERE / "real_commands.txt").read_text().splitlines():
        if mark:
            mark = "" if line.strip() == mark else mark
        elif not line:
            found.append([])
            continue
        elif opened := re.search(r"(?<!<)<<-?['\"]?([A-Z]+)", line):
            mark = opened[1]
        found[-1].append(line)
    return ["\n".join(lines) for lines in found if lines and not lines[0].startswith("## ")]


def corpus() -> list[str]:
    lines = (HERE / "harmless.txt").read_text().splitlines()
    harmless = (line for line in lines if line and not line.startswith("#"))
    return [*blocks(), *(line.replace("\\n", "\n") if "<<" in line else line for line in harmless)]


def texts(part: range, real: list[str]) -> list[str]:
    made: list[str] = []
    for number in part:
        rng = random.Random(number)
        # A sixth of the rounds holds as much of either kind as all of them.
        made.append(mutated(rng.choice(real), real, rng) if number // 6 % 2 else Writer(rng).text())
    return made


def test_the_corpus_of_real_commands_is_planned_as_bash_runs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(blocks()) >= 500
    tally = compared(corpus(), Ground(tmp_path))
    with capsys.disabled():
        print(f"\nreal commands: {tally}")
    assert not tally.wrong, "\n\n".join(map("\n  ".join, tally.wrong))
    assert tally.plans / tally.texts > 0.95
    assert tally.exact / tally.plans > EXACT


_INNER = ("ls", "grep x a.txt", "sort a.txt | head -3", "cat a.txt; ls src", "false")
_OUTER = (
    "diff <({0}) <({1})",
    "cat <({0})",
    "comm -12 <({0}) <({1}) | head",
    "wc -l < <({0})",
    'while read -r f; do echo "$f"; done < <({0})',
    'while IFS= read -r f; do wc -l "$f"; done < <({0}) && ls',
    "cd src && diff a.txt <({0}) || {1}",
    "(sort <({0})) > out.txt; {1}",
    "x=1; grep -f <({0}) b.txt | tail -1; echo $x",
)


def test_what_stands_in_a_process_substitution_is_compared_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = compared([outer.format(*pair) for outer in _OUTER for pair in permutations(_INNER, 2)], Ground(tmp_path))
    with capsys.disabled():
        print(f"\nprocess substitutions: {tally}")
    assert not tally.wrong, "\n\n".join(map("\n  ".join, tally.wrong))
    assert tally.plans / tally.texts > 0.5
    assert tally.others.keys() <= {"in another order", "cut off", "racing writers"}


@pytest.mark.soak
@pytest.mark.skipif(not differential.available(), reason="bash is not installed")
def test_bash_does_with_the_text_what_it_does_with_the_plan(
    tmp_path: Path, soak: Soak, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = list(soak.of(TOTAL, share=24))
    real = corpus()

    def half(index: int) -> Tally:
        part = rounds[index * len(rounds) // 2 : (index + 1) * len(rounds) // 2]
        top = tmp_path / str(index)
        top.mkdir()
        return compared(texts(range(part[0], part[-1] + 1, part[1] - part[0]), real), Ground(top))

    began = os.times()
    with ThreadPoolExecutor(2) as pool:
        tally = Tally()
        for one in pool.map(half, range(2)):
            tally.add(one)
    spent = sum(after - before for before, after in zip(began[:4], os.times()[:4], strict=True))
    with capsys.disabled():
        print(f"\ndifferential test: {tally}; {spent:.0f} s of CPU time")
    assert not tally.wrong, "\n\n".join(map("\n  ".join, tally.wrong[:10]))
    assert tally.plans / tally.texts >= LEAST
    assert tally.exact / tally.plans >= EXACT
