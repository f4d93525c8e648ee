"""No command leaves a file in the workspace that acts with its owner's rights for others: every way to make one."""

import asyncio
import io
import os
import shlex
import stat
import tarfile
from pathlib import Path

import pytest

from adderclaw.sandbox import confinement
from adderclaw.sandbox.bubblewrap import SandboxSpec
from tests.sandbox import escapes
from tests.sandbox.escapes import PYTHON
from tests.sandbox.test_confinement import KINDS, Needs, as_nobody
from tests.trial import why_not

NUMBERS = escapes.NUMBERS


def python(code: str) -> str:
    return f"{PYTHON} -c {shlex.quote(code)}"


def called(name: str, arguments: str) -> str:
    """A system call by its number, as a program would make it that knows no other way; missing on some processors."""
    begin = "import ctypes, os; libc = ctypes.CDLL(None); os.umask(0); fd = os.open('plain', 66, 0o755)"
    return python(f"{begin}; libc.syscall({NUMBERS[name]}, {arguments})") if name in NUMBERS else "true"


WAYS = {
    "chmod by number": "touch a; chmod 4755 a",
    "chmod by letters": "touch b; chmod u+s b; chmod g+s b; chmod +s b",
    "install": "install -m 4755 /bin/true c; install -m 6755 /bin/true d",
    "a copy that keeps its mode": "cp -p SETUID e; cp -a SETUID f; cp --preserve=all SETUID g",
    "an archive": "tar xpf set.tar; tar xf set.tar --same-permissions",
    "an archive by Python": python("import tarfile; tarfile.open('set.tar').extractall(filter='fully_trusted')"),
    "a folder": "mkdir -m 2755 folder; mkdir sub; chmod g+s sub; touch sub/inherits",
    "Python's chmod": python("import os; os.mknod('h'); os.chmod('h', 0o4755)"),
    "a descriptor": python("import os; os.fchmod(os.open('i', 66, 0o755), 0o6755)"),
    "its name in /proc": python("import os; os.chmod(f'/proc/self/fd/{os.open(\"j\", 66)}', 0o4755)"),
    "a copy of all that a file has": python("import shutil; shutil.copy2('SETUID', 'copied')"),
    "open with a mode": python("import os; os.umask(0); os.open('k', 66, 0o4755)"),
    "a file without a name": python(
        "import os; os.umask(0); fd = os.open('.', 2 | os.O_TMPFILE, 0o4755);"
        " os.link(f'/proc/self/fd/{fd}', 'l', follow_symlinks=True)"
    ),
    "mknod": python("import os; os.umask(0); os.mknod('m', 0o104755)"),
    "a mkdir with a mode": python("import os; os.umask(0); os.mkdir('n', 0o2755)"),
    "fchmodat": called("fchmodat", "-100, b'plain', 0o4755"),
    "fchmodat2": called("fchmodat2", "-100, b'plain', 0o4755, 0"),
    "fchmodat2 of a descriptor": called("fchmodat2", "fd, b'', 0o4755, 0x1000"),
    "openat2": called("openat2", "-100, b'o', (ctypes.c_uint64 * 3)(66, 0o4755, 0), 24"),
    "openat": called("openat", "-100, b'p', 66, 0o4755"),
    "a mode with bits above it": called("fchmod", "fd, ctypes.c_ulong(0xFFFFFFFF00000000 | 0o4755)"),
    "the older chmod": called("chmod", "b'plain', 0o4755"),
    "the older open": called("open", "b'q', 66, 0o4755"),
    "creat": called("creat", "b'r', 0o4755"),
    "the older mknod": called("mknod", "b's', 0o104755, 0"),
    "another numbering": python("import ctypes; open('t', 'w'); ctypes.CDLL(None).syscall(1 << 30 | 90, b't', 0o4755)"),
}
ORDINARY = {
    "modes": "touch x && chmod 755 x && chmod u+x,g-w x && mkdir -p d/e && mkdir -m 1777 sticky && chmod -R go-w d",
    "install": "install -m 755 /bin/true y && install -d -m 750 z",
    "an archive": "mkdir t && cp -a a.txt x t && tar cf u.tar t && tar xpf u.tar && cp -a t copy",
    "git": "mkdir r && cd r && git init -q . && echo 1 > f && chmod +x f && git add f && git -c user.name=a -c"
    " user.email=a@b commit -qm x && git checkout -q -b other && test -x f",
    "Python": python(
        "import shutil, tempfile, os; d = tempfile.mkdtemp(dir='.'); shutil.copy2('a.txt', d);"
        " os.chmod(d, 0o755); shutil.copytree(d, 'tree'); shutil.rmtree(d)"
    ),
    "a build": "command -v gcc >/dev/null || exit 0; printf 'int main(void) { return 0; }' > m.c &&"
    " printf 'm: m.c\\n\\tgcc -o m m.c\\n\\tinstall -m 755 m bin-m\\n' > Makefile && make -s && ./bin-m",
    "packages": 'command -v npm >/dev/null || exit 0; mkdir -p n/p && cd n && echo \'{"name": "n"}\' > package.json &&'
    ' echo \'{"name": "p", "version": "1.0.0", "bin": "b.js"}\' > p/package.json && echo "//" > p/b.js &&'
    " npm install --offline --no-audit --no-fund --install-links ./p && test -x node_modules/.bin/p",
}


