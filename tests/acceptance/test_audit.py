"""The ledger for an auditor: verified by a file that knows nothing of us, redacted, and a changed byte is found."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.acceptance.world import World, call, text

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "verify_receipts.py"
CANARY = "sk-ant-api03-" + "c4n4ry" * 8


def verified(folder: Path, *more: str, log: str = "tool_receipts.log") -> tuple[int, str]:
    command = [sys.executable, "-I", str(SCRIPT), str(folder / log), "--manifest"]
    done = subprocess.run([*command, str(folder / "manifest.json"), *more], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_an_export_is_verified_alone_and_holds_no_secret(world: World) -> None:
    (world.workspace / "a.txt").write_text("hello\n", encoding="utf-8")
    world.script(call("file_read", path="a.txt"), call("bash", command=f"echo {CANARY}"), text("done"))
    assert world.agent("look", stdin="n\n").code in (0, 5)
    folder = world.cli.home / "audit"
    done = world.cli("receipt", "export", str(folder), "--output-format", "json")
    assert done.code == 0, done.err
    counts = json.loads(done.out)["records"]
    assert counts["receipt"] == 2
    assert counts["permission"] == 2
    assert {"session", "run", "configuration"} <= counts.keys()
    assert not any(CANARY.encode() in path.read_bytes() for path in folder.iterdir())
    assert verified(folder)[0] == 0
    assert verified(folder, "--key", str(world.cli.data / "receipt.key"))[0] == 0
    assert "is not empty" in world.cli("receipt", "export", str(folder)).err
    records = folder / "records.jsonl"
    whole = records.read_bytes()
    records.write_bytes(whole.replace(b'"denied"', b'"allowed"') + b" ")
    code, said = verified(folder)
    assert code == 1
    assert "records.jsonl does not match" in said
    records.write_bytes(whole)
    log = folder / "tool_receipts.log"
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    assert verified(folder)[0] == 1
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"]["tool_receipts.log"] = hashlib.sha256(log.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    code, said = verified(folder)
    assert code == 1
    assert "rolled back" in said


def test_the_chains_that_were_put_away_are_in_it_too(world: World) -> None:
    """Nobody leaves history out by beginning a new chain, or by removing the old one."""
    name = ""
    for _ in range(2):
        world.script(call("file_list", path="."), call("file_list", path="."), text("done"))
        assert world.agent("look").code == 0
        (name,) = json.loads(world.cli("receipt", "archive", "--yes", "--output-format", "json").out).values()
    world.script(call("file_list", path="."), text("done"))
    assert world.agent("look").code == 0
    folder = world.cli.home / "audit"
    done = world.cli("receipt", "export", str(folder), "--output-format", "json")
    assert done.code == 0, done.err
    archives = json.loads(done.out)["archives"]
    assert name in archives
    assert len(archives) == 2
    key = ("--key", str(world.cli.data / "receipt.key"))
    for log in ("tool_receipts.log", *archives):
        assert verified(folder, *key, log=log)[0] == 0
    cut = folder / name
    lines = cut.read_bytes().splitlines(keepends=True)
    cut.write_bytes(lines[0])
    assert f"{name} does not match its hash in" in verified(folder)[1]
    cut.unlink()
    code, said = verified(folder)
    assert (code, f"{name} is gone" in said) == (1, True), said
    (world.cli.data / name).unlink()
    less = world.cli.home / "less"
    done = world.cli("receipt", "export", str(less))
    assert done.code == 1
    assert "the receipts do NOT verify: invalid at 1: tool_receipts.log." in done.out
    code, said = verified(less)
    assert (code, f"the chain that was put away as {name} is gone" in said) == (1, True), said


def test_every_kind_of_tampering_with_an_export_is_found(world: World) -> None:
    world.script(*[call("file_list", path=".")] * 3, text("done"))
    assert world.agent("look").code == 0
    folder = world.cli.home / "audit"
    assert world.cli("receipt", "export", str(folder)).code == 0
    log, manifest = folder / "tool_receipts.log", folder / "manifest.json"
    whole, known = log.read_bytes(), json.loads(manifest.read_text(encoding="utf-8"))
    one, two, three = whole.splitlines(keepends=True)

    def found(data: bytes, files: dict[str, str] | None = None) -> str:
        """What is said of a log whose hash in the manifest was made to fit, too."""
        log.write_bytes(data)
        fits = {**known["files"], "tool_receipts.log": hashlib.sha256(data).hexdigest()}
        manifest.write_text(json.dumps({**known, "files": fits if files is None else files}), encoding="utf-8")
        code, said = verified(folder)
        assert code == 1, said
        return said

    assert "its hash does not match" in found(whole.replace(b'"allowed"', b'"denied"', 1))
    assert "rolled back" in found(one + two)
    assert "lines were removed, added or moved" in found(one + three + two)
    assert "lines were removed, added or moved" in found(whole + three)
    assert "has no hash of tool_receipts.log" in found(whole, {})
    log.write_bytes(whole)
    manifest.write_text(json.dumps(known), encoding="utf-8")
    assert verified(folder)[0] == 0
    (folder / "more.jsonl").write_text("{}", encoding="utf-8")
    code, said = verified(folder)
    assert (code, "more.jsonl is not listed in" in said) == (1, True), said


def test_an_export_of_a_log_that_was_cut_is_not_valid_for_the_auditor(world: World) -> None:
    """Who only gets the folder does not see how `receipt export` ended."""
    world.script(*[call("file_list", path=".")] * 3, text("done"))
    assert world.agent("look").code == 0
    lines = world.log.read_bytes().splitlines(keepends=True)
    world.log.write_bytes(b"".join(lines[:2]))
    folder = world.cli.home / "audit"
    assert world.cli("receipt", "export", str(folder)).code == 1
    code, said = verified(folder, "--key", str(world.cli.data / "receipt.key"))
    assert (code, "invalid chain at receipt 3" in said) == (1, True), said


def test_no_export_steers_the_terminal_or_the_verifier(world: World) -> None:
    """A name of a file, a receipt and a manifest that somebody made for the auditor."""
    world.script(call("file_list", path="."), text("done"))
    assert world.agent("look").code == 0
    folder = world.cli.home / "audit"
    assert world.cli("receipt", "export", str(folder)).code == 0
    strange = folder / "\x1b[2J\nvalid: 9 receipts"
    strange.write_text("", encoding="utf-8")
    code, said = verified(folder)
    assert (code, len(said.splitlines()), "\\x1b[2J\\nvalid" in said) == (1, 2, True), said
    strange.unlink()
    manifest = folder / "manifest.json"
    known = json.loads(manifest.read_text(encoding="utf-8"))
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("/dev/zero")
    for name, why in (
        ("pipe", "is not a regular file"),
        ("link", "is not a regular file"),
        ("a\0b", "is not a file next to"),
    ):
        files = {**dict.fromkeys(("pipe", "link"), "x"), **known["files"]}
        manifest.write_text(json.dumps({**known, "files": {name: "x", **files}}), encoding="utf-8")
        code, said = verified(folder)
        assert (code, why in said, "Traceback" in said) == (1, True, False), said
    manifest.write_text("[" * 200_000, encoding="utf-8")
    assert "is not a manifest" in verified(folder)[1]
    body: dict[str, Any] = json.loads((folder / "tool_receipts.log").read_text(encoding="utf-8"))
    body["decision"] = {"approval_id": ["\x1b[2J"]}
    del body["receipt_hash"]

    def sealed() -> str:
        return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    body["receipt_hash"] = hashlib.sha256(sealed().encode()).hexdigest()
    made = world.cli.home / "made.log"
    made.write_text(sealed() + "\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-I", str(SCRIPT), str(made)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), "nobody has the key here"


def test_without_a_ledger_there_is_nothing_to_export(world: World) -> None:
    done = world.cli("receipt", "export", str(world.cli.home / "audit"))
    assert done.code == 2
    assert "nothing to export" in done.err
