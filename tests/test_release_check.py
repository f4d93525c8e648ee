"""Which slow shows are due: those that are not recorded as held with the inputs as they are; and CI runs those."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import release_check as check

ROOT = Path(__file__).resolve().parent.parent


def recorded(path: Path, **changes: check.Outcome) -> Path:
    """A record in which every show held with the inputs of this checkout, but for these changes."""
    held = {show: check.Outcome("holds", "2026-11-01", 60, check.digests(show)) for show in check.RESTS_ON}
    check.write(path, {**held, **{name.replace("_", "-"): one for name, one in changes.items()}})
    return path


def listed(file: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, ROOT / "scripts/release_check.py", "--due", "--list", "--file", file, *more]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


def test_nothing_is_due_where_all_held_with_the_same_inputs(tmp_path: Path) -> None:
    done = listed(recorded(tmp_path / "record.toml"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("not due, it held on 2026-11-01 with the same inputs") == len(check.RESTS_ON)


def test_without_a_record_all_are_due(tmp_path: Path) -> None:
    done = listed(tmp_path / "none.toml")
    assert done.returncode == 1
    assert done.stdout.count("due, no run of it is recorded") == len(check.RESTS_ON)


def test_a_changed_input_makes_its_show_due_and_is_named(tmp_path: Path) -> None:
    other = check.Outcome("holds", "2026-11-01", 60, {**check.digests("image"), "Dockerfile": "0123456789abcdef"})
    failed = check.Outcome("failed", "2026-11-02", 60, check.digests("wheel"))
    done = listed(recorded(tmp_path / "record.toml", image=other, wheel=failed))
    assert done.returncode == 1
    assert "image: due, Dockerfile changed since it held on 2026-11-01\n" in done.stdout
    assert "wheel: due, it failed on 2026-11-02\n" in done.stdout
    assert "readme: not due" in done.stdout
    assert "single-file: not due" in done.stdout
    assert listed(tmp_path / "record.toml", "readme").returncode == 0, "of this one alone nothing is due"


def test_a_show_that_is_none_is_refused(tmp_path: Path) -> None:
    done = listed(tmp_path / "none.toml", "picture")
    assert done.returncode == 2
    assert "picture: the shows are single-file, wheel, readme, image" in done.stderr


CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "another byte": (lambda at: (at / "Makefile").write_text("all:"), ["Makefile"]),
    "a new file": (lambda at: (at / "demo/new.py").touch(), ["demo"]),
    "another name": (lambda at: (at / "demo/run.py").rename(at / "demo/runs.py"), ["demo"]),
    "a file that can be executed": (lambda at: (at / "demo/run.py").chmod(0o755), ["demo"]),
    "a part that is gone": (lambda at: (at / "uv.lock").unlink(), ["uv.lock"]),
    "what is built": (lambda at: (at / "pyproject.toml").write_text("[project]\nname = 'a'\n"), ["pyproject.toml"]),
    "what a checker reads": (lambda at: (at / "pyproject.toml").write_text("[tool.ruff]\nline = 9\n"), []),
    "bytecode": (lambda at: (at / "demo/__pycache__/a.pyc").touch(), []),
    "something that it does not rest on": (lambda at: (at / "README.md").write_text("other"), []),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_a_change(name: str, tmp_path: Path) -> None:
    for part in check.RESTS_ON["readme"]:
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / part).mkdir() if part == "demo" else (tmp_path / part).write_text(
            "[tool.ruff]\n" if part.endswith(".toml") else part
        )
    (tmp_path / "demo/run.py").touch()
    (tmp_path / "demo/__pycache__").mkdir()
    before = check.digests("readme", tmp_path)
    change, wanted = CHANGES[name]
    change(tmp_path)
    after = check.digests("readme", tmp_path)
    assert [part for part in after if after[part] != before[part]] == wanted


def test_what_they_rest_on_is_there_and_every_show_of_the_record_has_held() -> None:
    parts = {part for show in check.RESTS_ON.values() for part in show}
    assert not [part for part in sorted(parts) if not (ROOT / part).exists()]
    found = check.read(check.RECORD)
    assert list(found) == list(check.SHOWS) == list(check.RESTS_ON)
    assert {one.outcome for one in found.values()} == {"holds"}


def test_ci_runs_what_is_due_before_the_rows_that_rest_on_it() -> None:
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    shows, script = lines.index("step release_shows"), next(n for n, one in enumerate(lines) if "sdlc-accept" in one)
    assert shows < script
    assert '--passed "make release-check ARGS=--due"' in "".join(lines[script:])
