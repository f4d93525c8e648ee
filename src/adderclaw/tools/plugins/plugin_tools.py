"""Tools of plugins: programs that run in the sandbox, read one JSON object on stdin and print JSON on stdout."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from adderclaw.config.foreign import json_schema
from adderclaw.config.plugins.manifest import DESCRIPTION_CHARS, Manifest, PluginTool, inner
from adderclaw.core.decode import Invalid, short_json
from adderclaw.core.host import ToolContext
from adderclaw.core.json_text import canonical, reject_constant
from adderclaw.core.redaction import visible
from adderclaw.core.types import Disabled, Json, Prepared, Tool, ToolResult, Touch, internal_failure, refused, rejected
from adderclaw.sandbox import process, workspace
from adderclaw.sandbox.process import Finished
from adderclaw.tools.lookup import builtin_names
from adderclaw.tools.specs import visible_schema

if TYPE_CHECKING:
    from adderclaw.config.plugins.loaded_plugin import LoadedPlugin
    from adderclaw.sandbox.process import Starter

GRACE = 5.0
"""Seconds added to the tool's own time limit, so that its output so far is still reported."""
OUTPUT_BYTES = 1 << 20
"""The longest output; a program that prints more is ended."""
STDERR_CHARS = 4_000
"""This much of the end of stderr is shown."""
METADATA_BYTES = 16_384
KEYS = frozenset(("success", "output", "error", "metadata"))


def plugin_tools(
    plugins: "Iterable[LoadedPlugin]",
    start: "Starter | None",
    taken: Iterable[str],
    warn: Callable[[str], None],
) -> dict[str, Tool[Any]]:
    """The tools of all plugins by name; `taken` are names that they must not use."""
    by_name: dict[str, Tool[Any]] = {}
    used = {name.lower() for name in taken}
    for plugin in plugins:
        for tool in plugin.plugin.manifest.tools:
            if tool.name.lower() in used:
                warn(f"the tool {tool.name!r} of the plugin {plugin.plugin.name!r} was left out: the name is taken")
                continue
            used.add(tool.name.lower())
            by_name[tool.name] = _tool(plugin, tool, start)
    return by_name


def name_clashes(manifest: Manifest, others: Iterable[Manifest]) -> list[str]:
    """Which tools of a plugin have a name that is taken, and by what."""
    taken = {name.lower(): f"a built-in tool is called {name}" for name in reversed(builtin_names())}
    for other in others:
        taken |= {tool.name.lower(): f"the plugin {other.name!r} has a tool of that name" for tool in other.tools}
    return [
        f"{tool.name!r} cannot be the name of a tool, because {taken[tool.name.lower()]}"
        for tool in manifest.tools
        if tool.name.lower() in taken
    ]


def unusable_schemas(manifest: Manifest) -> list[str]:
    """Which tools have an unusable schema, and why."""
    reasons = ((tool.name, json_schema.schema_problem(tool.schema)) for tool in manifest.tools)
    return [f"tools: the schema of {name!r} cannot be used: {visible(why)}" for name, why in reasons if why]


# ------------------------------------------------------------------ one tool


def _tool(plugin: "LoadedPlugin", tool: PluginTool, start: "Starter | None") -> Tool[Json]:
    name = plugin.plugin.name

    def prepare(arguments: Json, context: ToolContext) -> Prepared:
        if why := plugin.changed():
            raise Disabled("plugins", why)
        touch = Touch(opaque=True, why=f"runs {tool.command} of the plugin {name}")
        return Prepared(touch, lambda: _run(plugin, tool, arguments, context, start))

    described = visible(tool.description).strip()[:DESCRIPTION_CHARS]
    return Tool(
        name=tool.name,
        arguments=cast(type[Json], dict),
        prepare=prepare,
        description=f"[plugin {name}] {described}",
        parameters=visible_schema(tool.schema),
        timeout=lambda _arguments: tool.timeout + GRACE,
        decode=partial(_check_arguments, tool.schema),
        deferred=tool.deferred,
    )


def _check_arguments(schema: Json, arguments: Json) -> Json:
    if problems := json_schema.problems(schema, arguments):
        raise Invalid([("", problem) for problem in problems])
    return arguments


