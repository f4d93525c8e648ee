"""The one schema of the configuration; the text under each field becomes docs/configuration.md."""

from dataclasses import field
from typing import Annotated, Any, Literal

from adderclaw.config.schema.channels import Notices, WebhookChannel
from adderclaw.config.schema.managed import Managed
from adderclaw.config.schema.meanings import Amount, Count, PathText, Positive, Seconds, Url, Variable, WorkspacePath
from adderclaw.config.schema.models import ModelEntry
from adderclaw.config.schema.terminal import AfterEdit, Git, Repl, StatusLine
from adderclaw.core.decode import Between
from adderclaw.core.provider_kinds import ANTHROPIC, LM_STUDIO, MOCK, OPENAI_COMPATIBLE, Kind
from adderclaw.core.record import record
from adderclaw.core.types import Autonomy, Effort, Json, PermissionMode, ThinkingMode

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
    """readonly: only reads. supervised: low risk runs, medium asks, high is refused. full: what is not forbidden."""
    workspace_only: bool = True
    """File tools stay inside the workspace and the additional directories."""
    forbidden_paths: list[PathText] = field(default_factory=_forbidden_paths)
    """Never read or written, whatever the autonomy."""
    forbidden_commands: list[str] = field(default_factory=_forbidden_commands)
    """Programs that never run, whatever the autonomy."""
    allowed_commands: list[str] = field(default_factory=list[str])
    """Programs that count as medium risk, beside the built-in list."""
    allowed_domains: list[str] = field(default_factory=list[str])
    """Hosts whose GET is low risk and that the sandbox lets through; `*.example.org` holds for its subdomains."""
    registries: list[str] = field(default_factory=_registries)
    """Package registries that commands of `run` reach from inside the sandbox, beside `allowed_domains`; elsewhere they
    are offered when a package manager is asked about."""
    raw_bash: Literal["deny", "ask"] = "deny"
    """Bash that cannot be compiled to a plan: refused when supervised, or asked each time."""
    network: Literal["deny", "allow"] = "deny"
    """Network inside the sandbox."""
    later: Literal["report", "allow"] = "report"
    """What commands make or change of what other programs run later (CI, editors, hooks): reported until it is
    acknowledged, or only noted in receipts and events."""
    sandbox_required: bool = False
    """Refuse to start where no OS sandbox can, whatever the profile; `--profile permissive` still goes without."""
    audit_log: bool = True
    """Keep a row for every permission decision."""
    additional_directories: list[PathText] = field(default_factory=list[str])
    """Directories beside the workspace in which file tools may work."""
    approval_timeout_seconds: Amount = 0.0
    """How long a question to the operator waits before it counts as no. 0: no limit at a terminal, 300 elsewhere."""


@record
class Sandbox:
    """What the sandbox of commands is made of. Only your own configuration counts here, never a project's file."""

    read_paths: list[PathText] = field(default_factory=list[str])
    """Files and folders that commands may read, beside the system's programs, the toolchains of PATH and the workspace;
    `adderclaw doctor` shows what they see."""
    accept: Literal["bubblewrap", "landlock", "seatbelt"] = "bubblewrap"
    """The sandbox, beside bubblewrap, in which the profile `sandboxed` runs commands without asking. Landlock holds
    less inside the workspace (docs/deployment.md lists what), and so does Seatbelt on macOS (docs/systems.md)."""


