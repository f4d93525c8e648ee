"""The webhook channels of the operator's configuration: their secrets and problems."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import TypedDict

from adderclaw.agent.queries import Check, loaded, read_only
from adderclaw.config.legacy.options import Options
from adderclaw.config.schema import WebhookChannel
from adderclaw.core.record import NamedTuple
from adderclaw.models.credentials import webhook_secrets

NAMES = r"[A-Za-z0-9_-]{1,64}"
"""The pattern of a channel's name, which is part of a URL path and of ids."""


class Problem(NamedTuple):
    channel: str
    what: str
    fix: str


class SenderRow(TypedDict):
    name: str
    workspace: str
    profile: str
    may_approve: bool
    messages_per_day: int


class ChannelRow(TypedDict):
    name: str
    path: str
    """The URL path that receives messages."""
    enabled: bool
    reply: str
    reply_url: str | None
    secrets: int
    """The number of valid secrets; one more while a secret is being replaced."""
    senders: list[SenderRow]
    problems: list[str]


def channels(options: Options) -> dict[str, WebhookChannel]:
    """The channels in the operator's current configuration; a project's file cannot set any."""
    return loaded(read_only(options)).config.channels.webhook


def door_of(name: str) -> str:
    return f"channel:{name}"


def secrets(home: str, name: str, channel: WebhookChannel | None, now: float) -> list[str]:
    """The valid secrets of a channel, latest first."""
    stored = webhook_secrets.known(home, door_of(name), now)  # also if the channel does not exist: constant time
    if channel is None:
        return []
    from_environment = os.environ.get(channel.secret_env, "") if channel.secret_env else ""
    return [from_environment, *stored] if from_environment else stored


def problems(home: str, channels: Mapping[str, WebhookChannel], now: float) -> list[Problem]:
    """What prevents messages from being accepted, for the operator."""
    return [problem for name, channel in channels.items() for problem in _problems(home, name, channel, now)]


def _problems(home: str, name: str, channel: WebhookChannel, now: float) -> list[Problem]:
    key, problems = f"channels.webhook.{name}", list[Problem]()
    if not re.fullmatch(NAMES, name):
        return [Problem(name, f"{name!r} is not a valid channel name", "use letters, digits, - and _")]
    if not channel.enabled:
        return []
    if not secrets(home, name, channel, now):
        make = f"adderclaw channel secret {name}"
        where = f"set {channel.secret_env} where the server runs, or " if channel.secret_env else ""
        problems.append(Problem(name, "it has no secret: every message is refused", f"{where}`{make}`"))
    if channel.reply == "post" and channel.reply_url is None:
        problems.append(Problem(name, "answers should be posted, but reply_url is not set", f"set {key}.reply_url"))
    if not channel.senders:
        problems.append(Problem(name, "it has no senders: every message is refused", f'add [{key}.senders."NAME"]'))
    for sender, entry in channel.senders.items():
        if not os.path.isdir(entry.workspace):
            problems.append(
                Problem(name, f"the workspace {entry.workspace} of {sender} is not a folder", "create or change it")
            )
    return problems


def checks(home: str, channels: Mapping[str, WebhookChannel], now: float) -> Iterator[Check]:
    """The checks of `doctor`; none if no channel is configured."""
    wrong = problems(home, channels, now)
    for problem in wrong:
        yield Check(f"channel {problem.channel}", "warning", problem.what, problem.fix)
    if channels and not wrong:
        yield Check("channels", "ok", ", ".join(sorted(channels)))


def listing(options: Options, home: str, now: float) -> list[ChannelRow]:
    return [_row(home, name, channel, now) for name, channel in sorted(channels(options).items())]


def _row(home: str, name: str, channel: WebhookChannel, now: float) -> ChannelRow:
    return {
        "name": name,
        "path": f"/channels/{name}/messages",
        "enabled": channel.enabled,
        "reply": channel.reply,
        "reply_url": channel.reply_url,
        "secrets": len(secrets(home, name, channel, now)),
        "senders": [
            {
                "name": sender,
                "workspace": entry.workspace,
                "profile": entry.profile,
                "may_approve": entry.may_approve,
                "messages_per_day": entry.messages_per_day,
            }
            for sender, entry in sorted(channel.senders.items())
        ],
        "problems": [f"{problem.what}: {problem.fix}" for problem in _problems(home, name, channel, now)],
    }
