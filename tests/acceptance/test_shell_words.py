"""What a shell inside of a command gets: its code is written out by us, its data arrives as it was written."""

import json

import pytest

from tests.acceptance.world import World

CASES = [
    ("bash show.sh 'a b' c", "[a b][c]"),
    ("sh show.sh 'a; b' '$x'", "[a; b][$x]"),
    ("timeout 5 bash show.sh 'x | y'", "[x | y]"),
    ("bash -c 'printf \"[%s]\" \"$@\"' x 'a b' c", "[a b][c]"),
    ("bash -o pipefail -ec 'printf \"[%s]\" \"$1\"' x '~ {1,2}'", "[~ {1,2}]"),
    ("bash <<'EOF'\nprintf '[%s]' 'a b'\nEOF", "[a b]"),
    ("bash cat.sh <<'EOF'\na  b; \"c\" $d\nEOF", 'a  b; "c" $d'),
]


@pytest.mark.parametrize(("command", "printed"), CASES, ids=[command[:24] for command, _ in CASES])
def test_words_reach_a_script_as_they_were_written(world: World, command: str, printed: str) -> None:
    (world.workspace / "show.sh").write_text("printf '[%s]' \"$@\"\n")
    (world.workspace / "cat.sh").write_text("cat\n")
    arguments = (
        "--workspace",
        str(world.workspace),
        "--profile",
        "sandboxed",
        "--json",
        json.dumps({"command": command}),
    )
    done = world.cli("tool", "run", "Bash", *arguments)
    assert (done.code, done.out.strip()) == (0, printed), done.err
