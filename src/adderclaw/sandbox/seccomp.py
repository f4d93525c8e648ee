"""A seccomp filter that refuses system calls that sandboxed commands do not need and that escapes could use."""

import errno
import os
import struct
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from adderclaw.core.record import NamedTuple

type Network = Literal["namespace", "none"]
"""Whether a network namespace contains connections, or the filter must refuse the sockets themselves."""
type Outside = Literal["mounts", "asked", "refused"]
"""What prevents changes outside the workspace that Landlock cannot restrict: mounts and namespaces, a supervisor that
is asked about each such call, or the filter, which refuses every such call."""


class Machine(NamedTuple):
    """A processor's audit architecture and its system call numbers."""

    audit: int
    numbers: dict[str, int]


_COMMON = {
    "pidfd_getfd": 438,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "open_tree_attr": 467,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "openat2": 437,
    "fchmodat2": 452,
    "setxattrat": 463,
    "removexattrat": 466,
    "file_setattr": 469,
}
MACHINES = {
    "x86_64": Machine(
        0xC000003E,
        {
            **_COMMON,
            "open": 2,
            "ioctl": 16,
            "shmget": 29,
            "shmat": 30,
            "shmctl": 31,
            "socket": 41,
            "socketpair": 53,
            "clone": 56,
            "semget": 64,
            "semop": 65,
            "semctl": 66,
            "msgget": 68,
            "msgsnd": 69,
            "msgrcv": 70,
            "msgctl": 71,
            "truncate": 76,
            "mkdir": 83,
            "creat": 85,
            "chmod": 90,
            "fchmod": 91,
            "chown": 92,
            "fchown": 93,
            "lchown": 94,
            "ptrace": 101,
            "syslog": 103,
            "utime": 132,
            "mknod": 133,
            "personality": 135,
            "setpriority": 141,
            "pivot_root": 155,
            "adjtimex": 159,
            "chroot": 161,
            "acct": 163,
            "settimeofday": 164,
            "mount": 165,
            "umount2": 166,
            "swapon": 167,
            "swapoff": 168,
            "reboot": 169,
            "sethostname": 170,
            "setdomainname": 171,
            "iopl": 172,
            "ioperm": 173,
            "init_module": 175,
            "delete_module": 176,
            "quotactl": 179,
            "setxattr": 188,
            "lsetxattr": 189,
            "fsetxattr": 190,
            "removexattr": 197,
            "lremovexattr": 198,
            "fremovexattr": 199,
            "semtimedop": 220,
            "clock_settime": 227,
            "utimes": 235,
            "mq_open": 240,
            "mq_unlink": 241,
            "kexec_load": 246,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "ioprio_set": 251,
            "openat": 257,
            "mkdirat": 258,
            "mknodat": 259,
            "fchownat": 260,
            "futimesat": 261,
            "fchmodat": 268,
            "unshare": 272,
            "utimensat": 280,
            "perf_event_open": 298,
            "fanotify_init": 300,
            "prlimit64": 302,
            "open_by_handle_at": 304,
            "clock_adjtime": 305,
            "setns": 308,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "kcmp": 312,
            "finit_module": 313,
            "kexec_file_load": 320,
            "bpf": 321,
            "userfaultfd": 323,
        },
    ),
    "aarch64": Machine(
        0xC00000B7,
        {
            **_COMMON,
            "setxattr": 5,
            "lsetxattr": 6,
            "fsetxattr": 7,
            "removexattr": 14,
            "lremovexattr": 15,
            "fremovexattr": 16,
            "ioctl": 29,
            "ioprio_set": 30,
            "mknodat": 33,
            "mkdirat": 34,
            "umount2": 39,
            "mount": 40,
            "pivot_root": 41,
            "truncate": 45,
            "chroot": 51,
            "fchmod": 52,
            "fchmodat": 53,
            "fchownat": 54,
            "fchown": 55,
            "openat": 56,
            "quotactl": 60,
            "utimensat": 88,
            "acct": 89,
            "personality": 92,
            "unshare": 97,
            "kexec_load": 104,
            "init_module": 105,
            "delete_module": 106,
            "clock_settime": 112,
            "syslog": 116,
            "ptrace": 117,
            "setpriority": 140,
            "reboot": 142,
            "sethostname": 161,
            "setdomainname": 162,
            "settimeofday": 170,
            "adjtimex": 171,
            "mq_open": 180,
            "mq_unlink": 181,
            "msgget": 186,
            "msgctl": 187,
            "msgrcv": 188,
            "msgsnd": 189,
            "semget": 190,
            "semctl": 191,
            "semtimedop": 192,
            "semop": 193,
            "shmget": 194,
            "shmctl": 195,
            "shmat": 196,
            "socket": 198,
            "socketpair": 199,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "clone": 220,
            "swapon": 224,
            "swapoff": 225,
            "perf_event_open": 241,
            "prlimit64": 261,
            "fanotify_init": 262,
            "open_by_handle_at": 265,
            "clock_adjtime": 266,
            "setns": 268,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "kcmp": 272,
            "finit_module": 273,
            "bpf": 280,
            "userfaultfd": 282,
            "kexec_file_load": 294,
        },
    ),
}
MODE_CALLS = {
    **dict.fromkeys(("chmod", "fchmod", "creat", "mkdir", "mknod"), 1),
    **dict.fromkeys(("fchmodat", "fchmodat2", "mkdirat", "mknodat"), 2),
}
"""Calls that set the mode of a file → the position of their mode argument."""
OPEN_CALLS = {"openat": (2, 3), "open": (1, 2)}
"""Calls that set the mode of a file if their flags create one → the positions of flags and mode."""
MISSING = frozenset({"clone3", "openat2"})
"""These take their arguments in memory, where a filter cannot see them. After ENOSYS, programs use the older call."""
FILE_CHANGES = frozenset(
    {"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"}
    | {"utime", "utimes", "futimesat", "utimensat"}
    | {"setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"}
)
"""Changes for which Landlock has no right, so it allows them everywhere."""
SHARED_BY_MACHINE = frozenset(
    {"shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd", "msgrcv", "msgctl"}
    | {"mq_open", "mq_unlink", "setxattrat", "removexattrat", "file_setattr"}
)
"""Refused with ENOSYS without namespaces: memory and queues that all processes of the machine share, and calls so new
that programs do not depend on them."""
PERSISTENT_MEMORY = ("shmget", "semget", "msgget", "mq_open")
"""Calls that create memory that outlives its creator; a read-only command must leave nothing for the next one."""
TARGETING_PROCESSES = {"prlimit64": 0, "setpriority": 1, "ioprio_set": 1}
"""Calls that change other processes if no namespace hides those → the argument that names one; 0 is the caller."""
INSTALL = {"x86_64": 317, "aarch64": 277}
"""The number of the call `seccomp`, which installs a filter that asks a supervisor."""
SENDING = {"x86_64": ((44, 3), (46, 2), (307, 3)), "aarch64": ((206, 3), (211, 2), (269, 3))}
"""sendto, sendmsg, sendmmsg: their numbers and the position of their flags."""
FAST_OPEN = 0x20000000
"""MSG_FASTOPEN."""
MULTIPATH, SHARED_MEMORY = 262, 43
"""IPPROTO_MPTCP and AF_SMC: a TCP server answers both."""
CHECKED = frozenset(
    {"ioctl", "socket", "socketpair", "truncate", "clone", "personality"}
    | {*MISSING, *MODE_CALLS, *OPEN_CALLS, *FILE_CHANGES, *SHARED_BY_MACHINE, *TARGETING_PROCESSES}
)
"""Refused for some arguments only, or with ENOSYS. Every other call of the table is always refused."""
SET_IDS = 0o6000
"""The setuid and setgid bits: such a program runs with the rights of its owner."""
CREATE_FLAGS = 0o20000100
"""O_CREAT, and O_TMPFILE without O_DIRECTORY."""
NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET."""
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which insert input into the terminal."""
FILE_SYSTEM_IOCTLS = (ord("f") << 8, ord("X") << 8, ord("v") << 8, ord("r") << 8, 0x94 << 8)
"""The types of `ioctl` that can change a file, or a folder of btrfs, that was opened for reading."""
HARMLESS_IOCTLS = (0x80086601, 0x801C581F, 0xC020660B, 0x40049409, 0x4020940D, 0xC0189436)
"""Exceptions: FS_IOC_GETFLAGS, FSGETXATTR, FIEMAP; and FICLONE, FICLONERANGE and FIDEDUPERANGE, which copy."""
WITH_CONNECTION = (1, 5)
"""SOCK_STREAM and SOCK_SEQPACKET: a socket of such a pair can send only to its peer."""
FAMILIES: dict[Network, tuple[int, ...]] = {"namespace": (1, 2, 10, 16), "none": ()}
"""Unix, IPv4, IPv6, netlink. A network namespace does not contain others, such as vsock."""
X32 = 0x40000000

