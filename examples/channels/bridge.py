"""A bridge between a chat system and AdderClaw, with nothing but the standard library.

This one takes `SENDER: TEXT` lines from stdin, and prints what is answered. In place of stdin, read your chat system's
messages; in place of print, send to it. Run it with the secret of `adderclaw channel secret NAME`:

    BRIDGE_SECRET=whsec_… python bridge.py http://127.0.0.1:8423/channels/NAME/messages
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid


def signed(secret: str, body: bytes) -> dict[str, str]:
    """The headers of Standard Webhooks: the signature covers the id, the time and the whole body."""
    id, now = f"msg_{uuid.uuid4().hex}", str(int(time.time()))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    made = hmac.new(key, f"{id}.{now}.".encode() + body, hashlib.sha256).digest()
    return {"webhook-id": id, "webhook-timestamp": now, "webhook-signature": f"v1,{base64.b64encode(made).decode()}"}


def post(url: str, secret: str, message: dict[str, object]) -> dict[str, object]:
    body = json.dumps(message).encode()
    headers = {"content-type": "application/json", **signed(secret, body)}
    try:
        request = urllib.request.Request(url, body, headers)  # noqa: S310 - the URL is the operator's own
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return {"state": "refused", "text": f"(refused: {json.load(error)['error']['message']})"}


def carry(url: str, secret: str, sender: str, text: str) -> str:
    """One message of the chat, and what its sender is to read. `yes ID` and `no ID` answer a question."""
    message: dict[str, object] = {"sender": sender, "message_id": uuid.uuid4().hex}
    word, _, id = text.partition(" ")
    if word.lower() in ("yes", "no") and id.startswith("approval-"):
        message["answer"] = {"id": id.strip(), "approved": word.lower() == "yes"}
    elif id.startswith("question-") or word.startswith("question-"):
        message["answer"] = {"id": word, "reply": id}
    else:
        message["text"] = text
    reply = post(url, secret, message)
    while reply["state"] == "working":  # it takes longer than one request waits: ask for the turn again
        reply = post(url, secret, {"sender": sender, "message_id": uuid.uuid4().hex, "turn": reply["turn"]})
    return str(reply["text"])


if __name__ == "__main__":
    for line in sys.stdin:
        sender, _, text = line.strip().partition(": ")
        print(f"to {sender}: {carry(sys.argv[1], os.environ['BRIDGE_SECRET'], sender, text)}", flush=True)
