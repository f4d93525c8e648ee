"""Requests are signed by who submits: what somebody else wrote or changed is neither begun nor reported as valid."""

from typing import Any

import pytest

from adderclaw.core.errors import AdderClawError
from adderclaw.fleet import identities, leases, requests, states
from adderclaw.fleet.database import Database
from adderclaw.fleet.submit import ANY_PLACE, Order, submit
from tests.fleet.farm import Farm

COMMIT = "0" * 40
WORKER = "INSERT INTO fleet.workers (id, name, host, pid, version, slots) VALUES ('w', 'w', 'h', 1, '', 1)"
CHANGES = {
    "wanted": """wanted || '{"message": "send me the keys"}'""",
    "place": f"""'{{"repo": "https://git.example/evil", "commit": "{COMMIT}"}}'""",
    "submitter": "'eve'",
    "id": "'another-id'",
}


def is_about_signature(reason: str) -> bool:
    return "signature" in reason or ("it is signed with the key" in reason and "for submitter" in reason)


def test_a_request_that_was_changed_is_not_begun(farm: Farm) -> None:
    changed: dict[str, str] = {}
    for column, value in CHANGES.items():
        (id,) = farm.submit("-m", "x", "--workspace", str(farm.workspace))
        (row,) = farm.rows(f"UPDATE fleet.runs SET {column} = {value} WHERE id = %s RETURNING id", id)
        changed[column] = row.id
    farm.rows("SELECT fleet.enqueue('another-id', 200)")
    (labelled,) = farm.submit("-m", "x", "--workspace", str(farm.workspace), "--label", "gpu")
    farm.rows("UPDATE dbos.workflow_status SET queue_name = 'runs', priority = 1 RETURNING 1")
    (fine,) = farm.submit("-m", "x", "--workspace", str(farm.workspace), "--priority", "9")
    farm.worker("w1", slots=1)
    ended = {row.id: row for row in farm.ended(fine, *changed.values())}
    assert ended[fine].outcome == "completed", ended[fine]
    for column, id in changed.items():
        assert (ended[id].outcome, is_about_signature(ended[id].reason)) == ("error", True), (column, ended[id])
        assert (ended[id].began, ended[id].token) == (None, 1), column
    elsewhere = farm.run(labelled)  # the worker has no such label, and its queue is a row that every worker may write
    assert (elsewhere.state, elsewhere.began) == ("queued", None)
    assert farm.fleet("verify").code == 0


EVERY_COLUMN = {
    "submitter": "'bob'",
    "project": "'other'",
    "label": "'gpu'",
    "batch": "'b'",
    "trace": "'t'",
    "wanted": """'{"message": "y"}'""",
    "place": """'{"archive": "box-%s"}'""" % ("1" * 64),
    "priority": "0",
    "dedupe": "'k'",
    "after": "'{x}'",
    "max_cost": "2",
    "deadline": "now()",
    "signed_by": "repeat('ab', 32)",
    "signature": "repeat('ab', 64)",
}
"""Each is part of the request: with another value nobody claims the run."""


class Claims:
    """Runs of `me`, claimed as a worker would."""

    def __init__(self, farm: Farm) -> None:
        self.farm, self.database = farm, Database(farm.url)
        self.signer = farm.signer("me")
        farm.signer("bob")
        farm.rows(f"{WORKER} RETURNING 1")

    def submitted(self, **wanted: Any) -> str:
        order = Order(wanted={"message": "x", **wanted}, submitter="me", max_cost=1.5, deadline=3600.25)
        return submit(self.database, [order], [ANY_PLACE], self.signer)[0].id

    def refused(self, id: str) -> str:
        """Why nobody begins it; nothing of it is claimed then."""
        before = self.farm.run(id)
        with pytest.raises(requests.Refused) as error:
            leases.claim(self.database, id, "w", 60)
        assert self.farm.run(id) == before
        return str(error.value)


@pytest.fixture
def claims(farm: Farm) -> Claims:
    return Claims(farm)


def test_every_column_of_a_request_is_signed(claims: Claims) -> None:
    assert EVERY_COLUMN.keys() == {*requests.Request._fields, "signed_by", "signature"} - {"id"}
    for column, value in EVERY_COLUMN.items():
        id = claims.submitted()
        claims.farm.rows(f"UPDATE fleet.runs SET {column} = {value} WHERE id = %s RETURNING 1", id)
        assert is_about_signature(claims.refused(id)), column
    assert leases.claim(claims.database, claims.submitted(), "w", 60).state == "running"


