"""What /etc/adderclaw of a worker's machine says binds the runs that it works on, whatever was submitted."""

from tests.fleet.farm import Farm, call, text
from tests.managed import Machine
from tests.program import Cli

BOUNDS = """
[limits]
tool_calls = 1
[permissions]
deny = ["Read(secret.txt)"]
"""


def test_a_worker_holds_what_is_submitted_to_its_machines_bounds(farm: Farm, cli: Cli) -> None:
    """The submitter's machine has no administrator: what he sets himself loosens nothing."""
    machine = Cli(cli.home, cli.cwd)
    Machine(machine).write(BOUNDS)
    farm.before = machine.before
    (farm.workspace / "secret.txt").write_text("s3cret\n", encoding="utf-8")
    farm.script(call("Read", file_path="secret.txt"), *[call("LS", path=".")] * 3, text("done"))
    here = ("--workspace", str(farm.workspace))
    wider = ("--max-cost", "500", "--profile", "sandboxed")
    (bounded,) = farm.submit("-m", "read it", *here, *wider)
    worker = farm.worker("managed")
    (row,) = farm.ended(bounded)
    assert (row.outcome, "limits.tool_calls" in row.reason) == ("limit", True), (row.reason, worker.said)
    home = farm.fetched(bounded)
    said = "".join(one.read_text(errors="replace") for one in home.rglob("tool_receipts.log"))
    assert '"status":"denied"' in said.replace(" ", ""), said
