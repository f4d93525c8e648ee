"""`adderclaw plugin`: installs, shows, trusts, enables, disables, verifies, removes and creates plugins."""

import asyncio
import os
import re
import shlex
import sys
from contextlib import suppress
from typing import Annotated, Literal

import typer

from adderclaw.config import home
from adderclaw.config.plugins import installed
from adderclaw.config.plugins.installed import Plugin
from adderclaw.config.plugins.manifest import NAME, Manifest, PluginTool
from adderclaw.config.plugins.preview import NOT_INSTALLED, lines, question, seen
from adderclaw.config.plugins.tree import NOT_COPIED
from adderclaw.core.errors import AdderClawError, ConfigError, DeniedError, NeedsInput, UsageError
from adderclaw.core.redaction import Secrets, visible
from adderclaw.core.types import Json
from adderclaw.terminal.commands.common import OutputFormat, group
from adderclaw.terminal.operators import terminal_question
from adderclaw.terminal.output import print_json
from adderclaw.tools.plugins import changes, folders
from adderclaw.tools.plugins.changes import Offer
from adderclaw.tools.plugins.plugin_tools import name_clashes

app = group("Install, show, trust, enable, disable, verify, remove and create plugins.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A plugin's name, as shown by `plugin list`.")]
Trust = Annotated[
    str | None,
    typer.Option(
        "--trust", metavar="SHA256", help="Trust exactly this content: the hash that --dry-run or `show` prints."
    ),
]
UNTRUSTED = "none of its tools, hooks, servers, skills, commands and agents is used until you trust it"
clean = Secrets().clean


@app.command("list")
def list_plugins(output_format: OutputFormat = "text") -> None:
    """List the installed plugins and whether they are active.

    Example: adderclaw plugin list
    """
    plugins = _installed_plugins()
    if output_format == "json":
        print_json([_row(plugin) for plugin in plugins])
        return
    for plugin in plugins:
        brings = ", ".join(_parts_text(plugin)) or "nothing"
        print_change(f"{plugin.name:<24} {plugin.version or '-':<10} {plugin.state:<10} {brings}")
        for problem in plugin.problems[:5]:
            print_change(f"  {problem}")
        if fix := _fix(plugin):
            print_change(f"  {fix}")
    if not plugins:
        print("no plugin is installed")


@app.command()
def show(name: Name, output_format: OutputFormat = "text") -> None:
    """Show everything a plugin contains, and the hash it is trusted by.

    Example: adderclaw plugin show echo-plugin
    """
    plugin = _require_plugin(name)
    try:
        offer = changes.build_offer(home(), plugin, plugin.entry.get("source") or {})
    except ConfigError as error:
        offer = Offer(plugin, [], [], [problem.message for problem in error.problems], {})
    if output_format == "json":
        print_json(_offer_json(offer))
        return
    _show(offer)
    print_change(f"state: {plugin.state}" + (f"; {fix}" if (fix := _fix(plugin)) else ""))


@app.command()
def install(
    source: Annotated[str, typer.Argument(metavar="PATH|GIT", help="A folder, or URL[@REF][#FOLDER] of a repository.")],
    trust: Trust = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show it and its hash; install nothing.")] = False,
    upgrade: Annotated[bool, typer.Option("--upgrade", help="Replace the installed version.")] = False,
    plugin: Annotated[
        str | None, typer.Option("--plugin", metavar="NAME", help="The plugin to install from a marketplace.")
    ] = None,
    output_format: OutputFormat = "text",
) -> None:
    """Copy a plugin, show what it contains, and enable it once you trust it. Nothing in it runs before that.

    Example: adderclaw plugin install ./echo-plugin --dry-run
    """
    as_json = output_format == "json"
    agree = _Consent(trust, only_show=dry_run, as_json=as_json)
    plugin_row = changes.install_plugin(home(), source, agree, wanted=plugin, upgrade=upgrade)
    if plugin_row is None and not dry_run:
        raise DeniedError(f"not trusted, so {NOT_INSTALLED}")
    if as_json:
        print_json(
            {
                **_offer_json(agree.last),
                "installed": plugin_row is not None,
                "state": plugin_row.state if plugin_row else "untrusted",
            }
        )
    elif plugin_row is None:
        print_change(f"{NOT_INSTALLED}; to install it: {agree.again(source)}")
    else:
        print_change(f"installed and enabled: {plugin_row.name} ({plugin_row.sha256})")


@app.command()
def enable(name: Name, trust: Trust = None, output_format: OutputFormat = "text") -> None:
    """Enable a plugin. One that changed, or was copied there by hand, is shown first.

    Example: adderclaw plugin enable echo-plugin
    """
    agree = _Consent(trust, as_json=output_format == "json")
    if not changes.enable_plugin(home(), name, agree):
        raise DeniedError(f"not trusted, so {name} is not enabled")
    _print_report(name, "is enabled", as_json=output_format == "json")


