"""As many child sessions at once as may: who waits for room gets it, who does not is told."""

import asyncio
from pathlib import Path

import pytest

from adderclaw.agent.run import Options, open_run, start
from adderclaw.agent.tool_call.approvals import NoOperator
from adderclaw.core.errors import LimitError
from adderclaw.core.events import EventRecord
from adderclaw.core.host import ChildRequest
from tests.scripted import ScriptedModel

CONFIG = """
workspace_dir = "{root}"
default_provider = "here"
[subagents]
max_concurrent = {most}
[providers.models.here]
kind = "openai-compatible"
base_url = "{url}"
model = "m"
"""


def test_a_child_that_waits_begins_when_another_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADDERCLAW_HOME", str(tmp_path / "home"))
    config, most = tmp_path / "config.toml", [0]
    running: set[str] = set()

    def watch(record: EventRecord) -> None:
        if record.event_type == "subagent_started":
            running.add(record.session_id)
        elif record.event_type == "subagent_finished":
            running.discard(record.session_id)
        most[0] = max(most[0], len(running))

    async def scene(model: ScriptedModel) -> None:
        runtime = start(Options(config_file=str(config), workspace=str(tmp_path)))
        runtime.bus.add_sink("watch", watch)
        with open_run(runtime, NoOperator(waits=False), kind="message") as run:
            spawn = run.session.host.spawn

            async def child(prompt: str, *, waits: bool) -> str:
                return (await spawn(ChildRequest(prompt=prompt, waits_for_slot=waits))).answer

            slow = asyncio.ensure_future(child("slow", waits=False))
            async with asyncio.timeout(20):
                while not model.requests:  # noqa: ASYNC110 - it is in another thread
                    await asyncio.sleep(0.01)
            with pytest.raises(LimitError, match="wait for one of them"):
                await child("refused", waits=False)
            waiting = [asyncio.ensure_future(child("quick", waits=True)) for _ in range(4)]
            gives_up = asyncio.ensure_future(child("quick", waits=True))
            await asyncio.sleep(0)
            gives_up.cancel()
            slow.cancel()
            assert await asyncio.gather(*waiting) == ["quick one"] * 4
            await run.close()
        assert (most[0], runtime.children) == (1, 0)

    with ScriptedModel(aside={"slow": {"hang": 30}, "quick": {"text": "quick one"}}) as model:
        config.write_text(CONFIG.format(root=tmp_path, url=model.base_url, most=1))
        asyncio.run(asyncio.wait_for(scene(model), 30))


def test_where_none_may_run_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADDERCLAW_HOME", str(tmp_path / "home"))
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.format(root=tmp_path, url="http://127.0.0.1:9", most=0))

    async def scene() -> None:
        runtime = start(Options(config_file=str(config), workspace=str(tmp_path)))
        with open_run(runtime, NoOperator(waits=False), kind="message") as run:
            with pytest.raises(LimitError, match="0 subagents run already"):
                await run.session.host.spawn(ChildRequest(prompt="x", waits_for_slot=True))
            await run.close()

    asyncio.run(asyncio.wait_for(scene(), 30))
