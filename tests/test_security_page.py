"""The tables of docs/security.md are those of the program, and the page stays short."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATE = [sys.executable, str(ROOT / "scripts" / "generate_security_tables.py")]


def test_its_tables_are_what_the_program_reads() -> None:
    done = subprocess.run([*GENERATE, "--check"], check=False)
    assert done.returncode == 0, "run: .venv/bin/python scripts/generate_security_tables.py"


def test_its_figures_are_those_of_the_code() -> None:
    """A figure that nobody keeps is soon a wish; a tenth is what a week of ordinary work changes."""
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+\*\*[^`]+)` \| .* \| ([0-9,]+) in (\d+) files \|$", page, re.MULTILINE)
    assert len(rows) == 7
    for pattern, lines, files in rows:
        found = list(ROOT.glob(pattern))
        now = sum(len(path.read_bytes().splitlines()) for path in found)
        told = int(lines.replace(",", ""))
        assert abs(now - told) <= told / 10, f"{pattern} has {now} lines"
        assert abs(len(found) - int(files)) <= max(2, int(files) / 10), f"{pattern}: {len(found)} files"


def test_it_is_three_pages() -> None:
    """A page is some 75 lines here; generated tables apart."""
    lines = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if not line.startswith("|")]) <= 225
