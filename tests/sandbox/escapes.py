"""Ways out of a sandbox, tried as commands: each must fail. Should one succeed, it does no harm to the machine.

Run as a program, it tries them all and prints what came of each as JSON: so a test can be another user.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from adderclaw.sandbox import confinement, process, seccomp
from adderclaw.sandbox.box import Box
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.sandbox.process import Finished

PYTHON = os.path.realpath(sys.executable)
NUMBERS = seccomp.MACHINES[os.uname().machine].numbers


def called(name: str, arguments: str) -> str:
    """A system call that counts as refused only if the kernel says "not permitted" or "not there"."""
    begin = "import ctypes; libc = ctypes.CDLL(None, use_errno=True)"
    made = f"libc.syscall({NUMBERS[name]}, {arguments})"
    return f"{PYTHON} -c '{begin}; raise SystemExit({made} < 0 and ctypes.get_errno() in (1, 38))'"


EVERYWHERE = {
    "write /etc": "touch /etc/adderclaw-escape",
    "write /usr": "touch /usr/adderclaw-escape",
    "write /var": "touch /var/adderclaw-escape",
    "write beside the workspace": "touch ../escape; false",
    "write through a link": "ln -s /etc out; touch out/adderclaw-escape",
    "write through a link to a folder above": "ln -s .. up; touch up/escape; false",
    "a setting of the kernel": "echo $(cat /proc/sys/vm/swappiness) > /proc/sys/vm/swappiness",
    "another setting, by its owner": "echo $(cat /proc/sys/kernel/core_pattern) > /proc/sys/kernel/core_pattern",
    "a setting of a device": "echo 1 > /sys/block/escape || mkdir /sys/fs/cgroup/escape || mkdir /sys/fs/cgroup/pids/e",
    "write /dev": "touch /dev/escape",
    "shadow": "grep . /etc/shadow",
    "the keys at home": "cat {home}/.ssh/id",
    "our own home": "cat {home}/.adderclaw/receipt.key || ls {home}/.adderclaw/*",
    "environment of process 1": "grep -a . /proc/1/environ",
    "memory of process 1": "head -c 1 /proc/1/maps | grep . || dd if=/proc/1/mem of=/dev/null bs=1 count=1",
    "files of process 1": "ls /proc/1/root/ || ls /proc/1/cwd/ || ls /proc/1/task/*/root/ || ls /proc/1/task/*/cwd/",
    "its descriptors and namespaces": "readlink /proc/1/fd/* /proc/1/ns/* /proc/1/task/*/ns/* /proc/1/task/*/fd/*",
    "environment of whoever runs us": "grep -a . /proc/{pid}/environ",
    "its memory": "grep -a . /proc/{pid}/maps",
    "its files": "ls /proc/{pid}/root/ || ls /proc/{pid}/cwd/",
    "a signal to it": "kill -0 {pid}",
    "mount": "mount -t tmpfs none /mnt",
    "remount": "mount -o remount,rw /",
    "bind over": "mount --bind /tmp /etc",
    "a new mount API": called("fsopen", 'b"tmpfs", 0'),
    "a user namespace": "unshare -U true",
    "a user namespace with root": "unshare -Urm true",
    "a mount namespace": "unshare -m true",
    "a network namespace": "unshare -n true",
    "a namespace by clone": called("clone", "0x10000000 | 17, 0, 0, 0, 0"),
    "a namespace by clone3": called("clone3", "(ctypes.c_uint64 * 11)(0x10000000), 88"),
    "join a namespace": "nsenter -t 1 -m true",
    "ptrace": called("ptrace", "0, 0, 0, 0"),
    "keyrings": called("keyctl", "0, -3, 1"),
    "bpf": called("bpf", "0, 0, 0"),
    "io_uring": called("io_uring_setup", "1, (ctypes.c_uint64 * 16)()"),
    "perf": called("perf_event_open", "0, 0, -1, -1, 0"),
    "userfaultfd": called("userfaultfd", "1"),
    "a socket to the hypervisor": f"{PYTHON} -c 'import socket; socket.socket(40, 1)'",
    "a packet socket": f"{PYTHON} -c 'import socket; socket.socket(17, 3)'",
    "connect out": "timeout 3 bash -c 'exec 3<>/dev/tcp/1.1.1.1/80'",
    "connect to a service of this machine": "exec 3<>/dev/tcp/127.0.0.1/{port}",
    "a socket that has no file": f"{PYTHON} -c 'import socket; socket.socket(1).connect(chr(0) + \"{{abstract}}\")'",
    "a name by DNS": "timeout 5 getent hosts example.org",
    "send a datagram out": "echo x > /dev/udp/1.1.1.1/53",
    "kernel modules": called("finit_module", '-1, b"", 0'),
    "another kernel": called("kexec_load", "0, 0, 0, 0"),
    "a file by its handle": called("open_by_handle_at", "-1, 0, 0"),
    "another process's descriptor": called("pidfd_getfd", "-1, 0, 0"),
    "chroot": "chroot / true",
    "a device": "mknod device b 8 0 && cat device",
    "the disk": "head -c 1 /dev/sda /dev/vda /dev/nvme0n1 | grep -a .",
    "the host's name": "hostname escape",
    "more privileges": "su -c true nobody </dev/null || sudo -n true",
    "memory of another process": called("process_vm_readv", "1, 0, 0, 0, 0, 0"),
    "a file over all others": called("fanotify_init", "0, 0"),
    "where the kernel's logs are": called("syslog", "3, 0, 0"),
    "more processes by a control group": "for f in /sys/fs/cgroup/{,pids/}pids.max; do echo max > $f && break; done",
    "its own limits": "ulimit -H -c unlimited",
    "a huge file": "truncate -s 100G huge && test -s huge",
}
NAMESPACES = {
    "see whoever runs us": "test -e /proc/{pid}",
    "end process 1": "kill -9 1; kill -INT 1; kill -TERM 1; sleep 0.1; test ! -e /proc/1/stat",
    "sockets of the system": "find /run -type s | grep .",
    "fill /tmp": "fallocate -l {space} /tmp/adderclaw-huge",
    "fill shared memory": "fallocate -l {space} /dev/shm/adderclaw-huge",
    "fill the home": "fallocate -l {space} ~/adderclaw-huge",
    "write git's settings": "echo x >> .git/config",
    "write git's settings by a rename": "echo x > new; mv -f new .git/config",
    "a git hook": "touch .git/hooks/pre-commit",
    "another git folder": "mv .git other",
    "our settings": "touch .claude/settings.json",
    "other settings of ours": "mv .claude other",
    "unmount what protects": "umount .git/config",
}
"""What takes namespaces and mounts to refuse."""


def workspace(root: Path) -> None:
    """A repository with settings of ours in it."""
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_text("[core]\n")
    (root / ".claude").mkdir()
    (root / "a.txt").write_text("alpha\n")


def secrets(home: Path) -> None:
    for folder, name in ((".ssh", "id"), (".adderclaw", "receipt.key")):
        (home / folder).mkdir(exist_ok=True)
        (home / folder / name).write_text("hunter2\n")


async def bash(text: str, box: Box, root: Path, timeout: float = 60.0) -> Finished:
    argv = ["/bin/bash", "--norc", "--noprofile", "-c", text]
    return await process.run(
        argv, cwd=str(root), env=process.environment(workspace_roots=()), timeout=timeout, start=box.start
    )


def main(kind: str, root: str, names: dict[str, str]) -> None:
    """Try each; print what each exit code was."""

    async def every() -> dict[str, int]:
        return {name: (await bash(text, box, Path(root))).returncode for name, text in names.items()}

    box = confinement.create_box(kind, SandboxSpec((root,)))
    try:
        print(json.dumps(asyncio.run(every())))
    finally:
        box.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
