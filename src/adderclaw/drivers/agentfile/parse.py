"""Agentfile text into a workflow: every statement is read, and every problem of the file is said at once."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

from adderclaw.drivers.agentfile.workflow import Goal, Input, InvalidAgentfile, Persona, Problem, Review, Step, Workflow

if TYPE_CHECKING:
    from lark import Lark, Token, Tree
    from lark.exceptions import UnexpectedInput

    type Node = Tree[Token]

MAX_BYTES = 1 << 20
MAX_STATEMENTS = 5_000

STATEMENTS = ("NAME", "INPUT", "AGENT", "GOAL", "CONVERGE", "RUN", "LOOP", "SUPERVISED", "UNSUPERVISED")
KEYWORDS = frozenset({*STATEMENTS, "DEFAULT", "FROM", "USING", "WITHIN", "REQUIRES", "HUMAN"})

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


def parse(text: str, file: str = "Agentfile") -> Workflow:
    """The workflow that a text describes; what it names need not exist yet."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise InvalidAgentfile(file, [Problem(1, 1, f"the file is larger than {MAX_BYTES:,} bytes")])
    problems: list[Problem] = []
    draft = _Draft(file, text.splitlines())
    for count, line in enumerate(statements(text)):
        if count == MAX_STATEMENTS:
            problems.append(Problem(line.number, 1, f"more than {MAX_STATEMENTS:,} statements", line.text))
            break
        problem = _unreadable(line) or draft.take(line)
        if problem is not None:
            problems.append(problem)
    problems += draft.problems
    if problems:
        raise InvalidAgentfile(file, problems)
    return draft.workflow()


# ------------------------------------------------------------------ lines

PIECE = re.compile(r'"""|"(?:[^"\\]|\\.)*"|(?<!\S)#.*|[^"]|"')


def statements(text: str) -> Iterator[Line]:
    """The statements of a text, each with the number of its first line; comments and empty lines are none."""
    text = text.removeprefix("\ufeff")
    held: list[str] = []
    first = 0
    for number, line in enumerate(text.splitlines(), 1):
        if held:
            held.append(line)
            if '"""' not in line:
                continue
        elif line.strip() and not line.lstrip().startswith("#"):
            first, held = number, [line]
        if held and not _open("\n".join(held)):
            yield Line(first, "\n".join(held))
            held = []
    if held:
        yield Line(first, "\n".join(held))


def _open(text: str) -> bool:
    """Whether a text in triple quotes has begun and not ended."""
    at = 0
    while at < len(text):
        if text.startswith('"""', at):
            end = _closing(text, at + 3)
            if end < 0:
                return True
            at = end + 3
            continue
        piece = PIECE.match(text, at)
        at = piece.end() if piece else at + 1
    return False


def _closing(text: str, at: int) -> int:
    while (end := text.find('"""', at)) >= 0:
        slashes = len(text[:end]) - len(text[:end].rstrip("\\"))
        if slashes % 2 == 0:
            return end
        at = end + 1
    return -1


def pieces(text: str) -> Iterator[str]:
    """The words, quoted texts, commas and the comment of a statement."""
    at = 0
    while at < len(text):
        if text.startswith('"""', at):
            end = _closing(text, at + 3) + 3
        elif text[at].isspace():
            at += 1
            continue
        elif text[at] == '"' or (text[at] == "#" and (at == 0 or text[at - 1].isspace())):
            found = PIECE.match(text, at)
            end = found.end() if found else at + 1
        elif text[at] == ",":
            end = at + 1
        else:
            word = re.compile(r'->|[^\s",]+').match(text, at)
            end = word.end() if word else at + 1
        yield text[at:end]
        at = end


# ------------------------------------------------------------------ one statement


def _unreadable(line: Line) -> Problem | None:
    """What a grammar would say less clearly."""
    word = line.text.split(maxsplit=1)[0]
    column = len(line.text) - len(line.text.lstrip()) + 1
    first = line.text.split("\n", 1)[0]
    if any(ord(letter) < 32 and letter not in "\t\n" for letter in line.text):
        return Problem(line.number, 1, "a control character stands in this line", first)
    if word not in STATEMENTS:
        return Problem(line.number, column, _no_statement(word), first)
    if _open(line.text):
        return Problem(line.number, line.text.index('"""') + 1, 'this text has no closing """', first)
    bare = PIECE.sub(lambda found: found[0] if found[0] == '"' else "." * len(found[0]), line.text)
    if '"' in bare:
        return Problem(line.number, bare.index('"') + 1, "this text has no closing quote", first)
    if word in ("LOOP", "CONVERGE") and not re.search(r"\bWITHIN\b", PIECE.sub(_unquoted, line.text)):
        return Problem(
            line.number, column, f"{word} needs WITHIN: how many times it may go round, such as WITHIN 5", first
        )
    return None


