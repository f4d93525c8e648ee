"""`adderclaw config`: validates, shows, changes and creates configuration."""

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adderclaw.config import Loaded, load, places, snapshot
from adderclaw.core import home_names
from adderclaw.core.errors import ConfigError, Problem, StoreError, UsageError
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, WorkspaceDir, group, print_line
from adderclaw.terminal.output import print_json

if TYPE_CHECKING:
    from adderclaw.config.setting_edits import Setting

app = group("Validate, show, change and create configuration.")


@app.command()
def validate(
    file: Annotated[
        str | None, typer.Option("--file", metavar="FILE", help="Use only this file, on top of the built-in defaults.")
    ] = None,
    output_format: OutputFormat = "text",
) -> None:
    """Check the configuration and report every error at once.

    Example: adderclaw config validate --file agent.yaml
    """
    from adderclaw.agent.tool_lists import unknown_in_lists, unknown_in_rules
    from adderclaw.config.legacy.options import Options

    try:
        loaded = load(config_file=file)
        problems = [*([] if file else _missing_workspace(loaded)), *unknown_in_lists(Options(), loaded)]
        if problems:
            raise ConfigError(problems)
    except ConfigError as error:
        if output_format == "json":
            print_json({"valid": False, "problems": [problem._asdict() for problem in error.problems]})
            raise typer.Exit(error.exit_code) from None
        raise
    warnings = (*loaded.warnings, *unknown_in_rules(loaded))
    if output_format == "json":
        print_json({"valid": True, "files": loaded.files, "warnings": warnings})
        return
    for warning in warnings:
        print_line(f"warning: {warning}")
    print_line(f"valid: {', '.join(loaded.files) or 'no file; the built-in defaults apply'}")


def _missing_workspace(loaded: Loaded) -> list[Problem]:
    if os.path.isdir(loaded.workspace):
        return []
    message = f"{loaded.workspace} does not exist; create it with `adderclaw init` or mkdir"
    return [Problem(loaded.origins["workspace_dir"], "workspace_dir", message)]


@app.command()
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Show where each value comes from.")] = False,
    config: ConfigFile = None,
    workspace: WorkspaceDir = None,
    output_format: OutputFormat = "text",
) -> None:
    """Print the effective settings. Secrets are never shown.

    Example: adderclaw config show --origin
    """
    from adderclaw.agent.run.start import with_operators_own
    from adderclaw.config.redacted import public

    loaded = with_operators_own(load(config_file=config, workspace=workspace))
    shown = public(loaded.config)
    if output_format == "json":
        about = loaded._asdict() | {"config": shown}
        print_json(about if origin else {key: value for key, value in about.items() if key != "origins"})
        return
    _print_text(loaded, shown, origin=origin)


def _print_text(loaded: Loaded, shown: dict[str, Any], *, origin: bool) -> None:
    from adderclaw.config.leaves import leaves

    print_line(f"# workspace: {loaded.workspace} ({loaded.workspace_reason})")
    print_line(
        f"# files: {', '.join(loaded.files) or 'none'}{'' if loaded.trusted else ' (the project is not trusted)'}"
    )
    for warning in loaded.warnings:
        print_line(f"# warning: {warning}")
    for leaf in leaves(shown):
        key = ".".join(part if part.replace("-", "_").isidentifier() else json.dumps(part) for part in leaf.path)
        source = f"  # {loaded.origins.get(leaf.key, 'default')}" if origin else ""
        if leaf.value is None:
            print_line(f"# {key} is not set{source}")
        else:
            print_line(f"{key} = {json.dumps(leaf.value, ensure_ascii=False)}{source}")


def _complete_key(incomplete: str) -> list[str]:
    from adderclaw.config import setting_edits

    return [key for key in setting_edits.every_key() if key.startswith(incomplete)]


def _complete_value(context: typer.Context, incomplete: str) -> list[str]:
    from adderclaw.config import setting_edits

    try:
        words = setting_edits.choices(setting_edits.setting(context.params["key"]).kind)
    except (KeyError, UsageError):
        return []
    return [word for word in words if word.startswith(incomplete)]


Key = Annotated[
    str, typer.Argument(metavar="KEY", help="A key as shown by `config show`.", autocompletion=_complete_key)
]
Value = Annotated[
    list[str],
    typer.Argument(metavar="VALUE…", help="The value; for a list each item, or '[…]'.", autocompletion=_complete_value),
]
OfProject = Annotated[
    bool, typer.Option("--project", help="Edit the project's agent.toml instead of your own config.toml.")
]


@app.command("set")
def set_value(key: Key, value: Value, project: OfProject = False, output_format: OutputFormat = "text") -> None:
    """Set one key in your configuration file. Comments are kept, and an invalid file is not written.

    Example: adderclaw config set limits.tokens 2000000
    """
    from adderclaw.config import setting_edits

    of = setting_edits.setting(key)
    new_value = setting_edits.parsed(of, value)
    if of.path[-1] == "tools_allow":
        from adderclaw.agent.tool_lists import wrong
        from adderclaw.config.legacy.options import Options

        for _, message in wrong(new_value, Options()):
            raise UsageError(f"{of.key}: {message}")
    _edit(of, new_value, of_project=project, as_json=output_format == "json")


