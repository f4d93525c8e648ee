"""Text from models, files and tools is text in a page, whatever it looks like: 200 hostile strings in every field."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from adderclaw.agent.view.escaping import address, exact, is_address
from adderclaw.agent.view.html_markdown import markdown
from adderclaw.agent.view.items import Call, Change, Child, Item, Line, Notice, Todo, Words
from adderclaw.agent.view.markup import macro
from adderclaw.agent.view.page import Block, Heading, Output, Picture, Table
from adderclaw.core.redaction import visible
from tests.server.hostile import HOSTILE


def names_in(text: str) -> set[str]:
    return {*text.split()}


TAGS = names_in(
    "a article b blockquote br code details div em figcaption figure h1 h2 h3 h4 h5 h6 hr img li ol p pre s span "
    "strong summary table tbody td th thead tr ul"
)
"""Elements of items and reports: none of them loads, frames, embeds or runs anything."""
ATTRIBUTES = names_in("alt class href id open rel role scope src start tabindex target")


def item(one: Item) -> str:
    return str(macro("items", "item", one))


def drawn(block: Block) -> str:
    return str(macro("items", "drawn", block))


def folded(title: str, text: str, *, is_open: bool) -> str:
    return str(macro("items", "folded", title, text, is_open))


class Parsed(HTMLParser):
    """What a browser would make of it: elements, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "action", "formaction")]

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data!r}")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"a declaration: {decl!r}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data!r}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data!r}")


def harmless(html: str) -> Parsed:
    """Made of listed elements and attributes, with addresses of the web alone, and nothing that steers a screen."""
    found = Parsed(html)
    for tag, names in found.tags:
        assert tag in TAGS
        assert not [name for name in names if name not in ATTRIBUTES and not name.startswith(("aria-", "data-"))]
        assert "style" not in names
    for one in found.addresses:
        assert one.startswith(("http://", "https://", "mailto:", "/ui/", "/questions/", "/conversations/"))
    assert html.encode()  # no lone surrogate
    assert not {"\x1b", "\u202e", "\x00", "\u2066", "\x9b"} & {*html}
    return found


@pytest.mark.parametrize("part", range(4))
def test_every_field_of_every_item_and_block_holds_hostile_text_as_text(part: int) -> None:
    for text in HOSTILE[part::4]:
        call = Call(
            key=text,
            session_id=text,
            tool=text,
            argument=text,
            input={text: text, "list": [text]},
            state="denied",
            by=text,
            why=text,
            asked=True,
            comment=text,
            output=text,
            change=Change(text, (Line("+", 1, text), Line("-", 2, text), Line(" ", 3, text), Line("@", 4, text))),
            todos=(Todo(text, "pending"), Todo(text, "in_progress"), Todo(text, "completed")),
            child=Child(text, text, 2, text, text),
            receipt=3,
        )
        running = Call(text, text, text, text, {}, "running", progress=text, child=Child(text, text, 1, text))
        blocks: list[Block] = [
            Heading(text, 2, "bad", text),
            Table((text,), ((text,),)),
            Output(text, text),
            Picture(text, text, b""),
            Words(text, "user", text),
            Notice(text, "error", text),
            call,
            running,
        ]
        for block in blocks:
            harmless(str(drawn(block)))
        kept = Parsed(f'<input value="{exact(text)}" data-text="{exact(text)}">')  # what a person edits stays as it is
        assert kept.tags == [("input", ("value", "data-text"))]


@pytest.mark.parametrize("part", range(2))
def test_plain_fields_have_the_same_elements_whatever_they_say(part: int) -> None:
    calm = [
        Parsed(str(made))
        for made in (item(Words("k", "user", "x")), item(Notice("k", "note", "x")), folded("t", "x", is_open=False))
    ]
    for text in HOSTILE[part::2]:
        short = text[:1_000].replace("\n", " ") or "x"
        drawn_so = (item(Words("k", "user", text)), item(Notice("k", "note", text)), folded("t", short, is_open=False))
        for expected, made in zip(calm, drawn_so, strict=True):
            found = harmless(str(made))
            if visible(short).strip():
                assert [tag for tag, _ in found.tags] == [tag for tag, _ in expected.tags]
        shown = visible(text[:50_000])
        assert shown.replace("\r", "\n") in Parsed(str(drawn_so[0])).text.replace("\r", "\n")


