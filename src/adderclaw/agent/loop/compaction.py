"""Compaction: the older part of a history becomes a summary; what is pinned survives word for word.

Nothing is deleted from the store. A boundary entry keeps the range and the summary, and a resumed session reads its
history from the last boundary on.
"""

import os
from typing import Literal

from adderclaw.agent.loop import lifecycle, resume, side_question
from adderclaw.agent.session.session import Session, is_told
from adderclaw.core.errors import LimitError, ProviderError
from adderclaw.core.framing import framed, is_attached, tagged
from adderclaw.core.history import History
from adderclaw.core.record import NamedTuple
from adderclaw.core.tool_traits import SKILL
from adderclaw.core.types import Json, Message, TextBlock
from adderclaw.storage import transcript
from adderclaw.storage.transcript import Entry

type Trigger = Literal["auto", "manual"]

FULL_AT = 0.85
"""Share of the usable window at which a history is compacted."""
KEPT_SHARE = 0.25
"""Share of the usable window that the newest entries may keep as they are."""
PINNED_BYTES = 16_000
"""How much of what the user said is kept word for word: the first message, then the newest."""
RESULT_BYTES = 2_000
"""Of one tool result, what the summary is made from."""
SKILL_BYTES, SKILLS_BYTES = 20_000, 100_000
"""How much of one skill that was called, and of all of them, is kept word for word: the newest first."""
BYTES_PER_TOKEN = 4


class Cut(NamedTuple):
    """Where a history is cut: entries before `kept_from` are summarised."""

    older: list[Entry]
    kept_from: int


def due(session: Session, overhead: int) -> bool:
    """Whether the next request would come near the end of the model's window."""
    window = _window(session)
    return window is not None and session.state.history.size + overhead > window * FULL_AT


