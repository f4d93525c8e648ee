"""The filter of system calls, run by a small machine of our own, for processors that we do not have."""

import errno
import struct

import pytest

from adderclaw.sandbox import seccomp

ALLOW, ERRNO, ASK = 0x7FFF0000, 0x00050000, 0x7FC00000
ASKED = -1
"""A supervisor is asked."""


def verdict(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """What the kernel would say of a call: 0, the error, or ASKED."""
    padded = (*arguments, *(0,) * (6 - len(arguments)))
    data = struct.pack("<iIQ6Q", number, audit, 0, *padded)
    steps = list(struct.iter_unpack("=HBBI", program))
    at = loaded = 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        match code:
            case 0x20:
                loaded = int.from_bytes(data[value : value + 4], "little")
            case 0x54:
                loaded &= value
            case 0x15:
                at += yes if loaded == value else no
            case 0x35:
                at += yes if loaded >= value else no
            case 0x45:
                at += yes if loaded & value else no
            case 0x06:
                return {ALLOW: 0, ASK: ASKED}.get(value, value & ~ERRNO)
            case _:
                raise AssertionError(f"unknown step {code:#x}")


@pytest.fixture(params=list(seccomp.MACHINES))
def machine(request: pytest.FixtureRequest) -> str:
    return request.param


def test_escapes_are_refused_whatever_their_arguments(machine: str) -> None:
    program, known = seccomp.filter_program("namespace", machine), seccomp.MACHINES[machine]
    for name, number in known.numbers.items():
        if name not in seccomp.CHECKED:
            assert verdict(program, known.audit, number, 1, 2, 3) == errno.EPERM, name


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("clone", (0x10000000 | 17,), errno.EPERM),
        ("clone", (0x00020000,), errno.EPERM),
        ("clone", (0x40000000,), errno.EPERM),
        ("clone", (0x01200011,), 0),
        ("clone", (0x003D0F00,), 0),
        ("clone3", (0,), errno.ENOSYS),
        ("ioctl", (0, 0x5412), errno.EPERM),
        ("ioctl", (0, 0x541C), errno.EPERM),
        ("ioctl", (0, 0x100005412), errno.EPERM),
        ("ioctl", (0, 0x5413), 0),
        ("socket", (1,), 0),
        ("socket", (2,), 0),
        ("socket", (40,), errno.EAFNOSUPPORT),
        ("socket", (38,), errno.EAFNOSUPPORT),
        ("openat", (3, 0, 0o100, 0o644), 0),
        ("openat", (3, 0, 0o101, 0o4755), errno.EPERM),
        ("openat", (3, 0, 0o102, 0o2755), errno.EPERM),
        ("openat", (3, 0, 0o20200000, 0o4755), errno.EPERM),
        ("openat", (3, 0, 0, 0o4755), 0),
        ("openat2", (3, 0, 0, 24), errno.ENOSYS),
        ("fchmod", (3, 0o755), 0),
        ("fchmod", (3, 0o1777), 0),
        ("fchmod", (3, 0o4755), errno.EPERM),
        ("fchmod", (3, 0x100000000 | 0o2755), errno.EPERM),
        ("fchmodat", (3, 0, 0o644), 0),
        ("fchmodat", (3, 0, 0o6755), errno.EPERM),
        ("fchmodat2", (3, 0, 0o644, 0), 0),
        ("fchmodat2", (3, 0, 0o2644, 0x1000), errno.EPERM),
        ("mkdirat", (3, 0, 0o755), 0),
        ("mkdirat", (3, 0, 0o2755), errno.EPERM),
        ("mknodat", (3, 0, 0o100644), 0),
        ("mknodat", (3, 0, 0o104755), errno.EPERM),
        ("personality", (0xFFFFFFFF,), 0),
        ("personality", (0x0400000,), errno.EPERM),
    ],
)
def test_some_calls_are_judged_by_their_arguments(
    name: str, arguments: tuple[int, ...], error: int, machine: str
) -> None:
    program, known = seccomp.filter_program("namespace", machine), seccomp.MACHINES[machine]
    assert verdict(program, known.audit, known.numbers[name], *arguments) == error


@pytest.mark.parametrize("name", ["chmod", "creat", "mkdir", "mknod"])
def test_the_older_calls_that_give_a_mode_are_judged_alike(name: str) -> None:
    program, known = seccomp.filter_program("namespace", "x86_64"), seccomp.MACHINES["x86_64"]
    for mode, error in ((0o755, 0), (0o4755, errno.EPERM), (0o2755, errno.EPERM)):
        assert verdict(program, known.audit, known.numbers[name], 0, mode) == error
    assert verdict(program, known.audit, known.numbers["open"], 0, 0o101, 0o4755) == errno.EPERM
    assert verdict(program, known.audit, known.numbers["open"], 0, 0o1, 0o4755) == 0


