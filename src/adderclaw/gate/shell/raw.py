"""What raw bash shows of itself: every word with `~` and known variables filled in, and whatever cannot be known."""

import re
from typing import TYPE_CHECKING, NamedTuple

from adderclaw.gate.programs.allowlist import names
from adderclaw.gate.programs.knowledge import SHELLS

if TYPE_CHECKING:
    from tree_sitter import Node

HOME, PWD = "\x01", "\x02"
"""Stand for the two variables that are known; no text with control characters is ever parsed."""

type Letters = list[tuple[str, bool]]


class Named(NamedTuple):
    """One word of raw bash."""

    text: str
    glob: bool = False
    """Whether it is a pattern for names on the disk; what was quoted in it is escaped."""
    target: bool = False
    """Whether a redirect opens it."""
    moves: bool = False
    """Whether a `cd` goes there."""


class Reading(NamedTuple):
    named: tuple[Named, ...] = ()
    unknown: str = ""
    """The first thing of which it cannot be known what it stands for."""
    writes: bool = True
    """Whether it may write a file: it redirects, or runs something that does more than look."""


_STATEMENTS = names(
    """program list pipeline negated_command redirected_statement command subshell compound_statement if_statement
    elif_clause else_clause for_statement while_statement do_group variable_assignment variable_assignments test_command
    unary_expression binary_expression negation_expression parenthesized_expression file_redirect herestring_redirect
    heredoc_redirect heredoc_body command_substitution command_name"""
)
_WORDS = names("word number string raw_string concatenation simple_expansion expansion arithmetic_expansion")
_IN_WORDS = _WORDS | names("string_content variable_name special_variable_name")
_LEAVES = names("variable_name file_descriptor test_operator heredoc_start heredoc_end heredoc_content comment")
_KEEPS = frozenset({"variable_assignment", "heredoc_body"})
_FIXED = names("HOME PWD OLDPWD CDPATH IFS GLOBIGNORE BASH_ENV ENV PATH SHELLOPTS BASHOPTS LD_PRELOAD LD_LIBRARY_PATH")
"""Variables that decide what other words stand for, or what runs."""
_CHANGES_READING = names(
    "shopt set eval source . exec alias enable read mapfile readarray declare typeset local export trap"
)
_REDEFINES = names(
    "alias bind builtin compgen complete coproc declare enable export fc hash local readonly shopt trap typeset unset"
)
"""Builtins after which other words may stand for something else, however they are spelled."""
_NAMES = r"(?:-r )?[A-Za-z_]\w*(?: [A-Za-z_]\w*)*"
_PLAIN = {
    "command": r"-[vV](?: \S+)+",
    "printf": r"(?!-v).*",
    "set": r"(?:[-+][eux]+ ?|[-+][eux]*o (?:pipefail|errexit|nounset|xtrace) ?)+",
    **dict.fromkeys(("read", "mapfile", "readarray"), _NAMES),
    **dict.fromkeys(("getopts", "let"), r"(?!)"),
}
"""Builtins that do so unless their words are these."""
_FROM_ELSEWHERE = SHELLS | {"xargs", "parallel", "busybox", "toybox"}
_SAYS = frozenset({"echo", "printf"})
LOOKS = names(
    """pwd ls echo printf true false test [ : cd cat head tail grep egrep fgrep rg wc diff cmp stat file cut nl tac
    basename dirname realpath readlink date"""
)
MAX_WORDS = 2_000
_MAX_BRANCHES = 64


def read(root: "Node", source: bytes) -> Reading:
    """Every word of a parse. A node kind that is not named here, or a byte that no node accounts for, is unknown."""
    return _Walk(source).over(root)


def literal(node: "Node", source: bytes) -> str | None:
    """A word without its quotes; None where it is more than text."""
    letters = _Walk(source).letters(node, 0)
    if letters is None or any(char in ("*", "?", "[", HOME, PWD) and not quoted for char, quoted in letters if char):
        return None
    text = "".join(char for char, _ in letters)
    return None if re.search(f"[{HOME}{PWD}]|^~", text) or node.type.endswith("expansion") else text