@pytest.mark.parametrize("part", range(2))
def test_markdown_makes_no_element_that_text_could_use(part: int) -> None:
    for text in HOSTILE[part::2]:
        found = harmless(str(markdown(text)))
        assert not {tag for tag, _ in found.tags} & {"img", "form", "input", "button", "svg", "dialog", "textarea"}
        for tag, names in found.tags:
            if tag == "a":
                assert set(names) == {"href", "rel", "target"}


def test_what_markdown_hides_is_shown() -> None:
    found = Parsed(str(markdown("[bank](https://elsewhere.invalid/x) ![a](https://elsewhere.invalid/p.png) <b>x</b>")))
    assert "bank (https://elsewhere.invalid/x)" in found.text
    assert "[picture: a] (https://elsewhere.invalid/p.png)" in found.text
    assert "<b>x</b>" in found.text
    deep = Parsed(str(markdown(">" * 40 + " at the bottom")))
    assert "at the bottom" in deep.text
    long = "\n\n".join(f"paragraph {number}" for number in range(5_000))
    assert "paragraph 4999" in Parsed(str(markdown(long))).text


def test_a_page_has_only_addresses_of_this_server_and_of_the_web() -> None:
    for wrong in ("javascript:alert(1)", "//elsewhere.invalid", "/\\elsewhere.invalid", "data:text/html,x", " /x"):
        assert not is_address(wrong)
        with pytest.raises(ValueError, match="address"):
            address(wrong)


FOLDERS = ("src/adderclaw/agent/view/templates", "src/adderclaw/server/pages/templates")
ATTRIBUTE = re.compile(r"""([\w-]+)=("(?:\{\{.*?\}\}|\{%.*?%\}|[^"])*"|[^\s">]+)""")
CHECKED = r"(?:\|(?:address|quoted|urlencode|picture\(block\.media_type\))|\.(?:seq|earlier))"
"""How an expression of an address ends: with a filter that checks or quotes it, or with a number."""
ADDRESS = re.compile(rf"(?:[^{{]|\{{\{{(?:(?! \}}\}}).)*{CHECKED} \}}\}})*")


def test_templates_print_nothing_unescaped_and_run_nothing() -> None:
    """No filter lifts the escaping, nothing runs or styles inline, and each address goes through its filter."""
    root = Path(__file__).parents[3]
    files = [file for folder in FOLDERS for file in sorted((root / folder).iterdir())]
    assert len(files) > 15
    for file in files:
        text = re.sub(r"\{#.*?#\}", "", file.read_text("utf-8"), flags=re.DOTALL)
        assert not re.search(r"\|\s*(safe|tojson|xmlattr|forceescape)\b|autoescape|Markup", text), file.name
        assert text.count("<script") == (file.name == "base.html"), file.name
        assert text.count("<style") == (file.name == "report.html"), file.name
        html = re.sub(r"\{%.*?%\}", "", text, flags=re.DOTALL)
        for name, value in ATTRIBUTE.findall(re.sub(r"(?<=>)[^<]+", "", html)):
            assert not name.startswith("on"), (file.name, name)
            assert name != "style", file.name
            assert value.startswith('"'), (file.name, name, value)
            if name in ("href", "src", "action", "formaction"):
                assert ADDRESS.fullmatch(value[1:-1]), (file.name, value)


def test_a_change_that_is_decided_about_is_shown_whole() -> None:
    lines = tuple(Line("+", number, f"line {number} \u2066x") for number in range(1, 400))
    text = Parsed(str(macro("items", "diff", Change("a", lines), True))).text
    assert "line 399" in text
    assert "\\u{2066}" in text
