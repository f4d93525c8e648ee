"""A letter: one notice for one target with its secrets; how its delivery may fail."""

import os
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module

from adderclaw.config.schema import NoticeTarget
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json


class Letter(NamedTuple):
    """One notice for one target."""

    id: str
    """The same in each attempt."""
    body: Json
    """The fields, without secrets, escaped and with bounded lengths."""
    target: NoticeTarget
    parts: Mapping[str, str]
    """The target's secrets: url, secret, token, password."""
    link: str = ""
    """The URL of its page on the dashboard, if a server is running."""
    now: float = 0.0

    @property
    def title(self) -> str:
        return str(self.body.get("title", ""))

    @property
    def text(self) -> str:
        """Everything below the title."""
        text = str(self.body.get("text", ""))
        return f"{text}\n{self.link}" if self.link else text

    @property
    def urgent(self) -> bool:
        return self.body.get("kind") in ("needs_you", "held", "estop")

    def as_json(self) -> Json:
        """The JSON that a webhook sends."""
        return {**{name: value for name, value in self.body.items() if name != "page"}, "link": self.link}


class Undelivered(Exception):
    """A notice did not arrive. The message names no secret and no URL."""

    def __init__(self, why: str, *, again: bool = True, after: float = 0.0) -> None:
        """`again`: it may be retried, after at least this many seconds."""
        super().__init__(why)
        self.again, self.after = again, after


type Deliver = Callable[[Letter], Awaitable[None]]
"""Sends a letter; returns once it has arrived, else raises Undelivered."""

_MODULES = {"webhook": "webhook", "email": "mail"}
"""Kind of target → the module with its `deliver`."""


def deliverer(kind: str) -> Deliver:
    return import_module(f"adderclaw.agent.notices.{_MODULES[kind]}").deliver


# ------------------------------------------------------------------ the secrets of a target

VARIABLES = {"url": "url_env", "secret": "secret_env", "token": "token_env", "password": "password_env"}


def stored_name(target: str, part: str) -> str:
    """The name of a target's secret in the vault, which no login or key can have."""
    return f"notice:{target}:{part}"


def in_environment(target: NoticeTarget) -> dict[str, str]:
    """The secrets that are currently set in variables."""
    named = {part: getattr(target, field) for part, field in VARIABLES.items()}
    return {part: os.environ[name].strip() for part, name in named.items() if name and os.environ.get(name, "").strip()}


def secret_address(target: NoticeTarget) -> str:
    """The URL of a webhook, if everyone who knows it can post there; else empty."""
    return target.url or "" if target.format in ("slack", "discord", "ntfy") else ""


def missing(target: NoticeTarget) -> str:
    """The first configured variable that is not set; empty if all are."""
    there = in_environment(target)
    named = {part: getattr(target, field) for part, field in VARIABLES.items()}
    return next((name for part, name in named.items() if name and part not in there), "")
