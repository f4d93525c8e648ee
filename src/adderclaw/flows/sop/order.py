"""Steps run in the order of their file: each refers to steps before it, and to nothing else."""

from collections.abc import Iterator, Sequence

from adderclaw.core.suggestions import did_you_mean
from adderclaw.flows.sop.sop import Step


def problems(steps: Sequence[Step]) -> Iterator[tuple[int, str]]:
    """(the step's number, what is wrong) of each reference that leads nowhere, forward or around."""
    places = {step.id: place for place, step in reversed(list(enumerate(steps))) if step.id}
    around = _cycles(steps)
    for place, step in enumerate(steps):
        for where, name in referred(step):
            at = places.get(name)
            if at is None:
                known = [one.id for one in steps[:place] if one.id]
                yield place, f"{where}: there is no step {name[:80]!r}{did_you_mean(name, known)}"
            elif at == place:
                yield place, f"{where}: a step cannot refer to itself"
            elif at > place and (cycle := around.get(step.id)):
                yield place, f"{where}: these steps wait for each other: {' → '.join(cycle)}"
            elif at > place:
                yield place, f"{where}: the step {name!r} comes later; move it before this one"
            elif where.startswith("args.") and steps[at].kind == "approval":
                yield place, f"{where}: the step {name!r} is an approval, which has no output"


def referred(step: Step) -> Iterator[tuple[str, str]]:
    """(where, the id of a step) of each step that this one refers to."""
    yield from ((f"args.{one.argument}_from", one.source) for one in step.references if not one.is_input)
    yield from (("when.step", one.source) for one in step.when if not one.is_input)
    yield from (("needs", name) for name in step.needs)
    yield from (("uses", name) for name in step.uses or ())


def _cycles(steps: Sequence[Step]) -> dict[str, list[str]]:
    """Each step that waits for itself, and on which way around."""
    edges = {step.id: [name for _, name in referred(step)] for step in steps}
    found: dict[str, list[str]] = {}
    for start in edges:
        ways, seen = [[start]], {start}
        while ways and start not in found:
            way = ways.pop(0)
            for name in edges.get(way[-1], ()):
                if name == start and len(way) > 1:
                    found[start] = [*way, start]
                    break
                if name not in seen:
                    seen.add(name)
                    ways.append([*way, name])
    return found
