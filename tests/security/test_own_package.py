"""Where adderclaw lies in the workspace, no command changes what then runs without a sandbox."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import adderclaw
from tests.acceptance.world import call, text
from tests.security.world import YES, Den

EVIL = """
import glob, os, shutil
base = "tools/.venv"
site = glob.glob(base + "/lib/python3*/site-packages")[0]
def attempt(work):
    try:
        work()
        print("done", work.__name__)
    except OSError:
        pass
def rewrite(): open(site + "/adderclaw/__init__.py", "a").write("\\nopen('/var/tmp/WORD', 'w')\\n")
def start(): open(site + "/evil.pth", "w").write("import os; open('/var/tmp/WORD', 'w')\\n")
def script(): open(base + "/bin/adderclaw", "w").write("#!/bin/sh\\ntouch /var/tmp/WORD\\n")
def cached(): [open(f, "ab").write(b"x") for f in glob.glob(site + "/adderclaw/**/*.pyc", recursive=True)] or 1/0
def settings(): open(base + "/pyvenv.cfg", "a").write("home = /var/tmp\\n")
def interpreter(): os.remove(base + "/bin/python"); open(base + "/bin/python", "w").write("#!/bin/sh\\n")
def aside(): os.rename(base, "other")
def above(): os.rename("tools", "other")
def removed(): os.remove(site + "/adderclaw/__init__.py")
for work in (rewrite, start, script, settings, interpreter, aside, above, removed):
    attempt(work)
print("over")
"""


@pytest.fixture
def installed(world: Den) -> Path:
    """A program of ours in an environment of the project; its packages are those of the tests."""
    base = world.workspace / "tools" / ".venv"
    venv.create(base, with_pip=False, symlinks=True)
    site = next(base.glob("lib/python3*/site-packages"))
    shutil.copytree(Path(adderclaw.__file__).parent, site / "adderclaw", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "others.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    program = base / "bin" / "adderclaw"
    program.write_text(
        f"#!{base}/bin/python\nimport sys\nfrom adderclaw.terminal.commands import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    return program


def test_no_command_rewrites_the_program_that_runs_it(world: Den, installed: Path) -> None:
    canary = Path("/var/tmp", f"adderclaw-own-{os.getpid()}")
    (world.workspace / "evil.py").write_text(EVIL.replace("WORD", canary.name))
    tree = installed.parents[1]
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    world.configure("full")
    world.script(call("Bash", command="python3 evil.py"), text("done"))
    world.prepare()
    done = subprocess.run(
        [installed, "agent", "-m", "go"],
        env=world.cli.env,
        cwd=world.cli.cwd,
        input=YES.encode(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    said = world.entries("tool_result")[-1]["content"]
    assert "over" in said, done.stderr.decode()
    assert "done" not in said, said
    after = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert after == before
    assert done.stderr.decode().count("adderclaw itself is installed in the workspace") == 1
    assert b"uv tool install" in done.stderr
    subprocess.run([installed, "--version"], env=world.cli.env, check=True, capture_output=True, timeout=60)
    assert not canary.exists()
    assert sys.prefix not in str(tree)
