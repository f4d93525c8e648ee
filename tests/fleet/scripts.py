"""What the models of several runs in one fleet say: each has a provider of its own."""

import json
from typing import Any

from tests.fleet.farm import Farm, call

PROVIDER = '[providers.models.{name}]\nkind = "mock"\nmodel = "mock"\nfixture = "{fixture}"\n'
FINISH = {"type": "finish", "params": {"answer": "ok"}}


def scripted(farm: Farm, name: str, *steps: dict[str, Any]) -> tuple[str, str]:
    """A model of its own for one of the runs, before any worker starts: what `fleet submit` is given."""
    fixture = farm.root / f"{name}.json"
    fixture.write_text(json.dumps({"steps": list(steps), "partial": True}))
    config = farm.cli.data / "config.toml"
    config.write_text(config.read_text() + PROVIDER.format(name=name, fixture=fixture))
    return "--provider", name


def decided(*actions: dict[str, Any]) -> dict[str, Any]:
    """What the model of a task says."""
    return call(
        "Decision",
        selected_skill=None,
        reasoning_summary="It fits.",
        required_disclosure_paths=[],
        planned_actions=list(actions),
    )


def command(given: str) -> dict[str, Any]:
    return {"type": "run_command", "params": {"command": given}, "expected_output": ""}
