"""What Landlock is given to see: everything but what is hidden."""

import resource
from pathlib import Path

import pytest

from adderclaw.sandbox import confinement, landlock
from adderclaw.sandbox.landlock import visible


def test_what_is_hidden_is_left_out_and_the_rest_is_given_whole(tmp_path: Path) -> None:
    for name in ("a/b", "a/c", "home/me/tools", "home/me/.ssh", "home/you"):
        (tmp_path / name).mkdir(parents=True)
    hidden, shown = str(tmp_path / "home"), str(tmp_path / "home" / "me" / "tools")
    assert list(visible((hidden,), (shown,), str(tmp_path))) == [str(tmp_path / "a"), shown]
    assert list(visible((), (), str(tmp_path))) == [str(tmp_path)]
    assert list(visible((str(tmp_path / "a" / "b"),), (), str(tmp_path / "a"))) == [str(tmp_path / "a" / "c")]


def test_a_link_to_what_is_hidden_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "link").symlink_to("secret")
    assert list(visible((str(tmp_path / "secret"),), (), str(tmp_path))) == []


def test_what_fails_for_want_of_descriptors_is_no_reason_for_a_weaker_sandbox() -> None:
    if landlock.version() < landlock.SCOPE_VERSION:
        pytest.skip("the kernel's Landlock has no scopes: Linux 6.12 has")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    for make in (landlock.scope, lambda: landlock.ruleset((), (), network=True), lambda: landlock.ports_except(1)):
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
        try:
            with pytest.raises(OSError, match="Too many open files") as failure:
                make()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert confinement.is_transient(str(failure.value))
