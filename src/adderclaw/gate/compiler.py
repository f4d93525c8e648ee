"""Commands into a plan: every branch is followed, with every state that the shell may be in when it gets there."""

import os
import re
from collections.abc import Callable, Iterable, Sequence

from adderclaw.gate import data, environment, syntax
from adderclaw.gate.allowlist import names
from adderclaw.gate.builtins import check_builtin, is_job, is_plain_path, test_words
from adderclaw.gate.effects import ANYTHING, changes, may_match, written
from adderclaw.gate.plan import (
    Assign,
    Block,
    Choice,
    Command,
    If,
    Internal,
    Live,
    Loop,
    Redirect,
    Script,
    Simple,
    Step,
)
from adderclaw.gate.render import BUILTINS
from adderclaw.gate.states import MAX_FOLDERS, UNSURE, Flow, State, all_of, bounded, merged
from adderclaw.gate.syntax import NotAPlan, Param, Sub, Text, Word
from adderclaw.gate.words import UNKNOWN, Component, Expander, Facts

type Resolve = Callable[[str], str | None]

MAX_COMMANDS = 500
MAX_ROUNDS = 200
"""How often a `for` loop is written out."""
MAX_WORDS = 5_000

OTHER_BUILTINS = names(
    """alias bg bind break builtin caller compgen complete compopt continue declare dirs disown enable
    eval exec fc fg getopts hash help history let local logout mapfile popd pushd
    readarray readonly return shift shopt suspend times trap typeset ulimit umask unalias"""
)
SYSTEM_FOLDERS = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin"})
"""A program in one of these is the program of its name, whichever of them PATH names first."""
_SETTINGS = r"[-+][eux]*(?:o)?"


