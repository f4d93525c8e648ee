"""What a model writes steers no terminal, however it writes it: what is drawn has our own codes in it and no others."""

import re

from adderclaw.terminal.repl.markdown import Block, RenderStyle, render
from tests.rows import rows

LOOK = RenderStyle(60, colours=True, links=True)
STYLES = re.compile(r"\x1b\[[\d;]*m|\x1b\]8;[^\x1b\x07]*\x1b\\")
"""Colours and links: all that we write ourselves."""
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
BLOCKS = (
    "a {} b",
    "# {}",
    "- {}",
    "> {}",
    "**{}** and `{}`",
    "[{}](https://example.org/{})",
    "![{}](https://example.org)",
    '[x](https://example.org "{}")',
    "| a |\n|---|\n| {} |",
    "<b>{}</b>",
    "```{}\n{}\n```",
    "    {}",
)
SIGNS = ("\x1b[2J", "\x9b2J", "\x07", "\u202e", "\u200b", "\U000e0041", "\r")


@rows("block", BLOCKS)
def test_no_block_brings_a_sign_that_steers(block: str) -> None:
    for sign in SIGNS:
        for written in (sign, "".join(f"&#{ord(char)};" for char in sign), "".join(f"&#x{ord(c):x};" for c in sign)):
            shown = render(Block(block.replace("{}", f"x{written}y")), LOOK)
            assert not STEERS.search(STYLES.sub("", shown)), (written, shown)
    assert not STEERS.search(STYLES.sub("", render(Block(block.replace("{}", "x&ZeroWidthSpace;&NoBreak;y")), LOOK)))


@rows("block", BLOCKS)
def test_a_style_ends_with_its_line(block: str) -> None:
    for line in render(Block(block.replace("{}", "some words")), LOOK).split("\n"):
        codes = re.findall(r"\x1b\[[\d;]*m", line)
        assert not codes or codes[-1] == "\x1b[0m", line
