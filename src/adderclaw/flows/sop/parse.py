"""SOP.toml into a Sop: every key and value looked at, every problem reported at once."""

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from adderclaw.core.record import NamedTuple
from adderclaw.core.suggestions import did_you_mean
from adderclaw.core.types import Json
from adderclaw.flows.sop import order
from adderclaw.flows.sop.places import Places
from adderclaw.flows.sop.sop import KINDS, NAME, ON_FAILURE, Condition, Input, InvalidSop, Problem, Reference, Sop, Step

MAX_BYTES = 256 * 1024
MOST_STEPS = 200
MOST_INPUTS = 50
MOST_RETRIES = 10
LONGEST = 366 * 86_400.0
"""Seconds of a time limit."""
DEPTH = 20
"""How deep the values of an argument may be nested."""
TYPES = ("string", "integer", "number", "boolean")
STATES = ("succeeded", "failed", "skipped")
"""What a condition may ask of a step: `failed` is every end but success, a denial and an unknown one, too."""

TOP = ("name", "description", "on_failure", "inputs", "steps")
COMMON = ("id", "kind", "when", "needs")
KEYS: dict[str, tuple[str, ...]] = {
    "tool": (*COMMON, "tool", "args", "on_failure", "timeout", "retries"),
    "agent": (*COMMON, "prompt", "uses", "tools", "model", "on_failure", "timeout", "retries"),
    "approval": (*COMMON, "prompt", "uses", "expires"),
}
OF_INPUT = ("type", "default", "required", "description", "choices")
OF_WHEN = ("step", "input", "is", "equals", "contains", "not")

TEMPLATE = re.compile(r"\{\{.*?\}\}|\$\{.*?\}|\{%.*?%\}", re.DOTALL)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
FROM, FROM_INPUT = "_from", "_from_input"


class Draft(NamedTuple):
    """What a file came to, and all that is wrong with it."""

    sop: Sop
    problems: list[Problem]


def parse(text: str, file: str) -> Sop:
    """Raises InvalidSop with every problem. Which tools there are is not known here."""
    sop, problems = read(text, file)
    if problems:
        raise InvalidSop(file, problems)
    return sop