class Compiler:
    def __init__(self, resolve: Resolve, facts: Facts) -> None:
        self.resolve, self.facts = resolve, facts
        self.commands = self.words = 0
        self.leaks = False
        """Whether a substitution of the current command may have changed files."""
        self.environments: dict[str, frozenset[str]] = {}
        """The programs of each virtual environment that was activated."""
        self.left: list[State] = []
        """The states in which `break` and `continue` left a round."""
        exported = frozenset(facts.env) if facts.env is not None else frozenset[str]()
        self.start = State(exported=exported)

    # ---- lists and pipelines

    def script(self, script: syntax.Script, state: State) -> tuple[Script, Flow]:
        """The plan of some commands."""
        steps: list[Step] = []
        flow = Flow(state, None)
        before = state
        lists = [n for n, one in enumerate(script.pipelines) if one.after not in ("&&", "||")]
        for index, one in enumerate(script.pipelines):
            alone = index in lists and (index + 1 in lists or index + 1 == len(script.pipelines))
            if one.after in ("", ";", "&"):
                begun = flow.either if one.after != "&" else self.beside(before, flow)
                before = here = begun or before
            elif one.after == "&&":
                here = flow.success or before
            else:
                here = flow.failure or before
            guarded = here.guarded or not alone or one.negated
            step, after = self.pipeline(one, here._replace(guarded=guarded))
            after = Flow(*(s._replace(guarded=here.guarded) if s is not None else None for s in after))
            if here.errexit and not guarded:
                after = Flow(after.success, None)
            flow = self.joined(one.after, flow, after)
            steps.append(step)
        if script.tail:
            flow = Flow(self.beside(before, flow), None)
        return Script(tuple(steps), script.tail), flow

    def joined(self, operator: str, before: Flow, after: Flow) -> Flow:
        if operator == "&&":
            return Flow(after.success, merged(before.failure, after.failure))
        if operator == "||":
            return Flow(merged(before.success, after.success), after.failure)
        return after

    def beside(self, before: State, flow: Flow) -> State:
        """The state after a list that runs in the background: only the files may have changed."""
        ended = flow.either or before
        return before._replace(changed=before.changed | ended.changed)

    def pipeline(self, one: syntax.Pipeline, state: State) -> tuple[Step, Flow]:
        if len(one.commands) == 1:
            command, flow = self.command(one.commands[0], state)
            made = (command,)
        else:
            found: list[Command] = []
            after = state
            for node in one.commands:
                # The parts run at the same time: what one before it changes, a glob may see or not.
                command, ended = self.command(node, after)
                found.append(command)
                changed = ended.either.changed if ended.either is not None else frozenset[str]()
                after = state._replace(changed=after.changed | changed)
            made = tuple(found)
            flow = Flow(after, after)
        if one.negated:
            flow = Flow(flow.failure, flow.success)
        return Step(one.after, one.negated, made, one.joints, one.timed), flow

    def command(self, node: syntax.Node, state: State) -> tuple[Command, Flow]:
        self.commands += 1
        if self.commands > MAX_COMMANDS:
            raise NotAPlan(f"more than {MAX_COMMANDS} commands")
        match node:
            case syntax.Command():
                return self.simple(node, state)
            case syntax.Group():
                return self.group(node, state)
            case syntax.If():
                return self.conditional(node, state)
            case syntax.While():
                return self.loop(node, state)
            case syntax.For():
                return self.each(node, state)
            case syntax.Case():
                return self.choice(node, state)

    # ---- compound commands

    def opened(self, node: syntax.Node, state: State) -> tuple[tuple[Redirect, ...], State]:
        """The redirects of a compound command, which bash opens before anything in it runs."""
        redirects = self.redirects(node.redirects, state)
        return redirects, state._replace(changed=state.changed | written(redirects, state.folders))

    def group(self, node: syntax.Group, state: State) -> tuple[Command, Flow]:
        redirects, inner = self.opened(node, state)
        body, flow = self.script(node.body, inner._replace(loops=0) if node.opener == "(" else inner)
        if node.opener == "(":
            ended = flow.either or inner
            after = state._replace(changed=ended.changed | inner.changed)
            flow = Flow(after, after)
        return Block(node.opener, body, redirects, state.folders), flow

    def conditional(self, node: syntax.If, state: State) -> tuple[Command, Flow]:
        redirects, here = self.opened(node, state)
        branches: list[tuple[Script, Script]] = []
        flows: list[Flow] = []
        for condition, body in node.branches:
            asked, answer = self.asked(condition, here)
            done, flow = self.script(body, answer.success or here)
            branches.append((asked, done))
            flows.append(flow)
            here = answer.failure or here
        otherwise = None
        if node.otherwise is not None:
            otherwise, flow = self.script(node.otherwise, here)
            flows.append(flow)
        else:
            flows.append(Flow(here, None))
        after = Flow(all_of(flow.success for flow in flows), all_of(flow.failure for flow in flows))
        return If(tuple(branches), otherwise, redirects, state.folders), after

    def asked(self, condition: syntax.Script, state: State) -> tuple[Script, Flow]:
        made, flow = self.script(condition, state._replace(guarded=True))
        return made, Flow(*(s._replace(guarded=state.guarded) if s is not None else None for s in flow))

    def loop(self, node: syntax.While, state: State) -> tuple[Command, Flow]:
        """A loop of bash's own: what its body sets is not known in it, and it may begin wherever it ended."""
        redirects, here = self.opened(node, state)
        here = self.blurred(here, (node.condition, node.body))
        for _ in range(MAX_FOLDERS):
            condition, answer = self.asked(node.condition, here)
            goes_on = answer.success if node.kind == "while" else answer.failure
            body, flow = self.script(node.body, goes_on or here)
            again = all_of((here, answer.either, flow.either, *self.gone())) or here
            if again == here:
                break
            here = again
        else:
            raise NotAPlan("a loop that goes from directory to directory")
        after = here._replace(loops=state.loops)
        return Loop(node.kind, condition, body, redirects, state.folders), Flow(after, after)

    def gone(self) -> list[State]:
        gone, self.left = self.left, []
        return gone

    def blurred(self, state: State, scripts: Iterable[syntax.Script]) -> State:
        variables = {**state.variables, **dict.fromkeys(_assigned(scripts), UNKNOWN)}
        # Whatever a round changes, the next one sees: a glob in a loop would have to be looked up again each time.
        return state._replace(
            variables=variables, changed=state.changed | ANYTHING, jobs=frozenset(), loops=state.loops + 1
        )

    def each(self, node: syntax.For, state: State) -> tuple[Command, Flow]:
        redirects, here = self.opened(node, state)
        words = [word for one in node.words for word in self.expander(here).fields(one)]
        self.set_own(node.name, "", here)
        if any(isinstance(word, Live) for word in words) or _needs_loop(node.body):
            return self.each_unknown(node, words, redirects, here)
        if len(words) > MAX_ROUNDS:
            raise NotAPlan(f"a loop of more than {MAX_ROUNDS} rounds")
        steps: list[Step] = []
        flow = Flow(here, None)
        for word in words:
            begun = (flow.either or here).with_variable(node.name, word)
            self.set_own(node.name, word, begun)
            body, flow = self.script(node.body, begun._replace(loops=0))
            flow = Flow(*(s._replace(loops=here.loops) if s is not None else None for s in flow))
            steps.append(Step(";" if steps else "", False, (Assign(node.name, word),)))
            steps += (step._replace(after=step.after or ";") for step in body.steps)
            if body.tail:
                steps.append(Step("&", False, (_TRUE,)))
        if not steps:
            steps.append(Step("", False, (_TRUE,)))
        return Block("{", Script(tuple(steps)), redirects, state.folders), flow

    def each_unknown(
        self, node: syntax.For, words: list[str], redirects: tuple[Redirect, ...], here: State
    ) -> tuple[Command, Flow]:
        """A loop over what is not known: one round stands for all."""
        begun = self.blurred(here, (node.body,)).with_variable(node.name, UNKNOWN)
        for _ in range(MAX_FOLDERS):
            body, flow = self.script(node.body, begun)
            again = all_of((begun, flow.either, *self.gone())) or begun
            if again == begun:
                break
            begun = again
        else:
            raise NotAPlan("a loop that goes from directory to directory")
        after = begun._replace(loops=here.loops)
        made = Loop("for", None, body, redirects, here.folders, node.name, tuple(words))
        return made, Flow(after, after)

    def choice(self, node: syntax.Case, state: State) -> tuple[Command, Flow]:
        redirects, here = self.opened(node, state)
        expander = self.expander(here)
        word = expander.one(node.word)
        arms: list[tuple[tuple[str, ...], Script]] = []
        flows: list[Flow] = [Flow(here, None)]
        for patterns, body in node.arms:
            texts = tuple(expander.pattern(pattern) for pattern in patterns)
            if body.pipelines:
                done, flow = self.script(body, here)
            else:
                done, flow = Script((Step("", False, (_TRUE,)),)), Flow(here, None)
            arms.append((texts, done))
            flows.append(flow)
        after = Flow(all_of(flow.success for flow in flows), all_of(flow.failure for flow in flows))
        return Choice(word, tuple(arms), redirects, state.folders), after

    # ---- simple commands

    def expander(self, state: State) -> Expander:
        def changed(folder: str, parts: tuple[Component, ...]) -> bool:
            return may_match(state.changed, folder, parts)

        return Expander(
            self.facts,
            state.folders,
            state.variables,
            lambda sub: self.output(sub, state),
            nounset=state.nounset,
            changed=changed,
        )

    def output(self, sub: Sub, state: State) -> str | Script:
        """What `$(…)` stands for: a text where that is certain, else its plan."""
        leaked = self.leaks
        body, flow = self.script(sub.body, state._replace(loops=0, errexit=False))
        text = self.printed(body, state)
        ended = flow.either
        self.leaks = leaked or (text is None and ended is not None and ended.changed != state.changed)
        return body if text is None else text.rstrip("\n")

    def printed(self, body: Script, state: State) -> str | None:
        """What the commonest commands print, worked out here."""
        step = body.steps[0]
        if len(body.steps) != 1 or len(step.commands) != 1 or step.negated or step.timed or body.tail:
            return None
        simple = step.commands[0]
        if not isinstance(simple, Simple) or simple.env or any(isinstance(word, Live) for word in simple.words):
            return None
        if simple.name == "cat" and len(simple.words) == 1 and len(simple.redirects) == 1:
            only = simple.redirects[0]
            return only.target if only.is_text and not isinstance(only.target, Live) else None
        if simple.redirects:
            return None
        match simple.words:
            case ("pwd",):
                return self.expander(state).here() if len(state.folders) == 1 and self.facts.cwd else None
            case ("echo", *rest) if not any(word.startswith("-") or "\\" in word for word in rest):
                return " ".join(rest)
            case ("basename", path, *suffix) if len(suffix) < 2 and is_plain_path(path):
                base = path.rsplit("/", 1)[-1]
                end = suffix[0] if suffix else ""
                return base.removesuffix(end) if end and base != end and not end.startswith("-") else base
            case ("dirname", path) if is_plain_path(path):
                return path.rsplit("/", 1)[0] if "/" in path else "."
            case _:
                return None

    def simple(self, node: syntax.Command, state: State) -> tuple[Command, Flow]:
        self.leaks = False
        expander = self.expander(state)
        declares = _is_word(node.words, "export")
        if declares:
            return self.export(node, state)
        if node.words and not _is_named_here(node.words[0], state):
            raise NotAPlan("a program that is not a literal word")
        words = tuple(word for one in node.words for word in expander.fields(one))
        self.words += len(words)
        if self.words > MAX_WORDS:
            raise NotAPlan(f"more than {MAX_WORDS:,} words")
        env = self.given(node, state)
        redirects = self.redirects(node.redirects, state)
        leaks = self.leaks
        if not words:
            made, flow = self.assign(env, redirects, state)
        else:
            made, flow = self.called(node, words, env, redirects, state)
        if leaks:
            flow = Flow(*(s._replace(changed=s.changed | ANYTHING) if s is not None else None for s in flow))
        return made, flow

    def given(self, node: syntax.Command, state: State) -> tuple[tuple[str, str], ...]:
        """The assignments of a command; each sees those before it."""
        found: list[tuple[str, str]] = []
        for name, word in node.assigns:
            value = self.expander(state).one(word, assigned=True)
            if found and any(isinstance(v, Live) for _, v in found):
                raise NotAPlan("several assignments of which one is not known")
            state = state.with_variable(name, UNKNOWN if isinstance(value, Live) else value)
            found.append((name, value))
        return tuple(found)

    def called(
        self,
        node: syntax.Command,
        words: tuple[str, ...],
        env: tuple[tuple[str, str], ...],
        redirects: tuple[Redirect, ...],
        state: State,
    ) -> tuple[Command, Flow]:
        first, bare = words[0], len(node.words[0]) == 1 and node.words[0][0] == Text(words[0])
        if isinstance(first, Live) or not first:
            raise NotAPlan("a program that is not a literal word" if first else "empty program name")
        if first == "[[" and bare:
            words = test_words(words)
            first = words[0]
        internal = _INTERNAL.get(first)
        if internal is not None:
            return internal(self, words, env, redirects, state)
        if first in OTHER_BUILTINS:
            raise NotAPlan(f"shell builtin {first}")
        for name, value in env:
            environment.check_given(name, value, known=not isinstance(value, Live))
        if first in BUILTINS:
            check_builtin(words, state.jobs)
            simple = Simple(words, first, redirects, first, node.text, env, state.folders)
        else:
            words = self.activated(words, state.programs)
            simple = self.external(words, redirects, node.text)._replace(env=env, folders=state.folders)
        data.check(simple)
        return simple, self.after(simple, state)

    def external(self, argv: tuple[str, ...], redirects: tuple[Redirect, ...], text: str) -> Simple:
        first = argv[0]
        if "/" not in first:
            return Simple(argv, self.resolve(first) or "", redirects, first, text)
        base = os.path.basename(first)
        in_system = os.path.dirname(first) in SYSTEM_FOLDERS and self.resolve(first) == first
        is_the_usual = in_system or (os.path.isabs(first) and bool(base) and self.resolve(base) == first)
        return Simple(argv, first, redirects, base if is_the_usual else first, text)

    def activated(self, words: tuple[str, ...], folder: str) -> tuple[str, ...]:
        """A program of the virtual environment that is active, by its path."""
        if folder == UNSURE:
            raise NotAPlan("a virtual environment that may be active or not")
        if "/" in words[0] or not folder or words[0] not in self.environments[folder]:
            return words
        return (f"{folder}/{words[0]}", *words[1:])

    def activate(
        self,
        words: tuple[str, ...],
        env: tuple[tuple[str, str], ...],
        redirects: tuple[Redirect, ...],
        state: State,
    ) -> tuple[Command, Flow]:
        """`source .venv/bin/activate`: nothing of it runs; from here on the programs of that folder come first."""
        given = re.fullmatch(r"((?:[\w./-]*/)?\.?v?env[\w.-]*/bin)/activate", words[1]) if len(words) == 2 else None
        if given is None or env or redirects or len(state.folders) != 1 or not self.facts.look or not self.facts.cwd:
            raise NotAPlan(f"shell builtin {words[0]}")
        parts = (*map(Component, given[1].split("/")), Component(r".*", True))
        found = self.facts.look(state.folders[0], parts) if not given[1].startswith("/") else None
        if not found or state.changed:
            raise NotAPlan(f"shell builtin {words[0]}")
        folder = os.path.normpath(os.path.join(self.facts.cwd, state.folders[0], given[1]))
        self.environments[folder] = frozenset(path.rsplit("/", 1)[-1] for path in found)
        return Internal((":", *words)), Flow(state._replace(programs=folder), None)

    def after(self, simple: Simple, state: State) -> Flow:
        if simple.name == "exit":
            return Flow(None, None)
        if simple.name == "cd":
            target = simple.words[1]
            entered = bounded(os.path.normpath(os.path.join(folder, target)) for folder in state.folders)
            moved = state._replace(folders=tuple("" if folder == "." else folder for folder in entered))
            return Flow(moved, state)
        after = state._replace(changed=state.changed | changes(simple, state.folders))
        if simple.name in ("true", ":", "false") and not simple.redirects:
            return Flow(after, None) if simple.name != "false" else Flow(None, after)
        return Flow(after, after)

    # ---- variables

    def set_own(self, name: str, value: str, state: State) -> None:
        environment.check_own(name)
        if name in state.exported:
            environment.check_exported(name, value, known=not isinstance(value, Live))

    def assign(
        self,
        env: tuple[tuple[str, str], ...],
        redirects: tuple[Redirect, ...],
        state: State,
    ) -> tuple[Command, Flow]:
        if redirects:
            raise NotAPlan("redirect without a command")
        steps: list[Step] = []
        for name, value in env:
            self.set_own(name, value, state)
            state = state.with_variable(name, UNKNOWN if isinstance(value, Live) else value)
            state = state._replace(jobs=state.jobs | {name}) if is_job(value, state.jobs) else state
            steps.append(Step(";" if steps else "", False, (Assign(name, value),)))
        may_fail = any(isinstance(value, Live) for _, value in env)
        flow = Flow(state, state if may_fail else None)
        if len(steps) == 1:
            return steps[0].commands[0], flow
        return Block("{", Script(tuple(steps)), (), state.folders), flow

    def export(self, node: syntax.Command, state: State) -> tuple[Command, Flow]:
        if node.assigns or node.redirects:
            raise NotAPlan("export with more than names and values")
        steps: list[Step] = []
        for word in node.words[1:]:
            name, value = _exported(word)
            expander = self.expander(state)
            given = state.variables.get(name, "") if value is None else expander.one(value, assigned=True)
            if isinstance(given, Live) or given is None:
                raise NotAPlan("export of a value that is not known")
            environment.check_exported(name, given, known=True)
            if value is None and name not in state.variables:
                continue
            state = state.with_variable(name, given)._replace(exported=state.exported | {name})
            steps.append(Step(";" if steps else "", False, (Assign(name, given, True),)))
        if not steps:
            raise NotAPlan("export without a value")
        if len(steps) == 1:
            return steps[0].commands[0], Flow(state, None)
        return Block("{", Script(tuple(steps)), (), state.folders), Flow(state, None)

    # ---- redirects

    def redirects(self, redirects: Sequence[syntax.Redir], state: State) -> tuple[Redirect, ...]:
        expander = self.expander(state)
        return tuple(self.redirect(one, expander) for one in redirects)

    def redirect(self, one: syntax.Redir, expander: Expander) -> Redirect:
        if one.operator == ">&":
            return Redirect(one.fd, ">&", expander.target(one.target))
        if one.operator != "<<<":
            return Redirect(one.fd, one.operator, expander.target(one.target))
        if one.fd not in ("", "0"):
            raise NotAPlan("redirect of a further descriptor")
        text = expander.one(one.target)
        if not one.document:
            return Redirect("", "<<<", text)
        # A here-string is its word and a newline: the same bytes as the lines of the here-document.
        if isinstance(text, Live):
            last = text.pieces[-1]
            if not isinstance(last, str) or not last.endswith("\n"):
                raise NotAPlan("a here-document that does not end in a line")
            return Redirect("", "<<<", Live(text[:-1], (*text.pieces[:-1], last[:-1])))
        return Redirect("", "<<<", text[:-1]) if text else Redirect("", "<", "/dev/null")

    # ---- what concerns the shell alone

    def set_options(
        self,
        words: tuple[str, ...],
        env: tuple[tuple[str, str], ...],
        redirects: tuple[Redirect, ...],
        state: State,
    ) -> tuple[Command, Flow]:
        rest = list(words[1:])
        if env or redirects or not rest:
            raise NotAPlan("shell builtin set")
        while rest:
            word = rest.pop(0)
            if isinstance(word, Live) or not re.fullmatch(_SETTINGS, word):
                raise NotAPlan(f"shell builtin set {word}")
            if word.endswith("o"):
                option = rest.pop(0) if rest else ""
                if option not in ("pipefail", "errexit", "nounset", "xtrace"):
                    raise NotAPlan(f"shell builtin set -o {option}")
                word += {"errexit": "e", "nounset": "u"}.get(option, "")
            on = word[0] == "-"
            state = state._replace(
                errexit=on if "e" in word else state.errexit, nounset=on if "u" in word else state.nounset
            )
        return Internal(words), Flow(state, None)

    def read(
        self,
        words: tuple[str, ...],
        env: tuple[tuple[str, str], ...],
        redirects: tuple[Redirect, ...],
        state: State,
    ) -> tuple[Command, Flow]:
        names_read = [word for word in words[1:] if word != "-r"]
        if any(isinstance(word, Live) for word in words) or "-r" in words[2:] or not names_read:
            raise NotAPlan("shell builtin read, but for read -r NAME")
        if any(name != "IFS" or isinstance(value, Live) for name, value in env):
            raise NotAPlan("read with a variable")
        for name in names_read:
            if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
                raise NotAPlan("shell builtin read, but for read -r NAME")
            self.set_own(name, "", state)
            state = state.with_variable(name, UNKNOWN)
        return Internal(words, redirects, env, state.folders), Flow(state, state)

    def wait(
        self,
        words: tuple[str, ...],
        env: tuple[tuple[str, str], ...],
        redirects: tuple[Redirect, ...],
        state: State,
    ) -> tuple[Command, Flow]:
        if env or redirects or len(words) > 2:
            raise NotAPlan("shell builtin wait")
        return Internal(words), Flow(state, state)

    def leave(
        self,
        words: tuple[str, ...],
        env: tuple[tuple[str, str], ...],
        redirects: tuple[Redirect, ...],
        state: State,
    ) -> tuple[Command, Flow]:
        if env or redirects or len(words) > 1 or not state.loops:
            raise NotAPlan("break or continue with a number, or outside of a loop")
        self.left.append(state)
        return Internal(words), Flow(state, None)

    def unset(
        self,
        words: tuple[str, ...],
        env: tuple[tuple[str, str], ...],
        redirects: tuple[Redirect, ...],
        state: State,
    ) -> tuple[Command, Flow]:
        if env or redirects:
            raise NotAPlan("shell builtin unset")
        variables = dict(state.variables)
        for name in words[1:]:
            if name not in variables or name in state.exported or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
                raise NotAPlan("unset of a variable that was not set here")
            del variables[name]
        return Internal(words), Flow(state._replace(variables=variables), None)


