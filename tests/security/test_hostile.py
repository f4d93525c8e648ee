"""Hostile repositories × every tool × an operator who approves: nothing outside comes to harm, and nothing crashes."""

import os
import re

import pytest

from tests.acceptance.world import text
from tests.program import Soak
from tests.security import hostile
from tests.security.conftest import RUNGS, den
from tests.security.world import Attack, Den, Rung

ROUNDS = 1000
PARTS = 7
"""Tests that share the rounds, so that they can run side by side."""
TOGETHER = 24
"""Rounds that one process plays: one workspace with a folder for each of them."""
CONFIGURED = """
[limits]
tool_calls = 100000
[checkpoints]
max_total_mb = 16
"""
AMONG_RUNTIME = "loop_warn_at = 100000\nloop_stop_at = 100000\ntool_timeout_seconds = 5\n"


def prepared(made: Den, numbers: list[int], *, at_the_root: bool = True) -> None:
    made.configure(rounds=4000, more=CONFIGURED)
    config = made.home / ".adderclaw" / "config.toml"
    config.write_text(config.read_text().replace("[runtime]\n", f"[runtime]\n{AMONG_RUNTIME}"))
    if at_the_root:
        hostile.root(numbers[0], made)
    for number in numbers:
        hostile.area(number, made)
    made.script(*hostile.script(numbers, made), text("done"))
    made.prepare()


def played(rung: Rung, who: str, numbers: list[int]) -> tuple[list[str], int]:
    """What went wrong when these rounds were played in one process, and how many calls were answered.

    Where the program refuses to start in such a workspace, the same is played without what lies at its root.
    """
    for at_the_root in (True, False):
        with den(rung, who) as made:
            prepared(made, numbers, at_the_root=at_the_root)
            attack = made.run()
            wrong = [*problems(attack), *made.harmed(attack)]
            if attack.results:
                back = made.cli("checkpoint", "restore", "1", "--force", timeout=300)
                wrong += made.harmed(Attack(back, (), ()))
            if wrong or attack.results:
                return wrong, len(attack.results)
    return [f"no call was answered: {attack.done.err[-500:]}"], 0


def problems(attack: Attack) -> list[str]:
    """Tools that failed in a way that nobody thought of. Refusals and errors with words for the model are fine."""
    unexpected = re.compile(r"^\w+ failed: (?!OSError|TimeoutError)\w+(Error|Exception)\b")
    return [result[:300] for result in attack.results if unexpected.match(result)]


def rounds_of(soak: Soak) -> list[list[int]]:
    every = list(soak.of(ROUNDS, share=12))
    return [every[start : start + TOGETHER] for start in range(0, len(every), TOGETHER)]


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_no_hostile_repository_harms_anything_outside(
    part: int, soak: Soak, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch that fails is played again round by round: what is printed makes the same round again."""
    answered, who = 0, ("root", "user") if os.geteuid() == 0 else ("user",)
    batches = list(enumerate(rounds_of(soak)))[part::PARTS]
    for turn, numbers in batches:
        place: tuple[Rung, str] = (RUNGS[turn % 4 == 3], who[turn % len(who)])
        wrong, count = played(*place, numbers)
        answered += count
        if wrong:
            alone = [number for number in numbers if played(*place, [number])[0]]
            pytest.fail(f"{place} rounds {alone or numbers}: {'\n'.join(wrong[:20])}")
    with capsys.disabled():
        print(f"\nhostile repositories, part {part}: {len(batches)} batches, {answered} calls answered")