def test_without_a_namespace_there_are_no_sockets(machine: str) -> None:
    program, known = seccomp.filter_program("none", machine), seccomp.MACHINES[machine]
    for family in (1, 2, 10, 16, 17, 40):
        assert verdict(program, known.audit, known.numbers["socket"], family) == errno.EAFNOSUPPORT


def test_calls_of_another_processor_are_refused(machine: str) -> None:
    program, known = seccomp.filter_program("namespace", machine), seccomp.MACHINES[machine]
    assert verdict(program, 0x40000003, 1) == errno.ENOSYS  # 32-bit
    assert verdict(program, known.audit, seccomp.X32 | 1) == errno.ENOSYS


def test_the_rest_is_allowed(machine: str) -> None:
    program, known = seccomp.filter_program("namespace", machine), seccomp.MACHINES[machine]
    refused = set(known.numbers.values())
    assert {verdict(program, known.audit, number) for number in range(500) if number not in refused} == {0}


def test_an_unknown_processor_is_an_error() -> None:
    with pytest.raises(LookupError):
        seccomp.filter_program("namespace", "pdp11")


# ------------------------------------------------------------------ where Landlock alone confines


def verdict_of(outside: seccomp.Outside, machine: str, name: str, *arguments: int) -> int:
    known = seccomp.MACHINES[machine]
    return verdict(
        seccomp.filter_program("namespace", machine, outside=outside), known.audit, known.numbers[name], *arguments
    )


def test_a_supervisor_is_asked_about_what_landlock_has_no_right_for(machine: str) -> None:
    for name in seccomp.supervised_calls(machine):
        assert verdict_of("asked", machine, name, 1, 0o644, 0o644) == ASKED, name
        assert verdict_of("refused", machine, name, 1, 0o644, 0o644) == errno.EPERM, name
        assert verdict_of("mounts", machine, name, 1, 0o644, 0o644) == 0, name


def test_no_supervisor_is_asked_about_a_setuid_bit(machine: str) -> None:
    assert verdict_of("asked", machine, "fchmod", 1, 0o4755) == errno.EPERM
    assert verdict_of("asked", machine, "fchmodat", 1, 0, 0o2755) == errno.EPERM


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("ioctl", (3, 0x40086602), errno.ENOTTY),
        ("ioctl", (3, 0x401C5820), errno.ENOTTY),
        ("ioctl", (3, 0x5000940E), errno.ENOTTY),
        ("ioctl", (3, 0x80086601), 0),
        ("ioctl", (3, 0x40049409), 0),
        ("ioctl", (3, 0x5401), 0),
        ("ioctl", (3, 0x5412), errno.EPERM),
        ("socket", (1, 1), errno.EAFNOSUPPORT),
        ("socket", (2, 1), 0),
        ("socketpair", (1, 1), 0),
        ("socketpair", (1, 0o2000005), 0),
        ("socketpair", (1, 2), errno.EPERM),
        ("socketpair", (1, 0o2000003), errno.EPERM),
        ("shmget", (1, 2, 3), errno.ENOSYS),
        ("mq_open", (1,), errno.ENOSYS),
        ("setxattrat", (1,), errno.ENOSYS),
        ("file_setattr", (1,), errno.ENOSYS),
        ("prlimit64", (0, 1), 0),
        ("prlimit64", (77, 1), errno.EPERM),
        ("setpriority", (0, 77, 1), errno.EPERM),
        ("setpriority", (0, 0, 1), 0),
        ("mkdirat", (3, 0, 0o755), 0),
        ("openat", (3, 0, 0o101, 0o644), 0),
    ],
)
def test_what_namespaces_hold_elsewhere_is_refused(
    name: str, arguments: tuple[int, ...], error: int, machine: str
) -> None:
    assert verdict_of("asked", machine, name, *arguments) == error


def test_further_calls_are_refused_whole(machine: str) -> None:
    known = seccomp.MACHINES[machine]
    for refused, error in (((), 0), (("truncate",), errno.EPERM)):
        program = seccomp.filter_program("none", machine, outside="asked", refused=refused)
        assert verdict(program, known.audit, known.numbers["truncate"], 1, 2) == error
