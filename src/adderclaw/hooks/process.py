"""One command hook: the operator's own program, started with the whole environment, and certainly ended."""

import os
from collections.abc import Mapping

from adderclaw.hooks.answers import Ran
from adderclaw.hooks.settings import Hook, shell_of
from adderclaw.sandbox import process

STREAM_BYTES = 4_194_304
TRUNCATED = "\n[SDLC_OUTPUT_TRUNCATED]\n"


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """The host's environment as it is now, and what a hook is told beside it."""
    env = dict(os.environ)
    if not env.get("LANG") and not env.get("LC_ALL"):
        env["LANG"] = "C.UTF-8"
    return env | {"SDLC_HOOK": "1"} | dict(more)


def argv_of(hook: Hook, env: Mapping[str, str]) -> tuple[str, ...]:
    """What is started; raises FileNotFoundError where the hook's shell is not there."""
    if hook.argv:
        return tuple(_filled(word, env) for word in hook.argv)
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


def _filled(word: str, env: Mapping[str, str]) -> str:
    """Without a shell nobody else fills in the placeholders."""
    for name in ("CLAUDE_PROJECT_DIR", "ADDERCLAW_PROJECT_DIR"):
        word = word.replace(f"${{{name}}}", env.get(name, ""))
    return word


async def run(hook: Hook, stdin: bytes, *, cwd: str, more: Mapping[str, str], seconds: float) -> Ran:
    """Run it to its end or its time's; nothing that it started is left behind."""
    if not os.path.isdir(cwd):
        return Ran(None, stderr=f"not started: the directory {cwd} is not there")
    env = environment(more)
    try:
        argv = argv_of(hook, env)
        done = await process.run(argv, cwd=cwd, env=env, timeout=seconds, max_bytes=STREAM_BYTES, stdin=stdin)
    except (OSError, ValueError) as error:
        return Ran(None, stderr=f"not started: {error}")
    stdout, stderr = _text(done.stdout, cut=done.stdout_cut), _text(done.stderr, cut=done.stderr_cut)
    if done.timed_out:
        return Ran(None, stdout, _noted(stderr, f"the hook did not end within {seconds:g} s"), timed_out=True)
    if done.flooded:
        return Ran(None, stdout, _noted(stderr, "killed: it printed without end"))
    return Ran(done.returncode, stdout, stderr)


def _noted(stderr: str, note: str) -> str:
    return f"{stderr.rstrip()}\n{note}".lstrip()


def _text(data: bytes, *, cut: bool) -> str:
    return data.decode("utf-8", "replace") + (TRUNCATED if cut else "")
