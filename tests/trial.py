"""Whether a sandbox starts on this machine: tried once for all tests of a process."""

import os
import subprocess
from functools import cache

import pytest

from adderclaw.sandbox import confinement, programs


@cache
def why_not(kind: str) -> str | None:
    """What keeps this kind of sandbox from starting; None where it starts."""
    return confinement.try_confinement(kind, ())


def only_landlock() -> bool:
    """Whether the tests run on Landlock, since no bubblewrap starts here."""
    return why_not("bubblewrap") is not None and why_not("landlock") is None


def expected() -> str:
    """The sandbox that receipts name where none was chosen."""
    return "landlock" if only_landlock() else "bubblewrap"


def accepting(toml: str) -> str:
    """An operator's settings, with Landlock accepted for the profile `sandboxed` where there is nothing else."""
    if not only_landlock() or "accept =" in toml:
        return toml
    table, accept = "[sandbox]\n", 'accept = "landlock"\n'
    # At the top: tests append to the last table.
    return toml.replace(table, table + accept, 1) if table in toml else f"sandbox.{accept}{toml}"


def sandbox_in_use() -> str:
    """For the summary: which sandbox the tests ran in, and why no better one."""
    if not (why := why_not("bubblewrap")):
        return f"sandbox: {programs.bubblewrap(())}"
    if only_landlock():
        return f"sandbox: Landlock, which the tests accept; bubblewrap does not start: {why}"
    return f"sandbox: none starts: {why}; landlock: {why_not('landlock')}"


@cache
def no_namespaces() -> str | None:
    """Why `unshare` makes no mount namespace for this user, as in most containers; None where it does."""
    user = () if os.geteuid() == 0 else ("-Ur",)
    try:
        done = subprocess.run(["unshare", *user, "-m", "true"], capture_output=True, text=True)
    except FileNotFoundError:
        return "unshare is not installed on this machine"
    return f"no namespaces can be made on this machine: {done.stderr.strip()}" if done.returncode else None


def bubblewrap() -> str:
    """The path of a bubblewrap that starts here; skips the test where none does."""
    if why := why_not("bubblewrap"):
        pytest.skip(f"bubblewrap does not start on this machine: {why}")
    return programs.bubblewrap(()) or ""
