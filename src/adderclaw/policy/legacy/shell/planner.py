"""Shell text into a plan that we can judge and write out again ourselves, or into raw bash with the reason.

`syntax` reads the text, `compiler` follows it and expands its words, `render` writes out what runs. To widen the
language, teach each of them the same thing; the differential test against bash keeps them honest. Whatever they make
of a text, what is judged is what is rendered: no text of the model's reaches a shell.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from adderclaw.policy.legacy.programs.allowlist import is_shell, those
from adderclaw.policy.legacy.shell import raw
from adderclaw.policy.legacy.shell.places import paths_of
from adderclaw.policy.legacy.shell.plan import Flat, Live, Plan, Raw, Simple, redirects, simples, steps
from adderclaw.policy.legacy.shell.quoting import quote, quote_if_needed
from adderclaw.policy.legacy.shell.render import canonical_text, mixes, render, shown
from adderclaw.policy.legacy.shell.syntax import MAX_CHARACTERS, NotAPlan
from adderclaw.policy.legacy.shell.words import Facts

if TYPE_CHECKING:
    from adderclaw.policy.legacy.shell.simple_command import Resolve

__all__ = [
    "Facts",
    "Plan",
    "Raw",
    "Simple",
    "canonical_text",
    "paths_of",
    "plan",
    "quote",
    "quote_if_needed",
    "redirects",
    "render",
    "simples",
    "steps",
]

MAX_RENDERED = 100_000
"""What bash is given is one argument, and no system takes a longer one than 128 KiB."""
MAX_SHELLS = 3
NOTHING = Facts()


def plan(text: str, resolve: "Resolve", depth: int = 0, facts: Facts = NOTHING) -> Plan | Raw:
    """The plan of a command, or raw bash. `resolve` gives a program's absolute path, `facts` what is there."""
    unfit = _unfit(text) or (depth and re.search(_ONLY_BASH, text) and "what not every shell reads alike") or None
    if unfit or depth > MAX_SHELLS:
        return raw.read(text, unfit or "shells inside of shells")
    try:
        # imported with the first command: the way to the first request is shorter without the compiler
        from adderclaw.policy.legacy.shell import reader
        from adderclaw.policy.legacy.shell.compiler import Compiler

        compiler = Compiler(resolve, facts)
        body, _ = compiler.script(reader.read(text), compiler.start)
        compiler.calls.functions.check_called()
        made = Plan(text, shown(body), body)
        if mixes(body):
            raise NotAPlan("names that are found, and a glob after a command that may change what it matches")
        # Quotes make four characters of one at most, and a program's path is short.
        if 4 * len(made.shown) + 200 * compiler.commands > MAX_RENDERED and len(render(made)) > MAX_RENDERED:
            raise NotAPlan(f"more than {MAX_RENDERED:,} characters after expansion")
    except NotAPlan as obstacle:
        return raw.read(text, str(obstacle))
    known = facts if _is_one_shell(made) else NOTHING
    inside: list[Plan] = []
    for code in (code for step in steps(made) for code in _for_shells(step, resolve, depth, known)):
        if isinstance(code, Raw):
            return raw.read(text, code.reason)._replace(unknown=code.unknown or code.reason)
        inside.append(code)
    return made._replace(inside=tuple(inside)) if inside else made


def _is_one_shell(made: Plan) -> bool:
    """Whether it is `bash -c "…"` and nothing else: then what is known of the world holds for that text, too."""
    only = made.body.steps[0].commands[0]
    if len(made.body.steps) != 1 or len(made.body.steps[0].commands) != 1 or not isinstance(only, Simple):
        return False
    plain = not only.env and not any(isinstance(word, Live) for word in only.words)
    return plain and len(only.words) == 3 and only.name in ("bash", "sh") and only.words[1] == "-c"


def _for_shells(step: Flat, resolve: "Resolve", depth: int, facts: Facts) -> Iterator[Plan | Raw]:
    """The code that a pipeline hands to shells, and what stands for code, or for names, that nobody can look at."""
    for index, simple in enumerate(step.commands):
        bases = [word.rsplit("/", 1)[-1] for word in simple.words]
        shell = next((n for n, base in enumerate(bases) if is_shell(base)), None)
        if shell is not None and simple.name != "which" and simple.name not in those("says"):
            rest = simple.words[shell + 1 :]
            # Without -c its words are a script of the project and what that is given.
            given = rest if any(re.match(r"-[A-Za-z]*c", word) for word in rest) else ()
            codes = [word for word in given if re.search(_CODE, word) and not isinstance(word, Live)]
            yield from (plan(word, resolve, depth + 1, facts) for word in codes)
            texts = [r.target for r in simple.redirects if r.is_text]
            yield from (plan(text, resolve, depth + 1) for text in texts if not isinstance(text, Live))
            piped = index > 0 or any(r.operator == "<" or isinstance(r.target, Live) for r in simple.redirects)
            if piped and not any(not word.startswith("-") for word in rest):
                yield raw.read(simple.text, f"what {bases[shell]} is given")
        elif "parallel" in bases[:2]:
            yield raw.read(simple.text, f"what {bases[0]} is given")


_CODE = r"[\s;&|<>()$`~*?\[{]"
_ONLY_BASH = (
    r"\$['\"]|<<|&>|\|&|\[\[|\{[^}]*(?:,|\.\.)|\btime\b"
    r"|\+=|=\(|\b(?:function|local|mapfile|readarray)\b|\$\{[@*!#]*\w*(?:\[|:\d|: -)|\bread\s+-\w*a"
)
"""A text for a shell inside is not written out again, and that shell may be another one."""


_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f]"


def _unfit(text: str) -> str | None:
    """Why a text is not even parsed."""
    if not text.strip():
        return "empty"
    if len(text) > (MAX_RENDERED if "<<" in text else MAX_CHARACTERS):
        return f"longer than {MAX_CHARACTERS:,} characters"
    if re.search(_CONTROL, text):
        return "control character"
    if not text.isascii():
        import unicodedata

        if any(char > "\x7f" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp") for char in text):
            return "invisible or unusual character"
    return None
