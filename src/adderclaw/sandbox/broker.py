"""The broker: lets one git call use the operator's keys, for the remotes that were approved for it and no others.

It runs in AdderClaw's process, outside every sandbox. Git in the sandbox asks it over an inherited socket
(`git_helper.py`) and gets bytes: from an ssh that uses the operator's agent and settings, or from connections to that
one host. The sandbox sees neither a key nor an agent. Each request is compared with what was approved, regardless of
git's settings in the sandbox.
"""

import array
import asyncio
import contextlib
import os
import re
import shlex
import socket
import sys
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from adderclaw.config import home
from adderclaw.core.errors import AdderClawError
from adderclaw.models.credentials.unconfined import DEVNULL, PIPE, Unconfined
from adderclaw.sandbox.memory import memory_file
from adderclaw.sandbox.programs import resolve, search_path
from adderclaw.sandbox.proxy import FixedForward, Proxy

if TYPE_CHECKING:
    from adderclaw.sandbox.proxy import Judge

type Service = Literal["git-upload-pack", "git-receive-pack"]

FILL_SECONDS = 60.0
OPTIONS = ("-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "PermitLocalCommand=no", "-o", "ClearAllForwardings=yes")
"""Forward nothing and never prompt: only the keys of the agent are used."""
PASSED_VARIABLES = (
    "HOME",
    "LANG",
    "LOGNAME",
    "USER",
    "SSH_AUTH_SOCK",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "KRB5CCNAME",
)
PASSED_TO_HELPERS = (*PASSED_VARIABLES, "DBUS_SESSION_BUS_ADDRESS", "GNUPGHOME", "PASSWORD_STORE_DIR")
MAX_CERTIFICATES = 1 << 22
MAX_PRINTED = 1 << 20
MAX_ASKED, MAX_PROXIES = 64, 256
"""Limits of concurrent requests and of proxies per call: each costs resources outside the sandbox."""
NO_BROKER = "git cannot reach a remote here: the broker for keys works only on Linux. Let the operator fetch or push"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Grant(NamedTuple):
    """One remote that one call may use."""

    scheme: Literal["ssh", "http", "https"]
    user: str
    host: str
    port: int
    """0 if ssh's own settings decide."""
    path: str
    """The path as git requests it."""
    service: Service

    @property
    def authority(self) -> str:
        usual = {"http": 80, "https": 443}.get(self.scheme)
        return self.host if self.port in (0, usual) else f"{self.host}:{self.port}"

    @property
    def large_files(self) -> str:
        """The default LFS address of this remote, as git-lfs derives it; empty for ssh."""
        if self.scheme == "ssh":
            return ""
        who, path = f"{self.user}@" if self.user else "", self.path.rstrip("/").removesuffix(".git")
        return f"{self.scheme}://{who}{self.authority}{path}.git/info/lfs"


class Broker:
    """`with Broker(grants, roots) as broker`: the approval ends with the block.

    `roots`: the workspace; programs that the broker starts outside the sandbox are never taken from it.
    """

    def __init__(
        self,
        grants: tuple[Grant, ...],
        roots: tuple[str, ...],
        certificates: bytes = b"",
        reach: "Judge | None" = None,
    ) -> None:
        self._grants, self._roots, self._reach = grants, roots, reach
        self._only = grants[0] if len(grants) == 1 else None
        self._certificates = memory_file(certificates) if certificates else -1
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: set[Unconfined] = set()
        self._proxies: list[Proxy] = []
        self._is_clear = False
        """Whether the broker has the port of the local server, so that git-lfs reaches it and no other process."""
        if sys.platform != "linux":  # its socket and its certificates need Linux
            raise AdderClawError(NO_BROKER)
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)

    @property
    def fds(self) -> tuple[int, ...]:
        """The descriptors that git and its children inherit."""
        return self._theirs.fileno(), *((self._certificates,) if self._certificates >= 0 else ())

    @property
    def environment(self) -> dict[str, str]:
        python = getattr(sys, "_base_executable", "") or sys.executable
        ask = f"{shlex.quote(python)} -I -S -c {shlex.quote('import os; exec(os.environ["ADDERCLAW_ASK"])')}"
        web = any(grant.scheme != "ssh" for grant in self._grants)
        large = self._only.large_files if self._only is not None else ""
        near = self._only is not None and large and self._only.host in LOOPBACK
        return {
            "ADDERCLAW_BROKER": str(self._theirs.fileno()),
            "ADDERCLAW_ASK": _asking_source(),
            "ADDERCLAW_ASK_BY": ask,
            "ADDERCLAW_WEB": "yes" if web else "",
            "ADDERCLAW_LARGE": large,
            "ADDERCLAW_NEAR": str(self._only.port) if self._only is not None and near else "",
            "GIT_SSH_COMMAND": f"{ask} ssh",
            "GIT_SSH_VARIANT": "ssh",
            **({"GIT_SSL_CAINFO": f"/proc/self/fd/{self._certificates}"} if self._certificates >= 0 else {}),
        }

    def __enter__(self) -> "Broker":
        asyncio.get_running_loop().add_reader(self._ours.fileno(), self._receive_request)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._ours.fileno())
        self._ours.close()
        self._theirs.close()
        if self._certificates >= 0:
            os.close(self._certificates)
        for task in self._tasks:
            task.cancel()
        for process in self._running:
            process.kill()
        for way in self._proxies:
            way.close()

    def _receive_request(self) -> None:
        try:
            message, fds, _, _ = socket.recv_fds(self._ours, 32768, 8)
        except OSError:
            return
        if not fds:
            return
        for fd in fds:
            os.set_inheritable(fd, False)
        sockets = _sockets(fds)
        if len(sockets) < len(fds) or len(self._tasks) >= MAX_ASKED:
            _close(sockets)
            return
        task = asyncio.ensure_future(self._serve(sockets, message.decode("utf-8", "replace").split("\0")))

        def served(task: asyncio.Task[None]) -> None:
            """Runs also for a task that was cancelled before its first step."""
            self._tasks.discard(task)
            _close(sockets)

        self._tasks.add(task)
        task.add_done_callback(served)

    async def _serve(self, sockets: list[socket.socket], words: list[str]) -> None:
        channel, listeners = sockets[0], sockets[1:]
        try:
            match words:
                case ["ssh", protocol, *rest]:
                    await self._ssh(channel, protocol, rest)
                case ["credential", _, text]:
                    _answer(channel, await self._credential(text))
                case ["proxy", _, port_state] if listeners and len(self._proxies) < MAX_PROXIES:
                    self._serve_proxies(*(listener.dup() for listener in listeners))
                    self._is_clear |= port_state == "clear"
                    _answer(channel, b"clear" if self._is_clear else b"occupied")
                case _:
                    _answer(channel, b"")
        except OSError:
            pass  # the requesting process is gone

    @contextlib.contextmanager
    def _start_program(
        self, argv: Sequence[str], names: tuple[str, ...], more: Mapping[str, str], stdin: int, stdout: int, stderr: int
    ) -> Generator[Unconfined]:
        """Run one of the operator's programs until it has ended or the broker is closed."""
        env = {**_environment(names, self._roots), **more}
        with Unconfined(argv, cwd=home(), env=env, stdin=stdin, stdout=stdout, stderr=stderr) as process:
            self._running.add(process)
            try:
                yield process
            finally:
                self._running.discard(process)

    # -------------------------------------------------------------- ssh

    async def _ssh(self, channel: socket.socket, protocol: str, words: list[str]) -> None:
        grant, ssh = ssh_grant(words, self._grants), resolve("ssh", self._roots)
        if grant is None or ssh is None:
            why = "ssh is not installed" if ssh is None else "only what was approved for this call can be reached"
            _answer(channel, f"adderclaw: not connected ({why}): {shlex.join(words)[:300]}".encode())
            return
        argv, more = (ssh, *_ssh_words(grant, protocol)), {"GIT_PROTOCOL": protocol} if protocol else {}
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        with contextlib.ExitStack() as stack:
            try:
                process = stack.enter_context(
                    self._start_program(argv, PASSED_VARIABLES, more, theirs_in, theirs_out, PIPE)
                )
                _answer(channel, b"go", ours_in, ours_out)
            finally:
                for fd in (theirs_in, ours_in, ours_out, theirs_out):
                    os.close(fd)
            complaint, code = await process.complaint(2000), await process.wait()
        _answer(channel, b"%d %s" % (code if 0 <= code < 256 else 255, complaint if code else b""))

    # -------------------------------------------------------------- http

    def _serve_proxies(self, listener: socket.socket, *near: socket.socket) -> None:
        """Serve a proxy to the approved hosts and ports, and the port of a server on this machine.

        Hosts that every command may reach are included: large files are often on another host than the remote.
        """
        approved = {(grant.host.lower(), grant.port) for grant in self._grants if grant.scheme != "ssh"}

        def judge(host: str, port: int, addresses: list[str] | None) -> str | None:
            if (host, port) in approved:
                return None
            other = self._reach(host, port, addresses) if self._reach is not None else ""
            return None if other is None else "only what was approved for this call can be reached"

        proxy = Proxy(judge, tell=lambda _place, _why: None, named=lambda host, port: (host, port) in approved)
        self._serve_proxy(proxy, listener)  # git reports a refusal itself
        for near_listener in near:
            if self._only is not None:
                self._serve_proxy(FixedForward(judge, (self._only.host, self._only.port)), near_listener)

    def _serve_proxy(self, way: Proxy, listener: socket.socket) -> None:
        way.serve(listener)
        self._proxies.append(way)

    async def _credential(self, text: str) -> bytes:
        """The user and password from the operator's credential helpers for an approved host; else nothing."""
        fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        key = (fields.get("protocol"), fields.get("host", "").lower())
        grant = next((g for g in self._grants if (g.scheme, g.authority.lower()) == key), None)
        git = resolve("git", self._roots)
        if grant is None or git is None or (grant.scheme == "http" and grant.host not in LOOPBACK):
            return b""
        lines = [f"protocol={grant.scheme}", f"host={grant.authority}", f"path={grant.path.lstrip('/')}"]
        lines += [f"username={grant.user}"] if grant.user else []
        quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "GIT_CEILING_DIRECTORIES": os.path.dirname(home())}
        request = memory_file(("\n".join(lines) + "\n\n").encode())
        with contextlib.ExitStack() as stack:
            try:
                argv = (git, "credential", "fill")
                process = stack.enter_context(
                    self._start_program(argv, PASSED_TO_HELPERS, quiet, request, PIPE, DEVNULL)
                )
            finally:
                os.close(request)
            out = await _read_output(process)
        answers = [line for line in out.split(b"\n") if line.startswith((b"username=", b"password="))]
        return b"".join(line + b"\n" for line in answers)


