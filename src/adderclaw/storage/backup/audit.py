"""Exports the ledger for an auditor: one folder with the sealed receipts and a redacted record of who allowed what."""

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from typing import IO

from adderclaw import __version__
from adderclaw.config import Loaded
from adderclaw.config.redacted import public
from adderclaw.core import home_names
from adderclaw.core.errors import UsageError
from adderclaw.core.json_text import canonical
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.storage.ledger.log_files import open_log
from adderclaw.storage.ledger.verify import Verification, verify
from adderclaw.storage.queries.audit import records

RECORDS, MANIFEST = "records.jsonl", "manifest.json"


class Exported(NamedTuple):
    folder: str
    records: dict[str, int]
    receipts: Verification
    archives: list[str]
    """Archived chains that the export contains as well."""


def export(loaded: Loaded, folder: str, key_path: str) -> Exported:
    """Writes the folder, which must be missing or empty."""
    folder = os.path.abspath(os.path.expanduser(folder))
    if os.path.lexists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise UsageError(f"{folder} already exists and is not empty; choose another folder")
    path, log = loaded.config.memory.path, loaded.config.receipts.path
    if not Store.exists(path) and not os.path.exists(log):
        raise UsageError(f"there is nothing to export: neither {path} nor {log} exists")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    store = Store.open(path, read_only=True) if Store.exists(path) else None
    try:
        counts = _write_records(store, loaded, os.path.join(folder, RECORDS))
        chains = {name: _copy_chain(path, os.path.join(folder, name), key_path) for name, path in _chain_logs(log)}
        whole = verify(log, store, key_path)
        archived = [_verify_archived(log, store, key_path, name) for name in whole.completeness.get("archives", ())]
    finally:
        if store is not None:
            store.close()
    current_chain = chains.pop(home_names.RECEIPTS)
    manifest = {
        "format": 1,
        "adderclaw": __version__,
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "head": current_chain.head,
        "archives": {name: chain.head for name, chain in chains.items()},
        "records": counts,
        "completeness": whole.completeness,
        "files": {name: _file_hash(os.path.join(folder, name)) for name in (home_names.RECEIPTS, *chains, RECORDS)},
    }
    with _create_file(os.path.join(folder, MANIFEST)) as file:
        file.write(json.dumps(manifest, indent=2, sort_keys=True).encode() + b"\n")
    broken = [chain for chain in (whole, *archived, *chains.values()) if not chain.valid]
    return Exported(folder, counts, broken[0] if broken else current_chain, sorted(chains))


def _chain_logs(log: str) -> Iterator[tuple[str, str]]:
    """The log in use, and the archived logs in the same folder, which have the time of archiving in their names."""
    yield home_names.RECEIPTS, log
    log_folder, name = os.path.split(os.path.abspath(log))
    for other in sorted(os.listdir(log_folder)) if os.path.isdir(log_folder) else ():
        stamp = other.removeprefix(f"{name}.")
        if re.fullmatch(r"\d{8}T\d{6}Z(-\d+)?", stamp) and os.path.isfile(os.path.join(log_folder, other)):
            yield f"{home_names.RECEIPTS}.{stamp}", os.path.join(log_folder, other)


def _verify_archived(log: str, store: Store | None, key_path: str, name: str) -> Verification:
    """Verifies an archived chain that the database lists, even if its file is gone."""
    verification = verify(log, store, key_path, archive=name)
    return verification._replace(reason=f"{name}: {verification.reason}")


def _copy_chain(log: str, copy: str, key_path: str) -> Verification:
    _copy_log(log, copy)
    return verify(copy, None, key_path)


def _write_records(store: Store | None, loaded: Loaded, path: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    with _create_file(path) as file:
        for kind, record in _redacted_records(store, loaded):
            counts[kind] = counts.get(kind, 0) + 1
            file.write(canonical(Secrets().clean({"record": kind, **record})).encode() + b"\n")
    return counts


def _redacted_records(store: Store | None, loaded: Loaded) -> Iterator[tuple[str, Json]]:
    digest = hashlib.sha256(canonical(public(loaded.config)).encode()).hexdigest()
    managed = hashlib.sha256(canonical(loaded.managed).encode()).hexdigest() if loaded.managed else ""
    yield "configuration", {"sha256": digest, "files": list(loaded.files), "managed_sha256": managed}
    if store is None:
        return
    for kind, record in records(store):
        if kind == "settings":
            text = str(record.pop("json"))
            record["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        yield kind, record


def _create_file(path: str) -> IO[bytes]:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def _copy_log(log: str, target: str) -> None:
    """Copies only complete lines, because another process may be appending one."""
    with _create_file(target) as copy:
        try:
            fd = open_log(os.path.abspath(log), os.O_RDONLY)
        except FileNotFoundError:
            return
        with open(fd, "rb") as source:
            for line in source:
                if line.endswith(b"\n"):
                    copy.write(line)


def _file_hash(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe(done: Exported) -> Iterator[str]:
    """The result as lines for people."""
    counted = ", ".join(f"{number} of {kind}" for kind, number in done.records.items())
    yield f"wrote {done.folder}: {done.receipts.receipts} receipts; records: {counted}"
    if done.archives:
        yield f"archived chains in it: {', '.join(done.archives)}"
    if not done.receipts.valid:
        yield f"the receipts do NOT verify: invalid at {done.receipts.first_broken}: {done.receipts.reason}"
    yield f"head {done.receipts.head}; verify it with scripts/verify_receipts.py, which needs only Python"
