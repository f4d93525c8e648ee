"""Git: which of its commands the list takes, by the options of each and by what their words name."""

import re

from adderclaw.policy.legacy.programs.allowlist import PROGRAMS
from adderclaw.policy.legacy.programs.objections import Ask, Objection, Words
from adderclaw.policy.legacy.programs.options import parse
from adderclaw.policy.legacy.programs.tabled import by_command
from adderclaw.policy.legacy.programs.wrappers import Wrapped, bisects, wrapped


def command_of(words: Words) -> tuple[str, Words, str]:
    """The command that git is given, what follows it, and an option before it that is not taken."""
    before = parse(_without_settings(words[1:]), PROGRAMS["git"].before, until_operand=True)
    command, *rest = before.operands or ("",)
    return command, tuple(rest), before.strange[0] if before.strange else ""


def _without_settings(words: Words) -> Words:
    """Without settings for this one command that are known to do no harm; git reads its words from the left."""
    kept: list[str] = []
    rest = list(words)
    while rest and rest[0].startswith("-"):
        if rest[0] == "-c" and len(rest) > 1 and re.fullmatch(_GIVEN, rest[1]):
            del rest[:2]
            continue
        takes = rest[0] == "-C"
        kept += rest[: 1 + takes]
        del rest[: 1 + takes]
    return (*kept, *rest)


_TRUTH = "(?:true|false|on|off|yes|no|0|1)"
_GIVEN = (
    r"(?i)(?:(?:commit|tag)\.gpgsign|advice\.\w+|log\.showsignature|core\.fsmonitor)=false|core\.hookspath=/dev/null"
    rf"|(?:core\.(?:quotepath|filemode|ignorecase|longpaths)|pull\.rebase|rebase\.autostash|fetch\.prune)={_TRUTH}"
    r"|(?:core\.(?:autocrlf|safecrlf|abbrev|eol)|color\.\w+|log\.date|merge\.conflictstyle|pull\.ff"
    r"|diff\.(?:noprefix|renames|renamelimit|algorithm|context|colormoved))=\w+"
    r"|core\.pager=cat|gc\.auto=0|http\.(?:postbuffer|lowspeedlimit|lowspeedtime)=\d+"
    r"|init\.defaultbranch=\w[\w/-]*|user\.(?:name|email)=[\w .@+-]+"
)
"""Settings for one command by which git runs nothing, and reads and sends nothing elsewhere."""


def judged(words: Words, ask: Ask) -> Objection | None:
    options = PROGRAMS["git"]
    if words[1:] and options.bare.issuperset(words[1:]):
        return None
    command, rest, strange = command_of(words)
    if strange:
        return Objection(f"git {strange} before the command can change what git runs")
    if command == "bisect" and rest[:1] == ("run",):
        found = wrapped(words) if bisects(words) else Wrapped((), "git with an option before bisect run")
        return Objection(found.strange) if found.strange else ask.inner(found.words)
    return by_command("git", ("git", command, *rest), options) or _operands(command, rest)


_TEXT = frozenset({"log", "show", "grep", "commit", "rev-list", "shortlog", "blame"})


def _operands(command: str, rest: Words) -> Objection | None:
    found = parse(rest, (PROGRAMS["git"].commands or {})[command])
    if command not in _TEXT and any("::" in word or word.startswith("ext:") for word in found.operands):
        return Objection("a remote helper (…::…) can run a program")
    if command in ("push", "fetch", "pull") and any(word.lstrip("+").startswith("-") for word in found.operands):
        return Objection(f"git {command} with a name that begins with - names no remote, branch or tag")
    if command == "config":
        return _config(found.given, found.operands)
    if command in ("clone", "fetch", "pull", "ls-remote"):
        return _source(command, found.operands)
    if command == "symbolic-ref" and len(found.operands) > 1:
        return Objection("git symbolic-ref with a value moves a branch")
    if command == "apply" and not found.operands:
        return Objection("a patch from standard input is not looked at: name a file")
    if command == "worktree" and found.operands[:1] == ("add",) and len(found.operands) < 2:
        return Objection("git worktree add without a place")
    if command == "rebase" and found.given & {"-i", "--interactive"} and "--autosquash" not in found.given:
        return Objection("git rebase -i opens an editor: add --autosquash")
    if command == "reset" and found.given & {"--hard"}:
        return Objection("git reset --hard throws work away")
    return None


def _source(command: str, operands: Words) -> Objection | None:
    """Where git fetches from: a remote of the repository by its name, https or ssh; never a file of somewhere else."""
    source = operands[0] if operands else ""
    if re.match(r"\w+://[^/]*@", source):
        return Objection(f"git {command} with credentials in the address")
    if source.startswith("-") or re.match(r"(?i)(?:file|ftp|ftps|git|rsync)://|[\w+-]+::|~", source):
        return Objection(f"git {command} from {source}")
    return None


READS_CONFIG = frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l"})


def _config(given: frozenset[str], operands: Words) -> Objection | None:
    """Reading is free, and a few settings that make git run nothing can be given a value."""
    if (
        given & READS_CONFIG
        or operands[:1] in (("get",), ("list",))
        or (len(operands) == 1 and operands[0] not in ("edit", "unset", "set"))
    ):
        return None
    operands = operands[1:] if operands[:1] == ("set",) else operands
    if len(operands) == 2 and operands[0].casefold() in PROGRAMS["git"].settings and given <= {"--local"}:
        return None
    return Objection("git config may change what git runs")
