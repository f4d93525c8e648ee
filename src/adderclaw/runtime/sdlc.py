"""A conversation's way from plan to proof, as every channel drives it."""

import os

from adderclaw.checkpoints import FOLDER
from adderclaw.checkpoints import baseline as trees
from adderclaw.checkpoints.tracker import limits_of
from adderclaw.config.schema import Config
from adderclaw.runtime.rewind import own_of
from adderclaw.store import Store
from adderclaw.store.baselines import Taken


def baseline(store: Store, config: Config, home: str, root: str, *, headless: bool = False) -> Taken:
    """Keep what a workspace holds now."""
    own = own_of(config, home, root, headless=headless)
    return trees.take(store, os.path.join(home, FOLDER), root, limits_of(config.checkpoints), own)


def tree_now(config: Config, home: str, root: str) -> str:
    return trees.now(root, limits_of(config.checkpoints), own_of(config, home, root))
