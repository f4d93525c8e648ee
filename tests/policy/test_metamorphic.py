"""Another spelling of a command, or harmless company for it, never gets a kinder verdict than the command itself."""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adderclaw.core.types import Autonomy
from adderclaw.policy.case import STRICTNESS, Decision
from adderclaw.policy.legacy.shell.loose import RESERVED
from tests.policy.test_corpus import World, sections
from tests.policy.test_differential import blocks
from tests.program import Soak

TOTAL = 24_000
LISTS = (
    *("attacks.txt", "attacks_full.txt", "attacks_programs.txt", "attacks_sandboxed.txt"),
    *("harmless.txt", "harmless_programs.txt", "harmless_sandboxed.txt"),
)
AUTONOMIES: tuple[Autonomy, ...] = ("supervised", "full")

CONFINED: dict[Autonomy, float] = {"supervised": 0.5, "full": 0.0}
"""How often a sandbox is around the command; in `full`, nearly everything runs in one."""

type Change = Callable[[str, random.Random], str]
"""A text of the same meaning, or the same text where the change does not apply."""


def is_flat(text: str) -> bool:
    """Whether blanks separate words and nothing else: no quotes, here-documents, comments or escapes."""
    return not re.search(r"['\"\\#`\n]|<<|\$[({]", text)


def is_simple(text: str) -> bool:
    """Whether it is one command, whose first word is its program."""
    first = re.match(r"[\w./+-]+", text)
    return is_flat(text) and not re.search(r"[;&|()<>{}]", text) and first is not None and first[0] not in RESERVED


def each_word(text: str, change: Callable[[str], str]) -> str:
    if not is_flat(text):
        return text
    return re.sub(
        r"(?<![^\s])[\w./+-]{2,}(?![^\s])",
        lambda m: change(m[0]) if m[0] not in RESERVED else m[0],
        text,
        flags=re.ASCII,
    )


def split_word(word: str, rng: random.Random) -> str:
    at = rng.randrange(1, len(word))
    marks = ("''", '""', "\\", "'" + word[at] + "'")
    mark = rng.choice(marks)
    return word[:at] + mark + (word[at + 1 :] if mark == marks[3] else word[at:])


def first_word(text: str, change: Callable[[str], str]) -> str:
    if not is_simple(text):
        return text
    name, blank, rest = text.partition(" ")
    return change(name) + blank + rest if len(name) > 1 and "=" not in name else text


def before(text: str) -> Change:
    return lambda command, _: text + command


def after(text: str) -> Change:
    return lambda command, _: command if "<<" in command or command.endswith("\\") else command + text


def around(opening: str, closing: str) -> Change:
    return lambda command, _: f"{opening}{command}\n{closing}"


def prefixed(text: str) -> Change:
    return lambda command, _: text + command if is_simple(command) else command


BUILTINS = frozenset(
    [
        ".",
        ":",
        "[",
        "alias",
        "bg",
        "bind",
        "break",
        "builtin",
        "caller",
        "cd",
        "command",
        "compgen",
        "complete",
        "compopt",
        "continue",
        "declare",
        "dirs",
        "disown",
        "echo",
        "enable",
        "eval",
        "exec",
        "exit",
        "export",
        "false",
        "fc",
        "fg",
        "getopts",
        "hash",
        "help",
        "history",
        "jobs",
        "kill",
        "let",
        "local",
        "logout",
        "mapfile",
        "popd",
        "printf",
        "pushd",
        "pwd",
        "read",
        "readarray",
        "readonly",
        "return",
        "set",
        "shift",
        "shopt",
        "source",
        "suspend",
        "test",
        "times",
        "trap",
        "true",
        "type",
        "typeset",
        "ulimit",
        "umask",
        "unalias",
        "unset",
        "wait",
    ]
)


def wrapped(text: str) -> Change:
    """A wrapper runs a program: before a builtin, or a value that is given to one, it means something else."""

    def change(command: str, rng: random.Random) -> str:
        first = command.split()[0]
        return command if first in BUILTINS or re.match(r"\w+\+?=", first) else prefixed(text)(command, rng)

    return change


