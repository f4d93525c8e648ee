"""The commands that give an operator's consent. No tool of an agent may run them."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from adderclaw.core.record import NamedTuple


class Consent(NamedTuple):
    what: str
    """What the operator consents to."""
    only_with: frozenset[str] = frozenset()
    """The command is a consent only with one of these options; empty: always."""
    unless: frozenset[str] = frozenset()
    """With one of these options the command only shows something."""


_LOOKS = frozenset({"--dry-run"})
CONSENTS: Mapping[tuple[str, ...], Consent] = {
    ("trust",): Consent("Trusting a project", unless=frozenset({"--list", "--show", "--revoke"})),
    ("plugin", "install"): Consent("Installing a plugin", unless=_LOOKS),
    ("plugin", "enable"): Consent("Trusting a plugin"),
    ("mcp", "approve"): Consent("Approving the tools of a server"),
    ("mcp", "add"): Consent("Adding a server"),
    ("later", "accept"): Consent("Accepting what other programs run later"),
    ("estop",): Consent("Lifting the emergency stop", only_with=frozenset({"--clear"})),
    ("approvals", "answer"): Consent("Answering a question"),
    ("sop", "approve"): Consent("Approving a step"),
    ("schedule", "add"): Consent("Adding a schedule", unless=_LOOKS),
    ("schedule", "approve"): Consent("Approving what a schedule begins"),
    ("schedule", "resume"): Consent("Letting a schedule begin work"),
    ("spec", "sync"): Consent("Accepting other steps of a scenario"),
    ("spec", "deprecate"): Consent("Deprecating a scenario"),
    ("sdlc", "approve"): Consent("Approving a plan or a report"),
    ("sdlc", "transition"): Consent("Moving a conversation to another phase"),
    ("sdlc", "test"): Consent("Withdrawing a test", only_with=frozenset({"--withdraw"})),
    ("onboard",): Consent("Changing the settings"),
    ("config", "set"): Consent("Changing a setting"),
    ("config", "unset"): Consent("Changing a setting"),
    ("models", "refresh"): Consent("Accepting lower prices", only_with=frozenset({"--accept-lower-prices"})),
    ("memory", "confirm"): Consent("Confirming a note"),
    ("restore",): Consent("Restoring a home"),
    ("dashboard",): Consent("Logging in to the server"),
    ("attach",): Consent("Working at the server"),
    ("token", "create"): Consent("Creating a token of the server"),
    ("channel", "secret"): Consent("Setting the secret of a channel"),
    ("fleet", "approve"): Consent("Answering a run of the fleet"),
    ("fleet", "enroll"): Consent("Enrolling a key of the fleet"),
    ("fleet", "worker"): Consent("Enrolling a key of the fleet", only_with=frozenset({"--enroll"})),
    ("fleet", "webhook"): Consent("Choosing who answers runs of the fleet", unless=frozenset({"--remove"})),
    ("fleet", "init"): Consent("Setting up the roles of the fleet"),
    ("fleet", "resume"): Consent("Lifting the stop of the fleet"),
    ("fleet", "budget"): Consent("Setting a budget of the fleet"),
    ("fleet", "pace"): Consent("Setting the pace of the fleet"),
}
"""Other channels refuse these where they are carried out (`flows/sdlc/conversation_phase`,
`flows/sdlc/coverage`, `agent/conversation/questions`)."""


def guard_command(command: Any, path: tuple[str, ...] = ()) -> None:
    """Makes a typer command and its subcommands raise DeniedError when they would give an operator's consent in
    a process started by an agent's tool. It checks what typer parsed, so that no spelling gets around it."""
    for name, subcommand in getattr(command, "commands", {}).items():
        guard_command(subcommand, (*path, name))
    if (consent := CONSENTS.get(path)) is not None:
        command.invoke = functools.partial(_guarded_invoke, consent, command.invoke)


def _guarded_invoke(consent: Consent, invoke: Callable[[Any], Any], context: Any) -> Any:
    options = {
        option
        for parameter in context.command.params
        if context.params.get(parameter.name) not in (None, False)
        for option in parameter.opts
    }
    if not options & consent.unless and (not consent.only_with or options & consent.only_with):
        from adderclaw.sandbox.operator_only import require_operator

        require_operator(consent.what)
    return invoke(context)
