"""Shows as a diff what a conversation changed on disk since one of its messages."""

from adderclaw.agent.legacy import rewind
from adderclaw.agent.queries import restoring
from adderclaw.agent.run import Run
from adderclaw.sandbox.legacy.checkpoints.difference import lines


def show_changes(run: Run, undone: list[rewind.Prompt], *, back: bool) -> None:
    """Prints the changes since the first of these messages; with `back`, the changes that undo them."""
    first = min((prompt.checkpoint for prompt in undone if prompt.checkpoint), default=None)
    if first is None:
        print("no file was changed")
        return
    session = run.session
    session.store.flush()
    shop = rewind.workshop(session.store, run.runtime.home, session.config)
    try:
        plan = restoring.dry(shop, str(first), force=False, only=frozenset())
        steps = [step for step in plan.steps if step.fate != "same"]
        if not back:
            steps = [step._replace(now=step.then, then=step.now) for step in steps]
        for row in lines(shop.blobs, steps):
            print(run.runtime.secrets.clean(row))
    finally:
        shop.blobs.close()
