"""What /etc/adderclaw says binds whoever asks the server, an administrator of the server included."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.acceptance.world import CONFIG
from tests.managed import Machine
from tests.program import Cli
from tests.scripted import ScriptedModel, Step
from tests.server.conftest import Process

BOUNDS = """
[security]
autonomy = "supervised"
[limits]
tool_calls = 1
[permissions]
deny = ["Read(secret.txt)"]
[managed]
providers = ["127.0.0.1"]
"""
ENTRY = '[providers.models.{name}]\nkind = "openai-compatible"\nmodel = "m"\nbase_url = "{url}"\n'
READS: Step = {"tool_calls": [{"name": "Read", "arguments": {"file_path": "secret.txt"}}]}
LISTS: Step = {"tool_calls": [{"name": "LS", "arguments": {"path": "."}}]}


def test_no_request_loosens_it(cli: Cli, serve: Callable[..., Process], workspace: Path) -> None:
    """Conversations, runs and the OpenAI-compatible endpoints, with a token that may do everything."""
    Machine(cli).write(BOUNDS)
    (workspace / "secret.txt").write_text("s3cret\n", encoding="utf-8")
    with ScriptedModel() as model:
        other = model.base_url.replace("127.0.0.1", "localhost")
        more = ENTRY.format(name="scripted", url=model.base_url) + ENTRY.format(name="other", url=other)
        config = CONFIG.format(workspace=workspace, autonomy="full", security="", rounds=20, more=more)
        loose = '[permissions]\nallow = ["Read"]\n[limits]\ntool_calls = 90\n'
        cli.configure(config.replace('default_provider = "local"', 'default_provider = "scripted"') + loose)
        process = serve("--openai")
        token = process.token("--scope", "admin", "--scope", "openai")
        with process.client(token) as client:

            def ask(path: str, **body: Any) -> Any:
                return client.post(path, json=body)

            for wanted, says in (
                ({"profile": "permissive"}, "allows supervised at most"),
                ({"profile": "sandboxed"}, "allows supervised at most"),
                ({"provider": "other"}, "no provider has the name 'other'"),
            ):
                for path, more in (("/conversations", {}), ("/runs", {"message": "go"})):
                    refused = ask(path, **wanted, **more)
                    assert refused.status_code >= 400, (path, wanted, refused.text)
                    assert says in refused.text, (path, wanted, refused.text)
            messages = [{"role": "user", "content": "read it"}]
            refused = ask("/v1/chat/completions", model="adderclaw/other", messages=messages)
            assert refused.status_code == 404, refused.text
            assert model.requests == [], "nobody was asked"

            model.add(READS, {"text": "done"})
            assert ask("/chat", message="read it").status_code == 200
            model.add(READS, {"text": "done"})
            assert ask("/v1/chat/completions", model="adderclaw", messages=messages).status_code == 200
            model.add(READS, LISTS, LISTS)
            limits = {"tool_calls": 50, "cost_usd": 500.0}
            begun = ask("/runs", message="read it", limits=limits)
            assert begun.status_code < 300, begun.text
            run = f"/runs/{begun.json()['run_id']}"
            client.get(f"{run}/events", timeout=60)  # until it has ended
            ended = client.get(run).json()
            assert (ended["status"], "limits.tool_calls" in ended["reason"]) == ("limit", True), ended["reason"]
            receipts = client.get("/receipts").json()["receipts"]
    read = [one["status"] for one in receipts if one["tool"] == "Read"]
    assert read == ["denied"] * 3
    assert not [one for one in model.requests if b"s3cret" in one.body]
