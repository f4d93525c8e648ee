"""What there is to know beside the conversations, one function for each: commands print it, the API gives it as JSON.

All of them wait for files and the database: a server calls them in a thread. What they give can be shown as it is: no
secret, and no character that steers a terminal, is in it.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from adderclaw.config import Loaded
from adderclaw.config.legacy.options import Options
from adderclaw.core.redaction import Secrets
from adderclaw.storage import Store

clean = Secrets().clean


def loaded(options: Options) -> Loaded:
    """The configuration that counts there."""
    from adderclaw.agent.run.start import loaded_by

    return loaded_by(options, options.workspace, options.overrides, here=options.here)


def looking(options: Options) -> Options:
    """Of one who only looks: nothing runs, and nothing is said of the start."""
    return replace(options, log_level=options.log_level or "warning", here=True, looks=True)


@contextmanager
def reading(options: Options) -> Generator[Store]:
    """The database, to be read; StoreError where there is none."""
    store = Store.open(loaded(options).config.memory.path, read_only=True)
    try:
        yield store
    finally:
        store.close()
