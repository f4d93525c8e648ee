"""Which assertions a shell test always reaches, and what each of them examines."""

from collections.abc import Iterator

from adderclaw.policy.legacy.shell import syntax
from adderclaw.policy.legacy.shell.syntax import Arith, Command, Group, If, Param, Pipeline, Script, Sub, Text, Word

EXISTENCE = frozenset({"-e", "-f", "-d", "-L", "-h", "-s", "-a", "-r", "-w"})
COMPARES = frozenset({"grep", "egrep", "fgrep", "rg", "diff", "cmp", "jq", "sha256sum", "md5sum"})
ANYTHING = frozenset({"", ".", ".*", "^", "$"})
SILENT = frozenset({"true", ":", "echo", "printf", "exit", "return", "set", "export", "cd", "mkdir", "touch", "local"})


def plain(word: Word) -> str | None:
    """The text of a word; None if something in it is expanded."""
    if all(isinstance(part, Text) for part in word):
        return "".join(part.text for part in word if isinstance(part, Text))
    return None


def words_of(node: Command) -> list[str | None]:
    return [plain(word) for word in node.words]


class Assertions:
    """The assertions that a test reaches whenever it runs to its end."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._functions: dict[str, Script] = {}
        self._statuses: set[str] = set()
        """Variables that hold `$?`."""
        self._strict = False
        """`set -e` is on."""

    def kinds(self) -> set[str]:
        return {kind for kind in self._in(self._script, set(), last=True) if kind}

    def _in(self, script: Script, called: set[str], *, last: bool = False) -> Iterator[str]:
        lists = _lists(script)
        for number, items in enumerate(lists):
            if script.tail and number == len(lists) - 1:
                continue  # nothing waits for a background command
            yield from self._list(items, called, last=last and number == len(lists) - 1)

    def _list(self, items: list[Pipeline], called: set[str], *, last: bool) -> Iterator[str]:
        ending = items[-1]
        if len(items) > 1 and ending.after == "||" and self._fails(ending.commands[-1]):
            yield from (self._kind(part) for part in items[:-1])
            return
        only = items[0].commands[0] if len(items) == 1 and len(items[0].commands) == 1 else None
        if only is not None and not isinstance(only, Command):
            yield from self._compound(only, called, last=last)
            return
        if isinstance(only, Command):
            self._note(only)
            name = (words_of(only) or [None])[0]
            if name in self._functions and name not in called:
                yield from self._in(self._functions[name], called | {name}, last=last)
        if last or (self._strict and not ending.negated):
            yield self._kind(ending)

    def _compound(self, node: syntax.Node, called: set[str], *, last: bool) -> Iterator[str]:
        match node:
            case syntax.Function():
                self._functions[node.name] = _body(node.body)
            case If():
                conditions, bodies = zip(*node.branches, strict=True)
                ways = (*bodies, *((node.otherwise,) if node.otherwise is not None else ()))
                if any(self._fails_in(body) for body in ways):
                    yield from (self._kind(part) for part in conditions[0].pipelines)
            case syntax.Case():
                if _varies(node.word) and any(self._fails_in(body) for _, body in node.arms):
                    yield "strong"
            case syntax.Match() if last or self._strict:
                yield "strong"
            case Group() if node.opener == "{":
                yield from self._in(node.body, called, last=last)
            case syntax.For() if any(plain(word) for word in node.words):
                yield from self._in(node.body, called, last=last)
            case syntax.While(kind="while") if any(part.document for part in node.redirects):
                yield from self._in(node.body, called)
            case _:
                pass

    def _note(self, node: Command) -> None:
        for name, value in node.assigns:
            is_status = len(value) == 1 and isinstance(value[0], Param) and value[0].name == "?"
            (self._statuses.add if is_status else self._statuses.discard)(name)
        words = words_of(node)
        if words[:1] == ["set"]:
            self._strict |= any(word and word.startswith("-") and "e" in word.lstrip("-") for word in words[1:])

    # -------------------------------------------------------------- ways to fail

    def _fails(self, node: syntax.Node) -> bool:
        """Whether a command makes the test fail. In a subshell it would only end the subshell."""
        if isinstance(node, Command):
            words = words_of(node)
            if words[:1] == ["exit"]:
                return len(words) > 1 and words[1] is not None and words[1].isdecimal() and int(words[1]) % 256 != 0
            return bool(words) and words[0] in self._functions and self._fails_in(self._functions[words[0]])
        return isinstance(node, Group) and node.opener == "{" and self._fails_in(node.body)

    def _fails_in(self, script: Script) -> bool:
        return any(
            self._fails(command) for line in script.pipelines for command in line.commands if len(line.commands) == 1
        )

    # -------------------------------------------------------------- what is examined

    def _kind(self, pipeline: Pipeline) -> str:
        node = pipeline.commands[-1]
        if isinstance(node, Group):
            kinds = [self._kind(inner) for inner in node.body.pipelines]
            return next((kind for kind in ("strong", "exit", "exists") if kind in kinds), "")
        if isinstance(node, syntax.Match):
            return "strong"
        if isinstance(node, syntax.Case):
            return "strong" if _varies(node.word) else ""
        if not isinstance(node, Command) or not node.words:
            return "exit" if isinstance(node, Command) and any(_varies(value) for _, value in node.assigns) else ""
        words = words_of(node)
        name = words[0]
        if name in ("test", "[", "[["):
            return self._tested(node)
        if name in COMPARES:
            return _compared(words, piped=len(pipeline.commands) > 1 or _is_fed(node))
        return "" if name in SILENT else "exit"

    def _tested(self, node: Command) -> str:
        words = words_of(node)
        operands = node.words[1:-1] if words[0] == "[" else node.words[1:]  # the reader leaves `]]` out
        plainly = [plain(word) for word in operands]
        if plainly[:1] == ["!"]:
            operands, plainly = operands[1:], plainly[1:]
        if plainly and plainly[0] in EXISTENCE and len(plainly) == 2:
            return "exists"
        if not any(_varies(word) for word in operands):
            return ""
        status = any(self._is_status(word) for word in operands)
        sure = len(plainly) == 3 and plainly[1] in ("-eq", "=", "==") and "0" not in plainly
        if status and not sure:
            return "exit"
        return "" if len(operands) == 3 and operands[0] == operands[2] else "strong"

    def _is_status(self, word: Word) -> bool:
        return any(isinstance(part, Param) and (part.name == "?" or part.name in self._statuses) for part in word)


def _lists(script: Script) -> list[list[Pipeline]]:
    """Pipelines joined by `&&` and `||`, without those in the background, which assert nothing."""
    lists: list[list[Pipeline]] = []
    for line in script.pipelines:
        if line.after in ("&&", "||") and lists:
            lists[-1].append(line)
        else:
            if line.after == "&" and lists:
                lists.pop()
            lists.append([line])
    return lists


def _body(node: syntax.Node) -> Script:
    if isinstance(node, Group):
        return node.body
    return Script((Pipeline("", negated=False, timed=False, commands=(node,), joints=()),))


def _varies(word: Word) -> bool:
    return any(isinstance(part, Param | Sub | Arith) for part in word)


def _is_fed(node: Command) -> bool:
    return any(redirect.operator in ("<", "<<<") for redirect in node.redirects)


def _compared(words: list[str | None], *, piped: bool) -> str:
    """The kind of a comparison. A pattern that matches everything only shows that something exists."""
    operands = [word for word in words[1:] if word is None or not word.startswith("-") or word == "-"]
    if words[0] in ("grep", "egrep", "fgrep", "rg") and operands[:1] and operands[0] in ANYTHING:
        return "exists"
    return "strong" if piped or len(operands) > 1 or words[0] in ("sha256sum", "md5sum", "jq") else ""
