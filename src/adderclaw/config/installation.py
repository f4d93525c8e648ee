"""How this program came to this machine, and what brings its next version, an extra, or its end in the same way."""

import json
import os
import sys
from collections.abc import Callable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Literal, TypedDict

from adderclaw import __version__
from adderclaw.core.record import NamedTuple

type Way = Literal["checkout", "image", "single file", "uv tool", "pipx", "uv pip", "pip"]

NEXT = "# with the install.sh of the next release: each brings its own version"
"""A comment of the shell, so that the whole line can be copied."""


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


class Lacking(NamedTuple):
    why: str
    fix: str

    def __str__(self) -> str:
        return f"{self.why}: {self.fix}"


def lacking(extra: str, missing: str | None) -> Lacking:
    """What a person is told where an extra is not installed: every message about one is this."""
    return Lacking(f"the extra `{extra}` is not installed ({missing} is missing)", f"`{bring(extra)}` brings it")


def bring(extra: str) -> str:
    """The command that brings the packages of an extra, such as `server`, for the way that the program came."""
    way, where, source = _found()
    # those that are here are named, too: `uv tool` and `pipx` make the environment anew, of what is named
    requirement = _quoted(_requirement(source, [*_extras(), extra]))
    match way:
        case "single file":
            # it has all of them: this one is broken, and comes again
            return _commands(way, where, source)[0].removesuffix(f" {NEXT}")
        case "image":
            return f"docker pull {source}"
        case "checkout":
            return f"make -C {_quoted(where)} setup"
        case "uv tool":
            return f"uv tool install --force {requirement}"
        case "pipx":
            return f"pipx install --force {requirement}"
        case "uv pip":
            return f"uv pip install --python {_quoted(sys.executable)} {requirement}"
        case "pip":
            return f"{_quoted(sys.executable)} -m pip install {requirement}"


def program(find: Callable[[str], str | None]) -> str:
    """The path by which a unit or a crontab calls this program; empty where it is not found.

    A link to it stays one, so that the next version is found there. What the single file unpacked is never named: it
    belongs to one version, and goes with it. `find` looks a name up on PATH.
    """
    way, where, _ = _found()
    if way == "single file":
        return where
    called = sys.argv[0]
    path = os.path.abspath(called) if os.path.dirname(called) else find(called) or ""
    if not os.path.basename(path).startswith("adderclaw") or not os.access(path, os.X_OK):
        path = find("adderclaw") or ""
    return os.path.abspath(path) if path else ""


def _found() -> tuple[Way, str, str]:
    """How, where it is, and from where it came."""
    prefix = sys.prefix
    if file := os.environ.get("ADDERCLAW_SINGLE_FILE"):
        return "single file", os.path.abspath(file), ""
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
    one_version = source.endswith((".whl", ".tar.gz"))
    requirement = _quoted(_requirement("" if one_version else source, _extras()))
    path = _quoted(where)
    match way:
        case "single file":
            everything = " ".join([path, *map(_quoted, _unpacked())])
            return f"sh install.sh --to {_quoted(os.path.dirname(where))} {NEXT}", f"rm -r {everything}"
        case "image":
            return f"docker pull {source}", f"docker rmi {source}"
        case "checkout":
            return f"git -C {path} pull && make -C {path} setup", f"rm -r {path}"
        case "uv tool":
            upgrade = f"uv tool install --force {requirement}" if one_version else "uv tool upgrade adderclaw"
            return upgrade, "uv tool uninstall adderclaw"
        case "pipx":
            upgrade = f"pipx install --force {requirement}" if one_version else "pipx upgrade adderclaw"
            return upgrade, "pipx uninstall adderclaw"
        case "uv pip":
            upgrade = f"uv pip install --python {python} --upgrade {requirement}"
            return upgrade, f"uv pip uninstall --python {python} adderclaw"
        case "pip":
            return f"{python} -m pip install --upgrade {requirement}", f"{python} -m pip uninstall adderclaw"


def _unpacked() -> list[str]:
    """What single files unpacked: this version and others, beside each other."""
    cache = os.path.dirname(sys.prefix)
    folders = (os.path.join(cache, name) for name in sorted(os.listdir(cache)))
    return [folder for folder in folders if os.path.exists(f"{folder}/whole")]


def _origin() -> tuple[str, bool]:
    """The address or folder that it was installed from (PEP 610), and whether it still runs from there."""
    try:
        record = json.loads(_line("direct_url.json") or "{}")
        url = str(record.get("url", ""))
        if version_control := record.get("vcs_info"):
            return f"{version_control['vcs']}+{url}", False
        if url.startswith("file://"):
            from urllib.parse import unquote

            url = unquote(url.removeprefix("file://"))
        return url, bool(record.get("dir_info", {}).get("editable"))
    except (ValueError, TypeError, AttributeError, KeyError):
        return "", False


def _requirement(source: str, extras: list[str]) -> str:
    """What an installer is asked for: from this source, else from the package index."""
    from urllib.parse import quote

    if source and not extras:
        return source
    address = f"file://{quote(source)}" if source.startswith("/") else source
    return "adderclaw" + (f"[{','.join(sorted({*extras}))}]" if extras else "") + (f" @ {address}" if address else "")


def _extras() -> list[str]:
    """The extras that are installed: every package is here that the extra names."""
    import re

    packages: dict[str, list[str]] = {}
    package = _package("adderclaw")
    for line in (package.requires if package else None) or []:
        if match := re.fullmatch(r"([\w.-]+).*\bextra == ['\"]([\w-]+)['\"].*", line):
            packages.setdefault(match[2], []).append(match[1])
    return [extra for extra, names in packages.items() if all(map(_package, names))]


def _line(name: str) -> str:
    package = _package("adderclaw")
    return ((package and package.read_text(name)) or "").strip()


def _package(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _quoted(word: str) -> str:
    import shlex

    return shlex.quote(word)
