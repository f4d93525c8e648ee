"""Checks what a run needs: the model and its key, git, a browser, trust in the project, plugins and MCP servers."""

import asyncio
import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from adderclaw.agent.queries import Check
from adderclaw.config import Config, Loaded, home
from adderclaw.config.legacy.options import Options
from adderclaw.config.model_facts import found_keys, table
from adderclaw.config.model_facts.catalogue import facts_of, first_answering, model_of
from adderclaw.core.errors import AdderClawError, ConfigError, StoreError
from adderclaw.core.redaction import Secrets
from adderclaw.models import local_servers
from adderclaw.models.credentials.status import credential_rows
from adderclaw.sandbox import programs

if TYPE_CHECKING:
    from adderclaw.agent.run import Runtime

MCP_SECONDS = 30.0
ONBOARD = "run `adderclaw onboard` to set one up"


def run_checks(loaded: Loaded, options: Options, roots: Sequence[str], *, connect: bool) -> Iterator[Check]:
    yield from check_model(loaded, options, connect=connect)
    yield check_git(loaded.workspace, roots)
    yield check_trust(loaded)
    yield check_browser(loaded, roots)
    yield from check_plugins()
    yield from check_hooks(options)
    yield from check_agents(loaded, options)
    yield from check_mcp_servers(loaded, options)
    yield from check_notices(loaded)


def check_hooks(options: Options) -> Iterator[Check]:
    """Finds hooks that cannot run, and hooks that name a script that does not exist."""
    from adderclaw.agent.run import configured_hooks
    from adderclaw.agent.run.start import start_reading
    from adderclaw.tools.hooks.scripts import HookWorkspace, refusal_reason

    try:
        runtime = start_reading(options)
    except (ConfigError, StoreError):  # the check `configuration` reports it
        return
    roots = configured_hooks.roots(runtime)
    for hook in configured_hooks.read(runtime):
        why = "" if hook.skipped else refusal_reason(hook, HookWorkspace(roots))
        if why:
            fix = f"correct that, or remove the hook from {hook.source}"
            yield Check("hooks", "broken", f"hook {hook.ordinal} ({hook.event}) cannot run: {why}", fix)
            continue
        for text in () if hook.skipped else configured_hooks.missing_files(hook, roots):
            yield Check("hooks", "warning", text, f"create it, or correct the hook in {hook.source}")


def check_agents(loaded: Loaded, options: Options) -> Iterator[Check]:
    """Reports files that define subagents and are ignored, as a whole or in part."""
    from adderclaw.tools.control import definitions

    foreign = loaded.config.compat.claude
    known = definitions.known_definitions(home(), loaded.workspace, options.agents, foreign=foreign)
    for problem in known.problems:
        yield Check(
            "agents", "warning", problem, "correct the file; `/agents` in a conversation lists the agents in use"
        )


def check_notices(loaded: Loaded) -> Iterator[Check]:
    """Checks, without sending anything, that each notice target has what it needs."""
    if not loaded.config.notices.targets:
        return
    from adderclaw.agent.queries import notices as facts

    for name, target in loaded.config.notices.targets.items():
        if not target.enabled:
            continue
        why = facts.problem(target) or facts.stored(loaded, name, target)
        if why:
            fix = f"correct [notices.targets.{name}], then run `adderclaw notices test {name}`"
            yield Check("notices", "warning", f"{name} ({target.kind}): {why}", fix)
        else:
            yield Check("notices", "ok", f"{name} ({target.kind}): `adderclaw notices test {name}` sends a test notice")


# ------------------------------------------------------------------ the model


