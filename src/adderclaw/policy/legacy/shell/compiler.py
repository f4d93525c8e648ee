"""Commands into a plan: every branch is followed, with every state that the shell may be in when it gets there."""

from collections.abc import Iterable

from adderclaw.policy.legacy.shell import arrays, numbers, syntax
from adderclaw.policy.legacy.shell.effects import ANYTHING, written
from adderclaw.policy.legacy.shell.internals import set_own
from adderclaw.policy.legacy.shell.nodes import begins_with_status, is_word
from adderclaw.policy.legacy.shell.plan import (
    Assign,
    Block,
    Choice,
    Command,
    If,
    Internal,
    Live,
    Loop,
    Match,
    Redirect,
    Script,
    Step,
)
from adderclaw.policy.legacy.shell.simple_command import OTHER_BUILTINS, Resolve, SimpleCommands
from adderclaw.policy.legacy.shell.states import HELD, MAX_FOLDERS, Flow, State, all_of, merged
from adderclaw.policy.legacy.shell.syntax import NotAPlan, Text
from adderclaw.policy.legacy.shell.words import UNKNOWN, Facts

MAX_COMMANDS = 500
MAX_ROUNDS = 200
"""How often a `for` loop is written out."""


class Compiler:
    def __init__(self, resolve: Resolve, facts: Facts) -> None:
        self.calls = SimpleCommands(resolve, facts, self.script)
        self.commands = 0
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
            if guarded == here.guarded:
                step, after = self.pipeline(one, here)
            else:
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
        if (operator == "&&" and before.success is None) or (operator == "||" and before.failure is None):
            return before  # what is never reached changes nothing
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
            parts: list[Command] = []
            after = state
            for node in one.commands:
                # The parts run at the same time: what one before it changes, a glob may see or not.
                command, ended = self.command(node, after._replace(loop=""))
                parts.append(command)
                changed = ended.either.changed if ended.either is not None else frozenset[str]()
                after = state._replace(changed=after.changed | changed)
            made = tuple(parts)
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
                return self.calls.simple(node, state)
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
            case syntax.Match():
                return self.matched(node, state)
            case syntax.Function():
                functions = self.calls.functions
                asks, known = begins_with_status(node), OTHER_BUILTINS.__contains__
                return _TRUE, functions.define(node, state, asks_status=asks, known=known)
            case syntax.Array():
                return self.array(node, state)

    def array(self, node: syntax.Array, state: State) -> tuple[Command, Flow]:
        self.calls.leaks, self.calls.asking = False, node
        made, flow = arrays.assigned(self.calls, node, state)
        if self.calls.leaks:
            flow = Flow(*(s._replace(changed=s.changed | ANYTHING) if s is not None else None for s in flow))
        return made, flow

    # ---- compound commands

    def opened(self, node: syntax.Node, state: State) -> tuple[tuple[Redirect, ...], State]:
        """The redirects of a compound command, which bash opens before anything in it runs."""
        self.calls.asking = node
        redirects = self.calls.redirects(node.redirects, state)
        return redirects, state._replace(changed=state.changed | written(redirects, state.folders))

    def group(self, node: syntax.Group, state: State) -> tuple[Command, Flow]:
        redirects, inner = self.opened(node, state)
        within = inner._replace(loop="") if node.opener == "(" else inner
        body, flow = self.script(node.body, within)
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
        outer, self.calls.left = self.calls.left, []
        for _ in range(MAX_FOLDERS):
            condition, answer = self.asked(node.condition, here)
            goes_on = answer.success if node.kind == "while" else answer.failure
            body, flow = self.script(node.body, goes_on or here)
            again = all_of((here, answer.either, flow.either, *self.gone(here))) or here
            if again == here:
                break
            here = again
        else:
            raise NotAPlan("a loop that goes from directory to directory")
        self.calls.left = outer
        after = here._replace(loop=state.loop)
        return Loop(node.kind, condition, body, redirects, state.folders), Flow(after, after)

    def gone(self, here: State, *words: str) -> list[State]:
        """The states in which rounds were left, by these words or by any."""
        left = (state for word, state in self.calls.left if not words or word in words)
        return [state._replace(guarded=here.guarded, loop=here.loop) for state in left]

    def blurred(self, state: State, scripts: Iterable[syntax.Script]) -> State:
        assigned = _assigned((*scripts, *filter(None, state.functions.values()))) - state.arrays.keys()
        variables = {**state.variables, **dict.fromkeys(assigned, UNKNOWN)}
        # Whatever a round changes, the next one sees: a glob in a loop would have to be looked up again each time.
        changed = state.changed | ANYTHING
        # What was a number stays one as long as every round leaves it so: that is seen once a round was followed.
        numbers = state.numbers | {name for name in assigned if state.counts(name)}
        globs = state.globs | {name for name in assigned if state.may_hold_glob(name)}
        held = {held: getattr(state, held) - assigned for held in HELD} | {"numbers": numbers, "globs": globs}
        return state._replace(variables=variables, changed=changed, loop="own", **held)

    def each(self, node: syntax.For, state: State) -> tuple[Command, Flow]:
        redirects, here = self.opened(node, state)
        self.calls.asking = node
        words = [word for one in node.words for word in self.calls.expander(here).fields(one)]
        set_own(node.name, "", here)
        # Written out, `$?` at the beginning of a round would mean something else.
        asks = self.calls.functions.asks_status or begins_with_status(node.body)
        if any(isinstance(word, Live) for word in words) or asks:
            return self.each_unknown(node, words, redirects, here)
        if len(words) > MAX_ROUNDS:
            raise NotAPlan(f"a loop of more than {MAX_ROUNDS} rounds")
        rounds, leaves, flow = self.rounds(node, words, here)
        if leaves:
            # A loop around each round, which `continue` leaves, and one around all of them, which `break 2` leaves.
            one = (Loop("for", None, body, (), here.folders, node.name, (word,)) for word, body in rounds)
            body = Script(tuple(Step(";" if n else "", False, (loop,)) for n, loop in enumerate(one)))
            return Loop("for", None, body, redirects, state.folders, node.name, (words[0],)), flow
        steps: list[Step] = []
        for word, body in rounds:
            steps.append(Step(";" if steps else "", False, (Assign(node.name, word),)))
            steps += (step._replace(after=step.after or ";") for step in body.steps)
            if body.tail:
                steps.append(Step("&", False, (_TRUE,)))
        if not steps:
            steps.append(Step("", False, (_TRUE,)))
        return Block("{", Script(tuple(steps)), redirects, state.folders), flow

    def rounds(self, node: syntax.For, words: list[str], here: State) -> tuple[list[tuple[str, Script]], bool, Flow]:
        """Each round with its word, whether any is left by `break` or `continue`, and what follows them."""
        made: list[tuple[str, Script]] = []
        outer, leaves, broken = self.calls.left, False, list[State]()
        flow = Flow(here, None)
        for word in words:
            arrived = flow.either
            if arrived is None:
                break
            begun = arrived.with_variable(node.name, word)
            set_own(node.name, word, begun)
            self.calls.left = []
            body, flow = self.script(node.body, begun._replace(loop="written"))
            flow = Flow(*(s._replace(loop=here.loop) if s is not None else None for s in flow))
            flow = Flow(all_of((flow.success, *self.gone(here, "continue"))), flow.failure)
            broken += self.gone(here, "break")
            leaves = leaves or bool(self.calls.left)
            made.append((word, body))
        self.calls.left = outer
        return made, leaves, Flow(all_of((flow.success, *broken)), flow.failure)

    def each_unknown(
        self, node: syntax.For, words: list[str], redirects: tuple[Redirect, ...], here: State
    ) -> tuple[Command, Flow]:
        """A loop over what is not known: one round stands for all."""
        begun = self.blurred(here, (node.body,)).with_variable(node.name, UNKNOWN)
        if words and all(map(numbers.prints_numbers, words)):
            begun = begun._replace(numbers=begun.numbers | {node.name})
        if any(map(here.may_be_glob, words)):
            begun = begun._replace(globs=begun.globs | {node.name})
        outer, self.calls.left = self.calls.left, []
        for _ in range(MAX_FOLDERS):
            body, flow = self.script(node.body, begun)
            again = all_of((begun, flow.either, *self.gone(begun))) or begun
            if again == begun:
                break
            begun = again
        else:
            raise NotAPlan("a loop that goes from directory to directory")
        self.calls.left = outer
        after = begun._replace(loop=here.loop)
        made = Loop("for", None, body, redirects, here.folders, node.name, tuple(words))
        return made, Flow(after, after)

    def choice(self, node: syntax.Case, state: State) -> tuple[Command, Flow]:
        redirects, here = self.opened(node, state)
        expander = self.calls.expander(here)
        self.calls.asking = node
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

    def matched(self, node: syntax.Match, state: State) -> tuple[Command, Flow]:
        expander = self.calls.expander(state)
        self.calls.asking = node
        expression = expander.value(node.name) if node.name else node.expression
        if expression is None:
            raise NotAPlan("[[ ]] with =~ and an expression that is not known")
        return Match(expander.one(node.value), expression, (), state.folders), Flow(state, state)


_TRUE = Internal((":",))


def _assigned(scripts: Iterable[object]) -> set[str]:
    """The names of variables that commands may set."""
    found: set[str] = set()
    waiting: list[object] = list(scripts)
    while waiting:
        node = waiting.pop()
        if isinstance(node, syntax.Command):
            if not node.words:
                found.update(name for name, _ in node.assigns)
            elif any(is_word(node.words, name) for name in ("read", "export")):
                texts = ("".join(p.text for p in word if isinstance(p, Text)) for word in node.words[1:])
                found.update(text.split("=", 1)[0] for text in texts)
        elif isinstance(node, syntax.For):
            found.add(node.name)
        if isinstance(node, tuple | list):
            waiting += node
    return found
