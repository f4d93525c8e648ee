"""`adderclaw run --detach`: a run goes on in the server, and no secret of it lies on the disk."""

from collections.abc import Callable
from pathlib import Path

from tests.acceptance.world import call, text
from tests.program import Cli
from tests.server.conftest import Process
from tests.server.test_conversations import script
from tests.server.test_streams import events, until


def test_a_run_is_handed_to_the_server(
    serve: Callable[..., Process], cli: Cli, home: Path, workspace: Path, tmp_path: Path
) -> None:
    write = call("Write", file_path="a.txt", content="one\n")
    script(home, write, text("done"))
    task = ("run", "--detach", "--workspace", str(workspace), "--task", "write it")
    refused = cli(*task)
    assert (refused.code, "no server of" in refused.err, refused.out) == (1, True, "")
    server = serve()
    for more, word in ((("--report", "r.html"), "--report"), (("--dry-run",), "--dry-run")):
        refused = cli(*task, *more)
        assert (refused.code, word in refused.err) == (2, True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    refused = cli("run", "--detach", "--workspace", str(elsewhere), "--task", "write it")
    assert (refused.code, "is not a folder that this token may open" in refused.err) == (1, True), (
        "the server offers other folders"
    )
    begun = cli(*task, "--profile", "sandboxed")
    assert begun.code == 0, begun.err
    id = begun.out.strip()
    with server.client(server.token()) as client:
        with client.stream("GET", f"/runs/{id}/events?after=0") as answer:
            report = until(events(answer), "ended")[-1][2]
        assert report["run_id"] == id
        row = client.get(f"/runs/{id}").json()
        assert (row["kind"], row["here"]) == ("task", False)
    listed = cli("token", "list").out
    assert "run --detach" not in listed or "revoked" in listed, "its token ended with the command"
