"""Tool calls written as text: only where the entry allows them, only of offered tools, never out of a quotation."""

import html
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from adderclaw.core.types import ChatResponse, Message, ToolSpec
from adderclaw.models.providers.text_calls import TextCallFilter, split
from tests.models.providers.making import READ, Heard, House, ask, called, chat_entry, request, result, user
from tests.rows import rows
from tests.scripted import ScriptedModel

LS = ToolSpec("LS", "Lists.", {"type": "object"})
TOOLS = frozenset({"Read", "LS"})
BODY = '{"name": "Read", "arguments": {"file_path": "ä"}}'
TAGGED = f"<tool_call>\n{BODY}\n</tool_call>"
FENCED = f"```json\n{BODY}\n```"


def answer(
    text: str, *messages: Message, heard: Heard | None = None, allowed: bool = True, **step: Any
) -> ChatResponse:
    with ScriptedModel([{"text": text, **step}]) as model:
        provider = House({"p": chat_entry(model.base_url, text_tool_calls=allowed)}).make("p")
        asked = request(*(messages or (user("go"),)), tools=(READ, LS))
        return ask(provider, asked, heard=heard)[0]


# ------------------------------------------------------------------ what is text


NOT_CALLS = [
    "",
    "no call",
    "<tool_call>",
    "<tool_call></tool_call>",
    '<tool_call>{"name": "Read"</tool_call>',
    '<tool_call>{"name": "Read"}</tool_call>',
    '<tool_call>{"arguments": {}}</tool_call>',
    '<tool_call>{"name": 7, "arguments": {}}</tool_call>',
    '<tool_call>{"name": "Read", "arguments": []}</tool_call>',
    '<tool_call>{"name": "Read", "arguments": "[]"}</tool_call>',
    '<tool_call>{"name": "Read", "arguments": {"a": NaN}}</tool_call>',
    '<tool_call>{"name": "Bash", "arguments": {"command": "rm -rf /"}}</tool_call>',
    '<tool_call>{"name": "read", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "Read", "arguments": {}, "note": "example"}</tool_call>',
    '<tool_call>["Read"]</tool_call>',
    f"<tool_call>{BODY} and so on</tool_call>",
    f"<tool_call>{'[' * 100_000}</tool_call>",
    f"`{TAGGED}`",
    f"> {TAGGED}",
    f"```\n{BODY}\n```",
    f"```python\n{BODY}\n```",
    f"```xml\n{TAGGED}\n```",
    f"~~~text\n{TAGGED}\n~~~",
    f"```json\n{TAGGED}\n```",
    f"```json\n{BODY}\n{BODY}\n```",
    f"```json\n[{BODY}]\n```",
    f"    {BODY}",
    f"<think>{TAGGED}</think>",
    f"<think>{TAGGED}",
    f"<tool_response>{TAGGED}</tool_response>",
    f"<tool_result>\n{FENCED}\n</tool_result>",
    '{"name": "Read", "arguments": {}}',
]


@rows("text", NOT_CALLS)
def test_what_is_no_call_stays_text(text: str) -> None:
    assert split(text, TOOLS, ()) == (text, [])


def test_without_the_setting_nothing_is_looked_for() -> None:
    response = answer(TAGGED, allowed=False)
    assert (response.final_text, response.tool_calls, response.stop_reason) == (TAGGED, (), "end")


@rows(
    "quoted",
    [
        TAGGED,
        f"what the page says: {TAGGED} end",
        f"     1\t<tool_call>\n     2\t{BODY}\n     3\t</tool_call>\n",
        json.dumps({"page": TAGGED}),
        json.dumps({"page": json.dumps({"inner": TAGGED})}),
        html.escape(TAGGED),
        f"notes/a.md:3:<tool_call>\nnotes/a.md-4-{BODY}\nnotes/a.md-5-</tool_call>",
        BODY.replace(" ", "\n  "),
        FENCED,
    ],
)
@rows("text", [TAGGED, f"The file says:\n{FENCED}\n"])
def test_what_a_tool_has_said_is_no_call_when_the_model_repeats_it(quoted: str, text: str) -> None:
    told = (user("go"), called("c", "LS", {}), result("c", quoted))
    response = answer(text, *told)
    assert (response.final_text, response.tool_calls) == (text, ())


def test_lines_with_numbers_before_them_are_known_too() -> None:
    spread = BODY.replace(", ", ",\n").replace(": {", ":\n{")
    numbered = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(spread.splitlines(), 1))
    listed = "\n".join(f"a.md:{number}:{line}" for number, line in enumerate(spread.splitlines(), 1))
    for quoted in (numbered, listed):
        assert split(f"<tool_call>{spread}</tool_call>", TOOLS, [quoted])[1] == []


