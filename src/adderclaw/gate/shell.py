"""Shell text into a plan that we can judge and write out again ourselves, or into raw bash with the reason.

A node kind that NODES and WORDS do not name, and a byte that no accepted node accounts for, make a command raw.
To widen the language, add a row there and teach `render` the same thing; the differential test keeps both honest.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from adderclaw.gate import operands, raw
from adderclaw.gate.allowlist import names
from adderclaw.gate.loose import RESERVED, every_word, statements
from adderclaw.gate.programs import SHELLS
from adderclaw.gate.raw import Named

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

type Resolve = Callable[[str], str | None]
type Letters = list[tuple[str, bool]]
"""The characters of a word, each with whether it was quoted."""

MAX_CHARACTERS = 10_000
MAX_DEPTH = 40
MAX_SHELLS = 3
MAX_FOLDERS = 64
"""How many working directories a chain of `cd` may leave possible before we stop counting."""

BUILTINS = frozenset({"cd", "pwd", "echo", "printf", "true", "false", "test", "[", ":", "exit"})
"""Builtins of bash that a plan may use by name: none of them runs a program or changes how words are read."""

OTHER_BUILTINS = names(
    """. alias bg bind break builtin caller command compgen complete compopt continue declare dirs disown enable
    eval exec export fc fg getopts hash help history jobs kill let local logout mapfile popd pushd read
    readarray readonly return set shift shopt source suspend times trap type typeset ulimit umask unalias unset
    wait"""
)

SYSTEM_FOLDERS = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin"})
"""A program in one of these is the program of its name, whichever of them PATH names first."""

REASONS = {
    "command_substitution": "command substitution",
    "process_substitution": "process substitution",
    "simple_expansion": "variable expansion",
    "expansion": "variable expansion",
    "arithmetic_expansion": "arithmetic expansion",
    "ansi_c_string": "$'…' quoting",
    "translated_string": '$"…" quoting',
    "brace_expression": "brace expansion",
    "variable_assignment": "assignment",
    "variable_assignments": "assignment",
    "declaration_command": "assignment",
    "unset_command": "assignment",
    "heredoc_redirect": "here-document",
    "herestring_redirect": "here-string",
    "comment": "comment",
    "&": "background job",
    "subshell": "subshell",
    "compound_statement": "group of commands",
    "function_definition": "function definition",
    "test_command": "[ ] or [[ ]]",
    **dict.fromkeys(
        ("if_statement", "for_statement", "while_statement", "case_statement", "c_style_for_statement"), "control flow"
    ),
}


class Redirect(NamedTuple):
    fd: str
    """The descriptor that was written down, or none."""
    operator: str
    target: str

    @property
    def is_copy(self) -> bool:
        """Whether it only copies a descriptor, as 2>&1 does."""
        return self.operator == ">&"

    @property
    def writes(self) -> bool:
        return self.operator in WRITING


class Simple(NamedTuple):
    """One program with its words, as bash would call it."""

    words: tuple[str, ...]
    program: str
    """Absolute path, builtin's name, the path as written, or nothing when no such program was found."""
    redirects: tuple[Redirect, ...] = ()
    name: str = ""
    """What policy knows it by: a bare name only if that name leads to this program."""
    text: str = ""


class Plan(NamedTuple):
    text: str
    shown: str
    body: tuple[Simple | str, ...]
    """Simple commands and the operators between them (`&&`, `||`, `;`, `|`, `|&`, `!`) in the order of the text."""
    inside: "tuple[Plan | Raw, ...]" = ()
    """Commands that its words are for a shell: `bash -c "…"`."""


class Raw(NamedTuple):
    text: str
    shown: str
    reason: str
    words: tuple[str, ...]
    """Every word that the text shows, unquoted, those inside of quoted words too."""
    programs: tuple[str, ...]
    """The literal words in command position."""
    literal: bool
    """Whether every program is a literal word of a text that could be parsed."""
    named: tuple[Named, ...] = ()
    """Every word of the parse that can be known, `~` and $HOME and $PWD as marks."""
    unknown: str = "a text that cannot be parsed"
    """The first thing of which it cannot be known what it stands for."""
    writes: bool = True
    """Whether it may write a file."""


