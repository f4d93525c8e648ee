"""One command hook: the operator's own program, started with the whole environment, and certainly ended."""

import os
import re
from collections.abc import Mapping, Sequence

from adderclaw.hooks import scripts
from adderclaw.hooks.answers import Ran
from adderclaw.hooks.scripts import Ground
from adderclaw.hooks.settings import Hook, shell_of
from adderclaw.sandbox import process
from adderclaw.sandbox.programs import search_path

STREAM_BYTES = 4_194_304
INLINE_PYTHON = re.compile(r"\bpython[\d.]*(\s+-[A-Za-bd-ln-z]\S*)*(\s+-[A-Za-z]*[cm]\b|\s*$|\s+-(\s|$)|\s*[<|;&)])")
TRUNCATED = "\n[SDLC_OUTPUT_TRUNCATED]\n"


def environment(hook: Hook, more: Mapping[str, str], roots: Sequence[str]) -> dict[str, str]:
    """The host's environment as it is now, but no program of the workspace by its name alone; and what it is told."""
    env = dict(os.environ)
    if not env.get("LANG") and not env.get("LC_ALL"):
        env["LANG"] = "C.UTF-8"
    env["PATH"] = os.pathsep.join(search_path(roots))
    if _is_inline_python(hook, roots):
        env["PYTHONSAFEPATH"] = "1"
    return env | {"SDLC_HOOK": "1"} | dict(more)


def _is_inline_python(hook: Hook, roots: Sequence[str]) -> bool:
    """Whether Python would look for modules where the hook runs before it looks where they are: `python3 -c …`."""
    if not INLINE_PYTHON.search(" ".join(hook.argv) or hook.command):
        return False
    return not any(path.endswith(".py") for path in scripts.named_by([hook], roots))  # -m with a module of the project


def argv_of(hook: Hook) -> tuple[str, ...]:
    """What is started; raises FileNotFoundError where the hook's shell is not there."""
    if hook.argv:
        return hook.argv
    program = shell_of(hook.shell)
    if program is None:
        names = "pwsh or powershell" if hook.shell == "powershell" else hook.shell
        raise FileNotFoundError(f"{names} is not there")
    match hook.shell:
        case "bash":
            return program, "-lc", hook.command
        case "sh":
            return program, "-c", hook.command
        case "powershell":
            return program, "-NoProfile", "-NonInteractive", "-Command", hook.command


async def run(hook: Hook, stdin: bytes, *, ground: Ground, more: Mapping[str, str], seconds: float) -> Ran:
    """Run it to its end or its time's; nothing that it started is left behind."""
    cwd = ground.roots[0]
    if not os.path.isdir(cwd):
        return Ran(None, stderr=f"not started: the directory {cwd} is not there")
    env = environment(hook, more, ground.roots)
    try:
        with scripts.ready(hook, ground) as made:
            argv = argv_of(made)
            done = await process.run(argv, cwd=cwd, env=env, timeout=seconds, max_bytes=STREAM_BYTES, stdin=stdin)
    except scripts.Untrusted as error:
        return Ran(None, stderr=f"not started: {error}", refused=True)
    except (OSError, ValueError) as error:
        return Ran(None, stderr=f"not started: {error}", refused=hook.must_run)
    stdout, stderr = _text(done.stdout, cut=done.stdout_cut), _text(done.stderr, cut=done.stderr_cut)
    if done.timed_out:
        return Ran(None, stdout, _noted(stderr, f"the hook did not end within {seconds:g} s"), timed_out=True)
    if done.flooded:
        return Ran(None, stdout, _noted(stderr, "killed: it printed without end"), refused=hook.must_run)
    return Ran(done.returncode, stdout, stderr)


def _noted(stderr: str, note: str) -> str:
    return f"{stderr.rstrip()}\n{note}".lstrip()


def _text(data: bytes, *, cut: bool) -> str:
    return data.decode("utf-8", "replace") + (TRUNCATED if cut else "")
