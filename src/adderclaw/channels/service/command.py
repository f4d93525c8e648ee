"""One program of the system, run to its end, without a shell and within a limit."""

from collections.abc import Sequence

from adderclaw.errors import AdderClawError
from adderclaw.record import NamedTuple


class Done(NamedTuple):
    code: int
    out: str
    err: str


def ran(command: Sequence[str], *, timeout: float) -> Done:
    """What it said; a program that is not there, or does not end in time, has failed."""
    import subprocess

    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Done(124, "", f"no answer within {timeout:g} s")
    except OSError as error:
        return Done(127, "", f"{command[0]}: {error.strerror or error}")
    return Done(done.returncode, done.stdout, done.stderr)


def printed(command: Sequence[str]) -> None:
    """Its output line by line, with nothing in it that steers a terminal."""
    import subprocess

    from adderclaw.credentials.redaction import visible

    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
        )
    except OSError as error:
        raise AdderClawError(f"{command[0]}: {error.strerror or error}") from error
    assert process.stdout is not None
    try:
        for line in process.stdout:
            print(visible(line.rstrip("\n"), keep_newlines=False), flush=True)
    finally:
        process.stdout.close()
        process.terminate()
        code = process.wait()
    if code > 0:
        raise AdderClawError(f"`{' '.join(command)}` ended with {code}")
