"""Programs that reach other machines: only this one, or a host that the operator allows, and no file is sent."""

import itertools
import re

from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, Options
from adderclaw.policy.legacy.programs.objections import Ask, Objection, Words, harmful, unknown
from adderclaw.policy.legacy.programs.options import parse, without_pairs

LOOPBACK = r"(?i)localhost|127\.0\.0\.1|\[?::1\]?|0\.0\.0\.0|[a-z0-9-]+\.localhost"
_URL = r"(?i)(?:(https?)://)?(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::(\d{1,5}))?(?:[/?#].*)?"


def judged(words: Words, ask: Ask) -> Objection | None:
    """Curl and wget: plain options, every URL at this machine or at an allowed host."""
    name = words[0].rsplit("/", 1)[-1]
    options = PROGRAMS[name]
    if name == "curl":
        words = without_pairs(words, "-D|--dump-header", "-")
    found = parse(words[1:], options.options)
    if found.strange:
        given = found.strange[0].split("=", 1)[0]
        return harmful(given) if given in options.harmful else unknown(found.strange[0])
    if any(re.match(r"@|[^=]*=@|[^=]*@/", text) for text in data(words[1:])):
        return Objection("it would send a file")
    if name == "wget" and not found.given & {"-O", "--output-document", "--spider", "-V", "--version", "-h", "--help"}:
        return Objection("wget without -O- or --spider writes a file that nobody named")
    if not found.operands:
        asked = found.given & {"-V", "--version", "-h", "--help"}
        return None if asked else Objection(f"{name} without an address")
    for url in found.operands:
        refused = address(name, url, ask.domains)
        if refused is not None:
            return refused
    return None


def knocks(words: Words, _ask: Ask) -> Objection | None:
    """Nc: only whether something listens at a port of this machine."""
    found = parse(words[1:], PROGRAMS["nc"].options)
    host, *ports = found.operands or ("",)
    if found.strange or "-z" not in found.given or not re.fullmatch(LOOPBACK, host):
        return Objection("it does more than ask whether a port of this machine is open: nc -z localhost", outside=True)
    plain = len(ports) == 1 and re.fullmatch(r"\d{1,5}(?:-\d{1,5})?", ports[0])
    return None if plain else Objection("nc without a port")


def data(words: Words) -> list[str]:
    """What the options that send something are given."""
    found: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        if re.fullmatch(r"-[A-Za-z]*d|--(?:data|data-urlencode|json)|-[A-Za-z]*H|--header", before):
            found.append(word)
        match = re.match(r"--(?:data|data-urlencode|json|header)=(.*)|-[A-Za-z]*?[dH](.+)", word, re.DOTALL)
        if match and word.startswith("-"):
            found.append(match[1] or match[2] or "")
    return found


def address(name: str, url: str, domains: Words) -> Objection | None:
    """Why an address is not asked: it is neither this machine nor a host that the operator allows."""
    match = re.fullmatch(_URL, url)
    if match is None or "@" in url.split("?", 1)[0] or "\\" in url or re.search(r"[{}\[\]]", url[len(match[2]) + 8 :]):
        return Objection(f"{url} is not a plain address")
    host = match[2].casefold().rstrip(".")
    if re.fullmatch(LOOPBACK, host) or is_allowed(host, domains):
        return None
    return Objection(f"{name} asks {host}: use WebFetch, or add it to [security] allowed_domains", outside=True)


def is_allowed(host: str, domains: Words) -> bool:
    from adderclaw.policy.hosts import covers

    return any(covers(domain, host, 443) for domain in domains)


_LISTENS = ("--bind", "--ip", "--server.address")
"""Options by which a server is told where to listen: at this machine alone."""


def elsewhere(words: Words, options: Options) -> Objection | None:
    """A value of an option that names a host, where only this machine may be asked."""
    for name in sorted(options.local):
        for value in values(words, name):
            hosts = re.findall(r"(?:host(?:addr)?=|://(?:[^@/]*@)?)([^\s:/?,]+)", value)
            plain = value if re.fullmatch(r"[\w.-]*", value) and name in ("-h", "--host", "-H", *_LISTENS) else ""
            for host in (*hosts, *((plain,) if plain else ())):
                if not re.fullmatch(LOOPBACK, host) or (name in _LISTENS and host == "0.0.0.0"):
                    return Objection(f"{host} is another machine", outside=True)
    return None


def values(words: Words, *names: str) -> list[str]:
    """What an option is given, wherever it stands; `operands` are the words that are no options."""
    found: list[str] = []
    for name in names:
        if name == "operands":
            found += [word for word in words if not word.startswith("-")]
            continue
        found += [after for word, after in itertools.pairwise(words) if word == name]
        found += [word[len(name) + 1 :] for word in words if word.startswith(f"{name}=")]
        if len(name) == 2:
            found += [word[2:] for word in words if word.startswith(name) and len(word) > 2]
    return found