async def _run(
    plugin: "LoadedPlugin", tool: PluginTool, arguments: Json, context: ToolContext, start: "Starter | None"
) -> ToolResult:
    if why := plugin.changed():  # it may have changed while the operator was asked
        return refused(why, "policy")
    area = context.workspace
    cwd = area.cwd if workspace.is_directory(area.cwd) else area.root
    request = {"tool": tool.name, "arguments": arguments, "workspace": area.root}
    variables = {f"{who}_PLUGIN_ROOT": plugin.root for who in ("CLAUDE", "ADDERCLAW")}
    variables["PYTHONDONTWRITEBYTECODE"] = "1"
    try:
        done = await process.run(
            [os.path.join(plugin.root, inner(tool.command) or ""), *tool.args],
            cwd=cwd,
            env=process.environment(variables, workspace_roots=(area.root, *area.extra)),
            timeout=tool.timeout,
            max_bytes=OUTPUT_BYTES,
            stdin=json.dumps(request).encode() + b"\n",
            start=process.in_view(start, "server"),
        )
    except process.StartFailed as error:
        hint = "; does it start with a line such as #!/usr/bin/env python3?" if error.errno == 8 else ""
        return internal_failure(f"{_tool_label(plugin, tool)} could not be started: {error.strerror}{hint}")
    return _read_answer(plugin, tool, done)


def _tool_label(plugin: "LoadedPlugin", tool: PluginTool) -> str:
    return f"{tool.name} of the plugin {plugin.plugin.name!r}"


# ------------------------------------------------------------------ reading the answer


def _read_answer(plugin: "LoadedPlugin", tool: PluginTool, done: Finished) -> ToolResult:
    failed = partial(_failure, plugin, tool, done)
    if done.timed_out:
        return failed(f"did not finish within {tool.timeout:g} seconds and was ended")
    if done.stdout_cut:
        return failed(f"printed more than {OUTPUT_BYTES} bytes on stdout; none of it is used")
    if done.flooded:
        return failed("printed too much on stderr and was ended")
    if not done.stdout.strip():
        return failed("printed nothing; it must print JSON on stdout")
    try:
        value: Any = json.loads(done.stdout.decode(), parse_constant=reject_constant)
    except (ValueError, RecursionError) as error:
        start = visible(done.stdout[:200].decode("utf-8", "replace"))
        return failed(f"did not print JSON ({_short(error)}); its output starts with: {start}")
    answer = cast(Json, value) if isinstance(value, dict) else {}
    if "success" not in answer:
        return failed("") if done.returncode else _success(plugin, cast(object, value), {})
    if wrong := _shape_problem(answer):
        return failed(f"printed an invalid answer: {wrong}")
    if answer["success"] and done.returncode:
        return failed("reported success but failed")
    if not answer["success"]:
        reason = answer.get("error") or answer.get("output") or "it gave no reason"
        return failed(f"failed: {_text(reason)}")
    return _success(plugin, answer.get("output", ""), answer.get("metadata", {}))


def _shape_problem(answer: Json) -> str:
    if not isinstance(answer["success"], bool):
        return f"success must be true or false, not {short_json(answer['success'])}"
    if unknown := sorted(answer.keys() - KEYS):
        return f"{short_json(unknown[0])} is not a known key; known: {', '.join(sorted(KEYS))}"
    if not isinstance(answer.get("error", ""), str | None):
        return f"error must be text, not {short_json(answer['error'])}"
    if not isinstance(answer.get("metadata", {}), dict):
        return f"metadata must be an object, not {short_json(answer['metadata'])}"
    if len(canonical(answer.get("metadata"))) > METADATA_BYTES:
        return f"metadata has more than {METADATA_BYTES} bytes"
    return ""


def _short(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else visible(str(error))[:200]


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical(value)


def _success(plugin: "LoadedPlugin", output: object, metadata: Mapping[str, Any]) -> ToolResult:
    about = {"plugin": plugin.plugin.name, **({"plugin_metadata": dict(metadata)} if metadata else {})}
    return ToolResult(visible(_text(output)) or "(nothing)", metadata=about)


def _failure(plugin: "LoadedPlugin", tool: PluginTool, done: Finished, what: str) -> ToolResult:
    """A failed result with the reason, the exit code and the end of stderr. Its text is untrusted."""
    ended = ""
    if done.returncode > 0:
        ended = f"ended with exit code {done.returncode}"
    elif done.returncode < 0 and not (done.timed_out or done.flooded):
        ended = f"was ended by signal {-done.returncode}"
    lines = [f"{_tool_label(plugin, tool)} {'; it '.join(filter(None, (what, ended)))}"]
    if stderr_text := visible(done.stderr.decode("utf-8", "replace")).strip():
        cut = "… " if len(stderr_text) > STDERR_CHARS or done.stderr_cut else ""
        lines.append(f"stderr: {cut}{stderr_text[-STDERR_CHARS:]}")
    return rejected("\n".join(lines), own=False)
