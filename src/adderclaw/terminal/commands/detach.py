"""`adderclaw run --detach`: hands a run to the server of this home, so that it outlives this terminal."""

import asyncio
import os
import sys

from adderclaw import config
from adderclaw.agent.run.driver import Driver
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.terminal.output import print_json


def run_request(driver: Driver, agentfile: str | None, resume: str | None, more: Json) -> Json:
    """The request to the server: the same run, with absolute paths."""
    opening = driver.opening
    folder = config.load(workspace=opening.options.workspace, here=True).workspace
    body: Json = {"workspace": folder, **more}
    if body["skills_dir"] is not None:
        body["skills_dir"] = os.path.abspath(os.path.expanduser(body["skills_dir"]))
    if resume is not None:
        body["resume"] = resume
    elif opening.kind == "agentfile":
        body["agentfile"] = os.path.abspath(str(agentfile))
    elif opening.kind == "sop":
        body["sop"] = os.path.abspath(str(agentfile)) if "/" in str(agentfile) else agentfile
    else:
        body[opening.kind] = opening.task
    return {name: value for name, value in body.items() if value not in (None, {})}


def hand_to_server(body: Json, output_format: str) -> None:
    """Hands the run to the server and prints its id."""
    from adderclaw.terminal.legacy.attach.link import Link

    async def handed_over() -> tuple[Json, str]:
        link = Link(None, "run --detach")
        await link.connect()
        try:
            return await link.post("/runs", body), link.address
        finally:
            await link.close()

    row, address = asyncio.run(handed_over())
    if output_format != "text":
        print_json({"run_id": row["run_id"], "conversation_id": row["conversation_id"], "address": address})
        return
    print(visible(str(row["run_id"])))
    print(f"adderclaw: it runs in the server at {visible(address)}; `adderclaw runs show` shows it", file=sys.stderr)
