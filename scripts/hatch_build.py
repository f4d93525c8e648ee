"""Generates the policy's `tables.json` from its `.toml` files when a wheel is built."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PolicyTables(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling calls it so
        sys.path.insert(0, str(Path(self.root, "src")))
        from adderclaw.policy.legacy.programs import generate

        generate.write()
        build_data["artifacts"].append(Path(generate.FILE).relative_to(self.root).as_posix())
