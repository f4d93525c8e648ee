"""Restores files for a person, on the command line or in a conversation: shows the steps, asks, and reports."""

import sys
from collections.abc import Iterator
from typing import NamedTuple

from adderclaw.agent.legacy import rewind
from adderclaw.agent.loop import resume
from adderclaw.agent.run import Run
from adderclaw.agent.session.session import Session
from adderclaw.core.errors import UsageError
from adderclaw.core.questions import Ask
from adderclaw.core.redaction import Secrets
from adderclaw.sandbox.legacy.checkpoints.difference import lines
from adderclaw.sandbox.legacy.checkpoints.restore import Asked, Outcome, Plan, Step, Workshop

QUESTIONS: dict[Asked, tuple[str, str]] = {
    "conflict": ("something else changed these since", "Overwrite them?"),
    "made": ("these were created while a command ran, and may be yours", "Delete them?"),
    "changed": ("these were changed while a command ran, and the changes may be yours", "Undo the changes?"),
    "deleted": ("these were deleted while a command ran, maybe by you", "Restore them?"),
}
NAME_THEM = (
    "may be yours and {were} not restored; check them, then use `--force --path {path}` for one, or `--path .` for all"
)


class Restored(NamedTuple):
    """The result of a restore."""

    plans: list[Plan]
    done: list[Outcome]
    cut_off: list[Outcome]
    refused: bool
    """Something else changed the files since, so nothing was restored."""
    asked: bool

    @property
    def steps(self) -> list[Step]:
        return [step for each in self.plans for step in each.steps]

    @property
    def left(self) -> list[Step]:
        """Steps that were skipped because the files may be the user's, and nobody could be asked."""
        return [] if self.asked else [step for step in self.steps if step.fate == "left"]

    @property
    def failed(self) -> dict[str, str]:
        return {path: why for outcome in self.done for path, why in outcome.failed.items()}

    def lines(self) -> Iterator[str]:
        for outcome in self.cut_off:
            yield f"finished restore {outcome.undo}, which had been interrupted"
        shown = [step for step in self.steps if step.fate != "same"]
        for step in shown:
            why = self.failed.get(step.path) or step.why
            yield f"{step.fate:<10}  {step.path}{f'  ({why})' if why else ''}"
        for outcome in self.done:
            if outcome.undo:
                yield f"done; `adderclaw checkpoint restore {outcome.undo}` undoes it"
        if not shown:
            yield "nothing to restore: no file differs from the checkpoint"
        if self.left:
            count, first = len(self.left), self.left[0].path
            were = "was" if count == 1 else "were"
            yield f"{count} path{'' if count == 1 else 's'} {NAME_THEM.format(were=were, path=first)}"


async def restored(
    shop: Workshop,
    checkpoint: str,
    secrets: Secrets,
    ask: Ask | None,
    *,
    force: bool = False,
    only: frozenset[str] = frozenset(),
    session: Session | None = None,
) -> Restored:
    """Restore the state before a checkpoint. For changes that may not be a tool's, ask about each kind or skip it."""
    cut_off = rewind.finished(shop)
    plans = rewind.planned(shop, checkpoint, force=force, only=only)
    if ask is not None:
        plans = await _decided(shop, plans, secrets, ask)
    refused = any(step.fate == "conflict" for plan in plans for step in plan.steps)
    done = [] if refused else rewind.restored(shop, plans, session)
    return Restored(plans, done, cut_off, refused, ask is not None)


def dry(shop: Workshop, checkpoint: str, *, force: bool, only: frozenset[str]) -> Restored:
    """What a restore would do without asking."""
    plans = rewind.planned(shop, checkpoint, force=force, only=only)
    return Restored(plans, [], [], refused=False, asked=False)


async def _decided(shop: Workshop, plans: list[Plan], secrets: Secrets, ask: Ask) -> list[Plan]:
    yes: set[Asked] = set()
    for kind, (what, question) in QUESTIONS.items():
        steps = [step for plan in plans for step in plan.steps if step.asked == kind]
        if not steps:
            continue
        print(f"{what}:", file=sys.stderr)
        for line in lines(shop.blobs, steps):
            print(secrets.clean(line), file=sys.stderr)
        if (await ask(f"{question} [y/N] ") or "").strip().lower() in ("y", "yes"):
            yes.add(kind)
    return [plan._replace(steps=[_answered(step, yes) for step in plan.steps]) for plan in plans]


def _answered(step: Step, yes: set[Asked]) -> Step:
    if step.asked is None:
        return step
    return step.agreed() if step.asked in yes else step._replace(fate="left")


# ------------------------------------------------------------------ in a conversation


async def slash(run: Run, rest: str, ask: Ask | None) -> None:
    """`/rewind`: list the prompts of the conversation; with a number, go back to before that prompt."""
    session, words, clean = run.session, rest.split(), run.runtime.secrets.clean
    prompts = rewind.prompts(session)
    if not words:
        for number, prompt in enumerate(prompts, 1):
            print(clean(f"{number:>3}  {prompt.paths:>3} paths  {prompt.text[:100]}"))
        print("/rewind NUMBER [files|conversation] [--force] goes back to before it: both, or one of them")
        return
    options = set(words[1:])
    if unknown := options - {"files", "conversation", "both", "--force"}:
        raise UsageError(f"{min(unknown)!r} is not one of files, conversation, both and --force")
    if not words[0].isdecimal() or not 1 <= int(words[0]) <= len(prompts):
        raise UsageError(f"{words[0]!r} is not one of the {len(prompts)} prompts; /rewind lists them")
    chosen = prompts[int(words[0]) - 1]
    if "conversation" not in options and not await _files_back(run, chosen.sequence, ask, force="--force" in options):
        return
    if "files" not in options:
        resume.rewind_to(session, chosen.sequence)
        print(f"the conversation is as it was before: {clean(chosen.text[:100])}")


async def files_back(
    run: Run, sequence: int, ask: Ask | None, *, force: bool, dry_run: bool = False
) -> Restored | None:
    """Restore files to their state before a prompt; None if none was changed since."""
    session = run.session
    first = min((p.checkpoint for p in rewind.prompts(session) if p.sequence >= sequence and p.checkpoint), default=0)
    if not first:
        return None
    session.store.flush()
    shop = rewind.workshop(session.store, run.runtime.home, session.config)
    try:
        if dry_run:
            return dry(shop, str(first), force=force, only=frozenset())
        return await restored(shop, str(first), run.runtime.secrets, ask, force=force, session=session)
    finally:
        shop.blobs.close()


async def _files_back(run: Run, sequence: int, ask: Ask | None, *, force: bool) -> bool:
    """Restore files and print the result; False if it was refused."""
    restored = await files_back(run, sequence, ask, force=force)
    if restored is None:
        print("no file was changed since")
        return True
    for line in restored.lines():
        print(run.runtime.secrets.clean(line))
    if restored.refused:
        print("nothing was restored: something else changed these since; --force overwrites them", file=sys.stderr)
    return not restored.refused
