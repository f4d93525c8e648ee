"""Runs the operator's `apiKeyHelper`: a command line whose output is a key."""

import asyncio
import os
import re
import shlex
import signal
from typing import Final

from adderclaw.credentials.redaction import Secrets
from adderclaw.errors import AdderClawError

OUTPUT_BYTES: Final = 65_536
STDERR_SHOWN = 300
_KEYLIKE = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])\S{16,}")
"""A helper that fails may have printed a key that nobody knows yet: long words with digits are not repeated."""


class HelperFailed(AdderClawError):
    """The helper gave no key; the message says why, without any key in it."""


async def run(command: str, *, timeout: float, workspace: str, path: str, secrets: Secrets) -> str:
    """The key that the command prints. It is the operator's own code: their shell, environment and home directory.

    `path`: the folders of PATH without those of the workspace, where the agent could have written a program.
    """
    home = os.path.expanduser("~")
    if inside := _inside(command, home, workspace):
        raise HelperFailed(
            f"apiKeyHelper names {inside}, which lies in the workspace where the agent can change it; "
            "keep the helper and its files elsewhere"
        )
    process = await _started(command, home, path)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(timeout):
            said, complained = await asyncio.gather(_some(process.stdout), _some(process.stderr))
            code = await process.wait()
    except TimeoutError:
        raise HelperFailed(f"apiKeyHelper gave no key within {timeout:g} seconds; run it by hand to see why") from None
    finally:
        await _end(process)
    return _judged(said.decode("utf-8", "replace").strip(), complained, code, secrets)


async def _started(command: str, home: str, path: str) -> asyncio.subprocess.Process:
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=home if os.path.isdir(home) else "/",
            env={**os.environ, "PATH": path},
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:  # cancelled while it starts, asyncio would end the shell alone, not its children
        await _end(await starting)
        raise


def _judged(key: str, complained: bytes, code: int, secrets: Secrets) -> str:
    secrets.add(key)  # before anything that it wrote is repeated
    if code != 0:
        how = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        raise HelperFailed(f"apiKeyHelper {how}{_told(complained, secrets)}; run it by hand to see why")
    if not key:
        raise HelperFailed(f"apiKeyHelper printed nothing{_told(complained, secrets)}; it must print the key on stdout")
    if not key.isascii() or not key.isprintable() or " " in key or len(key) >= OUTPUT_BYTES:
        raise HelperFailed("apiKeyHelper must print the key and nothing else: one word of ASCII on one line")
    return key


def _told(complained: bytes, secrets: Secrets) -> str:
    text = str(secrets.clean(complained.decode("utf-8", "replace")))
    text = " ".join(_KEYLIKE.sub("[redacted]", text).split())[:STDERR_SHOWN]
    return f" and said “{text}”" if text else ""


async def _some(stream: asyncio.StreamReader) -> bytes:
    """All of a stream; what goes beyond the limit is read and dropped, so that the helper does not block."""
    kept = b""
    while piece := await stream.read(OUTPUT_BYTES):
        kept = (kept + piece)[:OUTPUT_BYTES]
    return kept


async def _end(process: asyncio.subprocess.Process) -> None:
    """Nothing that the helper started goes on with our pipes, however this call ends."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    await process.wait()
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(0.5):  # the ends of the pipes are on their way
            await asyncio.gather(_some(process.stdout), _some(process.stderr))
    except TimeoutError:
        pass


def _inside(command: str, home: str, workspace: str) -> str:
    """The first word that names a file of the workspace: whoever is trusted may name the helper, but not the model."""
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
