"""Command hooks: starts the operator's program with the host's environment and makes sure that it ends."""

import asyncio
import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence

from adderclaw.config.paths import beneath
from adderclaw.core.errors import AdderClawError
from adderclaw.sandbox import process
from adderclaw.sandbox.programs import search_path
from adderclaw.sandbox.workspace import is_directory
from adderclaw.tools.hooks import scripts, shell_windows
from adderclaw.tools.hooks.answers import HookRun, says_async
from adderclaw.tools.hooks.scripts import HookWorkspace
from adderclaw.tools.hooks.settings import Hook, find_shell

STREAM_BYTES = 4_194_304
INLINE_PYTHON = re.compile(r"\bpython[\d.]*(\s+-[A-Za-bd-ln-z]\S*)*(\s+-[A-Za-z]*[cm]\b|\s*$|\s+-(\s|$)|\s*[<|;&)])")
MODULE = re.compile(r"\bpython[\d.]*(?:\s+-[A-Za-z]+)*?\s+-[A-Za-z]*m\s*([\w.]+)")
PYTHON_FILE = re.compile(r"\.py\b")
TRUSTED_FOLDERS = (".adderclaw/hooks", ".claude/hooks")
"""Folders of the project that are trusted as a whole and that commands cannot change."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MOST_FIRST_LINE = 4_096
TRUNCATED = "\n[SDLC_OUTPUT_TRUNCATED]\n"


def hook_environment(hook: Hook, more: Mapping[str, str], roots: Sequence[str]) -> dict[str, str]:
    """The host's current environment without workspace folders in PATH, plus the variables for the hook.

    The administrator's hooks get an environment that no variable of the user affects.
    """
    env = _managed_environment() if hook.is_managed else dict(os.environ)
    if not env.get("LANG") and not env.get("LC_ALL"):
        env["LANG"] = "C.UTF-8"
    env["PATH"] = os.pathsep.join(search_path(roots, SYSTEM_PATH if hook.is_managed else ""))
    if not _may_import_siblings(hook, roots):
        env["PYTHONSAFEPATH"] = "1"
    return env | {"SDLC_HOOK": "1"} | dict(more) | (hook.plugin.environment() if hook.plugin is not None else {})


def _managed_environment() -> dict[str, str]:
    import pwd

    try:
        own = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # the account is not in the user database
        own = "/"
    return {"HOME": own, "PYTHONNOUSERSITE": "1"}


def _may_import_siblings(hook: Hook, roots: Sequence[str]) -> bool:
    """Whether Python may import modules next to the script: only if no command of the model can put one there.

    That holds for a script outside the workspace, or in a folder that is trusted as a whole. Elsewhere, a `json.py` in
    the workspace would replace Python's own module in the hook and in every program that it starts.
    """
    text = " ".join(hook.argv) or hook.command
    if INLINE_PYTHON.search(text) or not PYTHON_FILE.search(text):
        return False
    whole = [os.path.join(roots[0], folder) for folder in TRUSTED_FOLDERS]
    inside = (path for path in scripts.named_files_of([hook], roots) if path.endswith(".py"))
    return all(any(beneath(path, folder) for folder in whole) for path in inside)


def _project_module(hook: Hook, roots: Sequence[str]) -> str:
    """The module of the project that `python -m` would run; empty if the hook runs none."""
    match = MODULE.search(" ".join(hook.argv) or hook.command)
    if match is None:
        return ""
    file = os.path.join(roots[0], *match[1].split("."))
    own = {f"{file}.py", os.path.join(file, "__main__.py")}
    return "" if own.isdisjoint(scripts.named_files_of([hook], roots)) else match[1]


def hook_argv(hook: Hook, roots: Sequence[str]) -> tuple[str, ...]:
    """The command line of a hook; raises FileNotFoundError if its shell is missing."""
    own = hook.argv and hook.argv[0].lower().endswith(shell_windows.SCRIPT_SUFFIX)
    if hook.argv and not own:
        return hook.argv
    shell = "powershell" if own else hook.shell
    program = find_shell(shell, roots, hook.powershell)
    if program is None:
        other = "pwsh or powershell" if hook.powershell == "pwsh" else f"{hook.powershell} (runtime.shell_windows)"
        names = other if shell == "powershell" else shell
        raise FileNotFoundError(f"{names} is not installed")
    match shell:
        case "bash":
            how = ("--noprofile", "--norc", "-c") if hook.is_managed else ("-lc",)
            return program, *how, hook.command
        case "sh":
            return program, "-c", hook.command
        case "powershell":
            return shell_windows.command_argv(program, shell_windows.call_script(hook.argv) if own else hook.command)


async def run_hook_command(
    hook: Hook,
    stdin: bytes,
    *,
    ground: HookWorkspace,
    more: Mapping[str, str],
    seconds: float,
    said_async: Callable[[], None] = lambda: None,
) -> HookRun:
    """Runs a hook until it ends or times out, and ends everything that it started.

    `said_async` is called as soon as its first line is `{"async": true}`.
    """
    cwd = ground.roots[0]
    if not is_directory(cwd):
        return HookRun(None, stderr=f"not started: the directory {cwd} does not exist")
    if module := _project_module(hook, ground.roots):
        why = f"python -m {module} would load any module in the workspace"
        return HookRun(None, stderr=f"not started: {why}; run a script in .adderclaw/hooks/ by its path", refused=True)
    try:
        env = hook_environment(hook, more, ground.roots)
        with scripts.prepare_hook(hook, ground) as prepared:
            argv = hook_argv(prepared, ground.roots)
            start = await _sandbox_start(ground)
            done = await process.run(
                argv,
                cwd=cwd,
                env=env,
                timeout=seconds,
                max_bytes=STREAM_BYTES,
                stdin=stdin,
                start=start,
                on_output=FirstLine(said_async),
            )
    except scripts.UntrustedFile as error:
        return HookRun(None, stderr=f"not started: {error}", refused=True)
    except (AdderClawError, OSError, ValueError) as error:
        return HookRun(None, stderr=f"not started: {error}", refused=hook.must_run)
    stdout, stderr = decode_output(done.stdout, cut=done.stdout_cut), decode_output(done.stderr, cut=done.stderr_cut)
    if done.timed_out:
        return HookRun(None, stdout, _append_note(stderr, f"the hook did not end within {seconds:g} s"), timed_out=True)
    if done.flooded:
        note = _append_note(stderr, "killed: it printed too much")
        return HookRun(None, stdout, note, is_cut=True, refused=hook.must_run)
    return HookRun(done.returncode, stdout, stderr, is_cut=stdout.endswith(TRUNCATED))


class FirstLine:
    """Reads the first line that a hook prints, to detect `{"async": true}`."""

    def __init__(self, said_async: Callable[[], None]) -> None:
        self._said_async = said_async
        self._line = b""
        self._is_whole = False

    def __call__(self, piece: bytes) -> None:
        if self._is_whole:
            return
        line, newline, _ = piece.partition(b"\n")
        self._line += line
        self._is_whole = bool(newline and self._line.strip()) or len(self._line) > MOST_FIRST_LINE
        if self._line.rstrip().endswith(b"}") and says_async(self._line.decode("utf-8", "replace")):
            self._is_whole = True
            self._said_async()


async def _sandbox_start(ground: HookWorkspace) -> process.Starter | None:
    """A start function that hides the server of this home from the hook, if one runs."""
    from adderclaw.models.http import own_server

    if own_server.found() is None:
        return None
    from adderclaw.sandbox import hook_confinement

    return await asyncio.to_thread(hook_confinement.hook_starter, ground.roots)


def _append_note(stderr: str, note: str) -> str:
    return f"{stderr.rstrip()}\n{note}".lstrip()


def decode_output(data: bytes, *, cut: bool) -> str:
    """Decodes UTF-8 as the WHATWG does: removes a byte order mark at the start, and replaces invalid bytes by U+FFFD.

    A replacement needs three bytes instead of one, so the limit is applied again.
    """
    text = data.removeprefix(BOM_UTF8).decode("utf-8", "replace")
    if "\ufffd" in text and len(encoded := text.encode()) > STREAM_BYTES:
        text, cut = encoded[:STREAM_BYTES].decode("utf-8", "ignore"), True
    return text + (TRUNCATED if cut else "")
