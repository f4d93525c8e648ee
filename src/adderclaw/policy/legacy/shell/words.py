"""Words as bash makes them: braces, `~`, variables, substitutions, splitting and names on the disk, in that order."""

import os
import re
from collections.abc import Callable, Mapping
from itertools import groupby

from adderclaw.core.record import NamedTuple
from adderclaw.policy.legacy.programs.allowlist import listed
from adderclaw.policy.legacy.shell import arithmetic, braces, patterns, values
from adderclaw.policy.legacy.shell.environment import is_special, is_uncertain
from adderclaw.policy.legacy.shell.patterns import Letters
from adderclaw.policy.legacy.shell.plan import Count, Glob, Live, Output, Piece, Script, Unknown, Variable
from adderclaw.policy.legacy.shell.syntax import Arith, NotAPlan, Param, Part, Sub, Text, Word

MAX_MATCHES = 1_000
MAX_VALUE = 2_000
"""Characters of a value that is cut or searched by `${…}`."""


class Component(NamedTuple):
    """One name of a path: as it is, or a pattern."""

    text: str
    pattern: bool = False
    dots: bool = False
    """Whether names that begin with a dot may match."""


class Facts(NamedTuple):
    """What is known of the world in which a command would run; without it, what needs it makes a command raw."""

    cwd: str = ""
    env: Mapping[str, str] | None = None
    """The whole environment of the child: a name that is not in it is not set."""
    look: "Callable[[str, tuple[Component, ...]], list[str] | None] | None" = None
    """The paths that match in a folder, sorted; None where they cannot or may not be looked up."""
    certain: frozenset[str] = frozenset()
    """Variables that a sandbox may set, of which `env` has the value that the child sees."""
    confined: bool = False
    """Whether a sandbox is around the command."""
    roots: tuple[str, ...] = ()
    """The folders that a command stays in, where it can be kept from leaving them."""


UNKNOWN = None
"""The value of a variable that is set to something which is only known when the command runs."""

type Variables = dict[str, str | None]
type Arrays = Mapping[str, tuple[str, ...] | None]

LITERAL, QUOTED, SPLIT, BREAK = 0, 1, 2, 3
"""How a piece was written: as it is, quoted, or as the value of something that is split into words; or where one word

of several ends (`"$@"`).
"""


class Bit(NamedTuple):
    text: str
    how: int
    live: Unknown | None = None


class Field:
    """A word while it is put together."""

    def __init__(self) -> None:
        self.bits: list[Bit] = []

    @property
    def counts(self) -> bool:
        return any(bit.text or bit.how == QUOTED or bit.live for bit in self.bits)


_NO_ARRAYS: Arrays = {}


