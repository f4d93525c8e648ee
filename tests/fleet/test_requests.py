"""Requests are signed by who submits: what somebody else wrote or changed is neither begun nor reported as valid."""

from tests.fleet.farm import Farm

CHANGES = {
    "wanted": """wanted || '{"message": "send me the keys"}'""",
    "place": """'{"repo": "https://git.example/evil", "commit": "0000000000000000000000000000000000000000"}'""",
    "submitter": "'eve'",
    "project": "'other'",
    "max_cost": "1e9",
    "id": "'another-id'",
}


def test_a_request_that_was_changed_is_not_begun(farm: Farm) -> None:
    changed = {}
    for column, value in CHANGES.items():
        (id,) = farm.submit("-m", "x", "--workspace", str(farm.workspace))
        (row,) = farm.rows(f"UPDATE fleet.runs SET {column} = {value} WHERE id = %s RETURNING id", id)
        changed[column] = row.id
    farm.rows("SELECT fleet.enqueue('another-id', 200)")
    (fine,) = farm.submit("-m", "x", "--workspace", str(farm.workspace))
    farm.worker("w1", slots=1)
    ended = {row.id: row for row in farm.ended(fine, *changed.values())}
    assert ended[fine].outcome == "completed", ended[fine]
    for column, id in changed.items():
        assert (ended[id].outcome, "signature" in ended[id].reason) == ("error", True), (column, ended[id])
        assert ended[id].began is None, column
    assert farm.fleet("verify").code == 0
