"""Editors by the Agent Client Protocol: the protocol's own SDK drives the installed program, and so do bad clients."""

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from acp import PROTOCOL_VERSION, RequestError, helpers, schema, spawn_agent_process
from acp.client.connection import ClientSideConnection

from tests.acceptance.world import World, call, text
from tests.program import PROGRAM
from tests.scripted import ScriptedModel

type Json = dict[str, Any]
INFO = schema.Implementation(name="zed", title="Zed", version="1.2")
CAN = schema.ClientCapabilities(
    fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
)
PNG = b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 16).decode()
ACPX = Path(__file__).resolve().parents[2] / ".cache" / "acp" / "node_modules" / "acpx" / "dist" / "cli.js"


class Editor:
    """A client: keeps what it is told, answers by `answers`, and fails on what it must never be asked."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Json]] = []
        self.asked: list[tuple[Json, list[Json]]] = []
        self.answers: list[Any] = []
        """The id of an option; or a future that is awaited for one."""
        self.buffers: dict[str, str] = {}
        self.read: list[str] = []
        self.question = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        del conn

    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        self.told.append((session_id, update.model_dump(mode="json", by_alias=True, exclude_none=True)))

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_more: Any) -> Any:
        del session_id
        dumped = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in (tool_call, *options)]
        self.asked.append((dumped[0], dumped[1:]))
        self.question.set()
        given: Any = self.answers.pop(0)
        answer: str | None = await given if asyncio.isfuture(given) else given
        if answer is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=answer))

    async def read_text_file(self, session_id: str, path: str, **_more: Any) -> Any:
        del session_id
        self.read.append(path)
        if path not in self.buffers:
            raise RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=self.buffers[path])

    async def write_text_file(self, *_given: Any, **_more: Any) -> Any:
        raise AssertionError("what is written goes through the program's own door")

    async def create_terminal(self, *_given: Any, **_more: Any) -> Any:
        raise AssertionError("a command runs in the sandbox, never in the editor's terminal")

    terminal_output = release_terminal = wait_for_terminal_exit = kill_terminal = create_terminal

    async def create_elicitation(self, *_given: Any, **_more: Any) -> Any:
        raise AssertionError("nothing is asked so")

    async def complete_elicitation(self, *_given: Any, **_more: Any) -> None: ...

    async def ext_method(self, method: str, params: Json) -> Json:
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: Json) -> None: ...

    def since(self, mark: int, kind: str) -> list[Json]:
        return [update for _, update in self.told[mark:] if update["sessionUpdate"] == kind]

    def said(self, mark: int = 0, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.since(mark, kind))


def on(world: World, model: ScriptedModel, **more: str) -> None:
    entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
    entries = "".join(f"[providers.models.{name}]\n{entry}" for name in ("mine", "other"))
    world.configure(more=entries + more.get("more", ""), security=more.get("security", ""))
    config = world.cli.data / "config.toml"
    config.write_text(config.read_text().replace('default_provider = "local"', 'default_provider = "mine"'))


@asynccontextmanager
async def connected(world: World, editor: Editor) -> AsyncGenerator[tuple[ClientSideConnection, Any]]:
    """The installed program at the other end of the SDK's own client; it ends by itself when its stdin does."""
    errors = world.workspace.parent / "stderr"
    with errors.open("ab") as stderr:
        async with (
            asyncio.timeout(120),
            spawn_agent_process(
                cast(Any, editor),
                str(PROGRAM),
                "acp",
                env=world.cli.env,
                cwd=world.workspace,
                transport_kwargs={"stderr": stderr, "limit": 1 << 26, "shutdown_timeout": 20},
                use_unstable_protocol=True,
            ) as (agent, process),
        ):
            made = await agent.initialize(PROTOCOL_VERSION, client_capabilities=CAN, client_info=INFO)
            assert made.protocol_version == PROTOCOL_VERSION
            yield agent, process


def hold(world: World, work: Callable[[ClientSideConnection, Editor], Awaitable[None]]) -> Editor:
    async def run() -> Editor:
        editor = Editor()
        async with connected(world, editor) as (agent, process):
            await work(agent, editor)
        assert process.returncode == 0
        return editor

    return asyncio.run(run())


