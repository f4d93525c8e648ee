"""Code that a command brings itself and runs in the same breath: a script that it writes, a repository that it clones.

To run the project's own code is asked about, since it was there to be looked at. What a command writes and runs at once
is looked at here: it may do no more than the command itself might.
"""

import itertools
import os
import re
from collections.abc import Iterator

from adderclaw.gate.commands import base, handed_on
from adderclaw.gate.programs.allowlist import PROGRAMS, names
from adderclaw.gate.programs.knowledge import INTERPRETERS, SHELLS, objection
from adderclaw.gate.programs.languages import is_plain_sql, is_plain_sqlite
from adderclaw.gate.shell.loose import statements
from adderclaw.gate.shell.plan import Live, Plan, Simple, steps

_HARM = names(
    """nc ncat socat ssh scp sftp ftp telnet sudo su doas pkexec rm dd mkfs shutdown reboot poweroff crontab at chown
    systemctl iptables passwd useradd usermod visudo insmod modprobe mount umount chroot nsenter"""
)
_ASKS = names("curl wget http https")
_DELETES = (
    r"(?:RemoveAll|rmtree|rmSync|rm_rf|rmdirSync|removedirs|unlinkSync|deleteRecursively|FileUtils\.rm\w*"
    r"|remove_dir_all)"
    r"\W{0,4}\s*['\"(`]*(?:/(?!tmp/)|~|\.\.|\$HOME|\$\{HOME|os\.homedir|Path\.home|os\.UserHomeDir|os\.path\.expanduser)"
)
_RUNS = (
    r"(?:os\.system|subprocess\.\w+|execSync|execFileSync|spawnSync|\bexec\(|popen|Command::new|exec\.Command|getRuntime"
    r"|shell_exec|passthru)[^\n]{0,200}(?:rm -rf|\bcurl\b|\bwget\b|\bnc\b|bash -i|/dev/tcp|\bsudo\b|\|\s*sh\b)"
)
_SECRETS = (
    r"\.ssh/|\.aws/|\.netrc|\bid_(?:rsa|ed25519)\b|/etc/(?:passwd|shadow|sudoers)|\.gnupg|\.kube/config|\.docker/config"
    r"|\.git-credentials|\.npmrc|\.pypirc|\.config/gh"
)
_SHELL = r"/dev/(?:tcp|udp)/|pty\.spawn|os\.dup2|\bdup2\("
_SENDS = r"requests\.|urllib|http\.client|httpx|fetch\(|axios|net/http|https?\.request|socket\b|Net::HTTP|reqwest"
_KEPT = r"os\.environ|process\.env|getenv|ENV\[|os\.Environ"


def brought(plan: Plan) -> Iterator[str]:
    """Why code that a plan brings and runs may do more than the plan says."""
    yield from _written_and_run(plan)
    yield from _edited_and_run(plan)
    yield from _cloned_and_run(plan)
    yield from _written_and_stated(plan)


def _written_and_run(plan: Plan) -> Iterator[str]:
    made: list[tuple[str, str]] = []
    for step in steps(plan):
        for simple in step.commands:
            made += _written(simple)
        for simple in step.commands if made else ():
            if _runs_code(simple):
                yield from (f"{file}, which the command writes and may run: {why}" for file, why in _reaching(made))
                return


def _edited_and_run(plan: Plan) -> Iterator[str]:
    """What a piece of Python writes, in whatever order, where anything else of the command may run it."""
    every = [simple for step in steps(plan) for simple in step.commands]
    if len(every) < 2 or "python" not in plan.text:
        return
    from adderclaw.gate.python.command import in_words

    for simple in every:
        stdin = next((r.target for r in simple.redirects if r.is_text and not isinstance(r.target, Live)), None)
        writing = [piece for piece in in_words(simple.words, stdin) if piece.writes]
        if not writing or not any(_runs_code(other) for other in every if other is not simple):
            continue
        for piece in writing:
            file = piece.writes[0]
            whole = ["\n".join(piece.texts), "".join(piece.texts)]
            if piece.hides:
                yield f"{file}, which the command writes and may run, is made of what does not stand there"
            yield from (
                f"{file}, which the command writes and may run: {why}" for text in whole if (why := _of_code(text))
            )


def _written(simple: Simple) -> Iterator[tuple[str, str]]:
    """The files that a command writes, with what it writes where that stands there."""
    files = [r.target for r in simple.redirects if r.writes and r.target != "/dev/null"]
    texts = [r.target for r in simple.redirects if r.is_text]
    if simple.name == "tee":
        files += [word for word in simple.words[1:] if not word.startswith("-")]
    if simple.name in ("echo", "printf"):
        texts.append("\n".join(word.replace("\\n", "\n") for word in simple.words[1:]))
    yield from ((file, str(text)) for file in files for text in texts)


def _runs_code(simple: Simple) -> bool:
    """Whether a command, or one that it hands on, may run what lies in a file."""
    return any(map(_may_run, ((simple.name, *simple.words[1:]), *itertools.islice(handed_on(simple.words), 1, None))))


