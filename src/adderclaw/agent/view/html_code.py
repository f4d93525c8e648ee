"""Highlights code as HTML, in one pass whose time is linear in the length of the text."""

import re
from functools import cache
from typing import TYPE_CHECKING

from adderclaw.agent.view import escaping

if TYPE_CHECKING:
    from markupsafe import Markup

COLOURED = 40_000
"""Longer code, in characters, is not highlighted."""

_C = (
    "break case const continue default do else enum extern for goto if return sizeof static struct switch typedef "
    "union void while int char long unsigned bool float double true false NULL nullptr class namespace public private"
)
_JS = (
    "async await break case catch class const continue default delete do else export extends false finally for from "
    "function if import in instanceof interface let new null of return static super switch this throw true try "
    "type typeof undefined var void while yield enum implements private public readonly as"
)
_PY = (
    "and as assert async await break case class continue def del elif else except False finally for from global if "
    "import in is lambda match None nonlocal not or pass raise return True try type while with yield self"
)
_SH = "if then else elif fi for in do done case esac while until function return exit export local set unset echo cd"
_SQL = (
    "select from where insert into values update set delete create table index view join left right inner outer on "
    "group by order having limit and or not null primary key references as distinct union all begin commit"
)
_RUST = (
    "as async await break const continue crate else enum extern false fn for if impl in let loop match mod move mut "
    "pub ref return self Self static struct super trait true type unsafe use where while"
)
_GO = (
    "break case chan const continue default defer else fallthrough for func go goto if import interface map package "
    "range return select struct switch type var nil true false string int error"
)
_JAVA = (
    "abstract boolean break case catch class const continue default do double else enum extends final finally float "
    "for if implements import instanceof int interface long new null package private protected public "
    "return static super switch this throw throws true false try void volatile while var val fun override"
)
_RUBY = (
    "begin class def do else elsif end ensure false for if in module next nil not or rescue return self super then "
    "true unless until when while yield require local function"
)

_SLASHES = r"//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)"
_HASH = r"#[^\n]*"
_DASHES = r"--[^\n]*|/\*[\s\S]*?(?:\*/|\Z)"
_TAGS = r"<!--[\s\S]*?(?:-->|\Z)"

_KINDS = {
    ("python", "py"): (_PY, _HASH),
    ("bash", "sh", "shell", "console", "zsh", "dockerfile", "makefile"): (_SH, _HASH),
    ("javascript", "js", "jsx", "typescript", "ts", "tsx", "json", "jsonc", "css"): (_JS, _SLASHES),
    ("c", "cpp", "c++", "h", "csharp", "cs", "php"): (_C, _SLASHES),
    ("rust", "rs"): (_RUST, _SLASHES),
    ("go",): (_GO, _SLASHES),
    ("java", "kotlin", "swift", "scala"): (_JAVA, _SLASHES),
    ("sql", "lua"): (_SQL, _DASHES),
    ("ruby", "rb", "perl", "r"): (_RUBY, _HASH),
    ("toml", "yaml", "yml", "ini", "conf"): ("true false null yes no on off", _HASH),
    ("html", "xml", "svg"): ("", _TAGS),
}
LANGUAGES = {name: kind for names, kind in _KINDS.items() for name in names}
"""Name of a language → its keywords, and the pattern of its comments."""


def code(text: str, language: str = "") -> "Markup":
    """A code element, highlighted if the language is known."""
    from markupsafe import Markup

    if len(text) > COLOURED:
        parts = [escaping.text(text)]
    elif language in ("diff", "patch"):
        parts = [_span(line, _CHANGES.get(line[:1], "")) for line in text.splitlines(keepends=True)]
    elif language in LANGUAGES:
        parts = _coloured(text, language)
    else:
        parts = [escaping.text(text)]
    return Markup("<code>{}</code>").format(Markup("").join(parts))


_CHANGES = {"+": "t-gi", "-": "t-gd", "@": "t-gh"}


def _coloured(text: str, language: str) -> "list[Markup]":
    words = frozenset(LANGUAGES[language][0].split())
    parts: list[Markup] = []
    end = 0
    for match in _expression(LANGUAGES[language][1]).finditer(text):
        name = _class(match, words, language)
        if name:
            parts += [escaping.text(text[end : match.start()]), _span(match[0], name)]
            end = match.end()
    return [*parts, escaping.text(text[end:])]


def _span(text: str, name: str) -> "Markup":
    from markupsafe import Markup

    return Markup('<span class="{}">{}</span>').format(name, escaping.text(text)) if name else escaping.text(text)


def _class(match: re.Match[str], words: frozenset[str], language: str) -> str:
    if match.lastgroup != "word":
        return {"comment": "t-c", "string": "t-s", "number": "t-n"}.get(match.lastgroup or "", "")
    word = match[0].lower() if language == "sql" else match[0]
    if word in words:
        return "t-k"
    return "t-f" if match.string.startswith("(", match.end()) else ""


@cache
def _expression(comment: str) -> re.Pattern[str]:
    # no alternative backtracks: an unclosed string or comment ends where the text does
    string = r'"""[\s\S]*?(?:"""|\Z)|\'\'\'[\s\S]*?(?:\'\'\'|\Z)|"(?:[^"\\\n]|\\.)*+"?|\'(?:[^\'\\\n]|\\.)*+\'?'
    word, number = r"[A-Za-z_]\w*+", r"\b\d[\w.]*+"
    return re.compile(f"(?P<comment>{comment})|(?P<string>{string})|(?P<word>{word})|(?P<number>{number})")
