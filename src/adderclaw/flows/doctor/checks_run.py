"""What a run would need, tried: the model and its key, git, a browser, the project's trust, MCP servers."""

import asyncio
import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from adderclaw.agent.queries.check import Check
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
ONBOARD = "`adderclaw onboard` sets one up"


def checks(loaded: Loaded, options: Options, roots: Sequence[str], *, connect: bool) -> Iterator[Check]:
    yield from model(loaded, options, connect=connect)
    yield git(loaded.workspace, roots)
    yield trust(loaded)
    yield browser(loaded, roots)
    yield from plugins()
    yield from hooks(options)
    yield from agents(loaded, options)
    yield from servers(loaded, options)
    yield from notices(loaded)


def hooks(options: Options) -> Iterator[Check]:
    """Hooks that cannot run as things are, and scripts that a hook names and that do not exist."""
    from adderclaw.agent.run import configured_hooks
    from adderclaw.agent.run.start import start_reading
    from adderclaw.tools.hooks.scripts import Ground, refusal

    try:
        runtime = start_reading(options)
    except (ConfigError, StoreError):  # the operator's own row: `configuration` says what is wrong with it
        return
    roots = configured_hooks.roots(runtime)
    for hook in configured_hooks.read(runtime):
        why = "" if hook.skipped else refusal(hook, Ground(roots))
        if why:
            fix = f"do that, or remove the hook from {hook.source}"
            yield Check("hooks", "broken", f"hook {hook.ordinal} ({hook.event}) does not run: {why}", fix)
            continue
        for text in () if hook.skipped else configured_hooks.missing_files(hook, roots):
            yield Check("hooks", "warning", text, f"create it, or correct the hook in {hook.source}")


def agents(loaded: Loaded, options: Options) -> Iterator[Check]:
    """Files of subagents that are not used, or not all of them."""
    from adderclaw.tools.control import definitions

    foreign = loaded.config.compat.claude
    known = definitions.known(home(), loaded.workspace, options.agents, foreign=foreign)
    for problem in known.problems:
        yield Check(
            "agents", "warning", problem, "correct the file; `/agents` in a conversation lists those that are used"
        )


def notices(loaded: Loaded) -> Iterator[Check]:
    """Each target of notices: whether what it needs is here. Nothing is sent."""
    if not loaded.config.notices.targets:
        return
    from adderclaw.agent.queries import notices as facts

    for name, target in loaded.config.notices.targets.items():
        if not target.enabled:
            continue
        why = facts.problem(target) or facts.stored(loaded, name, target)
        if why:
            fix = f"correct [notices.targets.{name}], then `adderclaw notices test {name}`"
            yield Check("notices", "warning", f"{name} ({target.kind}): {why}", fix)
        else:
            yield Check("notices", "ok", f"{name} ({target.kind}): `adderclaw notices test {name}` sends one")


# ------------------------------------------------------------------ the model


def model(loaded: Loaded, options: Options, *, connect: bool) -> Iterator[Check]:
    """The provider that a run would ask: whether one is chosen, has its key, and answers."""
    now = loaded.config
    name = now.default_provider
    if found_keys.is_unscripted(now, name):
        yield _unchosen()
        return
    entry = now.providers.models.get(name)
    if entry is None:
        known = ", ".join(now.providers.models)
        yield Check("model", "broken", f"default_provider is {name!r}, and there is no such entry", f"one of: {known}")
        return
    from adderclaw.agent.run.start import credentials
    from adderclaw.agent.session.clock import SystemClock

    sources = credentials(options, loaded, Secrets(), SystemClock())
    (row,) = asyncio.run(credential_rows(sources, now, [name]))
    said = f"{name} ({entry.kind}, {model_of(name, now)})"
    if not row["usable"]:
        why, _, fix = str(row["note"]).partition("; ")
        yield Check("model", "broken", f"{said} {why}", f"{fix or ONBOARD}, or `adderclaw onboard` stores a key")
        return
    source = f"{row['class']} {row['source']}".strip()
    yield Check("model", "ok", f"{said}, key: {source}")
    yield from models(name, now)
    yield from connection(loaded, options, connect=connect)


def models(name: str, now: Config) -> Iterator[Check]:
    """The table of models: whether a stored one can be used, and whether it lists the model that a run would ask."""
    own = table.refreshed()
    fix = "`adderclaw models refresh` brings it up to date"
    if own is not None and own.problem:
        yield Check("model table", "warning", f"{own.path} is not used: {own.problem}", fix)
    served = first_answering(name, model_of(name, now), now)
    if (known := facts_of(*served, now)).assumed:
        priced = "" if known.priced else ", and it has no price"
        where = f"the table of {table.in_effect().fetched}"
        yield Check(
            "model table", "warning", f"{where} does not list {served.model}: its window is assumed{priced}", fix
        )


def _unchosen() -> Check:
    """What `run` does where nothing chooses a model."""
    keys = found_keys.undeclined_keys(home())
    if len(keys) == 1:
        return Check("model", "ok", f"none is chosen, so {keys[0]} is used")
    if keys:
        named = ", ".join(map(str, keys))
        return Check("model", "broken", f"none is chosen, and the environment holds several keys: {named}", ONBOARD)
    found = local_servers.servers(local_servers.usual_ports())
    here = f"; on this machine: {', '.join(map(str, found))}" if found else ""
    detail = f"none is chosen: the built-in `local` provider only plays scripts, and `run` refuses to start{here}"
    return Check("model", "warning", detail, ONBOARD)


