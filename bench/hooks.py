"""What one hook costs beside its own process: `true` as a hook against `bash -lc true` alone, in turn, as a ratio."""

import asyncio
import json
import os
import subprocess
import sys
from statistics import median
from time import perf_counter

from adderclaw.agent.tool_call.session_hooks import kinds
from adderclaw.storage.hooks import Invocation
from adderclaw.tools.hooks import plane
from adderclaw.tools.hooks.scripts import HookWorkspace
from adderclaw.tools.hooks.settings import Hook

ROUNDS = 40


def bare() -> float:
    began = perf_counter()
    subprocess.run(["/bin/bash", "-lc", "true"], input=b"{}\n", capture_output=True, check=True, start_new_session=True)
    return perf_counter() - began


async def hooked(place: plane.HookChain) -> float:
    began = perf_counter()
    fields = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t"}
    merged = await plane.run_hooks((Hook(0, "PreToolUse", command="true", seconds=60.0),), "PreToolUse", fields, place)
    assert merged.ran == 1
    return perf_counter() - began


async def main() -> None:
    rows: list[Invocation] = []
    base = {"session_id": "s", "conversation_id": "c", "runtime_db_path": "/db", "cwd": os.getcwd()}
    run = kinds({"AGENT_SDLC_DB": "/db"}, HookWorkspace(roots=(os.getcwd(),)))
    place = plane.HookChain(base=base, kinds=run, time=lambda: "now", keep=rows.append)
    await hooked(place)
    pairs = [(bare(), await hooked(place)) for _ in range(ROUNDS)]
    spawn, hook = (median(pair[side] for pair in pairs) for side in (0, 1))
    print(
        json.dumps(
            {"spawn_ms": round(spawn * 1000, 2), "hook_ms": round(hook * 1000, 2), "ratio": round(hook / spawn, 2)}
        )
    )
    sys.exit(0 if hook <= 1.5 * spawn else 1)


if __name__ == "__main__":
    asyncio.run(main())