def _may_run(words: tuple[str, ...]) -> bool:
    name = base(words[0])
    options = PROGRAMS.get(name)
    if "/" in words[0] or name in SHELLS or name == "source":
        return True
    return options is not None and options.kind == "work" and name not in _MOVES


_MOVES = names("cp mv mkdir touch tee chmod ln rmdir tar zip unzip gzip sed truncate git install rsync split patch")


def _reaching(made: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for file, text in made:
        why = _of_shell(text) if _is_shell(file, text) else _of_code(text)
        if why:
            yield file, why


def _is_shell(file: str, text: str) -> bool:
    return bool(re.search(r"\.(?:sh|bash|zsh)$|(?:^|/)(?:GNU)?[Mm]akefile$|\.mk$", file)) or bool(
        re.match(r"#!.*\b(?:ba|z|da|k)?sh\b", text) or ("." not in os.path.basename(file))
    )


def _of_shell(text: str) -> str | None:
    for pipeline in statements(text):
        for part in pipeline:
            for words in handed_on(tuple(part)):
                name = base(words[0]) if words else ""
                if name in _HARM or name.startswith("mkfs"):
                    return f"it holds {name}"
                if name in _ASKS and (name not in PROGRAMS or objection(name, words) is not None):
                    return f"it holds {name} of another machine"
    return _of_code(text)


def _of_code(text: str) -> str | None:
    for why, pattern in (
        ("it deletes what lies elsewhere", _DELETES),
        ("it runs programs that delete or fetch", _RUNS),
        ("it names secrets", _SECRETS),
        ("it hands a shell on", _SHELL),
    ):
        if re.search(pattern, text):
            return why
    if re.search(_SENDS, text) and re.search(_KEPT, text):
        return "it may send the environment"
    return None


_STATED = {"sqlite3": is_plain_sqlite, "psql": is_plain_sql, "mysql": is_plain_sql}


def _written_and_stated(plan: Plan) -> Iterator[str]:
    """Statements that a command writes for a client of a database: such a file can also hold commands for a shell."""
    texts: dict[str, str | None] = {}
    for step in steps(plan):
        for simple in step.commands:
            texts |= {os.path.normpath(str(r.target)): None for r in simple.redirects if r.writes}
            texts |= {os.path.normpath(word): None for word in simple.words[1:] if base(simple.name) in _COPIES}
            texts |= {os.path.normpath(file): text for file, text in _written(simple)}
        for simple in step.commands:
            plain = next((_STATED[base(w)] for w in simple.words if base(w) in _STATED), None)
            named = {os.path.normpath(part) for word in simple.words for part in re.split(r"[\s=]", word) if part}
            named |= {os.path.normpath(str(r.target)) for r in simple.redirects if r.feeds}
            for file in sorted(named & texts.keys()) if plain else ():
                text = texts[file]
                if plain and (text is None or not plain(text)) and not file.endswith((".db", ".sqlite", ".sqlite3")):
                    yield f"{file}, which the command writes, and which a database's client would run"


_COPIES = names("cp mv tee ln install rsync sed dd")


def _cloned_and_run(plan: Plan) -> Iterator[str]:
    cloned = False
    for step in steps(plan):
        for simple in step.commands:
            words = simple.words
            if cloned and ("/" in simple.name or _builds(words)):
                yield f"{simple.words[0]!r} would run what the same command cloned: make it a call of its own"
                return
            fetches = words[:2] in (("git", "clone"), ("gh", "repo")) or words[:3] == ("git", "submodule", "add")
            cloned = cloned or (fetches and any("://" in w or re.match(r"[\w.-]+@", w) for w in words[2:]))


_BUILDS = names("make gmake cmake ninja just task")


def _builds(words: tuple[str, ...]) -> bool:
    """Whether a command, or one that it hands on, builds, runs a script, or is a program that is named by its path."""
    return any("/" in one[0] or base(one[0]) in _BUILDS or _runs_script(one) for one in handed_on(words))


def _runs_script(words: tuple[str, ...]) -> bool:
    plain = [word for word in words[1:] if not word.startswith("-")]
    return base(words[0]) in INTERPRETERS and bool(plain) and not isinstance(plain[0], Live)


# ------------------------------------------------------------------ what never ends

_ENDLESS = frozenset({"/dev/zero", "/dev/urandom", "/dev/random", "/dev/full"})
_BOUNDS = names("head od xxd timeout")


def endless(plan: Plan) -> Iterator[str]:
    """Why a command would read without an end: what fills memory or a disk is not asked about."""
    for step in steps(plan):
        for index, simple in enumerate(step.commands):
            given = [word for word in simple.words[1:] if word in _ENDLESS]
            given += [r.target for r in simple.redirects if r.operator == "<" and r.target in _ENDLESS]
            if simple.name == "yes":
                given.append("yes")
            bounded = any(base(one.name) in _BOUNDS for one in (*step.commands[index:],)) or "timeout" in simple.words
            if given and not bounded and simple.name not in ("ls", "stat", "file", "test", "[", "echo", "printf"):
                yield f"{given[0]} has no end: take a part of it with head -c"
