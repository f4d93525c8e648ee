"""The one schema of the configuration; the text under each field becomes docs/configuration.md."""

from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from adderclaw.core.decode import Between
from adderclaw.core.provider_kinds import ANTHROPIC, LM_STUDIO, MOCK, OPENAI_COMPATIBLE, Kind
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import Autonomy, Effort, Json, Outcome, PermissionMode, ThinkingMode


class Meaning(NamedTuple):
    """What a text means, and so whether `~` and `$VARIABLE` are expanded in it and what it is relative to."""

    of: Literal["path", "workspace path", "url", "variable"]


type PathText = Annotated[str, Meaning("path")]
"""A path, relative to the file that it stands in."""
type WorkspacePath = Annotated[str, Meaning("workspace path")]
"""A path, relative to the workspace."""
type Url = Annotated[str, Meaning("url")]
type Variable = Annotated[str, Meaning("variable")]
"""The name of an environment variable."""
type Count = Annotated[int, Between(0)]
type Positive = Annotated[int, Between(1)]
type Amount = Annotated[float, Between(0)]
type Seconds = Annotated[float, Between(0.001)]


# ------------------------------------------------------------------ notices and webhook channels


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


# ------------------------------------------------------------------ facts about models


@record
class ModelEntry:
    """Facts about a model that override the table of models. NAME is a model's name, or its beginning followed by
    `*`."""

    context_tokens: Positive | None = None
    """Size of its context window."""
    max_output_tokens: Positive | None = None
    """Longest answer that it can give."""
    input_per_mtok: Amount | None = None
    """US dollars for a million tokens in."""
    output_per_mtok: Amount | None = None
    """US dollars for a million tokens out."""
    cache_read_per_mtok: Amount | None = None
    """US dollars for a million tokens read from the provider's cache; as input when absent."""
    cache_write_per_mtok: Amount | None = None
    """US dollars for a million tokens written to it; as input when absent."""
    vision: bool | None = None
    """It takes images."""
    pdf: bool | None = None
    """It takes PDF documents."""
    thinking: bool | None = None
    """It can think before it answers."""


# ------------------------------------------------------------------ work at a terminal


@record
class AfterEdit:
    """The project's own type checkers and linters, after an edit: those of `run`, and where the policy does not ask."""

    check: bool = True
    """Tell the model the problems found in a file that it edited."""
    seconds: Annotated[float, Between(0.001, 60)] = 5.0
    """How long each may take."""
    run: list[Literal["ruff", "pyright", "mypy", "tsc", "eslint"]] = field(default_factory=list[Any])
    """Checkers that run without asking, in a read-only sandbox without network. A project's own settings cannot set
    this."""


@record
class Git:
    """Commits of `/commit`."""

    co_author: str = ""
    """`Name <address>`: put into each message as its Co-authored-by line. Empty: no such line."""


@record
class Repl:
    """The conversation at a terminal."""

    editing: Literal["emacs", "vi"] = "emacs"
    """Which keys edit the input: those of emacs, or the modes of vi."""
    plain: bool = False
    """Print lines only, nothing is redrawn: for screen readers and simple terminals; as `--plain`."""
    motion: bool = True
    """Show progress by animations; false is the same as `--no-motion`."""
    theme: Literal["auto", "light", "dark"] = "auto"
    """The colours: for a light or a dark terminal; `auto` goes by what the terminal says of its background."""
    titles: Literal["small", "model", "words"] = "small"
    """What a conversation is called that nobody has named: what the small model (providers.small) says after the first
    answer, where there is one; with `model`, else what the model of the session says; with `words` no model is asked.
    Without a title it is called by its first words."""
    terminal_title: bool = True
    """Show it as the title of the terminal."""


@record
class StatusLine:
    """Your own command that fills the line below the input (docs/repl.md). It runs in a sandbox without write access
    and network. A trusted project's file can set one."""

    type: Literal["command"] = "command"
    """The only type."""
    command: str = ""
    """A command line for `sh` that gets JSON on stdin and whose output is shown. Empty: the default status line."""
    padding: Annotated[int, Between(0, 20)] = 0
    """Spaces before it."""
    refreshInterval: Annotated[float, Between(1)] | None = None
    """Seconds after which it runs again even if nothing has changed; without it, it runs only after changes."""


# ------------------------------------------------------------------ the administrator's limits


