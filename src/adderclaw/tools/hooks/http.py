"""One HTTP hook: its input posted to the operator's own address; only what answers 2xx has a say."""

import re
from collections.abc import Mapping

from adderclaw.core.errors import PathRefused
from adderclaw.tools.hooks.answers import Ran
from adderclaw.tools.hooks.process import STREAM_BYTES, TRUNCATED, decoded
from adderclaw.tools.hooks.settings import Hook

_VARIABLE = r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))"


async def post(hook: Hook, body: str, environ: Mapping[str, str]) -> Ran:
    """A status cannot block, and neither can a failure: what does not come through is only logged."""
    from adderclaw.models.http.client import Failed, exchange
    from adderclaw.models.http.urls import Hosts, parse

    try:
        target = parse(hook.command, "POST")
        headers = {"content-type": "application/json", "accept": "application/json", **headers_of(hook, environ)}
        answer = await exchange(target, headers, body.encode(), Hosts.named_by_operator(target), STREAM_BYTES)
    except (PathRefused, Failed) as error:
        return Ran(None, stderr=f"not answered: {error}")
    text = decoded(answer.body, cut=answer.cut)
    if not 200 <= answer.status < 300:
        return Ran(None, text, f"answered {answer.status} {answer.reason}".strip())
    if text.strip() and not text.strip().startswith("{"):
        return Ran(None, text, "answered something that is no JSON object")
    return Ran(0, text, is_cut=text.endswith(TRUNCATED))


def headers_of(hook: Hook, environ: Mapping[str, str]) -> dict[str, str]:
    """The headers, in which a variable is filled in only if the hook lists it by name."""
    allowed = hook.more.get("allowedEnvVars", [])

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return environ.get(name, "") if name in allowed else ""

    given: Mapping[str, str] = hook.more.get("headers", {})
    return {name: re.sub(_VARIABLE, value, text) for name, text in given.items()}
