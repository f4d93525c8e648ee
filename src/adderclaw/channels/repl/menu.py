"""The menu below the input: commands after /, files after @."""

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from adderclaw.runtime import Run


class Menu(Completer):
    def __init__(self, run: Run) -> None:
        self._run = run

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002 - its interface
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text:
            yield from self._commands(text[1:])

    def _commands(self, typed: str) -> Iterable[Completion]:
        from adderclaw.channels.repl.slash.table import SLASH

        known = {name: command.help for name, command in SLASH.items()}
        starting = [name for name in known if name.startswith(typed)]
        inside = [name for name in known if typed in name and name not in starting]
        for name in (*starting, *inside):
            yield Completion(f"/{name}", -len(typed) - 1, display_meta=known[name])