@record
class Managed:
    """What an administrator allows everybody on a machine to use. It only applies in `/etc/adderclaw/managed.toml`."""

    providers: list[str] | None = None
    """Allowed hosts of models, such as `api.anthropic.com` or `*.example.org`; other entries of `providers.models` are
    ignored. Absent: all."""
    mcp: list[str] | None = None
    """MCP servers: hosts of those with a `url`, absolute paths of the programs of the others. Absent: all."""
    plugins: list[str] | None = None
    """Plugins, each by the hash over its content that `adderclaw plugin show` prints. Absent: all."""
    skills: list[PathText] | None = None
    """Folders that skills and commands may come from, in addition to plugins that `plugins` lists. Absent: all."""
    prices: dict[str, ModelEntry] | None = None
    """The least that models cost, for every limit of money: filled in from `[models]` of the same file where it has
    that or `limits.cost_usd`. A model that it does not name costs no less than by the packaged list. Absent: the
    prices of each user."""


# ------------------------------------------------------------------ security


type Profile = Literal["readonly", "supervised", "sandboxed", "permissive"]


def _forbidden_paths() -> list[str]:
    return ["/etc", "/sys", "/boot", "~/.ssh"]


def _registries() -> list[str]:
    python = ["pypi.org", "files.pythonhosted.org"]
    node = ["registry.npmjs.org", "registry.yarnpkg.com"]
    rust = ["index.crates.io", "static.crates.io", "crates.io"]
    others = ["proxy.golang.org", "sum.golang.org", "rubygems.org", "repo.maven.apache.org", "repo1.maven.org"]
    return [*python, *node, *rust, *others]


def _forbidden_commands() -> list[str]:
    return ["rm", "shutdown", "reboot", "mkfs", "dd"]


@record
class Security:
    """What an agent may do. The project's files can tighten this, never loosen its baseline."""

    autonomy: Autonomy = "supervised"
    """readonly: only reads. supervised: runs low risk, asks for medium, refuses high. full: runs whatever is not
    forbidden."""
    workspace_only: bool = True
    """File tools stay inside the workspace and the additional directories."""
    forbidden_paths: list[PathText] = field(default_factory=_forbidden_paths)
    """Never read or written, whatever the autonomy."""
    forbidden_commands: list[str] = field(default_factory=_forbidden_commands)
    """Programs that never run, whatever the autonomy."""
    allowed_commands: list[str] = field(default_factory=list[str])
    """Additional programs that count as medium risk."""
    allowed_domains: list[str] = field(default_factory=list[str])
    """Hosts that the sandbox allows and whose GET is low risk; `*.example.org` covers its subdomains."""
    registries: list[str] = field(default_factory=_registries)
    """Package registries that commands of `run` can reach from the sandbox, in addition to `allowed_domains`. Elsewhere
    they are offered when you are asked about a package manager."""
    raw_bash: Literal["deny", "ask"] = "deny"
    """Bash that cannot be compiled to a plan: refused when supervised, or asked about each time."""
    network: Literal["deny", "allow"] = "deny"
    """Network inside the sandbox."""
    later: Literal["report", "allow"] = "report"
    """Files that commands create or change and other programs run later (CI, editors, hooks): reported until you
    acknowledge them, or only recorded in receipts and events."""
    sandbox_required: bool = False
    """Refuse to start if no OS sandbox is available, whatever the profile; `--profile permissive` still works without
    one."""
    audit_log: bool = True
    """Store a row for every permission decision."""
    additional_directories: list[PathText] = field(default_factory=list[str])
    """Directories outside the workspace in which file tools may work."""
    approval_timeout_seconds: Amount = 0.0
    """How long a question to the operator waits before it counts as denied. 0: no limit at a terminal, 300
    elsewhere."""


@record
class Sandbox:
    """The sandbox of commands. Only your own configuration can set this, never a project's file."""

    read_paths: list[PathText] = field(default_factory=list[str])
    """Additional files and folders that commands may read. They always see the system's programs, the toolchains on
    PATH and the workspace; `adderclaw doctor` shows everything."""
    accept: Literal["bubblewrap", "landlock", "seatbelt"] = "bubblewrap"
    """The sandbox, in addition to bubblewrap, in which the profile `sandboxed` runs commands without asking. Landlock
    protects less inside the workspace (see docs/deployment.md), and so does Seatbelt on macOS (docs/systems.md)."""


