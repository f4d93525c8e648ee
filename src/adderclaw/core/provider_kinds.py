"""The table of provider kinds, one row per kind. Importing this module imports no provider.

A new kind is a name and a row here, and an adapter in `providers` if no existing one speaks its protocol. The tables in
docs/providers.md and docs/environment.md are generated from these rows (scripts/generate_reference.py).
"""

from collections.abc import Mapping
from typing import Literal

from adderclaw.core.record import NamedTuple

type Kind = Literal[
    "mock",
    "anthropic",
    "openai",
    "openai-compatible",
    "gemini",
    "openrouter",
    "ollama",
    "lm-studio",
    "reliable",
    "router",
]
type ModelAlias = tuple[str, ...]
"""The prefix of the model names, the separator of the two version numbers, and the suffixes that may follow the
version, in order of preference."""

# Kinds that other code treats specially.
ANTHROPIC: Kind = "anthropic"
LM_STUDIO: Kind = "lm-studio"
MOCK: Kind = "mock"
OLLAMA: Kind = "ollama"
OPENAI_COMPATIBLE: Kind = "openai-compatible"
OPENROUTER: Kind = "openrouter"
RELIABLE: Kind = "reliable"
ROUTER: Kind = "router"

SOCKET_VARIABLE = "ANTHROPIC_UNIX_SOCKET"
"""Variable with the path of a Unix socket that is used instead of the address of an Anthropic entry."""


class ProviderKind(NamedTuple):
    name: Kind
    adapter: str
    """module:function in `adderclaw.models.providers`, imported when a provider of this kind is created."""
    wire: str
    """What it speaks, for the table in docs/providers.md."""
    vendor: str = ""
    """Whose key and address the variables hold, for docs/environment.md."""
    key_variable: str = ""
    """Default variable of the API key; empty if the kind works without a key."""
    always_keyed: bool = False
    """Needs a key at every address. Local servers of other kinds may work without one."""
    base_url: str = ""
    """Default address, unless the entry or the variable sets one."""
    url_variable: str = ""
    suggested_url: str = ""
    """Suggested address for a kind without a default address, whose entries must set one."""
    suggested_model: str = ""
    aliases: Mapping[str, ModelAlias] = {}
    """Alias → how to find the newest model that it refers to."""
    port: int = 0
    """Default port of a local server of this kind."""
    is_free: bool = False
    """Its calls cost nothing, regardless of the model names."""
    combines: bool = False
    """It is composed of other entries."""
    routes: bool = False
    """The server uses the model that it has loaded, so an entry needs no model."""
    states_thinking: bool = False
    """Every request states how much the model should think."""
    telemetry_name: str = ""
    """Name in OpenTelemetry's conventions; empty to use the name of the entry."""
    entry_name: str = ""
    """Name of the entry that `onboard` creates; empty for the name of the kind."""

    @property
    def has_no_server(self) -> bool:
        """Whether it has no server of its own."""
        return self.name == MOCK or self.combines


KINDS = (
    ProviderKind(MOCK, "mock:make", "a script in a file", suggested_model="mock", is_free=True, entry_name="local"),
    ProviderKind(
        ANTHROPIC,
        "anthropic:make",
        "Messages",
        "Anthropic",
        "ANTHROPIC_API_KEY",
        always_keyed=True,
        base_url="https://api.anthropic.com",
        url_variable="ANTHROPIC_BASE_URL",
        suggested_model="sonnet",
        aliases={name: (f"claude-{name}-", "-", "") for name in ("opus", "sonnet", "haiku", "fable")},
        telemetry_name="anthropic",
    ),
    ProviderKind(
        "openai",
        "responses:make",
        "Responses",
        "OpenAI",
        "OPENAI_API_KEY",
        always_keyed=True,
        base_url="https://api.openai.com/v1",
        url_variable="OPENAI_BASE_URL",
        suggested_model="gpt",
        aliases={"gpt": ("gpt-", ".", "", "-sol")},
        telemetry_name="openai",
    ),
    ProviderKind(
        OPENAI_COMPATIBLE,
        "openai:make",
        "Chat Completions",
        "OpenAI",
        url_variable="OPENAI_BASE_URL",
        suggested_url="http://localhost:1234/v1",
        suggested_model="local-model",
        port=8080,  # llama.cpp's
    ),
    ProviderKind(
        "gemini",
        "gemini:make",
        "Gemini API",
        "Gemini",
        "GEMINI_API_KEY",
        always_keyed=True,
        base_url="https://generativelanguage.googleapis.com",
        url_variable="GOOGLE_GEMINI_BASE_URL",
        suggested_model="gemini",
        aliases={"gemini": ("gemini-", ".", "-argon", "-pro", "-pro-preview", "-flash")},
        states_thinking=True,
        telemetry_name="gcp.gemini",
    ),
    ProviderKind(
        OPENROUTER,
        "openai:make",
        "Chat Completions",
        "OpenRouter",
        "OPENROUTER_API_KEY",
        base_url="https://openrouter.ai/api/v1",
        suggested_model="openrouter/auto",
        states_thinking=True,
        telemetry_name="openrouter",
    ),
    ProviderKind(
        OLLAMA,
        "openai:make",
        "Chat Completions",
        "Ollama",
        base_url="http://127.0.0.1:11434/v1",
        port=11434,
        is_free=True,
        telemetry_name="ollama",
    ),
    ProviderKind(
        LM_STUDIO,
        "openai:make",
        "Chat Completions",
        "LM Studio",
        base_url="http://127.0.0.1:1234/v1",
        url_variable="LM_STUDIO_BASE_URL",
        suggested_model="local-model",
        port=1234,
        is_free=True,
        routes=True,
        telemetry_name="lm-studio",
    ),
    ProviderKind(RELIABLE, "combine:reliable", "other entries", combines=True),
    ProviderKind(ROUTER, "combine:router", "other entries", combines=True),
)
BY_NAME: dict[str, ProviderKind] = {kind.name: kind for kind in KINDS}
KEY_VARIABLES: dict[str, str] = {kind.name: kind.key_variable for kind in KINDS if kind.key_variable}
"""Kind that needs a key → its default variable."""
