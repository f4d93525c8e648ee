"""Runs a program of the system by its name, without a shell and with a time limit."""

from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox import programs


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str


def run_command(name: str, *words: str, timeout: float) -> CommandResult:
    """Runs a program and returns its output; a missing program, or one that exceeds the limit, has failed."""
    import subprocess

    program = programs.resolve_outside_sessions(name)
    if program is None:
        return CommandResult(127, "", f"{name}: not found on PATH outside of projects")
    try:
        done = subprocess.run(
            [program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return CommandResult(124, "", f"no answer within {timeout:g} s")
    except OSError as error:
        return CommandResult(127, "", f"{program}: {error.strerror or error}")
    return CommandResult(done.returncode, done.stdout, done.stderr)


def print_command(name: str, *words: str) -> None:
    """Prints the output of a program line by line, without control characters for the terminal."""
    import subprocess

    from adderclaw.core.redaction import visible

    program = programs.resolve_outside_sessions(name)
    if program is None:
        raise AdderClawError(f"{name} is not found on PATH outside of projects: install it")
    try:
        process = subprocess.Popen(
            [program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
        )
    except OSError as error:
        raise AdderClawError(f"{program}: {error.strerror or error}") from error
    assert process.stdout is not None
    try:
        for line in process.stdout:
            print(visible(line.rstrip("\n"), keep_newlines=False), flush=True)
    finally:
        process.stdout.close()
        process.terminate()
        code = process.wait()
    if code > 0:
        raise AdderClawError(f"`{' '.join((name, *words))}` ended with {code}")