class Expander:
    """Expands words in one state of the shell; `output` makes a plan of what stands in `$(…)`."""

    def __init__(
        self,
        facts: Facts,
        folders: tuple[str, ...],
        variables: Variables,
        output: Callable[[Sub], str | Script],
        *,
        nounset: bool = False,
        numbers: frozenset[str] = frozenset(),
        changed: Callable[[str, tuple[Component, ...]], bool] = lambda _folder, _parts: False,
        sourced: bool = False,
        counted: frozenset[str] = frozenset(),
        prints_count: Callable[[Script], bool] = lambda _: False,
        arguments: int | None = None,
        arrays: Arrays = _NO_ARRAYS,
        globs: frozenset[str] = frozenset(),
        spend: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`spend` is told how many characters each part of a word becomes, and raises NotAPlan beyond a limit."""
        self.spend = spend
        self.prints_count, self.globs = prints_count, globs
        self.arguments, self.arrays, self.counted, self.sourced = arguments, arrays, counted, sourced
        self.facts, self.folders, self.variables = facts, folders, variables
        self.output, self.nounset, self.numbers, self.changed = output, nounset, numbers, changed

    # ---- whole words

    def fields(self, word: Word) -> list[str]:
        """What an argument becomes: any number of words."""
        if len(word) == 1 and isinstance(word[0], Text):
            text, quoted = word[0]
            if quoted or not re.search(r"[*?\[{~]", text):
                return [text]
        return [
            made for one in braces.expanded(word) for field in self.split(self.bits(one)) for made in self.named(field)
        ]

    def one(self, word: Word, *, assigned: bool = False) -> str:
        """What an assignment, a here-string or the word of a `case` becomes: it is not split, nor looked up."""
        bits = self.bits(word, assigned=assigned)
        field = Field()
        field.bits = [bit._replace(how=QUOTED, live=_quoted(bit.live)) for bit in _joined(bits)]
        made = self.text(field)
        if isinstance(made, Live) and made.splits:
            raise NotAPlan("an array that is not known in the place of one word")
        return made

    def target(self, word: Word, known: Callable[[str], bool] = lambda _: False) -> str:
        """What a redirect opens: a name that is known, or that `known` takes all the same."""
        found = self.fields(word)
        if len(found) != 1 or (isinstance(found[0], Live) and not known(found[0])):
            raise NotAPlan("a redirect to a name that is not known")
        if not found[0]:
            raise NotAPlan("redirect to an empty name")
        return found[0]

    def pattern(self, word: Word) -> str:
        """The text of a `case` pattern, what was quoted in it quoted again."""
        out: list[str] = []
        for bit in self.bits(word):
            if bit.live is not None or bit.how == BREAK:
                raise NotAPlan("a pattern that is not known")
            if bit.how == QUOTED:
                out.append("'" + bit.text.replace("'", "'\\''") + "'")
            else:
                patterns.regex([(char, True) for char in bit.text])
                out.append(re.sub(r"[^*?\[\]!^\w-]+", lambda m: "'" + m[0].replace("'", "'\\''") + "'", bit.text))
        return "".join(out) or "''"

    # ---- parts

    def bits(self, word: Word, *, assigned: bool = False) -> list[Bit]:
        found: list[Bit] = []
        for part in self.tilde(word, assigned=assigned):
            made = self.bit(part)
            self.spend(sum(len(bit.text) for bit in made))
            found += made
        return found

    def tilde(self, word: Word, *, assigned: bool) -> Word:
        first = word[0] if word else None
        plain = "".join(p.text if isinstance(p, Text) and not p.quoted else "\0" for p in word)
        if "~" not in plain:
            return word
        inner = r":~" if assigned else r"^[A-Za-z_]\w*=(?:.*:)?~"
        if re.search(inner, plain, re.ASCII):
            raise NotAPlan("tilde expansion inside of a word")
        if not isinstance(first, Text) or first.quoted or not first.text.startswith("~"):
            return word
        prefix = re.match(r"~[^/]*", plain)
        if prefix is None or prefix.group() != "~":
            raise NotAPlan("tilde expansion of a user's name")
        home = self.known("HOME")
        if not home:
            raise NotAPlan("tilde expansion")
        return (Text(home, True), Text(first.text[1:]), *word[1:])

    def bit(self, part: Part) -> list[Bit]:
        match part:
            case Text():
                return [Bit(part.text, QUOTED if part.quoted else LITERAL)]
            case Param():
                return self.param(part)
            case Arith():
                made = arithmetic.evaluate(part.text, self.value, self.numbers, self.counted, self.length)
                if isinstance(made, str):
                    return [Bit(f"$(({part.text}))", QUOTED, Count(made))]
                return [Bit(str(made), QUOTED if part.quoted else SPLIT)]
            case Sub():
                made = self.output(part)
                if isinstance(made, str):
                    return [Bit(made, QUOTED if part.quoted else SPLIT)]
                return [
                    Bit(
                        part.text,
                        QUOTED if part.quoted else SPLIT,
                        Output(made, part.quoted, part.file, self.prints_count(made)),
                    )
                ]

    def length(self, name: str) -> int | None:
        """`${#x}` or `${#a[@]}`, as far as it is known."""
        base, mark, _ = name.partition("[")
        if mark:
            if base not in self.arrays or base in self.variables:
                raise NotAPlan(f"variable expansion of {name}, which is no array of this text")
            elements = self.arrays[base]
            return None if elements is None else len(elements)
        value = self.value(name)
        return None if value is UNKNOWN else len(value or "")

    def value(self, name: str) -> str | None:
        """A variable's value, the empty text where it is not set, or UNKNOWN."""
        if self.sourced and name not in self.variables:
            return UNKNOWN
        if name == "PWD" and name not in self.variables:
            return self.here()
        known = self.known(name)
        if known is None and name not in self.variables:
            if self.nounset:
                raise NotAPlan(f"${name}, which is not set, under set -u")
            return ""
        return known

    def known(self, name: str) -> str | None:
        if name in self.variables:
            return self.variables[name]
        if name.isdecimal():
            if self.arguments is None or name.startswith("0"):
                raise NotAPlan(f"variable expansion of ${name}")
            return None
        if name in self.arrays:
            raise NotAPlan(f"variable expansion of {name}, an array, without a subscript")
        if self.sourced:
            raise NotAPlan(f"variable expansion of {name}, which a script may have set")
        uncertain = is_uncertain(name) and name not in self.facts.certain
        if self.facts.env is None or uncertain or (is_special(name) and name not in listed("readable_variables")):
            raise NotAPlan(f"variable expansion of {name}")
        return self.facts.env.get(name)

    def here(self) -> str:
        if not self.facts.cwd or len(self.folders) != 1:
            raise NotAPlan("a working directory that is not certain: use cd … && …")
        return os.path.normpath(os.path.join(self.facts.cwd, self.folders[0]))

    def param(self, part: Param) -> list[Bit]:
        how = QUOTED if part.quoted else SPLIT
        if part.name in "?$!" or part.name.startswith("PIPESTATUS["):
            if part.op:
                raise NotAPlan("variable expansion of a form that plans do not have")
            # A number: nothing of it is ever split.
            number = part.name in "?$"
            return [Bit(f"${part.name}", how, Variable(part.name, part.quoted or number, number))]
        if part.name in arithmetic.COUNTERS and part.name not in self.variables and not part.op:
            return [Bit(f"${part.name}", how, Variable(part.name, True, True))]
        if part.name in "#@*":
            return self.passed(part)
        if part.name.endswith("]"):
            return self.element(part)
        if not re.match(r"\w", part.name):
            raise NotAPlan(f"variable expansion of ${part.name}")
        value = self.defaulted(part) if part.op in (":-", ":+", "-", "+") else self.value(part.name)
        if isinstance(value, list):
            return value
        if value is UNKNOWN:
            if part.op:
                return [Bit(f"${{{part.name}{part.op}…}}", how, self.cut(part))]
            number = part.name in self.numbers
            return [Bit(f"${part.name}", how, Variable(part.name, part.quoted or number, number))]
        return [Bit(self.changed_value(value or "", part), how)]

    def passed(self, part: Param) -> list[Bit]:
        """`$#`, `$@`, `$*`: the arguments of the function that this is in."""
        if self.arguments is None:
            raise NotAPlan(f"variable expansion of ${part.name}")
        if part.name == "#" or part.op == "length":
            return [Bit(str(self.arguments), QUOTED if part.quoted else SPLIT)]
        numbers = range(1, self.arguments + 1)
        if part.op:
            text = _text(part.argument)
            found = re.fullmatch(r"([1-9]\d?)(?::(\d{1,2}))?", text, re.ASCII)
            if part.op != ":" or found is None:
                raise NotAPlan("variable expansion of a form that plans do not have")
            numbers = numbers[int(found[1]) - 1 :]
            numbers = numbers[: int(found[2])] if found[2] else numbers
        # Each in turn as `$1` is.
        return self.several([self.param(Param(str(n), quoted=part.quoted)) for n in numbers], part)

    def several(self, elements: list[list[Bit]], part: Param) -> list[Bit]:
        """Words of their own (`"$@"`), or one (`"$*"`)."""
        if part.quoted and part.name.rstrip("]").endswith("*"):
            return _joined(_parted(elements)) or [Bit("", QUOTED)]
        return _parted(elements)

    def element(self, part: Param) -> list[Bit]:
        """`${a[0]}`, `"${a[@]}"`, `${#a[@]}`, `${!a[@]}`: bash would evaluate any other subscript as code."""
        name, _, index = part.name[:-1].partition("[")
        if name not in self.arrays or name in self.variables:
            raise NotAPlan(f"variable expansion of {part.name}, which is no array of this text")
        elements = self.arrays[name]
        how = QUOTED if part.quoted else SPLIT
        if index in "@*":
            if part.op in (":-", ":+", "-", "+"):
                raise NotAPlan("variable expansion of a form that plans do not have")
            if elements is None:
                return [Bit(f"${{{part.name}{part.op}}}", how, self.unknown(part, name, index))]
            if part.op == "length":
                return [Bit(str(len(elements)), how)]
            if part.op == "keys":
                return self.several([[Bit(str(n), how)] for n in range(len(elements))], part)
            if part.op == ":":
                raise NotAPlan("a part of an array")
            return self.several([[Bit(self.changed_value(text, part), how)] for text in elements], part)
        number = self.subscript(index)
        if part.op in (":-", ":+", "-", "+"):
            raise NotAPlan("variable expansion of a form that plans do not have")
        if elements is None or number is None:
            return [Bit(f"${{{part.name}}}", how, self.cut(part._replace(name=f"{name}[{index.lstrip('$')}]")))]
        if number < -len(elements) or (self.nounset and number >= len(elements)):
            raise NotAPlan(f"variable expansion of {part.name}, which is not there")
        text = elements[number] if number < len(elements) else ""
        return [Bit(self.changed_value(text, part), how)]

    def subscript(self, index: str) -> int | None:
        """A number that stands there or is known; None for a variable that holds some number."""
        if re.fullmatch(r"-?\d+", index):
            known = index
        else:
            known = self.value(index.lstrip("$"))
            if known is UNKNOWN and index.lstrip("$") in self.numbers:
                return None
        if known is None or not arithmetic.is_number(known):
            raise NotAPlan("an array's subscript that is not a known number")
        return int(known)

    def unknown(self, part: Param, name: str, index: str) -> Variable:
        """All of an array whose elements are only known when it runs."""
        one = index == "*" and part.quoted
        if part.op == "length":
            return Variable(f"#{name}[@]", True, True)
        if part.op == "keys":
            raise NotAPlan("the subscripts of an array that is not known")
        if part.op == ":":
            text = _text(part.argument)
            if not re.fullmatch(values.SLICE, text, re.ASCII):
                raise NotAPlan("variable expansion of a form that plans do not have")
            return Variable(f"{name}[{index}]:{text}", part.quoted, many=not one)
        return self.cut(part)._replace(many=not one)

    def cut(self, part: Param) -> Variable:
        """`${x##*/}` of a value that is not known: bash cuts it, by a pattern that stands there."""
        if part.op == "length":
            return Variable(f"#{part.name}", True, True)
        if not part.op:
            return Variable(part.name, part.quoted)
        text = values.written(part)
        if text is None:
            raise NotAPlan(f"${{{part.name}{part.op}…}} of a value that is not known")
        return Variable(f"{part.name}{part.op}{text}", part.quoted)

    def defaulted(self, part: Param) -> "str | list[Bit] | None":
        is_set = part.name in self.variables or (part.name == "PWD") or self.known(part.name) is not None
        value = self.value(part.name) if is_set else ""
        if value is UNKNOWN:
            how = QUOTED if part.quoted else SPLIT
            return [Bit(f"${{{part.name}{part.op}…}}", how, self.cut(part))]
        present = bool(value) if part.op.startswith(":") else is_set
        if part.op.endswith("-") == present:
            return value if present else ""
        how = QUOTED if part.quoted else SPLIT
        if any(isinstance(p, Text) and not p.quoted and "~" in p.text for p in part.argument):
            raise NotAPlan("tilde expansion inside of a variable's default")
        bits = [bit for piece in part.argument for bit in self.bit(piece)]
        if any(bit.how == BREAK for bit in bits):
            raise NotAPlan("variable expansion of a form that plans do not have")
        return [bit if bit.how == QUOTED else bit._replace(how=how, live=bit.live) for bit in bits] or [Bit("", how)]

    def changed_value(self, value: str, part: Param) -> str:
        op = part.op
        if not op or op in (":-", ":+", "-", "+"):
            return value
        if len(value) > MAX_VALUE:
            raise NotAPlan("a long value that is cut")
        if op == "length":
            return str(len(value))
        if op in ("^^", ",,", "^", ","):
            if part.argument or not value.isascii():
                raise NotAPlan("variable expansion of a form that plans do not have")
            changed = str.upper if op[0] == "^" else str.lower
            return changed(value) if len(op) == 2 else changed(value[:1]) + value[1:]
        if op == ":":
            return values.substring(value, _text(part.argument))
        wanted = patterns.regex(self.letters(part.argument))
        if op in ("/", "//"):
            return self.replaced(value, wanted, part)
        return values.trimmed(value, wanted, op)

    def letters(self, word: Word) -> Letters:
        found: Letters = []
        for part in word:
            for bit in self.bit(part):
                if bit.live is not None or bit.how == BREAK:
                    raise NotAPlan("a pattern that is not known")
                found += [(char, bit.how != QUOTED) for char in bit.text]
        return found

    def replaced(self, value: str, wanted: str, part: Param) -> str:
        second = [bit for piece in part.second for bit in self.bit(piece)]
        instead = "".join(bit.text for bit in second)
        if any(bit.live or bit.how == BREAK for bit in second) or re.search(r"[&\\]", instead) or not wanted:
            raise NotAPlan("variable expansion of a form that plans do not have")
        anchored = self.letters(part.argument)[:1]
        if anchored in ([("#", True)], [("%", True)], [("/", True)]) or len(value) > 300:
            raise NotAPlan("variable expansion of a form that plans do not have")
        return values.replaced(value, wanted, instead, every=part.op == "//")

    # ---- splitting

    def split(self, bits: list[Bit]) -> list[Field]:
        done: list[Field] = []
        field = Field()
        for bit in bits:
            if bit.how == BREAK:
                if field.counts:
                    done.append(field)
                field = Field()
                continue
            if isinstance(bit.live, Variable) and not bit.live.quoted and bit.live.base in self.globs:
                raise NotAPlan(f"a glob in ${bit.live.base}, whose value is not certain")
            if bit.how != SPLIT or bit.live is not None:
                field.bits.append(bit)
                continue
            first, *rest = re.split(r"[ \t\n]+", bit.text)
            field.bits.append(Bit(first, SPLIT))
            for piece in rest:
                if field.counts:
                    done.append(field)
                field = Field()
                field.bits.append(Bit(piece, SPLIT))
        return [*done, field] if field.counts else done

    def text(self, field: Field) -> str:
        text = "".join(bit.text for bit in field.bits)
        if not any(bit.live for bit in field.bits):
            return text
        pieces: tuple[Piece, ...] = tuple(bit.live if bit.live is not None else bit.text for bit in field.bits)
        return Live(text, pieces)

    # ---- names on the disk

    def named(self, field: Field) -> list[str]:
        letters = [(char, bit.how != QUOTED) for bit in field.bits if bit.live is None for char in bit.text]
        if not patterns.is_pattern(letters):
            return [self.text(field)]
        if any(bit.live for bit in field.bits):
            raise NotAPlan("a glob in a word that is not known")
        parts = tuple(_component(part) for part in patterns.components(letters))
        if not any(part.pattern for part in parts):
            return [self.text(field)]
        if self.facts.look is None:
            raise NotAPlan("glob")
        text = self.text(field)
        if len(self.folders) != 1 and self.facts.confined:
            return [self.late(letters, text)]
        if len(self.folders) != 1:
            raise NotAPlan("a glob in a directory that is not certain: use cd … && …")
        address = re.match(r"\w+://|(?:localhost|127\.0\.0\.1)(?::\d+)?/", text) is not None
        if self.changed(self.folders[0], parts) and not address:
            return [self.late(letters, text)]
        found = self.facts.look(self.folders[0], parts)
        if found is None and text.startswith("/tmp/"):
            return [self.late(letters, text)]
        if found is None:
            raise NotAPlan("a glob that leads out of the workspace, or matches too much or odd names")
        if len(found) > MAX_MATCHES:
            raise NotAPlan(f"a glob that matches more than {MAX_MATCHES:,} names")
        return list(found) or [self.text(field)]

    def late(self, letters: Letters, text: str) -> Live:
        """A pattern for names that are not there yet: bash looks them up, where a sandbox is around it."""
        if not self.facts.confined or any(active and char in "[\\" for char, active in letters):
            raise NotAPlan("a glob after a command that may change what it matches: make it a call of its own")
        parts = groupby(letters, lambda letter: letter[1] and letter[0] in "*?")
        return Live(text, (Glob(tuple(("".join(char for char, _ in run), active) for active, run in parts)),))


def _text(word: Word) -> str:
    """A word as it was written, with a mark for what is not text."""
    return "".join(piece.text if isinstance(piece, Text) else "\0" for piece in word)


def _parted(elements: list[list[Bit]]) -> list[Bit]:
    """The bits of several words, with a mark between each two."""
    return [bit for n, element in enumerate(elements) for bit in (*([Bit("", BREAK)] if n else []), *element)]


def _joined(bits: list[Bit]) -> list[Bit]:
    """The bits of one word: a blank between each two that would be words of their own elsewhere."""
    return [Bit(" ", QUOTED) if bit.how == BREAK else bit for bit in bits]


def _quoted(live: Unknown | None) -> Unknown | None:
    return live._replace(quoted=True) if live is not None else None


def _component(letters: Letters) -> Component:
    text = "".join(char for char, _ in letters)
    if not patterns.is_pattern(letters):
        return Component(text)
    found = patterns.regex(letters)
    if not any(mark in found for mark in (".", "[")) or found == re.escape(text):
        return Component(text)
    return Component(found, True, letters[0][0] == ".")
