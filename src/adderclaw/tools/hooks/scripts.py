"""Checks the workspace files that a hook's command names: a hook runs only if they are as the operator trusted them.

A hook runs outside the sandbox, and the model writes in the workspace. Each such file is therefore hashed when the
operator trusts the project, and compared before each run. If a mount protects it from every command (bubblewrap), it is
run in place. Otherwise, or if it has a second name, the compared content is copied to AdderClaw's own folder and the
command is changed to use the copy, so that later changes in the workspace have no effect.
"""

import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from adderclaw.config.paths import beneath
from adderclaw.config.safe_open import open_real
from adderclaw.config.trust import named_files
from adderclaw.config.trust.named_files import FileReference, Names
from adderclaw.core.record import record
from adderclaw.tools.hooks.settings import PLAIN_PATH, Hook
from adderclaw.tools.hooks.shell_windows import SCRIPT_SUFFIX

MOST_BYTES = 64 << 20
NOWHERE = "/dev/null"
"""Replaces words that name missing files: nothing can be created beneath it."""
PRINTS = re.compile(r"\b(?:echo|printf|cat)\b")


class UntrustedFile(Exception):
    """A file that a hook runs is missing, or differs from what the operator trusted; the message says what to do."""


@record
class HookWorkspace:
    """Where hooks run, and which files cannot change meanwhile."""

    roots: tuple[str, ...]
    """The project's root, where they run, and the additional directories of the workspace."""
    fixed: frozenset[str] = frozenset()
    """Files that no command can change or move while the session lasts."""
    copies: str = ""
    """AdderClaw's folder for copies."""


class _CheckedFile(NamedTuple):
    """A word of a hook's text that names a file, and the file's content when it was compared."""

    reference: FileReference
    data: bytes
    mode: int
    stays: bool
    """Whether the file itself is run instead of a copy."""


def command_texts(hook: Hook) -> tuple[str, ...]:
    if hook.kind != "command":
        return ()
    return hook.argv or (hook.command,)


def _names(hook: Hook, roots: Sequence[str]) -> list[Names]:
    if hook.argv:
        return [named_files.names(text, roots, number) for number, text in enumerate(command_texts(hook))]
    return [named_files.names(text, roots, without=_printed_spans(text, hook.shell)) for text in command_texts(hook)]


def _printed_spans(text: str, shell: str) -> tuple[tuple[int, int], ...]:
    """Loads the grammar, which takes time, only if the command may print something: most hooks only name a script."""
    if not PRINTS.search(text):
        return ()
    from adderclaw.tools.hooks.printed_words import printed_spans

    return printed_spans(text, shell)


def named_files_of(hooks: Iterable[Hook], roots: Sequence[str]) -> dict[str, str]:
    """Path in the workspace → the file itself, for all files that the hooks name."""
    every = (
        named_file
        for hook in hooks
        for names in _names(_expand_placeholders(hook, roots[0]), roots)
        for named_file in names.found
    )
    return {file.path: file.real for file in every}


def file_hashes(hooks: Iterable[Hook], roots: Sequence[str]) -> dict[str, str]:
    """The hashes that trust records, by path relative to the project's root or absolute path. Raises OSError."""
    hash_by_name: dict[str, str] = {}
    for path, real in named_files_of(hooks, roots).items():
        with _open_file(real) as file:
            hash_by_name[trust_key(path, roots[0])] = _hash(path, real, _read_file(file))
    return hash_by_name


def trust_key(path: str, root: str) -> str:
    return os.path.relpath(path, root) if beneath(path, root) else path


@contextmanager
def prepare_hook(hook: Hook, workspace: HookWorkspace) -> Generator[Hook]:
    """The hook to run, with all its files as they were trusted. Raises UntrustedFile and OSError."""
    if why := missing_validator(hook, workspace.roots[0]):
        raise UntrustedFile(why)
    expanded = _expand_placeholders(hook, workspace.roots[0])
    names = _names(expanded, workspace.roots)
    _require_existing(expanded, names, workspace)
    seen = [[_check_file(checked, expanded, workspace) for checked in of_text.found] for of_text in names]
    if all(checked.stays for of_text in seen for checked in of_text):
        yield _rewrite_words(expanded, names, seen, "", workspace)
        return
    os.makedirs(workspace.copies, mode=0o700, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="hook-", dir=workspace.copies)
    try:
        yield _rewrite_words(expanded, names, seen, folder, workspace)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def refusal_reason(hook: Hook, workspace: HookWorkspace) -> str:
    """Why a hook would not run now; empty if it would."""
    if why := missing_validator(hook, workspace.roots[0]):
        return why
    expanded = _expand_placeholders(hook, workspace.roots[0])
    names = _names(expanded, workspace.roots)
    try:
        _require_existing(expanded, names, workspace)
        for of_text in names:
            for named_file in of_text.found:
                _check_file(named_file, expanded, workspace)
    except (UntrustedFile, OSError) as error:
        return str(error)
    return ""


