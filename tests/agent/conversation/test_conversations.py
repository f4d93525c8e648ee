"""Conversations in one process: who may steer and answer them, what followers see, what outlives whom."""

import asyncio
import contextlib
import json
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.agent.conversation.updates import Update
from adderclaw.agent.conversation.watched import Bounds, Full, NotYours
from adderclaw.agent.tool_call.approvals import AlreadyAnswered
from adderclaw.agent.view.items import Call, Words
from adderclaw.core.errors import SessionInUse, UsageError
from adderclaw.core.questions import Answer
from adderclaw.core.types import Json
from tests.acceptance.world import World, call, text
from tests.agent.conversation.conftest import hosted

YES, NO = Answer(approved=True, by="operator"), Answer(approved=False, by="operator")
RESULTS = "SELECT payload_json FROM transcript_entries WHERE entry_type = 'tool_result' ORDER BY id"
WRITE = call("Write", file_path="a.txt", content="one\n")


async def until(follower: AsyncIterator[Update], wanted: Callable[[Update], bool]) -> list[Update]:
    """What is followed up to the first update that is wanted."""
    seen: list[Update] = []
    async with asyncio.timeout(60):
        async for update in follower:
            seen.append(update)
            if wanted(update):
                return seen
    raise AssertionError(f"it ended after {seen}")


async def asked(one: Conversation) -> str:
    """The id of what it asks next."""
    seen = await until(one.follow(0), lambda update: update.kind == "question")
    return str(seen[-1].data.id)


def test_only_who_opened_it_or_is_granted_steers_and_answers(world: World) -> None:
    world.script(WRITE, text("done"))

    async def main() -> None:
        here = hosted(world)
        one = await here.open("ann")
        with pytest.raises(NotYours):
            await one.send("hi", client="bob")
        assert not one.interrupt("ann"), "nothing is to be interrupted"
        turn = await one.send("hi", client="ann")
        id = await asked(one)
        assert one.state == "asking"
        for refused in (lambda: one.answer(id, YES, "bob"), lambda: one.interrupt("bob")):
            with pytest.raises(NotYours):
                refused()
        with pytest.raises(NotYours):
            await here.open("bob", resume=one.id)
        assert not one.answer("approval-none", YES, "ann")
        assert one.answer(id, YES, "bob", granted=True)
        with pytest.raises(AlreadyAnswered):
            one.answer(id, NO, "ann")
        assert (await one.ended(turn)).outcome == "completed"
        await here.close()

    asyncio.run(main())
    (receipt,) = world.receipts()
    assert receipt["decision"]["answered_by"].endswith("(http: bob)"), "the receipt names who answered"
    assert (world.workspace / "a.txt").read_text() == "one\n"


