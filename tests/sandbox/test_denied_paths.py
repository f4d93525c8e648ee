"""What rules and forbidden paths take from commands, as it is found on the disk."""

import os
from pathlib import Path

import pytest

from adderclaw import policy as gate
from adderclaw.agent.run import denied_paths
from adderclaw.agent.run.denied_paths import Held, Shutter
from adderclaw.config.schema import Config, Permissions, Security
from adderclaw.sandbox.legacy.survey import Surveyor


def made(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


class Looker:
    """One look, and what of it is held."""

    def __init__(self, *, inside_too: bool = True) -> None:
        self._shutter, self._surveyor = Shutter(inside_too=inside_too), Surveyor()

    def look(self, policy: gate.Policy, roots: tuple[str, ...]) -> Held:
        found = self._surveyor.survey(roots, shut=self._shutter.shut(policy, roots))
        return self._shutter.held(found, policy, roots)


def look(root: Path, *deny: str, forbidden: tuple[str, ...] = (), looker: Looker | None = None) -> Held:
    config = Config(permissions=Permissions(deny=list(deny)), security=Security(forbidden_paths=list(forbidden)))
    return (looker or Looker()).look(gate.policy_of(config, str(root), str(root / "home")), (str(root),))


def names(paths: tuple[str, ...], root: Path) -> list[str]:
    return sorted(os.path.relpath(path, root) for path in paths)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    made(root, "a/.env", "b/c/.env", "src/x.py", "src/deep/y.py", "keys/one.pem", "keys/readme", ".git/config")
    return root


@pytest.mark.parametrize(
    ("rule", "unseen", "unchanged"),
    [
        ("Read(.env)", ["a/.env", "b/c/.env"], []),
        ("Read(.ENV)", ["a/.env", "b/c/.env"], []),
        ("Read(./a/.env)", ["a/.env"], []),
        ("Read(**/*.pem)", ["keys/one.pem"], []),
        ("Read(./keys/**)", ["keys"], []),
        ("Read(keys)", ["keys"], []),
        ("Edit(./src/**)", [], ["src"]),
        ("Edit(src/*.py)", [], ["src/x.py"]),
        ("Write(./src)", [], ["src"]),
        ("Read(./.git/**)", [], []),
        ("Grep(.env)", [], []),
        ("Read", [], []),
    ],
)
def test_what_a_rule_takes(rule: str, unseen: list[str], unchanged: list[str], root: Path) -> None:
    held = look(root, rule)
    assert (names(held.unseen, root), names(held.unchanged, root)) == (unseen, unchanged)
    assert held.limits == ()


def test_a_rule_that_knows_a_name_wherever_it_is_needs_no_fixed_folders(root: Path) -> None:
    assert look(root, "Read(.env)").fixed == ()
    assert names(look(root, "Read(./b/c/.env)").fixed, root) == ["b/c/.env"]


def test_files_that_come_and_go_are_seen(root: Path) -> None:
    looker = Looker()
    assert names(look(root, "Read(.env)", looker=looker).unseen, root) == ["a/.env", "b/c/.env"]
    (root / "a" / ".env").unlink()
    made(root, "src/deep/.env", "new/more/.env")
    assert names(look(root, "Read(.env)", looker=looker).unseen, root) == ["b/c/.env", "new/more/.env", "src/deep/.env"]
    assert look(root, "Read(*.none)", looker=looker).unseen == ()


def test_a_link_is_hidden_with_its_target_and_one_that_leads_away_hides_nothing_there(root: Path) -> None:
    (root / "l.pem").symlink_to("src/x.py")
    (root / "away.pem").symlink_to("/usr/bin/env")
    (root / "loop.pem").symlink_to("loop.pem")
    assert names(look(root, "Read(./*.pem)").unseen, root) == ["src/x.py"]


def test_elsewhere_only_whole_names_that_no_program_needs(root: Path, tmp_path: Path) -> None:
    made(tmp_path, "else/x", "other/y")
    forbidden = ("/etc", "/usr/lib", str(tmp_path), f"{tmp_path}/else", str(root), f"{tmp_path}/not-there")
    held = look(root, f"Read(/{tmp_path}/other/**)", "Read(//usr/bin/*)", "Read(//etc/passwd)", forbidden=forbidden)
    assert set(held.unseen) == {f"{tmp_path}/else", f"{tmp_path}/other"}


def test_more_than_can_be_held_is_said(tmp_path: Path) -> None:
    made(tmp_path, *(f"many/{number}.pem" for number in range(denied_paths.MOST_HELD + 5)))
    held = look(tmp_path, "Read(*.pem)", "Edit(*.none)")
    assert len(held.unseen) == denied_paths.MOST_HELD
    assert held.limits == (denied_paths.TOO_MANY_HELD,)
    assert look(tmp_path, "Read(./many/**)").limits == ()


def test_where_nothing_can_be_held_that_is_reported(root: Path) -> None:
    held = look(root, "Read(.env)", "Edit(./src/**)", looker=Looker(inside_too=False))
    assert held.unseen == ()
    assert names(held.unchanged, root) == ["src"], "a change of it is reported"
    assert "a/.env" in held.limits[0]
    assert "src" in held.limits[1]
