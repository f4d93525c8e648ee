"""A project's settings deny things: no tool and no command of the model empties, replaces or hides them."""

import json

import pytest

from tests.acceptance.world import call, text
from tests.security.world import Den

DENIES = json.dumps({"permissions": {"deny": ["Read(./secret.txt)"]}})
FILES = ["agent.json", ".adderclaw/agent.json", ".adderclaw/settings.json"]


def denied_next_time(den: Den) -> None:
    """The next session still holds what the file denies."""
    den.script(call("Read", file_path="secret.txt"), text("done"))
    den.cli("agent", "-m", "read it", stdin="y\n" * 9)
    assert den.receipts()[-1]["status"] == "denied", den.entries("tool_result")[-1]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("profile", ["supervised", "sandboxed"])
def test_it_cannot_be_emptied(world: Den, name: str, profile: str) -> None:
    file = world.workspace / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(DENIES)
    (world.workspace / "secret.txt").write_text("canary\n")
    (world.workspace / "empty.py").write_text(
        f"import os, pathlib\n"
        f"for act in (lambda: pathlib.Path({name!r}).write_text('{{}}'), lambda: os.unlink({name!r}),\n"
        f"            lambda: os.rename('other.json', {name!r}), lambda: os.rename({name!r}, 'gone.json')):\n"
        f"    try: act()\n"
        f"    except OSError as error: print(error)\n"
    )
    (world.workspace / "other.json").write_text("{}")
    world.configure(rounds=60)
    made = world.attack(
        call("Write", file_path=name, content="{}"),
        call("Read", file_path=name),
        call("Write", file_path=name, content="{}"),
        call("Edit", file_path=name, old_string="Read", new_string="Reed"),
        call("Delete", path=name),
        f"echo '{{}}' > {name}",
        f"cp other.json {name}",
        "python3 empty.py",
        arguments=("--profile", profile),
    )
    world.unharmed(made)
    assert file.read_text() == DENIES, made.results
    denied_next_time(world)


@pytest.mark.parametrize("first", ["agent.yaml", "agent.toml"])
def test_nor_hidden_by_one_that_goes_before_it(world: Den, first: str) -> None:
    (world.workspace / "agent.json").write_text(DENIES)
    (world.workspace / "secret.txt").write_text("canary\n")
    made = world.attack(call("Write", file_path=first, content="\n"), f"touch {first}")
    world.unharmed(made)
    assert made.receipts[0]["status"] == "denied"
    (world.workspace / first).write_text("")  # a program may make it: that is reported, and hides nothing
    denied_next_time(world)
    done = world.cli("config", "validate", cwd=world.workspace)
    assert f"because {first} takes precedence" in done.err + done.out
