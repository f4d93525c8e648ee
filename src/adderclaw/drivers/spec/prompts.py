"""What the agent is asked in each iteration: to begin the project, or to go on with what does not pass."""

import os
from collections.abc import Sequence

from adderclaw.drivers.spec.status import Scenario

SHOWN = 200


def initializer() -> str:
    return _text("initializer")


def coding() -> str:
    return _text("coding")


def of(scenarios: Sequence[Scenario]) -> str:
    """Without scenarios the project begins; else it goes on with those that do not pass."""
    if not scenarios:
        return initializer()
    left = [scenario for scenario in scenarios if not scenario.passed]
    listed = [f"- {scenario.id} ({scenario.feature}): {scenario.name}" for scenario in left[:SHOWN]]
    more = [f"- … and {len(left) - SHOWN} more in .adderclaw/status.json"] if len(left) > SHOWN else []
    said = f"{len(scenarios) - len(left)} of {len(scenarios)} scenarios pass. These do not:"
    return "\n".join((coding(), said, *listed, *more)) + "\n"


def _text(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), f"{name}.md"), encoding="utf-8") as file:
        return file.read()