class Paths(NamedTuple):
    """Every path that a command names, absolute, in the order of the text."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    read_if_there: tuple[tuple[str, str], ...] = ()
    """(folder, word): a path only where something of that name is in the folder."""
    written_if_there: tuple[tuple[str, str], ...] = ()
    read_globs: tuple[str, ...] = ()
    written_globs: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()
    """Folders that are read with all that links in them lead to."""
    merged: tuple[tuple[str, str], ...] = ()
    """(folder, target): what is in the one lands in the other under its own name."""


class NotAPlan(Exception):
    """Carries what made the command raw."""


WRITING = frozenset({">", ">>", ">|", "&>", "&>>"})
FILE_OPERATORS = WRITING | {"<"}
OPERATORS = frozenset({"&&", "||", ";", "|", "|&", "!"})


def plan(text: str, resolve: Resolve, depth: int = 0) -> Plan | Raw:
    """The plan of a command, or raw bash. `resolve` gives a program's absolute path."""
    unfit = _unfit(text)
    if unfit or depth > MAX_SHELLS:
        return _raw(text, unfit or "shells inside of shells", None)
    source = text.encode()
    root = _parser().parse(source).root_node
    try:
        if root.has_error:
            raise NotAPlan("cannot be parsed")
        compiler = Compiler(source, resolve)
        compiler.statement(root, 0)
        body = _ordered(compiler.body)
    except NotAPlan as obstacle:
        return _raw(text, str(obstacle), root)
    made = Plan(text, " ".join(map(_token_shown, body)).replace(" ;", ";"), body)
    inside = tuple(code for step in steps(made) for code in _for_shells(step, resolve, depth))
    return made._replace(inside=inside)


def _for_shells(step: "Step", resolve: Resolve, depth: int) -> Iterator[Plan | Raw]:
    """The code that a pipeline hands to shells, and what stands for code, or for names, that nobody can look at."""
    for index, simple in enumerate(step.commands):
        bases = [word.rsplit("/", 1)[-1] for word in simple.words]
        shell = next((n for n, base in enumerate(bases) if base in SHELLS), None)
        if shell is not None and simple.name not in ("echo", "printf", "which"):
            rest = simple.words[shell + 1 :]
            yield from (plan(word, resolve, depth + 1) for word in rest if re.search(_CODE, word))
            piped = index > 0 or any(r.operator == "<" for r in simple.redirects)
            if piped and not any(not word.startswith("-") for word in rest):
                yield _raw(simple.text, f"what {bases[shell]} is given", None)
        elif {"xargs", "parallel"} & set(bases[:2]) and not _gives_names(step.commands[:index]):
            yield _raw(simple.text, f"what {bases[0]} is given", None)


_CODE = r"[\s;&|<>()$`~*?\[{]"
_FILTERS = frozenset({"sort", "uniq", "head", "tail"})


def _gives_names(commands: "tuple[Simple, ...]") -> bool:
    """Whether what comes out of a pipeline are names of files that its own words lead to."""
    kept = [simple for simple in commands if simple.name not in _FILTERS]
    if len(kept) != 1:
        return False
    name, words = kept[0].name, kept[0].words
    lists = {"-l", "-rl", "-lr", "--files", "--files-with-matches", "-rln", "-Rl"}
    return (
        name in ("find", "ls")
        or words[:2] == ("git", "ls-files")
        or (name in ("grep", "rg") and bool(lists & set(words)))
    )


def simples(plan: Plan) -> tuple[Simple, ...]:
    return tuple(item for item in plan.body if isinstance(item, Simple))


class Step(NamedTuple):
    """One pipeline with the operator that stands before it."""

    after: str
    negated: bool
    commands: tuple[Simple, ...]


def steps(plan: Plan) -> Iterator[Step]:
    after, negated = "", False
    commands: list[Simple] = []
    for item in (*plan.body, ";"):
        if isinstance(item, Simple):
            commands.append(item)
        elif item == "!":
            negated = True
        elif item not in ("|", "|&"):
            yield Step(after, negated, tuple(commands))
            after, negated, commands = item, False, []