@app.command()
def disable(name: Name, output_format: OutputFormat = "text") -> None:
    """Disable a plugin; it stays installed.

    Example: adderclaw plugin disable echo-plugin
    """
    changes.disable_plugin(home(), name)
    _print_report(name, "is disabled", as_json=output_format == "json")


@app.command()
def remove(
    name: Name,
    keep_data: Annotated[bool, typer.Option("--keep-data", help="Keep its data folder.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Also remove its data, without asking.")] = False,
    output_format: OutputFormat = "text",
) -> None:
    """Remove a plugin: its folder, its trust, and its data.

    Example: adderclaw plugin remove echo-plugin
    """
    _require_plugin(name)
    if changes.has_data(home(), name) and not keep_data and not yes:
        folder = installed.data_folder(home(), name)
        agreed = None if output_format == "json" else _ask_yes_no(f"Also remove its data in {folder}? [y/N] ")
        if agreed is None:
            raise NeedsInput(f"{folder} has its data: keep it with --keep-data, or remove it with --yes")
        keep_data = not agreed
    forgotten: list[str] = []
    changes.remove_plugin(home(), name, lambda plugin: forgotten.extend(_forget(plugin, keep_data=keep_data)))
    if output_format == "json":
        print_json({"name": name, "removed": True, "kept_data": keep_data, "forgotten": forgotten})
        return
    print_change(f"removed: {', '.join((name, *forgotten))}")
    if keep_data:
        print_change(f"its data stays in {installed.data_folder(home(), name)}")


def _forget(plugin: Plugin, *, keep_data: bool) -> list[str]:
    """Removes what the plugin left outside its folder."""
    from adderclaw.agent.run import Options, start
    from adderclaw.agent.run.plugins import forget

    runtime = start(Options(log_level="warning", here=True, looks=True, bare=True))
    brought, store_path = plugin.manifest.mcp_servers, runtime.config.memory.path
    return forget(runtime.home, store_path, runtime.credentials, plugin.name, brought, keep_data=keep_data)


@app.command()
def verify(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME|PATH]", help="One plugin, or a folder; default: all.")
    ] = None,
    output_format: OutputFormat = "text",
) -> None:
    """Check plugins: whether each is unchanged since it was trusted, and its problems. Nothing in it runs.

    Example: adderclaw plugin verify
    """
    looked = [_verify(plugin) for plugin in _requested_plugins(name)]
    if output_format == "json":
        print_json([clean(row) for row in looked])
    for row in looked if output_format == "text" else ():
        print_change(f"{row['name']}: {row['state']}  {row['sha256']}")
        for problem in (*row["problems"], *row["warnings"]):
            print_change(f"  {problem}")
        if row["fix"]:
            print_change(f"  {row['fix']}")
    if not looked and output_format == "text":
        print("no plugin is installed")
    if any(row["state"] in ("changed", "broken") for row in looked):
        raise typer.Exit(1)


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the plugin and of its folder.")],
    kind: Annotated[
        Literal["tool", "package"],
        typer.Option("--kind", help="tool: a program for the model. package: commands, skills, agents, hooks."),
    ] = "tool",
    into: Annotated[str, typer.Option("--into", metavar="DIR", help="The folder to create it in.")] = ".",
    output_format: OutputFormat = "text",
) -> None:
    """Create a working plugin to start from, with a README and a test.

    Example: adderclaw plugin new my-plugin
    """

    folder, files = write_plugin(name, kind, into)
    if output_format == "json":
        print_json({"name": name, "kind": kind, "folder": folder, "files": files})
        return
    for path in files:
        print_change(f"{folder}/{path}")
    print_change(f"check it: adderclaw plugin verify {folder}; install it: adderclaw plugin install {folder}")


# ------------------------------------------------------------------ consent


class _Consent:
    """Shows what a plugin contains and asks for consent; with a hash, consents to exactly that content."""

    def __init__(self, trust: str | None, *, only_show: bool = False, as_json: bool = False) -> None:
        self._trust, self._only_show, self._as_json = trust, only_show, as_json
        self.last: Offer

    def __call__(self, offer: Offer) -> bool:
        self.last, name = offer, offer.plugin.name
        if not self._as_json:
            _show(offer)
        if self._only_show:
            return False
        if self._trust is not None:
            if self._trust.lower() != offer.plugin.sha256:
                raise DeniedError(
                    f"--trust {visible(self._trust)[:80]}: the content has another hash, {offer.plugin.sha256}"
                )
            return True
        agreed = None if self._as_json else _ask_yes_no(question(name, offer.rows))
        if agreed is None:
            seen = f"--trust {offer.plugin.sha256}"
            raise NeedsInput(
                f"cannot ask whether to trust {name} without a terminal: check what it contains, then give {seen}"
            )
        return agreed

    def again(self, source: str) -> str:
        return f"adderclaw plugin install {shlex.quote(source)} --trust {self.last.plugin.sha256}"


