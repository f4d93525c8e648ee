"""Runs the operator's `apiKeyHelper`: a command line whose output is a key."""

import asyncio
import os
import re
import shlex
from typing import Final

from adderclaw.core.errors import AdderClawError
from adderclaw.core.redaction import Secrets
from adderclaw.models.credentials.unconfined import PIPE, Unconfined

OUTPUT_BYTES: Final = 65_536
STDERR_SHOWN = 300
_KEYLIKE = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])\S{16,}")
"""Matches possible keys in the output of a failed helper, which are not repeated."""


class HelperFailed(AdderClawError):
    """The helper returned no key; the message gives the reason without any key."""


async def run(command: str, *, timeout: float, workspace: str, path: str, secrets: Secrets) -> str:
    """The key that the command prints. The command is the operator's own and gets their shell, environment and home.

    `path`: PATH without folders in the workspace, where the agent could have written a program.
    """
    home = os.path.expanduser("~")
    if inside := _inside(command, home, workspace):
        raise HelperFailed(
            f"apiKeyHelper names {inside}, which lies in the workspace where the agent can change it; "
            "move the helper and its files elsewhere"
        )
    argv, env = ("/bin/sh", "-c", command), {**os.environ, "PATH": path}
    folder = home if os.path.isdir(home) else "/"
    with Unconfined(argv, cwd=folder, env=env, stdout=PIPE, stderr=PIPE) as process:
        try:
            async with asyncio.timeout(timeout):
                output, stderr = await asyncio.gather(process.head(OUTPUT_BYTES), process.complaint(OUTPUT_BYTES))
                code = await process.wait()
        except TimeoutError:
            message = f"apiKeyHelper returned no key within {timeout:g} seconds; run it by hand to see why"
            raise HelperFailed(message) from None
        finally:
            process.kill()  # also ends its background processes
    return _judged(output.decode("utf-8", "replace").strip(), stderr, code, secrets)


def _judged(key: str, stderr: bytes, code: int, secrets: Secrets) -> str:
    secrets.add(key)  # before any of its output is repeated
    if code != 0:
        how = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        raise HelperFailed(f"apiKeyHelper {how}{_told(stderr, secrets)}; run it by hand to see why")
    if not key:
        raise HelperFailed(f"apiKeyHelper printed nothing{_told(stderr, secrets)}; it must print the key on stdout")
    if not key.isascii() or not key.isprintable() or " " in key or len(key) >= OUTPUT_BYTES:
        raise HelperFailed("apiKeyHelper must print the key and nothing else: one word of ASCII on one line")
    return key


def _told(stderr: bytes, secrets: Secrets) -> str:
    text = str(secrets.clean(stderr.decode("utf-8", "replace")))
    text = " ".join(_KEYLIKE.sub("[redacted]", text).split())[:STDERR_SHOWN]
    return f" and said “{text}”" if text else ""


def _inside(command: str, home: str, workspace: str) -> str:
    """The first word that names a file in the workspace, which the model could have written."""
    if not workspace:
        return ""
    root = os.path.join(os.path.realpath(workspace), "")
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    for word in words:
        path = os.path.realpath(os.path.join(home, os.path.expanduser(os.path.expandvars(word))))
        if path.startswith(root) and os.path.lexists(path):
            return path
    return ""
