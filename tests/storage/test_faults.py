"""The fault of a criterion: what is understood, and what is refused with its reason."""

import pytest

from adderclaw.core.errors import UsageError
from adderclaw.storage.sdlc.faults import Fault, parse

UNDERSTOOD = {
    "in `src/a.py` replace `x + 1` with `x`": (Fault("src/a.py", "x + 1", "x"),),
    "In `a` replace `b` by `c`.": (Fault("a", "b", "c"),),
    "- in `a b.txt`: replace ``one `tick` `` with nothing": (Fault("a b.txt", "one `tick` ", ""),),
    "in `a` replace `b` with `c`\n\ndelete `docs/x.md`": (Fault("a", "b", "c"), Fault("docs/x.md")),
}
REFUSED = {
    "": "empty",
    "break it": "is not understood; write in `FILE` replace",
    "in `a` replace `b` with `b`": "changes nothing",
    "in `/etc/passwd` replace `a` with `b`": "give a path in the workspace",
    "in `../x` replace `a` with `b`": "give a path in the workspace",
    "delete `.`": "give a path in the workspace",
}


def test_faults_are_read_or_refused_with_their_reason() -> None:
    for text, wanted in UNDERSTOOD.items():
        assert parse(text) == wanted, text
    for text, reason in REFUSED.items():
        with pytest.raises(UsageError) as refused:
            parse(text)
        assert reason in str(refused.value), text
