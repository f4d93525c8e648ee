"""Parses the text of an Agentfile into a workflow, and reports all problems of the file at once."""

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
"""How many names one statement may have."""
MAX_WORD = 1_024
CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
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
"""The names of the grammar's terminals in error messages; a keyword is its own name."""

ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "$": "$$"}


class Line(NamedTuple):
    """The text of one statement, which may have several lines."""

    number: int
    text: str


class Draft(NamedTuple):
    """A workflow as far as it could be parsed, and the problems of its file."""

    workflow: Workflow
    problems: list[Problem]
    broken: list[Line]
    """Statements that could not be parsed; what they define must not be reported as missing."""


def parse(text: str, file: str = "Agentfile") -> Workflow:
    """Parses a workflow without checking that the names in it exist; raises InvalidAgentfile."""
    draft = read_draft(text, file)
    if draft.problems:
        raise InvalidAgentfile(file, draft.problems)
    return draft.workflow


def read_draft(text: str, file: str) -> Draft:
    """Parses as much of a workflow as possible, and collects the problems."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise InvalidAgentfile(file, [Problem(1, 1, f"the file is larger than {MAX_BYTES:,} bytes")])
    problems: list[Problem] = []
    broken: list[Line] = []
    builder = _WorkflowBuilder(file)
    for count, line in enumerate(statements(text)):
        if count == MAX_STATEMENTS:
            raise InvalidAgentfile(file, [Problem(line.number, 1, f"more than {MAX_STATEMENTS:,} statements")])
        problems_before = len(builder.problems)
        problem = _lexical_problem(line) or builder.add(line)
        if problem is not None:
            problems.append(problem)
        if problem is not None or len(builder.problems) > problems_before:
            broken.append(line)
    return Draft(builder.workflow(), problems + builder.problems, broken)


# ------------------------------------------------------------------ lines

PIECE = re.compile(
    r'''(?P<quoted>"""(?:[^"\\]|\\.|"(?!""))*"""|"(?!"")(?:[^"\\]|\\.)*")'''
    r"""|(?P<comment>(?<!\S)\#[^\n]*)|(?P<bare>(?:[^"\#]|(?<=\S)\#)+)|(?P<open>"{1,3})""",
    re.DOTALL,
)
"""The parts of a statement: quoted texts, a comment, bare text, and a quote that is never closed."""
ENDS = {QUOTES: re.compile(r'(?:[^"\\]|\\.|"(?!""))*"""', re.DOTALL), '"': re.compile(r'(?:[^"\\]|\\.)*"')}
TEXT_BELOW = re.compile(r"\s*(?:AGENT|GOAL|CONVERGE)\s+[A-Za-z][A-Za-z0-9_-]*\s*")
"""The first line of a statement whose text follows in indented lines without quotes."""
WORD = re.compile(r'->|[^\s",]+')
WHOLE_WORD = re.compile(r'[^\s"]+')


def lines_of(text: str) -> list[str]:
    """Splits a file into the lines that an editor shows."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")


def statements(text: str) -> Iterator[Line]:
    """Yields the statements of a text with the numbers of their first lines; skips comments and empty lines.

    A text in triple quotes continues until they are closed; other texts continue in indented lines.
    """
    lines, at = lines_of(text), 0
    while at < len(lines):
        line, first = lines[at], at + 1
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if TEXT_BELOW.fullmatch(line) and (below := _indented_lines(lines, at)):
            at += len(below)
            body = dedent("\n".join(below)).replace("\\", "\\\\").replace('"', '\\"')
            yield Line(first, f"{line.rstrip()} {QUOTES}\n{body}{QUOTES}")
            continue
        rows, inside = [line], _open_quotes(line, "")
        while at < len(lines) and (inside == QUOTES or (inside and _is_indented(lines[at]))):
            rows.append(lines[at])
            inside = _open_quotes(lines[at], inside)
            at += 1
        yield Line(first, "\n".join(rows))


def _is_indented(line: str) -> bool:
    return line[:1] in (" ", "\t") and bool(line.strip())


def _indented_lines(lines: list[str], at: int) -> list[str]:
    """Returns the indented lines from a position on, with the empty lines between them."""
    end = last = at
    while end < len(lines) and (_is_indented(lines[end]) or not lines[end].strip()):
        end += 1
        last = end if lines[end - 1].strip() else last
    return lines[at:last]


def _open_quotes(line: str, inside: str) -> str:
    """Returns the quotes that are open at the end of a line; `inside` are those open at its beginning."""
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
    """Yields the words, quoted texts, commas and the comment of a statement."""
    before = ""
    for piece in PIECE.finditer(text):
        if piece["bare"] is None:
            before = piece[0]
            yield before
            continue
        at, end = piece.span()
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


def _lexical_problem(line: Line) -> Problem | None:
    """Finds problems for which the grammar's own error would be less clear."""
    word = line.text.split(maxsplit=1)[0]
    column = len(line.text) - len(line.text.lstrip()) + 1
    if (strange := CONTROL_CHARACTERS.search(line.text)) is not None:
        return _problem_at(
            line, strange.start(), f"this line has a control character (U+{ord(strange[0]):04X}); remove it"
        )
    if word not in STATEMENTS:
        return _problem_at(line, column - 1, _unknown_statement(word))
    bare = ""
    for piece in PIECE.finditer(line.text):
        if (quote := piece["open"]) is not None:
            long = len(quote) == 3
            return _problem_at(line, piece.start(), f"this text has no closing {QUOTES if long else 'quote'}")
        bare += piece["bare"] or " " * len(piece[0])
    if (space := re.search(r"[^\S \t\n]", bare)) is not None:
        return _problem_at(line, space.start(), f"this is not an ordinary space (U+{ord(space[0]):04X}); replace it")
    if len(bare.split()) > MAX_NAMES or bare.count(",") > MAX_NAMES:
        return _problem_at(line, 0, f"one statement has at most {MAX_NAMES:,} names")
    if (long_word := re.search(rf"[^\s,]{{{MAX_WORD + 1}}}", bare)) is not None:
        return _problem_at(line, long_word.start(), f"a name or a path has at most {MAX_WORD} characters")
    if word in ("LOOP", "CONVERGE") and not re.search(r"\bWITHIN\b", bare):
        return _problem_at(line, column - 1, _needs_within(word))
    return None


def _problem_at(line: Line, offset: int, message: str) -> Problem:
    """Returns a problem at an offset in a statement, which may have several lines."""
    before = line.text[:offset].split("\n")
    row = len(before) - 1
    return Problem(line.number + row, len(before[-1]) + 1, message, line.text.split("\n")[row])


def _unknown_statement(word: str) -> str:
    if word.upper() in STATEMENTS:
        return f"keywords are written in capitals: {word.upper()}"
    hint = did_you_mean(word, STATEMENTS) or f"; a line must begin with one of {', '.join(STATEMENTS)}"
    return f"{word[:40]!r} is not a statement{hint}"


@cache
def _grammar() -> "Lark":
    from lark import Lark

    with open(os.path.join(os.path.dirname(__file__), "grammar.lark"), encoding="utf-8") as file:
        return Lark(file.read(), start="statement", parser="lalr", maybe_placeholders=False)


def _parse_statement(line: Line) -> "Node | Problem":
    from lark.exceptions import UnexpectedInput

    try:
        return _grammar().parse(line.text)  # pyright: ignore[reportUnknownMemberType]
    except UnexpectedInput as error:
        return _syntax_problem(line, error)


def _syntax_problem(line: Line, error: "UnexpectedInput") -> Problem:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    lines = line.text.split("\n")
    row, column, token_text = max(error.line, 1), max(error.column, 1), ""
    expected: set[str] = set()
    if isinstance(error, UnexpectedToken):
        expected = set(error.accepts or error.expected)
        token = cast("Token", error.token)  # pyright: ignore[reportUnknownMemberType]
        token_text = str(token)
        if token.type == "$END":
            row, column = len(lines), len(lines[-1]) + 1
    elif isinstance(error, UnexpectedCharacters):
        expected = set(error.allowed or ())
        token_text = lines[min(row, len(lines)) - 1][column - 1 :].split(maxsplit=1)[0]
    words = sorted({WORDS.get(name, name) for name in expected} - {""})
    actual = f", found {token_text[:40]!r}" if token_text else ", and the line ends here"
    message = f"expected {_join_alternatives(words)}{actual}" if words else f"{token_text[:40]!r} is not allowed here"
    return Problem(line.number + row - 1, column, message, lines[min(row, len(lines)) - 1])


def _join_alternatives(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


# ------------------------------------------------------------------ building the workflow


class _WorkflowBuilder:
    """Builds a workflow from the statements of a file."""

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

    def add(self, line: Line) -> Problem | None:
        tree = _parse_statement(line)
        if isinstance(tree, Problem):
            return tree
        statement = cast("Node", tree.children[0])
        reserved = [token for token in statement.scan_values(_is_identifier) if str(token) in KEYWORDS]
        for token in reserved:
            self._report(line, token, f"{token} is a keyword and cannot be a name; choose another name")
        if not reserved and (problem := _clause_problem(line, statement)) is not None:
            return problem
        if not reserved:
            self._handlers()[statement.data](line, statement)
        return None

    def _handlers(self) -> "dict[str, Callable[[Line, Node], None]]":
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

    def _report(self, line: Line, token: "Token", message: str) -> None:
        row, column = (token.line or 1) - 1, token.column or 1
        self.problems.append(Problem(line.number + row, column, message, line.text.split("\n")[row]))

    def _name(self, line: Line, node: "Node") -> None:
        token = _names(node)[0]
        if self.name:
            self._report(line, token, f"the workflow already has a NAME, {self.name!r} in line {self.name_line}")
            return
        self.name, self.name_line = str(token), line.number

    def _version(self, line: Line, node: "Node") -> None:
        if self.version:
            self.problems.append(_problem_at(line, 0, f"the workflow already has a VERSION, {self.version!r}"))
        self.version = self.version or _default(cast("Node", _child(node, "value")))

    def _security(self, line: Line, node: "Node") -> None:
        """Reads SECURITY, by which a file can only make its run stricter."""
        token, scope = _names(node)[0], _child(node, "string")
        if self.security.line:
            self._report(line, token, f"SECURITY is already set in line {self.security.line}")
        elif str(token) not in SECURITY:
            self._report(line, token, f"SECURITY must be one of {', '.join(SECURITY)}; use --profile for the rest")
        else:
            self.security = Security(cast("Mode", str(token)), _text(scope) if scope else "", line.number)

    def _input(self, line: Line, node: "Node") -> None:
        default = _child(node, "value")
        self.inputs.append(Input(str(_names(node)[0]), _default(default) if default else None, line.number))

    def _agent(self, line: Line, node: "Node") -> None:
        path, prompt = _content(node)
        requires = _child(node, "requires")
        capability = _value(requires) if requires else None
        names: set[str] = set()
        for name in _names(outputs) if (outputs := _child(node, "outputs")) else ():
            if str(name) in names:
                self._report(line, name, f"the output {str(name)!r} is listed twice after ->; remove one")
            names.add(str(name))
        self.agents.append(
            Persona(str(_names(node)[0]), path, prompt, capability, line.number, _names_of(node, "outputs"))
        )

    def _goal(self, line: Line, node: "Node") -> None:
        path, outcome = _content(node)
        outputs, agents = _names_of(node, "outputs"), _names_of(node, "using")
        self.goals.append(Goal(str(_names(node)[0]), path, outcome, outputs, agents, _review_of(node), line.number))

    def _converge(self, line: Line, node: "Node") -> None:
        """Reads a loop with a condition, over the goals that it names or over the one that it describes."""
        path, condition = _content(node)
        limit, named = _limit(node), _names_of(node, "using")
        name = str(_names(node)[0])
        goals = {goal.name for goal in self.goals}
        if named and goals.issuperset(named):
            self.steps.append(Step("LOOP", name, named, limit, line.number, condition))
            if path is not None:
                self.problems.append(
                    _problem_at(line, 0, "a CONVERGE over goals needs its condition as a text, not FROM a file")
                )
            if _child(node, "outputs") or _review_of(node):
                message = "a CONVERGE over goals cannot have outputs or a review; put them on its goals"
                self.problems.append(_problem_at(line, 0, message))
            return
        self._goal(line, node)
        step = Step("LOOP", name, (name,), limit, line.number, condition)
        self.steps.append(step)
        self.converging[name] = step

    def _step(self, line: Line, node: "Node") -> None:
        goals, review = _names_of(node, "using"), _review_of(node)
        name, number = str(_names(node)[0]), line.number
        if node.data == "loop_stmt":
            self.steps.append(Step("LOOP", name, goals, _limit(node), number, review=review))
            return
        run_steps = _run_steps(name, goals, number, self.converging)
        self.steps += [replace(step, review=review) for step in run_steps]
        for goal in goals:
            if (own := self.converging.pop(goal, None)) is not None:
                self.steps.remove(own)

    def _review(self, line: Line, node: "Node") -> None:  # noqa: ARG002 - all handlers have the same signature
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
    """Splits a RUN at each CONVERGE that it names, which runs as a loop there."""
    steps: list[Step] = []
    plain_goals: list[str] = []
    for goal in goals:
        if goal not in converging:
            plain_goals.append(goal)
            continue
        if plain_goals:
            steps.append(Step("RUN", name, tuple(plain_goals), None, line))
            plain_goals = []
        steps.append(replace(converging[goal], line=line))
    if plain_goals:
        steps.append(Step("RUN", name, tuple(plain_goals), None, line))
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
    """The names that are direct children of a node."""
    children = [child for child in node.children if getattr(child, "data", "") == "identifier"]
    return [cast("Token", cast("Node", child).children[0]) for child in children]


def _names_of(node: "Node", clause: str) -> tuple[str, ...]:
    """The names after USING or `->`; empty without such a clause."""
    child = _child(node, clause)
    return tuple(map(str, _names(child))) if child is not None else ()


CLAUSES = {
    "outputs": "->",
    "using": "USING",
    "requires": "REQUIRES",
    "within": "WITHIN",
    **dict.fromkeys(("reviewer", "operator", "nobody"), "SUPERVISED or UNSUPERVISED"),
}


def _clause_problem(line: Line, node: "Node") -> Problem | None:
    """Finds a repeated clause, or a CONVERGE without WITHIN. Clauses may be in any order."""
    clauses = [CLAUSES[data] for child in node.children if (data := getattr(child, "data", "")) in CLAUSES]
    if node.data == "converge_stmt" and "WITHIN" not in clauses:
        return _problem_at(line, 0, _needs_within("CONVERGE"))
    twice = next((name for name in clauses if clauses.count(name) > 1), None)
    return _problem_at(line, 0, f"{twice} is used twice in this statement; remove one") if twice else None


def _needs_within(word: str) -> str:
    return f"{word} needs WITHIN with the largest number of rounds, such as WITHIN 5"


def _content(node: "Node") -> tuple[str | None, str]:
    """Returns (path, "") for a text FROM a file, and (None, text) for a text in the statement."""
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
    """Returns a default, in which `$name` and `$$` are replaced later."""
    child = node.children[0]
    return _text(cast("Node", child)) if getattr(child, "data", "") == "string" else str(child)


def _text(node: "Node") -> str:
    """Returns the content of a quoted text."""
    token = str(node.children[0])
    if token.startswith('"""'):
        inner = token[3:-3].removeprefix("\n")
        return re.sub(r'\\(["\\$])', lambda match: ESCAPES[match[1]], inner).strip("\n")
    inner = re.sub(r"\n[ \t]*", "\n", token[1:-1])
    return re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[0]), inner)


def _limit(node: "Node") -> int | str:
    token = cast("Token", cast("Node", _child(node, "within")).children[0])
    return str(token) if token.startswith("$") else int(token[:9])


def _review_of(node: "Node") -> Review | None:
    for child in node.children:
        if (name := getattr(child, "data", "")) in ("reviewer", "operator", "nobody"):
            return name
    return None
