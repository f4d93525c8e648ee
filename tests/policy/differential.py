"""What real bash does with a text: the calls that it makes, in batches; every program is a function that only notes."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from adderclaw.policy.legacy.shell.plan import (
    Live,
    Output,
    Plan,
    Raw,
    Simple,
    Step,
    bodies,
    commands,
    live_words,
    redirects,
    simples,
)
from adderclaw.policy.legacy.shell.planner import Facts, plan, quote, render
from adderclaw.policy.legacy.shell.render import REFUSED
from adderclaw.tools.legacy import wildcards

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
FOLDERS = ("", "w", "w/src", "w/src/sub", "w/docs")
PRELUDE = r"""
trap '' PIPE
TIMEFORMAT=timed
shim() {
  local name=$1 status; shift
  (( ++SHIM_COUNT > 60 )) && exit 77
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
  local odd='-*|*/|//*|'
  if (( $# != 1 )) || [[ $1 == @($odd) || ( $1 == /* && $1 != /*/* ) ]]; then shim dirname "$@"; return; fi
  if [[ $1 == */* ]]; then printf '%s\n' "${1%/*}"; else printf '.\n'; fi
}
real_seq() {
  local first=1 step=1 last pad=0
  if [[ $1 == -w ]]; then pad=1; shift; fi
  case $# in 1) last=$1;; 2) first=$1 last=$2;; 3) first=$1 step=$2 last=$3;; *) shim seq "$@"; return;; esac
  local one
  for one in "$first" "$step" "$last"; do
    if [[ ! $one =~ ^-?(0|[1-9][0-9]*)$ ]]; then shim seq "$@"; return; fi
  done
  (( pad )) && (( pad = ${#first} > ${#last} ? ${#first} : ${#last} ))
  (( step )) || return 1
  for (( one = first; step > 0 ? one <= last : one >= last; one += step )); do printf '%0*d\n' "$pad" "$one"; done
}
"""
CASE = r"""(trap wait EXIT; ulimit -t 1 -f 1000; cd {folder} || exit; eval {text}) 2>/dev/null
SHIM_STATUS=$?
printf '\035%s\035' $SHIM_STATUS >&9
times >&9
printf '\034' >&9
printf '\034'
case $SHIM_STATUS in 152|153|137) exit;; esac
"""
WAITED = CASE.replace("(trap", "SHIM_STATUS=$( (trap").replace(
    "2>/dev/null\nSHIM_STATUS=$?", "8>&1 >&7 2>/dev/null; echo $?)"
)
"""For a text with <(…), which bash does not wait for: all that it starts holds descriptor 8, and that is waited for."""
MUCH, MANY = 0.5, 100_000
"""Seconds of CPU time, and characters, after which a command counts as cut off, wherever in it a limit struck."""


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
        for name in FOLDERS:
            os.mkdir(self.top / f"f{self.count}" / name)
        for name in FILES:
            with open(f"{folder}/{name}", "w") as file:
                file.write(f"{name}\n")
        return folder

    def facts(self) -> Facts:
        cwd = str(self.shared)
        return Facts(cwd, {**ENVIRONMENT, "HOME": str(self.top)}, wildcards.within(cwd, (cwd,)), confined=True)

    def planned(self, text: str) -> Plan | Raw:
        return plan(text, resolve, facts=self.facts())


def why_not_run(made: Plan) -> str:
    """Why a text is not given to bash here: what it would write lies elsewhere, or bash itself is not of one mind."""
    if any(re.search(r"[^\w.+\[:/@%,~=-]", simple.words[0]) for simple in simples(made)):
        return "odd names"
    if re.search(r"\bcommand\b(?!\s+-[vV])", re.sub(r"[\\'\"]", "", made.text)):
        return "past the shims"  # `command x` runs no function, and here every program is one
    within = [step for one in commands(made.body) for body in bodies(one) for step in (*body.steps, body)]
    if any("&" in (step.after if isinstance(step, Step) else step.tail) for step in within):
        return "left behind"  # what a subshell leaves in the background cannot be waited for
    targets = [redirect.target for redirect in redirects(made) if redirect.writes or redirect.operator == "<"]
    if any((t.startswith("/") and t != "/dev/null") or ".." in t for t in targets):
        return "far targets"
    written = [r.target for r in redirects(made) if r.writes and r.target != "/dev/null"]
    beside = any("&" in (step.after, made.body.tail) for step in made.body.steps)
    if written and (beside or (is_concurrent(made) and len(set(written)) < len(written))):
        return "racing writers"  # who of those that run at the same time writes first, bash does not say
    if is_concurrent(made) and any(simple.words[0] == "kill" for simple in simples(made)):
        return "killed beside"  # how far a command came before it was killed, bash does not say
    if written and is_concurrent(made) and re.search(r"[*?\[]", made.text):
        return "racing writers"  # whether a glob finds what is written beside it, bash does not say either
    return ""


def is_concurrent(made: Plan) -> bool:
    """Whether commands of the plan run at the same time."""
    if any(word.is_file for one in commands(made.body) for word in live_words(one)):
        return True
    scripts = [made.body]
    while scripts:
        script = scripts.pop()
        if script.tail or any(step.after == "&" or len(step.commands) > 1 for step in script.steps):
            return True
        for step in script.steps:
            for one in step.commands:
                scripts += bodies(one)
                scripts += (
                    piece.body for word in live_words(one) for piece in word.pieces if isinstance(piece, Output)
                )
    return False


def writes_files(made: Plan) -> bool:
    return any(redirect.writes and redirect.target != "/dev/null" for redirect in redirects(made))


def observed(texts: Sequence[tuple[str, bool]], names: Iterable[str], ground: Ground) -> list[Seen]:
    """What bash does with each text; those that write files get a folder of their own."""
    seen: list[Seen] = []
    while len(seen) < len(texts):
        found = _observed(texts[len(seen) :], names, ground)
        # What a text without an end has filled up, those after it have no room in.
        last = next((n for n, one in enumerate(found) if one.status in (FULL, LONG)), len(found))
        seen += found[: last + 1]
    return seen


def _observed(texts: Sequence[tuple[str, bool]], names: Iterable[str], ground: Ground) -> list[Seen]:
    folders = [ground.fresh() if writes else ground.shared for _, writes in texts]
    shims = "".join(map(_shim, sorted({*names, *_REAL})))
    cases = "".join(
        (WAITED if "<(" in text else CASE).format(folder=quote(str(folder)), text=quote(text))
        for (text, _), folder in zip(texts, folders, strict=True)
    )
    script, log, out = (ground.top / f"{kind}{ground.count}" for kind in ("script", "log", "out"))
    ground.count += 1
    script.write_text(PRELUDE + shims + cases)
    with log.open("wb") as noted, out.open("wb") as printed:
        subprocess.run(
            [BASH, "--norc", "--noprofile", "-c", f"exec 7>&1 9>&2 2>/dev/null; . {quote(str(script))}"],
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
    assert 0 < len(logs) == len(outs) <= len(texts), (len(logs), len(outs), len(texts))
    shared = str(ground.shared)
    notes, spent = list[str](), 0.0
    for said, (noted, _, times) in zip(outs, (one.rpartition("\035") for one in logs), strict=True):
        before, spent = spent, sum(60 * float(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", times)[2:])
        ends = spent - before < MUCH and max(len(said), len(noted)) < MANY
        notes.append(noted if ends else re.sub(r"\w+$", LONG, noted))
    return [_seen(*one, shared) for one in zip(notes, outs, folders, texts, strict=False)]


_REAL = frozenset({"cat", "basename", "dirname", "seq"})
"""Programs whose output the planner may work out itself."""


def _shim(name: str) -> str:
    called = f"real_{name}" if name in _REAL else f"shim {name}"
    return "".join(f'function {n} {{ {called} "$@"; }}\n' for n in (name, f"/shim/{name}"))


def _seen(log: str, printed: str, folder: Path, given: tuple[str, bool], shared: str) -> Seen:
    calls, status = log.rsplit("\035", 1)
    files: tuple[str, ...] = ()
    if given[1]:
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        files = tuple(f"{path.relative_to(folder)}: {path.read_text('utf-8', 'replace')}" for path in found)
        shutil.rmtree(folder.parent)

    def plain(text: str) -> str:
        return placeless(text, str(folder), shared)

    noted = tuple(plain(call) for call in calls.split("\036") if call)
    return Seen(noted, plain(printed), status, tuple(map(plain, files)))


def placeless(text: str, *folders: str) -> str:
    """The text without what differs from one folder, or one line of the batch, to another."""
    text = re.sub(r"\S+/script\d+: line \d+: ", "", text)
    for path in folders:
        text = text.replace(path, "TOP").replace(os.path.dirname(path), "UP")
    return text


LONG, FULL = "long", "153"
CUT = frozenset({"152", FULL, "137", "77", LONG})
"""How a run ends that took too long, wrote too much or called too often."""


def strange_call(made: Plan, theirs: Seen, shared: str) -> str:
    """A call that bash made with words that the plan does not have; what only bash knows of a word may be anything."""
    expected = {_argv(simple, shared) for simple in simples(made)}
    known = re.compile("|".join(f"(?:{one})" for one in expected) or "(?!)", re.DOTALL)
    for call in theirs.calls:
        argv = call.rsplit("\037", 1)[0]
        if not known.fullmatch(argv):
            return f"bash called {argv!r}, which the plan does not have"
    return ""


def _argv(simple: Simple, shared: str) -> str:
    """What a call of the command looks like in the log, as an expression."""
    words = simple.words[1:]
    splits = any(isinstance(word, Live) and word.splits for word in words)
    found = [re.escape(simple.words[0]), "\037", r"\d+" if splits else str(len(words))]
    for word in words:
        pieces = word.pieces if isinstance(word, Live) else (word,)
        inner = "".join(re.escape(placeless(piece, shared)) if isinstance(piece, str) else ".*" for piece in pieces)
        found.append(f"(?:\037{inner})?" if isinstance(word, Live) and word.splits else f"\037{inner}")
    return "".join(found)


def _unordered(seen: Seen) -> Seen:
    """Parts of a pipeline run at the same time."""
    return seen._replace(calls=tuple(sorted(seen.calls)), printed="".join(sorted(seen.printed)))


class Tally:
    """What became of the texts: every one is counted, and none is left out silently."""

    def __init__(self) -> None:
        self.texts = self.plans = self.exact = 0
        self.others: dict[str, int] = {}
        """Plans of which less was compared, by the reason."""
        self.wrong: list[tuple[str, str, str]] = []

    def less(self, why: str) -> None:
        self.others[why] = self.others.get(why, 0) + 1

    def add(self, other: "Tally") -> "Tally":
        self.texts += other.texts
        self.plans += other.plans
        self.exact += other.exact
        self.wrong += other.wrong
        for why, count in other.others.items():
            self.others[why] = self.others.get(why, 0) + count
        return self

    def __str__(self) -> str:
        others = ", ".join(f"{why} {count:,}" for why, count in sorted(self.others.items(), key=lambda one: -one[1]))
        return (
            f"{self.texts:,} commands, {self.plans / self.texts:.1%} are plans, of which {self.exact / self.plans:.1%} "
            f"were compared exactly, {len(self.wrong)} differ (not exactly: {others or 'none'})"
        )


def compared(texts: Sequence[str], ground: Ground, size: int = 600) -> Tally:
    """What bash does with the texts that became plans, and with the plans."""
    tally = Tally()
    batch: list[tuple[str, Plan]] = []
    for text in texts:
        tally.texts += 1
        made = ground.planned(text)
        if isinstance(made, Raw):
            continue
        tally.plans += 1
        why = why_not_run(made)
        if why:
            tally.less(why)
            continue
        batch.append((text, made))
        if len(batch) >= size:
            _batch(batch, ground, tally)
            batch = []
    if batch:
        _batch(batch, ground, tally)
    assert tally.plans == tally.exact + sum(tally.others.values()) + len(tally.wrong)
    return tally


def _batch(batch: list[tuple[str, Plan]], ground: Ground, tally: Tally) -> None:
    names = {simple.words[0] for _, made in batch for simple in simples(made)} - _BUILTINS
    # Whatever looks like a path is no program here, even where the plan and bash should differ about it.
    names |= {name for text, _ in batch for name in re.findall(r"[\w.+~-]*/[\w.+/-]*\w", text)}
    pairs = [(text, writes_files(made)) for one, made in batch for text in (one, render(made))]
    seen = observed(pairs, names, ground)
    for (text, made), theirs, ours in zip(batch, seen[::2], seen[1::2], strict=True):
        _judge(text, made, ours, theirs, names, ground, tally)


def _judge(text: str, made: Plan, ours: Seen, theirs: Seen, names: set[str], ground: Ground, tally: Tally) -> None:
    if {ours.status, theirs.status} & CUT:
        tally.less("cut off")
        return
    strange = strange_call(made, theirs, str(ground.shared))
    why = strange or (f"the plan: {ours}\nthe text: {theirs}" if ours != theirs else "")
    if not why:
        tally.exact += 1
    elif not strange and any(REFUSED in call for call in ours.calls):
        tally.less("a guard refused a word")
    elif not strange and is_concurrent(made) and _is_one_of(text, made, ours, theirs, names, ground):
        tally.less("in another order")
    else:
        tally.wrong.append((text, render(made), why))


def _is_one_of(text: str, made: Plan, ours: Seen, theirs: Seen, names: set[str], ground: Ground) -> bool:
    """The parts of `good > f | bad < f` race: bash itself then has more than one right answer."""
    if _unordered(ours) == _unordered(theirs):
        return True
    # Either may have come to the rarer answer, on a busy machine above all: both get further tries.
    writes = writes_files(made)
    again = observed([(text, writes), (render(made), writes)] * 4, names, ground)
    return not {_unordered(theirs), *map(_unordered, again[::2])}.isdisjoint(
        {_unordered(ours), *map(_unordered, again[1::2])}
    )


_BUILTINS = frozenset(
    {"cd", "pwd", "echo", "printf", "true", "false", "test", "[", ":", "exit", "command", "type", "kill", "jobs"}
    | {"pushd", "popd", "source"}
)


def available() -> bool:
    return os.access(BASH, os.X_OK)
