"""macOS as Python 3.12 shows it: the names that only Linux has are gone before anything of ours is imported."""

import ctypes
import fcntl
import os
import posix
import re
import resource
import select
import signal
import sys
import types
from typing import Any, Never

GONE = {
    os: r"O_(PATH|TMPFILE|NOATIME|DIRECT|LARGEFILE|RSYNC)|memfd_create|MFD_\w+|pidfd_open|PIDFD_\w+|waitid|P_PID\w*|"
    r"P_ALL|P_PGID|WNOWAIT|WEXITED|WSTOPPED|setns|unshare|CLONE_\w+|pipe2|sched_[gs]etaffinity|getrandom|GRND_\w+|fdatasync|"
    r"posix_fadvise|posix_fallocate|POSIX_FADV_\w+|copy_file_range|splice|SPLICE_\w+|eventfd\w*|EFD_\w+|\w+xattr|"
    r"XATTR_\w+|[gs]etres[ug]id",
    signal: r"SIGRT\w+|SIGPWR|SIGPOLL|SIGSTKFLT|SIGCLD|pidfd_send_signal|sigtimedwait|sigwaitinfo",
    select: r"epoll|EPOLL\w*|POLLRDHUP",
    "socket": r"SO_PASSCRED|SO_PEERCRED|MSG_CMSG_CLOEXEC|SCM_CREDENTIALS|SOCK_CLOEXEC|SOCK_NONBLOCK|AF_NETLINK|accept4",
    resource: r"prlimit|RLIMIT_(MSGQUEUE|NICE|RTPRIO|RTTIME|SIGPENDING)",
    fcntl: r"F_OFD_\w+|F_(GET|SET)PIPE_SZ|F_(ADD|GET)_SEALS|F_SEAL_\w+|F_NOTIFY|DN_\w+",
}
GONE[posix] = GONE[os]
LIBC = {"inotify_init1", "inotify_add_watch", "prctl", "renameat2", "fallocate", "memfd_create", "pidfd_open"}

for module, names in GONE.items():  # in this order: socket chooses its selector by what there is
    there = __import__(module) if isinstance(module, str) else module
    for name in [name for name in vars(there) if re.fullmatch(names, name)]:
        delattr(there, name)

import socket  # noqa: E402


class Libc(ctypes.CDLL):
    def __getattr__(self, name: str) -> Any:
        if name in LIBC:
            raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")
        if name == "syscall":  # a number of Linux is another call on macOS, or none: then SIGSYS ends the process
            os.kill(os.getpid(), signal.SIGSYS)
        return super().__getattr__(name)


_pair = socket.socketpair


def _socketpair(family: int = socket.AF_UNIX, kind: int = socket.SOCK_STREAM, proto: int = 0) -> Any:
    if kind == socket.SOCK_SEQPACKET:
        raise OSError(43, "Protocol not supported")
    return _pair(family, kind, proto)


def _none(*_: object) -> dict[str, Never]:
    return {}


ctypes.CDLL = Libc
socket.socketpair = _socketpair
# what this Python was built with is still found
built = f"_sysconfigdata_{sys.abiflags}_{sys.platform}_{getattr(sys.implementation, '_multiarch', '')}"
os.environ.setdefault("_PYTHON_SYSCONFIGDATA_NAME", built)
sys.platform = "darwin"
sys.modules["_scproxy"] = types.ModuleType("_scproxy")
vars(sys.modules["_scproxy"]).update(_get_proxies=_none, _get_proxy_settings=_none)