def _sockets(fds: list[int]) -> list[socket.socket]:
    """Received descriptors as sockets; those that are not sockets are closed."""
    sockets: list[socket.socket] = []
    for fd in fds:
        try:
            sockets.append(socket.socket(fileno=fd))
        except OSError:
            os.close(fd)
    return sockets


def _close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def _answer(channel: socket.socket, text: bytes, *fds: int) -> None:
    """Send at once or not at all: the requesting process may have filled the socket to block the broker."""
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    channel.sendmsg([text], ancillary, socket.MSG_DONTWAIT)


async def certificates(grants: tuple[Grant, ...], roots: tuple[str, ...]) -> bytes:
    """The content of the CA file in the operator's git settings for these servers; empty if there is none or several.

    Git in the sandbox cannot read the operator's settings or that file.
    """
    web, git = [grant for grant in grants if grant.scheme == "https"], resolve("git", roots)
    named: set[str] = set()
    for grant in web if git is not None else ():
        named.add(await _git_setting(git or "", "http.sslCAInfo", f"https://{grant.authority}{grant.path}", roots))
    path = named.pop() if len(named) == 1 else ""
    if not os.path.isabs(path):  # a relative path would refer to the workspace
        return b""
    try:
        with open(path, "rb") as file:
            return file.read(MAX_CERTIFICATES)
    except OSError:
        return b""