def _unquoted(found: re.Match[str]) -> str:
    return found[0] if len(found[0]) == 1 else ""


def _no_statement(word: str) -> str:
    from difflib import get_close_matches

    if word == "SECURITY":
        return "SECURITY is no statement: what a run may do is chosen with --profile and policy.toml"
    if word.upper() in STATEMENTS:
        return f"keywords are written in capitals: {word.upper()}"
    near = get_close_matches(word.upper()[:40], STATEMENTS, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; a line begins with one of {', '.join(STATEMENTS)}"
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


class _Draft:
    """Takes the statements of a file one by one."""

    def __init__(self, file: str, source: list[str]) -> None:
        self.file, self.source = file, source
        self.name = ""
        self.name_line = 0
        self.inputs: list[Input] = []
        self.agents: list[Persona] = []
        self.goals: list[Goal] = []
        self.steps: list[Step] = []
        self.converging: dict[str, Step] = {}
        self.review: Review = "nobody"
        self.problems: list[Problem] = []

    def take(self, line: Line) -> Problem | None:
        tree = _tree(line)
        if isinstance(tree, Problem):
            return tree
        statement = cast("Node", tree.children[0])
        reserved = [token for token in statement.scan_values(_is_identifier) if str(token) in KEYWORDS]
        for token in reserved:
            self._complain(line, token, f"{token} is a keyword and names nothing; choose another name")
        if not reserved:
            self._takers()[statement.data](line, statement)
        return None

    def _takers(self) -> "dict[str, Callable[[Line, Node], None]]":
        return {
            "name_stmt": self._name,
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

    def _input(self, line: Line, node: "Node") -> None:
        default = _child(node, "value")
        self.inputs.append(Input(str(_names(node)[0]), _value(default) if default else None, line.number))

    def _agent(self, line: Line, node: "Node") -> None:
        path, prompt = _content(node)
        requires = _child(node, "requires")
        self.agents.append(
            Persona(str(_names(node)[0]), path, prompt, _value(requires) if requires else None, line.number)
        )

    def _goal(self, line: Line, node: "Node") -> None:
        path, outcome = _content(node)
        outputs, using = _child(node, "outputs"), _child(node, "using")
        self.goals.append(
            Goal(
                str(_names(node)[0]),
                path,
                outcome,
                tuple(map(str, _names(outputs))) if outputs else (),
                tuple(map(str, _names(using))) if using else (),
                _review_of(node),
                line.number,
            )
        )

    def _converge(self, line: Line, node: "Node") -> None:
        """A loop that states its condition: over the goals that it names, or over the one that it describes."""
        path, condition = _content(node)
        using, limit = _child(node, "using"), _limit(node)
        name = str(_names(node)[0])
        named = tuple(map(str, _names(using))) if using else ()
        goals = {goal.name for goal in self.goals}
        if named and goals.issuperset(named):
            self.steps.append(Step("LOOP", name, named, limit, line.number, condition))
            if path is not None:
                self.problems.append(
                    Problem(line.number, 1, "a CONVERGE over goals states its condition as a text", line.text)
                )
            return
        self._goal(line, node)
        step = Step("LOOP", name, (name,), limit, line.number, condition)
        self.steps.append(step)
        self.converging[name] = step

    def _step(self, line: Line, node: "Node") -> None:
        goals = tuple(map(str, _names(cast("Node", _child(node, "using")))))
        name, number = str(_names(node)[0]), line.number
        if node.data == "loop_stmt":
            self.steps.append(Step("LOOP", name, goals, _limit(node), number))
            return
        self.steps += _run_steps(name, goals, number, self.converging)
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


def _text(node: "Node") -> str:
    """What a quoted text says."""
    token = str(node.children[0])
    if token.startswith('"""'):
        inner = token[3:-3].removeprefix("\n")
        return re.sub(r'\\(["\\$])', lambda found: ESCAPES[found[1]], inner).strip("\n")
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[0]), token[1:-1])


def _limit(node: "Node") -> int | str:
    token = cast("Token", cast("Node", _child(node, "within")).children[0])
    return str(token) if token.startswith("$") else int(token[:9])


def _review_of(node: "Node") -> Review | None:
    for child in node.children:
        if (name := getattr(child, "data", "")) in ("reviewer", "operator", "nobody"):
            return name
    return None
