"""The fleet in the dashboard and in the figures for Prometheus: with a fleet, without one, with one that is gone."""

from pathlib import Path

from adderclaw.agent.run import Options
from adderclaw.server.state import ServerState
from tests.fleet.farm import Farm
from tests.server.conftest import Server


def test_the_page_shows_the_fleet_of_this_home(farm: Farm, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    secret = "sk-ant-api03-" + "a1B2" * 12
    farm.submit("-m", f"\u202edrowssap\x1b[2J {secret}", "--workspace", str(farm.workspace), "--project", "p")
    farm.submit("-m", hostile, "--workspace", str(farm.workspace), "--submitter", "alice")
    farm.fleet("stop", "--label", "gpu", "--reason", "too hot")
    house = ServerState(Options(workspace=str(farm.workspace), log_level="error"), [str(farm.workspace)])
    try:
        server = Server(house)
        token = server.token("read", "operate", "admin")
        page = server.ask("GET", "/ui/fleet", token)
        assert page.status_code == 200
        assert hostile not in page.text
        assert [one in page.text for one in ("\u202e", "\x1b", secret, "drowssap")] == [False, False, False, True]
        assert "&lt;script&gt;alert(1)" in page.text
        for shown in ("alice", "too hot", "No worker is running", "queued"):
            assert shown in page.text, shown
        bound = server.ask("GET", "/ui/fleet", server.token("read", name="bound", folders=[str(tmp_path)]))
        assert "alice" not in bound.text
        figures = server.ask("GET", "/metrics", token).text
        assert 'adderclaw_fleet_runs{state="queued"} 2.0' in figures
        assert "adderclaw_fleet_stops 1.0" in figures
        (farm.cli.data / "fleet.toml").write_text('database = "postgresql://adder@127.0.0.1:9/none"\n')
        gone = server.ask("GET", "/ui/fleet", token)
        assert "cannot be reached" in gone.text
        assert "adderclaw_fleet_reachable 0.0" in server.ask("GET", "/metrics", token).text
        (farm.cli.data / "fleet.toml").unlink()
        assert "This home does not belong to a fleet." in server.ask("GET", "/ui/fleet", token).text
    finally:
        house.store.close()
