"""The results of a session by short ids, and which of them count as evidence: only recorded ones."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adderclaw.agent.loop.resume import media_blocks
from adderclaw.core.host import ToolContext
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json, MediaBlock, Prepared, Tool, ToolResult
from adderclaw.storage import Store, transcript

EXPECTED_FAILURE = (
    'If the scenario expects a failure, let the whole command exit with 0 (`program; echo "exit $?"`) and cite that.'
)


class Cited(NamedTuple):
    """A recorded result that a verdict cites."""

    id: str
    tool_use_id: str
    tool: str
    input: Json
    text: str
    media: tuple[MediaBlock, ...]
    is_error: bool


class Results:
    """Gives each result of a session an id, and remembers which calls ran the program."""

    def __init__(self) -> None:
        self._uses: dict[str, str] = {}
        """Id → the call."""
        self._tried: set[str] = set()

    def wrap(self, tool: Tool[Any]) -> Tool[Any]:
        """A tool whose results begin with their ids."""
        evidence = tool.traits.evidence
        if evidence == "none":
            return tool

        def prepare(arguments: Any, context: ToolContext) -> Prepared:
            prepared = tool.prepare(arguments, context)
            looks = evidence == "files" or prepared.touch.looks

            async def run() -> ToolResult:
                name = f"r{len(self._uses) + 1}"
                self._uses[name] = context.tool_use_id
                result = await prepared.run()
                if not looks:
                    self._tried.add(name)
                return replace(result, content=f"[{name}]\n{result.content}")

            return prepared._replace(run=run)

        return replace(tool, prepare=prepare)

    def objection(self, store: Store, session_id: str, ids: Sequence[str], *, passed: bool) -> str:
        """Why these ids do not support a verdict; empty if they do."""
        cited = {result.id: result for result in self.cited(store, session_id, ids)}
        if unknown := [id for id in ids if id not in cited]:
            return f"no result of this session has the id {_named(unknown)}; cite the ids at the start of the results"
        if not passed:
            return ""
        if not ids:
            return "a pass needs evidence: cite the results that show the scenario's outcome"
        if wrong := [id for id in ids if cited[id].is_error]:
            return f"{_named(wrong)} returned an error, so a pass cannot cite it. {EXPECTED_FAILURE}"
        if not self._tried.intersection(ids):
            return "every cited result only reads files: run the program, use it, and cite what it did"
        return ""

    def cited(self, store: Store, session_id: str, ids: Sequence[str]) -> list[Cited]:
        """The recorded results with these ids, each once; ids without a recorded result are left out."""
        rows = transcript.entries(store, session_id)
        calls = {entry.tool_use_id: entry.payload for entry in rows if entry.entry_type == "tool_use"}
        media_by_sequence = transcript.opaque_blocks(store, session_id)
        cited_by_id: dict[str, Cited] = {}
        for entry in (row for row in rows if row.entry_type == "tool_result"):
            text = str(entry.payload.get("content", ""))
            # a provider may use an id twice: the text of the result says which one it is
            name = next((row for row in ids if text.startswith(f"[{row}]\n")), "")
            use = entry.tool_use_id or ""
            if name and name not in cited_by_id and self._uses.get(name) == use and use in calls:
                call, wrong = calls[use], bool(entry.payload.get("is_error"))
                seen = media_blocks(media_by_sequence.get(entry.sequence, []))
                cited_by_id[name] = Cited(name, use, str(call["name"]), call.get("input", {}), text, seen, wrong)
        return [cited_by_id[row] for row in dict.fromkeys(ids) if row in cited_by_id]


def _named(ids: Sequence[str]) -> str:
    return ", ".join(repr(id[:40]) for id in ids[:10])
