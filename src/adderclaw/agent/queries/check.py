"""One finding of `doctor`."""

from typing import Literal, NamedTuple


class Check(NamedTuple):
    name: str
    state: Literal["ok", "warning", "broken"]
    detail: str
    fix: str = ""
