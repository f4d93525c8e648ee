"""Agentfile text into a workflow: every statement is read, and every problem of the file is said at once."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from textwrap import dedent
from typing import TYPE_CHECKING, NamedTuple, cast

from adderclaw.core.suggestions import did_you_mean
from adderclaw.flows.agentfile.workflow import (
    SECURITY,
    Goal,
    Input,
    InvalidAgentfile,
    Mode,
    Persona,
    Problem,
    Review,
    Security,
    Step,
    Workflow,
)

if TYPE_CHECKING:
    from lark import Lark, Token, Tree
    from lark.exceptions import UnexpectedInput

    type Node = Tree[Token]

MAX_BYTES = 1 << 20
MAX_STATEMENTS = 5_000
MAX_NAMES = 1_000
"""Names in one statement."""
MAX_WORD = 1_024
UNSHOWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
QUOTES = '"""'

STATEMENTS = (
    "NAME",
    "INPUT",
    "AGENT",
    "GOAL",
    "CONVERGE",
    "RUN",
    "LOOP",
    "SUPERVISED",
    "UNSUPERVISED",
    *("VERSION", "SECURITY"),
)
KEYWORDS = frozenset({*STATEMENTS, "DEFAULT", "FROM", "USING", "THEN", "WITHIN", "REQUIRES", "HUMAN"})

WORDS = {
    "IDENTIFIER": "a name",
    "VARIABLE": "a variable such as $rounds",
    "NUMBER": "a number",
    "STRING": "a text in double quotes",
    "LONG_STRING": "",
    "PATH": "a path",
    "WORD": "a word",
    "COMMA": '","',
    "__ANON_0": '"->"',
    "$END": "the end of the line",
}
"""What the grammar's terminals are called in an error; keywords are called by themselves."""

ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "$": "$$"}


class Line(NamedTuple):
    """One statement's text, which is more than one line where a text in triple quotes is."""

    number: int
    text: str


class Draft(NamedTuple):
    """What could be read of a file, and what could not."""

    workflow: Workflow
    problems: list[Problem]
    broken: list[Line]
    """Statements that could not be read: what they would define is not known to be missing."""


def parse(text: str, file: str = "Agentfile") -> Workflow:
    """The workflow that a text describes; what it names need not exist yet."""
    draft = read(text, file)
    if draft.problems:
        raise InvalidAgentfile(file, draft.problems)
    return draft.workflow


