"""The ledger for an auditor: verified by a file that knows nothing of us, redacted, and a changed byte is found."""

import json
import subprocess
import sys
from pathlib import Path

from tests.acceptance.world import World, call, text

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "verify_receipts.py"
CANARY = "sk-ant-api03-" + "c4n4ry" * 8


def verified(folder: Path, *more: str) -> tuple[int, str]:
    command = [sys.executable, "-I", str(SCRIPT), str(folder / "tool_receipts.log"), "--manifest"]
    done = subprocess.run([*command, str(folder / "manifest.json"), *more], capture_output=True, text=True)
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
    assert "records.jsonl is not what" in said
    records.write_bytes(whole)
    log = folder / "tool_receipts.log"
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    assert verified(folder)[0] == 1
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    import hashlib

    manifest["files"]["tool_receipts.log"] = hashlib.sha256(log.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    code, said = verified(folder)
    assert code == 1
    assert "rolled back" in said


def test_without_a_ledger_there_is_nothing_to_export(world: World) -> None:
    done = world.cli("receipt", "export", str(world.cli.home / "audit"))
    assert done.code == 2
    assert "nothing to export" in done.err
