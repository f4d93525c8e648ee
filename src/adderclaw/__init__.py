"""AdderClaw: a local-first agent runtime with one policy, one sandbox and one ledger.

`from adderclaw import AgentClient, QueryOptions` is how another Python program uses it; see docs/python.md.
"""

__version__ = "0.1.0"

_API, _SECURITY = "adderclaw.clients.python.agent_client", "adderclaw.clients.python.bash_security"
_SCENARIOS, _QUERY = "adderclaw.flows.spec.scenarios", "adderclaw.core.query"
_MESSAGES = ("AssistantMessage", "PartialMessage", "ResultMessage", "SystemMessage", "UserMessage")
_NAMES = {
    **dict.fromkeys(("AgentClient", "Query", "run_channel"), _API),
    **dict.fromkeys(("Channel", "Handle"), "adderclaw.clients.python.channel"),
    **dict.fromkeys(("Answer", "ApprovalRequest"), "adderclaw.core.questions"),
    **dict.fromkeys(("QueryOptions", *_MESSAGES), _QUERY),
    **dict.fromkeys(("BashSecurity", "ValidationResult"), _SECURITY),
    **dict.fromkeys(("Session", "SessionOptions", "SessionResult", "StatusTool"), _SCENARIOS),
    **dict.fromkeys(("initializer_prompt", "coding_prompt"), _SCENARIOS),
}


def __getattr__(name: str) -> object:
    """The API is imported when it is first asked for: `import adderclaw` stays free."""
    if name not in _NAMES:
        raise AttributeError(f"module 'adderclaw' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_NAMES[name]), name)
