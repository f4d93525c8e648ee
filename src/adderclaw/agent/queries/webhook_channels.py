"""The webhook channels of the operator's configuration: their secrets, and what is wrong with each."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import TypedDict

from adderclaw.agent.queries import loaded, looking
from adderclaw.agent.queries.check import Check
from adderclaw.config.legacy.options import Options
from adderclaw.config.schema.channels import WebhookChannel
from adderclaw.core.record import NamedTuple
from adderclaw.models.credentials import webhook_secrets

NAMES = r"[A-Za-z0-9_-]{1,64}"
"""What a channel may be called: its name is a part of a path and of ids."""


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
    """Where messages are sent to, of the server's address."""
    enabled: bool
    reply: str
    reply_url: str | None
    secrets: int
    """How many count now; one more while one is replaced."""
    senders: list[SenderRow]
    problems: list[str]


def channels(options: Options) -> dict[str, WebhookChannel]:
    """As the operator's configuration is now; a project's file sets none."""
    return loaded(looking(options)).config.channels.webhook


def door_of(name: str) -> str:
    return f"channel:{name}"


def secrets(home: str, name: str, found: WebhookChannel | None, now: float) -> list[str]:
    """The secrets that count for a channel, the latest first."""
    stored = webhook_secrets.known(home, door_of(name), now)  # for one that is not there, too: it takes as long
    if found is None:
        return []
    given = os.environ.get(found.secret_env, "") if found.secret_env else ""
    return [given, *stored] if given else stored


def problems(home: str, found: Mapping[str, WebhookChannel], now: float) -> list[Problem]:
    """What keeps messages from being taken, for the operator."""
    return [problem for name, one in found.items() for problem in _problems(home, name, one, now)]


def _problems(home: str, name: str, one: WebhookChannel, now: float) -> list[Problem]:
    key, made = f"channels.webhook.{name}", list[Problem]()
    if not re.fullmatch(NAMES, name):
        return [Problem(name, f"{name!r} is no name of a channel", "use letters, digits, - and _")]
    if not one.enabled:
        return []
    if not secrets(home, name, one, now):
        make = f"adderclaw channel secret {name}"
        where = f"set {one.secret_env} where the server runs, or " if one.secret_env else ""
        made.append(Problem(name, "it has no secret: every message is refused", f"{where}`{make}`"))
    if one.reply == "post" and one.reply_url is None:
        made.append(Problem(name, "answers are to be posted, and there is no place for them", f"set {key}.reply_url"))
    if not one.senders:
        made.append(Problem(name, "it has no senders: every message is refused", f'add [{key}.senders."NAME"]'))
    for sender, entry in one.senders.items():
        if not os.path.isdir(entry.workspace):
            made.append(Problem(name, f"the workspace {entry.workspace} of {sender} is no folder", "make or change it"))
    return made


def checks(home: str, found: Mapping[str, WebhookChannel], now: float) -> Iterator[Check]:
    """For `doctor`; nothing where no chat system is bridged."""
    wrong = problems(home, found, now)
    for problem in wrong:
        yield Check(f"channel {problem.channel}", "warning", problem.what, problem.fix)
    if found and not wrong:
        yield Check("channels", "ok", ", ".join(sorted(found)))


def listing(options: Options, home: str, now: float) -> list[ChannelRow]:
    return [_row(home, name, one, now) for name, one in sorted(channels(options).items())]


def _row(home: str, name: str, one: WebhookChannel, now: float) -> ChannelRow:
    return {
        "name": name,
        "path": f"/channels/{name}/messages",
        "enabled": one.enabled,
        "reply": one.reply,
        "reply_url": one.reply_url,
        "secrets": len(secrets(home, name, one, now)),
        "senders": [
            {
                "name": sender,
                "workspace": entry.workspace,
                "profile": entry.profile,
                "may_approve": entry.may_approve,
                "messages_per_day": entry.messages_per_day,
            }
            for sender, entry in sorted(one.senders.items())
        ],
        "problems": [f"{found.what}: {found.fix}" for found in _problems(home, name, one, now)],
    }
