"""Packages that npx, uvx and their like may fetch and run: a closed list of exact names, each with plain words.

A name that is nearly one of them is another's package, so nothing is guessed. A package whose program has a table is
judged by it; of the others none runs the programs that its words name, and their words are held to a form of their own.
"""

import re

from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, listed, those
from adderclaw.policy.legacy.programs.objections import Ask, Objection, Words

_VERSION = r"@(?:latest|next|canary|beta|alpha|rc|\^?~?v?\d+(?:\.(?:\d+|x))*(?:-[a-z]+(?:\.?\d+)*)?)"


def unversioned(package: str) -> str:
    """A package's name without a version, where it has a plain one."""
    return re.sub(rf"(?<=.){_VERSION}$", "", package, flags=re.ASCII)


def node(words: Words, ask: Ask, *, fetched: bool, how: str) -> Objection | None:
    """What is said of a package of npm's, with the words for it; `fetched`, if it is not taken from the project."""
    name = unversioned(words[0]) if words else ""
    fetched = fetched or unversioned(words[0]) != words[0] if words else fetched
    if fetched and name in PROGRAMS["npx"].elsewhere:
        return Objection(f"{name} is the program of a package of another name")
    if name in those("npx") | those("by_npx"):
        return ask.inner((name, *words[1:]))
    if name in listed("node_packages"):
        return plain_words(name, words[1:])
    return Objection(f"{how} can download and run any package", f"{how} {words[0]}" if words else "")


def python(words: Words, ask: Ask, *, how: str) -> Objection | None:
    name = unversioned(words[0]) if words else ""
    if name in those("module") | those("by_uvx"):
        return ask.inner((name, *words[1:]))
    if name in listed("python_packages"):
        return plain_words(name, words[1:])
    return Objection(f"{how} can download and run any package", f"{how} {words[0]}" if words else "")


def initializer(words: Words) -> Objection | None:
    """`npm create vite@latest app -- --template react-ts`: what makes a new project in a folder of this one."""
    if unversioned(words[0]) not in listed("initializers"):
        return Objection(f"{words[0]} is a package that is downloaded and run")
    return plain_words(words[0], tuple(word for word in words[1:] if word != "--"))


_HERE = r"https?://(?:localhost|127\.0\.0\.1)(?::\d+)?(?:/[\w./-]*)?"
_VALUE = r"(?!.*\.\.(?:/|$))(?![/~])(?!.*(?:://|git@|github:|gitlab:|file:))[\w@.,:/+*-]*"
_ACTS = (
    r"(?i)(?:no-)?(?:(?:re)?deploy|(?:un)?publish|login|logout|token|auth|exec|execute|eval|shell|scripts?|script-shell"
    r"|command|cmd|hooks?|on-?success|on-?exit|editor|global|registry|upload|push|destroy|delete|release|link|ssh|secrets?"
    r"|preload|require|import|loader|plugin|plugins|env-?file|cwd|prefix|open)"
)


def plain_words(name: str, words: Words) -> Objection | None:
    """Words that name places of the workspace, settings and tasks; none runs, sends or installs anything elsewhere."""
    for index, word in enumerate(words):
        option = re.fullmatch(rf"--?([A-Za-z][\w.-]*)(?:=({_VALUE}|{_HERE}))?", word, re.ASCII)
        if option is None and not re.fullmatch(rf"(?!-)(?:{_VALUE}|{_HERE})", word, re.ASCII):
            return Objection(f"{name} with {word!r}, which is not a plain word")
        if (option or index == 0) and re.fullmatch(_ACTS, option[1] if option else word.split(":", 1)[0]):
            return Objection(f"{name} {word} may act beyond the workspace")
        if option and option[1] in ("e", "x", "g"):
            return Objection(f"{name} {word} may run something")
    deletes = name in ("rimraf", "del-cli") and any(re.fullmatch(r"[./*]*", word) for word in words)
    return Objection("it would delete everything") if deletes else None
