"""What Landlock is given to see: everything but what is hidden."""

from pathlib import Path

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