async def _git_setting(git: str, name: str, url: str, roots: tuple[str, ...]) -> str:
    argv = (git, "config", "--global", "--includes", "--type=path", "--get-urlmatch", name, url)
    env = _environment(PASSED_VARIABLES, roots) | {"GIT_CEILING_DIRECTORIES": os.path.dirname(home())}
    with Unconfined(argv, cwd=home(), env=env, stdout=PIPE) as process:
        return os.fsdecode((await _read_output(process)).removesuffix(b"\n"))


async def _read_output(process: Unconfined) -> bytes:
    """The output of a program until its end; nothing if it takes too long."""
    try:
        async with asyncio.timeout(FILL_SECONDS):
            printed = await process.head(MAX_PRINTED)
            await process.wait()
    except TimeoutError:
        return b""
    return printed


def ssh_grant(words: list[str], grants: tuple[Grant, ...]) -> Grant | None:
    """The grant that matches git's ssh arguments; None if they have any word that git itself does not write."""
    rest, port = list(words), 0
    while rest and rest[0].startswith("-"):
        if rest[0] in ("-4", "-6"):
            del rest[:1]
        elif rest[:2] == ["-o", "SendEnv=GIT_PROTOCOL"]:
            del rest[:2]
        elif rest[0] == "-p" and len(rest) > 1 and rest[1].isdigit():
            port = int(rest[1])
            del rest[:2]
        else:
            return None
    if len(rest) != 2:
        return None
    user, _, host = rest[0].rpartition("@")
    try:
        command = shlex.split(rest[1])
    except ValueError:
        return None
    if len(command) != 2:
        return None
    for grant in grants:
        approved = (grant.scheme, grant.user, grant.host, grant.port, grant.service, grant.path)
        if approved == ("ssh", user, host, port, *command):
            return grant
    return None


def _ssh_words(grant: Grant, protocol: str) -> list[str]:
    port = ["-p", str(grant.port)] if grant.port else []
    send = ["-o", "SendEnv=GIT_PROTOCOL"] if re.fullmatch(r"version=[012]", protocol) else []
    who = f"{grant.user}@{grant.host}" if grant.user else grant.host
    quoted = grant.path.replace("'", "'\\''").replace("!", "'\\!'")
    return [*OPTIONS, *send, *port, "--", who, f"{grant.service} '{quoted}'"]


def _environment(names: tuple[str, ...], roots: tuple[str, ...]) -> dict[str, str]:
    passed = {name: os.environ[name] for name in names if name in os.environ}
    return {**passed, "PATH": os.pathsep.join(search_path(roots))}


def _asking_source() -> str:
    with open(os.path.join(os.path.dirname(__file__), "git_helper.py"), encoding="utf-8") as file:
        return file.read()
