"""Reads git's settings as data: which of them may run a program, where hooks are, and which files are included."""

import re
from collections.abc import Iterator

from adderclaw.core.record import NamedTuple

PLAIN = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|quotepath|abbrev|bigfilethreshold|compression|longpaths|untrackedcache|sparsecheckout"
    r"|sparsecheckoutcone|protecthfs|protectntfs)"
    r"|user\.(name|email)|remote\..+\.(url|pushurl|fetch|push|tagopt|prune|promisor|partialclonefilter|skipfetchall)"
    r"|remote\.pushdefault|branch\..+\.(remote|merge|rebase|description|pushremote|vscode-merge-base)"
    r"|branch\.(autosetupmerge|autosetuprebase)|init\.defaultbranch|submodule\..+\.(url|active|branch|ignore)"
    r"|submodule\.active|pull\.(rebase|ff)|push\.(default|autosetupremote)|fetch\.(prune|prunetags)|merge\.(ff|conflictstyle)"
    r"|rebase\.(autostash|autosquash)|gc\.(?!recentobjectshook$).+|color\..+|extensions\.(objectformat|worktreeconfig|partialclone|refstorage)"
    r"|lfs\.repositoryformatversion|lfs\..+\.(access|locksverify)|advice\..+|index\.version|pack\..+|rerere\.(enabled|autoupdate)",
    re.DOTALL,
)
"""Settings that neither run a program nor name a file."""
URL = re.compile(r"(remote\..+\.(url|pushurl)|submodule\..+\.url)", re.DOTALL)
_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\\n]|\\.)*)")?\s*\]')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(=?)")


class Settings(NamedTuple):
    entries: tuple[tuple[str, str], ...]
    """Key in lower case (except for the quoted name of a section) and value, in order."""
    is_read: bool
    """False if this reader does not understand the text; the caller must then assume the worst of all of it."""

    def values(self, key: str) -> list[str]:
        return [value for name, value in self.entries if name == key]

    @property
    def included(self) -> list[str]:
        return [
            value for name, value in self.entries if re.fullmatch(r"include\.path|includeif\..+\.path", name, re.DOTALL)
        ]

    @property
    def running(self) -> list[tuple[str, str]]:
        """Settings that may run a program, or lead to settings that do."""
        return [entry for entry in self.entries if not _is_plain(*entry)]


def _is_plain(key: str, value: str) -> bool:
    if PLAIN.fullmatch(key) is None:
        return False
    # `ext::sh -c …` runs a program, and git reads an address that starts with a dash as an option
    return URL.fullmatch(key) is None or not ("::" in value or value.startswith("-"))


def parse(text: str) -> Settings:
    entries: list[tuple[str, str]] = []
    section, at, text = "", 0, text.removeprefix("\ufeff")
    while at < len(text):
        if text[at] in " \t\r\n":
            at += 1
        elif text[at] in "#;":
            at = (text.find("\n", at) + 1) or len(text)
        elif (head := _SECTION.match(text, at)) is not None:
            section = head[1].lower() + (f".{re.sub(r'\\(.)', r'\1', head[2])}" if head[2] is not None else "")
            at = head.end()
        elif section and (key := _KEY.match(text, at)) is not None:
            value, at = _value(text, key.end()) if key[2] else ("true", key.end())
            entries.append((f"{section}.{key[1].lower()}", value))
        else:
            return Settings(tuple(entries), is_read=False)
    return Settings(tuple(entries), is_read=True)


def _value(text: str, at: int) -> tuple[str, int]:
    """The value that starts at `at`, and the position of its end."""
    characters: list[str] = []
    length = 0
    quoted = False
    end = len(text)
    for end, char in _characters(text, at):  # noqa: B007 - where it ended is used below
        if char == '"':
            quoted, length = not quoted, len(characters)
        elif char == "\n" or (char in "#;" and not quoted):
            break
        else:
            characters.append(char[-1])
            length = len(characters) if quoted or char not in " \t\r" else length
    else:
        end = len(text)
    if end < len(text) and text[end] in "#;":
        end = (text.find("\n", end) + 1) or len(text)
    return "".join(characters[:length]).lstrip(" \t"), end


ESCAPED = {"n": "\n", "t": "\t", "b": "\b"}


def _characters(text: str, at: int) -> Iterator[tuple[int, str]]:
    """Each character with its position. An escaped character keeps a leading backslash and has no special meaning."""
    while at < len(text):
        if text[at] != "\\":
            yield at, text[at]
            at += 1
            continue
        after = text[at + 1 : at + 3] if text[at + 1 : at + 2] == "\r" else text[at + 1 : at + 2]
        if after not in ("\n", "\r\n"):
            yield at, "\\" + ESCAPED.get(after, after)
        at += 1 + max(len(after), 1)