@record
class ProviderEntry:
    """One model that can be called."""

    kind: Kind
    """The wire protocol, or `reliable` or `router`, which combine other entries."""
    model: str | None = None
    """The model's name as the provider spells it, or an alias for the newest known one: `opus`, `sonnet`, `haiku`,
    `fable` (kind `anthropic`), `gpt` (`openai`), `gemini` (`gemini`). Without one, `default_model` is used."""
    base_url: Url | None = None
    """Address of the API, for kinds without a fixed address."""
    api_key_env: Variable | None = None
    """The environment variable that holds the key. Keys themselves are never written in a file."""
    api_key_helper: str | None = None
    """Your own command line that prints the key if the variable is not set; see docs/credentials.md."""
    api_key_stored: bool = False
    """If neither gives a key, use the one that `onboard` stored for this entry in the keyring or the encrypted file.
    Only your own configuration can set this."""
    fixture: PathText | None = None
    """For `mock`: the file of scripted steps."""
    providers: list[str] = field(default_factory=list[str])
    """For `reliable`: the entries to try, in order. For `router`: the first is its default."""
    routes: dict[str, str] = field(default_factory=dict[str, str])
    """For `router`: hint (`cheap`, `plan`, `long-context`, `vision`, or your own) → the entry that handles it."""
    default: str | None = None
    """For `router`: the entry for all other requests."""
    stream: bool = True
    """Receive answers while they are generated."""
    timeout_seconds: Seconds = 120.0
    """How long a server may take to begin its answer; the default is 600 for a model that thinks."""
    idle_timeout_seconds: Seconds | None = None
    """How long it may pause during the answer; comments and pings do not count. Absent: half of that, at least 60."""
    max_tokens: Positive | None = None
    """Longest answer."""
    temperature: Annotated[float, Between(0, 2)] | None = None
    """Randomness; not sent when absent."""
    effort: Effort | None = None
    """How much effort the model spends on an answer, mainly how much it thinks; docs/providers.md has a table. Absent:
    the vendor's default. `--effort` and `/effort` override it."""
    thinking: ThinkingMode | None = None
    """adaptive: the model decides when to think. enabled: it always thinks, up to `thinking_tokens`. disabled: it
    thinks as little as possible. Absent: a model that can think does."""
    thinking_tokens: Count | None = None
    """Limit of thinking tokens, for models that take a number; others get the nearest `effort`."""
    context_tokens: Positive | None = None
    """Size of the model's context window, if the provider does not report it."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Additional HTTP headers. Not for keys."""
    extra_body: Json = field(default_factory=dict[str, Any])
    """Added to each request, for options without a key here: objects are merged, anything else is replaced. At most
    16 KiB. It may not set what AdderClaw controls: messages, model, tools, stream, the maximum answer length."""
    text_tool_calls: bool = False
    """For models that cannot call tools properly: accept calls written in their text, in `<tool_call>` tags or in a
    fenced block marked `json` or `tool_call`. Only for chat completions, and only tools that were offered."""


def _models() -> dict[str, ProviderEntry]:
    return {
        "local": ProviderEntry(kind=MOCK, model="mock"),
        "openai_compatible": ProviderEntry(
            kind=OPENAI_COMPATIBLE,
            base_url="http://localhost:1234/v1",
            model="local-model",
            api_key_env="OPENAI_API_KEY",
        ),
        "claude_code_subscription": ProviderEntry(kind=ANTHROPIC, model="sonnet", api_key_env="ANTHROPIC_API_KEY"),
        "anthropic": ProviderEntry(kind=ANTHROPIC, model="sonnet", api_key_env="ANTHROPIC_API_KEY"),
        "gemini": ProviderEntry(kind="gemini", model="gemini", api_key_env="GEMINI_API_KEY"),
        "lm_studio_local": ProviderEntry(
            kind=LM_STUDIO, base_url="http://127.0.0.1:1234/v1", api_key_env="LM_STUDIO_API_KEY"
        ),
    }


@record
class Providers:
    """The models that can be called."""

    models: dict[str, ProviderEntry] = field(default_factory=_models)
    """Name → entry; `default_provider` and `--provider` choose by this name."""
    small: str | None = None
    """The entry for small questions outside the conversation, such as WebFetch's; without one, the session's own."""


