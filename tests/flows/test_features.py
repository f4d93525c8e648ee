"""Feature files become scenarios: in any language, with ids that stay, and nothing is ever removed."""

from pathlib import Path

import pytest

from adderclaw.core.errors import UsageError
from adderclaw.flows.spec import features, status

LOGIN = """\
Feature: Login
  Background:
    Given a server
  Scenario: It greets
    When I come
    Then it says hello
  @SC-F007
  Scenario Outline: It refuses <who>
    When <who> comes
    Then it says no
    Examples:
      | who |
      | Eve |
  Rule: at night
    Example: It sleeps
      Then nothing is said
"""
GERMAN = """\
# language: de
Funktionalität: Anmeldung
  Szenario: Sie grüßt
    Wenn ich komme
    Dann sagt sie hallo
"""


def write(project: Path, **files: str) -> None:
    for name, text in files.items():
        path = project / "features" / f"{name}.feature"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(project: Path) -> dict[str, str]:
    now = status.read(str(project))
    assert now is not None
    return {one.name: one.id for one in now.scenarios}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Feature: a\n  Scenario: b\n    Given c\n  nonsense\n", ":4: expected"),
        ("nonsense\n", ":1: expected"),
        ("# language: xx\nFeature: a\n", ":1: Language not supported"),
        ("Feature: a\n  Scenario:\n    Given c\n", ":2: the scenario has no name"),
        ("Feature: a\n  @SC-1 @SC-2\n  Scenario: b\n", ":3: SC-1, SC-2: a scenario may have only one id"),
        ("Feature: a\n  Scenario: b\n  Scenario: b\n", ":3: 'b' is also at features/a.feature:2"),
        ("Feature: a\n  @SC-1\n  Scenario: b\n  @SC-1\n  Scenario: c\n", ":5: 'SC-1' is also at features/a.feature:3"),
        ("Feature: a\n  Scenario: \x1b[31mred\n  Given \x1b[2J\nwrong\n", ":4: expected"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, a=text)
    with pytest.raises(UsageError) as refused:
        features.sync(str(tmp_path))
    assert f"features/a.feature{message}" in str(refused.value)
    assert "\x1b" not in str(refused.value)
    assert not (tmp_path / ".adderclaw" / "status.json").exists()


def test_no_text_no_file_and_links_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no scenarios"):
        features.sync(str(tmp_path))
    (outside := tmp_path / "outside").write_text("Feature: a\n  Scenario: b\n")
    (project := tmp_path / "project" / "features").mkdir(parents=True)
    (project / "a.feature").symlink_to(outside)
    with pytest.raises(UsageError, match="has no scenarios"):
        features.sync(str(project.parent))
    (project / "b.feature").write_bytes(b"Feature: \xff\n")
    with pytest.raises(UsageError, match=r"features/b.feature:1: it is not UTF-8 text"):
        features.sync(str(project.parent))


def test_scenarios_of_any_language_get_ids_that_stay(tmp_path: Path) -> None:
    write(tmp_path, login=LOGIN, anmeldung=GERMAN)
    made = features.sync(str(tmp_path))
    ids = names(tmp_path)
    assert list(ids) == ["Sie grüßt", "It greets", "It refuses <who>", "It sleeps"]
    assert ids["It refuses <who>"] == "SC-F007"
    assert set(made.added) == set(ids.values())
    write(tmp_path, login=LOGIN.replace("Feature: Login", "Feature: Another title"))
    again = features.sync(str(tmp_path))
    assert (again.added, again.changed, again.deprecated, names(tmp_path)) == ((), (), (), ids)


def test_a_changed_scenario_has_to_pass_again_and_one_that_is_gone_stays(tmp_path: Path) -> None:
    write(tmp_path, login=LOGIN)
    features.sync(str(tmp_path))
    ids = names(tmp_path)
    for id in ids.values():
        status.update(str(tmp_path), id, True)
    write(tmp_path, login=LOGIN.replace("| Eve |", "| Bob |").replace("Example: It sleeps", "Example: It rests"))
    made = features.sync(str(tmp_path))
    assert made.changed == ("SC-F007",)
    assert made.deprecated == (ids["It sleeps"],)
    assert made.added == (names(tmp_path)["It rests"],)
    assert (made.status.passed, made.status.total) == (1, 3)
    with pytest.raises(UsageError, match="is deprecated"):
        status.update(str(tmp_path), ids["It sleeps"], True)
    write(tmp_path, login=LOGIN.replace("a server", "another server"))
    back = features.sync(str(tmp_path))
    assert back.status.mark(next(one for one in back.status.scenarios if one.name == "It sleeps")).deprecated == ""
    assert ids["It greets"] in back.changed, "its background is part of it"


def test_what_a_session_declared_keeps_its_id(tmp_path: Path) -> None:
    status.declare(str(tmp_path), [status.Scenario("SC-F001", "login.feature", "It greets")])
    status.declare(str(tmp_path), [status.Scenario("SC-F002", "nowhere.feature", "It waits")])
    write(tmp_path, login=LOGIN)
    made = features.sync(str(tmp_path))
    assert names(tmp_path)["It greets"] == "SC-F001"
    assert made.undescribed == ("SC-F002",)
    assert made.deprecated == ()
