"""Generates docs/configuration.md from the schema: `python -m adderclaw.config.reference > docs/configuration.md`."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from textwrap import fill
from typing import Any, TypeAliasType, get_args, get_origin

from adderclaw.config.baseline import BASELINE, EVERYWHERE, TIGHTEN
from adderclaw.config.foreign import dialects
from adderclaw.config.leaves import meaning
from adderclaw.config.schema import Config
from adderclaw.core.decode import Between, field_docs, literals, plain_type, short_json

HEAD = """\
# Configuration

Generated from the schema by `adderclaw config reference`; do not edit.

One schema, three syntaxes: TOML, YAML and JSON, by the suffix of the file. A file may be 1 MiB long. Every error is
reported in one pass, with file, key, value and what is allowed: `adderclaw config validate [--file F]`.
`adderclaw config show --origin` prints what counts, and the file, flag or variable that each value is from.
`adderclaw config set KEY VALUE` and `config unset KEY` change your own file, and check it before they write it.

## Where settings come from

From the lowest to the highest; a higher one replaces a lower one, key by key:

1. the built-in defaults below;
2. your own file: `~/.adderclaw/config.toml`, else `~/.config/adderclaw/agent.yaml`; then `~/.adderclaw/settings.json`;
   with `[compat] claude = true`, your `~/.claude/settings.json` below them;
3. a project's `.claude/settings.json` and `.claude/settings.local.json` ([compatibility](compatibility.md)); then the
   project's file: the first of `agent.yaml`, `agent.toml`, `agent.json` in the project's directory; of the others
   only what they deny and ask;
4. `.adderclaw/agent.json` and `.adderclaw/settings.json` of the project: permissions, hooks, mcpServers, env,
   model_config;
5. flags of the command.

Above all of them stands `/etc/adderclaw/managed.toml`, where the administrator of a machine has written one: it bounds
every layer, and nothing loosens it ([organisations](organisations.md)).

`--config F` means F alone over the defaults. Permission rules and hooks of all layers count together.
`$ADDERCLAW_HOME` moves `~/.adderclaw`; `$AGENT_SDLC_DB`, an absolute path, goes before `memory.path`.

`~`, `$NAME` and `${NAME}` are filled in where the type below is a path or a URL, and nowhere else; a variable that is
not set is an error. A path is relative to the file that it stands in, a workspace path to the workspace.
Keys and tokens never stand in a file: `api_key_env` names the environment variable that holds one.

An unknown key is an error, with the nearest known one: under `permissions` of a settings file as everywhere. A
permission rule that is none (`Read(`, an empty text, a number) is dropped, and a warning names it.

## The workspace

`--workspace`, else `workspace_dir` of the project's file, else the nearest directory upwards from the current one that
holds `.git`, `SPEC.md`, `Agentfile`, `agent.yaml`, `agent.toml`, `agent.json` or `.adderclaw/`, else the nearest one
with `AGENTS.md`, `CLAUDE.md` or a manifest (`pyproject.toml`, `package.json`, `Cargo.toml`, `go.mod`, `pom.xml` …): a
package of a repository belongs to the repository. Your home directory, `/` and folders like `/tmp` never count.
Where there is no project, `agent` works in `workspace_dir`; everything else (`-p`, `run`, `rpc`, `tool`, `mcp serve`,
the Python API …) in the current directory. The first line of every start says which directory it is, and why. Your home
directory and `/` are the workspace only where `--workspace` names them, with a warning. A folder beneath `/dev` (such
as `/dev/shm`), `/proc` or `/sys` is refused: no tool may touch it, and commands see another one.
"""

TRUST = """\
## Trust

What a repository brings can only tighten until you have read it and said `adderclaw trust`: that records the hash of
its configuration files in `~/.adderclaw/trust.json`, and one changed byte asks again. Until then these keys count in
the project's files where they are stricter than what stands below them (lower, fewer, denied or added to a list of
refusals), and any other key is ignored with a warning:

{tighten}

