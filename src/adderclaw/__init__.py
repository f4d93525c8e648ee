"""AdderClaw: a local-first agent runtime with one gate, one sandbox and one ledger.

`from adderclaw import AgentClient, QueryOptions` is how another Python program uses it; see docs/python.md.
"""

__version__ = "0.1.0"

_API = "adderclaw.channels.python"
_NAMES = frozenset(
    (
        "AgentClient",
        "AssistantMessage",
        "PartialMessage",
        "Query",
        "QueryOptions",
        "ResultMessage",
        "SystemMessage",
        "UserMessage",
    )
)


def __getattr__(name: str) -> object:
    """The API is imported when it is first asked for: `import adderclaw` stays free."""
    if name not in _NAMES:
        raise AttributeError(f"module 'adderclaw' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_API), name)