class _Walk:
    def __init__(self, source: bytes) -> None:
        self.source = source
        self.named: dict[Named, None] = {}
        self.unknown = ""
        self.programs: set[str] = set()
        self.here_documents = 0
        self.opens = False

    def over(self, root: "Node") -> Reading:
        if root.has_error:
            self.doubt("a text that cannot be parsed")
        self.statement(root, 0)
        if any(named.glob for named in self.named) and self.programs & _CHANGES_READING:
            self.doubt("a glob after a change of how globs are read")
        elsewhere = self.programs & _FROM_ELSEWHERE
        if elsewhere:
            self.doubt(f"what {min(elsewhere)} is given")
        return Reading(tuple(self.named), self.unknown, self.opens or not self.programs <= LOOKS)

    def doubt(self, what: str) -> None:
        self.unknown = self.unknown or what

    def text(self, node: "Node") -> str:
        return self.between(node.start_byte, node.end_byte)

    def between(self, start: int, end: int) -> str:
        """Some text of the source; a node can begin in the middle of a character that the grammar does not know."""
        try:
            return self.source[start:end].decode()
        except UnicodeDecodeError:
            self.doubt("text that the parser does not account for")
            return self.source[start:end].decode("utf-8", "replace")

    # ---- statements

    def statement(self, node: "Node", depth: int) -> None:
        if depth > 100 or len(self.named) > MAX_WORDS:
            self.doubt("more than can be looked through")
            return
        end = node.start_byte
        for child in node.children:
            self.gap(node, end, child.start_byte)
            self.child(node, child, depth)
            end = child.end_byte

    def gap(self, node: "Node", start: int, end: int) -> None:
        between = self.source[start:end].replace(b"\\\n", b"")
        if between.strip() and node.type not in ("heredoc_body", "string"):
            self.doubt("text that the parser does not account for")

    def child(self, parent: "Node", node: "Node", depth: int) -> None:
        kind = node.type
        if not node.is_named or kind in _LEAVES:
            if kind == "comment" and not self.is_comment(node):
                self.doubt("a # that may begin no comment")
        elif kind == "command":
            self.command(node, depth)
        elif kind == "heredoc_redirect":
            self.here_document(node)
            self.statement(node, depth + 1)
        elif kind == "variable_assignment":
            self.assignment(node, depth)
        elif kind in _STATEMENTS:
            # What a command prints becomes a word, unless it is only printed again or kept.
            if kind == "command_substitution" and parent.type not in _KEEPS:
                self.doubt("what a command substitution stands for")
            self.statement(node, depth + 1)
        elif kind in _WORDS:
            self.word(node, depth, target=parent.type == "file_redirect")
        else:
            self.doubt(kind.replace("_", " "))
            self.statement(node, depth + 1)

    def is_comment(self, node: "Node") -> bool:
        before = self.source[node.start_byte - 1 : node.start_byte]
        return before in (b"", b" ", b"\t", b"\n", b";")

    def command(self, node: "Node", depth: int) -> None:
        name = next((child for child in node.children if child.type == "command_name"), None)
        written = self.letters(name.children[0], depth) if name is not None and name.children else None
        program = "".join(char for char, _ in written).rsplit("/", 1)[-1] if written is not None else ""
        self.programs.add(program)
        self.redefined(program, node)
        for child in node.children:
            if child.type in _WORDS:
                self.word(child, depth, says=program in _SAYS, moves=program in ("cd", "pushd"))
            elif child.type == "command_name":
                self.word(child.children[0], depth)
            elif child.type == "command_substitution" and program in _SAYS:
                self.statement(child, depth + 1)
            else:
                self.child(node, child, depth)
        if program == "cd" and len(node.children) == 1:
            self.named[Named(HOME, moves=True)] = None

    def redefined(self, program: str, node: "Node") -> None:
        """The grammar knows `export`, and takes `\\export` for a program like any other; bash does not."""
        plain = _PLAIN.get(program)
        words = [literal(child, self.source) or "\0" for child in node.children if child.type in _WORDS]
        if program == "time" and not (_REDEFINES | _CHANGES_READING).isdisjoint(words):
            self.doubt(f"what {words[0]} changes")  # a reserved word, not a program
        elif plain is not None:
            known = re.fullmatch(plain, " ".join(words), re.ASCII | re.DOTALL)
            if known is None or (program != "command" and not _FIXED.isdisjoint(words)):
                self.doubt(f"what {program} changes")
        elif program in _REDEFINES:
            self.doubt(f"what {program} changes")

    def assignment(self, node: "Node", depth: int) -> None:
        name = self.text(node.children[0])
        if name in _FIXED or not re.fullmatch(r"\w+", name):
            self.doubt(f"a new value of {name}")
        for child in node.children[1:]:
            if child.type in _WORDS:
                self.word(child, depth, says=True)
            else:
                self.child(node, child, depth)

    def here_document(self, node: "Node") -> None:
        """Only the plainest form, once: about where another ends, the grammar and bash may differ."""
        self.here_documents += 1
        start = next((self.text(child) for child in node.children if child.type == "heredoc_start"), "")
        end = next((child for child in node.children if child.type == "heredoc_end"), None)
        mark = start.strip("'\"")
        plain = re.fullmatch(r"'\w+'|\"\w+\"|\w+", start) and self.text(node).startswith("<<") and end is not None
        if not plain or self.text(node).startswith("<<-") or self.here_documents > 1:
            self.doubt("a here-document")
            return
        lines = self.source.decode().split("\n")
        first = self.source[: node.start_byte].count(b"\n")
        ends = next((n for n, line in enumerate(lines) if n > first and line == mark), -1)
        if end is None or ends != self.source[: end.start_byte].count(b"\n"):
            self.doubt("a here-document")

    # ---- words

    def word(self, node: "Node", depth: int, *, target: bool = False, says: bool = False, moves: bool = False) -> None:
        """One word; `says` means that it is only printed or kept, so that it need not be known."""
        if target and self.text(node) in ("1", "2", "/dev/null"):
            return
        self.opens = self.opens or target
        letters = self.letters(node, depth)
        branches = _unbraced(letters) if letters is not None else None
        if branches is None:
            if not says:
                self.doubt(f"what {self.text(node)[:60]} stands for")
            self.substitutions(node, depth)
            return
        for branch in branches:
            named = _named(branch, target=target, moves=moves)
            if named is not None:
                if named.glob or not says:
                    self.named[named] = None
            elif not says:
                self.doubt(f"what {self.text(node)[:60]} stands for")

    def substitutions(self, node: "Node", depth: int) -> None:
        """Commands inside of a word are commands, too."""
        for child in node.children:
            if child.type == "command_substitution":
                self.statement(child, depth + 1)
            else:
                if child.is_named and child.type not in _IN_WORDS:
                    self.doubt(child.type.replace("_", " "))
                self.substitutions(child, depth + 1)

    def letters(self, node: "Node", depth: int) -> Letters | None:
        """The characters of a word, each with whether it was quoted; None where it cannot be known."""
        text = self.text(node)
        match node.type:
            case "word" | "number":
                return _bare(text)
            case "raw_string":
                return [("", True), *((char, True) for char in text[1:-1])]
            case "simple_expansion" | "expansion":
                value = _KNOWN.get(text)
                return [(value, True)] if value is not None else None
            case "arithmetic_expansion":
                return [("0", True)] if re.fullmatch(r"\$\(\([\d\s+*/%()-]*\)\)", text) else None
            case "string":
                return self.double(node, depth)
            case "concatenation":
                return self.joined(node, depth)
            case _:
                return None

    def joined(self, node: "Node", depth: int) -> Letters | None:
        found: Letters = []
        end = node.start_byte
        for child in node.children:
            part = self.letters(child, depth + 1) if child.start_byte == end else None
            if part is None:
                return None
            found += part
            end = child.end_byte
        return found

    def double(self, node: "Node", depth: int) -> Letters | None:
        found: Letters = [("", True)]
        end = node.start_byte + 1
        for child in (*(child for child in node.children if child.is_named and child.type != "string_content"), None):
            stop = child.start_byte if child is not None else node.end_byte - 1
            between = self.between(end, stop)
            if re.search(r"(?<!\\)(?:\\\\)*[`$](?=[\w{('\"`$])", between):
                return None
            plain = re.sub(r'\\([$`"\\])', r"\1", between.replace("\\\n", ""))
            found += [(char, True) for char in plain]
            if child is not None:
                part = self.letters(child, depth + 1)
                if part is None:
                    return None
                found += part
                end = child.end_byte
        return found


