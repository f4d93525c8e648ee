"""Programs of every system of whose words more is to be said than a table can: dates, modes, processes, archives."""

import re
from collections.abc import Callable
from itertools import pairwise

from adderclaw.policy.legacy.programs import languages, patches
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS
from adderclaw.policy.legacy.programs.objections import Ask, Objection, Words
from adderclaw.policy.legacy.programs.options import parse
from adderclaw.policy.legacy.programs.tabled import by_table


def _chmod(words: Words, _ask: Ask) -> Objection | None:
    mode = next((word for word in words[1:] if not re.fullmatch(r"-[Rvcf]+|--\w+", word)), "")
    if not re.fullmatch(r"0?[0-7]{3}|[ugoa]*[+=-][rwxX]*(,[ugoa]*[+=-][rwxX]*)*", mode):
        return Objection(f"the mode {mode} is not a plain one")
    return by_table("chmod", tuple(word for word in words if word != mode), PROGRAMS["chmod"])


def _kill(words: Words, _ask: Ask) -> Objection | None:
    """A signal to processes of one's own: never to all, to a group, or to the first process."""
    rest = words[1:]
    if rest[:1] in (("-l",), ("-L",)):
        return None
    if rest[:1] in (("-s",), ("-n",)) and len(rest) > 1:
        rest = (f"-{rest[1]}", *rest[2:])
    if rest and re.fullmatch(r"-(\d{1,2}|(SIG)?[A-Z]{3,5}\d?)", rest[0]):
        rest = rest[1:]
    if rest and all(re.fullmatch(r"[1-9]\d*|%\d+|\$!|\"?\$\{?\w+\}?\"?", pid) and pid != "1" for pid in rest):
        return None
    return Objection("kill takes the numbers of processes")


_OWN_PROCESSES = r"(?i).*adder.*|.*claw.*|python[\d.]*|bash|sh|zsh|bwrap|systemd|init|sshd|dbus.*|[^\w]*|.{1,2}"


def _pkill(words: Words, _ask: Ask) -> Objection | None:
    name = words[0].rsplit("/", 1)[-1]
    plain = tuple(word for word in words if not re.fullmatch(r"-(\d{1,2}|(SIG)?[A-Z]{3,5})", word))
    found = parse(plain[1:], PROGRAMS[name].options)
    for word in found.operands:
        if re.fullmatch(_OWN_PROCESSES, word) or not re.fullmatch(r"[\w ./:@=-]+", word):
            return Objection(f"{word} may be a process that is not of this work")
    if not found.operands:
        return Objection(f"{name} without a name")
    return by_table(name, plain, PROGRAMS[name])


def _tar(words: Words, _ask: Ask) -> Objection | None:
    """What an archive unpacks is among the facts of the call: here only the options count."""
    plain = languages.tar_words(words)
    if plain is None:
        return Objection("tar with these letters is not looked through")
    found = parse(plain[1:], PROGRAMS["tar"].options)
    if any(":" in value for value in found.values):
        return Objection("an archive on another host", outside=True)
    return by_table("tar", plain, PROGRAMS["tar"])


def _patch(words: Words, ask: Ask) -> Objection | None:
    """What a patch changes is among the facts of the call; here it counts that it is one that can be looked at."""
    found = parse(words[1:], PROGRAMS["patch"].options)
    if ask.stdin is not None and not patches.is_plain(ask.stdin):
        return Objection("the patch may run something or make a link")
    named = found.given & {"-i", "--input"} or len(found.operands) == 2 or ask.stdin is not None or ask.fed
    if not named and not found.strange:
        return Objection("a patch from standard input cannot be looked at: name its file with -i")
    if any(map(languages.is_piped, (*found.values, *found.operands))):
        return Objection("a patch from standard input cannot be looked at: name its file with -i")
    return by_table("patch", words, PROGRAMS["patch"])


def _ps(words: Words, _ask: Ask) -> Objection | None:
    """Without a dash, `e` shows the environment of each process."""
    for before, word in pairwise(words):
        value = re.fullmatch(r"-\w*[oOpCuUgtq]|\w*[oOpUt]|--[\w-]+", before) and before != words[0]
        if re.search(r"(?i)environ", word) or (not value and re.fullmatch(r"[a-zA-Z]*e[a-zA-Z]*", word)):
            return Objection("ps would show the environments of processes")
    return None


SPECIAL: dict[str, Callable[[Words, Ask], Objection | None]] = {
    "chmod": _chmod,
    "kill": _kill,
    **dict.fromkeys(("pkill", "killall"), _pkill),
    "tar": _tar,
    "patch": _patch,
    "ps": _ps,
}