@pytest.fixture
def root(home: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    escapes.workspace(folder)
    with tarfile.open(folder / "set.tar", "w") as archive:
        for name, mode in (("from-archive", 0o4755), ("other", 0o2755)):
            member = tarfile.TarInfo(name)
            member.mode, member.size = mode, 3
            archive.addfile(member, io.BytesIO(b"abc"))
    return folder


def existing() -> str:
    """A setuid program of the system."""
    found = (f"/usr/bin/{name}" for name in ("passwd", "su", "mount", "umount", "chsh", "newgrp"))
    return next((path for path in found if os.path.exists(path) and os.stat(path).st_mode & stat.S_ISUID), "/bin/true")


def filled(table: dict[str, str]) -> dict[str, str]:
    return {name: text.replace("SETUID", existing()) for name, text in table.items()}


def bearing(root: Path) -> list[str]:
    """What has a setuid or setgid bit."""
    paths = (Path(folder, name) for folder, folders, files in os.walk(root) for name in (*folders, *files))
    return sorted(str(path.relative_to(root)) for path in paths if path.lstat().st_mode & 0o6000)


def ran(kind: str, root: Path, table: dict[str, str]) -> dict[str, int]:
    if why := why_not(kind):
        pytest.skip(f"{kind} does not start on this machine: {why}")
    box = confinement.create_box(kind, SandboxSpec((str(root),)))

    async def every() -> dict[str, int]:
        return {name: (await escapes.bash(text, box, root)).returncode for name, text in filled(table).items()}

    try:
        return asyncio.run(every())
    finally:
        box.close()


@pytest.mark.parametrize("kind", KINDS)
def test_no_way_leaves_a_setuid_file(kind: str, root: Path) -> None:
    ran(kind, root, WAYS)
    assert (root / "c").exists() or (root / "plain").exists(), "the attacks ran"
    assert bearing(root) == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_way_leaves_a_setuid_file_for_a_normal_user(kind: str, root: Path, home: Path, needs: Needs) -> None:
    needs("setpriv")
    if os.geteuid() != 0:
        pytest.skip("whoever runs the tests is a normal user already")
    if why := why_not(kind):
        pytest.skip(f"{kind} does not start on this machine: {why}")
    as_nobody(kind, root, home, filled(WAYS))
    assert (root / "plain").exists(), "the attacks ran"
    assert bearing(root) == []


@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_work_goes_on(kind: str, root: Path) -> None:
    assert {name: code for name, code in ran(kind, root, ORDINARY).items() if code} == {}


@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_work_goes_on_for_a_normal_user(kind: str, root: Path, home: Path, needs: Needs) -> None:
    needs("setpriv")
    if os.geteuid() != 0:
        pytest.skip("whoever runs the tests is a normal user already")
    if why := why_not(kind):
        pytest.skip(f"{kind} does not start on this machine: {why}")
    codes = as_nobody(kind, root, home, filled(ORDINARY))
    assert {name: code for name, code in codes.items() if code} == {}
