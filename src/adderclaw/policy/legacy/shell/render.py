"""A plan as text: the one that bash gets, every word quoted, and the one that people read."""

from collections.abc import Callable, Iterable

from adderclaw.policy.legacy.programs.allowlist import those
from adderclaw.policy.legacy.shell.plan import (
    Array,
    Assign,
    Block,
    Call,
    Choice,
    Command,
    Count,
    Glob,
    If,
    Internal,
    Live,
    Loop,
    Match,
    Output,
    Plan,
    Redirect,
    Script,
    Simple,
    Unknown,
    Variable,
    commands,
    live_words,
)
from adderclaw.policy.legacy.shell.quoting import quote, quote_if_needed, quote_to_read

PATTERN = "ADDERCLAW_PATTERN"
FUNCTION = "ADDERCLAW_FUNCTION_"
WORD = "ADDERCLAW_WORD"
REFUSED = "adderclaw-refused"
"""What a program gets in the place of a word that is not what it was taken for."""
GUARDS = {"processes": "[01]|[01][[:space:]]*|*[[:space:]][01]|*[[:space:]][01][[:space:]]*|*[!0-9[:space:]]*"}
"""Patterns of what a word may not be: numbers of processes are that, and never of all or of the first."""


def render(plan: Plan) -> str:
    """The text that bash gets: every word quoted, programs by absolute path, builtins by name."""
    text = "".join(map(_defined, _calls(plan.body))) + RUN.script(plan.body)
    # What globs match was looked up before it was judged; bash itself looks nothing up.
    return f"set -f ; {text}" if _splits(plan.body) else text


def _calls(script: Script) -> Iterable[Call]:
    return (command for command in commands(script) if isinstance(command, Call))


def _defined(call: Call) -> str:
    """A function for one call alone: bash itself does `set -e` as it does in a function."""
    return f"{FUNCTION}{call.number}() {{ {RUN.closed(call.body)} }} ; "


def _splits(script: Script) -> bool:
    return any(word.parts and not word.is_glob for command in commands(script) for word in live_words(command))


def mixes(script: Script) -> bool:
    """Whether bash would have to look names up for one word, and must not for another."""
    return _splits(script) and any(w.is_glob for command in commands(script) for w in live_words(command))


def shown(script: Script) -> str:
    """The text that people read: what runs, with programs by their names and quotes only where they matter."""
    return SHOW.script(script)


def canonical_text(simple: Simple) -> str:
    """A simple command in one spelling, whatever quoting it was written with."""
    return " ".join(map(quote_if_needed, simple.words))