def _window(session: Session) -> int | None:
    """Bytes of history that fit, by the estimate of four bytes a token; None where the window is not known."""
    tokens = session.budget.prices.before(session.provider.name, session.model).facts.context_tokens
    if tokens is None:
        return None
    return max(tokens - session.config.runtime.response_headroom_tokens, tokens // 2) * BYTES_PER_TOKEN


async def compact(session: Session, trigger: Trigger, instructions: str = "", *, overflowed: bool = False) -> bool:
    """Replace the older part of the history by a summary; False when there is nothing to gain.

    A provider that says that its window is full knows better than our estimate of it, and so does a person.
    """
    if trigger == "manual":
        who: Json = {"provider": session.provider.name, "model": session.model}
        session.tape.began("compact", {"instructions": instructions, **who})
    window = None if overflowed or trigger == "manual" else _window(session)
    cut = _cut(session, (window or session.state.history.size) * KEPT_SHARE)
    if cut is None:
        return False
    said = await session.fire("PreCompact", {"trigger": trigger, "custom_instructions": instructions or None})
    if said.blocked:
        message = f"a PreCompact hook refused the compaction: {said.reason}"
        session.bus.publish({"event_type": "warning", "message": message})
        return False
    earlier = _earlier(session)
    summary, how = await _summary(session, cut.older, earlier, instructions)
    carried = _carried(session, cut.older, earlier, summary)
    before = session.state.history.size
    payload: Json = {
        "subtype": "compact_boundary",
        "trigger": trigger,
        "from": cut.older[0].sequence,
        "to": cut.kept_from - 1,
        "kept_from": cut.kept_from,
        "how": how,
        "content": _told(carried),
        **carried._asdict(),
    }
    with session.store.write() as cursor:
        transcript.append(cursor, session.session_id, "system", payload)
    if session.instructions is not None:
        session.instructions.compacted(resume.instructions_in(cut.older))
    session.began = "compact"
    await lifecycle.begin(session)
    if trigger == "auto":  # else it waits for the user's next message
        lifecycle.due(session)
    session.state.history = History(resume.read(session.store, session.session_id).messages)
    session.state.cached_tokens = 0
    session.bus.publish(
        {
            "event_type": "context_compacted",
            "trigger": trigger,
            "from_sequence": cut.older[0].sequence,
            "to_sequence": cut.kept_from - 1,
            "bytes_before": before,
            "bytes_after": session.state.history.size,
            "how": how,
        }
    )
    await session.fire("PostCompact", {"trigger": trigger, "compact_summary": summary})
    return True


# ------------------------------------------------------------------ where to cut


def _cut(session: Session, room: float) -> Cut | None:
    """The newest entries that fit into the room stay, from the beginning of a message on."""
    entries = transcript.live(transcript.entries(session.store, session.session_id))
    start = resume.boundary(entries)
    live = [entry for entry in entries if entry.entry_type != "system" and entry.sequence >= start]
    media = transcript.opaque(session.store, session.session_id)
    kept_from = 0
    size = 0
    for entry in reversed(live):
        size += len(str(entry.payload)) + sum(one.size for one in resume.media(media.get(entry.sequence, [])))
        if kept_from and size > room:
            break
        if entry.entry_type in ("user", "assistant"):
            kept_from = entry.sequence
    older = [entry for entry in live if entry.sequence < kept_from]
    return Cut(older, kept_from) if older else None


# ------------------------------------------------------------------ what survives


class Carried(NamedTuple):
    """What survives a cut, and the next one too: kept as fields of the boundary, so that nothing is parsed back."""

    said: list[str]
    denials: list[str]
    files: list[str]
    summary: str
    skills: list[str]


NOTHING = Carried([], [], [], "", [])


def _earlier(session: Session) -> Carried:
    """What the last compaction had carried over."""
    last = resume.last_boundary(transcript.live(transcript.entries(session.store, session.session_id)))
    return NOTHING._replace(**{name: last[name] for name in Carried._fields if name in last}) if last else NOTHING


def _carried(session: Session, older: list[Entry], earlier: Carried, summary: str) -> Carried:
    return Carried(
        said=_within([*earlier.said, *_said(older)]),
        denials=list(dict.fromkeys([*earlier.denials, *_denials(older)])),
        files=list(dict.fromkeys([*earlier.files, *session.scene.context.files_read])),
        summary=summary,
        skills=_skills([*earlier.skills, *_called(older)], (_window(session) or 4 * SKILLS_BYTES) // 4),
    )


def _told(carried: Carried) -> str:
    """The one message that stands for everything before the cut."""
    parts = ["[The conversation so far was compacted. This is what remains of it.]"]
    parts.append(tagged("what-the-user-said", "\n---\n".join(carried.said)))
    if carried.denials:
        parts.append(tagged("refused", "\n".join(carried.denials)))
    if carried.files:
        parts.append(tagged("files-in-play", "\n".join(carried.files)))
    if carried.skills:
        parts.append(tagged("skills-in-use", "\n".join(carried.skills)))
    parts.append(tagged("summary", carried.summary))
    return "\n\n".join(parts)


def _said(entries: list[Entry]) -> list[str]:
    texts: list[str] = []
    for entry in entries:
        if entry.entry_type == "user":
            texts += [block["text"] for block in entry.payload["content"] if block["type"] == "text"]
    return [text for text in texts if not is_told(text) and not is_attached(text)]


def _within(said: list[str]) -> list[str]:
    """The first message always, then the newest that fit."""
    if not said:
        return []
    room = PINNED_BYTES - len(said[0])
    newest: list[str] = []
    for text in reversed(said[1:]):
        room -= len(text)
        if room < 0:
            break
        newest.append(text)
    return [said[0][:PINNED_BYTES], *reversed(newest)]


def _called(entries: list[Entry]) -> list[str]:
    """What calls of the Skill tool gave."""
    calls = {
        entry.payload["id"] for entry in entries if entry.entry_type == "tool_use" and entry.payload["name"] == SKILL
    }
    results = (entry.payload for entry in entries if entry.entry_type == "tool_result")
    return [str(one["content"]) for one in results if one["tool_use_id"] in calls and not one["is_error"]]


def _skills(texts: list[str], room: int) -> list[str]:
    """The newest that fit, each once and cut where it is long, in their order."""
    room = min(room, SKILLS_BYTES)
    kept: list[str] = []
    for text in dict.fromkeys(reversed(texts)):
        cut = (
            text
            if len(text) <= SKILL_BYTES
            else f"{text[:SKILL_BYTES]}\n[… the rest was left out; call the skill again …]"
        )
        room -= len(cut)
        if room < 0:
            break
        kept.append(cut)
    return kept[::-1]


def _denials(entries: list[Entry]) -> list[str]:
    results = [entry.payload for entry in entries if entry.entry_type == "tool_result"]
    refused = (str(result["content"]) for result in results if result.get("outcome") == "denied")
    return list(dict.fromkeys(text.partition("\n")[0] for text in refused))


# ------------------------------------------------------------------ the summary


async def _summary(session: Session, older: list[Entry], earlier: Carried, instructions: str) -> tuple[str, str]:
    """By the model; where it cannot be asked, a list of what was called, which is at least true."""
    with open(os.path.join(os.path.dirname(__file__), "compact.md"), encoding="utf-8") as file:
        asked = file.read().strip()
    if instructions:
        asked += f"\nThe user wants in particular: {instructions}"
    room, mark = (_window(session) or 400_000) // 2, session.ids("record").rpartition("-")[2]
    try:
        try:
            response = await side_question.recorded(session, asked, _asked(older, earlier, room, mark), "compaction")
        except ProviderError as error:
            if error.kind != "context_overflow":
                raise
            # a route for small questions may lead to a model with a smaller window
            response = await side_question.recorded(
                session, asked, _asked(older, earlier, room // 8, mark), "compaction"
            )
    except (ProviderError, LimitError) as error:
        return _listed(older, earlier), f"listed, since the model could not be asked: {error}"
    if not response.final_text.strip():
        return _listed(older, earlier), "listed, since the model answered without a word"
    if response.stop_reason == "max_tokens":
        return _listed(older, earlier), "listed, since the model's summary was cut off"
    return response.final_text, "summarised by the model"


def _asked(older: list[Entry], earlier: Carried, room: int, mark: str) -> History:
    record = _record(older, room)
    if earlier.summary:
        record = f"summary of what came before:\n{earlier.summary}\n\n{record}"
    return History([Message("user", (TextBlock(f"{framed(mark, record)}\n\nWrite the summary now."),))])


def _record(entries: list[Entry], room: int) -> str:
    """The entries as text, each cut, the middle left out where all of them would not fit."""
    lines = [line for entry in entries if (line := _line(entry))]
    text = "\n".join(lines)
    if len(text) <= room:
        return text
    return f"{text[: room // 3]}\n[… left out …]\n{text[-2 * room // 3 :]}"


def _line(entry: Entry) -> str:
    match entry.entry_type:
        case "user" | "assistant":
            texts = [block["text"] for block in entry.payload["content"] if block["type"] == "text"]
            return f"{entry.entry_type}: {' '.join(texts)}" if texts else ""
        case "tool_use":
            return f"call {entry.payload['name']}: {str(entry.payload['input'])[:RESULT_BYTES]}"
        case "tool_result":
            failed = " (failed)" if entry.payload["is_error"] else ""
            return f"result{failed}: {str(entry.payload['content'])[:RESULT_BYTES]}"
        case _:
            return ""


def _listed(entries: list[Entry], earlier: Carried) -> str:
    called = [_line(entry)[:200] for entry in entries if entry.entry_type == "tool_use"]
    return "\n".join([earlier.summary, "No summary could be made. These calls were made:", *called[-100:]]).strip()
