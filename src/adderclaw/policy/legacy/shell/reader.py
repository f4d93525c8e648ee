"""The part of bash's grammar that plans are made of: text into commands whose words are not yet expanded.

Every character is read by a rule of this file or of `lexer`. What no rule takes makes the text raw, with the reason;
so nothing that bash would see can be passed over.
"""

import re
from collections.abc import Callable

from adderclaw.policy.legacy.shell.conditions import Conditions
from adderclaw.policy.legacy.shell.lexer import META, NAME, NUMBERED
from adderclaw.policy.legacy.shell.loose import RESERVED
from adderclaw.policy.legacy.shell.syntax import (
    MAX_CHARACTERS,
    Arith,
    Array,
    Case,
    Command,
    For,
    Function,
    Group,
    If,
    Match,
    Node,
    NotAPlan,
    Param,
    Pipeline,
    Redir,
    Script,
    Text,
    While,
    Word,
)

_REDIRECTS = frozenset({"<", ">", ">>", ">|", "&>", "&>>", ">&", "<<<", "<<", "<<-"})
_ASSIGNS = re.compile(r"([A-Za-z_]\w*)(\+?)=", re.ASCII)
_OPENERS = frozenset({"if", "while", "until", "for", "case", "{", "[["})
_UNSUPPORTED = {"function": "function definition", "select": "select", "coproc": "coprocess"}
_DEFINES = re.compile(
    r"(?:function[ \t]+([A-Za-z_][\w-]*)(?:[ \t]*\([ \t]*\)|(?=[\s]))|([A-Za-z_][\w-]*)[ \t]*\([ \t]*\))", re.ASCII
)
_FILLS = re.compile(r"([A-Za-z_]\w*)(\+?)=\(", re.ASCII)


def read(text: str) -> Script:
    """The commands of a text; raises NotAPlan at the first thing that plans do not have."""
    return Reader(text).whole()