@record
class OAuth:
    """The authorization server of one provider. https, except on this machine."""

    client_id: str
    """The id of this program there. It is not a secret."""
    token_url: Url
    """Where a code or a refresh token is exchanged for an access token."""
    authorize_url: Url | None = None
    """The page on which you allow the access, for a login in the browser or by a pasted code."""
    device_url: Url | None = None
    """Where a login by device code begins (RFC 8628)."""
    revoke_url: Url | None = None
    """Where `logout` revokes the tokens (RFC 7009)."""
    redirect_url: Url | None = None
    """A page of the server that shows a code to paste; without one, the address that the browser ends at is pasted."""
    issuer: str | None = None
    """The required issuer of the answer, if the server states one (`iss`)."""
    client_secret_env: Variable | None = None
    """The environment variable that holds the client's secret, for servers that want one."""
    scopes: list[str] = field(default_factory=list[str])
    """What access is asked for. With `openid`, the nonce in the id token is checked."""
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    """Additional parameters of the page on which you allow the access. Not for secrets."""


@record
class Auth:
    """Sources of credentials in addition to environment variables."""

    api_key_helper: str | None = None
    """Your own command line that prints Anthropic's key; the same as `apiKeyHelper` in settings.json."""
    api_key_helper_ttl_seconds: Amount = 300.0
    """How long its output is used, in memory only."""
    api_key_helper_timeout_seconds: Seconds = 10.0
    """How long it may take."""
    storage: Literal["auto", "keyring", "file"] = "auto"
    """Where logins are stored: the system's keyring, the encrypted file, or the first of these that works."""
    passphrase_env: Variable = "ADDERCLAW_PASSPHRASE"  # noqa: S105 - the name of a variable
    """The environment variable that holds the passphrase of the encrypted file."""
    oauth: dict[str, OAuth] = field(default_factory=dict[str, OAuth])
    """Name of a provider → its authorization server, for `adderclaw login NAME`."""


@record
class CliChannel:
    """The command line as a channel."""

    enabled: bool = True
    """Whether `adderclaw agent` and `-p` may be used."""
    tools_allow: list[str] = field(default_factory=lambda: ["*"])
    """Tools that the model is offered here, by name or alias; `*` is every tool."""


@record
class Channels:
    """Where messages come from."""

    cli: CliChannel = field(default_factory=CliChannel)
    """The command line."""
    webhook: dict[str, WebhookChannel] = field(default_factory=dict[str, Any])
    """Chat systems that are bridged by signed requests to the server, each by its name."""


@record
class Memory:
    """The database with conversations, memories, runs and a copy of the receipts."""

    backend: Literal["sqlite", "file"] = "sqlite"
    """`file` stores the rows as files next to `path`. This also happens, with a warning, if SQLite cannot write its
    file."""
    path: PathText = "~/.adderclaw/memory.sqlite"
    """The database file. The environment variable AGENT_SDLC_DB, an absolute path, overrides it."""


@record
class Spec:
    """Runs that work through a specification (`adderclaw run` on a SPEC.md)."""

    verify: Literal["auto", "required", "off"] = "auto"
    """Whether a separate session verifies each scenario that is reported as passed: `auto` if bubblewrap is the
    sandbox, with a warning otherwise; `required` refuses to start without it; `off` trusts the report. A project cannot
    loosen this."""
    verify_model: str | None = None
    """The entry under `providers.models`, or `entry/model`, that verifies; none: the run's own."""


@record
class Checkpoints:
    """Copies of files that tools change, so that they can be restored; stored in AdderClaw's folder, never in your
    git."""

    enabled: bool = True
    """Create checkpoints."""
    max_file_mb: Positive = 16
    """Larger files are not copied and cannot be restored."""
    max_files: Positive = 50_000
    """In a larger workspace, only files that a call declares to write are copied, not other files that a program
    writes."""
    max_total_mb: Positive = 1024
    """Maximum total size of the copies of a workspace; later changes are recorded but cannot be restored."""
    keep_days: Positive = 30
    """How long files can be restored."""
    ignore: list[str] = field(default_factory=list[str])
    """Names of additional folders and files to leave out; .git, node_modules, .venv, caches and the like always are."""


