"""Words that are only known when the command runs, in places where a guard of ours keeps them to what they are for.

Bash looks at such a word before the program gets it (`render.GUARDS`): it is no option, it leads nowhere else, and it
stays one word. So it is taken where a table says that an operand is a revision, a name or a pattern; only in a sandbox.
"""

import re

from adderclaw.gate.programs import git
from adderclaw.gate.programs.allowlist import PROGRAMS, names
from adderclaw.gate.programs.options import parse
from adderclaw.gate.shell.plan import Live, Simple

_LOOKS = names(
    """log diff show rev-list rev-parse merge-base describe shortlog blame ls-tree cat-file name-rev cherry range-diff
    show-ref for-each-ref show-branch whatchanged diff-tree diff-index ls-files check-ignore reflog grep add"""
)
"""Commands of git that change nothing but what is to be committed, whatever they are asked about."""
_MOVES = names("checkout switch merge cherry-pick revert rebase tag branch")
"""Commands of git that take a branch or a commit by its name."""
_NAMED = {
    **dict.fromkeys(
        ("docker", "podman"),
        names("logs stop start restart port top history wait images ps image network volume tag"),
    ),
    "kubectl": names("get describe logs"),
    "npm": names("ls list why explain"),
    "pnpm": names("ls list why"),
    "pip": names("show"),
    "pip3": names("show"),
    "cargo": names("tree"),
}
"""Programs with those of their commands whose operands are names of images, services, or packages."""
_SEARCHES = names("rg grep egrep fgrep ag ack")
_IN_SCRATCH = names(
    """cat head tail wc ls cp mv mkdir touch tee zip gzip gunzip zcat diff cmp grep egrep fgrep jq du stat file sort
    pg_dump curl test [ md5sum sha256sum cut uniq"""
)
_SCRATCH = r"(?:--[\w-]+=)?/tmp/[\w.-]"
_SHOWS = r"(?i)(?:https?://)?(?:localhost|127\.0\.0\.1|\[::1\]|0\.0\.0\.0)(?::\d{1,5})?[/?]"
_PROBE = "\x03name"


def guard_of(simple: Simple, index: int, word: Live) -> str:
    """The guard with which a word may stand at its place; nothing if it may not."""
    if not index or word.is_glob or word.is_file or word.is_many or "/" in simple.name or simple.name not in PROGRAMS:
        return ""
    lead = word.pieces[0] if isinstance(word.pieces[0], str) else ""
    if re.match(_SCRATCH, lead) and _is_scratch(simple):
        return "place"
    if lead.startswith("-"):
        return ""
    if simple.name == "curl":
        return "address" if re.match(_SHOWS, lead) and _is_operand(simple.words, index, "curl") else ""
    if simple.name == "git":
        return _of_git(simple.words, index)
    if simple.name in _SEARCHES:
        return "text" if _is_operand(simple.words, index, simple.name, first=True) else ""
    return _of_named(simple, index)


def _is_scratch(simple: Simple) -> bool:
    if simple.name == "tar":
        given = parse(simple.words[1:], PROGRAMS["tar"].options).given
        bundle = simple.words[1] if len(simple.words) > 1 else ""
        packs = given & {"-c", "-t"} or re.fullmatch(r"[a-z]*[ct][a-z]*", bundle)
        return bool(packs) and not given & {"-x", "--extract", "--get"} and "x" not in bundle.partition("=")[0][:6]
    return simple.name in _IN_SCRATCH


def _probed(words: tuple[str, ...], index: int) -> tuple[str, ...]:
    """The words with a mark at one place, and text in the place of the others that are not known."""
    return tuple(
        _PROBE if n == index else w.with_number("1") if isinstance(w, Live) else w for n, w in enumerate(words)
    )


def _is_operand(words: tuple[str, ...], index: int, name: str, *, first: bool = False) -> bool:
    seen = parse(_probed(words, index)[1:], PROGRAMS[name].options)
    named = seen.operands[:1] if first else seen.operands
    gives = first and seen.given & {"-e", "--regexp", "-f", "--file"}
    return _PROBE in named and not seen.strange and not gives


def _of_git(words: tuple[str, ...], index: int) -> str:
    command, rest, strange = git.command_of(_probed(words, index))
    table = (PROGRAMS["git"].commands or {}).get(command)
    if strange or table is None or command == _PROBE:
        return ""
    seen = parse(rest, table)
    if _PROBE not in seen.operands or seen.strange:
        return ""
    if command == "grep":
        return "text" if seen.operands[0] == _PROBE and "-e" not in seen.given else "revision"
    return "revision" if command in _LOOKS else "branch" if command in _MOVES else ""


def _of_named(simple: Simple, index: int) -> str:
    commands, words = _NAMED.get(simple.name), _probed(simple.words, index)
    if commands is None:
        return ""
    options = PROGRAMS[simple.name]
    table, rest = options.options, words[1:]
    if options.commands is not None:
        command = words[1] if len(words) > 1 else ""
        if command not in commands:
            return ""
        table, rest = options.commands.get(command, ""), words[2:]
        if command in options.second and rest[:1] == (_PROBE,):
            return ""
    seen = parse(rest, table, single_dash=options.single_dash)
    return "name" if _PROBE in seen.operands and not seen.strange else ""
