"""The text that bash gets of a plan: with what makes its programs do no more than was judged, git above all."""

import mmap
import os
from functools import lru_cache
from typing import NamedTuple

from adderclaw.policy.legacy.commands import base
from adderclaw.policy.legacy.programs import git_alone, knowledge, wrappers
from adderclaw.policy.legacy.programs.allowlist import is_shell, names, those
from adderclaw.policy.legacy.programs.git import command_of
from adderclaw.policy.legacy.programs.handed import one_name_each
from adderclaw.policy.legacy.programs.objections import Words
from adderclaw.policy.legacy.shell import planner
from adderclaw.policy.legacy.shell.plan import HERE, Command, Live, Script, commands, with_simples
from adderclaw.policy.legacy.shell.planner import Plan, Simple
from adderclaw.policy.legacy.shell.quoting import quote
from adderclaw.sandbox import programs
from adderclaw.tools.identity import NOBODY, Identity

type Roots = tuple[str, ...]

GIT = "adderclaw_git"
"""The function in `git.sh` that git is called by."""


STEADY = git_alone.LOOKING | names(
    "add branch checkout cherry-pick commit fetch merge mv pull push rebase reset restore revert rm stash switch tag"
)
"""Commands of git's after which no setting names another program than before."""


VALUED = names("-c -C --git-dir --work-tree --namespace --config-env --attr-source --super-prefix")
"""Options of git's own that the next word belongs to."""


class Ready(NamedTuple):
    """What is started of a plan."""

    text: str
    """For bash."""
    argv: tuple[str, ...] = ()
    """Where the plan is one program and nothing else: bash would do no more than become that program. A plain `echo` is
    a smaller shell's."""

    def environment(self, cwd: str) -> dict[str, str]:
        """What bash would add to the environment of a program that it becomes."""
        return {"PWD": cwd, "SHLVL": "0", "_": self.argv[0]}


def rendered(plan: Plan, who: Identity, roots: Roots, *, alone: bool, here: bool = False) -> Ready:
    """The plan as it is started. `alone`: git in it may do more than other commands. `here`: the sandbox has looked.

    `roots`: the workspace, in which no program is looked for.
    """
    text, body = _rendered(plan, who, roots, alone=alone, here=here)
    return Ready(text, _only_program(body, text, roots))


def git(words: Words, roots: Roots) -> str:
    """One call of git for bash, alone and as nobody; empty where no git is installed outside of the workspace."""
    program = programs.resolve("git", roots)
    if program is None:
        return ""
    called = " ".join(map(quote, (GIT, *_counted(("git", *words)))))
    return "\n".join((_given(program, NOBODY, roots, alone=True), "ADDERCLAW_HERE=", _functions(), called))


def _only_program(body: Script, text: str, roots: Roots) -> tuple[str, ...]:
    only = _only(body)
    if not isinstance(only, Simple) or any(isinstance(word, Live) for word in only.words):
        return ()
    if only.redirects or only.env or only.only_in:
        return ()
    if only.program == "echo" and (dash := programs.resolve("dash", roots)) and _is_plain_echo(only.words):
        return (dash, "-c", text)
    return (only.program, *only.words[1:]) if only.program.startswith("/") else ()


def _is_plain_echo(words: Words) -> bool:
    """Whether every shell prints the same: dash starts in half the time of bash."""
    return len(words) > 1 and not words[1].startswith("-") and not any("\\" in word for word in words)


def _only(body: Script) -> Command | None:
    """The command that is all there is."""
    step = body.steps[0]
    plain = not (step.negated or step.timed or body.tail)
    return step.commands[0] if plain and len(body.steps) == len(step.commands) == 1 else None


def _rendered(
    plan: Plan, who: Identity, roots: Roots, *, alone: bool, here: bool = False, shell: str = "/bin/bash"
) -> tuple[str, Script]:
    """Bash's text, and what it was written from."""
    gits = [git for simple in planner.simples(plan) if (git := _git_of(simple))]

    def functions() -> str:
        git = gits[0] if gits else programs.resolve("git", roots) or ""
        return "\n".join((_given(git, who, roots, alone=alone), "ADDERCLAW_HERE=", _functions()))

    def called(simple: Simple) -> Simple:
        if _git_of(simple):
            return simple._replace(program=GIT, words=("git", *_counted(simple.words)))
        within = _within(simple.words)
        if within is None or base(within[0]) != "git":
            return simple
        ahead = simple.words[: len(simple.words) - len(within)]
        code = f'{functions()}\n{GIT} "$@"'
        return simple._replace(words=(*ahead, shell, "--norc", "--noprofile", "-c", code, "git", *_counted(within)))

    codes = {code.text: _rendered(code, who, roots, alone=False, shell=shell)[0] for code in plan.inside}
    held = hardened(plan, codes)
    body = with_simples(held.body, called)
    made = planner.render(held._replace(body=body))
    if not gits:
        return made, body
    where = _where(plan) if here else ""
    return f"{functions()}\nADDERCLAW_HERE={where}\n{made}", body