async def refused(work: Awaitable[Any]) -> tuple[int, str]:
    with pytest.raises(RequestError) as found:
        await work
    return found.value.code, str(found.value)


def until(seen: Callable[[], bool]) -> None:
    while not seen():
        time.sleep(0.01)


def words(*texts: str) -> list[Any]:
    return [helpers.text_block(one) for one in texts]


WRITE = call("Write", file_path="made.txt", content="hi\n")


def test_an_editor_approves_an_edit_rejects_one_and_cancels(world: World) -> None:
    """An approval, an edit, a rejection, a cancel while a question is open and one while the model thinks."""
    edit = call("Edit", file_path="made.txt", old_string="hi", new_string="hello")
    steps = [WRITE, text("Made."), edit, text("Left."), edit, {"hang": 60}, text("Still here."), edit, text("Done.")]

    async def work(agent: ClientSideConnection, editor: Editor) -> None:
        session = (await agent.new_session(str(world.workspace), mcp_servers=[])).session_id
        editor.answers = ["allow-once"]
        done = await agent.prompt(session, words("make it"))
        assert done.stop_reason == "end_turn"
        assert done.usage is not None
        assert editor.said() == "Made."
        about, options = editor.asked[0]
        assert (about["kind"], about["locations"]) == ("edit", [{"path": str(world.workspace / "made.txt")}])
        assert next(one for one in about["content"] if one["type"] == "diff")["newText"] == "hi\n"
        assert [one["kind"] for one in options] == ["allow_once", "allow_always", "reject_once"]
        assert "made.txt may be written over, without a question" in options[1]["name"]
        statuses = [one["status"] for one in [*editor.since(0, "tool_call"), *editor.since(0, "tool_call_update")]]
        assert statuses[0] == "pending"
        assert statuses[-1] == "completed"
        assert (world.workspace / "made.txt").read_text() == "hi\n"

        editor.answers = ["reject-once"]
        assert (await agent.prompt(session, words("change it"))).stop_reason == "end_turn"
        assert (world.workspace / "made.txt").read_text() == "hi\n"

        editor.answers, editor.question = [asyncio.get_running_loop().create_future()], asyncio.Event()
        prompt = asyncio.ensure_future(agent.prompt(session, words("change it")))
        await editor.question.wait()
        assert await refused(agent.prompt(session, words("me too"))) == (
            -32602,
            "a prompt of this session is being answered: wait for its end, or cancel it",
        )
        await agent.cancel(session)
        assert (await prompt).stop_reason == "cancelled"
        late = editor.answers
        assert late == []

        mark = len(model.requests)
        prompt = asyncio.ensure_future(agent.prompt(session, words("think")))
        await asyncio.to_thread(until, lambda: len(model.requests) > mark)
        await agent.cancel(session)
        await agent.cancel(session)
        assert (await prompt).stop_reason == "cancelled"
        mark = len(editor.told)
        assert (await agent.prompt(session, words("are you there?"))).stop_reason == "end_turn"
        assert editor.said(mark) == "Still here."

        await agent.set_session_mode(mode_id="acceptEdits", session_id=session)
        mark = len(editor.told)
        assert (await agent.prompt(session, words("change it now"))).stop_reason == "end_turn"
        shown = editor.since(mark, "tool_call_update")[-1]["content"][0]
        assert (shown["type"], shown["oldText"], shown["newText"]) == ("diff", "hi\n", "hello\n")

    with ScriptedModel(steps) as model:
        on(world, model)
        hold(world, work)
    assert (world.workspace / "made.txt").read_text() == "hello\n"
    receipts = [(one["status"], one["decision"].get("answered_by", "")) for one in world.receipts()]
    assert [status for status, _ in receipts] == ["allowed", "denied", "denied", "allowed"]
    assert all("acp: Zed 1.2" in who for _, who in receipts[:2])
    assert "Traceback" not in (world.workspace.parent / "stderr").read_text()
