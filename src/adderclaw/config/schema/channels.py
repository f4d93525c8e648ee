"""The part of the schema for notices and their targets, and for webhook channels and their senders."""

from dataclasses import field
from typing import Annotated, Any, Literal

from adderclaw.config.schema.meanings import Amount, Count, PathText, Url, Variable
from adderclaw.core.decode import Between
from adderclaw.core.record import record
from adderclaw.core.types import Outcome

type NoticeKind = Literal["needs_you", "done", "held", "missed", "budget", "estop"]
type TargetKind = Literal["webhook", "email"]
type StoredPart = Literal["url", "secret", "token", "password"]


def _all_kinds() -> list[NoticeKind]:
    return ["needs_you", "done", "held", "missed", "budget", "estop"]


@record
class NoticeTarget:
    """A target that notices are sent to."""

    kind: TargetKind
    """An HTTP request (also to ntfy, Slack and Discord: see `format`) or an e-mail."""
    enabled: bool = True
    """false: nothing is sent to this target."""
    on: list[NoticeKind] = field(default_factory=_all_kinds)
    """Which notices are sent: `needs_you` (a question waits), `done` (a run ended), `held`, `missed` and `budget` (of a
    schedule), `estop` (the emergency stop was set)."""
    detail: Literal["summary", "full"] = "summary"
    """`summary`: without tool inputs and model answers. `full`: with both, shortened and redacted."""
    min_seconds: Amount = 0.0
    """For `done`: only runs that took at least this long."""
    outcomes: list[Outcome] = field(default_factory=list[Any])
    """For `done`: only runs with these outcomes. Empty: all."""
    workspaces: list[PathText] = field(default_factory=list[str])
    """Only notices about these folders and their subfolders. Empty: all."""
    quiet: str = ""
    """Quiet hours in local time, such as `22:00-07:00`: notices are sent when they are over."""
    timeout_seconds: Annotated[float, Between(1, 60)] = 10.0
    """How long one attempt may take."""
    url: Url | None = None
    """Of a webhook: where to. https, or http on this machine."""
    url_env: Variable | None = None
    """Of a webhook: the environment variable that holds the address, where the address itself is a secret (Slack,
    Discord)."""
    format: Literal["json", "slack", "discord", "ntfy", "text"] = "json"
    """Of a webhook: what the receiver reads; docs/channels.md shows each."""
    secret_env: Variable | None = None
    """Of a webhook: the variable that holds the secret which requests are signed with (Standard Webhooks)."""
    token_env: Variable | None = None
    """Of a webhook: the variable that holds a token, sent as `Authorization: Bearer …`."""
    private: bool = False
    """Of a webhook: its host may be in a private network."""
    ca_file: PathText | None = None
    """Of a webhook or e-mail: certificates (PEM) to trust instead of the system's."""
    host: str = ""
    """Of e-mail: the SMTP server."""
    port: Annotated[int, Between(1, 65535)] | None = None
    """Of e-mail: its port; without one 587 for `starttls`, 465 for `tls`, 25 for `none`."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """Of e-mail: how the connection is encrypted. `none` only for a server on this machine."""
    user: str = ""
    """Of e-mail: who logs in. Empty: nobody does."""
    password_env: Variable | None = None
    """Of e-mail: the variable that holds the password."""
    sender: str = ""
    """Of e-mail: the address that it is from."""
    to: list[str] = field(default_factory=list[str])
    """Of e-mail: the addresses that it is sent to."""
    stored: list[StoredPart] = field(default_factory=list[Any])
    """What `adderclaw notices secret` stored for this target, in the keyring or the encrypted file, in place of a
    variable."""


@record
class Notices:
    """Notices sent to you when something waits for you or is done (docs/channels.md). Only your own configuration can
    set this, never a project's file."""

    wait_seconds: Amount = 30.0
    """At a terminal: how long a question waits, or a turn or run takes, before a notice of it is sent."""
    targets: dict[str, NoticeTarget] = field(default_factory=dict[str, NoticeTarget])
    """Name → target."""


@record
class Sender:
    """A person or program in a chat system. Unlisted senders are refused."""

    workspace: PathText
    """The folder in which the agent works for this sender. It must exist."""
    profile: Literal["readonly", "supervised", "sandboxed"] = "readonly"
    """What happens without asking, as with `--profile`; a stricter runtime.profile, or the autonomy readonly, wins."""
    tools_allow: list[str] = field(default_factory=lambda: ["*"])
    """Tools that the model is offered, by name or alias, out of those of channels.cli.tools_allow."""
    may_approve: bool = False
    """The sender is asked for approvals and may give them. Otherwise only you are asked."""
    commands: bool = False
    """A message that begins with `/` may call a skill or a command. Otherwise it is plain text."""
    messages_per_day: Count = 200
    """Messages and answers within 24 hours."""
    cost_usd_per_day: Amount | None = None
    """What the model calls of this sender may cost within 24 hours. A model without a known price is refused."""


@record
class WebhookChannel:
    """A channel for a chat system: signed messages to `POST /channels/NAME/messages` of the server (docs/channels.md).
    Only your own configuration can set this, never a project's file."""

    enabled: bool = True
    """Whether messages are accepted."""
    secret_env: Variable | None = None
    """The environment variable of the server that holds the secret. Without it, the secret created by
    `adderclaw channel secret NAME` is used."""
    senders: dict[str, Sender] = field(default_factory=dict[str, Any])
    """Who may send, by the name that the bridge gives: an address, a number, an id of the chat system."""
    reply: Literal["response", "post"] = "response"
    """Where answers go: into the answer to the request, or as signed requests to `reply_url`."""
    reply_seconds: Annotated[float, Between(0, 300)] = 25.0
    """How long a request waits for the answer with `response`. After that it gets the id of the turn to poll, and with
    a `reply_url` the answer is sent there."""
    reply_url: Url | None = None
    """Where answers and questions are posted, signed with the secret of the channel."""
