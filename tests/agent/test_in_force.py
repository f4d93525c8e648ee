"""Rules that a skill lends: an update of the permissions in the middle of a turn takes none of them, and keeps none."""

from adderclaw.agent.session.session import ActivePolicy
from adderclaw.config.schema import Permissions
from tests.policy.conftest import build


def texts(in_force: ActivePolicy) -> tuple[list[str], list[str]]:
    return [rule.text for rule in in_force.policy.rules.allow], [rule.text for rule in in_force.own.rules.allow]


def test_an_always_in_the_middle_of_a_turn_leaves_what_a_skill_lent() -> None:
    in_force = ActivePolicy(build().policy)
    in_force.lend(["Bash(make:*)", "Read(docs/**)"])
    in_force.update(Permissions(allow=["Bash(ls)", "Read(docs/**)"], deny=["Write"]), str)
    assert texts(in_force) == (["Bash(ls)", "Read(docs/**)", "Bash(make:*)"], ["Bash(ls)", "Read(docs/**)"])
    assert [rule.text for rule in in_force.lent_rules] == ["Bash(make:*)", "Read(docs/**)"]
    assert [rule.text for rule in in_force.policy.rules.deny] == ["Write"]
    in_force.end_loans()
    assert texts(in_force) == (["Bash(ls)", "Read(docs/**)"], ["Bash(ls)", "Read(docs/**)"])
