"""What `mcp serve` has beside tools: skills as prompts, and the record of runs and receipts to read."""

import os
import re

from adderclaw.agent.conversation.by_name import text_of
from adderclaw.agent.replay.trace_file import checked
from adderclaw.agent.session.session import Session
from adderclaw.config.paths import followed
from adderclaw.core.errors import PathRefused, UsageError
from adderclaw.core.json_text import canonical
from adderclaw.core.types import Json
from adderclaw.storage import runs
from adderclaw.storage.queries import conversations
from adderclaw.tools.mcp.resources import Document, Prompt, Resources

RUNS, RECEIPTS = "adderclaw://runs", "adderclaw://receipts"
RUN = f"{RUNS}/{{run_id}}"
SHOWN = 100
ARGUMENTS = "arguments"


def of(session: Session) -> Resources:
    """The resources of a session: reading one changes nothing, and secrets are removed from all of them."""

    def prompts() -> list[Prompt]:
        kit = session.environment.kit
        listed = kit.skills.offered()[0] if kit.skills is not None else []
        return [Prompt(name, description[:1_000], (ARGUMENTS,)) for name, description in listed]

    async def prompt(name: str, arguments: dict[str, str]) -> str:
        text, _ = await text_of(session, name, arguments.get(ARGUMENTS, ""))
        return session.secrets.scrub(text)

    def read(uri: str) -> tuple[str, str]:
        return canonical(session.secrets.clean(_document(session, uri))), "application/json"

    def complete(about: str, argument: str) -> list[str]:
        is_run_id = about == RUN and argument == "run_id"
        return [run.run_id for run in runs.listing(session.store, SHOWN, _places(session))] if is_run_id else []

    documents = (
        Document(RUNS, "runs", f"The last {SHOWN} runs in this workspace, and how each ended."),
        Document(RECEIPTS, "receipts", f"The last {SHOWN} receipts of tool calls in this workspace."),
    )
    return Resources(prompts, prompt, documents, (Document(RUN, "run", "One run, with its receipts."),), read, complete)


def _document(session: Session, uri: str) -> Json | list[Json]:
    store, places = session.store, _places(session)
    store.flush()
    if uri == RUNS:
        return [_shown(session, run) for run in runs.listing(store, SHOWN, places)]
    if uri == RECEIPTS:
        return _receipts(session)
    match = re.fullmatch(re.escape(RUNS) + r"/([A-Za-z0-9-]{1,64})", uri)
    try:
        run = runs.get(store, match[1], places) if match else None
    except UsageError as error:
        raise PathRefused(str(error)) from None
    if run is None:
        raise PathRefused(f"there is no {uri[:200]!r}; there are: {RUNS}, {RECEIPTS}, {RUN}")
    return {**_shown(session, run), "receipts": runs.receipts(store, run.run_id, SHOWN)}


def _shown(session: Session, run: runs.Run) -> Json:
    return {**run._asdict(), "trace": checked(session.store, run).as_json()}


def _places(session: Session) -> tuple[str, ...]:
    """The workspace that is served, by all its names: what was done in another is no business of its clients."""
    root = session.environment.context.workspace.root
    named = conversations.projects(session.store)
    return root, *(name for name in named if os.path.isabs(name) and followed(name) == root)


def _receipts(session: Session) -> list[Json]:
    return runs.receipts_in(session.store, _places(session), SHOWN)