@record
class Retention:
    """How long data of old work is retained; 0: forever. docs/backup.md describes what is removed and what always
    stays."""

    conversations_days: Count = 0
    """Messages and results of conversations."""
    conversations_mb: Count = 0
    """The same, limited by size: the oldest are removed first."""
    runs_days: Count = 0
    """Recordings of runs, which `replay` needs."""
    runs_mb: Count = 0
    """The same, limited by size."""
    model_bodies_days: Count = 0
    """Raw answers of models, and the files of `logging.debug_llm_bodies`."""
    model_bodies_mb: Count = 0
    """The same, limited by size."""
    logs_days: Count = 0
    """Events of runs, in the database and in their `events.jsonl`."""
    logs_mb: Count = 0
    """The same, limited by size."""


@record
class Receipts:
    """The tamper-evident log of tool calls."""

    enabled: bool = True
    """Write a receipt for every call."""
    path: PathText = "~/.adderclaw/tool_receipts.log"
    """The log."""


@record
class Runtime:
    """How turns and runs work."""

    profile: Profile = "sandboxed"
    """The profile of `run`; `agent` follows security.autonomy unless `--profile` is given. permissive has no
    sandbox."""
    max_tool_rounds: Count = 5
    """Rounds of tool calls in one turn of a chat."""
    max_turns: Count = 8
    """Decisions in one task run that works with skills. Without skills only `run --max-turns` limits the replies."""
    max_response_bytes: Positive = 1_048_576
    """Longest answer that is read from a provider or a web server."""
    tool_timeout_seconds: Seconds = 30.0
    """Time limit of a tool call that does not set one."""
    shell_timeout_seconds: Seconds = 15.0
    """Time limit of a command called by the name `shell`."""
    http_timeout_seconds: Seconds = 20.0
    """Time limit of a web request."""
    timeout_seconds: Seconds = 120.0
    """Time limit of a step of a task run, and of a Bash command that does not set one."""
    max_llm_retries: Count = 3
    """How often a model call that failed for a temporary reason is retried."""
    retry_base_delay_seconds: Amount = 1.0
    """First delay between tries; it doubles."""
    retry_max_delay_seconds: Amount = 8.0
    """Longest delay between tries."""
    quota_wait_seconds: Amount = 60.0
    """How long a call waits at most for a quota to reset, if the provider says when; a week with `run
    --wait-for-quota`. If it is more than a minute, such waiting does not count towards limits.seconds."""
    on_step_failure: Literal["retry_once_then_fallback_then_abort", "retry_once_then_abort", "abort"] = (
        "retry_once_then_fallback_then_abort"
    )
    """What a task run does when a script of a skill fails. The model sees a command that fails, and the run continues,
    unless this is `abort`."""
    signal_grace_seconds: Amount = 10.0
    """How long running work may take to finish after SIGINT or SIGTERM."""
    shell_linux: PathText = "/bin/bash"
    """The bash that commands run in. Other shells are refused, because commands are written for bash."""
    shell_windows: str = "pwsh"
    """The PowerShell that hooks with `shell: powershell` run in, a name on PATH or a path. Commands run in bash."""
    parallel_calls: Positive = 10
    """How many read-only tool calls of one reply may run at the same time; 1 runs each by itself."""
    loop_warn_at: Positive = 5
    """Identical calls with identical results in a row before the model is warned."""
    loop_stop_at: Positive = 8
    """The same, before the turn ends."""
    max_context_tokens: Positive = 32_000
    """Budget for the composed prompt of a task run."""
    response_headroom_tokens: Count = 2_000
    """Part of that budget reserved for the answer."""
    structured_output_mode: Literal["native_with_json_fallback", "native", "json"] = "native_with_json_fallback"
    """How a decision is asked of the model in a task run."""


@record
class Limits:
    """What one run may use, including its children. 0 means zero."""

    cost_usd: Amount = 5.0
    """Cost by the known prices. While it is set, a model without a known price is refused."""
    tokens: Count = 2_000_000
    """Tokens in and out."""
    tool_calls: Count = 200
    """Tool calls; at the REPL and in `mcp serve`, those of one message or call."""
    seconds: Amount = 3600.0
    """Wall time; at the REPL and in `mcp serve`, that of one message or call."""


LIMIT_NAMES = tuple(Limits.__dataclass_fields__)
if TYPE_CHECKING:
    type LimitName = str
else:
    LimitName = Literal[LIMIT_NAMES]


