"""Renders Markdown as HTML from the parser's tokens: raw HTML stays text, and images are not fetched."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from adderclaw.agent.view.escaping import exact, is_address, text
from adderclaw.agent.view.html_code import code

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from markupsafe import Markup

LONGEST = 20_000
"""Characters that are parsed at once, because the parser's time may be more than linear."""
DEEPEST = 20
"""Levels of lists and quotes that the parser reads; deeper text is shown unparsed."""
TAGS = {"paragraph": "p", "bullet_list": "ul", "ordered_list": "ol", "list_item": "li"} | {
    same: same for same in ("blockquote", "table", "thead", "tbody", "tr", "th", "td", "em", "strong", "s")
}
SCROLLED = '<div class="scroll" tabindex="0" role="region" aria-label="Table">'


def markdown(words: str) -> "Markup":
    """Render a model's answer. Its headings begin below those of the page."""
    from markupsafe import Markup

    parts = (html for part in _parts(words) for html in _part(part))
    return Markup(f'<div class="md">{"".join(parts)}</div>')  # noqa: S704 - our tags around escaped text


def _parts(words: str) -> Iterator[str]:
    while len(words) > LONGEST:
        cut = words.rfind("\n\n", 1, LONGEST) + 1 or LONGEST
        yield words[:cut]
        words = words[cut:]
    yield words


def _part(words: str) -> Iterator[str]:
    # text with many brackets is not prose, and the parser would search for the end of a link from each of them
    tokens = _parser().parse(words) if words.count("[") <= LONGEST // 10 else None
    if tokens is None or any(token.level >= DEEPEST - 2 for token in tokens):
        yield f"<pre>{text(words)}</pre>"
    else:
        yield from _written(tokens)


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST}).enable(["table", "strikethrough"])


def _written(tokens: "list[Token]") -> Iterator[str]:
    ends: list[str] = []
    for at, token in enumerate(tokens):
        if token.nesting > 0:
            begin, end = _element(tokens, at)
            ends.append(end)
            yield begin
        elif token.nesting < 0:
            yield ends.pop()
        elif token.type == "inline":
            yield from _written(token.children or [])
        else:
            yield _leaf(token)


def _element(tokens: "list[Token]", at: int) -> tuple[str, str]:
    """The opening and closing tags of an element."""
    token = tokens[at]
    kind = token.type.removesuffix("_open")
    if kind == "link":
        return _link(tokens, at)
    if kind == "table":
        return f"{SCROLLED}<table>", "</table></div>"
    tag = TAGS.get(kind, "span")
    if kind == "heading":
        tag = f"h{min(int(token.tag[1:]) + 2, 6)}"
    elif kind == "paragraph" and token.hidden:  # an item of a tight list
        tag = "span"
    start = token.attrGet("start") if kind == "ordered_list" else None
    return f'<{tag} start="{int(start)}">' if start is not None else f"<{tag}>", f"</{tag}>"


def _link(tokens: "list[Token]", at: int) -> tuple[str, str]:
    """A link to the web, with its address shown; any other link stays text."""
    address = str(tokens[at].attrGet("href") or "")
    where = f'<span class="where"> ({text(address)})</span></span>' if address else "</span>"
    if not is_address(address) or not address.startswith(("http://", "https://", "mailto:")):
        return "<span>", where
    begin = f'<a href="{exact(address)}" rel="noopener noreferrer nofollow" target="_blank">'
    is_same = tokens[at + 1].content == address and tokens[at + 2].type == "link_close"
    return (begin, "</a>") if is_same else (f"<span>{begin}", f"</a>{where}")


def _leaf(token: "Token") -> str:
    match token.type:
        case "softbreak":
            return "\n"
        case "hardbreak":
            return "<br>"
        case "hr":
            return "<hr>"
        case "code_inline":
            return f"<code>{text(token.content)}</code>"
        case "fence" | "code_block":
            return f"<pre>{code(token.content.removesuffix('\n'), token.info.partition(' ')[0].lower())}</pre>"
        case "image":
            where = f'<span class="where"> ({text(str(token.attrGet("src")))})</span>'
            return f"<span>[picture: {text(token.content)}]{where}</span>"
        case _:
            return str(text(token.content))