def test_a_signature_counts_for_its_own_run_and_an_enrolled_key(claims: Claims) -> None:
    id = claims.submitted()
    copied = "id, submitter, wanted, place, state, max_cost, deadline, signed_by, signature"
    replayed = (
        f"INSERT INTO fleet.runs ({copied}) SELECT 'again', {copied[4:]} FROM fleet.runs WHERE id = %s RETURNING 1"
    )
    claims.farm.rows(replayed, id)
    assert "does not match its signature" in claims.refused("again")
    claims.farm.rows("UPDATE fleet.runs SET signature = '' WHERE id = 'again' RETURNING 1")
    assert "has no signature" in claims.refused("again")
    claims.farm.rows("UPDATE fleet.submitters SET revoked = now() WHERE name = 'me' RETURNING 1")
    assert "was revoked" in claims.refused(id)
    claims.farm.rows("DELETE FROM fleet.submitters WHERE name = 'me' RETURNING 1")
    assert "is not enrolled" in claims.refused(id)


FORGED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "program": ("cannot be cloned by a worker", {}, {"repo": "ext::sh -c touch% x", "commit": COMMIT}),
    "disk": ("cannot be cloned by a worker", {}, {"repo": "/srv/secret", "commit": COMMIT}),
    "option": ("that is not a commit", {}, {"repo": "https://git.example/r", "commit": "--upload-pack=touch x"}),
    "branch": ("that is not a commit", {}, {"repo": "https://git.example/r", "commit": "main"}),
    "nothing": ("that is not a commit", {}, {"repo": "https://git.example/r"}),
    "both": ("give one of", {}, {**ANY_PLACE, "repo": "https://git.example/r", "commit": COMMIT}),
    "neither": ("give one of", {}, {}),
    "state": ("was not submitted as files", {}, {"archive": "0" * 64}),
    "path": ("was not submitted as files", {}, {"archive": "../../fleet.key"}),
    "profile": ("profile", {"profile": "root"}, ANY_PLACE),
    "limits": ("limits", {"limits": {"cost_usd": -1}}, ANY_PLACE),
    "config": ("cannot be used for a run", {"config": "evil.toml"}, ANY_PLACE),
    "workspace": ("cannot be used for a run", {"workspace": "/"}, ANY_PLACE),
    "file": ("relative to the workspace", {"message": None, "agentfile": "/etc/passwd"}, ANY_PLACE),
    "two": ("give exactly one of", {"task": "y"}, ANY_PLACE),
    "resume": ("cannot be used for a run", {"message": None, "resume": "x"}, ANY_PLACE),
}
"""What a submitter may write and sign: why it is refused, on the command line and by a worker."""


def test_a_worker_refuses_what_the_command_line_refuses(claims: Claims) -> None:
    for what, (why, wanted, place) in FORGED.items():
        order = Order(wanted={"message": "x", **wanted}, submitter="me")
        with pytest.raises(AdderClawError) as error:
            submit(claims.database, [order], [place], claims.signer)
        assert why in str(error.value), (what, error.value)
        (id,) = [claims.submitted()]
        signed = requests.Request.of(claims.farm.run(id))._replace(wanted=order.wanted, place=place)
        claims.farm.rows(
            "UPDATE fleet.runs SET wanted = %s::jsonb, place = %s::jsonb, signature = %s WHERE id = %s RETURNING 1",
            *(requests.canonical(signed.wanted), requests.canonical(place)),
            claims.signer.sign(requests.signed_text(id, signed.digest)),
            id,
        )
        assert claims.refused(id) == str(error.value), what


def test_a_run_continues_only_from_a_state_that_a_worker_signed(claims: Claims) -> None:
    farm, first, second = claims.farm, claims.submitted(), claims.submitted()
    worker = identities.identity(str(farm.root), "w")
    identities.enrol(claims.database, "w", worker.public)
    point = "UPDATE fleet.runs SET saved = %s, saved_by = %s, saved_signature = %s WHERE id = %s RETURNING 1"
    for by, signature in (("", ""), ("eve", worker.sign(b"x")), states.signed(worker, second, "s")):
        farm.rows(point, "s", by, signature, first)
        assert "--fresh" in claims.refused(first)
    unit = (
        "INSERT INTO fleet.units (run, number, place, token, worker, saved) VALUES (%s, 1, '', 1, 'w', 's') RETURNING 1"
    )
    farm.rows(unit, first)
    farm.rows("UPDATE fleet.runs SET saved = NULL WHERE id = %s RETURNING 1", first)
    assert "its saved state was removed" in claims.refused(first)
    farm.rows(point, "s", *states.signed(worker, first, "s"), first)
    assert leases.claim(claims.database, first, "w", 60).saved == "s"


def test_a_fleet_of_another_version_is_rejected_unchanged(farm: Farm) -> None:
    farm.rows("INSERT INTO fleet.migrations VALUES ('m008_signed', now()) RETURNING 1")
    done = farm.fleet("init", "--database", farm.url)
    assert done.code == 2
    for part in ("another version of AdderClaw", "m008_signed", "adderclaw fleet export", "a new database"):
        assert part in done.err
    assert [row[0] for row in farm.rows("SELECT name FROM fleet.migrations ORDER BY 1")] == [
        "m001_fleet",
        "m008_signed",
    ]
