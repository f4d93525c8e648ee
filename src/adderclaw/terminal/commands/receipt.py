"""`adderclaw receipt`: list, verify, anchor and archive the tamper-evident receipts."""

import os
import time
from typing import Annotated

import typer

from adderclaw.agent.queries import clean
from adderclaw.agent.queries import ledger as facts
from adderclaw.config import home, load
from adderclaw.config.legacy.options import Options
from adderclaw.core import home_names
from adderclaw.core.errors import UsageError
from adderclaw.core.json_text import to_json
from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.storage.ledger import anchors, ledger, log_end, log_files, verify
from adderclaw.storage.ledger.verify import Verification
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, group, print_result
from adderclaw.terminal.output import print_json

app = group("List and verify the tamper-evident receipts.")


@app.command("list")
def list_receipts(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many of the last ones.")] = 20,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """List the receipts of the log, the newest last.

    Example: adderclaw receipt list -n 50
    """
    receipts = log_end.last_receipts(load(config_file=config).config.receipts.path, limit)
    if output_format == "json":
        print_json([clean(receipt) for receipt in receipts])
        return
    for receipt in receipts:
        print(clean(_line(receipt)))
    if not receipts:
        print("no receipts yet")


@app.command("verify")
def verify_log(
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="HEAD|FILE", help="What `receipt head` printed, or `receipt anchor` wrote."),
    ] = None,
    archive: Annotated[str, typer.Option("--archive", metavar="NAME", help="An archived log, by its file name.")] = "",
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Verify the log: each receipt (integrity), and that every call has one (completeness).

    Compares the calls and results in the transcript with their receipts. Changes nothing. Exit code 1 when anything is
    invalid or missing, or when the database cannot be read: then only the log is verified.

    Example: adderclaw receipt verify --against 42:9f0c…
    """
    options = Options(config_file=config)
    log = load(config_file=config).config.receipts.path
    if archive != os.path.basename(archive):
        raise UsageError(f"--archive {archive!r}: give the name of a file in the folder of {log}, without the folder")
    verification = facts.verified(options, against, archive=archive)
    print_result(clean(to_json(verification)), clean(_verification_text(verification)), output_format)
    complete = "unread" not in verification.completeness and verification.completeness.get("complete", True)
    raise typer.Exit(0 if verification.valid and complete else 1)


@app.command()
def head(config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """Print the head of the chain. Store it elsewhere: `receipt verify --against` then finds a rollback.

    Only the end of the log is read and compared with the database; `receipt verify` checks all of it.

    Example: adderclaw receipt head
    """
    log_head = facts.head(Options(config_file=config))
    print_result({"head": log_head}, log_head, output_format)


@app.command()
def anchor(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file elsewhere to append to; - prints the line.")],
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Append the signed head of the chain to a file elsewhere, such as on another disk, or print it for a git note.

    `receipt verify --against FILE` then finds a rollback, and a rewrite of log, database and key together.

    Example: adderclaw receipt anchor /media/usb/adderclaw.anchors
    """
    log, store, key_path = _places(config)
    log_head = verify.head(log, store, key_path)
    key = log_files.read_key(key_path)
    if log_head.startswith("0:") or key is None:
        raise UsageError(f"{log} has no receipt yet, so there is nothing to anchor")
    if file != "-" and os.path.realpath(file) in (os.path.realpath(log), os.path.realpath(key_path)):
        raise UsageError(f"{file} is the ledger itself: name a file elsewhere")
    line = anchors.signed_anchor(verify.log_id(log), log_head, key, now=time.time())
    if file == "-":
        print(line)
        return
    anchors.append(file, line)
    print_result(
        {"file": os.path.abspath(file), "head": log_head},
        clean(f"anchored receipt {log_head.partition(':')[0]} in {os.path.abspath(file)}"),
        output_format,
    )


@app.command()
def export(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A folder that is missing or empty.")],
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Write the ledger for an auditor: receipts, permissions, questions and answers, redacted, with a manifest.

    scripts/verify_receipts.py verifies it with only Python. Exit code 1 when the receipts do not verify.

    Example: adderclaw receipt export audit
    """
    from adderclaw.storage.backup import audit

    done = audit.export(load(config_file=config), folder, os.path.join(home(), home_names.RECEIPT_KEY))
    print_result(clean(to_json(done)), clean("\n".join(audit.describe(done))), output_format)
    raise typer.Exit(0 if done.receipts.valid else 1)


@app.command()
def archive(
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that the next receipt starts a new chain.")] = False,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Rename the log to a dated name and start a new chain. The old one can still be verified by that name.

    Example: adderclaw receipt archive --yes
    """
    settings = load(config_file=config).config
    if not yes:
        raise UsageError(f"this renames {settings.receipts.path} and starts a new chain: confirm with --yes")
    store = Store.open(settings.memory.path, replaces_lost=True)
    name = ledger.archive(settings.receipts.path, store, now=time.time())
    store.close()
    print_result(
        {"archive": name},
        f"archived as {name}: check it with `adderclaw receipt verify --archive {name}`",
        output_format,
    )


def _places(config: str | None) -> tuple[str, Store | None, str]:
    """Log, store (if there is one) and key."""
    settings = load(config_file=config).config
    return settings.receipts.path, facts.opened(settings.memory.path), os.path.join(home(), home_names.RECEIPT_KEY)


def _line(receipt: Json) -> str:
    if "broken" in receipt:
        return f"{receipt['seq']:>5}  BROKEN: {receipt['broken']}"
    decision = receipt["decision"]
    why = decision.get("reason") or decision.get("by") or ""
    if code := decision.get("exit_code"):
        why = f"exit {code}: {why}"
    return (
        f"{receipt['seq']:>5}  {receipt['timestamp']}  {receipt['status']:<7}  {receipt['risk']:<6}"
        f"  {receipt['tool']}  {receipt['id']}  {why}"
    ).rstrip()


def _verification_text(verification: Verification) -> str:
    lines = [
        f"valid: {verification.receipts} receipt{'' if verification.receipts == 1 else 's'}"
        if verification.valid
        else f"invalid chain at receipt {verification.first_broken}: {verification.reason}"
    ]
    lines += [f"note: {note}" for note in verification.notes]
    lines.append(_completeness_lines(verification.completeness))
    return "\n".join(lines)


def _completeness_lines(figures: Json) -> str:
    if "unread" in figures:
        alone = "only the log was verified: neither its mirror nor calls, results and answers could be compared"
        return f"completeness: unknown, the database cannot be read ({figures['unread']}); {alone}"
    if not figures["store"]:
        return "completeness: unknown, there is no store to compare with: only the log was looked at"
    calls, missing = figures["tool_calls"], figures["without_receipt"]
    lines = [f"{calls} tool calls in the transcript, {missing or 'none'} of them answered without a receipt"]
    if figures["switched_off"]:
        off = "made while receipts were switched off (receipts.enabled = false), so that nothing proves them"
        lines.append(f"{figures['switched_off']} {off}")
    if figures["interrupted"]:
        lines.append(f"{figures['interrupted']} interrupted or still running")
    if figures["unmirrored"] and not figures["behind"]:
        lines.append("1 receipt not yet mirrored, as a crash leaves it")
    elif figures["unmirrored"]:
        why = (
            "more than a crash leaves: the database was put back to an older state, its -wal file was lost, or "
            "another one was in use"
        )
        lines.append(f"{figures['unmirrored']} receipts that the database does not know, {why}")
    if figures["without_call"]:
        lines.append(f"{figures['without_call']} receipts of calls that the transcript no longer holds")
    if figures["archives"]:
        lines.append(f"archived: {', '.join(figures['archives'])}")
    return f"{'complete' if figures['complete'] else 'incomplete'}: {'; '.join(lines)}"
