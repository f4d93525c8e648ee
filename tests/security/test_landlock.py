"""Where Landlock alone confines commands: nothing outside is changed or reached, and work inside goes on."""

import os
import shutil
from pathlib import Path

from tests.security.world import Attack, Den

HERE = Path(__file__).parent


def attacked(den: Den, *targets: Path) -> Attack:
    """The program that tries everything, run by an operator who says yes."""
    shutil.copy(HERE / "outside.py", den.workspace / "outside.py")
    inside = den.workspace / "inside.txt"
    inside.write_text("x")
    os.setxattr(inside, "user.canary", b"x")
    (den.workspace / "targets.txt").write_text("\n".join(map(str, (*targets, inside))))
    den.configure("supervised")
    made = den.attack("python3 outside.py targets.txt")
    assert "tried all" in made.last, made.last
    return made


def test_nothing_outside_is_changed(landlocked: Den) -> None:
    den = landlocked
    targets = [den.home / ".ssh" / "id_rsa", den.home / ".bashrc", den.neighbour / "secret.txt", den.neighbour]
    targets += [path for folder in den.system for path in (folder / "secret.txt", folder / "writable" / "secret.txt")]
    for path in targets:
        os.setxattr(path, "user.canary", b"x")
    made = attacked(den, *targets)
    for path in targets:
        assert f"{path}: nothing" in made.last, made.last
    den.unharmed(made)


def test_the_same_changes_work_inside(landlocked: Den) -> None:
    """What is refused outside is not refused because nothing works."""
    made = attacked(landlocked)
    (line, *_) = [line for line in made.last.splitlines() if "inside.txt:" in line]
    for name in (
        "fchmodat,",
        "fchmodat without following",
        "fchownat,",
        "utimensat,",
        "utimensat, now",
        "chmod",
        "chown",
    ):
        assert name in line, name
    for name in ("lchown", "utime,", "utimes", "setxattr", "removexattr", "fchmod,", "fchown", "futimens", "fsetxattr"):
        assert name in line, name
    assert "its flags" not in line
    assert "setxattrat" not in line