# ------------------------------------------------------------------ out again


def render(plan: Plan) -> str:
    """The text that bash gets: every word quoted, programs by absolute path, builtins by name."""
    return " ".join(item if isinstance(item, str) else _simple_text(item) for item in plan.body)


def _simple_text(simple: Simple) -> str:
    program = simple.program if simple.program in BUILTINS else quote(simple.program or simple.words[0])
    return " ".join((program, *map(quote, simple.words[1:]), *(_redirect_text(r, quote) for r in simple.redirects)))


def _redirect_text(redirect: Redirect, quoting: Callable[[str], str]) -> str:
    target = redirect.target if redirect.is_copy else quoting(redirect.target)
    return f"{redirect.fd}{redirect.operator}{target}"


def quote(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def quote_if_needed(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./-]+", word, re.ASCII) else quote(word)


def canonical_text(simple: Simple) -> str:
    """A simple command in one spelling, whatever quoting it was written with."""
    return " ".join(map(quote_if_needed, simple.words))


def _token_shown(item: Simple | str) -> str:
    if isinstance(item, str):
        return item
    return " ".join((canonical_text(item), *(_redirect_text(r, quote_if_needed) for r in item.redirects)))


# ------------------------------------------------------------------ paths


def paths_of(command: Plan | Raw, cwd: str, home: str = "") -> Paths:
    """Every path that a command names: redirects, and whatever of its words may be a file.

    A `cd` that may fail leaves two directories possible, and relative paths are then given for both. What a link
    followed by `..` could reach is covered by naming the link too. `home` is what `~` stands for in raw bash.
    """
    gathered = Gathered()
    _gather(command, cwd, home, gathered)
    return gathered.paths()


class Gathered:
    """Paths as they are found, each once."""

    def __init__(self) -> None:
        self.found: dict[str, dict[Any, None]] = {name: {} for name in Paths._fields}

    def add(self, name: str, items: Iterable[Any]) -> None:
        self.found[name].update(dict.fromkeys(items))

    def paths(self) -> Paths:
        return Paths(*(tuple(self.found[name]) for name in Paths._fields))

    def take(self, simple: Simple, folder: str) -> None:
        """What one simple command names, seen from a folder."""
        named = operands.operands(simple.name, simple.words)
        self.add("reads", _all_places(folder, (r.target for r in simple.redirects if r.operator == "<")))
        self.add("writes", _all_places(folder, (r.target for r in simple.redirects if r.writes)))
        for place in _further(folder, named.folders):
            self.add("reads", _all_places(place, named.reads))
            self.add("writes", _all_places(place, named.writes))
            self.add("read_if_there", ((place, word) for word in named.read_if_there))
            self.add("written_if_there", ((place, word) for word in named.written_if_there))
            self.add("trees", _all_places(place, named.trees))
            self.add("merged", ((os.path.join(place, a), os.path.join(place, b)) for a, b in named.merged))


def _further(folder: str, further: Iterable[str]) -> tuple[str, ...]:
    """A folder, and those that options lead to from there, one after the other."""
    places = (folder,)
    for name in further:
        places = _bounded((*places, *(os.path.join(place, name) for place in places)))
    return places


def _gather(command: Plan | Raw, cwd: str, home: str, gathered: Gathered) -> None:
    if isinstance(command, Raw):
        _gather_raw(command, cwd, home, gathered)
        return
    here = ever = reached = (cwd,)
    for step in steps(command):
        # After `cd x &&` we are in x for certain; after anything else, wherever we may have been.
        here = reached if step.after == "&&" else ever
        for simple in step.commands:
            for folder in here:
                gathered.take(simple, folder)
        reached = here
        if len(step.commands) == 1 and step.commands[0].name == "cd":
            entered = _entered(here, step.commands[0].words)
            ever = _bounded((*ever, *entered))
            reached = ever if step.negated else _bounded(entered)
    for code in command.inside:
        for folder in ever:
            _gather(code, folder, home, gathered)


def _gather_raw(command: Raw, cwd: str, home: str, gathered: Gathered) -> None:
    """Every word from every directory that a `cd` could reach: each is read, and written if anything may be."""
    folders = (cwd,)
    for named in command.named:
        if named.moves:
            folders = _bounded(
                (*folders, *(os.path.normpath(os.path.join(f, _filled(named, f, home))) for f in folders))
            )
    reads_and = ("read", "written") if command.writes else ("read",)
    for folder in folders:
        for named in command.named:
            for kind, items in _known(named, _filled(named, folder, home), folder).items():
                for how in reads_and:
                    gathered.add(_FIELD[how, kind], items)


_FIELD = {
    ("read", "path"): "reads",
    ("written", "path"): "writes",
    ("read", "perhaps"): "read_if_there",
    ("written", "perhaps"): "written_if_there",
    ("read", "glob"): "read_globs",
    ("written", "glob"): "written_globs",
}


def _known(named: Named, text: str, folder: str) -> dict[str, list[Any]]:
    """What a word of raw bash may name. An absolute one that is no redirect's may be a pattern, or a piece of text."""
    paths, perhaps = operands.of_word(text)
    marked = raw.HOME in named.text or raw.PWD in named.text
    certain = [text] if named.target else [path for path in paths if marked or not path.startswith("/")]
    return {
        "path": [place for word in certain for place in _places(folder, word)],
        "perhaps": [(folder, word) for word in (*paths, *perhaps)],
        "glob": [os.path.join(folder, word) for word in (*paths, *perhaps)] if named.glob else [],
    }


def _filled(named: Named, folder: str, home: str) -> str:
    return named.text.replace(raw.HOME, home).replace(raw.PWD, folder)


def _all_places(folder: str, words: Iterable[str]) -> Iterator[str]:
    return (path for word in words for path in _places(folder, word))


def _places(folder: str, given: str) -> Iterator[str]:
    parts = given.split("/")
    for index, part in enumerate(parts):
        if part == ".." and index:
            yield os.path.join(folder, "/".join(parts[:index]) or "/")
    yield os.path.join(folder, given)


def _entered(folders: tuple[str, ...], words: tuple[str, ...]) -> tuple[str, ...]:
    target = operands.operands("cd", words).reads
    return tuple(os.path.normpath(os.path.join(folder, target[0])) for folder in folders) if target else folders


def _bounded(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Each once; too many to follow are the root, so that no relative path passes as inside the workspace."""
    possible = tuple(dict.fromkeys(folders))
    return possible if len(possible) <= MAX_FOLDERS else ("/",)


# ------------------------------------------------------------------ in


_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f]"


def _unfit(text: str) -> str | None:
    """Why a text is not even parsed."""
    if not text.strip():
        return "empty"
    if len(text) > MAX_CHARACTERS:
        return f"longer than {MAX_CHARACTERS:,} characters"
    if re.search(_CONTROL, text):
        return "control character"
    if not text.isascii():
        import unicodedata

        if any(char > "\x7f" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp") for char in text):
            return "invisible or unusual character"
    return None


@cache
def _parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _reason(node: "Node") -> str:
    return REASONS.get(node.type, f"construct that plans do not have ({node.type.replace('_', ' ')})")


class Compiler:
    """Walks the parse and gathers the body of a plan; raises NotAPlan at the first thing that it does not know."""

    def __init__(self, source: bytes, resolve: Resolve) -> None:
        self.source, self.resolve = source, resolve
        self.body: list[Simple | str] = []

    def statement(self, node: "Node", depth: int) -> None:
        if depth > MAX_DEPTH:
            raise NotAPlan("nested too deeply")
        compile_node = NODES.get(node.type)
        if compile_node is None:
            raise NotAPlan(_reason(node))
        compile_node(self, node, depth)

    # ---- statements

    def program(self, node: "Node", depth: int) -> None:
        end = 0
        for child in node.children:
            apart = self.gap(end, child.start_byte, newlines=True)
            if child.type == ";":
                if "\n" in apart:
                    raise NotAPlan("cannot be parsed")
                self.body.append(";")
            else:
                if child.type not in NODES:
                    raise NotAPlan(_reason(child))
                if self.body and self.body[-1] != ";":
                    if "\n" not in apart:
                        raise NotAPlan("cannot be parsed")
                    self.body.append(";")
                self.statement(child, depth + 1)
            end = child.end_byte
        self.gap(end, len(self.source), newlines=True)

    def joined(self, node: "Node", depth: int) -> None:
        """A list or a pipeline: statements with operators between them."""
        end = node.start_byte
        for child in node.children:
            is_operator = child.type in OPERATORS and not child.is_named
            after_operator = bool(self.body) and isinstance(self.body[-1], str)
            self.gap(end, child.start_byte, newlines=after_operator and not is_operator)
            if is_operator:
                self.body.append(child.type)
            else:
                self.statement(child, depth + 1)
            end = child.end_byte

    def negated(self, node: "Node", depth: int) -> None:
        if len(node.children) != 2 or node.children[0].type != "!":
            raise NotAPlan("cannot be parsed")
        bang, command = node.children
        if not self.gap(bang.end_byte, command.start_byte):
            raise NotAPlan("history expansion")
        self.body.append("!")
        self.statement(command, depth + 1)

    def redirected(self, node: "Node", depth: int) -> None:
        """The grammar hangs a redirect on the whole list; bash gives it to the last simple command."""
        first, *rest = node.children
        if first.type == "file_redirect":
            raise NotAPlan("redirect without a command")
        self.statement(first, depth + 1)
        end, last = first.end_byte, self.body[-1]
        if not isinstance(last, Simple):
            raise NotAPlan("cannot be parsed")
        redirects: list[Redirect] = []
        for child in rest:
            self.before_redirect(end, child)
            redirects.append(self.redirect(child))
            end = child.end_byte
        text = f"{last.text} {self.text(rest[0].start_byte, end)}" if rest else last.text
        self.body[-1] = last._replace(redirects=(*last.redirects, *redirects), text=text)

    def command(self, node: "Node", depth: int) -> None:
        words: list[Letters] = []
        redirects: list[Redirect] = []
        end, named = node.start_byte, False
        for child in node.children:
            if child.type == "file_redirect":
                self.before_redirect(end, child)
                redirects.append(self.redirect(child))
            else:
                if not self.gap(end, child.start_byte) and end > node.start_byte:
                    raise NotAPlan("words without a blank between them")
                named = named or child.type == "command_name"
                words.append(self.word(child.children[0] if child.type == "command_name" else child, depth + 1))
            end = child.end_byte
        if not words or not named:
            raise NotAPlan("redirect without a command")
        self.body.append(self.simple(words, tuple(redirects), self.text(node.start_byte, end)))

    def simple(self, words: list[Letters], redirects: tuple[Redirect, ...], text: str) -> Simple:
        argv = tuple("".join(char for char, _ in letters) for letters in words)
        first, bare = argv[0], not any(quoted for _, quoted in words[0])
        if not first:
            raise NotAPlan("empty program name")
        if bare and (first in RESERVED or first.startswith("!")):
            raise NotAPlan(f"reserved word {first}")
        if re.match(r"[A-Za-z_]\w*(\[.*)?\+?=", first):
            raise NotAPlan("assignment")
        if first in OTHER_BUILTINS:
            raise NotAPlan(f"shell builtin {first}")
        if first in BUILTINS:
            _check_builtin(argv)
            return Simple(argv, first, redirects, first, text)
        return self.external(argv, redirects, text)

    def external(self, argv: tuple[str, ...], redirects: tuple[Redirect, ...], text: str) -> Simple:
        first = argv[0]
        if "/" not in first:
            return Simple(argv, self.resolve(first) or "", redirects, first, text)
        base = os.path.basename(first)
        in_system = os.path.dirname(first) in SYSTEM_FOLDERS and self.resolve(first) == first
        is_the_usual = in_system or (os.path.isabs(first) and bool(base) and self.resolve(base) == first)
        return Simple(argv, first, redirects, base if is_the_usual else first, text)

    # ---- redirects

    def before_redirect(self, end: int, node: "Node") -> None:
        """A word that touches the operator may be a descriptor in disguise (`{fd}>x`)."""
        if node.type != "file_redirect":
            raise NotAPlan(_reason(node))
        apart = self.gap(end, node.start_byte)
        previous = self.source[end - 1 : end]
        if not apart and end > 0 and (previous == b"}" or previous.isdigit()):
            raise NotAPlan("redirect of a further descriptor")

    def redirect(self, node: "Node") -> Redirect:
        children = list(node.children)
        fd = ""
        if children[0].type == "file_descriptor":
            fd = self.descriptor(children.pop(0), children[0])
        if len(children) != 2:
            raise NotAPlan("words after a redirect")
        operator, target = children
        self.gap(operator.end_byte, target.start_byte)
        if operator.type == ">&" and self.span(target) in ("1", "2"):
            return Redirect(fd, ">&", self.span(target))
        if operator.type not in FILE_OPERATORS or (fd and operator.type.startswith("&")):
            raise NotAPlan(f"redirect {fd}{operator.type}")
        path = "".join(char for char, _ in self.word(target, 0))
        if not path:
            raise NotAPlan("redirect to an empty name")
        return Redirect(fd, operator.type, path)

    def descriptor(self, node: "Node", operator: "Node") -> str:
        fd = self.span(node)
        before = self.source[node.start_byte - 1 : node.start_byte]
        if fd not in ("0", "1", "2") or node.end_byte != operator.start_byte or before not in (b"", b" ", b"\t", b"\n"):
            raise NotAPlan("redirect of a further descriptor")
        return fd

    # ---- words

    def word(self, node: "Node", depth: int) -> Letters:
        letters = self.part(node, depth)
        _check_word(letters)
        return letters

    def part(self, node: "Node", depth: int) -> Letters:
        if depth > MAX_DEPTH:
            raise NotAPlan("nested too deeply")
        if node.type == "concatenation":
            return self.concatenation(node, depth)
        read = WORDS.get(node.type) if node.is_named else None
        if read is None:
            raise NotAPlan(_reason(node))
        for child in node.children:
            if child.type not in ('"', "string_content", "$"):
                raise NotAPlan(_reason(child))
        return read(self.span(node))

    def concatenation(self, node: "Node", depth: int) -> Letters:
        letters: Letters = []
        end = node.start_byte
        for child in node.children:
            if child.start_byte != end:
                raise NotAPlan("text that the parser does not account for")
            letters += self.part(child, depth + 1)
            end = child.end_byte
        return letters

    # ---- source

    def span(self, node: "Node") -> str:
        return self.text(node.start_byte, node.end_byte)

    def text(self, start: int, end: int) -> str:
        return self.source[start:end].decode()

    def gap(self, start: int, end: int, *, newlines: bool = False) -> str:
        """The blanks between two nodes, continued lines left out. Anything else there is not accounted for."""
        blank = self.text(start, end).replace("\\\n", "")
        if blank.strip(" \t\n" if newlines else " \t"):
            raise NotAPlan("text that the parser does not account for")
        return blank


type CompileNode = Callable[[Compiler, "Node", int], None]

NODES: dict[str, CompileNode] = {
    "program": Compiler.program,
    "list": Compiler.joined,
    "pipeline": Compiler.joined,
    "negated_command": Compiler.negated,
    "redirected_statement": Compiler.redirected,
    "command": Compiler.command,
}


def _bare(text: str) -> Letters:
    letters: Letters = []
    escaped = False
    for char in text:
        if escaped:
            if char == "\n":
                raise NotAPlan("line continuation inside a word")
            letters.append((char, True))
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in "$`":
            raise NotAPlan("variable expansion" if char == "$" else "command substitution")
        elif char in " \t\n\"'<>|&;()":
            raise NotAPlan("text that the parser does not account for")
        else:
            letters.append((char, False))
    if escaped:
        raise NotAPlan("cannot be parsed")
    return letters


def _single(text: str) -> Letters:
    if len(text) < 2 or text[0] != "'" or text[-1] != "'" or "'" in text[1:-1]:
        raise NotAPlan("cannot be parsed")
    return [("", True), *((char, True) for char in text[1:-1])]


_DOLLAR_IS_PLAIN = frozenset(' |)/"')
"""What may follow a dollar sign in double quotes so that bash, too, takes it for one."""


def _double(text: str) -> Letters:
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        raise NotAPlan("cannot be parsed")
    letters: Letters = [("", True)]
    index, last = 1, len(text) - 1
    while index < last:
        char, following = text[index], text[index + 1]
        if char == "\\" and following in '$`"\\\n' and index + 1 < last:
            letters.append(("" if following == "\n" else following, True))
            index += 2
            continue
        if char in '`"' or (char == "\\" and index + 1 == last):
            raise NotAPlan("command substitution" if char == "`" else "cannot be parsed")
        if char == "$" and following not in _DOLLAR_IS_PLAIN:
            raise NotAPlan("variable expansion")
        letters.append((char, True))
        index += 1
    return letters


WORDS: dict[str, Callable[[str], Letters]] = {"word": _bare, "number": _bare, "raw_string": _single, "string": _double}


def _check_word(letters: Letters) -> None:
    """Refuse what bash would expand; an empty quoted part is a letter of no width, so that `''~` is no tilde."""
    plain = "".join(char if not quoted else "\0" for char, quoted in letters)
    if not plain:
        raise NotAPlan("empty word")
    if re.search(r"[*?\[]", plain):
        raise NotAPlan("glob")
    if re.search(r"(^|[=:])~", plain):
        raise NotAPlan("tilde expansion")
    if re.search(r"[{}]", plain) and re.search(r",|\.\.", plain):
        raise NotAPlan("brace expansion")
    if plain.startswith("#"):
        raise NotAPlan("comment")
    if "!" in plain and plain not in ("!", "!="):
        raise NotAPlan("history expansion")


def _check_builtin(argv: tuple[str, ...]) -> None:
    """Bash evaluates a subscript in a variable's name: `printf -v 'a[$(x)]'` and `test -v` run what is in it."""
    name, arguments = argv[0], argv[1:]
    if name == "printf" and arguments and arguments[0].startswith("-") and arguments[0] != "--":
        raise NotAPlan("printf with an option")
    if name in ("test", "[") and any(word in ("-v", "-R") for word in arguments):
        raise NotAPlan(f"{name} of a variable")
    if name == "cd" and (len(arguments) != 1 or arguments[0].startswith("-") or not arguments[0]):
        raise NotAPlan("cd to a place that is not named")


def _ordered(body: list[Simple | str]) -> tuple[Simple | str, ...]:
    """Check the order of commands and operators that bash wants; a closing `;` is dropped."""
    if body and body[-1] == ";":
        body.pop()
    expect_command, may_negate = True, True
    for item in body:
        if isinstance(item, Simple):
            if not expect_command:
                raise NotAPlan("cannot be parsed")
            expect_command = False
        elif item == "!":
            if not (expect_command and may_negate):
                raise NotAPlan("cannot be parsed")
            may_negate = False
        else:
            if expect_command:
                raise NotAPlan("cannot be parsed")
            expect_command, may_negate = True, item not in ("|", "|&")
    if expect_command:
        raise NotAPlan("cannot be parsed" if body else "empty")
    return tuple(body)


# ------------------------------------------------------------------ raw bash


def _raw(text: str, reason: str, root: "Node | None") -> Raw:
    from adderclaw.credentials.redaction import visible

    named, literal = _program_names(root, text.encode()) if root is not None else ([], False)
    loose = [words[0] for pipeline in statements(text) for words in pipeline if words]
    found = tuple(dict.fromkeys((*named, *loose)))
    shown = visible(text.replace("\r", "\\u{d}"))
    made = Raw(text, shown, reason, every_word(text), found, literal)
    return made._replace(**raw.read(root, text.encode())._asdict()) if root is not None else made


def _program_names(root: "Node", source: bytes) -> tuple[list[str], bool]:
    found: list[str] = []
    literal = not root.has_error
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "command_name":
            name = _literal_name(node, source)
            literal = literal and name is not None
            found += [name] if name else []
        waiting += node.children
    return found, literal


def _literal_name(node: "Node", source: bytes) -> str | None:
    try:
        letters = Compiler(source, lambda _name: None).word(node.children[0], 0)
    except NotAPlan:
        return None
    name = "".join(char for char, _ in letters)
    return None if name in (".", "eval", "exec", "source") else name
