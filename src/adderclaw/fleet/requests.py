"""The request of a run: the submitter's signature, and the checks that the command line and the worker share.

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

from adderclaw.core import home_names
from adderclaw.core.decode import Invalid, decode
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.json_text import canonical
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.fleet import queue
from adderclaw.fleet.boxes import BOX
from adderclaw.fleet.database import Cursor, Database
from adderclaw.fleet.identities import Identity, load_or_create_key, signed_by
from adderclaw.fleet.places import Place, require_commit, require_fit, require_reachable
from adderclaw.flows.request import SOURCES, RunParams

LABEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


class Refused(AdderClawError):
    """No worker may begin this run; the text says why."""


class Request(NamedTuple):
    """Everything that a submitter writes, except the position in the queue. The fields are columns of fleet.runs."""

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
        request = cls._make(getattr(row, name) for name in cls._fields)
        return request._replace(after=tuple(row.after))

    @property
    def digest(self) -> str:
        """A hash of the whole request, which reveals no text of the run."""
        fields = self._asdict()
        fields["max_cost"] = None if self.max_cost is None else repr(float(self.max_cost))
        fields["deadline"] = None if self.deadline is None else self.deadline.astimezone(UTC).isoformat()
        return hashlib.sha256(canonical(fields).encode()).hexdigest()


def signed_text(id: str, digest: str) -> bytes:
    """The bytes that a submitter signs. They repeat the id, so that it can be checked without the request."""
    return canonical({"format": "adderclaw-fleet-request-1", "run": id, "request": digest}).encode()


def identity(home: str, name: str) -> Identity:
    """The submitter's own key in this home, created on first use."""
    return Identity(name, load_or_create_key(os.path.join(home, home_names.FLEET_SUBMITTER_KEY)))


def enrol(database: Database, name: str, public: str) -> None:
    """Record that this key belongs to this submitter."""
    if re.fullmatch(r"[0-9a-f]{64}", public) is None:
        raise UsageError(f"{public!r} is not a public key, which has 64 hexadecimal digits")
    database.run(
        "INSERT INTO fleet.submitters (name, public_key) VALUES (%s, %s)"
        " ON CONFLICT (name, public_key) DO UPDATE SET revoked = NULL",
        name,
        public,
    )


def require_enrolled(database: Database, who: Identity) -> None:
    """Refuse to submit with a key that workers do not accept. Enrolls the key if this database role may do so."""
    known = "SELECT revoked FROM fleet.submitters WHERE name = %s AND public_key = %s"
    row = database.one(known, who.name, who.public)
    if row is None:
        may = database.one(
            "SELECT has_any_column_privilege('fleet.submitters', 'INSERT') AS enrol,"
            " has_any_column_privilege('fleet.runs', 'INSERT') AS submit"
        )
        if not may.submit:
            raise UsageError(
                "this role may not do that: it may not submit runs; docs/fleet.md lists what each role may do"
            )
        if may.enrol:
            enrol(database, who.name, who.public)
            return
    if row is None or row.revoked is not None:
        why = "is not enrolled" if row is None else "was revoked"
        fix = f"an operator enrolls it: adderclaw fleet enroll --submitter {who.name} {who.public}"
        raise UsageError(f"submitter {who.name}: the key of this home {why}; {fix}")


def require_valid(request: Request, *, local: bool) -> RunParams:
    """Refuse an invalid request. `fleet submit` and the worker both use exactly this check.

    `local`: fleet.toml of this machine allows repositories that are paths of its disk.
    """
    if queue.ID.fullmatch(request.id) is None:
        raise UsageError("its id is not valid for a run; use letters, digits, - and _, at most 64 characters")
    if request.label and LABEL.fullmatch(request.label) is None:
        raise UsageError(f"label {request.label[:50]!r}: small letters, digits, - and _, at most 32")
    if not request.submitter.strip() or len(request.submitter) > 200:
        raise UsageError(f"submitter {request.submitter[:50]!r}: 1 to 200 characters")
    if not 0 <= request.priority <= 9:
        raise UsageError(f"priority {request.priority}: a number from 0 to 9")
    if request.max_cost is not None and not 0 <= request.max_cost < math.inf:
        raise UsageError(f"max_cost {request.max_cost}: a number of US dollars, at least 0")
    params = _params(request.wanted)
    source = decode(Place, request.place)
    if bool(source.archive) == bool(source.repo):
        raise UsageError("give one of --repo and --workspace for the files that the run works on")
    if source.archive and BOX.fullmatch(source.archive) is None:
        raise UsageError(f"object {source.archive[:16]!r} was not submitted as files of a run; submit them again")
    if source.repo:
        require_reachable(source.repo, local=local)
        require_commit(source.repo, source.commit or "")
    return params


def _params(request: object) -> RunParams:
    if not isinstance(request, dict):
        raise UsageError("the request is not a JSON object")
    fields = {name: value for name, value in cast(Json, request).items() if value is not None}
    params = decode(RunParams, fields)
    if params.workspace:
        raise UsageError("workspace: this cannot be used for a run on another machine")
    require_fit(params)
    if sum(bool(getattr(params, name)) for name in SOURCES) != 1:
        raise UsageError(f"give exactly one of {', '.join(SOURCES[:-1])}")
    return params


def require_submitted(cursor: Cursor, row: Any, *, local: bool) -> None:
    """Refuse a row that differs from what an enrolled submitter signed, or that the command line would refuse."""
    request = Request.of(row)
    if not row.signature:
        raise Refused("its request has no signature, so its row was written by hand; submit it again")
    known = cursor.execute(
        "SELECT revoked FROM fleet.submitters WHERE name = %s AND public_key = %s", (row.submitter, row.signed_by)
    ).fetchone()
    if known is None or known.revoked is not None:
        why = "is not enrolled" if known is None else "was revoked"
        key = str(row.signed_by)[:64]
        raise Refused(f"it is signed with the key {key!r}, which {why} for submitter {row.submitter[:200]}")
    if not is_signed(row, request):
        raise Refused(
            "its request does not match its signature: it was changed after it was submitted; submit it again"
        )
    try:
        require_valid(request, local=local)
    except (UsageError, Invalid) as error:
        raise Refused(str(error)) from error


def is_signed(row: Any, request: Request) -> bool:
    """Whether this key signed this request. JSON in a row may be nested too deeply to be encoded again."""
    try:
        return signed_by(row.signed_by, signed_text(request.id, request.digest), row.signature)
    except (RecursionError, ValueError):
        return False