type _Builtin = Callable[
    [Compiler, tuple[str, ...], tuple[tuple[str, str], ...], tuple[Redirect, ...], State], tuple[Command, Flow]
]

_INTERNAL: dict[str, _Builtin] = {
    "set": Compiler.set_options,
    "read": Compiler.read,
    "wait": Compiler.wait,
    "break": Compiler.leave,
    "continue": Compiler.leave,
    "unset": Compiler.unset,
    "source": Compiler.activate,
    ".": Compiler.activate,
}
_TRUE = Internal((":",))


def _is_named_here(word: Word, state: State) -> bool:
    """Whether a word is text, or the value of variables that this command itself has set."""
    return all(isinstance(part, Text) or (isinstance(part, Param) and part.name in state.variables) for part in word)


def _is_word(words: tuple[Word, ...], name: str) -> bool:
    return (
        bool(words)
        and all(isinstance(part, Text) for part in words[0])
        and "".join(p.text for p in words[0] if isinstance(p, Text)) == name
    )


def _exported(word: Word) -> tuple[str, Word | None]:
    first = word[0]
    if not isinstance(first, Text) or first.quoted:
        raise NotAPlan("export of a name that is not plain")
    found = re.fullmatch(r"([A-Za-z_]\w*)(=?)(.*)", first.text, re.ASCII | re.DOTALL)
    if found is None or (not found[2] and len(word) > 1):
        raise NotAPlan("export with more than names and values")
    if not found[2]:
        return found[1], None
    return found[1], ((Text(found[3]),) if found[3] else ()) + word[1:]


def _needs_loop(script: syntax.Script) -> bool:
    """Whether a body asks for `$?` or leaves its loop: written out, it would mean something else."""
    waiting: list[object] = [script]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Param) and node.name == "?":
            return True
        if isinstance(node, syntax.Command) and (_is_word(node.words, "break") or _is_word(node.words, "continue")):
            return True
        if isinstance(node, tuple | list):
            waiting += node
    return False


def _assigned(scripts: Iterable[syntax.Script]) -> set[str]:
    """The names of variables that commands may set."""
    found: set[str] = set()
    waiting: list[object] = list(scripts)
    while waiting:
        node = waiting.pop()
        if isinstance(node, syntax.Command):
            if not node.words:
                found.update(name for name, _ in node.assigns)
            elif _is_word(node.words, "read") or _is_word(node.words, "export"):
                texts = ("".join(p.text for p in word if isinstance(p, Text)) for word in node.words[1:])
                found.update(text.split("=", 1)[0] for text in texts)
        elif isinstance(node, syntax.For):
            found.add(node.name)
        if isinstance(node, tuple | list):
            waiting += node
    return found
