"""How this program came to this machine: what `update` and `uninstall` say depends on it."""

import os
import sys
from typing import Literal

from adderclaw.record import NamedTuple

type Kind = Literal["uv tool", "pipx", "single file", "container", "source", "pip"]


class Way(NamedTuple):
    kind: Kind
    place: str
    """Where the program is."""
    update: str
    """The command that brings the next version."""
    remove: str
    """The command that takes the program away."""


def way() -> Way:
    prefix = os.path.realpath(sys.prefix)
    program = os.path.realpath(sys.argv[0])
    if getattr(sys, "frozen", False) or os.environ.get("ADDERCLAW_SINGLE_FILE"):
        place = os.environ.get("ADDERCLAW_SINGLE_FILE") or os.path.realpath(sys.executable)
        return Way("single file", place, "fetch the next file with install.sh", f"rm {place}")
    if os.path.exists(os.path.join(prefix, "uv-receipt.toml")):
        return Way("uv tool", prefix, "uv tool upgrade adderclaw", "uv tool uninstall adderclaw")
    if os.path.exists(os.path.join(prefix, "pipx_metadata.json")):
        return Way("pipx", prefix, "pipx upgrade adderclaw", "pipx uninstall adderclaw")
    if source := _source():
        return Way("source", source, f"git -C {source} pull && make -C {source} setup", f"rm -r {source}")
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return Way("container", prefix, "pull the next image", "remove the image")
    python = os.path.realpath(sys.executable)
    return Way("pip", program, f"{python} -m pip install --upgrade adderclaw", f"{python} -m pip uninstall adderclaw")


def _source() -> str:
    """The folder of a clone that runs from its own files; empty where it does not."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    root = os.path.dirname(os.path.dirname(here))
    is_one = os.path.basename(os.path.dirname(here)) == "src" and os.path.exists(os.path.join(root, "pyproject.toml"))
    return root if is_one else ""
