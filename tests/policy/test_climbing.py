"""`..` behind a link climbs from the place that the link names: no command gets out of the workspace by one in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adderclaw.core.types import Autonomy
from tests.policy.test_corpus import World

OUT = (
    "cat b/c/l/../secret",
    "cat < b/c/l/../secret",
    "echo x > b/c/l/../secret",
    "cp b/c/l/../secret x",
    "cd b/c/l && cat ../secret",
    "cd b/c/l; cat ../secret",
    "(cd b/c/l; ls ..)",
    "cd b/c; cat l/../secret",
    "pushd b/c/l; cat ../secret",
    "for d in b/c/*; do cat $d/../secret; done",
    'f(){ cat "$1/../secret"; }; f b/c/l',
    "bash -c 'cat b/c/l/../secret'",
    "find b/c/l/.. -name secret",
    "grep -r TOP b/c/l/..",
    "git -C b/c/l/.. status",
    "make -C b/c/l/..",
    "tar -C b/c/l/.. -cf x.tar secret",
    "b/c/l/../evil.sh",
    "python3 b/c/l/../evil.py",
    "source b/c/l/../evil.sh",
)
CODE = (
    """python3 -c "print(open('b/c/l/../secret').read())" """,
    """python3 -c "import glob; print([open(p).read() for p in glob.glob('b/c/l/../s*')])" """,
    """node -e "console.log(require('fs').readFileSync('b/c/l/../secret', 'utf8'))" """,
)
INSIDE = (
    "cat b/c/../c/x",
    "cd b/c && cat ../../a.txt",
    "cat m/p/../q/x",
    "ls b/c/..",
)


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A workspace with links that stay in it, as those of package managers do."""
    made = World(tmp_path_factory.mktemp("climbing"))
    for folder in ("b/c", "m", "packages/p", "packages/q"):
        (made.root / folder).mkdir(parents=True)
    (made.root / "b/c/l").symlink_to("../..")
    (made.root / "m/p").symlink_to("../packages/p")
    Path(made.root.parent / "secret").write_text("TOP\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(made.home))
        patch.setenv("PATH", str(made.bin))
        yield made


@pytest.mark.parametrize("autonomy", ["supervised", "full"])
@pytest.mark.parametrize("sandboxed", [True, False])
def test_a_link_inside_is_no_way_out(linked: World, autonomy: Autonomy, sandboxed: bool) -> None:
    # Inline code is opaque: in a sandbox it is asked about, and finds nothing outside; in `full` it is any code.
    lines = OUT if autonomy == "full" or sandboxed else (*OUT, *CODE)
    decided = {command: linked.judge(command, autonomy, sandboxed=sandboxed) for command in lines}
    assert not {command: said.verdict for command, said in decided.items() if said.verdict != "deny"}


def test_what_stays_inside_is_not_denied(linked: World) -> None:
    decided = {command: linked.judge(command, "supervised", sandboxed=True) for command in INSIDE}
    assert not {command: said.reason for command, said in decided.items() if said.verdict == "deny"}
