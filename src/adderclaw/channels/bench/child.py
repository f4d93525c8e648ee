"""The process of one attempt: opens and drives one message as `agent -m` does, and prints how it ended."""

import asyncio
import json
import os
import signal
import sys
import threading
from dataclasses import replace

from adderclaw.channels.bench.catalogue import FOLDER
from adderclaw.config import Loaded
from adderclaw.config.options import Options
from adderclaw.drivers.driver import MessageDriver
from adderclaw.errors import EXIT_CODES, AdderClawError, outcome_of
from adderclaw.kernel.approvals import Nobody
from adderclaw.kernel.session import TurnResult
from adderclaw.runtime import Run, opened, start
from adderclaw.runtime.drive import checked, drive
from adderclaw.runtime.signals import until_signal
from adderclaw.tool_traits import EDIT, READ
from adderclaw.types import Json


def main() -> None:
    order: Json = json.loads(sys.stdin.readline())
    threading.Thread(target=_with_parent, daemon=True).start()
    try:
        report = _driven(order)
    except AdderClawError as error:
        outcome = outcome_of(error)
        report: Json = {"outcome": outcome, "reason": str(error), "exit_code": EXIT_CODES[outcome]}
    print(json.dumps(report), flush=True)


def _with_parent() -> None:
    """Whoever ordered the attempt holds our stdin open: without them it ends as by a signal."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _driven(order: Json) -> Json:
    options = Options(
        config_file=order["config"],
        workspace=order["workspace"],
        provider=order["provider"],
        model=order["model"],
        profile="sandboxed",
        asks="must",
        amend=_unseen,
        overrides={"limits": order["limits"], "runtime": {"max_tool_rounds": order["rounds"]}},
    )
    driver = MessageDriver(options, order["text"])
    runtime = start(options)
    with opened(runtime, Nobody(waits=False), kind="agent", channel="bench") as run:
        return asyncio.run(_finished(run, driver))


def _unseen(loaded: Loaded) -> Loaded:
    """No tool and no command reads the tasks and their checks, wherever this program is installed."""
    permissions = loaded.config.permissions
    rules = [f"{tool}(/{FOLDER}{end})" for tool in (READ, EDIT) for end in ("", "/**")]
    permissions = replace(permissions, deny=[*permissions.deny, *rules])
    return loaded._replace(config=replace(loaded.config, permissions=permissions))


async def _finished(run: Run, driver: MessageDriver) -> Json:
    async def worked() -> TurnResult:
        return checked(run, await until_signal(run, driver.run(run.session)))

    report = await drive(run, worked())
    more = {"tokens": run.session.budget.usage.total, "ended_by": report.result.ended_by}
    return {**report.as_json(), "exit_code": report.exit_code, **more}


if __name__ == "__main__":
    main()
