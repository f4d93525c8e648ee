"""Operators at the command line: a person who answers questions in lines, or who runs a call by hand."""

import asyncio
import os
import sys
from typing import Literal

from adderclaw.agent.tool_call.approvals import refuse_from_agent
from adderclaw.core.questions import (
    MOST_GRANTED,
    Answer,
    ApprovalRequest,
    Ask,
    Question,
    QuestionRequest,
    Replies,
    answer_with,
    approval_with_registries,
)
from adderclaw.core.redaction import visible


class Terminal:
    """Asks on stderr and reads a line from stdin. An empty line or the end of input denies.

    A person's line starts with yes or no, and a comment may follow. Piped input may be meant for something else:
    a line that is not exactly an answer denies this question and all later ones.
    """

    def __init__(self) -> None:
        self._refuses = False
        """Whether piped input was not an answer. Then all further questions are denied."""
        self._turn = asyncio.Lock()
        """Questions of several sessions are asked one at a time."""

    @property
    def at_terminal(self) -> bool:
        """Whether a person sees the question and types the answer, and nothing is piped."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    async def approve(self, request: ApprovalRequest) -> Answer:
        async with self._turn:
            return await self._approve(request)

    async def ask(self, request: QuestionRequest) -> Answer:
        replies: Replies = {}
        async with self._turn:
            for question in request.questions:
                if self._refuses or (reply := await _reply(question)) is None:
                    return answer_with(None)
                replies[question.question] = reply
        return answer_with(replies)

    async def _approve(self, request: ApprovalRequest) -> Answer:
        from adderclaw.agent.tool_call.approvals import displayed_request, refuse_unaskable

        if (refused := refuse_unaskable(request)) is not None:
            why = f"denied without asking: {refused.comment}"
            print(f"Tool request:\n  tool: {_line(request.tool)}\n  {why}", file=sys.stderr)
            return refused
        seen = displayed_request(request)
        lines = ["Tool request:", f"  tool: {seen.tool}", f"  risk: {request.risk}", f"  reason: {seen.reason}"]
        if seen.is_step:
            lines = [f"{seen.tool} asks for your approval:", f"  question: {seen.reason}"]
        lines += [
            f"  {'about' if seen.is_step else 'args'}: {_indented(seen.text)}",
            *(f"  {mark}" for mark in seen.marks),
        ]
        offered = request.grants if len(request.shown) <= MOST_GRANTED else ()
        if offered:
            from adderclaw.policy.grants import describe_rules

            lines += [f"  always: {_line(rule)}" for rule in offered]
            lines.append(f"    that is: {_line(describe_rules(offered))}")
            lines.append("  (a = yes, and always in this session; p = in this project; A = in every project)")
        if request.registries:
            hosts = _line(", ".join(request.registries))
            lines.append(f"  (r = yes, and let the commands of this session reach {hosts})")
        # printed at once, so that a JSON log has one object per question
        line = None if self._refuses else await ask_line("\n".join([*lines, "Approve? [y/N] "]))
        if line is not None and not STDIN.is_terminal and line.rstrip("\r") not in PIPED_ANSWERS:
            self._refuses, line = True, None
        if self._refuses:
            print(f"\nadderclaw: denied: {NO_ANSWER}", file=sys.stderr)
            return Answer(approved=False, by="no_operator", comment=NO_ANSWER)
        if line is None:
            print(file=sys.stderr)
            return Answer(approved=False, by="no_operator", comment="no answer: the end of standard input")
        word, _, comment = line.strip().partition(" ")
        if request.registries and word == "r":
            return approval_with_registries(request)
        always = ALWAYS.get(word) if offered else None
        approved = always is not None or word.lower() in ("y", "yes")
        return Answer(approved, "operator", comment.strip(), always or "")


async def ask_line(question: str) -> str | None:
    """Asks a question and reads a line; ignores what was typed before the question appeared."""
    STDIN.discard_typed()
    print(question, end="", file=sys.stderr, flush=True)
    try:
        return await STDIN.read()
    except asyncio.CancelledError:
        print("\n(this question no longer needs an answer)", file=sys.stderr)
        raise


def terminal_question() -> Ask | None:
    """Asks the person at the terminal; None if there is no terminal."""
    return ask_line if STDIN.is_terminal else None


async def _reply(question: Question) -> str | None:
    """A person's reply to one question: options by number or label, or free text."""
    lines = [f"Question ({_line(question.header)}): {_line(question.question)}"]
    for number, option in enumerate(question.options, 1):
        description = f": {_line(option.description)}" if option.description else ""
        lines.append(f"  {number}. {_line(option.label)}{description}")
        lines += [f"      | {_indented(visible(option.preview))}"] if option.preview else []
    several = " (several: 1,2)" if question.multi else ""
    line = await ask_line("\n".join([*lines, f"Your answer{several}, or your own words: "]))
    if line is None or not line.strip():
        print(file=sys.stderr)
        return None
    return reply_values(question, line.strip())


def reply_values(question: Question, line: str) -> str:
    """The labels chosen by number or name; otherwise the line itself."""
    labels = {str(number): option.label for number, option in enumerate(question.options, 1)}
    labels |= {option.label.lower(): option.label for option in question.options}
    words = [word.strip().lower() for word in line.split(",")] if question.multi else [line.lower()]
    chosen = [labels[word] for word in words if word in labels]
    return ", ".join(dict.fromkeys(chosen)) if len(chosen) == len(words) else line


ALWAYS: dict[str, Literal["session", "project", "user"]] = {"a": "session", "p": "project", "A": "user"}

PIPED_ANSWERS = frozenset({"y", "yes", "n", "no", "a", "p", "A", ""})
NO_ANSWER = "piped input is not an answer: expected a line that is empty or exactly y, yes, n, no, a, p or A"


def _line(text: str) -> str:
    return visible(text, keep_newlines=False)


def _indented(text: str) -> str:
    """Indents all lines after the first, so that they cannot pass for lines of this program."""
    return text.replace("\n", "\n      | ")


class OperatorAtWork:
    """The operator of a call they typed: what the policy would ask about is approved, what it denies stays denied."""

    async def approve(self, request: ApprovalRequest) -> Answer:
        typed = Answer(approved=True, by="operator", comment=f"typed {request.tool} by hand")
        return await asyncio.to_thread(refuse_from_agent, request) or typed

    async def ask(self, request: QuestionRequest) -> Answer:
        return await Terminal().ask(request)


class StdinLines:
    """Reads lines from a descriptor without a thread, so that signals are handled while waiting."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""

    @property
    def is_terminal(self) -> bool:
        return os.isatty(self._descriptor)

    def discard_typed(self) -> None:
        """Discards what a person typed ahead; piped input stays."""
        if self.is_terminal:
            import termios

            self._buffer = b""
            termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def read(self) -> str | None:
        """The next line, or None at the end."""
        while b"\n" not in self._buffer:
            chunk = await self._read_more()
            if not chunk:
                break
            self._buffer += chunk
        line, newline, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace") if line or newline else None

    async def _read_more(self) -> bytes:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(self._descriptor, lambda: ready.done() or ready.set_result(None))
        except PermissionError:
            return os.read(self._descriptor, 65536)  # reading a plain file never blocks
        try:
            await ready
            return os.read(self._descriptor, 65536)
        finally:
            loop.remove_reader(self._descriptor)


STDIN = StdinLines(0)
"""The REPL and the approvals read the same lines, in turn."""
