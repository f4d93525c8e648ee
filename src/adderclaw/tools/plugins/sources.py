"""Fetches plugins from repositories, and reads marketplaces, which list plugins.

Git runs nothing from the repository: nothing is checked out. Files are read from git's store as they were committed, so
that no filter, hook, attribute or submodule has an effect.
"""

import asyncio
import json
import os
import re
from collections.abc import Iterator
from typing import Any, cast

from adderclaw.config.plugins.manifest import FOREIGN, OWN, inner
from adderclaw.config.plugins.tree import MOST_BYTES, MOST_FILES, NOT_COPIED, unfit
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.sandbox import process, programs
from adderclaw.sandbox.capture import Capture
from adderclaw.tools.plugins import folders
from adderclaw.tools.plugins.folders import Folder, Source

MARKETPLACE = ".claude-plugin/marketplace.json"
SECONDS = 120.0
FETCHED_BYTES = 256 << 20
"""Git is ended when it has written more than this to disk."""
SMALL_BYTES = 1 << 20
REF = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/+-]*[A-Za-z0-9._+-])?")
URL = re.compile(r"(https|ssh|file)://([^/]*)(/.*)")
SCP = re.compile(r"([A-Za-z0-9._-]+@[A-Za-z0-9.-]+):((?!/)[^@]+)(?:@(.*))?")
ADDRESS_FORMS = "https://HOST/REPOSITORY, ssh://HOST/REPOSITORY, git@HOST:REPOSITORY or file:///REPOSITORY"
SETTINGS = {
    "protocol.allow": "never",
    "core.symlinks": "true",
    "fetch.fsckObjects": "true",
    "transfer.bundleURI": "false",
    "fetch.bundleURI": "",
    "http.followRedirects": "initial",
    "http.maxRequests": "2",
    "core.bigFileThreshold": "32m",
}
"""In addition to the settings fixed for every git process that we start."""


class Address(NamedTuple):
    """A repository, written as `URL[@REF][#FOLDER]`."""

    url: str
    ref: str
    inside: str
    protocol: str


def parse_address(text: str) -> Address | None:
    """Parses the address of a repository; None for a path. Raises UsageError for an unsupported address."""
    location, _, inside = text.partition("#")
    if match := URL.fullmatch(location):
        scheme, host, path = match.groups()
        path, _, ref = path.partition("@")
        url, protocol = f"{scheme}://{host}{path}", scheme
        if "@" in host and (scheme != "ssh" or ":" in host.split("@")[0]):
            raise UsageError(
                f"{safe_text(text)}: a password or token does not belong in an address; use ssh, or clone it"
            )
        if scheme == "file" and host not in ("", "localhost"):
            raise UsageError(f"{safe_text(text)}: a file address must not contain a host; write file:///…")
    elif match := SCP.fullmatch(location):
        url, protocol, ref = f"{match[1]}:{match[2]}", "ssh", match[3] or ""
    elif "://" in location or re.match(r"[A-Za-z0-9+.-]+::", location):
        raise UsageError(f"{safe_text(text)}: this kind of address is not supported; use a folder, or {ADDRESS_FORMS}")
    else:
        return None
    if ref and (not REF.fullmatch(ref) or ".." in ref):
        raise UsageError(f"{safe_text(text)}: {safe_text(ref)} is not a valid name of a branch, tag or commit")
    if (folder := inner(inside) if inside else ".") is None:
        raise UsageError(f"{safe_text(text)}: {safe_text(inside)} is not a folder in the repository")
    return Address(url, ref, folder, protocol)


def safe_text(text: str) -> str:
    return visible(text, keep_newlines=False, directions=False)[:300]


# ------------------------------------------------------------------ a repository


class Entry(NamedTuple):
    path: str
    mode: str
    sha: str
    size: int


