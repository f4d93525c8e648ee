"""A command that wanted the network and found none: how that is known, and what its result says of it."""

import re

from adderclaw.sandbox.process import Finished

UNREACHED = re.compile(
    rb"EAI_AGAIN|ENOTFOUND|ENETUNREACH|getaddrinfo|[Nn]ame resolution|[Cc]ould not resolve|Name or service not known"
    rb"|Network is unreachable|not in security\.allowed_domains|(?i:tunnel)[^\n]{0,80}(?:403|failed)|dns error"
    rb"|lookup [^\n]{1,200}(?:no such host|refused|misbehaving)|No address associated with hostname"
)
NO_NETWORK = (
    "adderclaw: it found no network: commands reach only the hosts of [security] allowed_domains and, when the user "
    "is asked about a package manager and lets them in, those of [security] registries"
)

UNKNOWN = re.compile(
    rb"\bE401\b|\b401 (?:Client )?(?:Error|Unauthorized)|status code(?: is)? 401|status client error \(401"
)
NO_LOGIN = (
    "adderclaw: a server asked for a login (401), and commands in the sandbox have none: the tokens of the user's own "
    ".npmrc, pip.conf and uv.toml stay outside"
)


def note(done: Finished, *, refused: bool) -> str:
    """What its result says of the network, where it was refused a host or says itself that it lacked one."""
    ends = tuple(out[-65_536:] for out in (done.stderr, done.stdout))
    if refused or any(map(UNREACHED.search, ends)):
        return NO_NETWORK
    return NO_LOGIN if any(map(UNKNOWN.search, ends)) else ""