def test_followers_see_one_order_and_come_back_where_they_were(world: World) -> None:
    world.script({**call("Read", file_path="a.txt"), "text": "I look."}, text("It says one."))
    (world.workspace / "a.txt").write_text("one\n")

    async def main() -> list[Update]:
        here = hosted(world)
        one = await here.open("ann")
        await one.ended(await one.send("what is in it?", client="ann"))
        last = one.updates.last
        whole = await until(one.follow(0), lambda update: update.id == last)
        middle = whole[len(whole) // 2].id
        again = await until(one.follow(middle), lambda update: update.id == last)
        assert [update.id for update in again] == list(range(middle + 1, last + 1))
        (stale, *_) = await until(one.follow(7), lambda update: True)
        assert stale.kind == "dropped", "an id of long ago is not taken for one of now"
        (ahead,) = await until(one.follow(last + 10**6), lambda update: True)
        assert ahead.kind == "dropped"
        await here.close()
        return whole

    seen = asyncio.run(main())
    items = [update.data for update in seen if update.kind == "item"]
    said = [item.text for item in items if isinstance(item, Words)]
    assert said == ["what is in it?", "I look.", "It says one."]
    first_call = next(place for place, item in enumerate(items) if isinstance(item, Call))
    assert [item.text for item in items[:first_call]] == said[:2], "the words before a call come before it"
    assert [item.state for item in items if isinstance(item, Call)][-1] == "ran"
    ended: Json = next(update.data for update in seen if update.kind == "ended")
    assert (ended["outcome"], ended["answer"]) == ("completed", "It says one.")


def test_who_never_reads_keeps_nothing_and_slows_nobody(world: World) -> None:
    world.script(*(call("Read", file_path="a.txt", offset=number) for number in range(1, 10)), text("done"))
    (world.workspace / "a.txt").write_text("line\n" * 20)

    async def main() -> None:
        here = hosted(world, bounds=Bounds(updates=5))
        one = await here.open("ann")
        idle = one.follow()
        first = asyncio.ensure_future(anext(idle))
        turn = await one.send("read", client="ann")
        first_update = await first
        assert (await one.ended(turn)).outcome == "completed"
        dropped = await anext(idle)
        missed = dropped.id - first_update.id
        assert (dropped.kind, dropped.data["missed"]) == ("dropped", missed)
        rest = await until(idle, lambda update: update.id == one.updates.last)
        assert [update.id for update in rest] == list(range(dropped.id + 1, one.updates.last + 1))
        assert len(rest) <= 5
        await here.close()

    asyncio.run(main())


def test_an_interrupted_turn_leaves_the_next_message_its_turn(world: World) -> None:
    world.script(WRITE, text("second"))

    async def main() -> None:
        here = hosted(world, bounds=Bounds(queued=2))
        one = await here.open("ann")
        first = await one.send("one", client="ann")
        await asked(one)
        second, third = await one.send("two", client="ann"), await one.send("three", client="ann")
        with pytest.raises(Full):
            await one.send("four", client="ann")
        assert one.interrupt("ann", turn=third), "one that waits is taken back"
        assert one.interrupt("ann")
        ended = await one.ended(first)
        assert (ended.outcome, ended.reason) == ("stopped", "interrupted by ann")
        assert (await one.ended(third)).outcome == "stopped"
        assert (await one.ended(second)).answer == "second"
        with pytest.raises(UsageError):
            await one.ended("turn-none")
        await here.close()
        assert one.state == "ended"
        with pytest.raises(UsageError):
            await one.send("five", client="ann")

    asyncio.run(main())


def test_an_idle_conversation_sleeps_and_the_next_message_wakes_it(world: World) -> None:
    world.script(text("first"), text("second"))

    async def main() -> None:
        here = hosted(world)
        one = await here.open("ann")
        assert (await one.ended(await one.send("a", client="ann"))).answer == "first"
        await one.sleep()
        assert one.run is None
        assert one.state == "idle"
        assert (await one.ended(await one.send("b", client="ann"))).answer == "second"
        await here.close()
        later = hosted(world)
        again = await later.open("ann", resume=one.id)
        assert again.id == one.id, "who opened it goes on with it in another server, too"
        copy = await later.open("ann", resume=one.id, fork=True)
        assert copy.id != one.id
        await later.close()

    asyncio.run(main())
    assert {row[0] for row in world.rows("SELECT outcome FROM runs")} == {"completed"}


def _held() -> tuple[int, list[str]]:
    """How many descriptors this process has open, and the processes beneath it."""
    below: list[str] = []
    todo = [str(os.getpid())]
    while todo:
        for task in Path(f"/proc/{todo.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # it ended meanwhile
                below += (found := task.read_text().split())
                todo += found
    return len(os.listdir("/proc/self/fd")), below


def test_an_idle_conversation_releases_its_sandbox_and_loses_nothing(world: World, needs: Callable[[str], str]) -> None:
    """Soon after a command its processes and descriptors are gone, unless a file of the session's own /tmp would be."""
    needs("bwrap")
    world.configure(autonomy="full")
    commands = ("echo one", "echo two", "echo kept > /tmp/kept", "cat /tmp/kept")
    world.script(*(step for one in commands for step in (call("Bash", command=one), text("done"))))

    async def main() -> None:
        here = hosted(world, rest=0.2)
        one = await here.open("ann")
        before = _held()
        for command in commands:
            assert (await one.ended(await one.send(command, client="ann"))).outcome == "completed"
            keeps = "/tmp" in command
            async with asyncio.timeout(30):
                while not keeps and _held() != before:  # noqa: ASYNC110 - nothing tells that a process has ended
                    await asyncio.sleep(0.02)
            if keeps:
                await asyncio.sleep(0.6)
                held = _held()
                assert held[0] > before[0]
                assert len(held[1]) > len(before[1])
            assert one.run is not None, "it is still awake"
        await here.close()

    asyncio.run(main())
    results = [json.loads(row[0])["content"] for row in world.rows(RESULTS)]
    assert results == ["one\n", "two\n", results[2], "kept\n"]


def test_conversations_of_one_process_share_nothing_that_counts(world: World) -> None:
    """Folder, profile, model's script, directory of the shell and outcome are each conversation's own."""
    world.configure(autonomy="full")
    world.script(call("Bash", command="mkdir -p sub && cd sub"), call("Bash", command="pwd > here.txt"), text("done"))
    before, variables = os.getcwd(), dict(os.environ)
    folders = [world.workspace.parent / name for name in ("first", "second", "third")]
    for folder in folders:
        folder.mkdir()

    async def main() -> list[str]:
        here = hosted(world)
        profiles = (None, "readonly", None)
        ones = [
            await here.open(f"client-{at}", workspace=str(folder), profile=profiles[at])
            for at, folder in enumerate(folders)
        ]
        turns = [await one.send("go", client=one.client) for one in ones]
        results = await asyncio.gather(*(one.ended(turn) for one, turn in zip(ones, turns, strict=True)))
        await here.close()
        return [result.outcome for result in results]

    assert asyncio.run(main()) == ["completed", "denied", "completed"]
    assert (folders[0] / "sub" / "here.txt").read_text().strip() == str(folders[0] / "sub")
    assert (folders[2] / "sub" / "here.txt").read_text().strip() == str(folders[2] / "sub")
    assert list(folders[1].iterdir()) == []
    assert (os.getcwd(), dict(os.environ)) == (before, variables)
    assert sorted(row[0] for row in world.rows("SELECT outcome FROM runs")) == ["completed", "completed", "denied"]


def test_one_that_is_closed_while_somebody_wants_it_is_opened_again(world: World) -> None:
    """It ends for a while: whoever opens it again meanwhile waits for that, and is not told that it is in use."""
    world.configure(more='[hooks]\nSessionEnd = [{hooks = [{type = "command", command = "sleep 0.5"}]}]\n')
    world.script(text("first"), text("second"))

    async def main() -> None:
        here = hosted(world)
        one = await here.open("ann")
        await one.ended(await one.send("hi", client="ann"))
        closing = asyncio.ensure_future(one.close())
        await asyncio.sleep(0)
        assert one.state == "ended"
        again = await here.open("ann", resume=one.id)
        assert again is not one
        assert (await again.ended(await again.send("and?", client="ann"))).outcome == "completed"
        await closing
        await here.close()

    asyncio.run(main())


def test_one_that_is_closed_while_it_wakes_takes_no_message_and_leaves_no_run(world: World) -> None:
    world.script(text("first"), text("second"))

    async def main() -> None:
        here = hosted(world)
        one = await here.open("ann")
        await one.ended(await one.send("hi", client="ann"))
        for pauses in range(4):  # before its run is opened, and after
            assert await one.sleep() or one.run is None
            sending = asyncio.ensure_future(one.send("and?", client="ann"))
            for _ in range(pauses):
                await asyncio.sleep(0)
            await one.close()
            try:
                async with asyncio.timeout(30):
                    result = await one.ended(await sending)
                    assert result.outcome == "stopped"
            except UsageError:
                pass  # it is closed
            await asyncio.sleep(0.05)
            assert one.run is None
            one = await here.open("ann", resume=one.id)
        await here.close()

    asyncio.run(main())


def test_whoever_looks_while_it_wakes_finds_the_same_one(world: World) -> None:
    """It was let go of while it slept; waking takes its time, and to wake it twice would be two runs of one session."""
    world.script(*[text(f"answer {at}") for at in range(9)])

    async def main() -> None:
        here = hosted(world)
        ones = [await here.open("ann") for _ in range(3)]
        for one in ones:
            await one.ended(await one.send("hi", client="ann"))
            await one.close()
        for asleep in ones:
            wakes = here.find(asleep.id)
            sending = asyncio.ensure_future(wakes.send("and?", client="ann"))
            for other in ones:  # others look at others meanwhile: what nobody uses is let go of
                await asyncio.sleep(0)
                here.find(other.id)
            follower = here.find(asleep.id).follow(0)
            resumed, turn = await here.open("ann", resume=asleep.id), await sending
            assert resumed is wakes is here.find(asleep.id)
            await until(follower, lambda update, turn=turn: update.kind == "ended" and update.data["turn"] == turn)
            assert (await wakes.ended(turn)).outcome == "completed"
        await here.close()

    asyncio.run(main())


def test_it_keeps_what_its_client_chose(world: World) -> None:
    """After a sleep, in another server, and in a copy: a conversation that only reads does not begin to write."""
    world.script(*[WRITE, text("done")] * 5)

    async def main() -> list[str]:
        here, outcomes = hosted(world), list[str]()

        async def turn(one: Conversation) -> None:
            outcomes.append((await one.ended(await one.send("write it", client="ann"))).outcome)
            await one.close()

        one = await here.open("ann", profile="readonly", model="other")
        await turn(one)
        await turn(here.find(one.id))
        await turn(await here.open("ann", resume=one.id))
        await here.close()
        here = hosted(world)
        copy = await here.open("ann", resume=one.id, fork=True)
        assert copy.run is not None
        assert copy.run.session.model == "other"
        await turn(copy)
        await turn(here.find(copy.id))
        await here.close()
        return outcomes

    assert asyncio.run(main()) == ["denied"] * 5
    assert not (world.workspace / "a.txt").exists()


def test_a_row_of_the_database_loosens_no_conversation(world: World) -> None:
    world.configure(autonomy="readonly")
    world.script(WRITE, text("done"))

    async def main() -> str:
        here = hosted(world)
        one = await here.open("ann", profile="readonly")
        await one.close()
        with closing(sqlite3.connect(world.database)) as store, store:
            done = store.execute("UPDATE state SET value = 'sandboxed' WHERE value = 'readonly'")
            assert done.rowcount == 1
        one = here.find(one.id)
        outcome = (await one.ended(await one.send("write it", client="ann"))).outcome
        await here.close()
        return outcome

    assert asyncio.run(main()) == "denied"
    assert not (world.workspace / "a.txt").exists()


def test_another_choice_for_one_that_is_awake_is_refused(world: World) -> None:
    """It would not count, and nobody would say so."""
    world.script(text("done"))

    async def main() -> None:
        here = hosted(world)
        one = await here.open("ann", profile="supervised")
        assert await here.open("ann", resume=one.id, profile="supervised") is one
        with pytest.raises(SessionInUse, match="readonly"):
            await here.open("ann", resume=one.id, profile="readonly")
        await one.close()
        again = await here.open("ann", resume=one.id, profile="readonly", model="other")
        assert again.options.profile == "readonly"
        await again.close()
        again = await here.open("ann", resume=one.id, provider="local")
        assert again.chosen == {"profile": "readonly", "provider": "local"}, "the model was one of another provider"
        await again.close()
        assert here.find(one.id).chosen == again.chosen
        await here.close()

    asyncio.run(main())


def test_a_looser_profile_is_not_handed_on(world: World) -> None:
    """Who asked for it was granted it; who makes a copy, or goes on with it later, was not."""
    world.configure(autonomy="readonly")
    world.script(text("done"))

    async def main() -> None:
        here = hosted(world)
        one = await here.open("ann", profile="sandboxed")
        assert one.run is not None
        assert one.run.runtime.options.profile == "sandboxed"
        copy = await here.open("bob", resume=one.id, fork=True, granted=True)
        await one.sleep()
        again = await here.open("bob", resume=one.id, granted=True)
        assert again is one
        for made in (copy, again):
            assert made.run is not None
            assert made.run.runtime.options.profile is None
        await here.close()

    asyncio.run(main())


def test_no_more_are_open_than_may_be_also_where_many_begin_at_once(world: World) -> None:
    world.script(text("done"))

    async def main() -> None:
        here = hosted(world, bounds=Bounds(awake=3))
        idle = [await here.open("ann") for _ in range(3)]
        made = await asyncio.gather(*(here.open("bob") for _ in range(9)))
        assert sum(one.run is not None for one in (*idle, *made)) == 3
        await here.close()

    asyncio.run(main())
