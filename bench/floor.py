"""The floor: an agent of the standard library alone, with no memory, no policy and no record of what it did."""

import json
import subprocess
import sys
from http.client import HTTPConnection
from typing import Any

TOOL = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Runs a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


def ask(connection: HTTPConnection, messages: list[dict[str, Any]]) -> dict[str, Any]:
    body = json.dumps({"model": "scripted", "tools": [TOOL], "messages": messages})
    connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
    return json.loads(connection.getresponse().read())["choices"][0]["message"]


def run(call: dict[str, Any]) -> dict[str, Any]:
    command = json.loads(call["function"]["arguments"])["command"]
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    return {"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr}


def main(port: int, task: str) -> None:
    connection = HTTPConnection("127.0.0.1", port)
    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    while calls := (reply := ask(connection, messages)).get("tool_calls"):
        messages += [reply, *map(run, calls)]
    print(reply["content"])


main(int(sys.argv[1]), sys.argv[2])
