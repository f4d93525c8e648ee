"""`scripts/setup` finds what works by running it; uv mostly is one that only takes notes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.program import Soak

ROOT = Path(__file__).resolve().parent.parent

BROKEN = "#!/bin/sh\necho 'shim: no such program' >&2\nexit 127\n"
OLD_PYTHON = "#!/bin/sh\nexit 1\n"
UV = f"""#!/bin/sh
echo "$0 $* (with $UV_PYTHON, compiling $UV_COMPILE_BYTECODE)" >>"$NOTES"
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

    def run(self, *words: str, path: str = "", **more: str) -> "subprocess.CompletedProcess[str]":
        env = {"PATH": f"{self.bin}:{path}/usr/bin:/bin", "HOME": str(self.bin), "NOTES": str(self.bin / "notes")}
        return subprocess.run(
            words, cwd=self.root, env={**env, **more}, capture_output=True, text=True, timeout=600, errors="replace"
        )

    def setup(self) -> "subprocess.CompletedProcess[str]":
        return self.run("scripts/setup")

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
    assert checkout.syncs[0].endswith(", compiling 1)")


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


def pyenv(checkout: Checkout, root: Path) -> Path:
    """pyenv's layout with a 3.12, which is nowhere else, and a shim that fails because another is chosen."""
    (checkout.bin / "python3.12").unlink()
    for folder in (root / "shims", root / "versions/3.11.7/bin", root / "versions/3.12.1/bin"):
        folder.mkdir(parents=True)
    (root / "versions/3.12.1/bin/python").symlink_to(os.path.realpath(sys.executable))
    for shim in (root / "shims/python3.12", root / "versions/3.11.7/bin/python3"):
        shim.write_text(BROKEN)
        shim.chmod(0o755)
    return root


@pytest.mark.parametrize("place", ["home", "PYENV_ROOT", "shims on PATH", "beside python3"])
def test_a_python_of_pyenv_is_found_where_python3_is_older(checkout: Checkout, tmp_path: Path, place: str) -> None:
    root = pyenv(checkout, checkout.bin / ".pyenv" if place == "home" else tmp_path / "pyenv")
    more = {"PYENV_ROOT": str(root)} if place == "PYENV_ROOT" else {}
    path = {"shims on PATH": f"{root}/shims:", "beside python3": f"{root}/versions/3.11.7/bin:"}.get(place, "")
    if place == "beside python3":
        (checkout.bin / "python3").unlink()
    done = checkout.run("scripts/find-python", path=path, **more)
    assert done.returncode == 0, done.stderr
    ask = [done.stdout.strip(), "-c", "import sys; print(sys.version_info >= (3, 12))"]
    assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout == "True\n"


def test_every_step_of_an_installation_names_the_python_that_was_found(checkout: Checkout, tmp_path: Path) -> None:
    """uv would look for its own, and want to fetch one where python3 is older."""
    checkout.install(uv=UV)
    root = pyenv(checkout, tmp_path / "pyenv")
    checkout.run("scripts/install-locked", str(tmp_path / "made"), PYENV_ROOT=str(root))
    steps = [line for line in (checkout.bin / "notes").read_text().splitlines() if "--version" not in line]
    assert [line.split()[1] for line in steps] == ["venv", "export", "pip", "export", "build", "pip"]
    assert all(line.endswith(f"(with {root}/versions/3.12.1/bin/python, compiling )") for line in steps), steps


def test_an_older_python3_brings_uv_and_uv_a_newer_one(checkout: Checkout) -> None:
    (checkout.bin / "python3.12").unlink()
    checkout.install(
        python3_12=OLD_PYTHON, uv=UV, python3="#!/bin/sh\ncase $2 in *3,\\ 9*) exit 0 ;; *) exit 1 ;; esac\n"
    )
    done = checkout.setup()
    assert "uv fetches one" in done.stderr
    assert checkout.syncs[0].endswith("(with 3.12, compiling 1)")


@pytest.mark.soak
def test_the_readmes_commands_on_a_fresh_machine(
    checkout: Checkout, tmp_path: Path, soak: Soak, needs: Callable[[str], str]
) -> None:
    """An empty home, python3 is 3.11, 3.12 lies under pyenv, no uv: the real set-up, the demo and some of the tests."""
    if not soak.turn(2):
        return
    ask = [needs("python3.11"), "-c", "import sys; print(sys.executable)"]
    old = subprocess.run(ask, cwd="/", capture_output=True, text=True, check=True).stdout.strip()
    root = pyenv(checkout, tmp_path / "pyenv")
    for name in ("python3", "python"):
        (checkout.bin / name).unlink()
        (checkout.bin / name).symlink_to(old)
    kept = os.environ.get("UV_CACHE_DIR", os.path.expanduser("~/.cache/uv"))
    passed = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTPS_"))}
    more = {**passed, "UV_CACHE_DIR": kept, "UV_PYTHON_DOWNLOADS": "never"}
    shutil.rmtree(checkout.root)
    away = shutil.ignore_patterns(".git", ".venv", ".uv", ".*_cache", "__pycache__", "dist")
    shutil.copytree(ROOT, checkout.root, ignore=away, symlinks=True)
    path = f"{root}/shims:"
    demo = checkout.run("make", "demo", path=path, **more)
    assert demo.returncode == 0, demo.stderr
    assert "the chain of receipts verifies" in demo.stdout
    some = "ARGS=-q tests/test_deployment.py tests/terminal/commands/test_interrupts.py"
    tests = checkout.run("make", "test", some, path=path, **more)
    assert tests.returncode == 0, tests.stdout + tests.stderr
    assert (checkout.root / ".uv/bin/uv").exists()


def test_without_extras_only_python_make_and_git_are_found() -> None:
    if shutil.which("dpkg-query") is None:
        pytest.skip("the script reads the package database of Debian or Ubuntu")
    extra = "bwrap rg psql initdb pg_ctl chromium npm npx node tmux git-lfs ssh sshd openssl curl uv systemctl"
    python = "python3 -c 'import sys; print(sys.executable)'"
    code = f"for name in {extra}; do command -v $name; done; git --version; make --version; {python}"
    done = subprocess.run([ROOT / "scripts/without-extras", "bash", "-c", code], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("git version"), done
    assert "without-extras" not in lines[-1], "an environment made by this Python outlives the script"
    assert subprocess.run([lines[-1], "--version"], capture_output=True).stdout.startswith(b"Python 3.1")