@app.command()
def unset(key: Key, project: OfProject = False, output_format: OutputFormat = "text") -> None:
    """Remove one key, or an entry such as providers.models.NAME, from your configuration file.

    Example: adderclaw config unset limits.tokens
    """
    from adderclaw.config import setting_edits

    _edit(setting_edits.setting(key), None, of_project=project, as_json=output_format == "json")


def _edit(of: "Setting", value: Any, *, of_project: bool, as_json: bool) -> None:
    """Writes the file, keeps the project's trust, and reports a file that overrules the value."""
    from adderclaw.config import setting_edits

    request = places.request(None, None, None, None, here=True, looks=True)
    path = setting_edits.file_to_edit(request, of_project=of_project)
    project = os.path.realpath(os.path.dirname(path))
    trusted = _files_if_trusted(project) if of_project else None
    before = places.read(path) or b""
    if value is None:
        text = setting_edits.remove(request.home, path, of)
    else:
        text = setting_edits.put(request.home, path, of, value)
    if trusted is not None:
        _renew_trust(project, trusted, os.path.basename(path), text)
    note, shown = _overruling_layer(of, path, value), setting_edits.public(of, value)
    if as_json:
        report = {"key": of.key, "value": shown, "file": path, "changed": text.encode() != before}
        print_json({**report, "applies": not note, "note": note})
        return
    print_line(f"{of.key} is no longer set in {path}" if value is None else f"{of.key} = {json.dumps(shown)} in {path}")
    if note:
        print_line(f"note: {note}")


def _overruling_layer(of: "Setting", path: str, value: Any) -> str:
    """Why the written value has no effect here; empty if it has."""
    from adderclaw.agent.run.start import with_operators_own
    from adderclaw.config.leaves import get
    from adderclaw.core.json_text import to_json

    try:
        loaded = with_operators_own(load())
    except (ConfigError, StoreError) as error:
        return f"the configuration here has another problem: {error}"
    origin = loaded.origins.get(of.key, "default")
    if value is None or path in origin.split(", ") or get(to_json(loaded.config), of.path) == value:
        return ""
    for warning in loaded.warnings:
        if warning.startswith(f"{path}: ") and of.key in warning:
            return warning
    return f"{origin} overrules it here"


@app.command()
def init(
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="The file to write.")] = "agent.yaml",
) -> None:
    """Write a configuration with comments for the project in this directory.

    Example: adderclaw config init
    """
    from adderclaw.config.example import of_project

    text = of_project(path)
    project = os.path.realpath(os.path.dirname(path) or ".")
    before = _files_if_trusted(project)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} already exists and was not changed; give another path") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    if before is not None and _renew_trust(project, before, os.path.basename(path), text):
        print_line(f"wrote {path} and trusted it as it is now; after you change it, run `adderclaw trust`")
    else:
        print_line(f"wrote {path}; settings in it that loosen security apply after `adderclaw trust`")


def _files_if_trusted(project: str) -> dict[str, str] | None:
    """The files of a project, if all of them are trusted; None if one is not, or cannot be read."""
    from adderclaw.config.trust import trust

    try:
        fingerprint = trust.survey(project)
    except ConfigError:
        return None
    return (
        fingerprint.files
        if not fingerprint.files or trust.trusts(trust.known(places.home()), project, fingerprint)
        else None
    )


def _renew_trust(project: str, before: dict[str, str], name: str, text: str) -> bool:
    """Trusts the files trusted before and the file just written, and nothing else."""
    import hashlib
    import time

    from adderclaw.config.trust import trust

    home = places.home()
    try:
        fingerprint = trust.survey(project)
        if fingerprint.files != before | {name: hashlib.sha256(text.encode()).hexdigest()}:
            return False
        hooks = trust.known(home).get(project, {}).get("hooks")
        trust.record(home, project, fingerprint, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), hooks)
    except (ConfigError, OSError):
        return False
    return True


@app.command()
def reload(config: ConfigFile = None) -> None:
    """Import the files again, replacing settings changed by hand in the database.

    Example: adderclaw config reload
    """
    from adderclaw.storage import Store, settings

    loaded = load(config_file=config)
    path = loaded.config.memory.path
    if not Store.exists(path):
        raise StoreError(f"{path} does not exist, so there is nothing to reload; create it with `adderclaw init`")
    store = Store.open(path)
    try:
        with store.write() as cursor:
            settings.import_effective(cursor, snapshot(loaded), replace_operators_own=True)
    finally:
        store.close()
    print_line(
        f"the settings in {path} were reset to those of {', '.join(loaded.files) or 'the built-in defaults'} again"
    )


@app.command()
def reference() -> None:
    """Print every key with its type, default and meaning, as Markdown.

    Example: adderclaw config reference | less
    """
    from adderclaw.config.reference import reference as page

    print(page(), end="")


@app.command()
def path() -> None:
    """Print the path of your own configuration.

    Example: $EDITOR "$(adderclaw config path)"
    """
    print(os.path.join(places.home(), home_names.CONFIG))
