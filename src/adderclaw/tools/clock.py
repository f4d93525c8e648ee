"""Time: the local time, UTC and the timezone."""

import os
import time as system
from typing import Any

from adderclaw.core.host import ToolContext
from adderclaw.core.record import record
from adderclaw.core.types import Alias, Clock, Tool, ToolResult, Touch, fixed_prepare, own_words
from adderclaw.tools.specs import builtin_tool

ZONES = "/zoneinfo/"


@record
class TimeArguments:
    pass


def timezone(now: float) -> str:
    """The timezone's name, if the system knows it, and its offset: `Europe/Berlin (CET, UTC+01:00)`."""
    local = system.localtime(now)
    sign, minutes = "-" if local.tm_gmtoff < 0 else "+", abs(local.tm_gmtoff) // 60
    about = f"{local.tm_zone}, UTC{sign}{minutes // 60:02}:{minutes % 60:02}"
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name:
        try:
            name = os.readlink("/etc/localtime").partition(ZONES)[2]
        except OSError:
            name = ""
    return f"{name} ({about})" if name else about


def tools(clock: Clock) -> tuple[Tool[Any], ...]:
    async def run(_arguments: TimeArguments, _ctx: ToolContext) -> ToolResult:
        now = clock.now()
        local = system.strftime("%Y-%m-%d %H:%M:%S", system.localtime(now))
        utc = system.strftime("%Y-%m-%dT%H:%M:%SZ", system.gmtime(now))
        return own_words(f"local time: {local}\nUTC: {utc}\ntimezone: {timezone(now)}", {"epoch": now})

    prepare = fixed_prepare(Touch(why="reads the clock"), run)
    return (builtin_tool("Time", TimeArguments, prepare, (Alias("time"),), deferred=True),)
