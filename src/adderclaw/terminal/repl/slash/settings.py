"""Commands that change the model, logins and directories of the session."""

import os
import sys

from adderclaw.agent.loop import lifecycle
from adderclaw.agent.run import Run
from adderclaw.config.model_facts.catalogue import first_answering
from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import DEFAULT_THINKING, EFFORTS, Thinking, parse_effort
from adderclaw.terminal.repl import here
from adderclaw.terminal.repl.slash.row import Done


async def model(run: Run, rest: str) -> Done:
    if rest:
        await run.switch(rest)
    session = run.session
    served = first_answering(session.provider.name, session.model, session.config)
    through = "" if served.provider == session.provider.name else f", through {visible(session.provider.name)}"
    print(f"model {visible(served.model)} of the provider {visible(served.provider)}{through}")
    if not rest:
        others = ", ".join(visible(name) for name in session.config.providers.models)
        print(f"/model NAME takes another of it; /model ENTRY or ENTRY/NAME another provider: {others}")


EFFORT_WORDS = ("auto", *EFFORTS)


def effort(run: Run, rest: str) -> Done:
    """Shows or sets the level; `auto` uses the entry's level, else the vendor's."""
    session = run.session
    if rest and rest not in EFFORT_WORDS:
        raise UsageError(f"{rest!r} is not an effort level: use auto or one of {', '.join(EFFORTS)}")
    if rest:
        session.thinking = Thinking(parse_effort(rest))
    entry = session.config.providers.models.get(session.provider.name)
    own = Thinking(entry.effort, entry.thinking, entry.thinking_tokens) if entry is not None else DEFAULT_THINKING
    chosen = session.thinking.with_fallback(own)
    parts = [f"effort {chosen.effort}"] if chosen.effort else []
    parts += [f"thinking {chosen.mode}"] if chosen.mode else []
    parts += [f"at most {chosen.tokens:,} tokens of thought"] if chosen.tokens is not None else []
    whose = "" if not session.thinking.is_unset else f" (of the entry {visible(session.provider.name)})"
    print(f"{', '.join(parts)}{whose}" if parts else "effort auto: what the model's vendor recommends")
    if not rest:
        print(f"/effort LEVEL changes it: {', '.join(EFFORT_WORDS)}; a model gets the nearest level that it has")


async def login(run: Run, rest: str) -> Done:
    from adderclaw.terminal import provider_login

    name = provider_login.chosen_provider(rest or None, run.session.config)
    async with here.line_by_line(run):  # prints a URL to open, and reads a code
        storage = await provider_login.log_in_to(run.runtime.credentials, name, "auto")
    print(f"logged in to {visible(name)}; kept in {storage}")


async def logout(run: Run, rest: str) -> Done:
    from adderclaw.terminal import provider_login

    name = provider_login.chosen_provider(rest or None, run.session.config)
    for complaint in (await provider_login.log_out_of(run.runtime.credentials, [name])).values():
        print(complaint, file=sys.stderr)
    if name != run.session.provider.name:
        return None
    print("you logged out of this conversation's provider, so it ends here")
    run.session.end_reason = "logout"
    return "leave"


async def add_dir(run: Run, rest: str) -> Done:
    """Lets the session work in one more directory until it ends."""
    from adderclaw.agent.tool_call import permission_updates
    from adderclaw.config.paths import followed
    from adderclaw.config.permissions import PermissionUpdate

    path = followed(os.path.expanduser(rest)) if rest else ""
    if not os.path.isdir(path):
        raise UsageError(f"{rest!r} is not a directory: /add-dir needs an existing one")
    session = run.session
    # a link is judged by both its names; `..` after a link is resolved by the real path
    named = os.path.abspath(os.path.expanduser(rest))
    named = named if followed(named) == path else path
    permission_updates.apply_update(session, PermissionUpdate("addDirectories", "session", directories=[named]))
    print(f"{visible(path, keep_newlines=False)} belongs to this session now")
    await lifecycle.run_directory_added_hooks(session, path)
