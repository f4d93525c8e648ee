"""What a table says of a command by itself: its options, its subcommand, and the operands that it refuses."""

import re

from adderclaw.policy.legacy.programs import languages, network, packages
from adderclaw.policy.legacy.programs.allowlist import Options, names, those
from adderclaw.policy.legacy.programs.objections import Objection, Words, harmful, unknown, unlisted
from adderclaw.policy.legacy.programs.options import Parsed, parse, without_pairs


def by_table(name: str, words: Words, options: Options) -> Objection | None:
    """What a table says of a command by itself."""
    if options.free and name in those("npx"):
        return packages.plain_words(name, words[1:])
    if options.free or (words[1:] and options.bare.issuperset(words[1:])):
        return None
    far = next((word for word in words[1:] if options.outside and re.match(options.outside, word)), None)
    if far is not None:
        return Objection(f"{far!r} is on another machine, or outside of the workspace", outside=True)
    if options.commands is not None:
        return by_command(name, words, options)
    words = without_harmless(words, options)
    found = parse(words[1:], options.options, single_dash=options.single_dash, until_operand=options.script)
    if found.strange:
        return strange(found, options)
    if options.script and not found.operands and not found.values:
        return None if found.given & ASKING else Objection(_NO_SCRIPT, inline="stdin")
    if options.script and found.operands and languages.is_piped(found.operands[0]):
        return piped(found.operands[0])
    return _refused_word(words[1:], found.operands, options)


_NO_SCRIPT = "without a script it reads one from standard input"


def piped(path: str) -> Objection | None:
    """`python /dev/stdin` is `python -`."""
    why = f"a script from {path} is not a file that can be looked at"
    return Objection(why, inline="stdin") if languages.is_piped(path) else None


def without_harmless(words: Words, options: Options) -> Words:
    """Words without the options that do no harm with the values that they have."""
    for option, value in options.pairs.items():
        words = without_pairs(words, option, value)
    return words


ASKING = names("--version -version -v -V --help -h -help --test")


def by_command(name: str, words: Words, options: Options) -> Objection | None:
    """The command must be the first word: an option before it could have the command for its value."""
    commands, words = options.commands or {}, without_harmless(words, options)
    first = words[1] if len(words) > 1 else ""
    if words[1:] and options.bare.issuperset(words[1:]):
        return None
    table, rest = commands.get(first), words[2:]
    if table is None and "" in commands and (not first or first.startswith("-")):
        table, rest = commands[""], words[1:]
    if table is None:
        if not first:
            return Objection(f"{name} without a command")
        if first.startswith("-"):
            code = "words" if _may_be_code(words[1:], options) else ""
            return Objection(f"{name} {first} before the command can change what it does", inline=code)
        return unlisted(f"{name} {first}")
    found = parse(rest, table, single_dash=options.single_dash)
    if found.strange:
        return strange(found, options)
    second = options.second.get(first)
    if second is not None and found.operands and found.operands[0] not in second:
        entry = f"{name} {first} {found.operands[0]}"
        return unlisted(entry) if rest[:1] == found.operands[:1] else Objection(f"{entry} is not on the list")
    return _refused_word(rest, found.operands, options)


def strange(found: Parsed, options: Options) -> Objection:
    """Whether an option that the table does not take is one of which the harm is known, abbreviations included.

    What follows it may be its value, and so what looks like the script of an interpreter may be none.
    """
    code = options.stdin_code or _may_be_code((*found.strange, *found.operands), options)
    return _harm(found.strange[0], options)._replace(inline="words" if code else "")


def _may_be_code(words: Words, options: Options) -> bool:
    """Whether one of these words is code, or an option before code, if none of those before it makes it another."""
    for word in words:
        name = word.split("=", 1)[0]
        letters = () if name.startswith("--") or not name.startswith("-") else (f"-{letter}" for letter in name[1:])
        if not (options.code | options.ends).isdisjoint((name, *letters)):
            return True
        if options.operands == "code" and not (options.looks and languages.is_plain_awk(word)):
            return True
    return False


def _harm(written: str, options: Options) -> Objection:
    given = written.split("=", 1)[0]
    if given in options.harmful or (given.startswith("--") and any(bad.startswith(given) for bad in options.harmful)):
        return harmful(given)
    if not given.startswith("--") and any(f"-{letter}" in options.harmful for letter in given[1:]):
        return harmful(given)
    return unknown(written)


def _refused_word(words: Words, operands: Words, options: Options) -> Objection | None:
    for word in operands if options.refuses else ():
        if re.fullmatch(options.refuses, word):
            return Objection(f"{word!r} is not one of its words that are known to do no harm")
    for word in words if options.odd else ():
        if re.search(options.odd, word):
            return Objection(f"{word!r} may make it do more than is known of it")
    return (foreign(words) if options.registry else None) or network.elsewhere(words, options)


_FOREIGN = r"://|(^|@)\s*(git\+|hg\+|svn\+|bzr\+|github:|gitlab:|bitbucket:|gist:|file:|git@)|\.git(#|$)"


def foreign(words: Words, *, shorthand: bool = False) -> Objection | None:
    """Code that would not come from the registry; npm takes `person/repository` for a repository."""
    for word in words:
        of_a_person = shorthand and re.match(r"(?:[^@/]+@)?[\w-][\w.-]*/[\w.-]+", word) and not word.startswith("-")
        if of_a_person or re.search(_FOREIGN, word):
            return Objection(f"{word} is code from outside of the package registry")
    return None
