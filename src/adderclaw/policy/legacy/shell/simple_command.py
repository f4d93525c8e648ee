"""One simple command: its words, variables and redirects in the state of the shell at its place, and what follows."""

import os
import re
from collections.abc import Callable, Sequence
from functools import cache

from adderclaw.policy.legacy.programs.allowlist import PROGRAMS, known_as, names, those
from adderclaw.policy.legacy.shell import arrays, braces, data, environment, functions, internals, numbers, syntax
from adderclaw.policy.legacy.shell.builtins import check_builtin, is_job, is_process, printed, test_words
from adderclaw.policy.legacy.shell.effects import ANYTHING, changes, may_match, written
from adderclaw.policy.legacy.shell.internals import Called
from adderclaw.policy.legacy.shell.nodes import asks_status, declared, is_word
from adderclaw.policy.legacy.shell.plan import Assign, Block, Command, Internal, Live, Redirect, Script, Simple, Step
from adderclaw.policy.legacy.shell.states import HELD, UNSURE, Flow, State, bounded, joined
from adderclaw.policy.legacy.shell.syntax import NotAPlan, Param, Sub, Text, Word
from adderclaw.policy.legacy.shell.words import UNKNOWN, Component, Expander, Facts

type Resolve = Callable[[str], str | None]
type Follow = Callable[[syntax.Script, State], tuple[Script, Flow]]
"""Makes the plan of what stands in a substitution."""

MAX_WORDS = 5_000
MAX_EXPANDED = 1_000_000
"""Characters of all words together, once their variables are filled in."""

OTHER_BUILTINS = names(
    """alias bg bind break builtin caller compgen complete compopt continue declare dirs disown enable
    eval exec fc fg getopts hash help history let local logout mapfile
    readarray readonly return shift shopt suspend times trap typeset ulimit umask unalias"""
)
SYSTEM_FOLDERS = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin"})
"""A program in one of these is the program of its name, whichever of them PATH names first."""


_VERSIONED = (
    r"(python3|pip3)\.\d+|(php|ruby)\d[\d.]*|(gcc|g\+\+|clang|clang\+\+|clang-format|clang-tidy|gfortran)-\d[\d.]*"
)
_CROSS = r"(?:[a-z0-9_]+-){2,4}(gcc|g\+\+|size|nm|objdump|readelf|strings|c\+\+filt|addr2line)"
_ACTIVATES = r"(?:[\w./-]*/)?\.?v?env[\w.-]*/bin/activate"


@cache
def pythons() -> frozenset[str]:
    """The programs that a new virtual environment has, or gets by what is installed into it."""
    return those("module") | {name for name in PROGRAMS if known_as(name) in ("python", "pip")}


