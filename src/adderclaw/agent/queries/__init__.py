"""Queries outside of a conversation: commands print their results, the HTTP API returns them as JSON.

They block on files and the database, so a server calls them in a thread. Their results contain no secrets and no
control characters, and can be shown unchanged.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, NamedTuple

from adderclaw.config import Loaded
from adderclaw.config.legacy.options import Options
from adderclaw.core.redaction import Secrets
from adderclaw.storage import Store

clean = Secrets().clean


def loaded(options: Options) -> Loaded:
    """The effective configuration for these options."""
    from adderclaw.agent.run.start import loaded_by

    return loaded_by(options, options.workspace, options.overrides, here=options.here)


def read_only(options: Options) -> Options:
    """Options for a query: nothing runs, and only warnings are logged."""
    return replace(options, log_level=options.log_level or "warning", here=True, looks=True)


@contextmanager
def reading(options: Options) -> Generator[Store]:
    """Open the database read-only; raises StoreError if there is none."""
    store = Store.open(loaded(options).config.memory.path, read_only=True)
    try:
        yield store
    finally:
        store.close()


class Check(NamedTuple):
    """One result of `doctor`."""

    name: str
    state: Literal["ok", "warning", "broken"]
    detail: str
    fix: str = ""