def check_model(loaded: Loaded, options: Options, *, connect: bool) -> Iterator[Check]:
    """Checks that a provider is chosen, has its key, and answers."""
    now = loaded.config
    name = now.default_provider
    if found_keys.is_unscripted(now, name):
        yield _without_chosen_model()
        return
    entry = now.providers.models.get(name)
    if entry is None:
        known = ", ".join(now.providers.models)
        detail = f"default_provider is {name!r}, but no provider has that name"
        yield Check("model", "broken", detail, f"set default_provider to one of: {known}")
        return
    from adderclaw.agent.run.start import credentials
    from adderclaw.agent.session.clock import SystemClock

    sources = credentials(options, loaded, Secrets(), SystemClock())
    (row,) = asyncio.run(credential_rows(sources, now, [name]))
    shown = f"{name} ({entry.kind}, {model_of(name, now)})"
    if not row["usable"]:
        why, _, fix = str(row["note"]).partition("; ")
        fix = f"{fix}, or run `adderclaw onboard` to store a key" if fix else ONBOARD
        yield Check("model", "broken", f"{shown} {why}", fix)
        return
    source = f"{row['class']} {row['source']}".strip()
    yield Check("model", "ok", f"{shown}, key: {source}")
    yield from check_model_table(name, now)
    yield from check_connection(loaded, options, connect=connect)


def check_model_table(name: str, now: Config) -> Iterator[Check]:
    """Checks that a downloaded model table can be read, and that the table in effect lists the chosen model."""
    own = table.refreshed()
    fix = "run `adderclaw models refresh` to update it"
    if own is not None and own.problem:
        yield Check("model table", "warning", f"{own.path} is not used: {own.problem}", fix)
    served = first_answering(name, model_of(name, now), now)
    if (known := facts_of(*served, now)).assumed:
        priced = "" if known.priced else ", and it has no price"
        detail = f"the table of {table.in_effect().fetched} does not list {served.model}: its context window is assumed"
        yield Check("model table", "warning", detail + priced, fix)


def _without_chosen_model() -> Check:
    """Reports what `run` does when the configuration chooses no model."""
    keys = found_keys.undeclined_keys(home())
    if len(keys) == 1:
        return Check("model", "ok", f"no model is configured; runs use {keys[0]}")
    if keys:
        named = ", ".join(map(str, keys))
        detail = f"no model is configured, and the environment has several keys to choose from: {named}"
        return Check("model", "broken", detail, ONBOARD)
    servers = local_servers.servers(local_servers.usual_ports())
    local = f". Model servers on this machine: {', '.join(map(str, servers))}" if servers else ""
    detail = f"no model is configured, so `run` does not start: the built-in `local` provider only plays scripts{local}"
    return Check("model", "warning", detail, ONBOARD)


def check_connection(loaded: Loaded, options: Options, *, connect: bool) -> Iterator[Check]:
    """Asks a local server for its models, which is free. Calls a remote model only with --connect: that may cost."""
    now = loaded.config
    entry = now.providers.models[now.default_provider]
    if connect:
        yield _call_model(loaded, options)
        return
    address = local_servers.address_of(entry.kind, entry.base_url)
    if address is None:
        return
    server = local_servers.at(address, entry.kind)
    fix = "start the server, or correct base_url"
    if server is None:
        yield Check("connection", "broken", f"no model server answers at {address}", fix)
    elif entry.model and server.models and entry.model not in server.models:
        listed = ", ".join(server.models[:5])
        detail = f"{address} does not serve {entry.model!r}; it serves: {listed}"
        yield Check("connection", "broken", detail, "set the provider's model to one of these, or install it there")
    else:
        yield Check("connection", "ok", f"{address} answers")


def _call_model(loaded: Loaded, options: Options) -> Check:
    from adderclaw.agent.queries.judging import one_word
    from adderclaw.agent.run.start import start

    name = loaded.config.default_provider
    try:
        milliseconds, answer = asyncio.run(one_word(start(options), name))
    except AdderClawError as error:
        return Check("connection", "broken", f"{name}: {error}", f"run `adderclaw provider test {name}` for details")
    return Check("connection", "ok", f"{name} answered in {milliseconds:g} ms: {answer[:60]!r}")


# ------------------------------------------------------------------ around it