@record
class Subagents:
    """Child sessions, started by the Agent tool or otherwise. [limits] applies to them too."""

    max_depth: Count = 3
    """How deeply child sessions may be nested; 0 allows none."""
    max_concurrent: Count = 50
    """How many may run at once."""
    max_total: Count = 1_000
    """How many one run may start."""
    max_tool_rounds: Count = 25
    """Rounds of tool calls in one turn of a child; a definition's `maxTurns` applies if it is lower."""
    result_chars: Positive = 29_000
    """Maximum characters of a child's answer that its parent sees; Read shows the whole of a longer one."""


@record
class Skills:
    """Where skills are and how much of them the model sees."""

    dir: WorkspacePath = "./skills"
    """Folder of skills."""
    prefilter_top_k: Positive = 8
    """Candidates that are offered to the model."""
    prefilter_min_score: Annotated[float, Between(0, 100)] = 55.0
    """Minimum similarity of a candidate."""
    prefilter_zero_candidate_strategy: Literal["fallback_all_skills", "fail_fast"] = "fallback_all_skills"
    """What happens if no skill is similar enough."""
    disclosure_max_reference_bytes: Count = 120_000
    """Maximum bytes of references that are disclosed."""
    disclosure_max_reference_tokens: Count = 4_000
    """Maximum tokens of references that are disclosed."""
    inline_commands: bool = True
    """Run the commands marked by `!` in the text of your own or a trusted project's skills and commands."""


@record
class Logging:
    """What is logged, and where."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level of the log on stderr."""
    jsonl_dir: WorkspacePath = "./runs"
    """Folder of run folders, each with its events.jsonl. If it is in the workspace, commands may not write there."""
    run_id_pattern: str = "YYYYMMDD-HHMMSS-<short-uuid>"
    """Form of a run's id: date and time in UTC and eight random characters, with letters, digits, `-`, `_` and `.`
    around them, if any (`ci-YYYYMMDD-HHMMSS-<short-uuid>`)."""
    debug_llm_bodies: bool = False
    """Store complete prompts and answers in the run folder."""
    sanitize_control_chars: bool = True
    """Escape control characters in everything that is shown or logged. Cannot be turned off."""
    redact_secrets: bool = True
    """Remove secrets from everything that is shown or logged. Cannot be turned off."""


@record
class Web:
    """The web tools: rate limits, gateway and search service."""

    gateway_url: Url | None = None
    """A gateway for the requests of the web tools, instead of direct connections."""
    gateway_token_env: Variable | None = None
    """The environment variable that holds the gateway's token."""
    search: Literal["searxng", "brave", "tavily", "gateway"] | None = None
    """The service that WebSearch uses; without one, the gateway if there is one, else WebSearch is not offered."""
    search_url: Url | None = None
    """Address of that service: required for `searxng`; for `brave` and `tavily` it replaces the default address."""
    search_key_env: Variable | None = None
    """The environment variable that holds the key of `brave` or `tavily`."""
    fetches_per_minute: Positive = 10
    """Pages that WebFetch may request per minute."""
    searches_per_minute: Positive = 5
    """Searches per minute."""


@record
class Telemetry:
    """Telemetry sent to another service."""

    enabled: bool = False
    """Send them."""
    endpoint: Url | None = None
    """Where to, for `http` and `otlp`."""
    protocol: Literal["http", "otlp", "file", "noop"] = "noop"
    """How."""
    path: WorkspacePath | None = None
    """The file of JSON lines, for `file`."""
    include_content: bool = False
    """Include the redacted text of messages instead of summaries."""
    flush_seconds: Amount = 2.0
    """How long the end of a run waits for unsent records."""


MODE_AUTONOMY: dict[PermissionMode, Autonomy] = {
    "default": "supervised",
    "acceptEdits": "supervised",
    "dontAsk": "supervised",
    "plan": "supervised",
    "bypassPermissions": "full",
}
"""The autonomy that a mode means. `plan` denies more by itself."""