def connection(loaded: Loaded, options: Options, *, connect: bool) -> Iterator[Check]:
    """A server of this machine is asked for its models, which is free; another only with --connect: it may cost."""
    now = loaded.config
    entry = now.providers.models[now.default_provider]
    if connect:
        yield _answers(loaded, options)
        return
    address = local_servers.address_of(entry.kind, entry.base_url)
    if address is None:
        return
    found = local_servers.at(address, entry.kind)
    fix = "start the server, or correct base_url"
    if found is None:
        yield Check("connection", "broken", f"no model server answers at {address}", fix)
    elif entry.model and found.models and entry.model not in found.models:
        listed = ", ".join(found.models[:5])
        yield Check("connection", "broken", f"{address} has no model {entry.model!r}: {listed}", "name one of these")
    else:
        yield Check("connection", "ok", f"{address} answers")


def _answers(loaded: Loaded, options: Options) -> Check:
    from adderclaw.agent.queries.model_answer import one_word
    from adderclaw.agent.run.start import start

    name = loaded.config.default_provider
    try:
        took, said = asyncio.run(one_word(start(options), name))
    except AdderClawError as error:
        return Check("connection", "broken", f"{name}: {error}", f"`adderclaw provider test {name}` says more")
    return Check("connection", "ok", f"{name} answered in {took:g} ms: {said[:60]!r}")


# ------------------------------------------------------------------ around it


def git(workspace: str, roots: Sequence[str]) -> Check:
    found = programs.resolve("git", roots)
    if found is None:
        needed = os.path.lexists(os.path.join(workspace, ".git"))
        detail = "there is no git: commands of git and worktrees cannot run"
        return Check("git", "broken" if needed else "warning", detail, "install git")
    try:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=10, cwd="/", check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Check("git", "broken", f"{found} does not run: {error}", "install git anew")
    return Check("git", "ok", f"{said.stdout.strip()} at {found}")


def trust(loaded: Loaded) -> Check:
    if loaded.trusted:
        return Check("trust", "ok", f"{loaded.workspace}: its files are trusted, or it has none that ask for trust")
    detail = f"{loaded.workspace} is not trusted: what its files allow, set or start is ignored"
    return Check("trust", "warning", detail, f"look at it: `adderclaw trust --show {loaded.workspace}`, then trust it")


def browser(loaded: Loaded, roots: Sequence[str]) -> Check:
    from adderclaw.flows.spec import browser as found

    if found.settings(loaded.config.runtime.profile, roots):
        return Check("browser", "ok", "Playwright's MCP server and a Chromium are there for coding sessions")
    detail = "none for the sessions of a SPEC.md: playwright-mcp, node or a Chromium is missing, or a sandbox"
    fix = "`npm install -g @playwright/mcp` and a Chromium give them one"
    return Check("browser", "warning", detail, fix)


def plugins() -> Iterator[Check]:
    """Each plugin: whether it is as it was trusted. Nothing of it runs."""
    from adderclaw.config.plugins import installed as installed

    for plugin in installed.known(home()):
        named, name = f"{plugin.name} {plugin.version}".strip(), plugin.name
        why = "; ".join(plugin.problems[:5])
        if plugin.state == "broken":
            yield Check("plugin", "broken", f"{named} cannot be used: {why}", f"`adderclaw plugin verify {name}`")
        elif plugin.state == "changed":
            fix = f"look at it (`adderclaw plugin show {name}`), then `adderclaw plugin enable {name}`"
            yield Check("plugin", "broken", f"{named} is not as it was trusted: nothing of it is used. {why}", fix)
        elif plugin.state == "untrusted":
            fix = f"`adderclaw plugin enable {name}` shows what it brings"
            yield Check("plugin", "warning", f"{named} was never trusted: nothing of it is used", fix)
        else:
            yield Check("plugin", "ok", f"{named} is {plugin.state} and as it was trusted")


def servers(loaded: Loaded, options: Options) -> Iterator[Check]:
    """Each configured MCP server, started where a session would start it."""
    from adderclaw.agent.run.start import start

    runtime = start(options)
    if not loaded.config.mcp_servers and (runtime.plugins is None or not runtime.plugins.servers):
        return
    if runtime.stopped():
        yield Check("mcp", "warning", "not tried: the emergency stop is set", "`adderclaw estop --clear` lifts it")
        return
    for name, failure in asyncio.run(_reached(runtime)).items():
        if failure:
            yield Check("mcp", "broken", f"{name}: {failure}", f"`adderclaw mcp test {name}` says more")
        else:
            yield Check("mcp", "ok", f"{name}: it started and listed its tools")


async def _reached(runtime: "Runtime") -> dict[str, str]:
    from adderclaw.agent.run import tool_environment

    tool_environment(runtime, None)
    known = runtime.servers
    assert known is not None
    found: dict[str, str] = {}
    try:
        for row in known.status():
            name = row.entry.name
            try:
                async with asyncio.timeout(MCP_SECONDS):
                    found[name] = await known.reach(name)
            except TimeoutError:
                found[name] = f"it was not ready after {MCP_SECONDS:g} s"
    finally:
        await known.close()
        runtime.close_boxes()
    return found
