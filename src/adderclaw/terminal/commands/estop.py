"""`adderclaw estop`: the emergency stop."""

import os
import sys
import time
from contextlib import suppress
from typing import Annotated

import typer

from adderclaw import config
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError
from adderclaw.terminal.commands.common import OutputFormat
from adderclaw.terminal.output import print_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def estop(
    clear: Annotated[bool, typer.Option("--clear", help="Clear the stop.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Show whether the stop is set; change nothing.")] = False,
    output_format: OutputFormat = "text",
) -> None:
    """Stop every tool now, until the stop is cleared.

    Running tools are killed within a second, active runs end as stopped, and the stop survives restarts.

    Example: adderclaw estop
    """
    path = os.path.join(config.home(), home_names.ESTOP)
    try:
        if clear:
            with suppress(FileNotFoundError):
                os.unlink(path)
        elif not status:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"stopped at {stamp} by pid {os.getpid()}\n")
    except OSError as error:
        raise AdderClawError(f"{path}: {error.strerror}; create or remove this file by hand") from error
    set_now = not clear and not status
    stopped = os.path.lexists(path)
    if output_format == "json":
        print_json({"stopped": stopped, "path": path})
    elif stopped:
        print(f"stopped: {path} is there, no tool runs. `adderclaw estop --clear` lifts it.")
    else:
        print("not stopped: tools may run.")
    if set_now:
        from adderclaw.agent.queries.notices import stopped as reported

        sys.stdout.flush()
        reported()
