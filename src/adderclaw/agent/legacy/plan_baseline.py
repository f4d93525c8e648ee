"""Records what a workspace contains when its plan is approved: the plan's tests must fail on that state."""

import os

from adderclaw.agent.legacy.rewind import own_of
from adderclaw.config.schema import Config
from adderclaw.core import home_names
from adderclaw.sandbox.legacy.checkpoints import baseline as trees
from adderclaw.sandbox.legacy.checkpoints.tracker import limits_of
from adderclaw.storage import Store
from adderclaw.storage.sdlc.baselines import TreeSnapshot


def record_baseline(store: Store, config: Config, home: str, root: str, *, headless: bool = False) -> TreeSnapshot:
    """Store the present contents of a workspace."""
    own = own_of(config, home, root, headless=headless)
    return trees.take(store, os.path.join(home, home_names.CHECKPOINTS), root, limits_of(config.checkpoints), own)
