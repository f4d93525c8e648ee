"""`adderclaw channel`: lists chat systems bridged by signed requests, makes their secrets, and tests them."""

import json
import os
import re
import sys
import time
from typing import Annotated, Any, cast

import typer

from adderclaw.agent.queries import clean, webhook_channels
from adderclaw.config import home
from adderclaw.config.legacy.options import Options
from adderclaw.config.schema import WebhookChannel
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.suggestions import did_you_mean
from adderclaw.models.credentials import webhook_secrets
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, group
from adderclaw.terminal.output import print_json

app = group("Chat systems that send messages through the server: list them, make their secrets, test one.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The channel's NAME in [channels.webhook.NAME].")]
UNITS = {"m": 60, "h": 3_600, "d": 86_400}


@app.command("list")
def list_channels(config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """List the channels with their senders and problems, without their secrets.

    Example: adderclaw channel list
    """
    rows = webhook_channels.listing(Options(config_file=config), home(), time.time())
    if output_format == "json":
        print_json(clean(rows))
        return
    if not rows:
        print("no chat system is configured; add one as [channels.webhook.NAME] (docs/channels.md)")
    for row in rows:
        state = "" if row["enabled"] else " (off)"
        print(visible(f"{row['name']}{state}  POST {row['path']}  answers: {row['reply_url'] or row['reply']}"))
        for sender in row["senders"]:
            more = ", approves" if sender["may_approve"] else ""
            print(visible(f"  {sender['name']}  {sender['profile']}{more}  {sender['workspace']}"))
        for problem in row["problems"]:
            print(visible(f"  problem: {problem}"))


@app.command()
def secret(
    name: Name,
    old: Annotated[
        str, typer.Option("--old", metavar="TIME", help="How long the old secret stays valid: 30m, 8h, 1d, or 0.")
    ] = "1d",
    from_stdin: Annotated[
        bool, typer.Option("--given", help="Read the secret from stdin, if the sender gave you one.")
    ] = False,
    trigger: Annotated[
        bool, typer.Option("--trigger", help="NAME is a schedule started by requests, not a channel.")
    ] = False,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Create or replace the secret of a channel. It is shown once.

    Example: adderclaw channel secret chat
    """
    if trigger:
        door = _trigger_door(name, config)
    else:
        _require_channel(name, config)
        door = webhook_channels.door_of(name)
    text = sys.stdin.readline().strip() if from_stdin else None
    if from_stdin and not text:
        raise UsageError("--given: the first line of standard input has no secret")
    new_secret = webhook_secrets.make(home(), door, time.time(), grace=_seconds(old), text=text)
    if output_format == "json":
        print_json({"trigger" if trigger else "channel": name, **({} if from_stdin else {"secret": new_secret})})
        return
    if from_stdin:
        print(f"{name}: the secret is stored")
        return
    print(f"secret: {new_secret}")
    print("It is shown only once. The sender signs requests with it (docs/channels.md).")


@app.command("test")
def try_one(
    name: Name,
    sender: Annotated[
        str, typer.Option("--sender", metavar="NAME", help="The sender of the message, one of the channel's senders.")
    ],
    message: Annotated[
        str, typer.Option("-m", "--message", help="The text of the message.")
    ] = "Say hello in one sentence.",
    thread: Annotated[str, typer.Option("--thread", help="The thread of the message.")] = "channel-test",
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Sign a message and send it to the running server, like a bridge does. It starts a real turn.

    Example: adderclaw channel test chat --sender alice@example.org
    """
    channel = _require_channel(name, config)
    known = webhook_channels.secrets(home(), name, channel, time.time())
    if not known:
        raise UsageError(f"channel {name} has no secret: create one with `adderclaw channel secret {name}`")
    answer = _send_test_message(name, channel, known, {"sender": sender, "text": message, "thread": thread}, config)
    if output_format == "json":
        print_json(answer)
    elif answer["state"] == "working":
        where = (
            f"it is posted to {channel.reply_url}" if channel.reply_url else "the bridge fetches it by the turn's id"
        )
        print(visible(f"{answer['turn']} has started; {where}"))
    else:
        print(visible(str(answer["text"])))


def _send_test_message(
    name: str, channel: WebhookChannel, secrets: list[str], message: dict[str, Any], config: str | None
) -> dict[str, Any]:
    import httpx2

    from adderclaw.models.http import signing
    from adderclaw.server import listening

    running = listening.running()
    if running is None or not running.address:
        raise AdderClawError(f"no server is running for {home()}: start one with `adderclaw serve`")
    id = f"test-{os.urandom(8).hex()}"
    body = json.dumps({**message, "message_id": id}).encode()
    headers = {"content-type": "application/json", **signing.headers(secrets, body, id=id, now=time.time())}
    way = httpx2.HTTPTransport(uds=running.socket) if running.socket else None
    base = "http://localhost" if running.socket else running.address
    try:
        with httpx2.Client(base_url=base, transport=way, trust_env=False, timeout=channel.reply_seconds + 30) as client:
            done = client.post(f"/channels/{name}/messages", content=body, headers=headers)
    except httpx2.HTTPError as error:
        raise AdderClawError(f"the server at {running.address} does not answer: {error}") from error
    answer = cast(dict[str, Any], done.json())
    if done.is_success:
        return answer
    wrong = answer.get("error", {})
    more = "".join(f"; {problem['key']} {problem['message']}" for problem in wrong.get("problems", ()))
    if wrong.get("code") == "unavailable":
        more += f": {_last_warning(name, config)}"
    raise AdderClawError(
        f"the server refused it ({done.status_code} {wrong.get('code')}): {wrong.get('message')}{more}"
    )


def _last_warning(name: str, config: str | None) -> str:
    """Why no turn started; the server does not tell senders."""
    from adderclaw.agent.conversation import questions
    from adderclaw.storage import Store
    from adderclaw.storage.queries.runs import last_warnings

    store = Store.open(questions.store_path(config), read_only=True)
    try:
        warnings = last_warnings(store)
    finally:
        store.close()
    lines = (str(json.loads(detail).get("message", "")) for detail in warnings)
    return next((line for line in lines if line.startswith(f"channels.webhook.{name}:")), "")


def _require_channel(name: str, config: str | None) -> WebhookChannel:
    channels = webhook_channels.channels(Options(config_file=config))
    if name not in channels:
        hint = did_you_mean(name, list(channels)) or f"; add [channels.webhook.{name}] to your configuration"
        raise UsageError(f"there is no channel {name[:100]!r}{hint}")
    if not re.fullmatch(webhook_channels.NAMES, name):
        raise UsageError(f"{name!r} is not a valid channel name: use letters, digits, - and _")
    return channels[name]


def _trigger_door(name: str, config: str | None) -> str:
    """The door name of a schedule started by requests."""
    from adderclaw.agent.conversation import questions
    from adderclaw.storage import Store, schedules

    store = Store.open(questions.store_path(config))
    try:
        schedule = schedules.get(store, name)
    finally:
        store.close()
    if schedule.when["kind"] != "webhook":
        raise UsageError(
            f"schedule {schedule.name} is not started by requests: add one with `schedule add … --webhook`"
        )
    return f"trigger:{schedule.id}"


def _seconds(text: str) -> float:
    if text == "0":
        return 0.0
    match = re.fullmatch(r"([0-9]{1,4})([mhd])", text)
    if match is None:
        raise UsageError(f"--old {text!r} is not a duration: write 30m, 8h, 1d, or 0")
    return float(int(match[1]) * UNITS[match[2]])
