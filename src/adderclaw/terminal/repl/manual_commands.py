"""Files named with @, commands after ! and notes after #, all judged by the policy."""

import os
import re
import stat
from collections.abc import Callable
from secrets import token_hex

from adderclaw.agent.run import Run
from adderclaw.agent.run.hook_calls import ManualCall, call_by_hand
from adderclaw.agent.session.session import NO_ATTACHMENTS, Attached
from adderclaw.agent.view.items import Item, Notice
from adderclaw.agent.view.rows import Rows
from adderclaw.core import framing
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.core.tool_traits import BASH, LS, MEMORY_WRITE, READ, READ_RESOURCE
from adderclaw.core.types import Json, MediaBlock
from adderclaw.sandbox import workspace
from adderclaw.terminal.operators import OperatorAtWork

MENTION = re.compile(r"""(?<![^\s(\[{])@(?:"([^"\n]{1,4096})"|([^\s"]{1,4096}))""")
MOST_NAMED = 20
"""How many files a message can name; further ones are plain text."""
KEY_CHARS = 60
"""How many characters of a note become its key."""


class Named(NamedTuple):
    """A file or resource named with @, and the call that reads it."""

    name: str
    tool: str
    arguments: Json


class ManualCommands:
    """The calls by hand of one conversation. Their output is attached to the next message."""

    def __init__(self, run: Run, rows: Rows, show: Callable[[Item], None]) -> None:
        self._run, self._rows, self._show = run, rows, show
        self._waiting: list[str] = []

    async def attachments(self, typed: str) -> Attached:
        """The attachments of the next message: output printed since the last one, and the files it names."""
        texts, self._waiting = self._waiting, []
        media: list[MediaBlock] = []
        for named in self._named(typed):
            result = (
                await self._call(named.tool, named.arguments, f"named with @ in a message: {named.name}")
            ).finished.result
            texts.append(framing.attachment(f"{named.name}:\n{framing.framed(token_hex(8), result.content)}"))
            media += result.media
        if media and not self._run.session.provider.capabilities().images:
            self._show(
                Notice("", "warning", f"{visible(self._run.session.model)} cannot read pictures, so they are left out")
            )
            media = []
        return Attached(tuple(texts), tuple(media)) if texts or media else NO_ATTACHMENTS

    async def run_by_hand(self, typed: str, whole: Callable[[str], str] = str) -> bool:
        """Runs a command after ! or stores a note after #; returns False for a message."""
        line = typed.strip()
        if line.startswith("!"):
            await self.command(whole(line[1:]))
        elif line.startswith("#") and "\n" not in line and not line.startswith("##"):
            await self.note(whole(line[1:]))
        else:
            return False
        return True

    async def command(self, line: str) -> None:
        """Runs a command; the model sees its output with the next message."""
        if not line.strip():
            self._show(Notice("", "note", "!COMMAND runs a command; its output is sent with the next message"))
            return
        result = (await self._call(BASH, {"command": line}, "typed by hand")).finished.result
        text = f"The user ran this command:\n{line}\n{framing.framed(token_hex(8), result.content)}"
        self._waiting.append(framing.attachment(text))

    async def note(self, text: str) -> None:
        """Stores a line as a note and says where."""
        from adderclaw.storage import memory
        from adderclaw.terminal import notes

        session = self._run.session
        text = session.secrets.scrub(text.strip())
        if not text:
            self._show(Notice("", "note", "#NOTE stores a line for later conversations"))
            return
        first = "".join(char if char.isprintable() else " " for char in text)[:KEY_CHARS].strip()
        key, number = first, 1
        project = session.environment.context.workspace.root
        while (existing := memory.get(session.store, key, project)) is not None and existing.content != text:
            number += 1
            key = f"{first} ({number})"
        call = await self._call(MEMORY_WRITE, {"key": key, "value": text}, "typed by hand")
        if not call.finished.denied and not call.finished.result.is_error:
            notes.confirm_note(session.store, key, project)
            where = visible(session.config.memory.path, keep_newlines=False)
            self._show(Notice("", "note", f"remembered as {visible(key)!r} in {where}; /memory shows it"))

    async def _call(self, tool: str, arguments: Json, why: str) -> ManualCall:
        run = self._run
        run.session.budget.restart_limits()
        call = await call_by_hand(run.runtime, run.session, tool, arguments, OperatorAtWork(), why)
        if (item := self._rows.call(call.session_id, call.tool_use_id)) is not None:
            self._show(item)
        return call

    # -------------------------------------------------------------- names

    def _named(self, typed: str) -> list[Named]:
        files: dict[str, Named] = {}
        for quoted, bare in MENTION.findall(typed):
            named = self._meant(quoted) if quoted else self._meant(bare) or self._meant(bare.rstrip(".,;:!?)]}'"))
            if named is not None and len(files) < MOST_NAMED:
                files[named.name] = named
        return list(files.values())

    def _meant(self, name: str) -> Named | None:
        """The file, folder or resource with this name; None if there is none, so that it is plain text."""
        if not name or not name.isprintable():
            return None
        servers = self._run.runtime.servers
        server, colon, uri = name.partition(":")
        if colon and uri and servers is not None and any(row.entry.name == server for row in servers.status()):
            return Named(name, READ_RESOURCE, {"server": server, "uri": uri})
        root = self._run.session.environment.context.workspace.root
        path = os.path.normpath(os.path.join(root, os.path.expanduser(name)))
        status = workspace.stat_target(path)
        if status is None:
            return None
        if stat.S_ISDIR(status.st_mode):
            return Named(name, LS, {"path": path})
        return Named(name, READ, {"file_path": path})
