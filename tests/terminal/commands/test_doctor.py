"""`adderclaw doctor`: what is broken is named with its fix, and nothing is changed by looking."""

import json
from pathlib import Path
from typing import Any

from adderclaw.agent.session.clock import SystemClock, random_ids
from adderclaw.storage import Store
from adderclaw.storage.ledger.ledger import Ledger
from tests.program import Cli
from tests.sandbox.without import without
from tests.trial import bubblewrap


def examined(cli: Cli, *arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code, and the worst check of each name."""
    done = cli("doctor", "--output-format", "json", *arguments)
    assert done.err == ""
    found = json.loads(done.out)
    assert found["ok"] is (done.code == 0)
    order = ("ok", "warning", "broken")
    worst = sorted(found["checks"], key=lambda check: order.index(check["state"]))
    return done.code, {check["name"]: check for check in worst}


def begun(cli: Cli) -> None:
    """A home with a database, a receipt log and its key."""
    store = Store.open(str(cli.data / "memory.sqlite"))
    log, key = str(cli.data / "tool_receipts.log"), str(cli.data / "receipt.key")
    Ledger.open(log, store, key, clock=SystemClock(), ids=random_ids).close()
    store.close()


def test_a_broken_configuration_is_named_with_every_problem(cli: Cli) -> None:
    cli.configure('default_provider = 1\n[security]\nautonomy = "wild"\n')
    done = cli("doctor")
    assert done.code == 1
    assert "default_provider" in done.out
    assert "wild" in done.out
    assert "config validate" in done.out
    assert "Traceback" not in done.err


def test_a_foreign_database_is_broken(cli: Cli) -> None:
    cli.configure("")
    (cli.data / "memory.sqlite").write_bytes(b"no database at all" * 100)
    code, checks = examined(cli)
    assert code == 1
    assert checks["store"]["state"] == "broken"
    assert checks["store"]["fix"]


def test_a_receipt_log_that_was_edited_is_broken(cli: Cli) -> None:
    begun(cli)
    (cli.data / "tool_receipts.log").write_text('{"id": "forged"}\n')
    code, checks = examined(cli)
    assert code == 1
    assert checks["receipts"]["state"] == "broken"
    assert "receipt" in checks["receipts"]["fix"]


def test_a_home_that_cannot_be_made_is_named_itself(cli: Cli) -> None:
    """Not the nearest folder that is there, which may be `/`: nobody is told to change that."""
    cli.before = (bubblewrap(), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    cli.env["ADDERCLAW_HOME"] = "/no-such-folder/home"
    _, checks = examined(cli)
    assert checks["home"]["detail"] == "/no-such-folder/home does not exist, and / is not writable"
    assert checks["home"]["fix"] == "set ADDERCLAW_HOME to another folder"


def test_a_home_that_is_a_file_is_broken(cli: Cli) -> None:
    cli.data.write_text("")
    done = cli("doctor")
    assert done.code != 0
    assert str(cli.data) in done.out + done.err
    assert "Traceback" not in done.err


def test_the_stop_is_a_warning_with_its_fix(cli: Cli) -> None:
    assert cli("estop").code == 0
    code, checks = examined(cli)
    assert (code, checks["estop"]["state"]) == (0, "warning")
    assert "estop --clear" in checks["estop"]["fix"]


def test_without_bubblewrap_it_warns_and_says_how_to_go_on(cli: Cli, tmp_path: Path) -> None:
    cli.env["PATH"] = str(tmp_path)
    cli.before = without("namespaces")
    _, checks = examined(cli)
    assert checks["sandbox"]["state"] == "warning"
    assert "install bubblewrap" in checks["sandbox"]["fix"]


def test_a_bubblewrap_that_may_not_start_is_not_to_be_installed_again(cli: Cli, tmp_path: Path) -> None:
    """As on Ubuntu, whose AppArmor refuses it, and in most containers."""
    fake = tmp_path / "programs/bwrap"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    cli.env["PATH"] = f"{fake.parent}:{cli.env['PATH']}"
    cli.before = without("namespaces")
    _, checks = examined(cli)
    assert "setting up uid map: Permission denied" in checks["sandbox"]["detail"]
    assert checks["sandbox"]["fix"].startswith("let bubblewrap make namespaces (docs/deployment.md")
    assert "install" not in checks["sandbox.accept"]["fix"]


def test_a_new_machine_is_well_and_nothing_is_changed(cli: Cli) -> None:
    code, checks = examined(cli)
    assert code == 0
    assert {"python", "sqlite", "bash", "ripgrep", "sandbox", "home", "workspace", "store", "receipts"} <= checks.keys()
    assert not cli.data.exists()


def test_after_the_first_use_everything_is_well(cli: Cli) -> None:
    begun(cli)
    code, checks = examined(cli)
    assert code == 0
    assert {checks[name]["state"] for name in ("home", "store", "receipts", "estop")} == {"ok"}


def test_a_model_table_that_lacks_the_model_or_is_damaged_is_a_warning(cli: Cli) -> None:
    cli.configure('default_provider = "a"\n[providers.models.a]\nkind = "anthropic"\nmodel = "claude-opus-99"\n')
    cli.env["ANTHROPIC_API_KEY"] = "k-0123456789"
    check = examined(cli)[1]["model table"]
    assert (check["state"], "does not list claude-opus-99" in check["detail"]) == ("warning", True)
    assert "models refresh" in check["fix"]
    cli.configure('default_provider = "a"\n[providers.models.a]\nkind = "anthropic"\nmodel = "opus"\n')
    (cli.data / "models.json").write_text("{}")
    check = examined(cli)[1]["model table"]
    assert (check["state"], "is not used" in check["detail"]) == ("warning", True)
    (cli.data / "models.json").unlink()
    assert "model table" not in examined(cli)[1]
