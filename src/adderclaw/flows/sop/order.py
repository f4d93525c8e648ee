"""Checks that steps only refer to earlier steps, since they run in the order of their file."""

from collections.abc import Iterator, Sequence

from adderclaw.core.suggestions import did_you_mean
from adderclaw.flows.sop.sop import Step


def order_problems(steps: Sequence[Step]) -> Iterator[tuple[int, str]]:
    """Yields the step's index and a message for each reference to a missing or later step, and for each cycle."""
    indexes = {step.id: index for index, step in reversed(list(enumerate(steps))) if step.id}
    around = _cycles(steps)
    for index, step in enumerate(steps):
        for where, name in referenced_steps(step):
            target = indexes.get(name)
            if target is None:
                known = [earlier.id for earlier in steps[:index] if earlier.id]
                yield index, f"{where}: there is no step {name[:80]!r}{did_you_mean(name, known)}"
            elif target == index:
                yield index, f"{where}: a step cannot refer to itself"
            elif target > index and (cycle := around.get(step.id)):
                yield index, f"{where}: these steps wait for each other: {' → '.join(cycle)}"
            elif target > index:
                yield index, f"{where}: the step {name!r} comes later; move it before this one"
            elif where.startswith("args.") and steps[target].kind == "approval":
                yield index, f"{where}: the step {name!r} is an approval, which has no output"


def referenced_steps(step: Step) -> Iterator[tuple[str, str]]:
    """Yields each step id that a step refers to, with the key that refers to it."""
    yield from ((f"args.{source.argument}_from", source.source) for source in step.references if not source.is_input)
    yield from (("when.step", source.source) for source in step.when if not source.is_input)
    yield from (("needs", name) for name in step.needs)
    yield from (("uses", name) for name in step.uses or ())


def _cycles(steps: Sequence[Step]) -> dict[str, list[str]]:
    """Returns each step that waits for itself, with the cycle."""
    edges = {step.id: [name for _, name in referenced_steps(step)] for step in steps}
    cycles: dict[str, list[str]] = {}
    for start in edges:
        ways, seen = [[start]], {start}
        while ways and start not in cycles:
            way = ways.pop(0)
            for name in edges.get(way[-1], ()):
                if name == start and len(way) > 1:
                    cycles[start] = [*way, start]
                    break
                if name not in seen:
                    seen.add(name)
                    ways.append([*way, name])
    return cycles
