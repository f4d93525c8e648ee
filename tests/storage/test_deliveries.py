"""A delivery counts once: across processes, restarts and kills; its row is forgotten long after its signature is."""

import multiprocessing
import os
import signal
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from adderclaw.storage import Store, deliveries
from adderclaw.storage.deliveries import Claim, DailyLimitReached

NOW = 1_800_000_000.0


def claimed(path: str, claims: list[Claim], now: float = NOW, most: int | None = None) -> bool:
    store = Store.open(path)
    try:
        return deliveries.claim(store, claims, now, most=most) is None
    finally:
        store.close()


def _race(path: str, gate: Event, won: "Queue[bool]") -> None:
    gate.wait()
    won.put(claimed(path, [Claim("trigger:deploy", "d1")]))


def _claims_and_dies(path: str) -> None:
    claimed(path, [Claim("trigger:deploy", "d1")])
    os.kill(os.getpid(), signal.SIGKILL)


def test_of_many_processes_one_claims(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    Store.open(path).close()
    context = multiprocessing.get_context("spawn")
    gate, won = context.Event(), context.Queue()
    racers = [context.Process(target=_race, args=(path, gate, won)) for _ in range(4)]
    for one in racers:
        one.start()
    gate.set()
    assert sorted(won.get(timeout=30) for _ in racers) == [False, False, False, True]
    for one in racers:
        one.join()


def test_a_claim_outlives_the_process_that_was_killed_after_it(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    Store.open(path).close()
    dies = multiprocessing.get_context("spawn").Process(target=_claims_and_dies, args=(path,))
    dies.start()
    dies.join()
    store = Store.open(path)
    earlier = deliveries.claim(store, [Claim("trigger:deploy", "d1")], NOW + 1)
    assert earlier is not None
    assert earlier.became == ""
    store.close()


def test_all_ids_of_a_request_are_claimed_or_none(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    assert claimed(path, [Claim("channel:chat", "w1"), Claim("channel:chat:alice", "m1")])
    assert not claimed(path, [Claim("channel:chat", "w2"), Claim("channel:chat:alice", "m1")])  # sent under another id
    assert not claimed(path, [Claim("channel:chat", "w1"), Claim("channel:chat:alice", "m2")])
    assert claimed(path, [Claim("channel:chat", "w2"), Claim("channel:chat:alice", "m2")])  # neither was kept
    assert claimed(path, [Claim("channel:other", "w1"), Claim("channel:other:alice", "m1")])  # each door has its own


def test_what_began_with_it_is_known(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "a.db"))
    claims = [Claim("channel:chat", "w1"), Claim("channel:chat:alice", "m1")]
    deliveries.claim(store, claims, NOW)
    deliveries.record_start(store, claims, "turn-1")
    for one in claims:
        earlier = deliveries.claim(store, [one], NOW)
        assert earlier is not None
        assert earlier.became == "turn-1"
    store.close()


def test_ids_are_forgotten_long_after_their_signatures_count(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    assert claimed(path, [Claim("trigger:deploy", "d1"), Claim("trigger:github", "sha256:1", None)])
    assert not claimed(path, [Claim("trigger:deploy", "d1")], NOW + 29 * deliveries.DAY)
    assert claimed(path, [Claim("trigger:deploy", "d1")], NOW + 31 * deliveries.DAY)
    # nothing in it says when it was signed: it is known for ever
    assert not claimed(path, [Claim("trigger:github", "sha256:1", None)], NOW + 4_000 * deliveries.DAY)


def test_a_door_takes_so_many_a_day_and_a_refused_one_costs_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    door = "channel:chat:alice"
    assert all(claimed(path, [Claim("channel:chat", f"w{n}"), Claim(door, f"m{n}")], NOW, 2) for n in range(2))
    with pytest.raises(DailyLimitReached):
        claimed(path, [Claim("channel:chat", "w3"), Claim(door, "m3")], NOW + 3_600, 2)
    assert claimed(path, [Claim("channel:chat", "w4"), Claim("channel:chat:bob", "m3")], NOW + 3_600, 2)
    assert claimed(path, [Claim("channel:chat", "w3"), Claim(door, "m3")], NOW + deliveries.DAY + 1, 2)


@pytest.mark.parametrize("id", ["\udcff", "a\0b", "'; DROP TABLE deliveries; --", "☃" * 100])
def test_odd_ids_are_ids(tmp_path: Path, id: str) -> None:
    path = str(tmp_path / "a.db")
    assert claimed(path, [Claim("trigger:x", id)])
    assert not claimed(path, [Claim("trigger:x", id)])