def _where(plan: Plan) -> str:
    """`yes` where git is called in the directory that it starts in, `last` where it is all that there is."""
    if not is_here(plan):
        return ""
    return "last" if _only(plan.body) is not None and len(tuple(commands(plan.body))) == 1 else "yes"


def is_here(plan: Plan) -> bool:
    """Whether all git in it is called in the directory that it starts in, with nothing set for it before."""
    found = tuple(commands(plan.body))
    if plan.inside or not any(isinstance(command, Simple) and _git_of(command) for command in found):
        return False
    gits = [command_of(command.words)[0] for command in found if isinstance(command, Simple) and _git_of(command)]
    return (len(gits) == 1 or STEADY.issuperset(gits)) and all(
        isinstance(command, Simple)
        and not command.env
        and command.folders == HERE
        and command.name not in those("shifts")
        for command in found
    )


def _given(git: str, who: Identity, roots: Roots, *, alone: bool) -> str:
    given = {
        "ADDERCLAW_GIT": git,
        "ADDERCLAW_LFS": programs.resolve("git-lfs", roots) or "",
        "ADDERCLAW_NAME": who.name,
        "ADDERCLAW_EMAIL": who.email,
        "ADDERCLAW_ALONE": "yes" if alone else "",
    }
    return "\n".join(f"{name}={quote(value)}" for name, value in given.items())


@lru_cache(maxsize=1)
def _functions() -> str:
    with open(os.path.join(os.path.dirname(__file__), "git.sh"), encoding="utf-8") as file:
        return file.read()


def _git_of(simple: Simple) -> str:
    """The program, where a command is git itself."""
    return simple.program if simple.name == "git" and simple.program.startswith("/") else ""


def _within(words: Words) -> Words | None:
    """What a wrapper runs, in however many of them; None where it is no wrapper."""
    found: Words | None = None
    while words and base(words[0]) in those("carries") and (inner := wrappers.inner(words)):
        words = found = inner
    return found


def _counted(words: Words) -> Words:
    """Git's words after how many of them stand before its command, as git itself reads them."""
    ahead = 1
    while ahead < len(words) and words[ahead].startswith("-"):
        ahead += 2 if words[ahead] in VALUED else 1
    return (str(min(ahead, len(words)) - 1), *words[1:])


NO_DRIVERS = ("--no-ext-diff", "--no-textconv")
"""A repository's configuration may name programs for its diffs: these options leave them out."""


def hardened(plan: Plan, codes: dict[str, str]) -> Plan:
    """The plan with what makes its programs do no more than was judged; nothing that they are asked for changes."""
    return plan._replace(body=with_simples(plan.body, lambda simple: _with_codes(_held(simple), codes)))


def _with_codes(simple: Simple, codes: dict[str, str]) -> Simple:
    """What a shell reads as code is text of ours, too: written from the plan that was judged. Its data stays."""
    shell = next((n for n, word in enumerate(simple.words) if is_shell(word.rsplit("/", 1)[-1])), None)
    if not codes or shell is None:
        return simple
    given = knowledge.shell_code(simple.words[shell:])
    if given is None:
        return simple
    if given == 0:
        texts = (r._replace(target=codes.get(r.target, r.target)) if r.is_text else r for r in simple.redirects)
        return simple._replace(redirects=tuple(texts))
    at = shell + given
    return simple._replace(
        words=(*simple.words[:at], codes.get(simple.words[at], simple.words[at]), *simple.words[at + 1 :])
    )


def _held(simple: Simple) -> Simple:
    match simple.words:
        # What the operator's own list lets through is the operator's word: only what our table judged is held to it.
        case ("sed", *rest) if simple.name == "sed" and knowledge.objection("sed", simple.words) is None:
            return simple._replace(words=("sed", *(("--sandbox",) if _has_sandbox(simple.program) else ()), *rest))
        case ("xargs", *_) if simple.name == "xargs":
            return simple._replace(words=one_name_each(simple.words, gnu=_has_delimiters(simple.program)))
        case ("git", ("diff" | "log" | "show" | "blame") as command, *rest) if simple.name == "git":
            return simple._replace(words=("git", command, *NO_DRIVERS, *rest))
        case _:
            return simple


def _has_sandbox(sed: str) -> bool:
    """Whether this sed knows --sandbox: GNU's does, BSD's and busybox's do not."""
    return _holds(sed, b"e/r/w commands disabled")


def _has_delimiters(xargs: str) -> bool:
    return _holds(xargs, b"delimiter")


@lru_cache(maxsize=8)
def _holds(program: str, text: bytes) -> bool:
    try:
        with open(program, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            return mapped.find(text) >= 0
    except (OSError, ValueError):  # ValueError: it is empty
        return False