@record
class ProviderEntry:
    """One model that can be called."""

    kind: Kind
    """Which wire protocol, or `reliable` and `router`, which are made of other entries."""
    model: str | None = None
    """The model's name as the provider spells it, or an alias for the newest known one: `opus`, `sonnet`, `haiku`,
    `fable` (kind `anthropic`), `gpt` (`openai`), `gemini` (`gemini`). Without one, `default_model` counts."""
    base_url: Url | None = None
    """Where the API is, for kinds that have no fixed place."""
    api_key_env: Variable | None = None
    """The environment variable that holds the key. Keys themselves never stand in a file."""
    api_key_helper: str | None = None
    """A command line of yours that prints the key, where the variable is not set; see docs/credentials.md."""
    api_key_stored: bool = False
    """Where neither gives a key: the one that `onboard` stored for this entry, in the keyring or the encrypted file.
    Only your own configuration can say so."""
    fixture: PathText | None = None
    """For `mock`: the file of scripted steps."""
    providers: list[str] = field(default_factory=list[str])
    """For `reliable`: the entries to try, in order. For `router`: the first is its default."""
    routes: dict[str, str] = field(default_factory=dict[str, str])
    """For `router`: hint (`cheap`, `plan`, `long-context`, `vision`, or one of yours) → the entry that takes it."""
    default: str | None = None
    """For `router`: the entry for all other requests."""
    stream: bool = True
    """Receive answers as they are written."""
    timeout_seconds: Seconds = 120.0
    """How long a server may take until its answer begins; 600 where its model thinks and nothing else is set."""
    idle_timeout_seconds: Seconds | None = None
    """How long it may then send nothing of it; comments and pings do not count. Absent: half of that, at least 60."""
    max_tokens: Positive | None = None
    """Longest answer."""
    temperature: Annotated[float, Between(0, 2)] | None = None
    """Randomness; not sent when absent."""
    effort: Effort | None = None
    """How much the model works for an answer, above all how much it thinks; docs/providers.md has a table. Absent: what
    its vendor recommends. `--effort` and `/effort` go before it."""
    thinking: ThinkingMode | None = None
    """adaptive: the model decides when it thinks. enabled: it always thinks, within `thinking_tokens`. disabled: as
    little as it can be told to. Absent: a model that can think does."""
    thinking_tokens: Count | None = None
    """The most tokens of thought, for models that take a number; the others take the nearest `effort`."""
    context_tokens: Positive | None = None
    """Size of the model's window, where it cannot be asked."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Further HTTP headers. Not for keys."""
    extra_body: Json = field(default_factory=dict[str, Any])
    """Added to each request, for options that have no key here: objects are joined, anything else is replaced. At most
    16 KiB. It may not set what AdderClaw decides: messages, model, tools, stream, the longest answer."""
    text_tool_calls: bool = False
    """For models that cannot call tools properly: calls that they write into their text, in `<tool_call>` tags or in a
    fenced block marked `json` or `tool_call`, count. Only chat completions, and only tools that were offered."""


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
    """The entry for small questions beside the conversation, such as WebFetch's; without one, the session's own."""


@record
class OAuth:
    """The authorization server of one provider. https, except on this machine."""

    client_id: str
    """What this program is called there. It is no secret."""
    token_url: Url
    """Where a code or a refresh token becomes an access token."""
    authorize_url: Url | None = None
    """The page on which you allow the access, for a login in the browser or by a pasted code."""
    device_url: Url | None = None
    """Where a login by device code begins (RFC 8628)."""
    revoke_url: Url | None = None
    """Where `logout` revokes the tokens (RFC 7009)."""
    redirect_url: Url | None = None
    """A page of the server that shows a code to paste; without one, the address that the browser ends at is pasted."""
    issuer: str | None = None
    """Who must have issued the answer, where the server says so (`iss`)."""
    client_secret_env: Variable | None = None
    """The environment variable that holds the client's secret, for servers that want one."""
    scopes: list[str] = field(default_factory=list[str])
    """What access is asked for. With `openid`, the nonce in the id token is checked."""
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    """Further parameters of the page on which you allow the access. Not for secrets."""


@record
class Auth:
    """Where credentials come from beside environment variables."""

    api_key_helper: str | None = None
    """A command line of yours that prints Anthropic's key; `apiKeyHelper` in settings.json is the same."""
    api_key_helper_ttl_seconds: Amount = 300.0
    """How long its output is used, in memory only."""
    api_key_helper_timeout_seconds: Seconds = 10.0
    """How long it may take."""
    storage: Literal["auto", "keyring", "file"] = "auto"
    """Where logins are kept: the system's keyring, the encrypted file, or the first of these that works."""
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
    """The one database: conversations, memories, runs, receipts' mirror."""

    backend: Literal["sqlite", "file"] = "sqlite"
    """`file` keeps the rows as files beside `path`; so it is, with a warning, where SQLite cannot write its file."""
    path: PathText = "~/.adderclaw/memory.sqlite"
    """The file. The environment variable AGENT_SDLC_DB, an absolute path, goes before it."""