class SimpleCommands:
    def __init__(self, resolve: Resolve, facts: Facts, follow: Follow) -> None:
        self.resolve, self.facts, self.follow = resolve, facts, follow
        self.words = self.expanded = 0
        self.leaks = False
        """Whether a substitution of the current command may have changed files."""
        self.environments: dict[str, frozenset[str]] = {}
        """The programs of each virtual environment that was activated."""
        self.left: list[tuple[str, State]] = []
        """By which word, and in which states, rounds of the current loop were left."""
        self.asking: object = None
        """The command, or the words, that are expanded now."""
        self.functions = functions.Functions()

    def expander(self, state: State) -> Expander:
        def changed(folder: str, parts: tuple[Component, ...]) -> bool:
            return may_match(state.changed, folder, parts)

        return Expander(
            self.facts,
            state.folders,
            state.variables,
            lambda sub: self.output(sub, state),
            nounset=state.nounset,
            numbers=state.numbers,
            changed=changed,
            sourced=state.sourced,
            counted=state.counted,
            prints_count=numbers.prints_count,
            arguments=state.arguments,
            arrays=state.arrays,
            globs=state.all_globs,
            spend=self.spend,
        )

    def spend(self, characters: int) -> None:
        self.expanded += characters
        if self.expanded > MAX_EXPANDED:
            raise NotAPlan(f"more than {MAX_EXPANDED:,} characters after expansion")

    def output(self, sub: Sub, state: State) -> str | Script:
        """What `$(…)` stands for: a text where that is certain, else its plan."""
        leaked = self.leaks
        outer, asking, self.left = self.left, self.asking, []
        body, flow = self.follow(sub.body, state._replace(loop="", errexit=False))
        self.left, self.asking = outer, asking
        # `$?` in the same command tells how the substitution ended: then there has to be one.
        text = (
            printed(body, lambda: self.here(state), lambda: self.top(state))
            if not asks_status(asking) and not self.functions.asks_status and not sub.file
            else None
        )
        ended = flow.either
        self.leaks = leaked or (text is None and ended is not None and ended.changed != state.changed)
        return body if text is None else text.rstrip("\n")

    def here(self, state: State) -> str | None:
        return self.expander(state).here() if len(state.folders) == 1 and self.facts.cwd else None

    def top(self, state: State) -> str | None:
        """Where the repository begins that the shell is in, if that lies in the workspace."""
        folder = self.here(state)
        while folder and self.facts.look is not None and not state.changed:
            found = self.facts.look(os.path.relpath(folder, self.facts.cwd), (Component(r"\.git", True, True),))
            if found or found is None:
                return folder if found else None
            folder = os.path.dirname(folder) if folder != "/" else ""
        return None

    def simple(self, node: syntax.Command, state: State) -> tuple[Command, Flow]:
        self.leaks, self.asking = False, node
        expander = self.expander(state)
        declares = is_word(node.words, "export")
        if declares:
            return self.export(node, state)
        if node.words and not _is_named_here(node.words[0], state):
            raise NotAPlan("a program that is not a literal word")
        words = tuple(word for one in node.words for word in expander.fields(one))
        self.words += len(words)
        if self.words > MAX_WORDS:
            raise NotAPlan(f"more than {MAX_WORDS:,} words")
        env = self.given(node, state)
        redirects = self.redirects(node.redirects, state) if node.redirects else ()
        leaks = self.leaks
        if words and words[0] in state.functions:
            return self.function(words, env, redirects, state, leaks=leaks)
        if not words:
            made, flow = self.assign(env, redirects, state)
        else:
            made, flow = self.called(node, words, env, redirects, state)
        if leaks:
            flow = Flow(*(s._replace(changed=s.changed | ANYTHING) if s is not None else None for s in flow))
        return made, flow

    def function(
        self,
        words: tuple[str, ...],
        env: tuple[tuple[str, str], ...],
        redirects: tuple[Redirect, ...],
        state: State,
        *,
        leaks: bool,
    ) -> tuple[Command, Flow]:
        """A call of a function of the text."""
        if env or isinstance(words[0], Live):
            raise NotAPlan(f"variables for the function {words[0]} alone")
        inner = state
        changed = written(redirects, state.folders) | (ANYTHING if leaks else frozenset[str]())
        made, flow = self.functions.call(self, words, redirects, inner._replace(changed=inner.changed | changed))
        return made, flow

    def given(self, node: syntax.Command, state: State) -> tuple[tuple[str, str], ...]:
        """The assignments of a command; each sees those before it."""
        made: list[tuple[str, str]] = []
        for name, word in node.assigns:
            value = self.expander(state).one(word, assigned=True)
            if made and any(isinstance(v, Live) for _, v in made):
                raise NotAPlan("several assignments of which one is not known")
            state = state.with_variable(name, UNKNOWN if isinstance(value, Live) else value)
            made.append((name, value))
        return tuple(made)

    def called(
        self,
        node: syntax.Command,
        words: tuple[str, ...],
        env: tuple[tuple[str, str], ...],
        redirects: tuple[Redirect, ...],
        state: State,
    ) -> tuple[Command, Flow]:
        first = words[0]
        if isinstance(first, Live) or not first:
            raise NotAPlan("a program that is not a literal word" if first else "empty program name")
        if first == "[[" and node.words[0] == (Text("[["),):
            if len(words) != len(node.words):
                raise NotAPlan("[[ ]] with several words in the place of one")
            words = test_words(words)
            first = words[0]
        if first == "command" and min(len(words), len(node.words)) > 1 and _is_program(words[1]):
            if not _is_named_here(node.words[1], state):
                raise NotAPlan("a program that is not a literal word")
            return self.called(node, words[1:], env, redirects, state)
        if first == "export":
            raise NotAPlan("shell builtin export under another name")
        if first in ("source", "."):
            return self.source(node, Called(words, env, redirects), state)
        if words == ("deactivate",) and state.programs and not env:
            return Internal((":", *words), redirects), Flow(state._replace(programs=""), None)
        if first in ("mapfile", "readarray"):
            return arrays.mapped(Called(words, env, redirects), state)
        internal = internals.INTERNAL.get(first)
        if internal is not None:
            made = internal(Called(words, env, redirects), state)
            if first in ("break", "continue"):
                self.left.append((first, state))
            return made
        if first in OTHER_BUILTINS:
            raise NotAPlan(f"shell builtin {first}")
        for name, value in env:
            environment.check_given(name, value, known=not isinstance(value, Live))
        if first in ("command", "type") and any(word in state.functions for word in words[1:]):
            raise NotAPlan(f"{first} of a function")
        if first in those("builtin"):
            can_go_back, stack = state.previous is not None, bool(state.stack)
            check_builtin(words, state.jobs, can_go_back=can_go_back, stack=stack, confined=self.facts.confined)
            if first == "kill":
                words = tuple(w.guarded("processes") if isinstance(w, Live) and is_process(w) else w for w in words)
            simple = Simple(words, first, redirects, first, node.text, env, state.folders)
        else:
            words = self.activated(words, state.programs)
            simple = self.external(words, redirects, node.text, env, state.folders)
        simple = self.kept_inside(self.checked(simple))
        return simple, self.after(simple, state)

    def checked(self, simple: Simple) -> Simple:
        """A command whose words that are only known when it runs stand where they may."""
        simple = data.check(simple, confined=self.facts.confined)
        unknown = any(isinstance(r.target, Live) and (r.feeds or r.writes) for r in simple.redirects)
        return simple._replace(handed=True) if unknown else simple

    def kept_inside(self, simple: Simple) -> Simple:
        """A command with `..` in it, kept to the directories from which it stays in the workspace.

        After `cd src && …` the shell is in src, or still where it was: from there `cd ..` fails instead.
        """
        named = (*simple.words[1:], *(r.target for r in simple.redirects if not r.is_text))
        climbs = [part for word in named for part in re.split(r"[=:]", word) if ".." in part.split("/")]
        if len(simple.folders) < 2 or not climbs or not self.facts.roots:
            return simple
        inside = tuple(folder for folder in simple.folders if all(self.stays(folder, part) for part in climbs))
        # The first is where the shell is if all that came before went well: what leaves from there is meant to leave.
        if simple.folders[0] not in inside or inside == simple.folders:
            return simple
        places = tuple(os.path.normpath(os.path.join(self.facts.cwd, folder)) for folder in inside)
        return simple._replace(folders=inside, only_in=places)

    def stays(self, folder: str, path: str) -> bool:
        place = os.path.normpath(os.path.join(self.facts.cwd, folder, path))
        roots = self.facts.roots
        if self.facts.confined and not any(root.startswith("/tmp") for root in roots):
            roots = (*roots, "/tmp")
        return any(place == root or place.startswith(f"{root.rstrip('/')}/") for root in roots)

    def external(
        self,
        argv: tuple[str, ...],
        redirects: tuple[Redirect, ...],
        text: str,
        env: tuple[tuple[str, str], ...],
        folders: tuple[str, ...],
    ) -> Simple:
        first = argv[0]
        if first.startswith("ADDERCLAW_"):
            raise NotAPlan("a program with a name of AdderClaw's own")
        if "/" not in first:
            # `python3.11` is python3, whichever of them it is.
            version = re.fullmatch(_VERSIONED, first) or re.fullmatch(_CROSS, first)
            name = next(filter(None, version.groups()), first) if version else first
            return Simple(argv, self.resolve(first) or "", redirects, name, text, env, folders)
        base = os.path.basename(first)
        in_system = os.path.dirname(first) in SYSTEM_FOLDERS and self.resolve(first) == first
        is_the_usual = in_system or (os.path.isabs(first) and bool(base) and self.resolve(base) == first)
        return Simple(argv, first, redirects, base if is_the_usual else first, text, env, folders)

    def activated(self, words: tuple[str, ...], folder: str) -> tuple[str, ...]:
        """A program of the virtual environment that is active, by its path."""
        if folder == UNSURE:
            if not any(words[0] in programs for programs in self.environments.values()):
                return words
            raise NotAPlan("a virtual environment that may be active or not")
        if "/" in words[0] or not folder or words[0] not in self.environments[folder]:
            return words
        return (f"{folder}/{words[0]}", *words[1:])

    def source(self, node: syntax.Command, called: Called, state: State) -> tuple[Command, Flow]:
        """A script of the project in this very shell: what it sets is not known, as what `bash x.sh` does is not."""
        words, env, redirects = called
        inside = state.arguments is not None or len(words) != 2
        if inside or env or isinstance(words[1], Live) or not self.facts.look or not self.facts.cwd:
            raise NotAPlan(f"shell builtin {words[0]}")
        if re.fullmatch(_ACTIVATES, words[1]):
            return self.activate(node, called, state)
        # Bash looks for a name without a slash on the PATH first.
        path = words[1] if "/" in words[1] else f"./{words[1]}"
        simple = Simple(("source", path), "source", redirects, "source", node.text, (), state.folders)
        after = state._replace(
            variables={},
            arrays={},
            functions=dict.fromkeys(state.functions),
            sourced=True,
            changed=state.changed | ANYTHING,
            errexit=False,
            stack=None,
            previous=None,
        )._replace(**dict.fromkeys(HELD, frozenset[str]()))
        return simple, Flow(after, after)

    def activate(self, node: syntax.Command, called: Called, state: State) -> tuple[Command, Flow]:
        """`source .venv/bin/activate`: nothing of it runs; from here on the programs of that folder come first."""
        words, _, redirects = called
        if len(state.folders) != 1:
            raise NotAPlan(f"shell builtin {words[0]} in a directory that is not certain")
        here = os.path.join(self.facts.cwd, state.folders[0])
        folder = os.path.dirname(os.path.normpath(os.path.join(here, words[1])))
        made = os.path.dirname(folder) in state.made
        there = self.environment(folder, here)
        command = Simple(("test", "-r", words[1]), "test", redirects, "test", node.text, (), state.folders)
        before = self.environments.get(folder, frozenset[str]())
        self.environments[folder] = before | there | (pythons() if made else frozenset())
        active = state._replace(programs=folder)
        if not there and not made:
            return command, Flow(active._replace(unlikely=True), state)
        return command, Flow(active, state._replace(unlikely=True))

    def environment(self, folder: str, here: str) -> frozenset[str]:
        """The programs of a virtual environment, if it is there."""
        relative = os.path.relpath(folder, here)
        parts = (*map(Component, relative.split("/")), Component(r".*", True))
        found = self.facts.look(os.path.relpath(here, self.facts.cwd), parts) if self.facts.look else None
        return frozenset(path.rsplit("/", 1)[-1] for path in found or ())

    def after(self, simple: Simple, state: State) -> Flow:
        if simple.name == "exit":
            return Flow(None, None)
        if simple.name == "cd":
            entered = self.entered(simple, state)
            return Flow(state._replace(folders=entered, previous=state.folders), state)
        if simple.name == "pushd" and state.stack is not None:
            entered = self.entered(simple, state)
            stack = (state.folders, *state.stack)
            return Flow(state._replace(folders=entered, previous=state.folders, stack=stack), state)
        if simple.name == "popd" and state.stack:
            left = state._replace(folders=state.stack[0], previous=state.folders, stack=state.stack[1:])
            return Flow(left, state._replace(stack=None))
        if self.is_there(simple, state):
            return Flow(state, state._replace(unlikely=True))
        changed = changes(simple, state.folders)
        after = state._replace(changed=state.changed | changed) if changed else state
        venv = _makes_environment(simple)
        if venv and len(state.folders) == 1 and self.facts.cwd:
            venv = os.path.normpath(os.path.join(self.facts.cwd, state.folders[0], venv))
            return Flow(after._replace(made=after.made | {venv}), after)
        if simple.name == "false" and not simple.redirects:
            return Flow(None, after)
        return Flow(after, None) if simple.name in ("true", ":") and not simple.redirects else Flow(after, after)

    def entered(self, simple: Simple, state: State) -> tuple[str, ...]:
        target = simple.words[1]
        if target == "-":
            return state.previous or ()
        places = bounded(os.path.normpath(joined(folder, target)) for folder in simple.folders)
        return tuple("" if folder == "." else folder for folder in places)

    def is_there(self, simple: Simple, state: State) -> bool:
        """Whether it only asks for a virtual environment that is there: `[ -d .venv ]`, `[ -f .venv/bin/activate ]`."""
        match [word for word in simple.words if word not in ("[", "]", "test")]:
            case ["-d" | "-e" | "-f" | "-r" | "-s", path] if simple.name in ("[", "test") and not simple.redirects:
                activate = path if path.endswith("/activate") else f"{path.rstrip('/')}/bin/activate"
                if isinstance(path, Live) or len(state.folders) != 1 or not re.fullmatch(_ACTIVATES, activate):
                    return False
                here = os.path.join(self.facts.cwd, state.folders[0])
                folder = os.path.dirname(os.path.normpath(os.path.join(here, activate)))
                return bool(self.facts.cwd) and "activate" in self.environment(folder, here)
            case _:
                return False

    # ---- variables

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
            internals.set_own(name, value, state)
            state = self.holding(name, value, state, state)
            steps.append(Step(";" if steps else "", False, (Assign(name, value),)))
        may_fail = any(isinstance(value, Live) for _, value in env)
        flow = Flow(state, state if may_fail else None)
        if not steps:
            raise NotAPlan("empty program name")
        if len(steps) == 1:
            return steps[0].commands[0], flow
        return Block("{", Script(tuple(steps)), (), state.folders), flow

    def holding(self, name: str, value: str, state: State, before: State) -> State:
        """The state once a variable holds a value, which was expanded in the state before."""
        state = state.with_variable(name, UNKNOWN if isinstance(value, Live) else value)
        if not isinstance(value, Live):
            return state
        if is_job(value, before.jobs):
            state = state._replace(jobs=state.jobs | {name})
        if value.is_number:
            state = state._replace(numbers=state.numbers | {name})
        if numbers.counts(value):
            state = state._replace(counted=state.counted | {name})
        if before.may_be_glob(value):
            state = state._replace(globs=state.globs | {name})
        return state

    def export(self, node: syntax.Command, state: State) -> tuple[Command, Flow]:
        if node.assigns or node.redirects:
            raise NotAPlan("export with more than names and values")
        steps: list[Step] = []
        for word in (made for one in node.words[1:] for made in braces.expanded(one)):
            name, value = declared(word)
            if name in state.arrays:
                raise NotAPlan("export of an array")
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
        def is_held(_: str) -> bool:
            """Whatever file it is, the sandbox holds it, and the command is asked about."""
            return self.facts.confined

        if one.operator == ">&":
            return Redirect(one.fd, ">&", expander.target(one.target))
        if one.operator == "<":

            def known(word: str) -> bool:
                piped = isinstance(word, Live) and word.is_file
                return is_held(word) or (one.fd == "" and piped)

            return Redirect(one.fd, "<", expander.target(one.target, known))
        if one.operator != "<<<":
            return Redirect(one.fd, one.operator, expander.target(one.target, is_held))
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


