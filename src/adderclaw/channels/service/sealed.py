"""Files that the service writes: whole or not at all, and an edit by hand is noticed before it is overwritten."""

import contextlib
import hashlib
import os
import re
import stat

from adderclaw.errors import AdderClawError

SEAL = "sha256:" + "0" * 64
"""Stands in the text where its hash will."""
MOST_BYTES = 262_144

_FOUND = re.compile(r"sha256:[0-9a-f]{64}")


def sealed(text: str) -> str:
    """The text with the hash of itself in it."""
    return text.replace(SEAL, f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", 1)


def is_unchanged(text: str) -> bool:
    """Whether a text is still the one that was written."""
    return sealed(_FOUND.sub(SEAL, text, count=1)) == text and _FOUND.search(text) is not None


def read(path: str) -> str | None:
    """What a file of ours holds; None without one. A link, a folder or a file of somebody else is refused."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused(path, error) from error
    with open(fd, "rb") as file:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise AdderClawError(f"{path} is no file: move it away")
        if about.st_uid not in (os.geteuid(), 0):
            raise AdderClawError(f"{path} belongs to another user (uid {about.st_uid}): move it away")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise AdderClawError(
            f"{path} has more than {MOST_BYTES:,} bytes: it is not what the service wrote; move it away"
        )
    return data.decode("utf-8", "replace")


def write(path: str, text: str, *, mode: int = 0o600) -> None:
    """Replace a file by a text."""
    fresh = f"{path}.{os.getpid()}.new"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)  # of a process that had our number and was killed
        with open(os.open(fresh, flags, mode), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise refused(path, error) from error


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise refused(path, error) from error


def refused(path: str, error: OSError) -> AdderClawError:
    """What the system said about one of our files, and what to do."""
    import errno

    fixes = {
        errno.ELOOP: "a link is there, and none is followed: remove it",
        errno.EACCES: "give yourself the right to write there",
        errno.EPERM: "give yourself the right to write there",
        errno.EROFS: "its file system is read-only; set ADDERCLAW_HOME to a folder that can be written",
        errno.ENOSPC: "make room on that disk",
        errno.EDQUOT: "make room in your quota of that disk",
    }
    fix = fixes.get(error.errno or 0, "")
    reason = error.strerror or str(error)
    return AdderClawError(f"{path}: {reason}" + (f": {fix}" if fix else ""))