@record
class Spec:
    """Runs that work through a specification (`adderclaw run` on a SPEC.md)."""

    verify: Literal["auto", "required", "off"] = "auto"
    """Whether a session apart tries each scenario that is said to pass: `auto` where bubblewrap is the sandbox, with a
    warning where it is not; `required` does not begin without; `off` believes what is said. A project cannot loosen
    it."""
    verify_model: str | None = None
    """The entry under `providers.models`, or `entry/model`, that checks; none: the run's own."""


@record
class Checkpoints:
    """Copies of what tools change, so that it can be put back; kept in AdderClaw's own folder, never in your git."""

    enabled: bool = True
    """Keep them."""
    max_file_mb: Positive = 16
    """Larger files are not copied, and cannot be put back."""
    max_files: Positive = 50_000
    """In a workspace with more, only what a call says that it writes is kept, not what a program writes beside it."""
    max_total_mb: Positive = 1024
    """What all copies of one workspace have together at most; what comes then is noted, and cannot be put back."""
    keep_days: Positive = 30
    """How long they can be put back."""
    ignore: list[str] = field(default_factory=list[str])
    """Names of further folders and files that are left out, beside .git, node_modules, .venv, caches and the like."""


@record
class Retention:
    """How long data of old work is kept; 0: forever. docs/backup.md says what is removed and what always stays."""

    conversations_days: Count = 0
    """Messages and results of conversations."""
    conversations_mb: Count = 0
    """The same, by size: the oldest are removed first."""
    runs_days: Count = 0
    """Recordings of runs, which `replay` needs."""
    runs_mb: Count = 0
    """The same, by size."""
    model_bodies_days: Count = 0
    """Raw answers of models, and the files of `logging.debug_llm_bodies`."""
    model_bodies_mb: Count = 0
    """The same, by size."""
    logs_days: Count = 0
    """Events of runs, in the database and in their `events.jsonl`."""
    logs_mb: Count = 0
    """The same, by size."""


@record
class Receipts:
    """The tamper-evident log of tool calls."""

    enabled: bool = True
    """Write a receipt for every call."""
    path: PathText = "~/.adderclaw/tool_receipts.log"
    """The log."""


@record
class Runtime:
    """How turns and runs go."""

    profile: Profile = "sandboxed"
    """The stance of `run`; `agent` follows security.autonomy unless `--profile` is given. permissive has no sandbox."""
    max_tool_rounds: Count = 5
    """Rounds of tool calls in one turn of a chat."""
    max_turns: Count = 8
    """Decisions in one task run that works with skills. Without skills only `run --max-turns` limits the replies."""
    max_response_bytes: Positive = 1_048_576
    """Longest answer that is read from a provider or a web server."""
    tool_timeout_seconds: Seconds = 30.0
    """Time limit of a tool call that names none."""
    shell_timeout_seconds: Seconds = 15.0
    """Time limit of a command called by the name `shell`."""
    http_timeout_seconds: Seconds = 20.0
    """Time limit of a web request."""
    timeout_seconds: Seconds = 120.0
    """Time limit of a step of a task run, and of a Bash command that names none."""
    max_llm_retries: Count = 3
    """How often a model call that failed for a passing reason is tried again."""
    retry_base_delay_seconds: Amount = 1.0
    """First delay between tries; it doubles."""
    retry_max_delay_seconds: Amount = 8.0
    """Longest delay between tries."""
    quota_wait_seconds: Amount = 60.0
    """How long a call waits at most for a quota to begin anew, where the provider says when; `run --wait-for-quota`: a
    week. Where it is more than a minute, such waiting does not count for limits.seconds."""
    on_step_failure: Literal["retry_once_then_fallback_then_abort", "retry_once_then_abort", "abort"] = (
        "retry_once_then_fallback_then_abort"
    )
    """What a task run does when a script of a skill fails. The model sees a command that fails, and the run continues,
    unless this is `abort`."""
    signal_grace_seconds: Amount = 10.0
    """How long running work may take to end after SIGINT or SIGTERM."""
    shell_linux: PathText = "/bin/bash"
    """The bash that commands run in. Another shell is refused: what runs is written for bash."""
    shell_windows: str = "pwsh"
    """The PowerShell that hooks with `shell: powershell` run in, a name on PATH or a path. Commands run in bash."""
    parallel_calls: Positive = 10
    """How many tool calls of one reply may run at the same time, where they only read; 1 runs each by itself."""
    loop_warn_at: Positive = 5
    """Identical calls with identical results in a row before the model is warned."""
    loop_stop_at: Positive = 8
    """The same before the turn ends."""
    max_context_tokens: Positive = 32_000
    """Budget for the composed prompt of a task run."""
    response_headroom_tokens: Count = 2_000
    """Kept free of it for the answer."""
    structured_output_mode: Literal["native_with_json_fallback", "native", "json"] = "native_with_json_fallback"
    """How a decision is asked of the model in a task run."""


