"""Reads a plugin's folder through file descriptors, without following links, and computes one hash over all files."""

import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterator
from itertools import takewhile

from adderclaw.config.paths import followed
from adderclaw.config.safe_open import ANCHOR, READ, open_real, opener
from adderclaw.core.errors import ConfigError, Problem
from adderclaw.core.json_text import digest
from adderclaw.core.record import NamedTuple

MOST_FILES = 2_000
MOST_BYTES = 32 << 20
DEEPEST = 24
LONGEST_NAME = 200
KEPT_BYTES = 1 << 20
"""Maximum size of a manifest or settings file that is read into memory."""
KEPT = (".toml", ".json")
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
NOT_COPIED = frozenset((".git", "__pycache__", ".DS_Store"))
"""Names that are not installed: git's own folder, and files that programs generate."""
EXECUTABLE, LINK = "x ", "link "
"""Prefixes in `Tree.files`: of the hash of an executable file, and of the target of a link."""
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Unicode categories that a name may not contain, because they are invisible or change the text direction."""


class Tree(NamedTuple):
    sha256: str
    files: dict[str, str]
    """Path inside the folder → hash of its bytes, with a prefix if it is executable; the target of a link."""
    texts: dict[str, bytes]
    """Path → bytes of each possible manifest or settings file, exactly as hashed."""

    def regular(self, path: str) -> bool:
        """Whether a path inside the folder is a file and not a link."""
        mark = self.files.get(path)
        return mark is not None and not mark.startswith(LINK)

    def may_run(self, path: str) -> bool:
        return self.files.get(path, "").startswith(EXECUTABLE)


class Found(NamedTuple):
    """A file or link of a plugin's folder."""

    path: str
    status: os.stat_result
    target: str = ""
    """The target of a link as written; empty for a file."""


def survey(folder: str, leave_out: frozenset[str] = frozenset()) -> Tree:
    """Read a plugin's whole folder; raises ConfigError for anything that cannot be hashed."""
    try:
        root = open_real(followed(folder), ANCHOR)
    except OSError as error:
        raise unfit(folder, f"cannot be read: {error.strerror}") from None
    try:
        files: dict[str, str] = {}
        texts: dict[str, bytes] = {}
        remaining_bytes = MOST_BYTES
        for entry in walked(root, folder, leave_out):
            if entry.target:
                files[entry.path] = LINK + entry.target
                continue
            hashed, size, text = _hashed(root, entry, folder, remaining_bytes)
            remaining_bytes -= size
            files[entry.path] = (EXECUTABLE if entry.status.st_mode & 0o111 else "") + hashed
            if text is not None:
                texts[entry.path] = text
        ordered = dict(sorted(files.items()))
        return Tree(digest(ordered), ordered, texts)
    finally:
        os.close(root)


def walked(root: int, shown: str, leave_out: frozenset[str] = frozenset()) -> Iterator[Found]:
    """Every file and link of an open folder; raises ConfigError for anything that a plugin may not contain."""
    waiting, links, paths, folders = ["."], list[Found](), set[str](), set[str]()
    while waiting:
        folder = waiting.pop()
        if folder.count("/") >= DEEPEST:
            raise unfit(f"{shown}/{folder}", f"lies more than {DEEPEST} folders deep")
        for name, status in _listed(root, folder, shown, leave_out):
            path = name if folder == "." else f"{folder}/{name}"
            if stat.S_ISDIR(status.st_mode):
                waiting.append(path)
                folders.add(path)
            elif stat.S_ISLNK(status.st_mode):
                links.append(Found(path, status, _target(root, path, shown)))
            elif stat.S_ISREG(status.st_mode):
                paths.add(path)
                yield Found(path, status)
            else:
                raise unfit(f"{shown}/{path}", "is neither a file, a folder nor a link")
            if len(paths) + len(links) + len(folders) > MOST_FILES:
                raise unfit(shown, f"holds more than {MOST_FILES} files")
    for link in links:
        if _target_inside(link) not in paths | folders:
            raise unfit(
                f"{shown}/{link.path}", f"is a link to {link.target!r}, which is no file or folder of the plugin"
            )
        yield link