Even a trusted project's file cannot weaken the baseline: {baseline}, all of `notices` and the sandbox
(`runtime.profile = "permissive"`) are yours alone. {everywhere} cannot be turned off by anybody.
"""


def _type(kind: Any) -> str:
    means = meaning(kind)
    kind_bare = plain_type(kind)
    if choices := literals(kind):
        return " \\| ".join(f"`{choice}`" for choice in choices)
    origin, arguments = get_origin(kind_bare), get_args(kind_bare)
    if origin is list:
        return f"list of {_plural(means, arguments[0])}"
    if origin is dict:
        return "table"
    if means:
        return {"variable": "name of a variable", "url": "URL"}.get(means, means)
    return _number(kind) or {str: "text", bool: "true or false"}.get(kind_bare, "table")


def _plural(means: str | None, item: Any) -> str:
    return {"path": "paths", "workspace path": "workspace paths"}.get(means or "", "texts" if item is str else "tables")


def _number(kind: Any) -> str:
    base = plain_type(kind)
    if base not in (int, float):
        return ""
    name = "whole number" if base is int else "number"
    bounds = _bounds(kind)
    return f"{name}, {bounds.words}" if bounds else name


def _bounds(kind: Any) -> Between | None:
    if isinstance(kind, TypeAliasType):
        return _bounds(kind.__value__)
    for note in getattr(kind, "__metadata__", ()):
        if isinstance(note, Between):
            return note
    return next((bounds for arm in get_args(kind) if (bounds := _bounds(arm))), None)


def _default(spec: Any) -> str:
    from dataclasses import MISSING

    value = spec.default_factory() if spec.default_factory is not MISSING else spec.default
    if value is MISSING:
        return "required"
    return "none" if value is None else f"`{short_json(value)}`"


def _sections(kind: Any, prefix: str) -> Iterator[str]:
    """A table for the plain keys of a class, then a section for each class inside it."""
    docs, inner = field_docs(kind), list[tuple[str, Any]]()
    rows = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for spec in fields(kind):
        base, entry = plain_type(spec.type), _entry_of(spec.type)
        if is_dataclass(base):
            inner.append((f"{prefix}{spec.name}", base))
        elif entry:
            inner.append((f"{prefix}{spec.name}.NAME", entry))
        else:
            text = docs.get(spec.name, "").replace("|", "\\|")
            rows.append(f"| `{spec.name}` | {_type(spec.type)} | {_default(spec)} | {text} |")
    if len(rows) > 2:
        title = f"`[{prefix[:-1]}]`" if prefix else "Top level"
        yield f"### {title}\n\n{kind.__doc__}\n\n" + "\n".join(rows) + "\n"
    for name, entry in inner:
        yield from _sections(entry, f"{name}.")


def _entry_of(kind: Any) -> Any:
    """The class of the entries of a table of tables."""
    base = plain_type(kind)
    entry = plain_type(get_args(base)[1]) if get_origin(base) is dict else None
    return entry if is_dataclass(entry) else None


def _spellings() -> str:
    rows = [f"| `{'.'.join(theirs)}` | `{'.'.join(ours)}` |" for theirs, ours in dialects.RENAMED.items()]
    rows += [
        "| `model.provider`, `llm.provider` | `default_provider`, and an entry of that kind |",
        "| `model.name`, `llm.model` | `providers.models.PROVIDER.model` |",
        "| `model.max_tokens`, `llm.max_tokens` | `providers.models.PROVIDER.max_tokens` |",
        "| `model.providers.NAME`, `llm.api_key_env`, `llm.base_url` | keys of `providers.models.NAME` |",
        "| `model_config.provider`, `model_config.model_id` | `default_provider` and its model |",
    ]
    head = "## Other spellings\n\nThese are read too. A key in two spellings with different values is an error.\n"
    return "\n".join([head, "| spelling | is |", "| --- | --- |", *rows]) + "\n"


def _keys(table: dict[str, Any]) -> str:
    return ", ".join(f"`{key}`" for key in table)


def reference() -> str:
    """The whole page."""
    trust = TRUST.format(tighten=_keys(TIGHTEN), baseline=_keys(BASELINE), everywhere=_keys(EVERYWHERE))
    trust = "\n\n".join(fill(part, 118, break_on_hyphens=False) for part in trust.strip().split("\n\n")) + "\n"
    return "\n".join([HEAD, trust, "## Keys\n", *_sections(Config, ""), _spellings()])


if __name__ == "__main__":
    print(reference(), end="")