@record
class Limits:
    """What one run may use up, its children included. 0 means zero."""

    cost_usd: Amount = 5.0
    """Money, by the known prices. Once it is set, a model without a known price is refused."""
    tokens: Count = 2_000_000
    """Tokens in and out."""
    tool_calls: Count = 200
    """Tool calls; at the REPL and in `mcp serve`, those of one message or call."""
    seconds: Amount = 3600.0
    """Wall time; at the REPL and in `mcp serve`, that of one message or call."""


@record
class Subagents:
    """Child sessions: those of the Agent tool and of everything else that begins one. [limits] holds for them too."""

    max_depth: Count = 3
    """How deep sessions may begin others; 0 allows none."""
    max_concurrent: Count = 50
    """How many may run at once."""
    max_total: Count = 1_000
    """How many one run may begin."""
    max_tool_rounds: Count = 25
    """Rounds of tool calls in one turn of a child; a definition's `maxTurns` counts where it is lower."""
    result_chars: Positive = 29_000
    """Characters of a child's answer that its parent is told; Read has the whole of a longer one."""


@record
class Skills:
    """Where skills are, and how much of them the model is shown."""

    dir: WorkspacePath = "./skills"
    """Folder of skills."""
    prefilter_top_k: Positive = 8
    """Candidates that are offered to the model."""
    prefilter_min_score: Annotated[float, Between(0, 100)] = 55.0
    """Least similarity of a candidate."""
    prefilter_zero_candidate_strategy: Literal["fallback_all_skills", "fail_fast"] = "fallback_all_skills"
    """When no skill is similar enough."""
    disclosure_max_reference_bytes: Count = 120_000
    """Most bytes of references that are disclosed."""
    disclosure_max_reference_tokens: Count = 4_000
    """Most tokens of references that are disclosed."""
    inline_commands: bool = True
    """Run the commands that a skill or a command of yours, or of a trusted project, marks by `!` in its text."""


@record
class Logging:
    """What is told, and where."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level of the log on stderr."""
    jsonl_dir: WorkspacePath = "./runs"
    """Folder of run folders, each with its events.jsonl; in the workspace no command may write there."""
    run_id_pattern: str = "YYYYMMDD-HHMMSS-<short-uuid>"
    """Form of a run's id: date and time in UTC and eight random characters, with letters, digits, `-`, `_` and `.`
    around them, if any (`ci-YYYYMMDD-HHMMSS-<short-uuid>`)."""
    debug_llm_bodies: bool = False
    """Keep whole prompts and answers in the run folder."""
    sanitize_control_chars: bool = True
    """Escape control characters in whatever is shown or logged. Cannot be turned off."""
    redact_secrets: bool = True
    """Take secrets out of whatever is shown or logged. Cannot be turned off."""


