"""Slash commands on a conversation of the server; what belongs to the local REPL says so."""

from collections.abc import Awaitable, Callable

from adderclaw.agent.view import wire
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.terminal import export
from adderclaw.terminal.legacy.attach.remote import Remote

LOCAL = (
    "/{name} belongs to the local REPL: `adderclaw agent` opens one here. /help lists what works on a conversation of "
    "the server"
)
MOST = 1_000
"""Items that are asked for at once."""

type Say = Callable[[str], None]
type Does = Callable[[Remote, str, Say], Awaitable[str | None]]
"""Gets what follows the name; "leave" leaves, the id of another conversation goes there."""


class Row(NamedTuple):
    name: str
    help: str
    run: Does
    arguments: str = ""
    aliases: tuple[str, ...] = ()


async def command(remote: Remote, line: str, say: Say) -> str | None:
    """Run a line that begins with /. What no row has goes to the server: it may call a skill by its name."""
    name, _, rest = line.removeprefix("/").partition(" ")
    found = BY_NAME.get(name)
    try:
        if found is not None:
            return await found.run(remote, rest.strip(), say)
        from adderclaw.terminal.repl.slash.table import SLASH

        if name in SLASH:
            say(LOCAL.format(name=name))
        else:
            await remote.send(line)
    except AdderClawError as error:
        say(f"/{name}: {error}")
    return None


async def _help(_remote: Remote, rest: str, say: Say) -> None:
    wanted = rest.removeprefix("/").lower()
    for row in ROWS:
        also = f" (also {', '.join(f'/{name}' for name in row.aliases)})" if row.aliases else ""
        if wanted in f"{row.name} {row.help}".lower():
            say(f"{f'/{row.name} {row.arguments}'.strip():<44} {row.help}{also}")


async def _leave(_remote: Remote, _rest: str, _say: Say) -> str:
    return "leave"


async def _rewind(remote: Remote, rest: str, say: Say) -> None:
    prompts = (await remote.link.get(f"{remote.path}/prompts"))["prompts"]
    words = rest.split()
    number = next((int(word) for word in words if word.isdecimal()), None)
    if number is None or not 1 <= number <= len(prompts):
        for place, one in enumerate(prompts, 1):
            changed = f"  ({one['paths']} paths changed)" if one["paths"] else ""
            say(f"{place:>3}  {' '.join(str(one['text']).split())[:100]}{changed}")
        say("/rewind NUMBER [files|conversation] [--force] goes back to before it" if prompts else "nothing was said")
        return
    what = next((word for word in words if word in ("files", "conversation")), "both")
    body: Json = {"sequence": prompts[number - 1]["sequence"], "what": what, "force": "--force" in words}
    went = await remote.link.post(f"{remote.path}/rewind", body)
    files: Json = went["files"] or {}
    if files.get("refused"):
        say("others changed files since, and nothing was done: --force restores over them")
    elif files:
        say(f"files are as they were before message {number}")
    if went["conversation"]:
        say(f"the conversation is as it was before message {number}")


async def _branch(remote: Remote, _rest: str, say: Say) -> str:
    made = await remote.link.post(f"{remote.path}/branch")
    say(f"a copy of {remote.id}")
    return str(made["id"])


async def _conversations(remote: Remote, rest: str, say: Say) -> str | None:
    rows = (await remote.link.get("/conversations", limit=50))["conversations"]
    found = [row for row in rows if rest and str(row["id"]).startswith(rest)]
    if len(found) == 1:
        return str(found[0]["id"])
    for row in rows:
        say(f"{row['id']}  {row['last_active']}  {row['state']:<8} {' '.join(str(row['title']).split())[:60]}")
    return None


async def _model(remote: Remote, rest: str, say: Say) -> None:
    about = await remote.link.get(remote.path)
    say(f"{about['model'] or 'asleep: its model is known when the next message wakes it'} {about['provider']}".strip())
    if rest:
        say(f"a conversation keeps its model: `adderclaw attach --model {rest}` opens one with another")


async def _usage(remote: Remote, _rest: str, say: Say) -> None:
    found = await remote.link.get("/usage", by="conversation")
    rows: list[Json] = [row for row in found["rows"] if row["key"] == remote.id]
    if not rows:
        say("no model was called yet")
        return
    row = rows[0]
    cost = f", ${row['cost']:.4f}" if row.get("cost") is not None else ""
    say(f"{row['calls']} calls: {row['input_tokens']:,} tokens in, {row['output_tokens']:,} out{cost}")


async def _status(remote: Remote, _rest: str, say: Say) -> None:
    about = remote.about = await remote.link.get(remote.path)
    say(f"server        {remote.link.address}")
    for name in ("id", "workspace", "title", "state", "turn", "queued", "model", "run_id", "session_id"):
        if about.get(name):
            say(f"{name:<13} {about[name]}")


async def _export(remote: Remote, rest: str, say: Say) -> None:
    path, items, start = rest or f"{remote.id}.md", list[Json](), 0
    while True:
        page = await remote.link.get(f"{remote.path}/items", start=start, limit=MOST)
        items += page["items"]
        start += len(page["items"])
        if start >= page["total"] or not page["items"]:
            break
    title = str(remote.about.get("title") or remote.id)
    export.write(path, export.write_export(map(wire.item_from_json, items), title, export.form_of(path)))
    say(f"written to {path}")


async def _stop(remote: Remote, _rest: str, say: Say) -> None:
    await remote.link.post("/estop")
    say("stopped: no tool runs until `adderclaw estop --clear`")


ROWS = (
    Row("help", "list the commands, or those that contain a word", _help, "[WORD]"),
    Row("exit", "leave; the turn at hand goes on", _leave, aliases=("quit", "detach")),
    Row("rewind", "go back; alone, it lists the messages", _rewind, "[NUMBER] [files|conversation] [--force]"),
    Row("branch", "go on in a copy of this conversation", _branch),
    Row("resume", "go to another conversation; alone, it lists them", _conversations, "[ID]", ("conversations",)),
    Row("model", "show the model", _model),
    Row("usage", "show tokens and cost", _usage, aliases=("cost",)),
    Row("status", "show the server, and what this conversation does", _status, aliases=("session",)),
    Row("export", "write this conversation to a file here", _export, "[FILE.md, .html or .json]"),
    Row("estop", "stop every tool of every session, now and until it is cleared", _stop),
)
BY_NAME = {name: row for row in ROWS for name in (row.name, *row.aliases)}
