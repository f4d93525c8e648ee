"""Which remotes a git command would reach: their addresses as the repository's settings say, read as data.

What is read here is shown, asked about and granted; the broker lets git reach nothing else, so where git itself reads
its settings otherwise, it reaches nothing.
"""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from adderclaw.core.errors import PathRefused
from adderclaw.core.types import RemoteFact
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS
from adderclaw.policy.legacy.programs.git import command_of
from adderclaw.policy.legacy.programs.options import parse
from adderclaw.policy.legacy.shell.plan import Live
from adderclaw.policy.legacy.shell.planner import Plan, Simple, simples
from adderclaw.sandbox import workspace
from adderclaw.sandbox.broker import Grant, Service
from adderclaw.sandbox.workspace.gitconfig import parse as parse_settings

MOST_BYTES = 1 << 20
FORCES = frozenset({"-f", "--force", "-d", "--delete", "--mirror", "--prune", "--force-with-lease"})
SETS = frozenset({"add", "set-url", "rename", "remove", "rm"})
FORCED = "it overwrites or deletes branches there"
NOT_CONFIGURED = "it is not a remote of this repository"
NOT_OWN = "it is a remote of another repository than the workspace's own"
SET = "it changes where code comes from and goes to"
UNKNOWN = "where it leads is not known"


class Reached(NamedTuple):
    facts: tuple[RemoteFact, ...] = ()
    grants: tuple[Grant, ...] = ()


def reached(plan: Plan, cwd: str, roots: tuple[str, ...]) -> Reached:
    facts: dict[RemoteFact, None] = {}
    grants: dict[Grant, None] = {}
    for simple in simples(plan):
        if simple.name == "git" and not any("\0" in word for word in simple.words):
            for folder in simple.folders:
                for fact, grant in _of_command(simple, os.path.normpath(os.path.join(cwd, folder)), roots):
                    facts[fact] = None
                    grants |= {grant: None} if grant is not None else {}
    return Reached(tuple(facts), tuple(grants))


def _of_command(simple: Simple, cwd: str, roots: tuple[str, ...]) -> Iterator[tuple[RemoteFact, Grant | None]]:
    command, rest, _ = command_of(simple.words)
    if command not in ("fetch", "pull", "push", "clone", "ls-remote", "remote", "submodule", "lfs"):
        return
    words = simple.words[1:]
    for option, value in pairwise(words):
        if option == command:
            break
        cwd = os.path.normpath(os.path.join(cwd, value)) if option == "-C" else cwd
    found = parse(rest, (PROGRAMS["git"].commands or {})[command])
    if command == "lfs":
        if found.operands[:1] not in (("push",), ("fetch",), ("pull",)):
            return
        command, found = found.operands[0], found._replace(operands=found.operands[1:], given=frozenset())
    if any(isinstance(word, Live) for word in (*simple.words[: len(simple.words) - len(rest)], *found.operands[:1])):
        yield (
            RemoteFact("push" if command == "push" else "fetch", "an address that is made when it runs", UNKNOWN),
            None,
        )
        return
    here = Repository.around(cwd, roots)
    service: Service = "git-receive-pack" if command == "push" else "git-upload-pack"
    if command == "remote" and found.operands[:1] and found.operands[0] in SETS:
        yield RemoteFact("set", _masked(" ".join(found.operands[1:])), SET), None
        return
    # Git takes the beginning of an option for the option (`--del`): one that is not known could be any.
    harmful = FORCES & found.given or found.strange or any(map(_forces, found.operands[1:]))
    for name, url in _addresses(command, found.operands, found.given, here):
        forced = command == "push" and (harmful or here.forces(name))
        each = FORCED if forced else "" if name in here.remotes() else NOT_CONFIGURED
        if not each and here.top != roots[0]:
            each = NOT_OWN
        grant = address(url, service)
        if grant is None and _is_local(url):
            continue
        yield RemoteFact("push" if command == "push" else "fetch", _masked(url), each if grant else UNKNOWN), grant


