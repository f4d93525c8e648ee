"""The inputs of a SOP: what is given as text becomes what each of them is declared as."""

from collections.abc import Mapping

from adderclaw.core.errors import UsageError
from adderclaw.core.suggestions import did_you_mean
from adderclaw.flows.sop.parse import fits
from adderclaw.flows.sop.sop import Input, Sop

MAX_VALUE = 1 << 20
BOOLEANS = {"true": True, "false": False}

type Value = str | int | float | bool


class _Unfit(Exception):
    pass


def bound(sop: Sop, given: Mapping[str, str]) -> dict[str, Value]:
    """Name → value, defaults included; what is missing, unknown or unfit is reported at once."""
    known = {one.name: one for one in sop.inputs}
    wrong = [
        f"there is no input {name[:80]!r} (inputs: {_names(sop)}){did_you_mean(name, known)}"
        for name in given
        if name not in known
    ]
    values: dict[str, Value] = {}
    for one in sop.inputs:
        if one.name in given:
            try:
                values[one.name] = _value(one, given[one.name])
            except _Unfit as unfit:
                wrong.append(f"the input {one.name!r}: {unfit}")
        elif one.default is not None:
            values[one.name] = one.default
        else:
            wrong.append(f"the input {one.name!r} is missing: give it with --input {one.name}=VALUE")
    if wrong:
        raise UsageError(f"{sop.name}: " + "; ".join(wrong))
    return values


def _names(sop: Sop) -> str:
    return ", ".join(one.name for one in sop.inputs) or "none"


def _value(one: Input, text: str) -> Value:
    if len(text) > MAX_VALUE:
        raise _Unfit(f"it is larger than {MAX_VALUE:,} characters")
    if one.choices and text not in one.choices:
        raise _Unfit(f"{text[:80]!r} is not one of {', '.join(one.choices)}")
    made: Value = text
    try:
        match one.type:
            case "integer":
                made = int(text)
            case "number":
                made = float(text)
            case "boolean":
                made = BOOLEANS[text]
            case _:
                pass
    except (ValueError, KeyError):
        made = text
    if not fits(made, one.type):
        takes = "true or false" if one.type == "boolean" else f"a value of the type {one.type}"
        raise _Unfit(f"it takes {takes}, not {text[:80]!r}")
    return made
