"""A search by name that cannot look at everything says so, and finds the rest."""

import os
import tempfile
from pathlib import Path

from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace.globs import Patterns
from adderclaw.sandbox.workspace.matching import find_matching

NOBODY = 65534


def test_an_entry_that_cannot_be_looked_at_leaves_the_search_incomplete() -> None:
    """Its folder can be listed, and nothing in it be asked about."""
    with tempfile.TemporaryDirectory(prefix="adderclaw-matching-") as folder:
        root, locked = Path(folder), Path(folder) / "locked"
        locked.mkdir()
        for path in (root / "a.txt", locked / "b.txt"):
            path.write_text("x")
        place, patterns = workspace.resolved_path(folder), Patterns(["**/*.txt"])
        assert find_matching(place, patterns, 10, lambda: False).total == 2
        root.chmod(0o755)
        locked.chmod(0o444)
        me = os.geteuid()
        try:
            os.seteuid(NOBODY if me == 0 else me)
            found = find_matching(place, patterns, 10, lambda: False)
        finally:
            os.seteuid(me)
            locked.chmod(0o755)
    assert (found.newest(), found.unseen) == (["a.txt"], 1)
