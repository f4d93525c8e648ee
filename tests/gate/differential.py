"""What real bash does with a text: the calls that it makes, in batches; every program is a function that only notes."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from adderclaw.gate.plan import Live, Plan, Raw, bodies, commands, redirects, simples
from adderclaw.gate.shell import Facts, plan, quote, render
from adderclaw.tools import wildcards

BASH = "/bin/bash"
ENVIRONMENT = {"PATH": "/nowhere", "LC_ALL": "C.UTF-8", "USER": "us er", "LANG": "C.UTF-8"}
"""HOME is the folder of the batch."""
FILES = (
    "a.txt",
    "b.txt",
    "c d.txt",
    "x.py",
    "y.py",
    ".hidden",
    "src/app.py",
    "src/util.py",
    "src/sub/deep.txt",
    "docs/a.md",
)
PRELUDE = r"""
trap '' PIPE
shim() {
  local name=$1 status; shift
  (( ++SHIM_COUNT > 40 )) && exit 77
  local SHIM_IN; mapfile -t SHIM_IN
  local SHIM_ARGV SHIM_REST
  printf -v SHIM_ARGV '%s\037' "$name" "$#" "$@"
  printf -v SHIM_REST 'in:%s env:%s,%s,%s,%s pwd:%s' "${SHIM_IN[*]}" "${FOO-}" "${X-}" "${CI-}" "${i-}" "$PWD"
  printf '%s\036' "$SHIM_ARGV$SHIM_REST" >&9
  printf 'out of %s %s\n' "$name" "$#" 2>/dev/null
  return $(( ($# + ${#name}) % 3 == 0 ))
}
real_cat() {
  if (( $# )); then shim cat "$@"; return; fi
  local line
  while IFS= read -r line; do printf '%s\n' "$line"; done
}
real_basename() {
  if (( $# == 0 || $# > 2 )) || [[ $1 == -* || -z $1 || $1 == */ ]]; then shim basename "$@"; return; fi
  local base=${1##*/}
  [[ $base == "${2-}" ]] || base=${base%"${2-}"}
  printf '%s\n' "$base"
}
real_dirname() {
  if (( $# != 1 )) || [[ $1 == -* || -z $1 || $1 == */ || $1 == /* ]]; then shim dirname "$@"; return; fi
  if [[ $1 == */* ]]; then printf '%s\n' "${1%/*}"; else printf '.\n'; fi
}
"""
CASE = r"""(trap wait EXIT; ulimit -t 2 -f 4000; cd {folder} || exit; eval {text}) 2>/dev/null
printf '\035%s\034' $? >&9
printf '\034'
"""


class Seen(NamedTuple):
    calls: tuple[str, ...]
    printed: str
    status: str
    files: tuple[str, ...]


def resolve(name: str) -> str | None:
    return None if "/" in name or name == "absent" else f"/shim/{name}"


class Ground:
    """A scratch folder with the same few files for each command."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.count = 0
        self.shared = self.fresh()

    def fresh(self) -> Path:
        self.count += 1
        folder = self.top / f"f{self.count}" / "w"
        for name in FILES:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{name}\n")
        return folder

    def facts(self) -> Facts:
        cwd = str(self.shared)
        return Facts(cwd, {**ENVIRONMENT, "HOME": str(self.top)}, wildcards.within(cwd, (cwd,)))

    def planned(self, text: str) -> Plan | Raw:
        return plan(text, resolve, facts=self.facts())


def is_safe_to_run(made: Plan) -> bool:
    """Whether a text can be given to bash here: nothing named by a path runs, and nothing is written far away."""
    if any("/" in simple.words[0] or not re.fullmatch(r"[\w.+\[:-]+", simple.words[0]) for simple in simples(made)):
        return False
    if any(
        "&" in (step.after, body.tail) for one in commands(made.body) for body in bodies(one) for step in body.steps
    ):
        return False  # what is left behind in the background by a subshell cannot be waited for
    targets = [redirect.target for redirect in redirects(made) if redirect.writes or redirect.operator == "<"]
    written = [r.target for r in redirects(made) if r.writes and r.target != "/dev/null"]
    beside = any("&" in (step.after, made.body.tail) for step in made.body.steps)
    if written and (beside or ("|" in made.text and len(set(written)) < len(written))):
        return False  # who of those that run at the same time writes first, bash does not say
    return not any((t.startswith("/") and t != "/dev/null") or ".." in t for t in targets)


def observed(texts: Sequence[tuple[str, bool]], names: Iterable[str], ground: Ground) -> list[Seen]:
    """What bash does with each text; those that write files get a folder of their own."""
    folders = [ground.fresh() if writes else ground.shared for _, writes in texts]
    shims = "".join(map(_shim, sorted({*names, *_REAL})))
    cases = "".join(CASE.format(folder=quote(str(f)), text=quote(t)) for (t, _), f in zip(texts, folders, strict=True))
    script, log, out = (ground.top / f"{kind}{ground.count}" for kind in ("script", "log", "out"))
    ground.count += 1
    script.write_text(PRELUDE + shims + cases)
    with log.open("wb") as noted, out.open("wb") as printed:
        subprocess.run(
            [BASH, "--norc", "--noprofile", "-c", f"exec 9>&2 2>/dev/null; . {quote(str(script))}"],
            cwd=ground.top,
            env={**ENVIRONMENT, "HOME": str(ground.top), "SHLVL": "0"},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=noted,
            timeout=300,
            check=False,
        )
    logs = log.read_text("utf-8", "replace").split("\034")[:-1]
    outs = out.read_text("utf-8", "replace").split("\034")[:-1]
    assert len(logs) == len(outs) == len(texts), (len(logs), len(outs), len(texts))
    shared = str(ground.shared)
    return [_seen(*one, shared) for one in zip(logs, outs, folders, texts, strict=True)]


_REAL = frozenset({"cat", "basename", "dirname"})
"""Programs whose output the planner may work out itself."""


def _shim(name: str) -> str:
    called = f"real_{name}" if name in _REAL else f"shim {name}"
    return "".join(f'function {n} {{ {called} "$@"; }}\n' for n in (name, f"/shim/{name}"))


def _seen(log: str, printed: str, folder: Path, given: tuple[str, bool], shared: str) -> Seen:
    calls, status = log.rsplit("\035", 1)
    files: tuple[str, ...] = ()
    top = str(folder)
    if given[1]:
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        files = tuple(f"{path.relative_to(folder)}: {path.read_text('utf-8', 'replace')}" for path in found)
        shutil.rmtree(folder.parent)

    def plain(text: str) -> str:
        """The text without what differs from one folder, or one line of the batch, to another."""
        text = re.sub(r"\S+/script\d+: line \d+: ", "", text)
        for path in (top, shared):
            text = text.replace(path, "TOP").replace(os.path.dirname(path), "UP")
        return text

    noted = tuple(plain(call) for call in calls.split("\036") if call)
    return Seen(noted, plain(printed), status, tuple(map(plain, files)))


def disagreement(text: str, made: Plan, ours: Seen, theirs: Seen) -> str:
    """How bash's doings with the text differ from those with the plan, or from the words that the plan has."""
    if {ours.status, theirs.status} & {"152", "153", "137", "77"}:
        return ""
    beside = bool(re.search(r"[|&]", text))
    one, other = (seen if not beside else _unordered(seen) for seen in (ours, theirs))
    if one != other:
        return f"the plan: {one}\nthe text: {other}"
    if any(isinstance(word, Live) for simple in simples(made) for word in simple.words):
        return ""
    named = {"\037".join((simple.name, str(len(simple.words) - 1), *simple.words[1:])) for simple in simples(made)}
    for call in theirs.calls:
        argv = call.rsplit("\037", 1)[0]
        if argv not in named and "TOP" not in argv:
            return f"bash called {argv!r}, which the plan does not have"
    return ""


def _unordered(seen: Seen) -> Seen:
    """Parts of a pipeline run at the same time."""
    return seen._replace(calls=tuple(sorted(seen.calls)), printed="".join(sorted(seen.printed)))


def compared(texts: Sequence[str], ground: Ground, size: int = 400) -> tuple[int, list[tuple[str, str, str]]]:
    """How many texts became plans, and those about which bash and the plan disagree."""
    accepted = 0
    wrong: list[tuple[str, str, str]] = []
    batch: list[tuple[str, Plan, bool]] = []
    for index, text in enumerate(texts):
        made = ground.planned(text)
        if isinstance(made, Plan):
            accepted += 1
            if is_safe_to_run(made):
                batch.append((text, made, ">" in text))
        if batch and (len(batch) >= size or index == len(texts) - 1):
            wrong += _batch(batch, ground)
            batch = []
    if batch:
        wrong += _batch(batch, ground)
    return accepted, wrong


def _batch(batch: list[tuple[str, Plan, bool]], ground: Ground) -> list[tuple[str, str, str]]:
    names = {simple.words[0] for _, made, _ in batch for simple in simples(made)} - _BUILTINS
    pairs = [(text, writes) for one, made, writes in batch for text in (one, render(made))]
    seen = observed(pairs, names, ground)
    found: list[tuple[str, str, str]] = []
    for (text, made, writes), theirs, ours in zip(batch, seen[::2], seen[1::2], strict=True):
        why = disagreement(text, made, ours, theirs)
        if why and re.search(r"[|&]", text):
            # The parts of `good > f | bad < f` race: bash itself then has more than one right answer.
            again = observed([(text, writes)] * 4, names, ground)
            why = why if all(disagreement(text, made, ours, other) for other in again) else ""
        if why:
            found.append((text, render(made), why))
    return found


_BUILTINS = frozenset(
    {"cd", "pwd", "echo", "printf", "true", "false", "test", "[", ":", "exit", "command", "type", "kill", "jobs"}
)


def available() -> bool:
    return os.access(BASH, os.X_OK)
