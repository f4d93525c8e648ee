"""What other code needs to know about each kind of provider, as one row per kind; importing this imports no provider.

A new kind is a name and a row here, and its adapter in `providers`.
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
"""How the names of the models begin, what separates the two numbers of a version, and what may follow the version, of
several the first."""

# Kinds that other code treats in a way of their own.
ANTHROPIC: Kind = "anthropic"
LM_STUDIO: Kind = "lm-studio"
MOCK: Kind = "mock"
OLLAMA: Kind = "ollama"
OPENAI_COMPATIBLE: Kind = "openai-compatible"
OPENROUTER: Kind = "openrouter"
RELIABLE: Kind = "reliable"
ROUTER: Kind = "router"

SOCKET_VARIABLE = "ANTHROPIC_UNIX_SOCKET"
"""Names a socket on which a model server listens instead of the address of an Anthropic entry."""


class ProviderKind(NamedTuple):
    name: Kind
    adapter: str
    """module:function in `adderclaw.models.providers`, imported when a provider of this kind is made."""
    key_variable: str = ""
    """Where the key is unless the entry names a variable; empty if the kind can do without a key."""
    always_keyed: bool = False
    """It needs a key at every address; servers of other kinds on this machine may do without."""
    base_url: str = ""
    """Its address, unless the entry or the variable names one."""
    url_variable: str = ""
    suggested_url: str = ""
    """For a kind that has no address of its own: then the entry needs one."""
    suggested_model: str = ""
    aliases: Mapping[str, ModelAlias] = {}
    """Name → the newest model that it stands for."""
    port: int = 0
    """Where such a server listens on this machine."""
    is_free: bool = False
    """Nobody bills its calls, whatever its models are called."""
    combines: bool = False
    """It is made of other entries."""
    routes: bool = False
    """The server chooses the model that it has loaded, so an entry needs none."""
    tells_thinking: bool = False
    """Every request says how much the model is to think."""
    telemetry_name: str = ""
    """In OpenTelemetry's conventions; a kind without one is called like its entry."""
    entry_name: str = ""
    """What `onboard` calls its entry; empty for the name of the kind."""

    @property
    def asks_nobody(self) -> bool:
        """No server is behind it, at least none of its own."""
        return self.name == MOCK or self.combines


KINDS = (
    ProviderKind(MOCK, "mock:make", suggested_model="mock", is_free=True, entry_name="local"),
    ProviderKind(
        ANTHROPIC,
        "anthropic:make",
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
        url_variable="OPENAI_BASE_URL",
        suggested_url="http://localhost:1234/v1",
        suggested_model="local-model",
        port=8080,  # llama.cpp's
    ),
    ProviderKind(
        "gemini",
        "gemini:make",
        "GEMINI_API_KEY",
        always_keyed=True,
        base_url="https://generativelanguage.googleapis.com",
        url_variable="GOOGLE_GEMINI_BASE_URL",
        suggested_model="gemini",
        aliases={"gemini": ("gemini-", ".", "-argon", "-pro", "-pro-preview", "-flash")},
        tells_thinking=True,
        telemetry_name="gcp.gemini",
    ),
    ProviderKind(
        OPENROUTER,
        "openai:make",
        "OPENROUTER_API_KEY",
        base_url="https://openrouter.ai/api/v1",
        suggested_model="openrouter/auto",
        tells_thinking=True,
        telemetry_name="openrouter",
    ),
    ProviderKind(
        OLLAMA,
        "openai:make",
        base_url="http://127.0.0.1:11434/v1",
        port=11434,
        is_free=True,
        telemetry_name="ollama",
    ),
    ProviderKind(
        LM_STUDIO,
        "openai:make",
        base_url="http://127.0.0.1:1234/v1",
        url_variable="LM_STUDIO_BASE_URL",
        suggested_model="local-model",
        port=1234,
        is_free=True,
        routes=True,
        telemetry_name="lm-studio",
    ),
    ProviderKind(RELIABLE, "combine:reliable", combines=True),
    ProviderKind(ROUTER, "combine:router", combines=True),
)
BY_NAME: dict[str, ProviderKind] = {kind.name: kind for kind in KINDS}
KEY_VARIABLES: dict[str, str] = {kind.name: kind.key_variable for kind in KINDS if kind.key_variable}
"""Kind that cannot do without a key → where it is unless the entry says otherwise."""
