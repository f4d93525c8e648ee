"""HTTP hooks: posts the event to the operator's URL; only a 2xx response can decide anything."""

import re
from collections.abc import Mapping

from adderclaw.core.errors import PathRefused
from adderclaw.tools.hooks.answers import HookRun
from adderclaw.tools.hooks.process import STREAM_BYTES, TRUNCATED, decode_output
from adderclaw.tools.hooks.settings import Hook

_VARIABLE = r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))"


async def post_hook(hook: Hook, body: str, environ: Mapping[str, str]) -> HookRun:
    """Posts the event. An error status or a failed request cannot block; it is only logged."""
    from adderclaw.models.http.client import Failed, exchange
    from adderclaw.models.http.urls import Hosts, parse

    try:
        target = parse(hook.command, "POST")
        headers = {"content-type": "application/json", "accept": "application/json", **request_headers(hook, environ)}
        answer = await exchange(target, headers, body.encode(), Hosts.named_by_operator(target), STREAM_BYTES)
    except (PathRefused, Failed) as error:
        return HookRun(None, stderr=f"not answered: {error}")
    text = decode_output(answer.body, cut=answer.cut)
    if not 200 <= answer.status < 300:
        return HookRun(None, text, f"answered {answer.status} {answer.reason}".strip())
    if text.strip() and not text.strip().startswith("{"):
        return HookRun(None, text, "answered something that is not a JSON object")
    return HookRun(0, text, is_cut=text.endswith(TRUNCATED))


def request_headers(hook: Hook, environ: Mapping[str, str]) -> dict[str, str]:
    """The hook's headers. A variable is filled in only if the hook lists it in allowedEnvVars."""
    allowed = hook.more.get("allowedEnvVars", [])

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return environ.get(name, "") if name in allowed else ""

    templates: Mapping[str, str] = hook.more.get("headers", {})
    return {name: re.sub(_VARIABLE, value, text) for name, text in templates.items()}
