"""The digest of the workspace that the results of a plan's tests depend on."""

from collections.abc import Mapping

from adderclaw.agent.legacy.rewind import own_of
from adderclaw.config.schema import Config
from adderclaw.flows.sdlc.lent import with_lent
from adderclaw.sandbox.legacy.checkpoints import baseline as trees
from adderclaw.sandbox.legacy.checkpoints.tracker import limits_of
from adderclaw.sandbox.workspace.reading import is_directory
from adderclaw.storage import Store
from adderclaw.storage.sdlc import baselines, proof


def tree_now(config: Config, home: str, root: str, reports: Mapping[str, str] = trees.NO_REPORTS) -> str:
    """The digest of the workspace as it is now, including the installed packages that its copies use."""
    return with_lent(trees.now(root, limits_of(config.checkpoints), own_of(config, home, root), reports), root)


def tree(store: Store, config: Config, home: str, plan_id: int) -> str:
    """The digest, as it is now, of the workspace that a plan's baseline was taken from; empty if it is not known."""
    with store.snapshot() as cursor:
        baseline = baselines.get(cursor, plan_id)
    if baseline is None or not baseline.digest or not is_directory(baseline.root):
        return ""
    return tree_now(config, home, baseline.root, proof.reports(store, plan_id))