def read(text: str, file: str) -> Draft:
    """Raises InvalidSop for a file that is no TOML."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(place[1]) if place else text.count("\n") + 1
        raise InvalidSop(file, [Problem(line, "", f"it is no TOML: {error}")]) from None
    except (RecursionError, ValueError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidSop(file, [Problem(0, "", f"it is no TOML: {why}")]) from None
    made = _Reader(file, text, data)
    return Draft(made.sop(), made.problems)


class _Reader:
    def __init__(self, file: str, text: str, data: Json) -> None:
        self.file, self.text, self.data = file, text, data
        rows = data.get("steps")
        self.places = Places(text, len(cast(list[object], rows)) if isinstance(rows, list) else 0)
        self.problems: list[Problem] = []
        self._step, self._at = "", 0
        """The step that is looked at: its name for a person, and its number."""

    def sop(self) -> Sop:
        data = self.data
        self._unknown(data, TOP)
        name, description = self._name(data), self._text(data, "description")
        default = self._choice(data, "on_failure", ON_FAILURE, "abort")
        inputs = self._inputs(data.get("inputs", {}))
        steps = self._steps(data.get("steps"), default)
        self._step = ""
        known = {one.name for one in inputs}
        for place, step in enumerate(steps):
            self._step, self._at = step.id, place
            self._known_inputs(step, known)
        for place, message in order.problems(steps):
            self._step, self._at = steps[place].id, place
            self._wrong(message)
        return Sop(self.file, name, description, tuple(steps), tuple(inputs), self.text)

    # -------------------------------------------------------------- the file

    def _name(self, data: Json) -> str:
        name = self._text(data, "name")
        if "name" not in data:
            self._wrong('a SOP has a name: name = "daily-check"')
        elif name and not NAME.fullmatch(name):
            self._wrong(f"name = {name[:80]!r}: {_FORM}", "name")
        return name

    def _inputs(self, given: object) -> list[Input]:
        if not isinstance(given, dict):
            self._wrong('inputs is a table: [inputs.folder] and below it type = "string"', "inputs")
            return []
        rows = cast("dict[str, object]", given)
        if len(rows) > MOST_INPUTS:
            self._wrong(f"there are {len(rows)} inputs; at most {MOST_INPUTS}")
        return [self._input(name, row) for name, row in list(rows.items())[:MOST_INPUTS]]

    def _input(self, name: str, given: object) -> Input:
        where = f"inputs.{name}"
        if not NAME.fullmatch(name):
            self._wrong(f"the input {name[:80]!r}: {_FORM}")
        if not isinstance(given, dict):
            self._wrong(f'{where} is a table, such as {{ type = "string", default = "." }}')
            return Input(name)
        row = cast(Json, given)
        self._unknown(row, OF_INPUT, f" of the input {name}")
        kind = self._choice(row, "type", TYPES, "string", where)
        default = row.get("default")
        if default is not None and not fits(default, kind):
            self._wrong(f"{where}: default = {default!r} is no {kind}")
            default = None
        if isinstance(default, str):
            self._no_template(default, f"{where}: default")
        choices = self._texts(row, "choices", where) or ()
        if choices and isinstance(default, str) and default not in choices:
            self._wrong(f"{where}: default = {default!r} is not one of its choices ({', '.join(choices)})")
        required = row.get("required", default is None)
        if not isinstance(required, bool):
            self._wrong(f"{where}: required is true or false")
        elif required == (default is not None):
            fix = "leave one of the two out" if required else "give it a default"
            self._wrong(f"{where}: an input is required or has a default; {fix}")
        return Input(name, cast(Any, kind), cast(Any, default), self._text(row, "description", where), tuple(choices))

    # -------------------------------------------------------------- steps

    def _steps(self, given: object, default: str) -> list[Step]:
        if not isinstance(given, list) or not given:
            self._wrong("a SOP has steps: each begins with [[steps]] and has an id and a kind", "steps")
            return []
        rows = cast("list[object]", given)
        if len(rows) > MOST_STEPS:
            self._wrong(f"there are {len(rows)} steps; at most {MOST_STEPS}")
        made: list[Step] = []
        first: dict[str, int] = {}
        for place, row in enumerate(rows[:MOST_STEPS]):
            self._step, self._at = str(place + 1), place
            if not isinstance(row, dict):
                self._wrong("a step is a table: [[steps]]")
                continue
            step = self._one(cast(Json, row), place, default)
            if step.id in first:
                line = self.places.of(first[step.id])
                self._wrong(
                    f"this id is used twice, first {f'in line {line}' if line else f'by step {first[step.id] + 1}'}",
                    "id",
                )
            elif step.id:
                first[step.id] = place
            made.append(step)
        self._step = ""
        return made

    def _one(self, row: Json, place: int, default: str) -> Step:
        id = self._text(row, "id")
        if isinstance(row.get("id"), str) and NAME.fullmatch(id):
            self._step = id
        elif "id" not in row:
            self._wrong('it has no id: id = "list"')
        elif id:
            self._wrong(f"id = {id[:80]!r}: {_FORM}", "id")
        kind = self._choice(row, "kind", KINDS, "")
        if "kind" not in row:
            self._wrong(f'it has no kind: kind = "tool" ({", ".join(KINDS)})')
        if kind:
            self._of_another(row, kind)
        self._unknown(row, [key for keys in KEYS.values() for key in keys], " of a step")
        args, references = self._args(row) if kind == "tool" else (None, ())
        return Step(
            id=id if NAME.fullmatch(id) else "",
            kind=cast(Any, kind or "tool"),
            line=self.places.of(place),
            tool=self._tool(row) if kind == "tool" else "",
            args=args,
            references=references,
            prompt=self._prompt(row) if kind in ("agent", "approval") else "",
            on_failure=cast(
                Any, self._choice(row, "on_failure", ON_FAILURE, default) if kind != "approval" else "abort"
            ),
            when=self._conditions(row),
            needs=tuple(self._texts(row, "needs") or ()),
            uses=self._optional(row, "uses"),
            tools=self._optional(row, "tools"),
            model=self._text(row, "model"),
            timeout=self._duration(row, "timeout"),
            retries=self._retries(row),
            expires=self._duration(row, "expires"),
        )

    def _of_another(self, row: Json, kind: str) -> None:
        """A key that only another kind of step has."""
        for key in row:
            if key in KEYS[kind]:
                continue
            whose = [other for other, keys in KEYS.items() if key in keys]
            if key == "on_failure":
                self._wrong("an approval that is denied ends the run: leave on_failure out", key)
            elif whose:
                self._wrong(f"{key} is for a step of the kind {' or '.join(whose)}, and this one is {kind}", key)

    def _tool(self, row: Json) -> str:
        name = self._text(row, "tool")
        if not name:
            self._wrong('a step of the kind tool names its tool: tool = "file_list"')
        return name

    def _prompt(self, row: Json) -> str:
        prompt = self._text(row, "prompt")
        if not prompt.strip():
            self._wrong(f"a step of the kind {row.get('kind')} has a prompt")
        self._no_template(prompt, "prompt", "prompt")
        return prompt

    def _args(self, row: Json) -> tuple[Json, tuple[Reference, ...]]:
        given = row.get("args", {})
        if not isinstance(given, dict):
            self._wrong('args is a table: args = { path = "." }', "args")
            return {}, ()
        plain: Json = {}
        references: list[Reference] = []
        for key, value in cast(Json, given).items():
            is_input = key.endswith(FROM_INPUT)
            name = key.removesuffix(FROM_INPUT if is_input else FROM)
            if name == key or not name:
                if self._is_json(value, f"args.{key}"):
                    plain[key] = value
            elif not isinstance(value, str) or not NAME.fullmatch(value):
                self._wrong(f"args.{key} names {'an input' if is_input else 'an earlier step by its id'}", key)
            else:
                references.append(Reference(name, value, is_input))
        named = [one.argument for one in references]
        for name in sorted({name for name in named if name in plain or named.count(name) > 1}):
            self._wrong(f"args: {name} is given twice", "args")
        return plain, tuple(references)

    def _is_json(self, value: object, where: str, depth: int = 0) -> bool:
        """Whether a value can be an argument: what JSON has, without templates."""
        if depth > DEPTH:
            self._wrong(f"{where} is nested more than {DEPTH} deep", "args")
            return False
        match value:
            case str():
                return self._no_template(value, where, "args")
            case bool():
                return True
            case int() | float():
                if math.isfinite(value) and abs(value) < 2**53:
                    return True
                self._wrong(f"{where} = {value!r:.40} is no number that JSON has", "args")
                return False
            case list():
                rows = cast("list[object]", value)
                unfit = [
                    place for place, one in enumerate(rows) if not self._is_json(one, f"{where}[{place}]", depth + 1)
                ]
                return not unfit
            case dict():
                table = cast(Json, value)
                return not [key for key, one in table.items() if not self._is_json(one, f"{where}.{key}", depth + 1)]
            case _:
                self._wrong(f"{where}: a {type(value).__name__} is no value of an argument; write it as a text", "args")
                return False

    def _conditions(self, row: Json) -> tuple[Condition, ...]:
        given = row.get("when", [])
        tables = cast("list[object]", given) if isinstance(given, list) else [given]
        made = [self._condition(one) for one in tables]
        return tuple(one for one in made if one is not None)

    def _condition(self, given: object) -> Condition | None:
        form = 'when = { step = "list", is = "succeeded" }, or equals = or contains = in place of is'
        if not isinstance(given, dict):
            self._wrong(f"when is a table, not an expression: {form}", "when")
            return None
        row = cast(Json, given)
        self._unknown(row, OF_WHEN, " of when")
        sources = [key for key in ("step", "input") if key in row]
        tests = [key for key in ("is", "equals", "contains") if key in row]
        if len(sources) != 1 or len(tests) != 1 or (sources == ["input"] and tests == ["is"]):
            self._wrong(f"when names one step or input and one test: {form}", "when")
            return None
        source, value, negated = row[sources[0]], row[tests[0]], row.get("not", False)
        if not isinstance(source, str) or not isinstance(value, str) or not isinstance(negated, bool):
            self._wrong(f"when: its values are texts, and not is true or false: {form}", "when")
            return None
        if tests == ["is"] and value not in STATES:
            self._wrong(f"when: is = {value[:80]!r}: it is one of {', '.join(STATES)}", "when")
            return None
        self._no_template(value, f"when.{tests[0]}", "when")
        return Condition(source, sources == ["input"], cast(Any, tests[0]), value, negated)

    def _known_inputs(self, step: Step, known: set[str]) -> None:
        used = [(f"args.{one.argument}{FROM_INPUT}", one.source) for one in step.references if one.is_input]
        used += [("when.input", one.source) for one in step.when if one.is_input]
        for where, name in used:
            if name not in known:
                there = ", ".join(sorted(known)) or "none"
                self._wrong(f"{where}: there is no input {name[:80]!r} (inputs: {there}){did_you_mean(name, known)}")

    # -------------------------------------------------------------- values

    def _retries(self, row: Json) -> int:
        given = row.get("retries", 0)
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MOST_RETRIES:
            self._wrong(f"retries is a whole number from 0 to {MOST_RETRIES}", "retries")
            return 0
        return given

    def _duration(self, row: Json, key: str) -> float | None:
        given = row.get(key)
        if given is None:
            return None
        seconds = 0.0
        if isinstance(given, str) and (found := _DURATION.fullmatch(given.strip())):
            seconds = float(found[1]) * _SECONDS[found[2]]
        elif isinstance(given, int | float) and not isinstance(given, bool):
            seconds = float(given)
        if not 0 < seconds <= LONGEST:
            self._wrong(f'{key} = {given!r:.40}: write seconds, or "90s", "10m", "2h", "3d"', key)
            return None
        return seconds

    def _choice(self, row: Json, key: str, known: Sequence[str], default: str, where: str = "") -> str:
        given = row.get(key, default)
        if given in known or key not in row:
            return str(given)
        hint = did_you_mean(given, known) if isinstance(given, str) else ""
        prefix = f"{where}: " if where else ""
        self._wrong(f"{prefix}{key} = {given!r:.80}: it is one of {', '.join(known)}{hint}", key)
        return default

    def _text(self, row: Json, key: str, where: str = "") -> str:
        given = row.get(key, "")
        if isinstance(given, str):
            return given
        self._wrong(f"{f'{where}: ' if where else ''}{key} is a text, not {given!r:.60}", key)
        return ""

    def _optional(self, row: Json, key: str) -> tuple[str, ...] | None:
        found = self._texts(row, key)
        return None if found is None else tuple(found)

    def _texts(self, row: Json, key: str, where: str = "") -> list[str] | None:
        given = row.get(key)
        if given is None:
            return None
        if isinstance(given, list) and all(isinstance(one, str) for one in cast("list[object]", given)):
            return cast("list[str]", given)
        self._wrong(f"{f'{where}: ' if where else ''}{key} is a list of texts", key)
        return []

    def _unknown(self, row: Mapping[str, object], known: Iterable[str], of: str = "") -> None:
        names = list(dict.fromkeys(known))
        for key in row:
            if key not in names:
                self._wrong(f"there is no key {key[:80]!r}{of}{did_you_mean(key, names)}", key)

    def _no_template(self, text: str, where: str, key: str = "") -> bool:
        found = TEMPLATE.search(text)
        if found is None:
            return True
        fix = f"nothing is filled into texts; write NAME{FROM} = STEP or NAME{FROM_INPUT} = INPUT for an argument"
        if where.endswith("prompt"):
            fix = "nothing is filled into texts; an agent and an approver are shown the inputs and the outputs of steps"
        if found[0].startswith("${"):
            fix += ", and a variable of the shell is written $NAME"
        self._wrong(f"{where} has a template, {found[0][:60]!r}: {fix}", key)
        return False

    def _wrong(self, message: str, key: str = "") -> None:
        line = self.places.of(self._at, key) if self._step else self.places.top(key)
        self.problems.append(Problem(line, self._step, message))


_FORM = "letters, digits, - and _, beginning with a letter or a digit, at most 64"


def fits(value: object, kind: str) -> bool:
    """Whether a value is of an input's type."""
    match kind:
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        case "boolean":
            return isinstance(value, bool)
        case _:
            return isinstance(value, str)
