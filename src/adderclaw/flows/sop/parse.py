"""Parses SOP.toml, checks every key and value, and reports all problems at once."""

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from adderclaw.core.record import NamedTuple
from adderclaw.core.suggestions import did_you_mean
from adderclaw.core.types import Json
from adderclaw.flows.sop.sop import KINDS, NAME, ON_FAILURE, Condition, Input, InvalidSop, Problem, Reference, Sop, Step

MAX_BYTES = 256 * 1024
MAX_STEPS = 200
MAX_INPUTS = 50
MAX_RETRIES = 10
MAX_SECONDS = 366 * 86_400.0
"""The longest time limit, in seconds."""
MAX_DEPTH = 20
"""How deeply the values of an argument may be nested."""
TYPES = ("string", "integer", "number", "boolean")
STATES = ("succeeded", "failed", "skipped")
"""The states that a condition may test; `failed` includes `denied` and `unknown`."""

TOP_KEYS = ("name", "description", "on_failure", "inputs", "steps")
COMMON_STEP_KEYS = ("id", "kind", "when", "needs")
STEP_KEYS: dict[str, tuple[str, ...]] = {
    "tool": (*COMMON_STEP_KEYS, "tool", "args", "on_failure", "timeout", "retries"),
    "agent": (*COMMON_STEP_KEYS, "prompt", "uses", "tools", "model", "on_failure", "timeout", "retries"),
    "approval": (*COMMON_STEP_KEYS, "prompt", "uses", "expires"),
}
INPUT_KEYS = ("type", "default", "required", "description", "choices")
WHEN_KEYS = ("step", "input", "is", "equals", "contains", "not")

TEMPLATE = re.compile(r"\{\{.*?\}\}|\$\{.*?\}|\{%.*?%\}", re.DOTALL)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
FROM, FROM_INPUT = "_from", "_from_input"


class Draft(NamedTuple):
    """A SOP as far as it could be parsed, and the problems of its file."""

    sop: Sop
    problems: list[Problem]


def parse(text: str, file: str) -> Sop:
    """Parses a SOP without checking that its tools exist; raises InvalidSop with all problems."""
    sop, problems = read_draft(text, file)
    if problems:
        raise InvalidSop(file, problems)
    return sop