UNIX = 1

_LOAD, _AND, _EQUAL, _ABOVE, _ANY, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _ASK = 0x7FFF0000, 0x00050000, 0x7FC00000
_NUMBER, _AUDIT = 0, 4


class Step(NamedTuple):
    code: int
    yes: int
    no: int
    value: int


def filter_program(
    network: Network, machine: str | None = None, *, outside: Outside = "mounts", refused: Sequence[str] = ()
) -> bytes:
    """The filter as bytes for the kernel; the calls named in `refused` are always refused.

    Raises LookupError on an unknown processor.
    """
    known = MACHINES[machine or os.uname().machine]
    mounts = outside == "mounts"
    steps = [
        *_own_calls_only(known),
        *_no_set_ids(known, FILE_CHANGES if not mounts else frozenset[str](), _file_change_step(outside)),
    ]
    for name, number in known.numbers.items():
        if name in MISSING:
            steps += _on_call(number, [_refuse(errno.ENOSYS)])
        elif name not in CHECKED or name in refused:
            steps += _on_call(number, [_refuse(errno.EPERM)])
    steps += _on_call(known.numbers["clone"], _unless_any(_argument(0), NEW_NAMESPACES, errno.EPERM))
    steps += _on_call(known.numbers["ioctl"], _ioctl_steps(() if mounts else FILE_SYSTEM_IOCTLS))
    families = [family for family in FAMILIES[network] if mounts or family != UNIX]
    steps += _on_call(known.numbers["socket"], _only_values(_argument(0), families, errno.EAFNOSUPPORT))
    steps += _on_call(known.numbers["personality"], _only_values(_argument(0), (0, 0x40000, 0xFFFFFFFF), errno.EPERM))
    steps += [] if mounts else _without_namespaces(known, outside)
    steps.append(Step(_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def tcp_connect_only_filter(machine: str | None = None) -> bytes:
    """A filter that allows only `connect` and TCP to open connections, because Landlock checks nothing else."""
    name = machine or os.uname().machine
    known = MACHINES[name]
    steps = [*_own_calls_only(known), *_on_call(known.numbers["io_uring_setup"], [_refuse(errno.ENOSYS)])]
    for number, flags in SENDING[name]:
        steps += _on_call(number, _unless_any(_argument(flags), FAST_OPEN, errno.EOPNOTSUPP))
    other = [*_on_call(MULTIPATH, [_refuse(errno.EPROTONOSUPPORT)]), Step(_LOAD, 0, 0, _argument(0))]
    other += _on_call(SHARED_MEMORY, [_refuse(errno.EAFNOSUPPORT)])
    steps += _on_call(known.numbers["socket"], [Step(_LOAD, 0, 0, _argument(2)), *other, Step(_RETURN, 0, 0, _ALLOW)])
    steps.append(Step(_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def supervised_calls(machine: str | None = None) -> dict[str, int]:
    """The calls that the supervisor is asked about, with their numbers."""
    numbers = MACHINES[machine or os.uname().machine].numbers
    return {name: number for name, number in numbers.items() if name in FILE_CHANGES}


def _file_change_step(outside: Outside) -> Step:
    """The step for a call that could change files both inside and outside the workspace."""
    return Step(_RETURN, 0, 0, _ASK) if outside == "asked" else _refuse(errno.EPERM)


def _without_namespaces(machine: Machine, outside: Outside) -> Iterable[Step]:
    """Refuses what mounts and the namespaces of processes, shared memory and network would otherwise prevent."""
    for name, number in machine.numbers.items():
        if name in SHARED_BY_MACHINE:
            yield from _on_call(number, [_refuse(errno.ENOSYS)])
        elif name in TARGETING_PROCESSES:
            yield from _on_call(number, _only_values(_argument(TARGETING_PROCESSES[name]), (0,), errno.EPERM))
        elif name in FILE_CHANGES and name not in MODE_CALLS:
            yield from _on_call(number, [_file_change_step(outside)])
    kind = [Step(_LOAD, 0, 0, _argument(1)), Step(_AND, 0, 0, 0xF)]
    connected = _only_values(_argument(1), WITH_CONNECTION, errno.EPERM)[1:]
    yield from _on_call(machine.numbers["socketpair"], [*kind, *connected])


def _own_calls_only(machine: Machine) -> Iterable[Step]:
    """Refuses the calls of other architectures (32 bit, x32), because they have other numbers."""
    yield Step(_LOAD, 0, 0, _AUDIT)
    yield Step(_EQUAL, 1, 0, machine.audit)
    yield _refuse(errno.ENOSYS)
    yield Step(_LOAD, 0, 0, _NUMBER)
    yield Step(_ABOVE, 0, 1, X32)
    yield _refuse(errno.ENOSYS)


def _no_set_ids(machine: Machine, changing: Collection[str], last: Step) -> Iterable[Step]:
    """Refuses modes with a setuid or setgid bit. The calls that open files come first, as the most frequent."""
    for name, (flags, mode) in OPEN_CALLS.items():
        if name in machine.numbers:
            refused = _unless_any(_argument(mode), SET_IDS, errno.EPERM)
            makes = [Step(_LOAD, 0, 0, _argument(flags)), Step(_ANY, 0, len(refused) - 1, CREATE_FLAGS)]
            yield from _on_call(machine.numbers[name], [*makes, *refused])
    for name, mode in MODE_CALLS.items():
        if name in machine.numbers:
            *judged, allowed = _unless_any(_argument(mode), SET_IDS, errno.EPERM)
            yield from _on_call(machine.numbers[name], [*judged, last if name in changing else allowed])


def _on_call(number: int, then: Sequence[Step]) -> list[Step]:
    """The steps for one call. They always return, so the call number stays loaded for the following steps."""
    return [Step(_EQUAL, 0, len(then), number), *then]


def _argument(index: int) -> int:
    """The offset of the low half of an argument; the tables above contain 32-bit values."""
    return 16 + 8 * index


def _unless_any(offset: int, bits: int, error: int) -> list[Step]:
    return [Step(_LOAD, 0, 0, offset), Step(_ANY, 0, 1, bits), _refuse(error), Step(_RETURN, 0, 0, _ALLOW)]


def _ioctl_steps(kinds: Sequence[int]) -> list[Step]:
    """Refuses requests that insert input into the terminal, and requests of these types."""
    steps = [Step(_LOAD, 0, 0, _argument(1))]
    for value in TERMINAL_INPUT:
        steps += _on_call(value, [_refuse(errno.EPERM)])
    for value in HARMLESS_IOCTLS:
        steps += _on_call(value, [Step(_RETURN, 0, 0, _ALLOW)])
    steps.append(Step(_AND, 0, 0, 0xFF00))
    for value in kinds:
        steps += _on_call(value, [_refuse(errno.ENOTTY)])
    return [*steps, Step(_RETURN, 0, 0, _ALLOW)]


def _only_values(offset: int, values: Sequence[int], error: int) -> list[Step]:
    tests = [Step(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [Step(_LOAD, 0, 0, offset), *tests, _refuse(error), Step(_RETURN, 0, 0, _ALLOW)]


def _refuse(error: int) -> Step:
    return Step(_RETURN, 0, 0, _ERRNO | error)
