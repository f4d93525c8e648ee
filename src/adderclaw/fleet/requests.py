"""What a run is asked to do: one set of checks for the command line and for the worker, and the submitter's signature.

A row of the database may have been written by anybody who can log in to it. So the submitter signs the whole request,
the run's id included, with a key of its own, and a worker begins nothing that is not signed by a key which an operator
enrolled for that submitter. Workers cannot write the table of these keys.
"""

import hashlib
import math
import os
import re
from datetime import UTC, datetime
from typing import Any, Self, cast

from adderclaw.decode import Invalid, decode
from adderclaw.drivers.wanted import WHAT, RunParams
from adderclaw.errors import AdderClawError, UsageError
from adderclaw.fleet import queue
from adderclaw.fleet.anchors import Identity, key_of, signed_by
from adderclaw.fleet.boxes import BOX
from adderclaw.fleet.database import Cursor, Database
from adderclaw.fleet.places import Place, require_commit, require_fit, require_reachable
from adderclaw.json_text import canonical
from adderclaw.record import NamedTuple
from adderclaw.types import Json

FILE = "fleet-submitter.key"
LABEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


class Refused(AdderClawError):
    """A run that no worker begins, with the reason."""


class Request(NamedTuple):
    """All that a submitter writes of a run, apart from its turn in the queue. The fields are columns of fleet.runs."""

    id: str
    submitter: str
    project: str
    label: str
    batch: str
    trace: str
    wanted: Json
    place: Json
    priority: int
    dedupe: str | None
    after: tuple[str, ...]
    max_cost: float | None
    deadline: datetime | None

    @classmethod
    def of(cls, row: Any) -> Self:
        made = cls._make(getattr(row, name) for name in cls._fields)
        return made._replace(after=tuple(row.after))

    @property
    def digest(self) -> str:
        """One hash over the request. No text of the run can be read from it."""
        made = self._asdict()
        made["max_cost"] = None if self.max_cost is None else repr(float(self.max_cost))
        made["deadline"] = None if self.deadline is None else self.deadline.astimezone(UTC).isoformat()
        return hashlib.sha256(canonical(made).encode()).hexdigest()


def signed_text(id: str, digest: str) -> bytes:
    """What a submitter signs. The id is in it a second time, so that it can be checked without the request."""
    return canonical({"format": "adderclaw-fleet-request-1", "run": id, "request": digest}).encode()


def identity(home: str, name: str) -> Identity:
    """The submitter's own key in this home; it is made when it is first needed."""
    return Identity(name, key_of(os.path.join(home, FILE)))


def enrol(database: Database, name: str, public: str) -> None:
    """The operator's word that this key is this submitter's."""
    if re.fullmatch(r"[0-9a-f]{64}", public) is None:
        raise UsageError(f"{public!r} is not a public key: 64 hexadecimal digits are expected")
    database.run(
        "INSERT INTO fleet.submitters (name, public_key) VALUES (%s, %s)"
        " ON CONFLICT (name, public_key) DO UPDATE SET revoked = NULL",
        name,
        public,
    )


def require_enrolled(database: Database, who: Identity) -> None:
    """Refuse to submit with a key that workers do not accept. Whoever may enrol submitters is enrolled here."""
    known = "SELECT revoked FROM fleet.submitters WHERE name = %s AND public_key = %s"
    row = database.one(known, who.name, who.public)
    if row is None:
        may = database.one(
            "SELECT has_any_column_privilege('fleet.submitters', 'INSERT') AS enrol,"
            " has_any_column_privilege('fleet.runs', 'INSERT') AS submit"
        )
        if not may.submit:
            raise UsageError("this role may not do that: it submits no runs; docs/fleet.md says what each role may")
        if may.enrol:
            enrol(database, who.name, who.public)
            return
    if row is None or row.revoked is not None:
        why = "is not enrolled" if row is None else "was revoked"
        fix = f"an operator enrolls it: adderclaw fleet enroll --submitter {who.name} {who.public}"
        raise UsageError(f"submitter {who.name}: the key of this home {why}; {fix}")


def require_valid(request: Request, *, local: bool) -> RunParams:
    """Refuse a request that no worker carries out. `fleet submit` and the worker both call this, and nothing else.

    `local`: fleet.toml of this machine allows repositories that are paths of its disk.
    """
    if queue.ID.fullmatch(request.id) is None:
        raise UsageError("its id is not one that a run has: letters, digits, - and _, at most 64")
    if request.label and LABEL.fullmatch(request.label) is None:
        raise UsageError(f"label {request.label[:50]!r}: small letters, digits, - and _, at most 32")
    if not request.submitter.strip() or len(request.submitter) > 200:
        raise UsageError(f"submitter {request.submitter[:50]!r}: 1 to 200 characters")
    if not 0 <= request.priority <= 9:
        raise UsageError(f"priority {request.priority}: a number from 0 to 9")
    if request.max_cost is not None and not 0 <= request.max_cost < math.inf:
        raise UsageError(f"max_cost {request.max_cost}: a number of US dollars, at least 0")
    params = _params(request.wanted)
    place = decode(Place, request.place)
    if bool(place.archive) == bool(place.repo):
        raise UsageError("give one of --repo and --workspace: the files that it works on")
    if place.archive and BOX.fullmatch(place.archive) is None:
        raise UsageError(f"object {place.archive[:16]!r} was not submitted as files of a run: submit them again")
    if place.repo:
        require_reachable(place.repo, local=local)
        require_commit(place.repo, place.commit or "")
    return params


def _params(wanted: object) -> RunParams:
    if not isinstance(wanted, dict):
        raise UsageError("what is to be run is not an object with a name for each value")
    given = {name: value for name, value in cast(Json, wanted).items() if value is not None}
    params = decode(RunParams, given)
    if params.workspace:
        raise UsageError("workspace: a run on another machine has no use for it")
    require_fit(params)
    if sum(bool(getattr(params, name)) for name in WHAT) != 1:
        raise UsageError(f"give exactly one of {', '.join(WHAT[:-1])}")
    return params


def require_submitted(cursor: Cursor, row: Any, *, local: bool) -> None:
    """Refuse a row that is not exactly what an enrolled submitter signed, and one that no command line would submit."""
    request = Request.of(row)
    _require_signed(cursor, row, request)
    try:
        require_valid(request, local=local)
    except (UsageError, Invalid) as error:
        raise Refused(str(error)) from error


def _require_signed(cursor: Cursor, row: Any, request: Request) -> None:
    if not row.signature:
        why = "its request has no signature: it was submitted by an AdderClaw from before requests were signed"
        raise Refused(f"{why}, or by hand; submit it again with this version")
    known = cursor.execute(
        "SELECT revoked FROM fleet.submitters WHERE name = %s AND public_key = %s", (row.submitter, row.signed_by)
    ).fetchone()
    if known is None or known.revoked is not None:
        why = "is not enrolled" if known is None else "was revoked"
        key = str(row.signed_by)[:64]
        raise Refused(f"the key {key!r} of its signature {why} for submitter {row.submitter[:200]}")
    if not is_signed(row, request):
        raise Refused("its request does not match its signature: somebody changed what was submitted; submit it again")


def is_signed(row: Any, request: Request) -> bool:
    """Whether this key signed this request. A row may hold JSON that is too deep to be written again."""
    try:
        return signed_by(row.signed_by, signed_text(request.id, request.digest), row.signature)
    except (RecursionError, ValueError):
        return False
