"""The nouns of an Agentfile: what a parsed workflow is made of."""

from dataclasses import replace
from typing import Literal, NamedTuple

from adderclaw.core.errors import UsageError
from adderclaw.core.record import record

type Review = Literal["reviewer", "operator", "nobody"]
"""Who looks at a goal's result before the next one begins: another model call, the operator, or nobody."""


type Mode = Literal["default", "paranoid", "research"]
SECURITY: tuple[Mode, ...] = ("default", "paranoid", "research")
STRICTER: dict[Review | None, int] = {None: 0, "nobody": 0, "reviewer": 1, "operator": 2}


@record
class Security:
    """What a file says of how careful its run is to be."""

    mode: Mode = "default"
    scope: str = ""
    """Of `research`: what the author says is allowed. Nobody here takes a file's word for that."""
    line: int = 0


@record
class Input:
    name: str
    default: str | None
    line: int


@record
class Persona:
    name: str
    path: str | None
    prompt: str
    """What it is told of itself; of a persona FROM a file, empty until the file is loaded."""
    requires: str | None
    line: int
    outputs: tuple[str, ...] = ()
    """Names that what it finds is to have values for; they belong to its finding and are no variables."""


@record
class Goal:
    name: str
    path: str | None
    outcome: str
    """What is to be reached; of a goal FROM a file, empty until the file is loaded."""
    outputs: tuple[str, ...]
    """Names that the result is to have values for; each becomes a variable."""
    agents: tuple[str, ...]
    review: Review | None
    line: int


@record
class Step:
    kind: Literal["RUN", "LOOP"]
    name: str
    goals: tuple[str, ...]
    limit: int | str | None
    """How many times a LOOP may go round: a number, or the variable (`$name`) that holds it."""
    line: int
    condition: str = ""
    """Of a CONVERGE: when it is enough."""
    review: Review | None = None
    """Who reviews its goals, where that is said behind it."""


@record
class Workflow:
    file: str
    name: str
    inputs: tuple[Input, ...]
    agents: tuple[Persona, ...]
    goals: tuple[Goal, ...]
    steps: tuple[Step, ...]
    review: Review = "nobody"
    """Who reviews a goal that does not say."""
    version: str = ""
    security: Security = Security()

    def goal(self, name: str) -> Goal:
        return next(goal for goal in self.goals if goal.name == name)

    def agent(self, name: str) -> Persona:
        return next(agent for agent in self.agents if agent.name == name)

    def owed(self, goal: Goal, agent: str = "") -> Goal:
        """A goal as one session works on it: several leave the goal's own values to whoever reconciles them."""
        own = goal.outputs if len(goal.agents) < 2 else ()
        more = self.agent(agent).outputs if agent else ()
        return replace(goal, outputs=tuple(dict.fromkeys((*own, *more))))

    def reviewer_of(self, goal: Goal, step: Step | None = None) -> Review:
        """Who looks at a goal's result in a step: the stricter of what both say, else what the file says for all."""
        own, there = goal.review, step.review if step is not None else None
        return max(own, there, key=lambda one: STRICTER[one]) if own and there else own or there or self.review


SHOWN = 160
"""Characters of a line that are shown with what is wrong in it."""
MOST_SHOWN = 100
"""Problems that are shown."""


class Problem(NamedTuple):
    """What is wrong, and where."""

    line: int
    column: int
    message: str
    source: str = ""
    """The line as it stands in the file."""

    def shown(self, file: str) -> str:
        at = f"{file}:{self.line}:{self.column}: {self.message}"
        if not self.source.strip():
            return at
        first = max(self.column - 1 - SHOWN // 2, 0) if len(self.source) > SHOWN else 0
        source = self.source[first : first + SHOWN]
        blank = "".join("\t" if letter == "\t" else " " for letter in source[: self.column - 1 - first])
        return f"{at}\n  {source}\n  {blank}^"


class InvalidAgentfile(UsageError):
    """A workflow that cannot be run, with every reason at once."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.file, self.problems = file, sorted(problems)
        count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        rows = [one.shown(file) for one in self.problems[:MOST_SHOWN]]
        if len(problems) > MOST_SHOWN:  # nobody counted them all
            count, rows = f"over {MOST_SHOWN} problems", [*rows, "… and more"]
        super().__init__(f"{file} is not a valid Agentfile ({count})\n" + "\n".join(rows))
