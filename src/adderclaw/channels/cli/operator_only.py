"""Which commands give an operator's consent: no tool of an agent may start them."""

from collections.abc import Mapping, Sequence

from adderclaw.record import NamedTuple


class Consent(NamedTuple):
    what: str
    """What is decided."""
    only_with: frozenset[str] = frozenset()
    """It is only a decision with one of these options; empty: always."""
    unless: frozenset[str] = frozenset()
    """It only shows something with one of these."""


_LOOKS = frozenset({"--dry-run"})
CONSENTS: Mapping[tuple[str, ...], Consent] = {
    ("trust",): Consent("Trusting a project", unless=frozenset({"--list", "--show", "--revoke"})),
    ("plugin", "install"): Consent("Installing a plugin", unless=_LOOKS),
    ("plugin", "enable"): Consent("Trusting a plugin"),
    ("mcp", "approve"): Consent("Approving the tools of a server"),
    ("later", "accept"): Consent("Accepting what other programs run later"),
    ("estop",): Consent("Lifting the emergency stop", only_with=frozenset({"--clear"})),
    ("approvals", "answer"): Consent("Answering a question"),
    ("sop", "approve"): Consent("Approving a step"),
    ("schedule", "approve"): Consent("Approving what a schedule begins"),
    ("schedule", "resume"): Consent("Letting a schedule begin work"),
    ("spec", "sync"): Consent("Accepting other steps of a scenario"),
    ("spec", "deprecate"): Consent("Deprecating a scenario"),
    ("sdlc", "approve"): Consent("Approving a plan or a report"),
    ("sdlc", "transition"): Consent("Moving a conversation to another phase"),
    ("sdlc", "test"): Consent("Withdrawing a test", only_with=frozenset({"--withdraw"})),
    ("config", "set"): Consent("Changing a setting"),
    ("config", "unset"): Consent("Changing a setting"),
    ("models", "refresh"): Consent("Accepting lower prices", only_with=frozenset({"--accept-lower-prices"})),
    ("token", "create"): Consent("Creating a token of the server"),
    ("channel", "secret"): Consent("Setting the secret of a channel"),
    ("fleet", "approve"): Consent("Answering a run of the fleet"),
    ("fleet", "enroll"): Consent("Enrolling a key of the fleet"),
    ("fleet", "init"): Consent("Setting up the roles of the fleet", unless=_LOOKS),
    ("fleet", "resume"): Consent("Lifting the stop of the fleet"),
    ("fleet", "budget"): Consent("Setting a budget of the fleet"),
    ("fleet", "pace"): Consent("Setting the pace of the fleet"),
}
"""What other channels offer of these is refused where it is carried out (`channels/sdlc`, `channels/proof`,
`hosted/questions`)."""


def require(arguments: Sequence[str]) -> None:
    """Raises DeniedError where these words give an operator's consent and a tool of an agent started them."""
    found = CONSENTS.get(tuple(arguments[:1])) or CONSENTS.get(tuple(arguments[:2]))
    if found is None:
        return
    options = {word.partition("=")[0] for word in arguments}
    if "--help" in options or options & found.unless or (found.only_with and not options & found.only_with):
        return
    from adderclaw.sandbox.operator_only import require_operator

    require_operator(found.what)
