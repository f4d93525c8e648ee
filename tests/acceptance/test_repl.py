"""The REPL, by its lines: what it answers, what it asks, how it ends."""

from tests.acceptance.world import World, call, text


def talk(world: World, *lines: str) -> tuple[str, str]:
    done = world.cli.typed("agent", stdin="".join(f"{line}\n" for line in lines))
    assert done.code == 0, done.err
    return done.out, done.err


def test_a_conversation_of_two_turns(world: World) -> None:
    world.script(text("first"), text("second"))
    out, _ = talk(world, "hello", "and again", "/exit")
    assert out == "first\nsecond\n"
    assert len(world.rows("SELECT * FROM conversations")) == 1
    assert len(world.entries("user")) == 2


def test_the_end_of_the_input_leaves(world: World) -> None:
    world.script(text("first"))
    assert talk(world, "hello")[0] == "first\n"
    assert world.rows("SELECT kind, outcome FROM runs") == [("repl", "completed")]


def test_tools_policy_and_help(world: World) -> None:
    out, _ = talk(world, "/tools", "/policy", "/help", "/exit")
    assert "MemorySearch" in out
    assert "autonomy: supervised" in out
    assert str(world.workspace) in out
    for name in ("/exit", "/tools", "/memory", "/policy", "/model", "/compact"):
        assert name in out


def test_memory_is_searched(world: World) -> None:
    world.script(text("The Aardvark adapter is ready."))
    world.agent("status?")
    ((conversation,),) = world.rows("SELECT id FROM conversations")
    out, _ = talk(world, "/memory aardvark", "/memory zebra", "/exit")
    assert conversation in out
    assert "nothing found for 'zebra'" in out


def test_an_unknown_command_is_said_and_the_conversation_goes_on(world: World) -> None:
    world.script(text("still here"))
    out, err = talk(world, "/polcy", "hello", "/exit")
    assert "there is no command /polcy" in err
    assert out == "still here\n"


def test_an_approval_is_read_from_the_same_lines(world: World) -> None:
    world.script(call("file_write", path="a.txt", content="x"), text("written"))
    out, err = talk(world, "write it", "y", "/exit")
    assert "Approve? [y/N]" in err
    assert out == "written\n"
    assert (world.workspace / "a.txt").read_text() == "x"


def test_at_the_limit_of_rounds_the_person_decides(world: World) -> None:
    world.configure(rounds=1)
    world.script(call("time"), call("time"), text("done after all"))
    out, err = talk(world, "go", "y", "/exit")
    assert "Continue? [y/N]" in err
    assert "done after all" in out


def test_a_directory_is_added_by_both_its_names_and_never_one_that_holds_our_own(world: World) -> None:
    real, link = world.workspace.with_name("real"), world.workspace.with_name("link")
    (real / "inner").mkdir(parents=True)
    (real / "a.txt").write_text("the words of a")
    link.symlink_to(real)
    world.configure("full")
    home = world.cli.data
    world.script(call("Read", file_path=f"{link}/a.txt"), call("Read", file_path=f"{real}/a.txt"), text("done"))
    refused = ["/", str(home), str(home.parent), f"{home}/../{home.name}", "nowhere", ""]
    out, err = talk(world, *(f"/add-dir {one}" for one in refused), f"/add-dir {link}", "read it", "/exit")
    assert err.count("holds AdderClaw's own files") == 4
    assert err.count("is not a directory") == 2
    assert out.count("is now part of this session") == 1
    assert str(real) in out, "the real one is said"
    for result in world.entries("tool_result"):
        assert "the words of a" in result["content"]
    # `link/inner/..` is the real folder, whatever lies beside the link
    world.script(call("Read", file_path=str(world.workspace.with_name("beside.txt"))), text("done"))
    world.workspace.with_name("beside.txt").write_text("not yours")
    deep = world.workspace.with_name("deep")
    deep.symlink_to(real / "inner")
    talk(world, f"/add-dir {deep}/..", "read it", "/exit")
    assert "not yours" not in world.entries("tool_result")[-1]["content"]


def test_a_failed_turn_does_not_end_the_conversation(world: World) -> None:
    world.script({"error": {"kind": "authentication_failed", "message": "no key"}}, text("better now"))
    out, err = talk(world, "hello", "again", "/exit")
    assert "[error]" in err
    assert "better now" in out


def test_status_tells_the_class_of_a_credential_and_nothing_of_it(world: World) -> None:
    entry = '[providers.models.far]\nkind = "anthropic"\nmodel = "claude-sonnet-4-5"\napi_key_env = "FAR_KEY"\n'
    world.configure(more=entry)
    world.cli.env["FAR_KEY"] = "canary-3b9d51aa07"
    out, err = talk(world, "/model far", "/status", "/login", "/exit")
    assert "usable: environment FAR_KEY" in out or "FAR_KEY" in out
    assert "canary" not in out + err
    assert "auth.oauth" in err