def read(text: str, file: str) -> Draft:
    """The same with whatever is wrong beside it."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise InvalidAgentfile(file, [Problem(1, 1, f"the file is larger than {MAX_BYTES:,} bytes")])
    problems: list[Problem] = []
    broken: list[Line] = []
    taker = _Taker(file)
    for count, line in enumerate(statements(text)):
        if count == MAX_STATEMENTS:
            raise InvalidAgentfile(file, [Problem(line.number, 1, f"more than {MAX_STATEMENTS:,} statements")])
        said = len(taker.problems)
        problem = _unreadable(line) or taker.take(line)
        if problem is not None:
            problems.append(problem)
        if problem is not None or len(taker.problems) > said:
            broken.append(line)
    return Draft(taker.workflow(), problems + taker.problems, broken)


# ------------------------------------------------------------------ lines

PIECE = re.compile(
    r'''(?P<quoted>"""(?:[^"\\]|\\.|"(?!""))*"""|"(?!"")(?:[^"\\]|\\.)*")'''
    r"""|(?P<comment>(?<!\S)\#[^\n]*)|(?P<bare>(?:[^"\#]|(?<=\S)\#)+)|(?P<open>"{1,3})""",
    re.DOTALL,
)
"""What a statement is made of: texts in quotes, a comment, all else; and a quote that nothing closes."""
ENDS = {QUOTES: re.compile(r'(?:[^"\\]|\\.|"(?!""))*"""', re.DOTALL), '"': re.compile(r'(?:[^"\\]|\\.)*"')}
UNQUOTED = re.compile(r"\s*(?:AGENT|GOAL|CONVERGE)\s+[A-Za-z][A-Za-z0-9_-]*\s*")
"""A statement whose text stands in the lines below it, indented and without quotes."""
WORD = re.compile(r'->|[^\s",]+')
WHOLE_WORD = re.compile(r'[^\s"]+')


def lines_of(text: str) -> list[str]:
    """The lines of a file, as an editor counts them."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")


def statements(text: str) -> Iterator[Line]:
    """The statements of a text, each with the number of its first line; comments and empty lines are none.

    A text in triple quotes goes on until they are closed; one in plain quotes, and one without any, in indented lines.
    """
    lines, at = lines_of(text), 0
    while at < len(lines):
        line, first = lines[at], at + 1
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if UNQUOTED.fullmatch(line) and (below := _below(lines, at)):
            at += len(below)
            body = dedent("\n".join(below)).replace("\\", "\\\\").replace('"', '\\"')
            yield Line(first, f"{line.rstrip()} {QUOTES}\n{body}{QUOTES}")
            continue
        held, inside = [line], _inside(line, "")
        while at < len(lines) and (inside == QUOTES or (inside and _is_indented(lines[at]))):
            held.append(lines[at])
            inside = _inside(lines[at], inside)
            at += 1
        yield Line(first, "\n".join(held))


def _is_indented(line: str) -> bool:
    return line[:1] in (" ", "\t") and bool(line.strip())


def _below(lines: list[str], at: int) -> list[str]:
    """The indented lines from there on, with the empty ones between them."""
    end = last = at
    while end < len(lines) and (_is_indented(lines[end]) or not lines[end].strip()):
        end += 1
        last = end if lines[end - 1].strip() else last
    return lines[at:last]


def _inside(line: str, inside: str) -> str:
    """The quotes of the text that is open at the end of a line, if one is; `inside` was open at its beginning."""
    at = 0
    while at < len(line):
        if inside:
            end = ENDS[inside].match(line, at)
            if end is None:
                return inside
            at, inside = end.end(), ""
            continue
        piece = PIECE.match(line, at)
        if piece is None or (piece["open"] and len(piece["open"]) == 3):
            inside, at = QUOTES, at + 3
        elif piece["open"]:
            return '"'
        else:
            at = piece.end()
    return inside


def pieces(text: str) -> Iterator[str]:
    """The words, quoted texts, commas and the comment of a statement."""
    before = ""
    for found in PIECE.finditer(text):
        if found["bare"] is None:
            before = found[0]
            yield before
            continue
        at, end = found.span()
        while at < end:
            if text[at].isspace():
                at += 1
                continue
            whole = before in ("FROM", "DEFAULT")  # a path or a value may have commas
            word = (WHOLE_WORD if whole else WORD).match(text, at)
            before = word[0] if word else text[at]
            yield before
            at += len(before)


# ------------------------------------------------------------------ one statement


def _unreadable(line: Line) -> Problem | None:
    """What a grammar would say less clearly."""
    word = line.text.split(maxsplit=1)[0]
    column = len(line.text) - len(line.text.lstrip()) + 1
    if (strange := UNSHOWN.search(line.text)) is not None:
        return _at(line, strange.start(), f"a control character (U+{ord(strange[0]):04X}) stands in this line")
    if word not in STATEMENTS:
        return _at(line, column - 1, _no_statement(word))
    bare = ""
    for found in PIECE.finditer(line.text):
        if (quote := found["open"]) is not None:
            long = len(quote) == 3
            return _at(line, found.start(), f"this text has no closing {QUOTES if long else 'quote'}")
        bare += found["bare"] or " " * len(found[0])
    if (space := re.search(r"[^\S \t\n]", bare)) is not None:
        return _at(line, space.start(), f"this is no ordinary space (U+{ord(space[0]):04X}); write one")
    if len(bare.split()) > MAX_NAMES or bare.count(",") > MAX_NAMES:
        return _at(line, 0, f"one statement has at most {MAX_NAMES:,} names")
    if (long_word := re.search(rf"[^\s,]{{{MAX_WORD + 1}}}", bare)) is not None:
        return _at(line, long_word.start(), f"a name or a path has at most {MAX_WORD} characters")
    if word in ("LOOP", "CONVERGE") and not re.search(r"\bWITHIN\b", bare):
        return _at(line, column - 1, _endless(word))
    return None


def _at(line: Line, offset: int, message: str) -> Problem:
    """A problem at a place in a statement, which may have several lines."""
    before = line.text[:offset].split("\n")
    row = len(before) - 1
    return Problem(line.number + row, len(before[-1]) + 1, message, line.text.split("\n")[row])


def _no_statement(word: str) -> str:
    if word.upper() in STATEMENTS:
        return f"keywords are written in capitals: {word.upper()}"
    hint = did_you_mean(word, STATEMENTS) or f"; a line begins with one of {', '.join(STATEMENTS)}"
    return f"{word[:40]!r} is no statement{hint}"


@cache
def _grammar() -> "Lark":
    from lark import Lark

    with open(os.path.join(os.path.dirname(__file__), "grammar.lark"), encoding="utf-8") as file:
        return Lark(file.read(), start="statement", parser="lalr", maybe_placeholders=False)


def _tree(line: Line) -> "Node | Problem":
    from lark.exceptions import UnexpectedInput

    try:
        return _grammar().parse(line.text)  # pyright: ignore[reportUnknownMemberType]
    except UnexpectedInput as error:
        return _problem(line, error)


def _problem(line: Line, error: "UnexpectedInput") -> Problem:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    lines = line.text.split("\n")
    row, column, found = max(error.line, 1), max(error.column, 1), ""
    expected: set[str] = set()
    if isinstance(error, UnexpectedToken):
        expected = set(error.accepts or error.expected)
        token = cast("Token", error.token)  # pyright: ignore[reportUnknownMemberType]
        found = str(token)
        if token.type == "$END":
            row, column = len(lines), len(lines[-1]) + 1
    elif isinstance(error, UnexpectedCharacters):
        expected = set(error.allowed or ())
        found = lines[min(row, len(lines)) - 1][column - 1 :].split(maxsplit=1)[0]
    words = sorted({WORDS.get(name, name) for name in expected} - {""})
    said = f", found {found[:40]!r}" if found else ", and the line ends here"
    message = f"expected {_either(words)}{said}" if words else f"this cannot stand here: {found[:40]!r}"
    return Problem(line.number + row - 1, column, message, lines[min(row, len(lines)) - 1])


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


# ------------------------------------------------------------------ the workflow as it grows


class _Taker:
    """Takes the statements of a file one by one."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.name = ""
        self.name_line = 0
        self.inputs: list[Input] = []
        self.agents: list[Persona] = []
        self.goals: list[Goal] = []
        self.steps: list[Step] = []
        self.converging: dict[str, Step] = {}
        self.review: Review = "nobody"
        self.version, self.security = "", Security()
        self.problems: list[Problem] = []

    def take(self, line: Line) -> Problem | None:
        tree = _tree(line)
        if isinstance(tree, Problem):
            return tree
        statement = cast("Node", tree.children[0])
        reserved = [token for token in statement.scan_values(_is_identifier) if str(token) in KEYWORDS]
        for token in reserved:
            self._complain(line, token, f"{token} is a keyword and names nothing; choose another name")
        if not reserved and (problem := _clauses(line, statement)) is not None:
            return problem
        if not reserved:
            self._takers()[statement.data](line, statement)
        return None

    def _takers(self) -> "dict[str, Callable[[Line, Node], None]]":
        return {
            "name_stmt": self._name,
            "version_stmt": self._version,
            "security_stmt": self._security,
            "input_stmt": self._input,
            "agent_stmt": self._agent,
            "goal_stmt": self._goal,
            "converge_stmt": self._converge,
            "run_stmt": self._step,
            "loop_stmt": self._step,
            "reviewer": self._review,
            "operator": self._review,
            "nobody": self._review,
        }

    def _complain(self, line: Line, token: "Token", message: str) -> None:
        row, column = (token.line or 1) - 1, token.column or 1
        self.problems.append(Problem(line.number + row, column, message, line.text.split("\n")[row]))

    def _name(self, line: Line, node: "Node") -> None:
        token = _names(node)[0]
        if self.name:
            self._complain(line, token, f"the workflow already has a NAME, {self.name!r} in line {self.name_line}")
            return
        self.name, self.name_line = str(token), line.number

    def _version(self, line: Line, node: "Node") -> None:
        if self.version:
            self.problems.append(_at(line, 0, f"the workflow already has a VERSION, {self.version!r}"))
        self.version = self.version or _default(cast("Node", _child(node, "value")))

    def _security(self, line: Line, node: "Node") -> None:
        """What a file says of itself can only make a run stricter."""
        token, scope = _names(node)[0], _child(node, "string")
        if self.security.line:
            self._complain(line, token, f"SECURITY stands in line {self.security.line} already")
        elif str(token) not in SECURITY:
            self._complain(line, token, f"SECURITY is one of {', '.join(SECURITY)}; more is said by --profile")
        else:
            self.security = Security(cast("Mode", str(token)), _text(scope) if scope else "", line.number)

    def _input(self, line: Line, node: "Node") -> None:
        default = _child(node, "value")
        self.inputs.append(Input(str(_names(node)[0]), _default(default) if default else None, line.number))

    def _agent(self, line: Line, node: "Node") -> None:
        path, prompt = _content(node)
        requires = _child(node, "requires")
        wanted = _value(requires) if requires else None
        given: set[str] = set()
        for name in _names(outputs) if (outputs := _child(node, "outputs")) else ():
            if str(name) in given:
                self._complain(line, name, f"the output {str(name)!r} stands twice after ->; say it once")
            given.add(str(name))
        self.agents.append(Persona(str(_names(node)[0]), path, prompt, wanted, line.number, _listed(node, "outputs")))

    def _goal(self, line: Line, node: "Node") -> None:
        path, outcome = _content(node)
        outputs, agents = _listed(node, "outputs"), _listed(node, "using")
        self.goals.append(Goal(str(_names(node)[0]), path, outcome, outputs, agents, _review_of(node), line.number))

    def _converge(self, line: Line, node: "Node") -> None:
        """A loop that states its condition: over the goals that it names, or over the one that it describes."""
        path, condition = _content(node)
        limit, named = _limit(node), _listed(node, "using")
        name = str(_names(node)[0])
        goals = {goal.name for goal in self.goals}
        if named and goals.issuperset(named):
            self.steps.append(Step("LOOP", name, named, limit, line.number, condition))
            if path is not None:
                self.problems.append(_at(line, 0, "a CONVERGE over goals states its condition as a text"))
            if _child(node, "outputs") or _review_of(node):
                what = "a CONVERGE over goals has no outputs and no review of its own: they belong to its goals"
                self.problems.append(_at(line, 0, what))
            return
        self._goal(line, node)
        step = Step("LOOP", name, (name,), limit, line.number, condition)
        self.steps.append(step)
        self.converging[name] = step

    def _step(self, line: Line, node: "Node") -> None:
        goals, review = _listed(node, "using"), _review_of(node)
        name, number = str(_names(node)[0]), line.number
        if node.data == "loop_stmt":
            self.steps.append(Step("LOOP", name, goals, _limit(node), number, review=review))
            return
        made = _run_steps(name, goals, number, self.converging)
        self.steps += [replace(step, review=review) for step in made]
        for goal in goals:
            if (own := self.converging.pop(goal, None)) is not None:
                self.steps.remove(own)

    def _review(self, line: Line, node: "Node") -> None:  # noqa: ARG002 - every taker is called alike
        self.review = cast("Review", node.data)

    def workflow(self) -> Workflow:
        return Workflow(
            file=self.file,
            name=self.name,
            inputs=tuple(self.inputs),
            agents=tuple(self.agents),
            goals=tuple(self.goals),
            steps=tuple(self.steps),
            review=self.review,
            version=self.version,
            security=self.security,
        )


def _run_steps(name: str, goals: tuple[str, ...], line: int, converging: dict[str, Step]) -> list[Step]:
    """A RUN that names a CONVERGE runs it there, as the loop that it is."""
    steps: list[Step] = []
    held: list[str] = []
    for goal in goals:
        if goal not in converging:
            held.append(goal)
            continue
        if held:
            steps.append(Step("RUN", name, tuple(held), None, line))
            held = []
        steps.append(replace(converging[goal], line=line))
    if held:
        steps.append(Step("RUN", name, tuple(held), None, line))
    return steps


# ------------------------------------------------------------------ pieces of a tree


def _is_identifier(value: object) -> bool:
    return getattr(value, "type", "") == "IDENTIFIER"


def _child(node: "Node", name: str) -> "Node | None":
    for child in node.children:
        if getattr(child, "data", "") == name:
            return cast("Node", child)
    return None


def _names(node: "Node") -> "list[Token]":
    """The names that stand directly in a node."""
    found = [child for child in node.children if getattr(child, "data", "") == "identifier"]
    return [cast("Token", cast("Node", child).children[0]) for child in found]


def _listed(node: "Node", clause: str) -> tuple[str, ...]:
    """The names after USING or `->`; none where that is not said."""
    found = _child(node, clause)
    return tuple(map(str, _names(found))) if found is not None else ()


CLAUSES = {
    "outputs": "->",
    "using": "USING",
    "requires": "REQUIRES",
    "within": "WITHIN",
    **dict.fromkeys(("reviewer", "operator", "nobody"), "SUPERVISED or UNSUPERVISED"),
}


def _clauses(line: Line, node: "Node") -> Problem | None:
    """What follows a text stands in any order, but once; and a CONVERGE says how often it may go round."""
    found = [CLAUSES[data] for child in node.children if (data := getattr(child, "data", "")) in CLAUSES]
    if node.data == "converge_stmt" and "WITHIN" not in found:
        return _at(line, 0, _endless("CONVERGE"))
    twice = next((name for name in found if found.count(name) > 1), None)
    return _at(line, 0, f"{twice} stands twice in this statement; say it once") if twice else None


def _endless(word: str) -> str:
    return f"{word} needs WITHIN: how many times it may go round, such as WITHIN 5"


def _content(node: "Node") -> tuple[str | None, str]:
    """(path, "") of what comes FROM a file, (None, text) of what is written here."""
    source = _child(node, "from_path")
    if source is not None:
        return _value(source), ""
    return None, _text(cast("Node", _child(node, "string")))


def _value(node: "Node") -> str:
    child = node.children[0]
    data = getattr(child, "data", "")
    if data == "string":
        return _text(cast("Node", child)).replace("$$", "$")
    return str(cast("Node", child).children[0]) if data == "identifier" else str(child)


def _default(node: "Node") -> str:
    """A default is a text in which `$name` counts, and `$$` is a dollar sign."""
    child = node.children[0]
    return _text(cast("Node", child)) if getattr(child, "data", "") == "string" else str(child)


def _text(node: "Node") -> str:
    """What a quoted text says."""
    token = str(node.children[0])
    if token.startswith('"""'):
        inner = token[3:-3].removeprefix("\n")
        return re.sub(r'\\(["\\$])', lambda found: ESCAPES[found[1]], inner).strip("\n")
    inner = re.sub(r"\n[ \t]*", "\n", token[1:-1])
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[0]), inner)


def _limit(node: "Node") -> int | str:
    token = cast("Token", cast("Node", _child(node, "within")).children[0])
    return str(token) if token.startswith("$") else int(token[:9])


def _review_of(node: "Node") -> Review | None:
    for child in node.children:
        if (name := getattr(child, "data", "")) in ("reviewer", "operator", "nobody"):
            return name
    return None
