"""Words and characters of shell text: quotes, expansions, comments, continued lines and here-documents."""

import re
from collections.abc import Callable, Iterable

from adderclaw.policy.legacy.shell.quoting import ansi_c
from adderclaw.policy.legacy.shell.syntax import Arith, NotAPlan, Param, Part, Script, Sub, Text, Word

MAX_DEPTH = 40
META = frozenset(" \t\n;&|()<>")
PLAIN = re.compile(r"[^\s;&|()<>'\"\\$`]+")
OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|&>>|&>|\|&|<<<|<<-|<<|<&|<>|>&|>>|>\||[;&|()\n<>]")
_UNMARKED = re.compile(r'[^\\$`"]+')
NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Lexer:
    """One pass over a text; `at` is where it stands."""

    def __init__(self, text: str, depth: int = 0) -> None:
        self.text, self.at = text, 0
        self.depth: int = depth
        self.documented = 0
        """How much of the text before this place were lines of here-documents."""
        self.documents: list[tuple[str, bool, bool, Callable[[Word], None]]] = []

    # ---- characters

    def ahead(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def blanks(self) -> None:
        """Blanks, continued lines, and a comment where one can begin."""
        text = self.text
        while True:
            if self.ahead() in (" ", "\t"):
                self.at += 1
            elif self.ahead(2) == "\\\n":
                self.at += 2
            else:
                break
        if self.ahead() == "#" and (self.at == 0 or text[self.at - 1] in META):
            end = text.find("\n", self.at)
            self.at = len(text) if end < 0 else end

    def newlines(self) -> None:
        self.blanks()
        while self.ahead() == "\n":
            self.newline()
            self.blanks()

    def newline(self) -> None:
        self.at += 1
        waiting, self.documents = self.documents, []
        for mark, strips, quoted, give in waiting:
            give(self.document(mark, strips=strips, quoted=quoted))

    def operator(self) -> str:
        found = OPERATOR.match(self.text, self.at)
        return found.group() if found else ""

    def reserved(self) -> str:
        """The plain word that stands here, if it stands alone."""
        found = PLAIN.match(self.text, self.at)
        if found is None or (found.end() < len(self.text) and self.text[found.end()] not in META):
            return ""
        return found.group()

    def expect(self, word: str) -> None:
        self.newlines()
        if self.reserved() != word:
            raise NotAPlan("cannot be parsed")
        self.at += len(word)

    def close(self, mark: str) -> None:
        self.blanks()
        if self.ahead() != mark or self.documents:
            raise NotAPlan("cannot be parsed")
        self.at += 1

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NotAPlan("nested too deeply")

    def document(self, mark: str, *, strips: bool, quoted: bool) -> Word:
        lines: list[str] = []
        while True:
            if self.at >= len(self.text):
                raise NotAPlan("a here-document without its end")
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line = self.text[self.at : end]
            line = line.lstrip("\t") if strips else line
            self.at = end
            if line == mark:
                break
            lines.append(line + "\n")
            self.at = min(end + 1, len(self.text))
        body = "".join(lines)
        self.documented += len(body)
        # The line after the mark begins with its newline, so that what follows is read as after any command.
        if quoted or not body:
            return (Text(body, True),)
        if "\\\n" in body:
            raise NotAPlan("a continued line in a here-document")
        return Lexer(body, self.depth).until("", in_document=True)

    # ---- words

    def file(self) -> Word:
        """`<(…)`, which is a word of its own."""
        start = self.at
        self.at += 2
        body, self.at = _inside(self.text, self.at, self)
        self.close(")")
        if self.ahead() == "(" or (self.at < len(self.text) and self.ahead() not in META):
            raise NotAPlan("process substitution as part of a word")
        return (Sub(body, self.text[start : self.at], True, True),)

    def word(self) -> Word:
        self.deeper()
        parts: list[Part] = []
        start = self.at
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in META:
                break
            plain = PLAIN.match(self.text, self.at)
            if plain is not None:
                self.at = plain.end()
                parts.append(Text(plain.group()))
            elif char == "\\":
                if self.continued(start):
                    break
                self.escape(parts)
            elif char == "'":
                parts.append(Text(self.single_quoted(), True))
            elif char == '"':
                self.at += 1
                parts += self.until('"') or (Text("", True),)
                self.at += 1
            else:
                parts += self.expansion(char)
        if not parts:
            raise NotAPlan("cannot be parsed")
        self.depth -= 1
        return tuple(parts)

    def continued(self, start: int) -> bool:
        """Whether a continued line ends the word; one inside of a word could also make a reserved word of it."""
        if self.ahead(2) != "\\\n":
            return False
        following = self.text[self.at + 2 : self.at + 3]
        if self.at > start and following and following not in " \t\n":
            raise NotAPlan("line continuation inside a word")
        return True

    def escape(self, parts: list[Part]) -> None:
        if self.at + 1 >= len(self.text):
            raise NotAPlan("cannot be parsed")
        parts.append(Text(self.text[self.at + 1], True))
        self.at += 2

    def single_quoted(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise NotAPlan("cannot be parsed")
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        return inside

    def expansion(self, char: str, *, quoted: bool = False) -> Iterable[Part]:
        if char == "`":
            return (self.backticks(quoted),)
        following = self.text[self.at + 1 : self.at + 2]
        if following == "'" and not quoted:
            text, self.at = ansi_c(self.text, self.at + 2)
            return (Text(text, True),)
        if following == '"' and not quoted:
            raise NotAPlan('$"…" quoting')
        if following == "(":
            return (self.substitution(quoted),)
        if following == "{":
            return (self.braced(quoted),)
        if following == "\\" and self.text[self.at + 2 : self.at + 3] == "\n":
            raise NotAPlan("line continuation inside a word")
        name = NAME.match(self.text, self.at + 1)
        if name is not None:
            self.at = name.end()
            return (Param(name.group(), quoted=quoted, bare=True),)
        if following and following in "?$!#@*-0123456789":
            self.at += 2
            return (Param(following, quoted=quoted),)
        if following == "[":
            raise NotAPlan("arithmetic expansion")
        self.at += 1
        return (Text("$", quoted),)

    def until(self, end: str, *, in_document: bool = False) -> Word:
        """The inside of double quotes, or of a here-document whose mark is not quoted."""
        parts: list[Part] = []
        plain: list[str] = []
        escapes = "$`\\" if in_document else '$`"\\'

        def flush() -> None:
            if plain:
                parts.append(Text("".join(plain), True))
                plain.clear()

        while True:
            if self.at >= len(self.text):
                if end:
                    raise NotAPlan("cannot be parsed")
                break
            char = self.text[self.at]
            if char == end:
                break
            if char == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                if following == "\n":
                    self.at += 2
                elif following and following in escapes:
                    plain.append(following)
                    self.at += 2
                else:
                    plain.append("\\")
                    self.at += 1
            elif char in "$`":
                flush()
                parts += self.expansion(char, quoted=True)
            else:
                run = _UNMARKED.match(self.text, self.at)
                plain.append(run.group() if run else char)
                self.at += len(plain[-1])
        flush()
        return tuple(parts)

    # ---- expansions

    def substitution(self, quoted: bool) -> Part:
        start = self.at
        if self.ahead(3) == "$((":
            found = _ARITHMETIC.match(self.text, self.at)
            if found is None or found[1].count("(") != found[1].count(")"):
                raise NotAPlan("arithmetic expansion")
            self.at = found.end()
            return Arith(found[1], quoted)
        self.at += 2
        body, self.at = _inside(self.text, self.at, self)
        if self.ahead() != ")":
            raise NotAPlan("cannot be parsed")
        self.at += 1
        return Sub(body, self.text[start : self.at], quoted)

    def backticks(self, quoted: bool) -> Part:
        end = self.text.find("`", self.at + 1)
        inside = self.text[self.at + 1 : end]
        if end < 0 or "\\" in inside:
            raise NotAPlan("cannot be parsed" if end < 0 else "a backslash between backticks")
        body, read = _inside(inside, 0, self)
        if read < len(inside):
            raise NotAPlan("cannot be parsed")
        text = self.text[self.at : end + 1]
        self.at = end + 1
        return Sub(body, text, quoted)

    def braced(self, quoted: bool) -> Part:
        """`${…}` with the operators whose outcome can be known."""
        found = _BRACED.match(self.text, self.at)
        if found is None:
            raise NotAPlan("variable expansion of a form that plans do not have")
        length, name, op = found["length"], found["name"], found["op"] or ""
        self.at = found.end()
        if length or found["keys"]:
            if op or self.ahead() != "}" or (length and found["keys"]):
                raise NotAPlan("variable expansion of a form that plans do not have")
            self.at += 1
            return Param(name, "length" if length else "keys", quoted=quoted)
        argument: Word = ()
        second: Word = ()
        if op:
            argument = self.inside_braces(quoted, "/}" if op in ("/", "//") else "}")
            if self.ahead() == "/":
                self.at += 1
                second = self.inside_braces(quoted, "}")
        if self.ahead() != "}":
            raise NotAPlan("variable expansion of a form that plans do not have")
        self.at += 1
        return Param(name, op, argument, second, quoted)

    def inside_braces(self, quoted: bool, ends: str) -> Word:
        parts: list[Part] = []
        while self.at < len(self.text) and self.text[self.at] not in ends:
            char = self.text[self.at]
            if char in "'\"" and quoted:
                raise NotAPlan("quotes inside of ${…} inside of quotes")
            if char == "'":
                parts.append(Text(self.single_quoted(), True))
            elif char == '"':
                self.at += 1
                parts += self.until('"') or (Text("", True),)
                self.at += 1
            elif char in "$`":
                parts += self.expansion(char, quoted=quoted)
            elif char in "\\\n{":
                raise NotAPlan("variable expansion of a form that plans do not have")
            else:
                parts.append(Text(char))
                self.at += 1
        return tuple(parts)


def _inside(text: str, at: int, outer: Lexer) -> tuple[Script, int]:
    """The commands of a substitution, and where they end."""
    from adderclaw.policy.legacy.shell.reader import Reader  # the two read each other's text

    inner = Reader(text, outer.depth + 1)
    inner.at, inner.documented = at, outer.documented
    body = inner.script(frozenset())
    inner.blanks()
    outer.documented = inner.documented
    if inner.documents or not body.pipelines:
        raise NotAPlan("cannot be parsed")
    return body, inner.at


NUMBERED = r"\$\{#?[A-Za-z_]\w*(?:\[[@*]\])?\}|10#(?=\$)"
"""`${x}`, `${#x}`, `${#a[@]}` and `10#` where numbers are counted with."""
_ARITHMETIC = re.compile(rf"\$\(\(((?:[\w\s+*/%()<>=!&|?:$^~,-]|{NUMBERED})*?)\)\)", re.ASCII)
_BRACED = re.compile(
    r"\$\{(?P<length>#(?=[A-Za-z_\d@*]))?(?P<keys>!(?=[A-Za-z_]\w*\[[@*]\]\}))?"
    r"(?P<name>PIPESTATUS\[\d\]|[A-Za-z_]\w*(?:\[(?:[@*]|-?\d{1,4}|\$?[A-Za-z_]\w*)\])?|\d{1,2}|[?$!@*])"
    r"(?P<op>:-|:\+|-|\+|##|#|%%|%|//|/|\^\^|,,|\^|,|:(?=[\d ]))?",
    re.ASCII,
)
