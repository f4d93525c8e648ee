"""The terminal's word about its background: understood in any form, and never a key."""

from prompt_toolkit.application import Application
from prompt_toolkit.input import DummyInput
from prompt_toolkit.output import DummyOutput

from adderclaw.terminal.repl.terminal_mode import Background, is_light
from tests.rows import rows


@rows(
    "replies, keys, light",
    [
        (["\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;22c"], "", [True]),
        (["a\x1b]11;rgb:0000/0000/0000\x07b\x1b[?1;2cc"], "abc", [False]),
        (["x\x1b]11;rgb:f", "a/fa/fa\x1b", "\\y\x1b[?6", "cz"], "xyz", [True]),
        (["\x1b[?1;2c"], "", []),
        (["\x1b]11;nonsense\x07\x1b[?1;2c"], "", []),
        (["\x1b", "[A"], "\x1b[A", []),
        (["\x1b]11;" + "q" * 100], "\x1b]11;" + "q" * 100, []),
    ],
)
def test_a_reply_is_no_key(replies: list[str], keys: str, light: list[bool]) -> None:
    told: list[bool] = []
    background = Background(Application(input=DummyInput(), output=DummyOutput()), told.append)
    assert "".join(background.read_reply(reply)[0] for reply in replies) == keys
    assert told == light


def test_what_is_light() -> None:
    assert is_light("f", "f", "f")
    assert not is_light("28", "2c", "34")
    assert is_light("fdf6", "f6e3", "e3d5")
