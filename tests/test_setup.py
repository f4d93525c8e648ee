"""`scripts/setup` finds what works by running it; uv, which would fetch packages, is one that only takes notes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent

BROKEN = "#!/bin/sh\necho 'shim: no such program' >&2\nexit 127\n"
OLD_PYTHON = "#!/bin/sh\nexit 1\n"
UV = f"""#!/bin/sh
echo "$0 $*" >>"$NOTES"
case $1 in sync) mkdir -p .venv/bin && ln -sf {sys.executable} .venv/bin/python ;; *) echo 'uv 0' ;; esac
"""
PYTHON_WITH_UV = """#!/bin/sh
[ "$1 $2" = "-m uv" ] || exit 1
shift 2
exec uv-module "$@"
"""


class Checkout(NamedTuple):
    """A fresh checkout on a machine whose programs are those in `bin` and the system's."""

    root: Path
    bin: Path

    def install(self, **programs: str) -> None:
        for name, text in programs.items():
            file = self.bin / name.replace("_", "-").replace("3-12", "3.12")
            file.write_text(text)
            file.chmod(0o755)

    def setup(self) -> "subprocess.CompletedProcess[str]":
        env = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.bin), "NOTES": str(self.bin / "notes")}
        return subprocess.run(["scripts/setup"], cwd=self.root, env=env, capture_output=True, text=True, timeout=60)

    @property
    def syncs(self) -> list[str]:
        notes = self.bin / "notes"
        return [line for line in notes.read_text().splitlines() if " sync " in line] if notes.exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path / "checkout", tmp_path / "bin")
    made.bin.mkdir()
    (made.root / "src").mkdir(parents=True)
    (made.root / "src" / "module.py").write_text("x = 1\n")
    shutil.copytree(ROOT / "scripts", made.root / "scripts")
    for name in ("uv.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, made.root)
    made.install(python3=OLD_PYTHON, python=OLD_PYTHON)
    (made.bin / "python3.12").symlink_to(os.path.realpath(sys.executable))
    return made


def test_no_new_python_is_an_error_that_names_the_fix(checkout: Checkout) -> None:
    (checkout.bin / "python3.12").unlink()
    checkout.install(python3_12=OLD_PYTHON)
    done = checkout.setup()
    assert done.returncode != 0
    assert "no Python 3.12" in done.stderr
    assert "install one" in done.stderr


def test_a_shim_that_fails_is_passed_over(checkout: Checkout) -> None:
    checkout.install(uv=BROKEN, uv_module=UV, python3=PYTHON_WITH_UV)
    done = checkout.setup()
    assert done.returncode == 0, done.stderr
    assert len(checkout.syncs) == 1
    assert "uv-module sync" in checkout.syncs[0]
    assert "--frozen --compile-bytecode" in checkout.syncs[0]


def test_own_bytecode_is_there_and_a_second_time_does_nothing(checkout: Checkout) -> None:
    checkout.install(uv=UV)
    assert checkout.setup().returncode == 0
    assert checkout.setup().stderr == ""
    assert len(checkout.syncs) == 1
    assert list((checkout.root / "src" / "__pycache__").glob("module.*.pyc"))


def test_a_newer_lock_file_is_followed(checkout: Checkout) -> None:
    checkout.install(uv=UV)
    checkout.setup()
    later = (checkout.root / ".venv" / ".stamp").stat().st_mtime + 5
    os.utime(checkout.root / "uv.lock", (later, later))
    checkout.setup()
    assert len(checkout.syncs) == 2


def test_an_environment_copied_from_elsewhere_is_made_anew(checkout: Checkout, tmp_path: Path) -> None:
    checkout.install(uv=UV)
    checkout.setup()
    (checkout.root / ".venv" / "stale").touch()
    copy = Checkout(tmp_path / "copy", checkout.bin)
    shutil.copytree(checkout.root, copy.root, symlinks=True)
    assert copy.setup().returncode == 0
    assert len(copy.syncs) == 2
    assert not (copy.root / ".venv" / "stale").exists()