def _ask_yes_no(question: str) -> bool | None:
    """The answer of the person at the terminal; None without a terminal."""
    ask = terminal_question()
    if ask is None:
        return None

    async def answer() -> str:
        return (await ask(visible(question, keep_newlines=False)) or "").strip().lower()

    sys.stdout.flush()  # show what is agreed to before the question
    return asyncio.run(answer()) in ("y", "yes")


# ------------------------------------------------------------------ showing


def print_change(line: str) -> None:
    """Prints a line that may contain text of a plugin, without control characters."""
    print(visible(line, keep_newlines=False, directions=False))


def _show(offer: Offer) -> None:
    plugin = offer.plugin
    print_change(f"{plugin.name} {plugin.version}".rstrip() + (f": {plugin.description}" if plugin.description else ""))
    if offer.origin:
        print_change("  from " + " ".join(f"{clean(value)}" for key, value in offer.origin.items() if key != "kind"))
    for row in offer.rows:
        print_change(f"  {row['what']} {row['name']}")
        for line in lines(row["value"]):
            print_change(f"    {line}")
    for mark in offer.changed:
        print_change(f"  since it was trusted: {mark}")
    for warning in offer.warnings:
        print_change(f"  cannot be used: {clean(warning)}")
    print_change(f"  sha256 {plugin.sha256}")


def _offer_json(offer: Offer) -> Json:
    plugin = offer.plugin
    known: Json = {**_row(plugin), "files": plugin.files, "source": clean(offer.origin), "brings": seen(offer.rows)}
    return {**known, "changed": clean(offer.changed), "warnings": clean(offer.warnings)}


def _row(plugin: Plugin) -> Json:
    manifest = plugin.manifest
    known: Json = {key: getattr(plugin, key) for key in ("name", "version", "description", "state", "sha256", "folder")}
    parts: Json = {
        "tools": [tool.name for tool in manifest.tools],
        "commands": list(manifest.commands),
        "agents": list(manifest.agents),
        "skills": list(manifest.skills),
        "hooks": list(manifest.hooks),
        "mcp_servers": list(manifest.mcp_servers),
    }
    about: Json = {key: plugin.entry.get(key) for key in ("installed_at", "trusted_at", "source")}
    return clean({**known, **parts, **about, "problems": list(plugin.problems), "unused": list(manifest.unused)})


def _parts_text(plugin: Plugin) -> list[str]:
    """What a plugin contains, in short: `2 tools, 1 hook`."""
    manifest = plugin.manifest
    hooks = sum(len(groups) for groups in manifest.hooks.values())
    counts = {"tool": len(manifest.tools), "command": len(manifest.commands), "agent": len(manifest.agents)}
    counts |= {"skill": len(manifest.skills), "hook": hooks, "MCP server": len(manifest.mcp_servers)}
    return [f"{count} {what}{'s' if count > 1 else ''}" for what, count in counts.items() if count]


def _fix(plugin: Plugin) -> str:
    match plugin.state:
        case "changed":
            return f"check it (adderclaw plugin show {plugin.name}), then: adderclaw plugin enable {plugin.name}"
        case "untrusted":
            return f"{UNTRUSTED}: adderclaw plugin enable {plugin.name}"
        case "broken":
            return f"fix it, or: adderclaw plugin remove {plugin.name}"
        case _:
            return ""


# ------------------------------------------------------------------ finding


def _installed_plugins() -> tuple[Plugin, ...]:
    folders.clean_up(home())
    return installed.known(home())


def _require_plugin(name: str) -> Plugin:
    folders.clean_up(home())
    return changes.find_plugin(home(), name)


def _requested_plugins(name: str | None) -> tuple[Plugin, ...]:
    if name is None:
        return _installed_plugins()
    if "/" in name or name in (".", ".."):
        if not os.path.isdir(name):
            raise UsageError(f"{visible(name)}: there is no such folder")
        return (installed.at(os.path.abspath(name), leave_out=NOT_COPIED),)  # as it would be installed
    return (_require_plugin(name),)


def _verify(plugin: Plugin) -> Json:
    is_here = plugin.folder == installed.folder(home(), plugin.name)
    fix = _fix(plugin) if is_here else ""
    row: Json = {"name": plugin.name, "state": plugin.state, "sha256": plugin.sha256, "fix": fix}
    row |= {"problems": list(plugin.problems), "warnings": []}
    try:
        row["warnings"] = changes.build_offer(home(), plugin, {}).warnings
    except ConfigError as error:
        row |= {"state": "broken", "problems": [problem.message for problem in error.problems]}
    return row


def _print_report(name: str, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(_row(changes.find_plugin(home(), name)))
    else:
        print_change(f"{name} {what}")


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
