"""What we depend on: each package has a reason, an importer, an allowed licence and its hashes."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("script", ["dependencies.py", "check_licences.py"])
def test_the_scripts_of_ci_find_nothing(script: str) -> None:
    """Nothing is imported that is not named, nothing named that is not imported; docs/dependencies.md says why."""
    done = subprocess.run([sys.executable, ROOT / "scripts" / script, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_package_of_the_lock_is_held_to_hashes() -> None:
    for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]:
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        assert "editable" in package["source"] or files, package["name"]
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one["hash"]) for one in files), package["name"]


def test_the_base_is_free_of_what_the_extras_are_for() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    from dependencies import locked  # pyright: ignore

    base: list[str] = locked(extras=False)  # pyright: ignore
    whole: list[str] = locked()  # pyright: ignore
    for name in ("opentelemetry-sdk", "dbos", "psycopg", "obstore", "prometheus-client", "agent-client-protocol"):
        assert name not in base
        assert name in whole