@record
class Web:
    """The web tools: how often, through what, and where to search."""

    gateway_url: Url | None = None
    """Where requests of the web tools go instead of directly to their host."""
    gateway_token_env: Variable | None = None
    """The environment variable that holds the gateway's token."""
    search: Literal["searxng", "brave", "tavily", "gateway"] | None = None
    """The service that WebSearch asks; without one, the gateway where there is one, else WebSearch is not offered."""
    search_url: Url | None = None
    """Where that service is: needed for `searxng`; for `brave` and `tavily` in place of their own address."""
    search_key_env: Variable | None = None
    """The environment variable that holds the key of `brave` or `tavily`."""
    fetches_per_minute: Positive = 10
    """Pages that WebFetch asks for in a minute."""
    searches_per_minute: Positive = 5
    """Searches in a minute."""


@record
class Telemetry:
    """Records that leave for another service."""

    enabled: bool = False
    """Send them."""
    endpoint: Url | None = None
    """Where to, for `http` and `otlp`."""
    protocol: Literal["http", "otlp", "file", "noop"] = "noop"
    """How."""
    path: WorkspacePath | None = None
    """The file of JSON lines, for `file`."""
    include_content: bool = False
    """With the text of messages, redacted, instead of summaries."""
    flush_seconds: Amount = 2.0
    """How long the end of a run waits for what is left to be sent."""


MODE_AUTONOMY: dict[PermissionMode, Autonomy] = {
    "default": "supervised",
    "acceptEdits": "supervised",
    "dontAsk": "supervised",
    "plan": "supervised",
    "bypassPermissions": "full",
}
"""The autonomy that a mode stands for; what `plan` denies beyond it, it denies itself."""


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
    """What happens where no rule speaks. Yours counts in place of security.autonomy, a project's only where it is
    stricter; bypassPermissions comes from a flag or your own file alone."""
    additionalDirectories: list[PathText] = field(default_factory=list[str])
    """As security.additional_directories."""
    disableBypassPermissionsMode: Literal["disable"] | None = None
    """`disable` takes bypassPermissions away."""
    allowManagedPermissionRulesOnly: bool = False
    """The project's allow rules do not count, trusted or not."""


@record
class Compat:
    """Settings of other programs that count here, too. Only your own configuration can say so."""

    claude: bool = False
    """Your `~/.claude`: its settings.json below your own settings, its commands, skills and agents beside your own. A
    project's `.claude` needs no word here; docs/compatibility.md says what counts of both."""


@record
class Config:
    """The whole configuration."""

    workspace_dir: PathText = "~/adderclaw-workspace"
    """Where to work when the current directory belongs to no project."""
    default_provider: str = "local"
    """The entry of providers.models that is used."""
    default_model: str = "mock"
    """The model of an entry that names none."""
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
    """How long old work is kept."""
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
    """What an agent of an Agentfile REQUIRES → the entry under `providers.models`, or `entry/model`, that has it."""
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
    """Variables that commands and MCP servers have inside the sandbox. None that names what programs load, run or
    where they read their settings (PATH, LD_*, GIT_*, NODE_OPTIONS …), no endpoint and no credential."""
    permissions: Permissions = field(default_factory=Permissions)
    """Permission rules."""
    hooks: list[Json] = field(default_factory=list[dict[str, Any]])
    """Hooks, each `{hook_event_name, matcher, command}`; nested groups and lists of names are read too."""
    disableAllHooks: bool = False
    """No configured hook runs. A project's file cannot say this."""
    allowManagedHooksOnly: bool = False
    """The project's hooks do not run, trusted or not."""
    managed: Managed = field(default_factory=Managed)
    """What an administrator allows."""
    mcp_servers: dict[str, Json] = field(default_factory=dict[str, dict[str, Any]])
    """MCP servers: name → `{command, args, env}` or `{url}`, see docs/mcp.md. `mcpServers` is the same."""
