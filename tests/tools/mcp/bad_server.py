"""A server that behaves badly, without any library, as its one argument says."""

import json
import sys
import time
from typing import Any

KIND = sys.argv[1]
LIE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    match request["method"]:
        case "initialize":
            info = {"name": "bad", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            many = 10_000 if KIND == "many" else 1
            schema = {"type": "object"}
            return {"tools": [{"name": f"t{n}", "inputSchema": schema, "outputSchema": LIE} for n in range(many)]}
        case "tools/call":
            if KIND == "hangs":
                time.sleep(60)
            return {"content": [{"type": "text", "text": "x"}], "structuredContent": {"n": "no number"}}
        case _:
            return {}


if KIND == "crashes":
    sys.exit("it cannot start today")
if KIND == "silent":
    time.sleep(60)
for line in sys.stdin:
    message = json.loads(line)
    if KIND == "babbles":
        print("y" * 100 + "\n" + "{broken" + "\n" + "[1, 2]", flush=True)
    if "id" in message and "method" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}), flush=True)
