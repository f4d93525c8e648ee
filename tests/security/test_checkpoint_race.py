"""Checkpoints are taken and restored while folders are exchanged for links to the home: nothing there is touched."""

import hashlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import pytest

from adderclaw.config.own_paths import OwnPaths
from adderclaw.sandbox.legacy.checkpoints.blobs import Blobs
from adderclaw.sandbox.legacy.checkpoints.restore import Workshop, carry_out, finish_pending, plan
from adderclaw.sandbox.legacy.checkpoints.tree import IGNORED, NOBODYS, Forgets, Index, Limits, scan, state_at
from adderclaw.storage import Store
from adderclaw.storage import checkpoints as rows
from adderclaw.storage.checkpoints import Change, Draft, State
from tests.acceptance.world import call
from tests.program import Soak
from tests.security.canaries import look
from tests.security.swapping import swapping
from tests.security.world import Den

LIMITS = Limits(10_000, 1 << 20, 1 << 26, IGNORED)
NAMES = ("id_rsa", "sub/authorized_keys", "config.toml")


def nobodys(_root: str) -> OwnPaths:
    return NOBODYS


class Kept(Forgets):
    """What a look would keep."""

    def __init__(self) -> None:
        self.contents = set[bytes]()

    def keep(self, digest: str, data: bytes) -> None:
        self.contents.add(data)


class Field(NamedTuple):
    """A workspace with a folder, a link to a folder outside with the same names, and a store."""

    root: Path
    outside: Path
    shop: Workshop

    def seen(self) -> dict[str, object]:
        return {str(path): look(path, read_time=True) for path in sorted(self.outside.rglob("*"))}


@pytest.fixture
def field(tmp_path: Path) -> Generator[Field]:
    root, outside = tmp_path / "ws", tmp_path / "outside"
    for folder, content in ((root / "door", "inside"), (outside, "canary")):
        for name in NAMES:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)
            (folder / name).chmod(0o600)
    (root / "bad").symlink_to(outside)
    store = Store.open(str(tmp_path / "memory.sqlite"))
    yield Field(root, outside, Workshop(store, Blobs(str(tmp_path / "checkpoints"), store), LIMITS, nobodys))
    store.close()


@pytest.mark.soak
def test_no_checkpoint_holds_what_lies_outside(field: Field, soak: Soak) -> None:
    before, kept = field.seen(), Kept()
    with swapping(field.root / "door", field.root / "bad") as swapper:
        for _ in soak.of(6000):
            index: Index = {}
            scan(str(field.root), index, LIMITS, kept)
            for name in NAMES:
                state_at(str(field.root), f"door/{name}", LIMITS, kept)
    assert kept.contents == {b"inside"}
    assert field.seen() == before
    assert swapper.count > 1000


def _drafted(field: Field) -> int:
    """A checkpoint before which two files were different, one was not there, and a folder and a link were."""
    old = b"as it was"
    digest = hashlib.sha256(old).hexdigest()
    field.shop.blobs.keep(digest, old)
    then, now = State("file", 0o644, len(old), digest), State("file", 0o600, 6, "")
    changes = [
        Change("door/id_rsa", then, now),
        Change("door/sub/authorized_keys", then, now),
        Change("door/config.toml", None, now),
        Change("door/made", State("folder", 0o777), None),
        Change("door/link", State("link", 0, 0, "/etc/passwd"), None),
    ]
    draft = Draft(str(field.root), "c", "s", "s", 1, "call", "Bash", "t", "")
    with field.shop.store.write() as cursor:
        rows.add_blobs(cursor, field.shop.blobs.taken())
        return rows.add(cursor, draft, changes)


@pytest.mark.soak
def test_no_restore_writes_outside(field: Field, soak: Soak) -> None:
    made = _drafted(field)
    before = field.seen()
    inner = os.open(field.root / "door", os.O_RDONLY | os.O_DIRECTORY)
    done = 0
    with swapping(field.root / "door", field.root / "bad") as swapper:
        for number in soak.of(1500):
            for name in NAMES:
                with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=inner), "w") as file:
                    file.write(f"by a tool {number}")
            done += len(carry_out(field.shop, plan(field.shop, made, force=True)).done)
            finish_pending(field.shop)
    os.close(inner)
    assert field.seen() == before
    assert done > 10
    assert swapper.count > 1000


def test_a_link_put_in_place_of_a_folder_is_not_followed(field: Field) -> None:
    made = _drafted(field)
    before = field.seen()
    planned = plan(field.shop, made, force=True)
    (field.root / "door").rename(field.root / "away")
    (field.root / "door").symlink_to(field.outside)
    outcome = carry_out(field.shop, planned)
    assert not outcome.done
    assert outcome.failed
    assert field.seen() == before


def test_rewinding_what_a_script_turned_into_links(anyone: Den) -> None:
    """By the program: a file is written, its folder becomes a link to another project, and the operator restores."""
    made = anyone.attack(
        call("Write", file_path="door/secret.txt", content="by a tool\n"),
        call("Write", file_path="door/src/main.py", content="by a tool\n"),
    )
    (anyone.workspace / "door").rename(anyone.workspace / "away")
    (anyone.workspace / "door").symlink_to(anyone.neighbour)
    anyone.prepare()
    for arguments in (("checkpoint", "restore", "1"), ("checkpoint", "restore", "1", "--force")):
        anyone.cli(*arguments, cwd=anyone.workspace)
    anyone.unharmed(made)
