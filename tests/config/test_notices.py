"""The targets of notices: what is wrong with one is named, and a project's file has no say in them."""

import pytest

from adderclaw.config.schema import NoticeTarget
from tests.config.conftest import World

WRONG = [
    ('[notices.targets.a]\nkind = "pigeon"', "notices.targets.a.kind"),
    ('[notices.targets.a]\non = ["done"]', "is required: webhook, email"),
    ('[notices.targets.a]\nkind = "webhook"', "give exactly one of url, url_env"),
    ('[notices.targets.a]\nkind = "webhook"\nurl = "http://example.org/x"', "must begin with https://"),
    ('[notices.targets.a]\nkind = "webhook"\nurl = "https://u:p@example.org/x"', "user name, password or key"),
    ('[notices.targets.a]\nkind = "email"\nurl = "https://example.org"', 'is for kind "webhook"'),
    ('[notices.targets.a]\nkind = "email"\nquiet = "25:00-26:00"', "two times of day"),
    ('[notices.targets.a]\nkind = "email"\non = ["everything"]', "notices.targets.a.on"),
    ('[notices.targets."a b"]\nkind = "email"', "cannot be a name"),
    (
        '[notices.targets.a]\nkind = "email"\nhost = "mail.example.org"\nsecurity = "none"\nsender = "a@b.org"\n'
        'to = ["c@d.org"]',
        "only for a server on this machine",
    ),
    (
        '[notices.targets.a]\nkind = "email"\nhost = "h.org"\nsender = "a@b.org"\nto = ["x@y.org\\nBcc: z@y.org"]',
        "is not an e-mail address",
    ),
    (
        '[notices.targets.a]\nkind = "email"\nhost = "h.org"\nsender = "a@b.org"\nto = ["x@y.org"]\nuser = "u"',
        "password",
    ),
]


@pytest.mark.parametrize(("text", "why"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_with_a_target_is_named(world: World, text: str, why: str) -> None:
    world.user(text)
    said = "\n".join(world.problems())
    assert why in said
    assert "u:p@" not in said
    assert "config.toml" in said


def test_only_the_operators_own_files_count(world: World) -> None:
    """Whatever a project's files say, in whichever of them, trusted or not."""
    world.user('[notices.targets.mine]\nkind = "webhook"\nurl = "https://example.org"\n')
    world.project("notices: {wait_seconds: 1, targets: {mine: {enabled: false}, theirs: {kind: webhook}}}")
    for trusts in (False, True):
        if trusts:
            world.trust()
        loaded = world.load()
        assert loaded.trusted is trusts
        assert loaded.config.notices.wait_seconds == 30
        assert loaded.config.notices.targets == {"mine": NoticeTarget(kind="webhook", url="https://example.org")}
        ignored = [one for one in loaded.warnings if "only your own configuration" in one]
        assert len(ignored) == 3