_KNOWN = {
    **dict.fromkeys(("$HOME", "${HOME}"), HOME),
    **dict.fromkeys(("$PWD", "${PWD}"), PWD),
    **dict.fromkeys(("$?", "$#", "$$", "$!"), "0"),
}


def _bare(text: str) -> Letters | None:
    found: Letters = []
    escaped = False
    for char in text:
        if escaped:
            found.append((char if char != "\n" else "", True))
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in "$`":
            return None
        else:
            found.append((char, False))
    return found


def _unbraced(letters: Letters) -> list[Letters] | None:
    """What braces make of a word; None where they are nested or too many."""
    plain = "".join(char if not quoted else "\0" * max(1, len(char)) for char, quoted in letters)
    if not re.search(r"\{[^{}]*(,|\.\.)[^{}]*\}", plain):
        return [letters] if not re.search(r"\{.*(,|\.\.).*\}", plain) else None
    letters = [letter for letter in letters if letter[0]]
    done: list[Letters] = []
    waiting = [letters]
    while waiting:
        word = waiting.pop()
        flat = "".join(char if not quoted else "\0" for char, quoted in word)
        found = re.search(r"\{([^{}]*)\}", flat)
        if found is None:
            done.append(word)
        elif "," not in found[1]:
            return None
        else:
            start, cut = found.start(1), found.start(1)
            for part in found[1].split(","):
                waiting.append([*word[: start - 1], *word[cut : cut + len(part)], *word[found.end() :]])
                cut += len(part) + 1
        if len(done) + len(waiting) > _MAX_BRANCHES:
            return None
    return done


def _named(letters: Letters, *, target: bool, moves: bool) -> Named | None:
    tildes = "".join(char if not quoted else "\0" for char, quoted in letters)
    if re.search(r"(^|[=:])~(?![/]|$)", tildes):
        return None
    if re.match(r"~", tildes):
        letters = [(HOME, True), *letters[1:]]
    elif re.search(r"[=:]~", tildes):
        return None
    is_glob = any(char in "*?[" and not quoted for char, quoted in letters if char)
    pieces = (f"[{char}]" if is_glob and quoted and char in ("*", "?", "[") else char for char, quoted in letters)
    return Named("".join(pieces), is_glob, target, moves)
