"""How this program came to this machine, and what brings the next version of it the same way."""

import json
import os
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Literal, TypedDict

from adderclaw import __version__

type Way = Literal["checkout", "image", "single file", "uv tool", "pipx", "uv pip", "pip"]


class Installed(TypedDict):
    version: str
    way: Way
    where: str
    source: str
    """What it was installed from, where that is no package index; else empty."""
    update: str
    """The command that brings the next version."""


def found() -> Installed:
    """Nothing is asked of the network: which version is the newest, the command itself finds out."""
    way, where, source, update = _found()
    return {"version": __version__, "way": way, "where": where, "source": source, "update": update}


def _found() -> tuple[Way, str, str, str]:
    prefix = sys.prefix
    if file := os.environ.get("ADDERCLAW_SINGLE_FILE"):
        return "single file", file, "", f"sh install.sh --to {_quoted(os.path.dirname(os.path.abspath(file)))}"
    if image := os.environ.get("ADDERCLAW_IMAGE"):
        return "image", prefix, image, f"docker pull {image}"
    origin, editable = _origin()
    if editable:
        return "checkout", origin, "", f"git -C {_quoted(origin)} pull && make -C {_quoted(origin)} setup"
    if os.path.exists(f"{prefix}/uv-receipt.toml"):
        return "uv tool", prefix, origin, "uv tool upgrade adderclaw"
    if os.path.exists(f"{prefix}/pipx_metadata.json"):
        return "pipx", prefix, origin, "pipx upgrade adderclaw"
    # a file of one version brings that one again; a folder or repository may have the next
    wanted = _quoted(origin) if origin and not origin.endswith((".whl", ".tar.gz")) else "adderclaw"
    if _line("INSTALLER") == "uv":
        return "uv pip", prefix, origin, f"uv pip install --python {_quoted(sys.executable)} --upgrade {wanted}"
    return "pip", prefix, origin, f"{_quoted(sys.executable)} -m pip install --upgrade {wanted}"


def _origin() -> tuple[str, bool]:
    """The address or folder that it was installed from (PEP 610), and whether it still runs from there."""
    try:
        said = json.loads(_line("direct_url.json") or "{}")
        url = str(said.get("url", ""))
        if version_control := said.get("vcs_info"):
            return f"{version_control['vcs']}+{url}", False
        return url.removeprefix("file://"), bool(said.get("dir_info", {}).get("editable"))
    except (ValueError, TypeError, AttributeError, KeyError):
        return "", False


def _line(name: str) -> str:
    return (_distribution_file(name) or "").strip()


def _distribution_file(name: str) -> str | None:
    try:
        found: Distribution = distribution("adderclaw")
    except PackageNotFoundError:
        return None
    return found.read_text(name)


def _quoted(word: str) -> str:
    import shlex

    return shlex.quote(word)
