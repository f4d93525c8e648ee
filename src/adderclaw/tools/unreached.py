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


def found_none(done: Finished) -> bool:
    """Whether it says itself that it found no network."""
    return any(UNREACHED.search(out[-65_536:]) is not None for out in (done.stderr, done.stdout))
