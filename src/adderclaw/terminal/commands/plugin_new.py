"""The plugin that `plugin new` writes: files that come with the program, with the name filled in."""

import os
import re
from contextlib import suppress

from adderclaw.config.plugins.manifest import NAME, Manifest, PluginTool
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.redaction import visible
from adderclaw.tools.plugins.plugin_tools import name_clashes

TEMPLATES = os.path.join(os.path.dirname(__file__), "new_plugin")
RUNS = frozenset(("run",))
"""Files that may be run."""


def write_plugin(name: str, kind: str, into: str) -> tuple[str, list[str]]:
    """Writes a plugin and returns its folder and files. Raises UsageError if something is there already."""
    if not NAME.fullmatch(name) or not name[0].isalpha():
        fix = "a letter first, then letters, digits, `.`, `_` and `-`"
        raise UsageError(f"{visible(name, keep_newlines=False)[:80]!r} is not a valid plugin name: {fix}")
    folder = os.path.join(os.path.abspath(os.path.expanduser(into)), name)
    words = {"@name@": name, "@tool@": re.sub(r"[^A-Za-z0-9_-]", "_", name)}
    if kind == "tool" and (taken := name_clashes(_brings(words["@tool@"]), ())):
        raise UsageError(f"{taken[0]}: choose another name")
    paths: list[str] = []
    try:
        os.mkdir(folder)
        for path, text in _templates(kind):
            for mark, word in words.items():
                text = text.replace(mark, word)
            _write(os.path.join(folder, path), text, runs=path in RUNS)
            paths.append(path)
    except FileExistsError:
        raise UsageError(f"{folder} already exists: choose another name, or remove it") from None
    except OSError as error:
        raise AdderClawError(f"{folder} cannot be written: {error.strerror}") from None
    return folder, paths


def _brings(tool: str) -> Manifest:
    return Manifest(tool, tools=(PluginTool(tool, "", ""),))


def _templates(kind: str) -> list[tuple[str, str]]:
    top = os.path.join(TEMPLATES, kind)
    templates: list[tuple[str, str]] = []
    for here, _, names in os.walk(top):
        for name in names:
            if name.endswith(".in"):
                path = os.path.join(here, name)
                with open(path, encoding="utf-8") as file:
                    templates.append((os.path.relpath(path, top).removesuffix(".in"), file.read()))
    return sorted(templates)


def _write(path: str, text: str, *, runs: bool) -> None:
    with suppress(FileExistsError):
        os.makedirs(os.path.dirname(path))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(path, flags, 0o777 if runs else 0o666), "w", encoding="utf-8") as file:
        file.write(text)
