"""How this program was installed, and the matching commands to update it, add an extra or uninstall it."""

import json
import os
import sys
from collections.abc import Callable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Literal, TypedDict

from adderclaw import __version__

type Way = Literal["checkout", "image", "single file", "uv tool", "pipx", "uv pip", "pip"]

NEXT = "# with the install.sh of the next release; each installs its own version"
"""A comment of the shell, so that the whole line can be copied."""


class Installed(TypedDict):
    version: str
    way: Way
    where: str
    source: str
    """What it was installed from; empty for the package index."""
    update: str
    """The command that updates the program."""
    remove: str
    """The command that uninstalls the program."""


def found() -> Installed:
    """How this program is installed. Uses no network; the update command determines the newest version itself."""
    way, where, source = _found()
    update, remove = _commands(way, where, source)
    return {"version": __version__, "way": way, "where": where, "source": source, "update": update, "remove": remove}


def missing_extra(extra: str, missing: str | None) -> str:
    """The message that an extra is not installed. Every such message is created here."""
    return f"the extra `{extra}` is not installed ({missing} is missing): install it with `{bring(extra)}`"


def bring(extra: str) -> str:
    """The command that installs an extra, such as `fleet`, matching how the program was installed."""
    way, where, source = _found()
    # includes the installed extras, because `uv tool` and `pipx` recreate the environment from what is named
    requirement = _quoted(_requirement(source, [*_extras(), extra]))
    match way:
        case "single file":
            # it contains all extras, so this one is broken and must be reinstalled
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
    """The path by which a unit or a crontab calls this program; empty if it is not found.

    A link is not resolved, so that it leads to later versions too. Files unpacked by the single file are never used,
    because they belong to one version. `find` looks up a name on PATH.
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
    """How the program was installed, where it is, and what it was installed from."""
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
    """The commands that update and uninstall the program."""
    python = _quoted(sys.executable)
    # a file always installs the same version; a folder or repository may contain a newer one
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
    """The folders that single files unpacked, of this version and others."""
    cache = os.path.dirname(sys.prefix)
    folders = (os.path.join(cache, name) for name in sorted(os.listdir(cache)))
    return [folder for folder in folders if os.path.exists(f"{folder}/whole")]


def _origin() -> tuple[str, bool]:
    """The address or folder that it was installed from (PEP 610), and whether it is an editable install."""
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
    """The requirement for an installer, from this source or else from the package index."""
    from urllib.parse import quote

    if source and not extras:
        return source
    address = f"file://{quote(source)}" if source.startswith("/") else source
    return "adderclaw" + (f"[{','.join(sorted({*extras}))}]" if extras else "") + (f" @ {address}" if address else "")


def _extras() -> list[str]:
    """The installed extras: those whose packages are all present."""
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