def check_git(workspace: str, roots: Sequence[str]) -> Check:
    path = programs.resolve("git", roots)
    if path is None:
        needed = os.path.lexists(os.path.join(workspace, ".git"))
        detail = "git is not installed: git commands and worktrees do not work"
        return Check("git", "broken" if needed else "warning", detail, "install git")
    try:
        version = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, cwd="/", check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Check("git", "broken", f"{path} does not run: {error}", "reinstall git")
    return Check("git", "ok", f"{version.stdout.strip()} at {path}")


def check_trust(loaded: Loaded) -> Check:
    if loaded.trusted:
        return Check("trust", "ok", f"{loaded.workspace} is trusted, or has no files that need trust")
    detail = f"{loaded.workspace} is not trusted: its settings, permission rules, hooks and servers are ignored"
    fix = f"review them with `adderclaw trust --show {loaded.workspace}`, then run `adderclaw trust {loaded.workspace}`"
    return Check("trust", "warning", detail, fix)


def check_browser(loaded: Loaded, roots: Sequence[str]) -> Check:
    from adderclaw.flows.spec import browser as spec_browser

    if spec_browser.settings(loaded.config.runtime.profile, roots):
        return Check("browser", "ok", "Playwright's MCP server and Chromium are installed for SPEC.md sessions")
    detail = "SPEC.md sessions have no browser: playwright-mcp, node, Chromium or a sandbox is missing"
    fix = "run `npm install -g @playwright/mcp`, and install Chromium"
    return Check("browser", "warning", detail, fix)


def check_plugins() -> Iterator[Check]:
    """Checks, without running any of it, that each plugin is unchanged since it was trusted."""
    from adderclaw.config.plugins import installed

    for plugin in installed.known(home()):
        named, name = f"{plugin.name} {plugin.version}".strip(), plugin.name
        why = "; ".join(plugin.problems[:5])
        if plugin.state == "broken":
            fix = f"run `adderclaw plugin verify {name}` for details"
            yield Check("plugin", "broken", f"{named} cannot be used: {why}", fix)
        elif plugin.state == "changed":
            fix = f"review it with `adderclaw plugin show {name}`, then run `adderclaw plugin enable {name}`"
            yield Check("plugin", "broken", f"{named} has changed since it was trusted and is not used. {why}", fix)
        elif plugin.state == "untrusted":
            fix = f"run `adderclaw plugin enable {name}` to see what it contains and trust it"
            yield Check("plugin", "warning", f"{named} is not trusted and is not used", fix)
        else:
            yield Check("plugin", "ok", f"{named} is {plugin.state} and unchanged since it was trusted")


def check_mcp_servers(loaded: Loaded, options: Options) -> Iterator[Check]:
    """Starts each configured MCP server as a session would."""
    from adderclaw.agent.run.start import start

    runtime = start(options)
    if not loaded.config.mcp_servers and (runtime.plugins is None or not runtime.plugins.servers):
        return
    if runtime.stopped():
        detail = "MCP servers were not tested: the emergency stop is set"
        yield Check("mcp", "warning", detail, "run `adderclaw estop --clear` to remove it")
        return
    for name, failure in asyncio.run(_start_servers(runtime)).items():
        if failure:
            yield Check("mcp", "broken", f"{name}: {failure}", f"run `adderclaw mcp test {name}` for details")
        else:
            yield Check("mcp", "ok", f"{name} started and listed its tools")


async def _start_servers(runtime: "Runtime") -> dict[str, str]:
    from adderclaw.agent.run import tool_environment

    tool_environment(runtime, None)
    known = runtime.servers
    assert known is not None
    failures: dict[str, str] = {}
    try:
        for row in known.status():
            name = row.entry.name
            try:
                async with asyncio.timeout(MCP_SECONDS):
                    failures[name] = await known.reach(name)
            except TimeoutError:
                failures[name] = f"was not ready within {MCP_SECONDS:g} s"
    finally:
        await known.close()
        runtime.close_boxes()
    return failures
