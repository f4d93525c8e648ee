"""Parses the input texts of a SOP as the types that it declares."""

from collections.abc import Mapping

from adderclaw.core.errors import UsageError
from adderclaw.core.suggestions import did_you_mean
from adderclaw.flows.sop.parse import has_type
from adderclaw.flows.sop.sop import Input, Sop

MAX_VALUE = 1 << 20
BOOLEANS = {"true": True, "false": False}

type Value = str | int | float | bool


class _InvalidValue(Exception):
    pass


def bind_inputs(sop: Sop, texts: Mapping[str, str]) -> dict[str, Value]:
    """Returns the values by name, with defaults; reports all missing, unknown and invalid inputs at once."""
    known = {input_.name: input_ for input_ in sop.inputs}
    wrong = [
        f"there is no input {name[:80]!r} (inputs: {_names(sop)}){did_you_mean(name, known)}"
        for name in texts
        if name not in known
    ]
    values: dict[str, Value] = {}
    for input_ in sop.inputs:
        if input_.name in texts:
            try:
                values[input_.name] = _parse_value(input_, texts[input_.name])
            except _InvalidValue as unfit:
                wrong.append(f"the input {input_.name!r}: {unfit}")
        elif input_.default is not None:
            values[input_.name] = input_.default
        else:
            wrong.append(f"the input {input_.name!r} is missing: give it with --input {input_.name}=VALUE")
    if wrong:
        raise UsageError(f"{sop.name}: " + "; ".join(wrong))
    return values


def _names(sop: Sop) -> str:
    return ", ".join(input_.name for input_ in sop.inputs) or "none"


def _parse_value(input_: Input, text: str) -> Value:
    if len(text) > MAX_VALUE:
        raise _InvalidValue(f"it is larger than {MAX_VALUE:,} characters")
    if input_.choices and text not in input_.choices:
        raise _InvalidValue(f"{text[:80]!r} is not one of {', '.join(input_.choices)}")
    value: Value = text
    try:
        match input_.type:
            case "integer":
                value = int(text)
            case "number":
                value = float(text)
            case "boolean":
                value = BOOLEANS[text]
            case _:
                pass
    except (ValueError, KeyError):
        value = text
    if not has_type(value, input_.type):
        takes = "true or false" if input_.type == "boolean" else f"a value of the type {input_.type}"
        raise _InvalidValue(f"it takes {takes}, not {text[:80]!r}")
    return value
