"""Recognizes commands that failed for lack of network or login, and explains it in their result."""

import re

from adderclaw.sandbox.process import Finished

NETWORK_ERROR = re.compile(
    rb"EAI_AGAIN|ENOTFOUND|ENETUNREACH|getaddrinfo|[Nn]ame resolution|[Cc]ould not resolve|Name or service not known"
    rb"|Network is unreachable|not in security\.allowed_domains|(?i:tunnel)[^\n]{0,80}(?:403|failed)|dns error"
    rb"|lookup [^\n]{1,200}(?:no such host|refused|misbehaving)|No address associated with hostname"
)
NO_NETWORK = (
    "adderclaw: the command had no network access. Commands reach only the hosts in [security] allowed_domains and, if "
    "the user approves a package manager, those in [security] registries"
)

LOGIN_ERROR = re.compile(
    rb"\bE401\b|\b401 (?:Client )?(?:Error|Unauthorized)|status code(?: is)? 401|status client error \(401"
)
NO_LOGIN = (
    "adderclaw: a server asked for a login (401). Commands in the sandbox have none: the tokens in the user's .npmrc, "
    "pip.conf and uv.toml are not available to them"
)


def network_note(done: Finished, *, refused: bool) -> str:
    """The note for a command that was refused a host or whose output reports a network or login error; else empty."""
    ends = tuple(out[-65_536:] for out in (done.stderr, done.stdout))
    if refused or any(map(NETWORK_ERROR.search, ends)):
        return NO_NETWORK
    return NO_LOGIN if any(map(LOGIN_ERROR.search, ends)) else ""
