"""The tables of docs/security.md are those of the program, and the page stays short."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATE = [sys.executable, str(ROOT / "scripts" / "generate_security_tables.py")]


def test_its_tables_are_what_the_program_reads() -> None:
    done = subprocess.run([*GENERATE, "--check"], check=False)
    assert done.returncode == 0, "run: .venv/bin/python scripts/generate_security_tables.py"


def test_it_is_three_pages() -> None:
    """A page is some 75 lines here; generated tables apart."""
    lines = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if not line.startswith("|")]) <= 225
