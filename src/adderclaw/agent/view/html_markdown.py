"""Markdown as HTML: a subset of ours, made of the parser's tokens; raw HTML stays text, and no picture is fetched."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from adderclaw.agent.view.html import Child, Html, el, is_address
from adderclaw.agent.view.html_code import code
from adderclaw.core.record import NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LONGEST = 20_000
"""Characters that are read at once: a parser's time may grow faster than its text."""
DEEPEST = 20
"""Levels of lists and quotes; the parser reads no deeper, so that what is deeper is shown as it is."""
TAGS = {"paragraph": "p", "bullet_list": "ul", "ordered_list": "ol", "list_item": "li"} | {
    same: same for same in ("blockquote", "table", "thead", "tbody", "tr", "th", "td", "em", "strong", "s")
}


class _Open(NamedTuple):
    """An element whose children are still coming."""

    kind: str
    tag: str
    address: str
    children: list[Child]
    start: int | None = None


def markdown(text: str) -> Html:
    """An answer of a model. Headings begin below those of the page that it stands in."""
    return el("div", [_part(part) for part in _parts(text)], class_="md")


def _parts(text: str) -> Iterator[str]:
    while len(text) > LONGEST:
        cut = text.rfind("\n\n", 1, LONGEST) + 1 or LONGEST
        yield text[:cut]
        text = text[cut:]
    yield text


def _part(text: str) -> list[Child]:
    if text.count("[") > LONGEST // 10:  # no prose; and each may begin a link that is looked for to the end
        return [el("pre", text)]
    tokens = _parser().parse(text)
    if any(token.level >= DEEPEST - 2 for token in tokens):
        return [el("pre", text)]
    return _made(tokens)


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST}).enable(["table", "strikethrough"])


def _made(tokens: "list[Token]") -> list[Child]:
    """Tokens as elements; with a stack, since nobody limits how deep a text is nested."""
    top = _Open("", "", "", [])
    stack = [top]
    for token in tokens:
        if token.nesting > 0:
            stack.append(_opened(token))
        elif token.nesting < 0 and len(stack) > 1:
            done = stack.pop()
            stack[-1].children.append(_closed(done))
        elif token.type == "inline":
            stack[-1].children.extend(_made(token.children or []))
        else:
            stack[-1].children.append(_leaf(token))
    while len(stack) > 1:
        done = stack.pop()
        stack[-1].children.append(_closed(done))
    return top.children


def _opened(token: "Token") -> _Open:
    kind = token.type.removesuffix("_open")
    if kind == "heading":
        return _Open(kind, f"h{min(int(token.tag[1:]) + 2, 6)}", "", [])
    if kind == "link":
        return _Open(kind, "a", str(token.attrGet("href") or ""), [])
    if kind == "paragraph" and token.hidden:  # of a list whose items stand close together
        return _Open(kind, "span", "", [])
    start = token.attrGet("start") if kind == "ordered_list" else None
    return _Open(kind, TAGS.get(kind, "span"), "", [], int(start) if start is not None else None)


def _closed(done: _Open) -> Html:
    if done.kind == "link":
        return _link(done.children, done.address)
    if done.kind == "table":
        return el("div", el("table", done.children), class_="scroll", tabindex=0, role="region", aria_label="Table")
    return el(done.tag, done.children, start=done.start)


def _link(words: list[Child], address: str) -> Html:
    """It leads outside, says where, and takes nothing along; what is no address of the web stays text."""
    if not is_address(address) or not address.startswith(("http://", "https://", "mailto:")):
        return el("span", words, el("span", f" ({address})", class_="where") if address else None)
    is_same = len(words) == 1 and str(words[0]) == address
    made = el("a", words, href=address, rel="noopener noreferrer nofollow", target="_blank")
    return made if is_same else el("span", made, el("span", f" ({address})", class_="where"))


def _leaf(token: "Token") -> Child:
    match token.type:
        case "text" | "html_inline" | "html_block":
            return token.content
        case "softbreak":
            return "\n"
        case "hardbreak":
            return el("br")
        case "hr":
            return el("hr")
        case "code_inline":
            return el("code", token.content)
        case "fence" | "code_block":
            return el("pre", code(token.content.removesuffix("\n"), token.info.partition(" ")[0].lower()))
        case "image":
            return el("span", f"[picture: {token.content}]", el("span", f" ({token.attrGet('src')})", class_="where"))
        case _:
            return token.content