@record
class Permissions:
    """Permission rules, in the shape of settings.json. Rules of all files count together: deny > ask > allow."""

    allow: list[str] = field(default_factory=list[str])
    """Rules such as `Read(./docs/**)` or `Bash(git status)` that allow."""
    deny: list[str] = field(default_factory=list[str])
    """Rules that refuse."""
    ask: list[str] = field(default_factory=list[str])
    """Rules that ask."""
    defaultMode: PermissionMode | None = None
    """What happens if no rule matches. Your own setting replaces security.autonomy; a project's applies only if it is
    stricter. bypassPermissions can only come from a flag or your own file."""
    additionalDirectories: list[PathText] = field(default_factory=list[str])
    """The same as security.additional_directories."""
    disableBypassPermissionsMode: Literal["disable"] | None = None
    """`disable` makes bypassPermissions unavailable."""
    allowManagedPermissionRulesOnly: bool = False
    """The project's allow rules do not apply, even if it is trusted."""


@record
class Compat:
    """Settings of other programs that also apply here. Only your own configuration can set this."""

    claude: bool = False
    """Use your `~/.claude`: its settings.json below your own settings, and its commands, skills and agents in addition
    to your own. A project's `.claude` is always read; docs/compatibility.md describes what applies of both."""


@record
class Config:
    """The whole configuration."""

    workspace_dir: PathText = "~/adderclaw-workspace"
    """Where to work when the current directory belongs to no project."""
    default_provider: str = "local"
    """The entry of providers.models that is used by default."""
    default_model: str = "mock"
    """The model of entries that do not set one."""
    agent_id: str = "adderclaw"
    """Name of this agent in telemetry."""
    security: Security = field(default_factory=Security)
    """What an agent may do."""
    sandbox: Sandbox = field(default_factory=Sandbox)
    """The sandbox of commands."""
    providers: Providers = field(default_factory=Providers)
    """Models."""
    auth: Auth = field(default_factory=Auth)
    """Credentials."""
    channels: Channels = field(default_factory=Channels)
    """Channels."""
    memory: Memory = field(default_factory=Memory)
    """The database."""
    receipts: Receipts = field(default_factory=Receipts)
    """The receipt log."""
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    """File checkpoints."""
    retention: Retention = field(default_factory=Retention)
    """How long old work is retained."""
    spec: Spec = field(default_factory=Spec)
    """Specifications."""
    runtime: Runtime = field(default_factory=Runtime)
    """Turns and runs."""
    after_edit: AfterEdit = field(default_factory=AfterEdit)
    """Checks after an edit."""
    git: Git = field(default_factory=Git)
    """Commits."""
    limits: Limits = field(default_factory=Limits)
    """Budgets."""
    subagents: Subagents = field(default_factory=Subagents)
    """Child sessions."""
    capabilities: dict[str, str] = field(default_factory=dict[str, str])
    """What an agent of an Agentfile REQUIRES → the entry under `providers.models`, or `entry/model`, that provides
    it."""
    models: dict[str, ModelEntry] = field(default_factory=dict[str, ModelEntry])
    """Prices and windows of models."""
    skills: Skills = field(default_factory=Skills)
    """Skills."""
    logging: Logging = field(default_factory=Logging)
    """Logs."""
    web: Web = field(default_factory=Web)
    """Web tools."""
    telemetry: Telemetry = field(default_factory=Telemetry)
    """Telemetry."""
    notices: Notices = field(default_factory=Notices)
    """Notices that are sent to you."""
    repl: Repl = field(default_factory=Repl)
    """The conversation at a terminal."""
    statusLine: StatusLine = field(default_factory=StatusLine)
    """The line below the input."""
    compat: Compat = field(default_factory=Compat)
    """Other programs' settings."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    """Variables for commands and MCP servers inside the sandbox. Not allowed are variables that tell programs what to
    load or run or where to read settings (PATH, LD_*, GIT_*, NODE_OPTIONS …), endpoints and credentials."""
    permissions: Permissions = field(default_factory=Permissions)
    """Permission rules."""
    hooks: list[Json] = field(default_factory=list[dict[str, Any]])
    """Hooks, each `{hook_event_name, matcher, command}`; nested groups and lists of names are accepted too."""
    disableAllHooks: bool = False
    """Run no configured hooks. A project's file cannot set this."""
    allowManagedHooksOnly: bool = False
    """The project's hooks do not run, even if it is trusted."""
    managed: Managed = field(default_factory=Managed)
    """What an administrator allows."""
    mcp_servers: dict[str, Json] = field(default_factory=dict[str, dict[str, Any]])
    """MCP servers: name → `{command, args, env}` or `{url}`, see docs/mcp.md. `mcpServers` is the same."""