def read_draft(text: str, file: str) -> Draft:
    """Parses as much of a SOP as possible; raises InvalidSop if the file is not TOML."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        position = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(position[1]) if position else text.count("\n") + 1
        raise InvalidSop(file, [Problem(line, "", f"it is not valid TOML: {error}")]) from None
    except (RecursionError, ValueError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidSop(file, [Problem(0, "", f"it is not valid TOML: {why}")]) from None
    reader = _Reader(file, text, data)
    return Draft(reader.sop(), reader.problems)


class _Reader:
    def __init__(self, file: str, text: str, data: Json) -> None:
        self.file, self.text, self.data = file, text, data
        rows = data.get("steps")
        self.places = SourceLines(text, len(cast(list[object], rows)) if isinstance(rows, list) else 0)
        self.problems: list[Problem] = []
        self._step, self._step_index = "", 0
        """The step being parsed: its name in messages, and its index."""

    def sop(self) -> Sop:
        data = self.data
        self._unknown_keys(data, TOP_KEYS)
        name, description = self._name(data), self._text(data, "description")
        default = self._choice(data, "on_failure", ON_FAILURE, "abort")
        inputs = self._inputs(data.get("inputs", {}))
        steps = self._steps(data.get("steps"), default)
        self._step = ""
        known = {input_.name for input_ in inputs}
        for index, step in enumerate(steps):
            self._step, self._step_index = step.id, index
            self._check_inputs(step, known)
        for index, message in order_problems(steps):
            self._step, self._step_index = steps[index].id, index
            self._report(message)
        return Sop(self.file, name, description, tuple(steps), tuple(inputs), self.text)

    # -------------------------------------------------------------- the file

    def _name(self, data: Json) -> str:
        name = self._text(data, "name")
        if "name" not in data:
            self._report('the SOP has no name; add one, such as name = "daily-check"')
        elif name and not NAME.fullmatch(name):
            self._report(f"name = {name[:80]!r}: {_NAME_FORM}", "name")
        return name

    def _inputs(self, tables: object) -> list[Input]:
        if not isinstance(tables, dict):
            self._report('inputs must be a table, such as [inputs.folder] followed by type = "string"', "inputs")
            return []
        rows = cast("dict[str, object]", tables)
        if len(rows) > MAX_INPUTS:
            self._report(f"there are {len(rows)} inputs; at most {MAX_INPUTS}")
        return [self._input(name, row) for name, row in list(rows.items())[:MAX_INPUTS]]

    def _input(self, name: str, table: object) -> Input:
        where = f"inputs.{name}"
        if not NAME.fullmatch(name):
            self._report(f"the input {name[:80]!r}: {_NAME_FORM}")
        if not isinstance(table, dict):
            self._report(f'{where} must be a table, such as {{ type = "string", default = "." }}')
            return Input(name)
        row = cast(Json, table)
        self._unknown_keys(row, INPUT_KEYS, f" of the input {name}")
        kind = self._choice(row, "type", TYPES, "string", where)
        default = row.get("default")
        if default is not None and not has_type(default, kind):
            self._report(f"{where}: default = {default!r} is not of the type {kind}")
            default = None
        if isinstance(default, str):
            self._has_no_template(default, f"{where}: default")
        choices = self._texts(row, "choices", where) or ()
        if choices and isinstance(default, str) and default not in choices:
            self._report(f"{where}: default = {default!r} is not one of its choices ({', '.join(choices)})")
        required = row.get("required", default is None)
        if not isinstance(required, bool):
            self._report(f"{where}: required must be true or false")
        elif required == (default is not None):
            fix = "remove one of the two" if required else "add a default"
            self._report(f"{where}: an input is either required or has a default; {fix}")
        return Input(name, cast(Any, kind), cast(Any, default), self._text(row, "description", where), tuple(choices))

    # -------------------------------------------------------------- steps

    def _steps(self, tables: object, default: str) -> list[Step]:
        if not isinstance(tables, list) or not tables:
            self._report("the SOP has no steps; begin each with [[steps]], and give it an id and a kind", "steps")
            return []
        rows = cast("list[object]", tables)
        if len(rows) > MAX_STEPS:
            self._report(f"there are {len(rows)} steps; at most {MAX_STEPS}")
        steps: list[Step] = []
        first: dict[str, int] = {}
        for index, row in enumerate(rows[:MAX_STEPS]):
            self._step, self._step_index = str(index + 1), index
            if not isinstance(row, dict):
                self._report("a step must be a table that begins with [[steps]]")
                continue
            step = self._step_of(cast(Json, row), index, default)
            if step.id in first:
                line = self.places.step_line(first[step.id])
                self._report(
                    f"this id is used twice, first {f'in line {line}' if line else f'by step {first[step.id] + 1}'}",
                    "id",
                )
            elif step.id:
                first[step.id] = index
            steps.append(step)
        self._step = ""
        return steps

    def _step_of(self, row: Json, index: int, default: str) -> Step:
        id = self._text(row, "id")
        if isinstance(row.get("id"), str) and NAME.fullmatch(id):
            self._step = id
        elif "id" not in row:
            self._report('it has no id; add one, such as id = "list"')
        elif id:
            self._report(f"id = {id[:80]!r}: {_NAME_FORM}", "id")
        kind = self._choice(row, "kind", KINDS, "")
        if "kind" not in row:
            self._report(f'it has no kind; add one, such as kind = "tool" (kinds: {", ".join(KINDS)})')
        if kind:
            self._foreign_keys(row, kind)
        self._unknown_keys(row, [key for keys in STEP_KEYS.values() for key in keys], " of a step")
        args, references = self._args(row) if kind == "tool" else (None, ())
        return Step(
            id=id if NAME.fullmatch(id) else "",
            kind=cast(Any, kind or "tool"),
            line=self.places.step_line(index),
            tool=self._tool(row) if kind == "tool" else "",
            args=args,
            references=references,
            prompt=self._prompt(row) if kind in ("agent", "approval") else "",
            on_failure=cast(
                Any, self._choice(row, "on_failure", ON_FAILURE, default) if kind != "approval" else "abort"
            ),
            when=self._conditions(row),
            needs=tuple(self._texts(row, "needs") or ()),
            uses=self._optional_texts(row, "uses"),
            tools=self._optional_texts(row, "tools"),
            model=self._text(row, "model"),
            timeout=self._duration(row, "timeout"),
            retries=self._retries(row),
            expires=self._duration(row, "expires"),
        )

    def _foreign_keys(self, row: Json, kind: str) -> None:
        """Reports keys that only other kinds of steps have."""
        for key in row:
            if key in STEP_KEYS[kind]:
                continue
            whose = [other for other, keys in STEP_KEYS.items() if key in keys]
            if key == "on_failure":
                self._report("an approval cannot have on_failure, since a denial always ends the run; remove it", key)
            elif whose:
                self._report(f"{key} is only for steps of the kind {' or '.join(whose)}; this one is {kind}", key)

    def _tool(self, row: Json) -> str:
        name = self._text(row, "tool")
        if not name:
            self._report('a step of the kind tool needs a tool, such as tool = "file_list"')
        return name

    def _prompt(self, row: Json) -> str:
        prompt = self._text(row, "prompt")
        if not prompt.strip():
            self._report(f"a step of the kind {row.get('kind')} needs a prompt")
        self._has_no_template(prompt, "prompt", "prompt")
        return prompt

    def _args(self, row: Json) -> tuple[Json, tuple[Reference, ...]]:
        args = row.get("args", {})
        if not isinstance(args, dict):
            self._report('args must be a table, such as args = { path = "." }', "args")
            return {}, ()
        plain: Json = {}
        references: list[Reference] = []
        for key, value in cast(Json, args).items():
            is_input = key.endswith(FROM_INPUT)
            name = key.removesuffix(FROM_INPUT if is_input else FROM)
            if name == key or not name:
                if self._is_json(value, f"args.{key}"):
                    plain[key] = value
            elif not isinstance(value, str) or not NAME.fullmatch(value):
                expected = "the name of an input" if is_input else "the id of an earlier step"
                self._report(f"args.{key} must be {expected}", key)
            else:
                references.append(Reference(name, value, is_input))
        named = [reference.argument for reference in references]
        for name in sorted({name for name in named if name in plain or named.count(name) > 1}):
            self._report(f"args: {name} is set twice", "args")
        return plain, tuple(references)

    def _is_json(self, value: object, where: str, depth: int = 0) -> bool:
        """Whether a value can be an argument: JSON without templates."""
        if depth > MAX_DEPTH:
            self._report(f"{where} is nested more than {MAX_DEPTH} levels deep", "args")
            return False
        match value:
            case str():
                return self._has_no_template(value, where, "args")
            case bool():
                return True
            case int() | float():
                if math.isfinite(value) and abs(value) < 2**53:
                    return True
                self._report(f"{where} = {value!r:.40} is not a number that JSON can represent", "args")
                return False
            case list():
                rows = cast("list[object]", value)
                unfit = [
                    index
                    for index, element in enumerate(rows)
                    if not self._is_json(element, f"{where}[{index}]", depth + 1)
                ]
                return not unfit
            case dict():
                table = cast(Json, value)
                return not [
                    key for key, element in table.items() if not self._is_json(element, f"{where}.{key}", depth + 1)
                ]
            case _:
                self._report(f"{where}: a {type(value).__name__} cannot be an argument; write it as a text", "args")
                return False

    def _conditions(self, row: Json) -> tuple[Condition, ...]:
        when = row.get("when", [])
        tables = cast("list[object]", when) if isinstance(when, list) else [when]
        conditions = [self._condition(part) for part in tables]
        return tuple(part for part in conditions if part is not None)

    def _condition(self, table: object) -> Condition | None:
        form = 'write when = { step = "list", is = "succeeded" }, or use `equals` or `contains` instead of `is`'
        if not isinstance(table, dict):
            self._report(f"when must be a table, not an expression: {form}", "when")
            return None
        row = cast(Json, table)
        self._unknown_keys(row, WHEN_KEYS, " of when")
        sources = [key for key in ("step", "input") if key in row]
        tests = [key for key in ("is", "equals", "contains") if key in row]
        if len(sources) != 1 or len(tests) != 1 or (sources == ["input"] and tests == ["is"]):
            self._report(f"when needs one step or input, and one test: {form}", "when")
            return None
        source, value, negated = row[sources[0]], row[tests[0]], row.get("not", False)
        if not isinstance(source, str) or not isinstance(value, str) or not isinstance(negated, bool):
            self._report(f"when: the values must be texts, and `not` must be true or false: {form}", "when")
            return None
        if tests == ["is"] and value not in STATES:
            self._report(f"when: is = {value[:80]!r}: it must be one of {', '.join(STATES)}", "when")
            return None
        self._has_no_template(value, f"when.{tests[0]}", "when")
        return Condition(source, sources == ["input"], cast(Any, tests[0]), value, negated)

    def _check_inputs(self, step: Step, known: set[str]) -> None:
        used = [(f"args.{use.argument}{FROM_INPUT}", use.source) for use in step.references if use.is_input]
        used += [("when.input", use.source) for use in step.when if use.is_input]
        for where, name in used:
            if name not in known:
                listed = ", ".join(sorted(known)) or "none"
                self._report(f"{where}: there is no input {name[:80]!r} (inputs: {listed}){did_you_mean(name, known)}")

    # -------------------------------------------------------------- values

    def _retries(self, row: Json) -> int:
        retries = row.get("retries", 0)
        if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= MAX_RETRIES:
            self._report(f"retries must be a whole number from 0 to {MAX_RETRIES}", "retries")
            return 0
        return retries

    def _duration(self, row: Json, key: str) -> float | None:
        duration = row.get(key)
        if duration is None:
            return None
        seconds = 0.0
        if isinstance(duration, str) and (match := _DURATION.fullmatch(duration.strip())):
            seconds = float(match[1]) * _SECONDS[match[2]]
        elif isinstance(duration, int | float) and not isinstance(duration, bool):
            seconds = float(duration)
        if not 0 < seconds <= MAX_SECONDS:
            self._report(f'{key} = {duration!r:.40}: write seconds, or "90s", "10m", "2h", "3d"', key)
            return None
        return seconds

    def _choice(self, row: Json, key: str, known: Sequence[str], default: str, where: str = "") -> str:
        choice = row.get(key, default)
        if choice in known or key not in row:
            return str(choice)
        hint = did_you_mean(choice, known) if isinstance(choice, str) else ""
        prefix = f"{where}: " if where else ""
        self._report(f"{prefix}{key} = {choice!r:.80}: it must be one of {', '.join(known)}{hint}", key)
        return default

    def _text(self, row: Json, key: str, where: str = "") -> str:
        text = row.get(key, "")
        if isinstance(text, str):
            return text
        self._report(f"{f'{where}: ' if where else ''}{key} must be a text, not {text!r:.60}", key)
        return ""

    def _optional_texts(self, row: Json, key: str) -> tuple[str, ...] | None:
        texts = self._texts(row, key)
        return None if texts is None else tuple(texts)

    def _texts(self, row: Json, key: str, where: str = "") -> list[str] | None:
        texts = row.get(key)
        if texts is None:
            return None
        if isinstance(texts, list) and all(isinstance(text, str) for text in cast("list[object]", texts)):
            return cast("list[str]", texts)
        self._report(f"{f'{where}: ' if where else ''}{key} must be a list of texts", key)
        return []

    def _unknown_keys(self, row: Mapping[str, object], known: Iterable[str], of: str = "") -> None:
        names = list(dict.fromkeys(known))
        for key in row:
            if key not in names:
                self._report(f"there is no key {key[:80]!r}{of}{did_you_mean(key, names)}", key)

    def _has_no_template(self, text: str, where: str, key: str = "") -> bool:
        match = TEMPLATE.search(text)
        if match is None:
            return True
        fix = f"texts are not templates; write NAME{FROM} = STEP or NAME{FROM_INPUT} = INPUT for an argument"
        if where.endswith("prompt"):
            fix = "prompts are not templates; agents and approvers see the inputs and the outputs of steps anyway"
        if match[0].startswith("${"):
            fix += ", and write $NAME for a variable of the shell"
        self._report(f"{where} has a template, {match[0][:60]!r}: {fix}", key)
        return False

    def _report(self, message: str, key: str = "") -> None:
        line = self.places.step_line(self._step_index, key) if self._step else self.places.top_line(key)
        self.problems.append(Problem(line, self._step, message))


_NAME_FORM = "use at most 64 letters, digits, - and _, beginning with a letter or a digit"


def has_type(value: object, kind: str) -> bool:
    """Whether a value has the type of an input."""
    match kind:
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        case "boolean":
            return isinstance(value, bool)
        case _:
            return isinstance(value, str)


def order_problems(steps: Sequence[Step]) -> Iterator[tuple[int, str]]:
    """Yields the step's index and a message for each reference to a missing or later step, and for each cycle."""
    indexes = {step.id: index for index, step in reversed(list(enumerate(steps))) if step.id}
    around = _cycles(steps)
    for index, step in enumerate(steps):
        for where, name in referenced_steps(step):
            target = indexes.get(name)
            if target is None:
                known = [earlier.id for earlier in steps[:index] if earlier.id]
                yield index, f"{where}: there is no step {name[:80]!r}{did_you_mean(name, known)}"
            elif target == index:
                yield index, f"{where}: a step cannot refer to itself"
            elif target > index and (cycle := around.get(step.id)):
                yield index, f"{where}: these steps wait for each other: {' → '.join(cycle)}"
            elif target > index:
                yield index, f"{where}: the step {name!r} comes later; move it before this one"
            elif where.startswith("args.") and steps[target].kind == "approval":
                yield index, f"{where}: the step {name!r} is an approval, which has no output"