class Repository:
    """One commit of a repository, fetched into a git store of its own."""

    def __init__(self, where: Address, store: str) -> None:
        self._where, self._store = where, store
        self.commit = ""

    @property
    def origin(self) -> Json:
        known: Json = {"kind": "git", "url": self._where.url, "commit": self.commit}
        return known | ({"ref": self._where.ref} if self._where.ref else {})

    def fetch(self) -> None:
        """Fetches the commit; raises AdderClawError."""
        asyncio.run(self._fetch())

    async def _fetch(self) -> None:
        await self._git("init", "--quiet", "--bare", "--template=")
        ref = self._where.ref or "HEAD"
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        watching = asyncio.ensure_future(self._wait_until_too_large())
        fetching = asyncio.ensure_future(
            self._git("fetch", *options, "--", self._where.url, f"+{ref}:refs/heads/plugin", reaches=True)
        )
        await asyncio.wait((watching, fetching), return_when=asyncio.FIRST_COMPLETED)
        grown = watching.done()
        watching.cancel()
        if grown:
            fetching.cancel()
            await asyncio.gather(fetching, return_exceptions=True)
            url = safe_text(self._where.url)
            raise AdderClawError(f"{url} has more than {FETCHED_BYTES >> 20} MiB; nothing was installed")
        await fetching
        self.commit = (await self._git("rev-parse", "--verify", "refs/heads/plugin^{commit}")).decode().strip()

    async def _wait_until_too_large(self) -> None:
        """Returns when git has fetched too much."""
        while _folder_size(self._store) <= FETCHED_BYTES:  # noqa: ASYNC110 - git has no way to report it
            await asyncio.sleep(0.2)

    def read(self, path: str) -> bytes | None:
        path = os.path.normpath(os.path.join(self._where.inside, path))
        for entry in self._entries(path):
            if entry.path == path and entry.mode.startswith("100") and entry.size <= SMALL_BYTES:
                return next(self._contents([entry]))
        return None

    def copy(self, inside: str, to: int) -> None:
        folder = os.path.normpath(os.path.join(self._where.inside, inside))
        start = "" if folder == "." else f"{folder}/"
        files, links = list[Entry](), list[Entry]()
        for entry in self._entries(start):
            path = entry.path.removeprefix(start)
            if not path or any(part in ("", ".", "..") for part in path.split("/")):
                raise unfit(safe_text(entry.path), "is not a valid path")
            if any(part in NOT_COPIED for part in path.split("/")):
                continue
            if entry.mode == "120000":
                links.append(entry._replace(path=path))
            elif entry.mode in ("100644", "100755"):
                files.append(entry._replace(path=path))
            elif entry.mode != "160000":  # a submodule is not fetched
                raise unfit(safe_text(entry.path), f"has a file mode ({entry.mode}) that plugins must not contain")
        if not files:
            raise unfit(f"{safe_text(self._where.url)}#{safe_text(folder)}", "contains no files")
        if len(files) + len(links) > MOST_FILES:
            raise unfit(safe_text(self._where.url), f"contains more than {MOST_FILES} files")
        if sum(entry.size for entry in (*files, *links)) > MOST_BYTES:
            raise unfit(safe_text(self._where.url), f"contains more than {MOST_BYTES >> 20} MiB")
        left = MOST_BYTES
        for entry, data in zip((*files, *links), self._contents((*files, *links)), strict=True):
            if entry.mode == "120000":
                folders.write_link(to, entry.path, os.fsdecode(data))
            else:
                left = folders.write_file(to, entry.path, iter((data,)), runs=entry.mode == "100755", left=left)

    def _entries(self, start: str) -> Iterator[Entry]:
        listed = asyncio.run(self._git("ls-tree", "-r", "-z", "-l", "--full-tree", self.commit, most=32 << 20))
        for line in listed.split(b"\0"):
            about, tab, name = line.partition(b"\t")
            path = os.fsdecode(name)
            if tab and path.startswith(start):
                mode, _, sha, size = about.decode().split()
                yield Entry(path, mode, sha, int(size) if size != "-" else 0)

    def _contents(self, entries: "list[Entry] | tuple[Entry, ...]") -> Iterator[bytes]:
        """The committed bytes of each file."""
        asked = "".join(f"{entry.sha}\n" for entry in entries).encode()
        most = sum(entry.size + 200 for entry in entries)
        data = asyncio.run(self._git("cat-file", "--batch", stdin=asked, most=most))
        position = 0
        for entry in entries:
            end = data.index(b"\n", position)
            sha, kind, size = data[position:end].decode().split()
            if sha != entry.sha or kind != "blob" or int(size) != entry.size:
                raise AdderClawError(f"{safe_text(entry.path)}: the repository is damaged; git returned another object")
            yield data[end + 1 : end + 1 + entry.size]
            position = end + 2 + entry.size

    async def _git(self, *words: str, reaches: bool = False, stdin: bytes = b"", most: int = SMALL_BYTES) -> bytes:
        git = programs.resolve_outside_sessions("git")
        if git is None:
            raise AdderClawError("git is not on PATH (folders of projects do not count); install it, or use a folder")
        settings = dict(SETTINGS)
        if reaches:
            settings[f"protocol.{self._where.protocol}.allow"] = "always"
        fixed = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        captures = (Capture(most), Capture(8_192, 8_192))
        done = await process.run(
            [git, *fixed, f"--git-dir={self._store}", *words],
            cwd=self._store,
            env=_environment(self._where.protocol if reaches else ""),
            timeout=SECONDS,
            stdin=stdin,
            into=captures,
        )
        if done.timed_out:
            raise AdderClawError(f"{safe_text(self._where.url)}: git did not finish within {SECONDS:g} seconds")
        if done.returncode or done.stdout_cut:
            message = safe_text(done.stderr.decode("utf-8", "replace").strip().replace("\n", "; "))
            raise AdderClawError(f"{safe_text(self._where.url)} cannot be fetched: {message or 'git failed'}")
        return done.stdout


