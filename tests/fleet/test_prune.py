"""What is left of old runs is removed beside workers that work; what was signed and what is in use stays."""

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg
import pytest

from adderclaw.fleet.database import IDLE, Database
from adderclaw.fleet.objects import Bucket
from tests.fleet.farm import Farm, call, text

DAY = 86_400
GARBAGE = "ab" * 32


class Shelf:
    """Where the objects of a farm are, as time goes by there."""

    def __init__(self, farm: Farm, folder: Path | None) -> None:
        self._farm, self._folder = farm, folder
        if folder is not None:
            with (farm.cli.data / "fleet.toml").open("a") as file:
                file.write(f'objects = "{folder}"\n')

    def age(self) -> None:
        """Two days pass for all that is there."""
        if self._folder is None:
            self._farm.rows("UPDATE fleet.objects SET at = at - interval '2 days' RETURNING 1")
            return
        for path in self._folder.glob("*/*"):
            os.utime(path, (time.time() - 2 * DAY, time.time() - 2 * DAY))

    def garbage(self) -> None:
        """An object that nobody refers to."""
        if self._folder is None:
            self._farm.rows("INSERT INTO fleet.objects (digest, body) VALUES (%s, 'x') RETURNING 1", GARBAGE)
        else:
            (self._folder / "ab").mkdir(exist_ok=True)
            (self._folder / "ab" / GARBAGE).write_text("x")

    @property
    def names(self) -> set[str]:
        if self._folder is None:
            return {row.digest for row in self._farm.rows("SELECT digest FROM fleet.objects")}
        return {path.name for path in self._folder.glob("*/*")}


@pytest.mark.parametrize("place", ["postgresql", "folder"])
def test_old_runs_are_pruned_beside_one_that_works(farm: Farm, place: str, tmp_path: Path) -> None:
    shelf = Shelf(farm, tmp_path / "objects" if place == "folder" else None)
    farm.script(call("Bash", command="echo one >> log"), text("ok"))
    here = ("--workspace", str(farm.workspace))
    (old,), (young,) = farm.submit("-m", "old", *here), farm.submit("-m", "young", *here)
    farm.worker("w1")
    farm.ended(old, young)
    with psycopg.connect(farm.url) as connection:
        connection.execute("UPDATE fleet.runs SET finished = finished - interval '40 days' WHERE id = %s", (old,))
        connection.execute(  # what it began with is gone: nobody can say which objects that was
            "INSERT INTO fleet.runs (id, submitter, wanted, place, state, outcome, finished)"
            " VALUES ('broken', 'me', '{}', %s, 'ended', 'error', now())",
            (json.dumps({"archive": f"box-{GARBAGE}"}),),
        )
    shelf.garbage()
    shelf.age()
    farm.script(call("Bash", command="echo one >> log; sleep 3"), text("ok"))
    (now,) = farm.submit("-m", "now", *here)  # with the workspace that is there already, and old
    farm.until(lambda: farm.rows("SELECT 1 FROM fleet.calls WHERE run = %s", now))
    before = shelf.names
    planned = farm.json("prune", "--older-than", "30d", "--dry-run")
    assert (planned["runs"], planned["objects"], before <= shelf.names) == (1, 2, True), planned
    done = farm.json("prune", "--older-than", "30d")
    assert {**done, "dry_run": True} == planned, done
    assert (done["calls"], done["events"] > 0, done["unreadable"]) == (1, True, ["broken"])
    assert before - shelf.names >= {GARBAGE, farm.run(old).saved}
    assert farm.ended(now)[0].outcome == "completed"
    for id in (young, now):
        assert (farm.fetched(id) / "workspace" / "log").read_text() == "one\n"
    refused = farm.fleet("fetch", old, str(tmp_path / "gone"))
    assert (refused.code, "was pruned" in refused.err) == (2, True)
    proof = farm.fleet("verify")
    assert proof.code == 0, proof.out
    assert "of 1 runs the states were pruned" in proof.out
    assert farm.json("prune", "--older-than", "30d")["runs"] == 0
    shelf.age()
    before, farm.cli.env["ADDERCLAW_FLEET_KEY"] = shelf.names, "cd" * 32
    refused = farm.fleet("prune")  # with the key of another fleet nothing can be read, and all would be garbage
    assert (refused.code, "none can be read with this key" in refused.err, shelf.names) == (1, True, before)
    for words in (("--older-than", "soon"), ("--older-than", "-1d")):
        assert farm.fleet("prune", *words).code == 2


class Slow(BaseHTTPRequestHandler):
    """A bucket that takes longer for an object than a transaction may sleep."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        time.sleep(IDLE + 1)
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_slow_bucket_takes_what_it_is_sent(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = {"ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "ALLOW_HTTP": "true", "REGION": "x"}
        for name, value in {**here, "ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        database = Database(farm.url, patience=0.5)
        Bucket("s3://states", database).put(GARBAGE, b"x")
        database.close()
        server.shutdown()