def referenced_steps(step: Step) -> Iterator[tuple[str, str]]:
    """Yields each step id that a step refers to, with the key that refers to it."""
    yield from ((f"args.{source.argument}_from", source.source) for source in step.references if not source.is_input)
    yield from (("when.step", source.source) for source in step.when if not source.is_input)
    yield from (("needs", name) for name in step.needs)
    yield from (("uses", name) for name in step.uses or ())


def _cycles(steps: Sequence[Step]) -> dict[str, list[str]]:
    """Returns each step that waits for itself, with the cycle."""
    edges = {step.id: [name for _, name in referenced_steps(step)] for step in steps}
    cycles: dict[str, list[str]] = {}
    for start in edges:
        ways, seen = [[start]], {start}
        while ways and start not in cycles:
            way = ways.pop(0)
            for name in edges.get(way[-1], ()):
                if name == start and len(way) > 1:
                    cycles[start] = [*way, start]
                    break
                if name not in seen:
                    seen.add(name)
                    ways.append([*way, name])
    return cycles


_STEP = re.compile(r"^[ \t]*\[\[[ \t]*steps[ \t]*\]\]", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)
_LONG = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'', re.DOTALL)
"""Texts of several lines, whose content must not be taken for keys."""


class SourceLines:
    """Line numbers count from 1; 0 means unknown."""

    def __init__(self, text: str, steps: int) -> None:
        blank = _LONG.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text.replace("\r\n", "\n"))
        self._lines = blank.split("\n")
        starts = [blank.count("\n", 0, match.start()) + 1 for match in _STEP.finditer(blank)]
        self._starts = starts if len(starts) == steps else []

    def step_line(self, step: int, key: str = "") -> int:
        """Returns the line of a step by its index, or of a key in it."""
        if step >= len(self._starts):
            return 0
        start = self._starts[step]
        end = self._starts[step + 1] - 1 if step + 1 < len(self._starts) else len(self._lines)
        return self._key_line(key, start, end) or start

    def top_line(self, key: str) -> int:
        """Returns the line of a key before the first step or table."""
        end = next((index for index, line in enumerate(self._lines) if _TABLE.match(line)), len(self._lines))
        return self._key_line(key, 0, end)

    def _key_line(self, key: str, start: int, end: int) -> int:
        if not key:
            return 0
        pattern = re.compile(rf"(?:^|[{{,\s\[.])[\"']?{re.escape(key)}[\"']?\s*[=\].]")
        return next((index + 1 for index in range(start, end) if pattern.search(self._lines[index])), 0)