def missing_validator(hook: Hook, root: str) -> str:
    """Which file must be created before a named validator can run; empty if nothing is missing."""
    if not hook.must_run or not hook.argv:
        return ""
    path = hook.argv[0]
    if os.path.isfile(path):
        is_program = os.access(path, os.X_OK) or path.lower().endswith(SCRIPT_SUFFIX)
        return "" if is_program else f"{path} is not executable: chmod +x {path}"
    name = os.path.basename(path)
    own = os.path.join(root, ".adderclaw", "hooks", name)
    how = "an executable file that exits with 2 to deny a call (then run `adderclaw trust` again)"
    return f"the validator {name!r} does not exist: create {path} or {own}, {how}"


def missing_scripts(hook: Hook, roots: Sequence[str]) -> tuple[str, ...]:
    """Scripts of the workspace that a hook's command names and that do not exist."""
    return tuple(
        word.text for of_text in _names(_expand_placeholders(hook, roots[0]), roots) for word in of_text.absent
    )


def _expand_placeholders(hook: Hook, root: str) -> Hook:
    """Fills in the placeholders of a hook that runs without a shell, which would otherwise do it."""
    if not hook.argv:
        return hook
    argv = list(hook.argv)
    for name in ("CLAUDE_PROJECT_DIR", "ADDERCLAW_PROJECT_DIR"):
        argv = [word.replace(f"${{{name}}}", root) for word in argv]
    return replace(hook, argv=tuple(argv))


def _require_existing(hook: Hook, names: Sequence[Names], workspace: HookWorkspace) -> None:
    for of_text in names:
        existing = {named_file.path for named_file in of_text.found}
        for path in of_text.looked:
            name = trust_key(path, workspace.roots[0])
            if name in hook.trusted and path not in existing:
                raise UntrustedFile(
                    f"{name} was removed after you trusted it. Restore it, or run `adderclaw trust` again"
                )


def _check_file(named_file: FileReference, hook: Hook, workspace: HookWorkspace) -> _CheckedFile:
    name = trust_key(named_file.path, workspace.roots[0])
    trusted = hook.trusted.get(name)
    if trusted is None:
        raise UntrustedFile(f"{name} in the workspace is not trusted. Check it, then run `adderclaw trust`")
    with _open_file(named_file.real) as file:
        data, at = _read_file(file), os.fstat(file)
    if _hash(named_file.path, named_file.real, data) != trusted:
        raise UntrustedFile(f"{name} has changed since you trusted it. Check it and run `adderclaw trust`")
    stays = at.st_nlink == 1 and named_file.path == named_file.real and named_file.path in workspace.fixed
    return _CheckedFile(named_file, data, 0o700 if at.st_mode & 0o111 else 0o600, stays)


@contextmanager
def _open_file(path: str) -> Generator[int]:
    descriptor = open_real(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_file(file: int) -> bytes:
    at = os.fstat(file)
    if not stat.S_ISREG(at.st_mode) or at.st_size > MOST_BYTES:
        raise OSError(f"is not a regular file, or has more than {MOST_BYTES} bytes")
    with open(file, "rb", closefd=False) as stream:
        return stream.read(MOST_BYTES)


def _hash(path: str, real: str, data: bytes) -> str:
    """The hash that trust records for a file; for a link, it includes the final target."""
    target = b"" if path == real else b"link to " + os.fsencode(real) + b"\0"
    return hashlib.sha256(target + data).hexdigest()


# ------------------------------------------------------------------ replacing words


def _rewrite_words(
    hook: Hook, names: Sequence[Names], seen: Sequence[Sequence[_CheckedFile]], folder: str, workspace: HookWorkspace
) -> Hook:
    """Replaces words that name files with copies in the folder, if there is one, and words that name missing files with
    NOWHERE."""
    changed: list[str] = []
    for text, of_text, files in zip(command_texts(hook), names, seen, strict=True):
        spans = {word: f"{NOWHERE}/{os.path.basename(word.text)}" for word in of_text.absent}
        spans |= (
            {checked.reference.word: _copy(checked, hook, folder, workspace) for checked in files} if folder else {}
        )
        for word, other in sorted(spans.items(), key=lambda span: span[0].start, reverse=True):
            text = text[: word.start] + other + text[word.end :]
        changed.append(text)
    if hook.argv:
        return replace(hook, argv=tuple(changed))
    return replace(hook, command=changed[0]) if changed else hook


def _copy(seen: _CheckedFile, hook: Hook, folder: str, workspace: HookWorkspace) -> str:
    """Copies the compared content and returns the path of the copy."""
    name = trust_key(seen.reference.path, workspace.roots[0])
    path = os.path.join(folder, name.lstrip("/"))
    if not seen.reference.whole or not (hook.argv or PLAIN_PATH.fullmatch(path)):
        why = (
            "a command could change it meanwhile, because the hook does not name it by its path from the project's root"
        )
        raise UntrustedFile(f"{name} in the workspace does not run: {why}. Use that path, or install bubblewrap")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    if not os.path.exists(path):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, seen.mode), "wb") as file:
            file.write(seen.data)
    return path