def _is_program(word: str) -> bool:
    """Whether a word names no builtin of any kind: before a program, `command` only passes over functions."""
    builtin = word in those("builtin") or word in OTHER_BUILTINS or word in internals.INTERNAL or word in _NAMED_HERE
    return not isinstance(word, Live) and re.fullmatch(r"[A-Za-z][\w.+-]*", word, re.ASCII) is not None and not builtin


_NAMED_HERE = names(
    "export source return shift mapfile readarray local declare typeset readonly deactivate command eval exec"
)


def _is_named_here(word: Word, state: State) -> bool:
    """Whether a word is text, or the value of variables that this command itself has set."""
    passed = "@*" if state.arguments is not None else ""
    return all(
        isinstance(part, Text)
        or (isinstance(part, Param) and (part.name in state.variables or part.name in passed or _is_of(part, state)))
        for part in word
    )


def _is_of(part: Param, state: State) -> bool:
    return part.name.endswith("]") and part.name.partition("[")[0] in state.arrays


def _makes_environment(simple: Simple) -> str:
    """The folder in which a command makes a virtual environment."""
    match simple.words:
        case ("python" | "python3" | "virtualenv" | "uv", *rest) if "/" not in simple.name:
            words = [word for word in rest if not word.startswith("-") and not isinstance(word, Live)]
            plain = words[1:] if words[:1] == ["venv"] else words if simple.name == "virtualenv" else []
            given = plain[-1] if plain else ".venv" if words == ["venv"] and simple.name == "uv" else ""
            return given if len(plain) <= 1 else ""
        case _:
            return ""