def _forces(refspec: str) -> bool:
    """What is not known before it runs could."""
    return refspec.startswith(("+", ":")) or isinstance(refspec, Live)


def _addresses(
    command: str, operands: tuple[str, ...], given: frozenset[str], here: "Repository"
) -> Iterator[tuple[str, str]]:
    """(The remote as it is called, its address)"""
    if command == "submodule":
        yield from here.submodules(operands[:1])
    elif command == "clone":
        yield "", here.rewritten(operands[0] if operands else "", push=False)
    elif command == "remote":
        names = operands[1:] if operands[:1] in (("show",), ("prune",)) else here.remotes()
        if operands[:1] in (("show",), ("prune",), ("update",)):
            yield from ((name, url) for name in names for url in here.urls(name, push=False))
    else:
        push = command == "push"
        names = here.remotes() if "--all" in given and not push else operands[:1] or (here.usual(push=push),)
        yield from ((name, url) for name in names for url in here.urls(name, push=push))


class Repository:
    """The settings of the repository that a folder lies in; empty where there is none."""

    def __init__(self, top: str, branch: str, settings: dict[str, list[str]], modules: dict[str, list[str]]) -> None:
        self.top, self.branch, self._settings, self._modules = top, branch, settings, modules

    @classmethod
    def around(cls, folder: str, roots: tuple[str, ...]) -> "Repository":
        here = folder
        while (place := workspace.within_roots(here, roots)) is not None:
            git = _git_directory(here, roots)
            if git:
                common = os.path.normpath(os.path.join(git, _text(f"{git}/commondir", roots).strip() or "."))
                head = _text(f"{git}/HEAD", roots).strip()
                texts = (_text(f"{common}/config", roots), _text(f"{git}/config.worktree", roots))
                modules = _gathered(parse_settings(_text(f"{here}/.gitmodules", roots)).entries)
                branch = head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else ""
                return cls(
                    place.text,
                    branch,
                    _gathered(pair for text in texts for pair in parse_settings(text).entries),
                    modules,
                )
            here = os.path.dirname(here)
        return cls("", "", {}, {})

    def _last(self, key: str) -> str:
        return self._settings.get(key, [""])[-1]

    def remotes(self) -> tuple[str, ...]:
        found = (re.fullmatch(r"remote\.(.*)\.(?:push)?url", key, re.DOTALL) for key in self._settings)
        return tuple(dict.fromkeys(match[1] for match in found if match))

    def usual(self, *, push: bool) -> str:
        """The remote that git takes where none is named."""
        named = [self._last(f"branch.{self.branch}.remote")]
        if push:
            named = [self._last(f"branch.{self.branch}.pushremote"), self._last("remote.pushdefault"), *named]
        return next(filter(None, named), "origin")

    def urls(self, name: str, *, push: bool) -> list[str]:
        pushed = self._settings.get(f"remote.{name}.pushurl", []) if push else []
        fetched = self._settings.get(f"remote.{name}.url", [])
        if pushed:
            return [self.rewritten(url, push=False) for url in pushed]
        return [self.rewritten(url, push=push) for url in fetched or [name]][: None if push else 1]

    def forces(self, name: str) -> bool:
        """Whether the settings of a remote overwrite or remove where no word of the command does."""
        mirrors = self._last(f"remote.{name}.mirror").casefold() not in ("", "false", "no", "off", "0")
        return mirrors or any(map(_forces, self._settings.get(f"remote.{name}.push", [])))

    def rewritten(self, url: str, *, push: bool) -> str:
        """With the longest `insteadOf` of the repository's own settings."""
        for kind in ("pushinsteadof", "insteadof") if push else ("insteadof",):
            bases = (
                (value, key[len("url.") : -len(kind) - 1])
                for key, values in self._settings.items()
                if key.startswith("url.") and key.endswith(f".{kind}")
                for value in values
            )
            fitting = [(value, base) for value, base in bases if value and url.startswith(value)]
            if fitting:
                value, base = max(fitting, key=lambda pair: len(pair[0]))
                return base + url[len(value) :]
        return url

    def submodules(self, command: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        if command != ("update",):
            return
        for key, values in {**self._modules, **self._settings}.items():
            if key.startswith("submodule.") and key.endswith(".url"):
                yield "", self.rewritten(self._against_origin(values[-1]), push=False)

    def _against_origin(self, url: str) -> str:
        """`../other` is beside the remote that this repository is from."""
        base = next(iter(self.urls(self.usual(push=False), push=False)), "")
        if not url.startswith(("./", "../")):
            return url
        while url.startswith(("./", "../")):
            if url.startswith("../"):
                base = re.sub(r"[/:][^/:]*/?$", "", base)
            url = url.split("/", 1)[1]
        return f"{base.rstrip('/')}/{url}"


def _git_directory(folder: str, roots: tuple[str, ...]) -> str:
    place = workspace.within_roots(f"{folder}/.git", roots)
    if place is None:
        return ""
    try:
        if workspace.is_folder(place):
            return f"{folder}/.git"
    except (OSError, PathRefused):
        return ""
    pointed = _text(f"{folder}/.git", roots).partition("gitdir:")[2].strip()
    return os.path.normpath(os.path.join(folder, pointed)) if pointed else ""


def _text(path: str, roots: tuple[str, ...]) -> str:
    place = workspace.within_roots(path, roots)
    try:
        return workspace.read(place, MOST_BYTES).decode("utf-8-sig", "replace") if place is not None else ""
    except (OSError, PathRefused):
        return ""


def _gathered(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


# ------------------------------------------------------------------ addresses


def address(url: str, service: Service) -> Grant | None:
    """What the broker is to reach for an address; None where it is none that it can."""
    web = re.fullmatch(r"(https?)://(?:([^/@:]*)(?::[^/@]*)?@)?([^/@:\[\]]+)(?::(\d{1,5}))?(/.*)?", url, re.DOTALL)
    if web is not None and web[3].isascii():  # letters that look like others are nobody's address
        scheme = "https" if web[1] == "https" else "http"
        port = int(web[4]) if web[4] else 443 if scheme == "https" else 80
        return Grant(scheme, web[2] or "", web[3].lower(), port, web[5] or "/", service)
    ssh = re.fullmatch(r"(?:git\+)?ssh(?:\+git)?://(?:([^/@:]*)@)?([^/@:\[\]]+)(?::(\d{1,5}))?(/.*)", url, re.DOTALL)
    if ssh is not None:
        path = ssh[4][1:] if ssh[4].startswith("/~") else ssh[4]
        return _ssh(ssh[1] or "", ssh[2], int(ssh[3] or 0), path, service)
    short = re.fullmatch(r"(?:([^/@:]*)@)?([^/@:\[\]]+):((?!:).+)", url, re.DOTALL)
    if short is not None and "://" not in url:
        return _ssh(short[1] or "", short[2], 0, short[3], service)
    return None


def _ssh(user: str, host: str, port: int, path: str, service: Service) -> Grant | None:
    # What ssh could take for an option, or its settings for a pattern or a command, is no name.
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", host) or not re.fullmatch(r"[A-Za-z0-9_.+-]{0,64}", user):
        return None
    if user.startswith("-") or path.startswith("-") or re.search(r"[\0-\x1f\x7f]", path):
        return None
    return Grant("ssh", user, host, port, path, service)


def _is_local(url: str) -> bool:
    """A folder: git opens it itself, inside, where nothing but the workspace is."""
    return url.startswith("file://") or (":" not in url.split("/", 1)[0] and "://" not in url)


def _masked(url: str) -> str:
    """For people: what stands before the host in a web address is nobody's business; nothing that cannot be shown."""
    shown = re.sub(r"(\w+://)[^/@\s]*:[^/@\s]*@", r"\1***@", url)
    return "".join(sign if sign.isprintable() else "?" for sign in shown)[:300]
