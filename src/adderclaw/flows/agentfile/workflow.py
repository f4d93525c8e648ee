"""The records of a parsed Agentfile, and its problems."""

from dataclasses import replace
from typing import Literal, NamedTuple

from adderclaw.core.errors import UsageError
from adderclaw.core.record import record

type Review = Literal["reviewer", "operator", "nobody"]
"""Who reviews a goal's result before the next goal begins: another model call, the operator, or nobody."""


type Mode = Literal["default", "paranoid", "research"]
SECURITY: tuple[Mode, ...] = ("default", "paranoid", "research")
STRICTNESS: dict[Review | None, int] = {None: 0, "nobody": 0, "reviewer": 1, "operator": 2}


@record
class Security:
    """How strict a file asks its run to be."""

    mode: Mode = "default"
    scope: str = ""
    """What the author of a `research` file says is allowed. It grants nothing."""
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
    """The description of the persona; empty until loaded if it is FROM a file."""
    requires: str | None
    line: int
    outputs: tuple[str, ...] = ()
    """Names that its result must give values for. They are part of the result, not variables."""


@record
class Goal:
    name: str
    path: str | None
    outcome: str
    """What to reach; empty until loaded if it is FROM a file."""
    outputs: tuple[str, ...]
    """Names that the result must give values for; each becomes a variable."""
    agents: tuple[str, ...]
    review: Review | None
    line: int


@record
class Step:
    kind: Literal["RUN", "LOOP"]
    name: str
    goals: tuple[str, ...]
    limit: int | str | None
    """How many rounds a LOOP may run: a number, or the variable (`$name`) that holds it."""
    line: int
    condition: str = ""
    """When a CONVERGE ends."""
    review: Review | None = None
    """Who reviews its goals, if the step says so."""


@record
class Workflow:
    file: str
    name: str
    inputs: tuple[Input, ...]
    agents: tuple[Persona, ...]
    goals: tuple[Goal, ...]
    steps: tuple[Step, ...]
    review: Review = "nobody"
    """Who reviews a goal if neither the goal nor its step says so."""
    version: str = ""
    security: Security = Security()

    def goal(self, name: str) -> Goal:
        return next(goal for goal in self.goals if goal.name == name)

    def agent(self, name: str) -> Persona:
        return next(agent for agent in self.agents if agent.name == name)

    def goal_for_session(self, goal: Goal, agent: str = "") -> Goal:
        """Returns the goal with the outputs that one session owes; the synthesis owes those of a shared goal."""
        own = goal.outputs if len(goal.agents) < 2 else ()
        more = self.agent(agent).outputs if agent else ()
        return replace(goal, outputs=tuple(dict.fromkeys((*own, *more))))

    def reviewer_of(self, goal: Goal, step: Step | None = None) -> Review:
        """Returns the stricter reviewer of goal and step, or else the default of the file."""
        own, by_step = goal.review, step.review if step is not None else None
        return (
            max(own, by_step, key=lambda review: STRICTNESS[review])
            if own and by_step
            else own or by_step or self.review
        )


MAX_SOURCE = 160
"""How many characters of a line are shown with its problem."""
MAX_PROBLEMS = 100
"""How many problems are shown."""


class Problem(NamedTuple):
    """A problem and its position."""

    line: int
    column: int
    message: str
    source: str = ""
    """The line of the file."""

    def format(self, file: str) -> str:
        at = f"{file}:{self.line}:{self.column}: {self.message}"
        if not self.source.strip():
            return at
        first = max(self.column - 1 - MAX_SOURCE // 2, 0) if len(self.source) > MAX_SOURCE else 0
        source = self.source[first : first + MAX_SOURCE]
        blank = "".join("\t" if letter == "\t" else " " for letter in source[: self.column - 1 - first])
        return f"{at}\n  {source}\n  {blank}^"


class InvalidAgentfile(UsageError):
    """The workflow cannot run; the message lists all problems."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.file, self.problems = file, sorted(problems)
        count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        rows = [problem.format(file) for problem in self.problems[:MAX_PROBLEMS]]
        if len(problems) > MAX_PROBLEMS:  # the search stopped early, so their number is unknown
            count, rows = f"over {MAX_PROBLEMS} problems", [*rows, "… and more"]
        super().__init__(f"{file} is not a valid Agentfile ({count})\n" + "\n".join(rows))
