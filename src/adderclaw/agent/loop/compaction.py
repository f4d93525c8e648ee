"""Compaction: replaces the older part of a history by a summary and carries pinned texts over verbatim.

Nothing is deleted from the store. A boundary entry records the range and the summary, and a resumed session reads its
history from the last boundary on.
"""

import os
from typing import Literal

from adderclaw.agent.loop import lifecycle, model_call, resume
from adderclaw.agent.session.session import Session, is_hook_text
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
"""Share of the usable window for the newest entries, which stay unchanged."""
PINNED_BYTES = 16_000
"""Size of the user's messages that are carried over verbatim: the first, then the newest."""
RESULT_BYTES = 2_000
"""Size of the part of a tool result that the summary is based on."""
SKILL_BYTES, SKILLS_BYTES = 20_000, 100_000
"""Size that is carried over verbatim, of one called skill and of all called skills, the newest first."""


class Cut(NamedTuple):
    """Where a history is cut: entries before the sequence `kept_from` are summarized."""

    older: list[Entry]
    kept_from: int


def is_due(session: Session, overhead: int) -> bool:
    """Whether the next request would nearly fill the model's context window."""
    window = _window(session)
    return window is not None and session.state.history.size + overhead > window * FULL_AT


def _window(session: Session) -> int | None:
    """Bytes of history that fit, at four bytes per token; None if the window is unknown."""
    tokens = session.budget.prices.before(session.provider.name, session.model).facts.context_tokens
    if tokens is None:
        return None
    return max(tokens - session.config.runtime.response_headroom_tokens, tokens // 2) * model_call.BYTES_PER_TOKEN


async def compact(session: Session, trigger: Trigger, instructions: str = "", *, overflowed: bool = False) -> bool:
    """Replace the older part of the history by a summary; False if there is nothing to summarize.

    If the provider reports a full window, or a person asks for it, the estimate of the window is ignored.
    """
    if trigger == "manual":
        who: Json = {"provider": session.provider.name, "model": session.model}
        session.tape.begin_operation("compact", {"instructions": instructions, **who})
    window = None if overflowed or trigger == "manual" else _window(session)
    cut = _find_cut(session, (window or session.state.history.size) * KEPT_SHARE)
    if cut is None:
        return False
    merged = await session.fire("PreCompact", {"trigger": trigger, "custom_instructions": instructions or None})
    if merged.blocked:
        message = f"a PreCompact hook refused the compaction: {merged.reason}"
        session.bus.publish({"event_type": "warning", "message": message})
        return False
    earlier = _last_carried(session)
    summary, how = await _summarize(session, cut.older, earlier, instructions)
    carried = _collect_carried(session, cut.older, earlier, summary)
    before = session.state.history.size
    payload: Json = {
        "subtype": "compact_boundary",
        "trigger": trigger,
        "from": cut.older[0].sequence,
        "to": cut.kept_from - 1,
        "kept_from": cut.kept_from,
        "how": how,
        "content": _carried_text(carried),
        **carried._asdict(),
    }
    with session.store.write() as cursor:
        transcript.append(cursor, session.session_id, "system", payload)
    if session.instructions is not None:
        session.instructions.forget(resume.instruction_files_in(cut.older))
    session.start_source = "compact"
    await lifecycle.run_start_hooks(session)
    if trigger == "auto":  # otherwise the hooks' texts are sent with the user's next message
        lifecycle.take_hook_texts(session)
    session.state.history = History(resume.read_session(session.store, session.session_id).messages)
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


def _find_cut(session: Session, room: float) -> Cut | None:
    """The cut that leaves the newest entries that fit, starting at the beginning of a message."""
    entries = transcript.without_rewound(transcript.entries(session.store, session.session_id))
    start = resume.boundary(entries)
    live = [entry for entry in entries if entry.entry_type != "system" and entry.sequence >= start]
    media = transcript.opaque_blocks(session.store, session.session_id)
    kept_from = 0
    size = 0
    for entry in reversed(live):
        size += len(str(entry.payload)) + sum(
            block.size for block in resume.media_blocks(media.get(entry.sequence, []))
        )
        if kept_from and size > room:
            break
        if entry.entry_type in ("user", "assistant"):
            kept_from = entry.sequence
    older = [entry for entry in live if entry.sequence < kept_from]
    return Cut(older, kept_from) if older else None


# ------------------------------------------------------------------ what survives


class Carried(NamedTuple):
    """What survives this compaction and the next. Stored as fields of the boundary entry, so that nothing is parsed."""

    said: list[str]
    denials: list[str]
    files: list[str]
    summary: str
    skills: list[str]


NOTHING = Carried([], [], [], "", [])


def _last_carried(session: Session) -> Carried:
    """What the last compaction carried over."""
    last = resume.last_boundary(transcript.without_rewound(transcript.entries(session.store, session.session_id)))
    return NOTHING._replace(**{name: last[name] for name in Carried._fields if name in last}) if last else NOTHING


def _collect_carried(session: Session, older: list[Entry], earlier: Carried, summary: str) -> Carried:
    return Carried(
        said=_fit_user_texts([*earlier.said, *_user_texts(older)]),
        denials=list(dict.fromkeys([*earlier.denials, *_denials(older)])),
        files=list(dict.fromkeys([*earlier.files, *session.environment.context.files_read])),
        summary=summary,
        skills=_fit_skills([*earlier.skills, *_skill_results(older)], (_window(session) or 4 * SKILLS_BYTES) // 4),
    )


def _carried_text(carried: Carried) -> str:
    """The one message that replaces everything before the cut."""
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


def _user_texts(entries: list[Entry]) -> list[str]:
    texts: list[str] = []
    for entry in entries:
        if entry.entry_type == "user":
            texts += [block["text"] for block in entry.payload["content"] if block["type"] == "text"]
    return [text for text in texts if not is_hook_text(text) and not is_attached(text)]


def _fit_user_texts(texts: list[str]) -> list[str]:
    """The first message, then the newest ones that fit."""
    if not texts:
        return []
    room = PINNED_BYTES - len(texts[0])
    newest: list[str] = []
    for text in reversed(texts[1:]):
        room -= len(text)
        if room < 0:
            break
        newest.append(text)
    return [texts[0][:PINNED_BYTES], *reversed(newest)]


def _skill_results(entries: list[Entry]) -> list[str]:
    """The results of the calls of the Skill tool."""
    calls = {
        entry.payload["id"] for entry in entries if entry.entry_type == "tool_use" and entry.payload["name"] == SKILL
    }
    results = (entry.payload for entry in entries if entry.entry_type == "tool_result")
    return [str(result["content"]) for result in results if result["tool_use_id"] in calls and not result["is_error"]]


def _fit_skills(texts: list[str], room: int) -> list[str]:
    """The newest skills that fit, each once and cut if it is long, in order."""
    room = min(room, SKILLS_BYTES)
    fitting: list[str] = []
    for text in dict.fromkeys(reversed(texts)):
        cut = (
            text
            if len(text) <= SKILL_BYTES
            else f"{text[:SKILL_BYTES]}\n[… the rest was left out; call the skill again …]"
        )
        room -= len(cut)
        if room < 0:
            break
        fitting.append(cut)
    return fitting[::-1]


def _denials(entries: list[Entry]) -> list[str]:
    results = [entry.payload for entry in entries if entry.entry_type == "tool_result"]
    refused = (str(result["content"]) for result in results if result.get("outcome") == "denied")
    return list(dict.fromkeys(text.partition("\n")[0] for text in refused))


# ------------------------------------------------------------------ the summary


async def _summarize(session: Session, older: list[Entry], earlier: Carried, instructions: str) -> tuple[str, str]:
    """Let the model write the summary; if that fails, list the tool calls. Returns the summary and the method."""
    with open(os.path.join(os.path.dirname(__file__), "compact.md"), encoding="utf-8") as file:
        asked = file.read().strip()
    if instructions:
        asked += f"\nThe user wants in particular: {instructions}"
    room, mark = (_window(session) or 400_000) // 2, session.ids("record").rpartition("-")[2]
    try:
        try:
            response = await model_call.ask_and_record(
                session, asked, _summary_request(older, earlier, room, mark), "compaction"
            )
        except ProviderError as error:
            if error.kind != "context_overflow":
                raise
            # a route for small questions may lead to a model with a smaller window
            response = await model_call.ask_and_record(
                session, asked, _summary_request(older, earlier, room // 8, mark), "compaction"
            )
    except (ProviderError, LimitError) as error:
        return _list_calls(older, earlier), f"listed, since the model could not be asked: {error}"
    if not response.final_text.strip():
        return _list_calls(older, earlier), "listed, since the model answered without a word"
    if response.stop_reason == "max_tokens":
        return _list_calls(older, earlier), "listed, since the model's summary was cut off"
    return response.final_text, "summarised by the model"


def _summary_request(older: list[Entry], earlier: Carried, room: int, mark: str) -> History:
    record = _entries_as_text(older, room)
    if earlier.summary:
        record = f"summary of what came before:\n{earlier.summary}\n\n{record}"
    return History([Message("user", (TextBlock(f"{framed(mark, record)}\n\nWrite the summary now."),))])


def _entries_as_text(entries: list[Entry], room: int) -> str:
    """The entries as text, each cut; if they do not fit, the middle is left out."""
    lines = [line for entry in entries if (line := _entry_line(entry))]
    text = "\n".join(lines)
    if len(text) <= room:
        return text
    return f"{text[: room // 3]}\n[… left out …]\n{text[-2 * room // 3 :]}"


def _entry_line(entry: Entry) -> str:
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


def _list_calls(entries: list[Entry], earlier: Carried) -> str:
    called = [_entry_line(entry)[:200] for entry in entries if entry.entry_type == "tool_use"]
    return "\n".join([earlier.summary, "No summary could be made. These calls were made:", *called[-100:]]).strip()
