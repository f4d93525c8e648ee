"""Sends a notice to a URL: signed if a secret is configured, in the format that the receiver expects."""

from base64 import b64encode
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from adderclaw.agent.notices.letter import Letter, Undelivered
from adderclaw.config.notice_targets import address, is_loopback
from adderclaw.core.errors import AdderClawError, PathRefused
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import Secrets
from adderclaw.storage.text import compact

ANSWER_BYTES = 65_536
"""The maximum number of bytes read of an answer; only its status is used."""
LATER = frozenset({408, 409, 425, 429})
"""Status codes that mean: try again later."""
MOST_WAIT = 3_600.0
"""The maximum number of seconds that a receiver may delay the next attempt."""
DISCORD = 1_900
SLACK = 3_000
TAGS = {"needs_you": "raised_hand", "done": "white_check_mark", "estop": "octagonal_sign"}


class Content(NamedTuple):
    body: bytes
    headers: dict[str, str]


def content(letter: Letter) -> Content:
    """The request's body and headers, in the receiver's format."""
    match letter.target.format:
        case "json":
            kind = str(letter.body.get("kind", ""))
            body = {"type": f"notice.{kind}", "timestamp": letter.body.get("time", ""), "data": letter.as_json()}
            return _json(body)
        case "slack":
            text = f"*{_slack(letter.title)}*\n{_slack(letter.text)}"
            return _json({"text": text[:SLACK]})
        case "discord":
            text = f"**{letter.title}**\n{letter.text}"
            return _json({"content": text[:DISCORD], "allowed_mentions": {"parse": []}})
        case "ntfy":
            return _ntfy(letter)
        case "text":
            return Content(f"{letter.title}\n{letter.text}\n".encode(), {"content-type": "text/plain; charset=utf-8"})


def _json(value: object) -> Content:
    return Content(compact(value).encode(), {"content-type": "application/json"})


def _slack(text: str) -> str:
    """The text escaped, so that Slack finds no mentions or links in it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _ntfy(letter: Letter) -> Content:
    """The headers must be ASCII; ntfy decodes a title that is encoded like a mail header."""
    title = " ".join(letter.title.split())
    if not title.isascii():
        title = f"=?UTF-8?B?{b64encode(title.encode()).decode()}?="
    headers = {
        "content-type": "text/plain; charset=utf-8",
        "title": title,
        "priority": "high" if letter.urgent else "default",
        "tags": TAGS.get(str(letter.body.get("kind", "")), "bell"),
    }
    if letter.link:
        headers["click"] = letter.link
    return Content(letter.text.encode(), headers)


async def deliver(letter: Letter) -> None:
    """Post the notice; an answer 2xx means that it arrived. Redirects are not followed."""
    import ssl

    from adderclaw.models.http import signing
    from adderclaw.models.http.client import Failed, request
    from adderclaw.models.http.urls import Hosts, NotListed, parse

    url, target = letter.parts.get("url", ""), letter.target
    secrets = Secrets()
    for part in letter.parts.values():
        secrets.add(part)
    secrets.add(urlsplit(url).path if len(urlsplit(url).path) > 1 else "")
    if why := address(url):
        raise Undelivered(f"the address {why}", again=False)
    body, host = content(letter), urlsplit(url).hostname or ""
    try:
        host_fact = parse(url, "POST")
        trust = ssl.create_default_context(cafile=target.ca_file) if target.ca_file else None
        hosts = Hosts.named_by_operator(host_fact) if target.private or is_loopback(host_fact.host) else Hosts()
        headers = {"user-agent": "adderclaw", **body.headers}
        if token := letter.parts.get("token"):
            headers["authorization"] = f"Bearer {token}"
        if secret := letter.parts.get("secret"):
            headers |= signing.headers(secret.split(), body.body, id=letter.id, now=letter.now)
        else:
            headers["webhook-id"] = letter.id
        seconds = target.timeout_seconds
        answer = await request(
            host_fact, headers=headers, hosts=hosts, seconds=seconds, limit=ANSWER_BYTES, content=body.body, trust=trust
        )
    except NotListed as error:
        why = f"{secrets.redact(error.why)}; set private = true for this target to allow it"
        raise Undelivered(why, again=False) from None
    except PathRefused as error:
        raise Undelivered(secrets.redact(str(error)), again=False) from None
    except (Failed, OSError) as error:
        raise Undelivered(f"{host} could not be reached: {secrets.redact(str(error))}") from None
    except AdderClawError as error:
        raise Undelivered(secrets.redact(str(error)), again=False) from None
    _judge(host, answer.status, answer.headers.get("retry-after", ""), letter.now)


def _judge(host: str, status: int, wait: str, now: float) -> None:
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise Undelivered(f"{host} redirects ({status}), which is not followed; set the final address", again=False)
    later = status in LATER or status >= 500
    raise Undelivered(f"{host} answered {status}", again=later, after=_seconds(wait, now) if later else 0.0)


def _seconds(text: str, now: float) -> float:
    """The wait that a Retry-After header asks for, given as seconds or a date."""
    try:
        seconds = float(text) if text.replace(".", "", 1).isdigit() else parsedate_to_datetime(text).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), MOST_WAIT)