class Reader(Conditions):
    """Commands; what they are made of, the lexer reads."""

    def whole(self) -> Script:
        script = self.script(frozenset())
        if self.at < len(self.text) or self.documents:
            raise NotAPlan("cannot be parsed")
        self.check_length()
        if not script.pipelines:
            raise NotAPlan("empty")
        return script

    def check_length(self) -> None:
        if self.at - self.documented > MAX_CHARACTERS:
            raise NotAPlan(f"longer than {MAX_CHARACTERS:,} characters, here-documents not counted")

    # ---- lists and pipelines

    def script(self, closers: frozenset[str]) -> Script:
        """Commands up to a closing word, a closing parenthesis, `;;` or the end."""
        self.deeper()
        found: list[Pipeline] = []
        after, needs = "", False
        while True:
            self.newlines()
            if self.ends(closers):
                break
            found.append(self.pipeline(after))
            self.blanks()
            after = self.operator()
            needs = after in ("&&", "||")
            if after in ("&&", "||", ";", "&"):
                self.at += len(after)
            elif after == "\n":
                after = ";"
            else:
                after = ""
                break
        if needs or (found and not self.ends(closers)):
            raise NotAPlan("cannot be parsed")
        self.depth -= 1
        return Script(tuple(found), "&" if after == "&" else "")

    def ends(self, closers: frozenset[str]) -> bool:
        self.blanks()
        if self.at >= len(self.text) or self.operator() in (")", ";;", ";&", ";;&"):
            return True
        return self.reserved() in closers

    def pipeline(self, after: str) -> Pipeline:
        negated = timed = False
        while (word := self.reserved()) in ("!", "time"):
            if (word == "!" and negated) or (word == "time" and (timed or negated)):
                raise NotAPlan(f"reserved word {word}")
            self.at += len(word)
            negated, timed = negated or word == "!", timed or word == "time"
            self.blanks()
            if word == "time" and self.reserved() == "-p":
                raise NotAPlan("time with an option")
        commands, joints = [self.command()], list[str]()
        while True:
            self.blanks()
            joint = self.operator()
            if joint not in ("|", "|&"):
                return Pipeline(after, negated, timed, tuple(commands), tuple(joints))
            self.at += len(joint)
            self.newlines()
            joints.append(joint)
            commands.append(self.command())

    def command(self) -> Node:
        self.deeper()
        self.blanks()
        self.check_length()
        word = self.reserved()
        if self.operator() == "(":
            made: Node = self.subshell()
        elif word in _OPENERS:
            made = _COMPOUND[word](self)
        else:
            made = self.defined() or self.filled() or self.simple()
        if not isinstance(made, Command | Function):
            made = self.with_redirects(made)
        self.depth -= 1
        return made

    def with_redirects(self, node: Group | If | While | For | Case | Match | Array) -> Node:
        redirects: list[Redir] = []
        while self.redirect_here(redirects):
            pass
        self.blanks()
        if self.at < len(self.text) and not self.operator():
            raise NotAPlan("cannot be parsed")
        # The list itself, since here-documents are filled in at the end of the line.
        return node._replace(redirects=redirects)

    def defined(self) -> Function | None:
        """`name() { …; }`, `function name { …; }`: bash takes any compound command there, and plans a group."""
        found = _DEFINES.match(self.text, self.at)
        name = (found[1] or found[2]) if found else ""
        if found is None or name in RESERVED:
            return None
        self.at = found.end()
        self.newlines()
        if self.reserved() != "{" and (self.ahead() != "(" or self.ahead(2) == "(("):
            raise NotAPlan("function definition without braces or parentheses")
        return Function(name, self.command())

    def filled(self) -> Array | None:
        """`name=(…)`, alone."""
        found = _FILLS.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        words: list[Word] = []
        while True:
            self.newlines()
            if self.ahead() == ")":
                break
            if self.at >= len(self.text) or self.operator() or re.match(r"\[.*\]=", self.text[self.at :]):
                raise NotAPlan("assignment to an array of a form that plans do not have")
            words.append(self.word())
        self.close(")")
        if self.at < len(self.text) and self.ahead() not in META:
            raise NotAPlan("cannot be parsed")
        self.blanks()
        if self.at < len(self.text) and (not self.operator() or self.operator() in _REDIRECTS):
            raise NotAPlan("assignment to an array and more in one command")
        return Array(found[1], tuple(words), bool(found[2]))

    # ---- compound commands

    def subshell(self) -> Group:
        if self.ahead(2) == "((":
            return self.arithmetic()
        self.at += 1
        body = self.script(frozenset())
        self.close(")")
        return Group("(", _some(body))

    def arithmetic(self) -> Group:
        """`((…))`, a condition."""
        found = re.compile(rf"\(\(((?:[\w\s+*/%<>=!&|$-]|{NUMBERED})*)\)\)", re.ASCII).match(self.text, self.at)
        if found is None:
            raise NotAPlan("arithmetic command")
        self.at = found.end()
        return Group("{", Script((_counts(found[1].strip()),)))

    def group(self) -> Group:
        self.at += 1
        body = self.script(frozenset({"}"}))
        self.expect("}")
        return Group("{", _some(body))

    def conditional(self) -> If:
        branches: list[tuple[Script, Script]] = []
        otherwise = None
        word = "if"
        while word in ("if", "elif"):
            self.at += len(word)
            condition = self.script(frozenset({"then"}))
            self.expect("then")
            branches.append((_some(condition), _some(self.script(frozenset({"elif", "else", "fi"})))))
            word = self.reserved()
        if word == "else":
            self.at += len(word)
            otherwise = _some(self.script(frozenset({"fi"})))
        self.expect("fi")
        return If(tuple(branches), otherwise)

    def loop(self) -> While:
        kind = self.reserved()
        self.at += len(kind)
        condition = self.script(frozenset({"do"}))
        return While(kind, _some(condition), self.body())

    def body(self) -> Script:
        self.expect("do")
        body = self.script(frozenset({"done"}))
        self.expect("done")
        return _some(body)

    def each(self) -> For:
        self.at += 3
        self.blanks()
        name = NAME.match(self.text, self.at)
        if name is None:
            raise NotAPlan("a for loop over numbers" if self.ahead() == "(" else "cannot be parsed")
        self.at = name.end()
        self.newlines()
        if self.reserved() != "in":
            raise NotAPlan("a for loop over the arguments")
        self.at += 2
        words: list[Word] = []
        while True:
            self.blanks()
            if self.operator() in ("\n", ";"):
                break
            if self.operator() or self.at >= len(self.text):
                raise NotAPlan("cannot be parsed")
            words.append(self.word())
        if self.ahead() == ";":
            self.at += 1
        return For(name.group(), tuple(words), self.body())

    def cases(self) -> Case:
        self.at += 4
        self.blanks()
        word = self.word()
        self.newlines()
        self.expect("in")
        arms: list[tuple[tuple[Word, ...], Script]] = []
        self.newlines()
        while self.reserved() != "esac":
            arms.append(self.arm())
            self.newlines()
        self.at += 4
        return Case(word, tuple(arms))

    def arm(self) -> tuple[tuple[Word, ...], Script]:
        if self.ahead() == "(":
            self.at += 1
        patterns: list[Word] = []
        while True:
            self.blanks()
            patterns.append(self.word())
            self.blanks()
            if self.ahead() == "|":
                self.at += 1
                continue
            self.close(")")
            break
        body = self.script(frozenset({"esac"}))
        self.newlines()
        if self.operator() in (";&", ";;&"):
            raise NotAPlan("a case that falls through")
        if self.operator() == ";;":
            self.at += 2
        elif self.reserved() != "esac":
            raise NotAPlan("cannot be parsed")
        return tuple(patterns), body

    # ---- simple commands

    def simple(self) -> Command:
        start = self.at
        word = self.reserved()
        if word in _UNSUPPORTED:
            raise NotAPlan(_UNSUPPORTED[word])
        if word in RESERVED:
            raise NotAPlan(f"reserved word {word}")
        assigns: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirects: list[Redir] = []
        end = start
        while True:
            self.blanks()
            if not self.redirect_here(redirects):
                if self.ahead(2) == "<(" and words:
                    if self.at == end:
                        raise NotAPlan("process substitution as part of a word")
                    words.append(self.file())
                    end = self.at
                    continue
                if self.at >= len(self.text) or self.operator():
                    break
                self.argument(assigns, words)
            end = self.at
        if self.operator() == "(":
            raise NotAPlan("function definition" if len(words) == 1 else "cannot be parsed")
        if not words and not assigns:
            raise NotAPlan("redirect without a command" if redirects else "cannot be parsed")
        return Command(tuple(assigns), tuple(words), redirects, self.text[start:end])

    def argument(self, assigns: list[tuple[str, Word]], words: list[Word]) -> None:
        if not words:
            found = _ASSIGNS.match(self.text, self.at)
            if found is not None:
                assigns.append(self.assignment(found))
                return
            if re.compile(r"[A-Za-z_]\w*\[", re.ASCII).match(self.text, self.at):
                raise NotAPlan("assignment to an array")
        word = self.word()
        if self.ahead() in ("<", ">") and isinstance(word[0], Text) and re.match(r"\{\w+\}$", word[0].text):
            raise NotAPlan("redirect of a further descriptor")
        words.append(word)

    def assignment(self, found: re.Match[str]) -> tuple[str, Word]:
        self.at = found.end()
        if self.ahead() == "(":
            raise NotAPlan("assignment to an array and more in one command")
        empty = self.at >= len(self.text) or self.ahead() in META or self.ahead(2) == "\\\n"
        word = () if empty else self.word()
        if found[2]:
            if word and isinstance(word[0], Text) and not word[0].quoted and word[0].text.startswith("~"):
                raise NotAPlan("tilde expansion inside of a word")
            word = (Param(found[1], quoted=True), *word)
        return found[1], word

    # ---- redirects

    def redirect_here(self, redirects: list[Redir]) -> bool:
        self.blanks()
        start = self.at
        found = re.compile(r"\d+(?=[<>])").match(self.text, self.at)
        fd = found.group() if found else ""
        self.at += len(fd)
        operator = self.operator()
        if operator not in _REDIRECTS:
            self.at = start
            if operator in ("<&", "<>") or fd:
                raise NotAPlan(f"redirect {fd}{operator}")
            return False
        if fd not in ("", "0", "1", "2") or (fd and operator.startswith("&")):
            raise NotAPlan("redirect of a further descriptor")
        if self.text[self.at + len(operator) : self.at + len(operator) + 1] == "(" and operator in ("<", ">"):
            if operator == "<" and not fd:
                return False
            raise NotAPlan("process substitution that writes")
        self.at += len(operator)
        self.blanks()
        if self.ahead(2) == "<(" and operator == "<" and fd in ("", "0"):
            redirects.append(Redir("", operator, self.file()))
            return True
        if self.at >= len(self.text) or self.ahead() in META:
            raise NotAPlan("process substitution" if self.ahead(2) in ("<(", ">(") else "cannot be parsed")
        if operator in ("<<", "<<-"):
            self.here_document(redirects, fd, strips=operator == "<<-")
            return True
        target = self.word()
        if self.ahead() in ("<", ">") and isinstance(target[0], Text) and re.fullmatch(r"\d+|\{\w+\}", target[0].text):
            raise NotAPlan("redirect of a further descriptor")
        if operator == ">&":
            copied = target[0].text if len(target) == 1 and isinstance(target[0], Text) else ""
            if copied not in ("1", "2"):
                raise NotAPlan("redirect >& to something that is not 1 or 2")
        redirects.append(Redir(fd, operator, target))
        return True

    def here_document(self, redirects: list[Redir], fd: str, *, strips: bool) -> None:
        start = self.at
        word = self.word()
        if not all(isinstance(part, Text) for part in word) or "\n" in self.text[start : self.at]:
            raise NotAPlan("a here-document whose mark is not plain")
        mark = "".join(part.text for part in word if isinstance(part, Text))
        quoted = any(isinstance(part, Text) and part.quoted for part in word)
        if fd not in ("", "0") or not mark:
            raise NotAPlan("a here-document for a further descriptor")
        place = len(redirects)
        redirects.append(Redir("", "<<<", (), document=True))

        def give(body: Word) -> None:
            redirects[place] = Redir("", "<<<", body, document=True)

        self.documents.append((mark, strips, quoted, give))


def _counts(text: str) -> Pipeline:
    """Whether an expression is not zero."""
    words = ((Text("["),), (Arith(text, True),), (Text("-ne"),), (Text("0"),), (Text("]"),))
    return Pipeline("", False, False, (Command((), words, (), f"(({text}))"),), ())


_COMPOUND: dict[str, Callable[[Reader], Node]] = {
    "if": Reader.conditional,
    "while": Reader.loop,
    "until": Reader.loop,
    "for": Reader.each,
    "case": Reader.cases,
    "{": Reader.group,
    "[[": Reader.double_brackets,
}


def _some(script: Script) -> Script:
    if not script.pipelines:
        raise NotAPlan("cannot be parsed")
    return script
