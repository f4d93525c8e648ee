"""PowerShell: how a command is given to it, and how a word is quoted for it.

Only hooks use it: commands of the model run in bash on every system. Not run on Windows by us.
"""

from collections.abc import Sequence

SCRIPT_SUFFIX = ".ps1"
_QUOTES = "'\u2018\u2019\u201a\u201b"
"""PowerShell takes each of these for the end of a word that `'` began; twice, it stands for itself."""


def command_argv(program: str, command: str) -> tuple[str, ...]:
    """What starts a command; nobody's profile is read, and nothing asks."""
    return program, "-NoProfile", "-NonInteractive", "-Command", command


def quote_word(word: str) -> str:
    """A word that PowerShell takes literally, whatever is in it."""
    if "\0" in word:
        raise ValueError("a word for PowerShell has a NUL byte in it")
    return "'" + "".join(letter * 2 if letter in _QUOTES else letter for letter in word) + "'"


def call_script(words: Sequence[str]) -> str:
    """The command that calls a script or program with these words; its exit code is the command's."""
    return f"& {' '.join(map(quote_word, words))}; exit $LASTEXITCODE"
