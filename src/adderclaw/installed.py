"""How this program came to this machine, and what brings its next version, an extra, or its end in the same way."""

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
    remove: str
    """The command that takes the program away."""


def found() -> Installed:
    """Nothing is asked of the network: which version is the newest, the command itself finds out."""
    way, where, source = _found()
    update, remove = _commands(way, where, source)
    return {"version": __version__, "way": way, "where": where, "source": source, "update": update, "remove": remove}


def lacking(extra: str, missing: str | None) -> str:
    """What a person is told where an extra is not installed: every message about one is this."""
    return f"the extra `{extra}` is not installed ({missing} is missing): `{bring(extra)}` brings it"


def bring(extra: str) -> str:
    """The command that brings the packages of an extra, such as `server`, for the way that the program came."""
    way, where, source = _found()
    place = f"file://{source}" if source.startswith("/") else source
    wanted = _quoted(f"adderclaw[{extra}]" + (f" @ {place}" if place else ""))
    match way:
        case "single file":
            return _commands(way, where, source)[0]  # it has all of them: this one is broken
        case "image":
            return f"docker pull {source}"
        case "checkout":
            return f"make -C {_quoted(where)} setup"
        case "uv tool":
            return f"uv tool install --force {wanted}"
        case "pipx":
            return f"pipx install --force {wanted}"
        case "uv pip":
            return f"uv pip install --python {_quoted(sys.executable)} {wanted}"
        case "pip":
            return f"{_quoted(sys.executable)} -m pip install {wanted}"


def _found() -> tuple[Way, str, str]:
    """How, where it is, and from where it came."""
    prefix = sys.prefix
    if file := os.environ.get("ADDERCLAW_SINGLE_FILE"):
        return "single file", file, ""
    if image := os.environ.get("ADDERCLAW_IMAGE"):
        return "image", prefix, image
    origin, editable = _origin()
    if editable:
        return "checkout", origin, ""
    if os.path.exists(f"{prefix}/uv-receipt.toml"):
        return "uv tool", prefix, origin
    if os.path.exists(f"{prefix}/pipx_metadata.json"):
        return "pipx", prefix, origin
    return "uv pip" if _line("INSTALLER") == "uv" else "pip", prefix, origin


def _commands(way: Way, where: str, source: str) -> tuple[str, str]:
    """What brings the next version, and what takes the program away."""
    python = _quoted(sys.executable)
    # a file of one version brings that one again; a folder or repository may have the next
    wanted = _quoted(source) if source and not source.endswith((".whl", ".tar.gz")) else "adderclaw"
    place = _quoted(where)
    match way:
        case "single file":
            folder = _quoted(os.path.dirname(os.path.abspath(where)))
            return f"sh install.sh --to {folder}", f"rm {_quoted(os.path.abspath(where))}"
        case "image":
            return f"docker pull {source}", f"docker rmi {source}"
        case "checkout":
            return f"git -C {place} pull && make -C {place} setup", f"rm -r {place}"
        case "uv tool":
            return "uv tool upgrade adderclaw", "uv tool uninstall adderclaw"
        case "pipx":
            return "pipx upgrade adderclaw", "pipx uninstall adderclaw"
        case "uv pip":
            upgrade = f"uv pip install --python {python} --upgrade {wanted}"
            return upgrade, f"uv pip uninstall --python {python} adderclaw"
        case "pip":
            return f"{python} -m pip install --upgrade {wanted}", f"{python} -m pip uninstall adderclaw"


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
