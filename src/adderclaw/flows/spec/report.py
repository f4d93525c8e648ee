"""The page of the checks of a run: scenario, verdict, evidence, sessions, cost and time."""

import os
from collections.abc import Iterable, Iterator

from adderclaw.agent.view.items import Notice
from adderclaw.agent.view.markup import PICTURES
from adderclaw.agent.view.page import Block, Heading, Output, Picture, Table, Tone, page
from adderclaw.agent.view.rows import Rows
from adderclaw.core.errors import AdderClawError, PathRefused
from adderclaw.flows.verifier.evidence import kept
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.storage import Store
from adderclaw.storage.sdlc import checks
from adderclaw.storage.sdlc.checks import Check

TONES: dict[str, Tone] = {"passed": "good", "failed": "bad", "unproven": "bad"}
COLUMNS = ("scenario", "verdict", "claimed by", "checked by", "time", "tokens", "cost")
EVIDENCE_GONE = "the stored evidence {id} is missing or has changed: {file}"


def report(store: Store, rows: Rows, run_id: str, folder: WorkspacePath, summary: str) -> str:
    """Returns the page of one run; `folder` is the run's own, `summary` says how it ended."""
    checked = checks.of_run(store, run_id)
    head: list[Block] = [
        Notice("summary", "note", rows.clean(summary)),
        Table(COLUMNS, [_row(rows, check) for check in checked]),
    ]
    if not checked:
        head.append(Notice("none", "note", "this run claimed no pass, or claims are not verified (spec.verify)"))
    return page(f"Run {run_id}: what was checked", [*head, *evidence(rows, checked, folder)])


def evidence(rows: Rows, rows_checked: Iterable[Check], folder: WorkspacePath) -> Iterator[Block]:
    """Yields each check with its evidence."""
    for check in rows_checked:
        yield from _check(rows, check, folder)


def _row(rows: Rows, check: Check) -> tuple[str, ...]:
    cost = f"${check.cost:.4f}" if check.cost is not None else "unknown"
    name = rows.clean(f"{check.scenario_id} {check.name}")
    who = (check.claimed_by or "the file, by hand", check.checked_by or "nobody yet")
    return (name, check.verdict or "to be checked", *who, f"{check.seconds:.1f} s", str(check.tokens), cost)


def _check(rows: Rows, check: Check, folder: WorkspacePath) -> Iterator[Block]:
    label = check.verdict or "to be checked"
    yield Heading(rows.clean(f"{check.scenario_id} {check.name}"), 2, TONES.get(check.verdict, "open"), label)
    if check.reason:
        yield Output("report of the session that checked it", rows.clean(check.reason))
    for cited in check.evidence:
        yield Heading(f"{cited['id']}: {cited['tool']}", 3)
        call = rows.call(check.checked_by, str(cited["tool_use_id"]))
        if call is not None:
            yield call
        for part in cited["kept"]:
            if (data := kept(folder, part)) is None:
                yield Notice("gone", "warning", EVIDENCE_GONE.format(id=cited["id"], file=part["file"]))
            elif part["media_type"] in PICTURES:
                yield Picture(f"{cited['id']}, sha256 {part['sha256']}", part["media_type"], data)


def write(text: str, path: str, root: str) -> str:
    """Writes a page to the operator's path without following links of the workspace; returns the path."""
    file = workspace.configured_path(os.path.abspath(path), root)
    try:
        workspace.write(file, text.encode("utf-8"), mode=0o600)
    except (OSError, PathRefused) as error:
        why = error.reason if isinstance(error, PathRefused) else error.strerror or "it cannot be written"
        raise AdderClawError(
            f"the report cannot be written to {path}: {why}; name another file with --report"
        ) from error
    return file.text
