"""Parts of rich's Markdown that are drawn our way."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading


class Headings(Heading):
    """A heading at the left, bold, without a box around it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold")
        yield self.text
