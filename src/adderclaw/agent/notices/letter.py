"""One notice on its way to one target, how it may fail, and what of it a reader sees."""

import os
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module

from adderclaw.config.schema.settings import NoticeTarget
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json


class Letter(NamedTuple):
    """What is delivered, and with what."""

    id: str
    """The same whenever it is sent again."""
    body: Json
    """For programs; without secrets, escaped and bounded."""
    target: NoticeTarget
    parts: Mapping[str, str]
    """The target's own secrets: url, secret, token, password."""
    link: str = ""
    """The dashboard's page of it, where a server runs."""
    now: float = 0.0

    @property
    def title(self) -> str:
        return str(self.body.get("title", ""))

    @property
    def text(self) -> str:
        """All that a person reads below the title."""
        text = str(self.body.get("text", ""))
        return f"{text}\n{self.link}" if self.link else text

    @property
    def urgent(self) -> bool:
        return self.body.get("kind") in ("needs_you", "held", "estop")

    def as_json(self) -> Json:
        """As a program reads it."""
        return {**{name: value for name, value in self.body.items() if name != "page"}, "link": self.link}


class Undelivered(Exception):
    """It did not arrive, and why. The words name no secret and no address."""

    def __init__(self, why: str, *, again: bool = True, after: float = 0.0) -> None:
        """`again`: it may arrive later, not before so many seconds."""
        super().__init__(why)
        self.again, self.after = again, after


type Deliver = Callable[[Letter], Awaitable[None]]
"""Sends one; returns once it has arrived, else raises Undelivered."""

_MODULES = {"webhook": "webhook", "email": "mail"}
"""Kind of target → the module with its `deliver`."""


def deliverer(kind: str) -> Deliver:
    return import_module(f"adderclaw.agent.notices.{_MODULES[kind]}").deliver


# ------------------------------------------------------------------ the secrets of a target

VARIABLES = {"url": "url_env", "secret": "secret_env", "token": "token_env", "password": "password_env"}


def stored_name(target: str, part: str) -> str:
    """What a target's stored secret is called in the vault: no login and no key has such a name."""
    return f"notice:{target}:{part}"


def in_environment(target: NoticeTarget) -> dict[str, str]:
    """The secrets that variables hold now."""
    named = {part: getattr(target, field) for part, field in VARIABLES.items()}
    return {part: os.environ[name].strip() for part, name in named.items() if name and os.environ.get(name, "").strip()}


def secret_address(target: NoticeTarget) -> str:
    """The address of a webhook, where whoever knows it can write there; empty where it is no secret."""
    return target.url or "" if target.format in ("slack", "discord", "ntfy") else ""


def missing(target: NoticeTarget) -> str:
    """The variable that is named and not set; empty where none is."""
    there = in_environment(target)
    named = {part: getattr(target, field) for part, field in VARIABLES.items()}
    return next((name for part, name in named.items() if name and part not in there), "")