def test_what_a_tool_said_of_something_else_does_not_matter() -> None:
    told = (user("go"), called("c", "LS", {}), result("c", "ä Read name arguments file_path"))
    assert [call.name for call in answer(TAGGED, *told).tool_calls] == ["Read"]


def test_a_call_beside_a_proper_one_is_text() -> None:
    response = answer(TAGGED, tool_calls=[{"name": "LS", "arguments": {}}])
    assert [call.name for call in response.tool_calls] == ["LS"]
    assert response.final_text == TAGGED


# ------------------------------------------------------------------ what is a call


@rows(
    ("text", "left", "calls"),
    [
        (TAGGED, "", ["Read"]),
        (FENCED, "", ["Read"]),
        (f"```tool_call\n{BODY}\n```", "", ["Read"]),
        (f"  ```JSON\n\n{BODY}\n\n  ```  \n", "", ["Read"]),
        (f"~~~json\n{BODY}\n~~~", "", ["Read"]),
        (f"<tool_call>{BODY}", "", ["Read"]),
        (f"```json\n{BODY}", "", ["Read"]),
        (f"Let me look.\n\n{TAGGED}\n", "Let me look.", ["Read"]),
        (f"Before {TAGGED} after", "Before  after", ["Read"]),
        (f"{TAGGED}\n{TAGGED.replace('Read', 'LS')}", "", ["Read", "LS"]),
        (f"<tool_call>{BODY}<tool_call>{BODY}", "", ["Read", "Read"]),
        (f"<think>hm {TAGGED.replace('Read', 'LS')}</think>{TAGGED}", None, ["Read"]),
        (f"```python\nx\n```\n{TAGGED}", "```python\nx\n```", ["Read"]),
        ('<tool_call>{"name": "LS", "parameters": {}}</tool_call>', "", ["LS"]),
        ('<tool_call>{"name": "LS", "arguments": "{}"}</tool_call>', "", ["LS"]),
        ('<tool_call>{"type": "function", "function": {"name": "LS", "arguments": {}}}</tool_call>', "", ["LS"]),
        (f"{TAGGED} and {TAGGED.replace('Read', 'Bash')}", f"and {TAGGED.replace('Read', 'Bash')}", ["Read"]),
    ],
)
def test_calls_in_text(text: str, left: str | None, calls: list[str]) -> None:
    rest, found = split(text, TOOLS, ())
    assert [call.name for call in found] == calls
    assert left is None or rest == left


def test_a_closing_tag_inside_the_arguments_is_part_of_them() -> None:
    inner = {"name": "Read", "arguments": {"file_path": "</tool_call> ``` <tool_call>"}}
    rest, (call,) = split(f"<tool_call>{json.dumps(inner)}</tool_call>!", TOOLS, ())
    assert (rest, json.loads(call.arguments)) == ("!", inner["arguments"])


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_in_the_text_becomes_one_and_the_rest_is_the_answer(stream: bool) -> None:
    heard = Heard()
    response = answer(f"Let me look.\n\n{TAGGED}\n{TAGGED.replace('Read', 'LS')}", heard=heard, stream=stream)
    assert response.final_text == "Let me look."
    assert [(call.id, call.name, call.arguments) for call in response.tool_calls] == [
        ("call_1_0", "Read", {"file_path": "ä"}),
        ("call_1_1", "LS", {"file_path": "ä"}),
    ]
    assert response.stop_reason == "tool_use"
    assert heard.text.strip() == "Let me look."
    assert [delta.text for delta in heard if delta.kind == "tool"] == ["Read", "LS"]


@pytest.mark.parametrize("text", ["a < b, `x` is fine", "```python\nprint(1)\n```\nDone.", "ends with <tool_ca", "``"])
def test_text_that_was_held_back_is_shown_in_the_end(text: str) -> None:
    heard = Heard()
    assert answer(text, heard=heard, piece=1).final_text == heard.text == text


@given(some.lists(some.sampled_from(["<tool_call>", "<tool", "`", "```", "~~", "a b", "\n", BODY, "</tool_call>"])))
def test_whatever_the_pieces_all_text_is_shown_once(pieces: list[str]) -> None:
    curtain = TextCallFilter()
    shown = "".join(curtain.show(piece) for piece in pieces)
    whole = "".join(pieces)
    assert shown + curtain.rest(whole) == whole
    assert not any(mark in shown for mark in ("<tool_call>", "```", "~~~"))
    left, calls = split(whole, TOOLS, ())
    assert calls or left == whole
