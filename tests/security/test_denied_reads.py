"""Files that a rule denies to Read, moved about by project code: no later command reads them under another name."""

import pytest

from tests.acceptance.world import call
from tests.security.world import Den

SECRET = "the-word-that-nobody-prints"
MOVES = """
import os
os.makedirs("sub", exist_ok=True)
os.makedirs("plain.git/refs", exist_ok=True)
os.makedirs("plain.git/objects", exist_ok=True)
open("plain.git/HEAD", "w").write("ref: refs/heads/main")
for old, new in (("one", "sub/.git"), ("two", "plain.git/objects/aa"), ("three", ".vscode"), ("four", "node_modules"),
                 ("five/.env", "five/.git/objects/.env"), ("six", "dist")):
    try:
        os.makedirs(os.path.dirname(new) or ".", exist_ok=True)
        os.rename(old, new)
    except OSError as error:
        print(error)
print("moved")
"""
READS = """
import os
for folder, _, names in os.walk("."):
    for name in names:
        try:
            print(open(os.path.join(folder, name), errors="replace").read())
        except OSError as error:
            print(error)
print("all read")
"""
RULES = '[permissions]\ndeny = ["Read(.env)"]\n'


@pytest.mark.parametrize("again", [1, 2])
def test_a_denied_file_is_not_read_wherever_its_folder_is_moved(anyone: Den, again: int) -> None:
    den = anyone
    for folder in ("one", "two", "three", "four/a/b/c/d", "five", "six/x"):
        (den.workspace / folder).mkdir(parents=True)
        (den.workspace / folder / ".env").write_text(SECRET)
    (den.workspace / "moves.py").write_text(MOVES)
    (den.workspace / "reads.py").write_text(READS)
    den.configure(more=RULES)
    made = den.attack(*["python3 moves.py"] * again, "python3 reads.py", call("Grep", pattern="nobody", path="."))
    assert "moved" in made.results[0]
    assert "all read" in made.results[again]
    assert not any(SECRET in result for result in made.results)
    den.unharmed(made)