def _target_inside(link: Found) -> str:
    """The path inside the folder that a link leads to; empty if it leads, or may lead, out of the folder.

    `..` is allowed only at the start of the target: in `a/..`, `a` may be a link, so the text does not show where it
    leads.
    """
    words = link.target.split("/")
    if os.path.isabs(link.target) or ".." in words[sum(1 for _ in takewhile(lambda word: word == "..", words)) :]:
        return ""
    target = os.path.normpath(os.path.join(os.path.dirname(link.path), link.target))
    return "" if target.split("/", 1)[0] == ".." else target


def _target(root: int, path: str, shown: str) -> str:
    above, _, name = path.rpartition("/")
    fd = _opened(root, above or ".", ANCHOR, f"{shown}/{path}")
    try:
        return os.readlink(name, dir_fd=fd)
    except OSError as error:
        raise unfit(f"{shown}/{path}", f"cannot be read: {error.strerror}") from None
    finally:
        os.close(fd)


def _listed(root: int, folder: str, shown: str, leave_out: frozenset[str]) -> list[tuple[str, os.stat_result]]:
    fd = _opened(root, folder, FOLDER, f"{shown}/{folder}")
    listed: list[tuple[str, os.stat_result]] = []
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                if entry.name in leave_out:
                    continue
                _check_name(entry.name, f"{shown}/{folder}".removesuffix("/."))
                listed.append((entry.name, entry.stat(follow_symlinks=False)))
                if len(listed) > MOST_FILES:
                    raise unfit(shown, f"holds more than {MOST_FILES} files")
    except OSError as error:
        raise unfit(f"{shown}/{folder}", f"cannot be read: {error.strerror}") from None
    finally:
        os.close(fd)
    _check_cases([name for name, _ in listed], f"{shown}/{folder}".removesuffix("/."))
    return sorted(listed)


def _check_name(name: str, folder: str) -> None:
    if len(os.fsencode(name)) > LONGEST_NAME:
        raise unfit(folder, f"holds a name of more than {LONGEST_NAME} bytes")
    if "\\" in name or any(unicodedata.category(character) in _UNSEEN for character in name):
        raise unfit(
            folder, f"holds the name {name.encode('unicode_escape').decode()!r}, with characters nobody can see"
        )


def _check_cases(names: list[str], folder: str) -> None:
    """Reject names that some file systems treat as equal, because a file other than the one shown could be used."""
    seen: dict[str, str] = {}
    for name in names:
        folded = unicodedata.normalize("NFC", name).casefold()
        if folded in seen:
            raise unfit(folder, f"holds {seen[folded]!r} and {name!r}, which are one name on some systems")
        seen[folded] = name


def _hashed(root: int, entry: Found, shown: str, left: int) -> tuple[str, int, bytes | None]:
    path = f"{shown}/{entry.path}"
    keep = entry.path.endswith(KEPT) and entry.status.st_size <= KEPT_BYTES
    running, size, text = hashlib.sha256(), 0, list[bytes]()
    with open(_opened(root, entry.path, READ, path), "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise unfit(path, "is not a regular file")
        while part := file.read(1 << 20):
            size += len(part)
            if size > left:
                raise unfit(shown, f"holds more than {MOST_BYTES >> 20} MiB")
            running.update(part)
            if keep:
                text.append(part)
    return running.hexdigest(), size, b"".join(text) if keep else None


def _opened(root: int, way: str, flags: int, shown: str) -> int:
    try:
        return opener()(root, way, flags)
    except OSError as error:
        raise unfit(shown.removesuffix("/."), f"cannot be read: {error.strerror}") from None


def changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """The differences: `+` new, `-` removed, `~` changed."""
    marks = [(name, "-" if name not in now else "+" if name not in before else "~") for name in {**before, **now}]
    return [f"{mark} {name}" for name, mark in sorted(marks) if mark != "~" or before[name] != now[name]]


def unfit(path: str, why: str) -> ConfigError:
    return ConfigError([Problem(path, "", f"{why}: it cannot be used as a plugin")])