class Writer:
    def __init__(self, quoting: Callable[[str], str], *, paths: bool) -> None:
        self.quoting, self.paths = quoting, paths

    def script(self, script: Script) -> str:
        out: list[str] = []
        for step in script.steps:
            if step.after == ";" and not self.paths:
                out[-1] += ";"
            elif step.after:
                out.append(step.after)
            out += ["time"] if step.timed else []
            out += ["!"] if step.negated else []
            for joint, command in zip(("", *step.joints), step.commands, strict=True):
                out += [joint] if joint else []
                out.append(self.command(command))
        out += [script.tail] if script.tail else []
        return " ".join(out)

    def command(self, command: Command) -> str:
        match command:
            case Simple():
                return self.simple(command)
            case Internal():
                words = (command.words[0], *map(self.word, command.words[1:]))
                return self.joined((*self.env(command.env), *words), command.redirects)
            case Assign():
                return f"{'export ' if command.export else ''}{command.name}={self.word(command.value)}"
            case Array():
                words = " ".join(map(self.word, command.words))
                return f"{command.name}{'+' if command.appends else ''}=({words})"
            case Call():
                return self.call(command)
            case Block():
                if command.opener == "(":
                    return self.joined(("(", self.script(command.body), ")"), command.redirects)
                return self.joined(("{", self.closed(command.body), "}"), command.redirects)
            case If():
                return self.conditional(command)
            case Loop():
                return self.loop(command)
            case Choice():
                return self.choice(command)
            case Match():
                return self.match(command)

    def closed(self, script: Script) -> str:
        """A script followed by what bash wants before a closing word."""
        text = self.script(script)
        return text if script.tail else f"{text};" if not self.paths else f"{text} ;"

    def joined(self, words: Iterable[str], redirects: tuple[Redirect, ...]) -> str:
        return " ".join((*words, *map(self.redirect, redirects)))

    def simple(self, simple: Simple) -> str:
        if simple.only_in:
            here = " || ".join(f"[ . -ef {self.quoting(folder)} ]" for folder in simple.only_in)
            # An `if`, since `set -e` passes over what fails before a `&&`.
            return f"if {here} ; then {self.simple(simple._replace(only_in=()))} ; else false ; fi"
        first = simple.words[0]
        if self.paths:
            first = simple.program if simple.program in those("builtin") else quote(simple.program or first)
        else:
            first = self.quoting(first)
        return self.joined((*self.env(simple.env), first, *map(self.word, simple.words[1:])), simple.redirects)

    def call(self, call: Call) -> str:
        if self.paths:
            return self.joined((f"{FUNCTION}{call.number}", *map(self.word, call.words)), call.redirects)
        # People see what this call runs, where it runs.
        words = " ".join((call.name, *map(self.word, call.words)))
        return self.joined((f"{{ {call.name}() {{ {self.closed(call.body)} }}; {words}; }}",), call.redirects)

    def env(self, env: tuple[tuple[str, str], ...]) -> Iterable[str]:
        return (f"{name}={self.word(value)}" for name, value in env)

    def redirect(self, redirect: Redirect) -> str:
        target = redirect.target if redirect.is_copy else self.word(redirect.target)
        # `<<(` would begin a here-document.
        return f"{redirect.fd}{redirect.operator}{' ' if redirect.is_piped else ''}{target}"

    def conditional(self, command: If) -> str:
        out: list[str] = []
        for index, (condition, body) in enumerate(command.branches):
            out += ["elif" if index else "if", self.closed(condition), "then", self.closed(body)]
        if command.otherwise is not None:
            out += ["else", self.closed(command.otherwise)]
        return self.joined((*out, "fi"), command.redirects)

    def loop(self, command: Loop) -> str:
        if command.condition is None:
            head = " ".join(("for", command.name, "in", *map(self.word, command.words), ";"))
        else:
            head = f"{command.kind} {self.closed(command.condition)}"
        return self.joined((head, "do", self.closed(command.body), "done"), command.redirects)

    def choice(self, command: Choice) -> str:
        arms = (f"{' | '.join(patterns)}) {self.script(body)} ;;" for patterns, body in command.arms)
        return self.joined(("case", self.word(command.word), "in", *arms, "esac"), command.redirects)

    def match(self, command: Match) -> str:
        value = self.word(command.value)
        if not self.paths:
            return f"[[ {value} =~ {command.expression} ]]"
        # What a variable holds, bash hands on as it is: nothing of it is read by the shell.
        return f"{{ {PATTERN}={self.quoting(command.expression)} ; [[ {value} =~ ${PATTERN} ]] ; }}"

    # ---- words

    def word(self, word: str) -> str:
        if not isinstance(word, Live):
            return self.quoting(word)
        text = "".join(map(self.piece, word.pieces))
        return self.guarded(word) if word.guard and self.paths else text

    def guarded(self, word: Live) -> str:
        """A word that is looked at before a program gets it; outside of quotes one that is empty is none."""
        value = "".join(self.piece(p if isinstance(p, str) else p._replace(quoted=True)) for p in word.pieces)
        refused = GUARDS[word.guard]
        made = f'$( {WORD}={value} ; case ${WORD} in {refused}) printf %s {REFUSED} ;; *) printf %s "${WORD}" ;; esac )'
        return made if word.parts else f'"{made}"'

    def piece(self, piece: str | Unknown) -> str:
        if isinstance(piece, str):
            return self.quoting(piece) if piece else ""
        if isinstance(piece, Glob):
            return "".join(text if active else self.quoting(text) for text, active in piece.parts)
        if isinstance(piece, Count):
            return f"$(( {piece.text} ))"
        if isinstance(piece, Output) and piece.file:
            return f"<( {self.script(piece.body)} )"
        text = f"${{{piece.name}}}" if isinstance(piece, Variable) else f"$( {self.script(piece.body)} )"
        return f'"{text}"' if piece.quoted else text


RUN = Writer(quote, paths=True)
SHOW = Writer(quote_to_read, paths=False)