CHANGES: dict[str, Change] = {
    "a word split by quotes": lambda text, rng: each_word(text, lambda word: split_word(word, rng)),
    "the program split by quotes": lambda text, rng: first_word(text, lambda word: split_word(word, rng)),
    "the program in quotes": lambda text, _: first_word(text, lambda word: f"'{word}'"),
    "the program in double quotes": lambda text, _: first_word(text, lambda word: f'"{word}"'),
    "the program escaped": lambda text, _: first_word(text, lambda word: f"\\{word}"),
    "the program in $'…'": lambda text, _: first_word(text, lambda word: f"$'{word}'"),
    "words in quotes": lambda text, _: each_word(text, lambda word: f'"{word}"'),
    "more blanks": lambda text, _: text.replace(" ", " \t  ") if is_flat(text) else text,
    "blanks around": lambda text, _: f"  \t{text}" if "<<" in text else f"  {text}  ",
    "continued lines": lambda text, _: text.replace(" ", " \\\n ") if is_flat(text) else text,
    "a continued line before": before("\\\n"),
    "a comment after": after(" # note"),
    "a comment before": before("# note\n"),
    "empty lines": around("\n\n", "\n"),
    "a group": around("{ ", "}"),
    "a subshell": around("( ", ")"),
    "groups in groups": around("{ ( { ", "}\n)\n}"),
    "a condition": around("if true; then ", "fi"),
    "timeout": wrapped("timeout 5 "),
    "nice": wrapped("nice -n 5 "),
    "env": wrapped("env "),
    "env with a variable": wrapped("env FOO=1 "),
    "two wrappers": wrapped("nohup timeout 5 "),
    "a variable": prefixed("FOO=bar "),
    "variables": prefixed("CI=1 X=2 "),
    "after true": before("true; "),
    "after echo": before("echo ok && "),
    "before true": around("", "true"),
    "or true": after(" || true"),
    "negated": prefixed("! "),
    "printed away": after(" 2>/dev/null"),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("metamorphic"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(made.home))
        patch.setenv("PATH", str(made.bin))
        yield made


def corpus() -> list[str]:
    lines = [line for name in LISTS for _, found in sections(name) for line in found]
    return [*(line.replace("\\n", "\n") if "<<" in line else line for line in lines), *blocks()]


@pytest.mark.soak
def test_no_change_of_spelling_loosens_a_verdict(
    world: World, soak: Soak, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines, names = corpus(), list(CHANGES)
    known: dict[tuple[str, Autonomy, bool], Decision] = {}

    def verdict(text: str, autonomy: Autonomy, confined: bool) -> Decision:
        if (text, autonomy, confined) not in known:
            known[text, autonomy, confined] = world.judge(text, autonomy, sandboxed=confined)
        return known[text, autonomy, confined]

    loose: list[str] = []
    applied = dict.fromkeys(names, 0)
    for number in soak.of(TOTAL):
        rng = random.Random(number)
        line, autonomy = rng.choice(lines), rng.choice(AUTONOMIES)
        confined = rng.random() < CONFINED[autonomy]
        plain = verdict(line, autonomy, confined)
        if plain.verdict == "allow":
            continue
        name = rng.choice(names)
        changed = CHANGES[name](line, rng)
        if changed == line:
            continue
        applied[name] += 1
        other = world.judge(changed, autonomy, sandboxed=confined)
        if STRICTNESS[other.verdict] < STRICTNESS[plain.verdict]:
            loose.append(
                f"{autonomy}{', sandboxed' * confined}, {name}: {line!r} is {plain.verdict} ({plain.reason}),"
                f" {changed!r} {other.verdict}"
            )
    with capsys.disabled():
        print(f"\nmetamorphic test: {sum(applied.values()):,} changed commands, {len(loose)} got a kinder verdict")
    assert not loose, "\n".join(loose[:40])
    assert min(applied.values()) >= len(soak.of(TOTAL)) // 1_000, applied
