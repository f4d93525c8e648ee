"""What we depend on: each package has a reason, an importer, an allowed licence and its hashes."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.test_packages import building

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("script", ["dependencies.py", "check_licences.py"])
def test_the_scripts_of_ci_find_nothing(script: str) -> None:
    """Nothing is imported that is not named, nothing named that is not imported; docs/dev/dependencies.md says why."""
    done = subprocess.run([sys.executable, ROOT / "scripts" / script, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_licence_is_read_from_the_package_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The expression, else the older fields, else the text of its file; what none of them tells is refused."""
    from scripts import check_licences as check

    assert check.licence_of("tld") == "MPL-1.1 OR GPL-2.0-only OR LGPL-2.1-or-later"
    assert check.licence_of("quickjs-ng") == "MIT", "which only its file says"
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name, about, text, wanted in (
        ("one", "License-Expression: MIT OR GPL-3.0-only", "", True),
        ("two", "License: GPLv3", "", False),
        ("three", "Classifier: License :: OSI Approved :: MIT License", "", True),
        ("four", "", "Do what you like, but pay.", False),
        ("five", "", "", False),
        ("six", "", "Apache License\n  Version 2.0, January 2004", True),
    ):
        folder = tmp_path / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1\n{about}\n")
        (folder / "LICENSE").write_text(text)
        (folder / "RECORD").write_text(f"{name}-1.dist-info/LICENSE,,\n" if text else "")
        assert check.is_allowed(check.licence_of(name)) == wanted, name


def test_every_package_of_the_lock_is_held_to_hashes() -> None:
    for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]:
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        assert "editable" in package["source"] or files, package["name"]
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one["hash"]) for one in files), package["name"]


def test_the_base_is_free_of_what_the_fleet_needs() -> None:
    from scripts.dependencies import locked

    base, whole = locked(extras=False), locked()
    for names, option in ((base, []), (whole, ["--all-extras"])):
        command = ["scripts/uv", "export", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes", *option]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=building(), check=True)
        lines = [one for one in done.stdout.splitlines() if re.match(r"\w", one)]
        assert names == sorted(re.split("[=; ]", one)[0] for one in lines), "what is counted is what is installed"
    for name in ("dbos", "psycopg", "obstore"):
        assert name not in base
        assert name in whole
