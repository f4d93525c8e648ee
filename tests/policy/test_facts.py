"""What a call would touch comes back from the tape as it was: each kind of fact."""

from dataclasses import fields

import pytest

from adderclaw.core.types import HostFact, Json, PathFact, RemoteFact, Touch
from adderclaw.policy import facts

PLACE = PathFact("a", "/w/a", "/w/a", (1, 2))
FULL = Touch(
    reads=(PLACE,),
    writes=(PLACE,),
    hosts=(HostFact("GET", "https://a.test/", "a.test", 443, "https"),),
    removes=(PLACE,),
    gits=("/w/.git",),
    lost="too large",
    beyond="another project",
    why="reads",
    looks=True,
    inward=True,
    opaque=True,
    remotes=(RemoteFact("push", "ssh://a.test/x", "asked each time"),),
)


@pytest.mark.parametrize("kept", [{}, {"_": "Touch", "nothing": 1}, {"_": "PathFact"}, {"_": "Path"}])
def test_what_is_no_touch_is_refused(kept: Json) -> None:
    with pytest.raises(facts.InvalidFact):
        facts.touch_from_json(kept)


def test_every_fact_comes_back_as_it_was() -> None:
    empty = Touch()
    unset = [one.name for one in fields(Touch) if getattr(FULL, one.name) == getattr(empty, one.name)]
    assert unset == ["command"], "a field that is not tried here; plans are tried by the replay of commands"
    assert facts.touch_from_json(facts.touch_to_json(FULL)) == FULL