def _environment(protocol: str) -> dict[str, str]:
    """Ignores the operator's git settings; from their ssh, only keys and known hosts are used."""
    env = process.environment(
        {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_LFS_SKIP_SMUDGE": "1"}, workspace_roots=programs.roots_outside_sessions()
    )
    if protocol == "ssh":
        env["GIT_SSH_COMMAND"] = "ssh -o BatchMode=yes -o ForwardAgent=no -o ForwardX11=no -o PermitLocalCommand=no"
        env |= {name: os.environ[name] for name in ("SSH_AUTH_SOCK",) if name in os.environ}
    if protocol == "https":
        proxies = (
            "https_proxy",
            "HTTPS_PROXY",
            "no_proxy",
            "NO_PROXY",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
            "GIT_SSL_CAINFO",
        )
        env |= {name: os.environ[name] for name in proxies if name in os.environ}
    return env


def _folder_size(folder: str) -> int:
    total, waiting = 0, [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:  # git renames files while it fetches
            continue
    return total


# ------------------------------------------------------------------ marketplaces


class ChosenPlugin(NamedTuple):
    inside: str
    """The plugin's folder in the source."""
    manifest: Json
    """The marketplace's description, for a folder without a manifest."""
    marketplace: str = ""


def choose_plugin(source: Source, plugin_name: str | None) -> ChosenPlugin:
    """The plugin of a source to install; raises UsageError with the list of plugins if the choice is not clear."""
    data = source.read(MARKETPLACE)
    if data is None and plugin_name is not None:
        raise UsageError(
            f"--plugin {safe_text(plugin_name)}: there is no {MARKETPLACE} to choose from; leave --plugin out"
        )
    is_plugin = any(source.read(name) is not None for name in (FOREIGN, OWN))
    if data is None or (plugin_name is None and is_plugin):
        return ChosenPlugin(".", {})
    name, listed = _read_marketplace(data)
    by_name = {str(entry["name"]): entry for entry in listed}
    if plugin_name is None and len(listed) > 1:
        raise UsageError(f"this is a marketplace; choose a plugin with --plugin NAME: {_names(listed)}")
    plugin_name = plugin_name or next(iter(by_name))
    if plugin_name not in by_name:
        raise UsageError(
            f"--plugin {safe_text(plugin_name)}: the marketplace has no such plugin; it has: {_names(listed)}"
        )
    entry = by_name[plugin_name]
    path = inner(entry["source"]) if isinstance(entry.get("source"), str) else None
    if path is None:
        other_source = safe_text(json.dumps(entry.get("source")))
        raise UsageError(
            f"{safe_text(plugin_name)} is not stored in the marketplace but at {other_source}; install it from there"
        )
    description = {key: value for key, value in entry.items() if key not in ("source", "strict", "category", "tags")}
    return ChosenPlugin(path, description, name)


def _read_marketplace(data: bytes) -> tuple[str, list[Json]]:
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{MARKETPLACE}: not JSON: {safe_text(str(error))}") from None
    table = cast(Json, value) if isinstance(value, dict) else {}
    root: Any = table.get("metadata")
    base = cast(Json, root).get("pluginRoot", "") if isinstance(root, dict) else ""
    entries: Any = table.get("plugins")
    listed: list[Json] = []
    for item in cast(list[Any], entries if isinstance(entries, list) else []):
        if isinstance(item, dict) and isinstance(cast(Json, item).get("name"), str):
            entry = dict(cast(Json, item))
            at = entry.get("source")
            if isinstance(base, str) and base and isinstance(at, str) and not at.startswith("."):
                entry["source"] = f"{base}/{at}"
            listed.append(entry)
    if not listed:
        raise UsageError(f"{MARKETPLACE}: it lists no plugin")
    return str(table.get("name", "")), listed


def _names(listed: list[Json]) -> str:
    return ", ".join(safe_text(entry["name"]) for entry in listed[:50]) + (" …" if len(listed) > 50 else "")


def folder_source(path: str) -> Folder:
    """A folder as a source; raises UsageError if it does not exist."""
    source = Folder(path)
    if not os.path.isdir(source.path):
        hint = ""
        if re.fullmatch(r"[\w-]+/[\w.-]+", path):
            hint = f"; for a repository, use its address, such as https://github.com/{path}"
        raise UsageError(f"{safe_text(path)}: there is no such folder{hint}")
    return source
