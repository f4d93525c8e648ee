"""PowerShell: builds its command lines and quotes words for it.

Only hooks use it, because commands of the model run in bash on every system. Not tested on Windows.
"""

from collections.abc import Sequence

SCRIPT_SUFFIX = ".ps1"
_QUOTES = "'\u2018\u2019\u201a\u201b"
"""PowerShell accepts each of these as the end of a quoted word; doubled, it means the character itself."""


def command_argv(program: str, command: str) -> tuple[str, ...]:
    """The command line that runs a command without reading a profile and without prompts."""
    return program, "-NoProfile", "-NonInteractive", "-Command", command


def quote_word(word: str) -> str:
    """Quotes a word so that PowerShell takes it literally."""
    if "\0" in word:
        raise ValueError("a word for PowerShell contains a NUL byte")
    return "'" + "".join(letter * 2 if letter in _QUOTES else letter for letter in word) + "'"


def call_script(words: Sequence[str]) -> str:
    """The command that calls a script or program with these words; its exit code is the command's."""
    return f"& {' '.join(map(quote_word, words))}; exit $LASTEXITCODE"
