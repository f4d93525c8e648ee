"""The contracts of the file, notebook, shell and search tools, from the outside."""

import base64
import json
import os
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_replay import verified
from tests.acceptance.test_wire_anthropic import talk
from tests.acceptance.world import World, call, text
from tests.scripted_anthropic import ScriptedMessages


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


HEAD = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
PNG = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", HEAD) + chunk(b"IDAT", zlib.compress(b"\0" * 4)) + chunk(b"IEND", b"")
CELL: dict[str, Any] = {"cell_type": "code", "id": "a", "metadata": {}, "source": ["1"], "outputs": []}
BOOK = json.dumps({"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def evaluated(world: World, tool: str, **given: Any) -> tuple[int, dict[str, Any]]:
    done = world.cli("--eval", json.dumps({"tool": tool, "input": given}))
    assert "Traceback" not in done.err
    return done.code, world.entries("tool_result")[-1]


@pytest.fixture
def filled(world: World) -> World:
    root = world.workspace
    (root / "a.txt").write_text("line1\nline2\nline3\n")
    (root / "twice.txt").write_text("same\nsame\n")
    (root / "crlf.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (root / "p.png").write_bytes(PNG)
    (root / "broken.png").write_bytes(PNG[:-6])
    (root / "n.ipynb").write_text(BOOK)
    (root / "bad.ipynb").write_text("{")
    (root / "bin").write_bytes(b"\0\1\2")
    (root / "empty").write_text("")
    (root / "odd").write_bytes(b"caf\xe9\n")
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    with open(root / "sparse", "wb") as file:
        file.truncate(2 << 30)
    (root / "out").symlink_to("/etc/hostname")
    return world


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("Read", {"file_path": "folder"}, "is a directory, not a file. Use LS"),
    ("Read", {"file_path": "pipe"}, "a pipe"),
    ("Read", {"file_path": "/dev/tty"}, "interface of the system"),
    ("Read", {"file_path": "bin"}, "is a binary file"),
    ("Read", {"file_path": "sparse"}, "is a binary file"),
    ("Read", {"file_path": "broken.png"}, "cut off"),
    ("Read", {"file_path": "nope.txt"}, "does not exist"),
    ("Edit", {"file_path": "twice.txt", "old_string": "same", "new_string": "x"}, "occurs 2 times"),
    ("Edit", {"file_path": "a.txt", "old_string": "line9", "new_string": "x"}, "not found"),
    ("Edit", {"file_path": "a.txt", "old_string": "line1", "new_string": "line1"}, "nothing to change"),
    ("Edit", {"file_path": "n.ipynb", "old_string": "1", "new_string": "2"}, "NotebookEdit"),
    ("Edit", {"file_path": "pipe", "old_string": "a", "new_string": "b"}, "a pipe"),
    ("Write", {"file_path": "out", "content": "x"}, "/etc/hostname is forbidden"),
    ("NotebookEdit", {"notebook_path": "bad.ipynb", "cell_id": "a", "new_source": "2"}, "not JSON"),
    ("NotebookEdit", {"notebook_path": "n.ipynb", "cell_id": "z", "new_source": "2"}, "There is no cell 'z'"),
    ("Bash", {"command": "exit 4"}, "Exit code 4"),
    ("Bash", {"command": "sleep 5", "timeout": 300}, "timed out after 0.3 s"),
    ("Grep", {"pattern": "("}, "regex parse error"),
    ("Glob", {"pattern": ""}, "empty"),
    ("LS", {"path": "a.txt"}, "not a directory"),
    ("TaskOutput", {"task_id": "task-1"}, "There is no background task"),
    ("TaskStop", {"task_id": "task-1"}, "There is no background task"),
]


@pytest.mark.parametrize(("tool", "given", "said"), REFUSED, ids=[f"{one[0]}-{one[2]}" for one in REFUSED])
def test_what_is_refused(filled: World, tool: str, given: dict[str, Any], said: str) -> None:
    code, result = evaluated(filled, tool, **given)
    assert code != 0
    assert result["is_error"] is True
    assert said in result["content"]


DONE: list[tuple[str, dict[str, Any], str]] = [
    ("Read", {"file_path": "a.txt", "offset": 2, "limit": 1}, "     2\tline2\n(lines 2-2 of 3 lines)"),
    ("Read", {"file_path": "empty"}, "exists but is empty"),
    ("Read", {"file_path": "odd"}, "not valid UTF-8"),
    ("Read", {"file_path": "p.png"}, "PNG image, 1 × 1 pixels"),
    ("Read", {"file_path": "n.ipynb"}, '<cell id="a" type="code">\n1\n</cell>'),
    ("Bash", {"command": "echo out; echo err >&2"}, "out\n\n--- stderr ---\nerr\n"),
    ("Bash", {"command": "grep nothing a.txt"}, ""),
    ("Bash", {"command": "sleep 9", "run_in_background": True}, "Running in the background as task-"),
    ("Glob", {"pattern": "*.ipynb"}, "n.ipynb"),
    ("Grep", {"pattern": "line[12]", "output_mode": "content"}, "a.txt:1:line1\na.txt:2:line2"),
    ("Grep", {"pattern": "LINE", "-i": True, "output_mode": "count"}, "a.txt:3"),
    ("Grep", {"pattern": "line2", "-C": 1, "output_mode": "content"}, "a.txt-1-line1\na.txt:2:line2\na.txt-3-line3"),
    ("Grep", {"pattern": "line1\\nline2", "multiline": True}, "Found 1 file\na.txt"),
    (
        "Grep",
        {"pattern": "line", "head_limit": 1, "offset": 1, "output_mode": "content"},
        "a.txt:2:line2\n(entries 2-2",
    ),
    ("Grep", {"pattern": "absent"}, "No matches found"),
    ("LS", {}, "folder/"),
]


@pytest.mark.parametrize(("tool", "given", "said"), DONE, ids=[f"{one[0]}-{number}" for number, one in enumerate(DONE)])
def test_what_is_done(filled: World, tool: str, given: dict[str, Any], said: str) -> None:
    code, result = evaluated(filled, tool, **given)
    assert (code, result["is_error"]) == (0, False), result
    assert said in result["content"]


def test_changes_keep_what_they_do_not_change(filled: World) -> None:
    root = filled.workspace
    os.chmod(root / "crlf.txt", 0o750)
    assert evaluated(filled, "Edit", file_path="crlf.txt", old_string="one\ntwo", new_string="1\n2")[0] == 0
    assert (root / "crlf.txt").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n"
    assert (root / "crlf.txt").stat().st_mode & 0o777 == 0o750
    assert evaluated(filled, "Edit", file_path="twice.txt", old_string="same", new_string="x", replace_all=True)[0] == 0
    assert (root / "twice.txt").read_text() == "x\nx\n"
    assert evaluated(filled, "NotebookEdit", notebook_path="n.ipynb", cell_id="a", new_source="2")[0] == 0
    assert json.loads((root / "n.ipynb").read_text())["cells"][0]["source"] == ["2"]


def test_an_edit_needs_a_read_and_a_file_that_stayed_as_it_was(filled: World) -> None:
    edit = call("Edit", file_path="a.txt", old_string="line1", new_string="x")
    change = call("Bash", command="touch b; cp twice.txt a.txt")
    filled.configure(autonomy="full")
    filled.script(edit, call("Read", file_path="a.txt"), change, edit, text("done"))
    assert filled.agent("go").code == 0
    results = [entry["content"] for entry in filled.entries("tool_result")]
    assert "has not been read yet" in results[0]
    assert "modified since it was read" in results[3]
    assert (filled.workspace / "a.txt").read_text() == "same\nsame\n"


def test_what_is_cut_can_be_read(filled: World) -> None:
    filled.configure(autonomy="full")
    filled.script(call("Bash", command="seq 20000"), text("{{last_result}}"))
    said = filled.agent("count").out
    path = said.split("; Read ")[1].split(" has all of it")[0]
    assert Path(path).read_text() == "".join(f"{number}\n" for number in range(1, 20_001))
    assert Path(path).is_relative_to(filled.cli.data)
    read = call("Read", file_path=path, offset=12_345, limit=1)
    before = (call("Bash", command="seq 20000"), text("shown"))
    filled.script(*before, read, call("Write", file_path=path, content="x"), text("done"))
    filled.agent("again", "--continue")
    denied, shown = (entry["content"] for entry in reversed(filled.entries("tool_result")[-2:]))
    assert "12345\t12345" in shown
    assert "belongs to AdderClaw itself" in denied


# ------------------------------------------------------------------ in the background


def test_the_model_hears_once_that_a_background_task_ended(world: World) -> None:
    world.configure(autonomy="full")
    begin = call("Bash", command="echo hello", run_in_background=True)
    world.script(begin, call("Bash", command="sleep 1"), call("Bash", command="true"), text("{{last_user}}"))
    done = world.agent("go")
    assert "(echo hello) completed: exit code 0." in done.out, done.err
    (told,) = world.entries("attachment")
    assert told["attachment"]["status"] == "completed"
    assert world.rows("SELECT status, told FROM background_tasks") == [("completed", 1)]


def test_a_server_of_one_call_answers_in_the_next_and_ends_with_the_session(world: World) -> None:
    (world.workspace / "serve.py").write_text(
        "import socket\nserver = socket.create_server(('127.0.0.1', 8123))\n"
        "while True:\n    peer = server.accept()[0]\n    peer.sendall(b'here I am')\n    peer.close()\n"
    )
    (world.workspace / "ask.py").write_text(
        "import socket, time\nfor _ in range(1200):\n    try:\n"
        "        print(socket.create_connection(('127.0.0.1', 8123)).recv(99))\n        break\n"
        "    except OSError:\n        time.sleep(0.05)\n"
    )
    world.configure(autonomy="full")
    serve = call("Bash", command="python3 serve.py", run_in_background=True)
    world.script(serve, call("Bash", command="python3 ask.py"), text("{{last_result}}"))
    done = world.agent("go")
    assert "here I am" in done.out, done.err
    assert not [one for one in Path("/proc").glob("[0-9]*/cmdline") if b"serve.py" in _read(one)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_killed_session_tells_of_its_lost_tasks_when_it_goes_on(world: World) -> None:
    world.configure(autonomy="full")
    begin = call("Bash", command="sleep 300", run_in_background=True)
    world.script(begin, {"delay_ms": 60_000}, text("never"))
    process = world.cli.start("agent", "-m", "go")
    for _ in range(1200):
        if world.receipts_so_far():
            break
        time.sleep(0.05)
    process.kill()
    process.communicate()
    world.script(begin, text("I see"))
    assert world.agent("what now?", "--continue").code == 0
    (told,) = world.entries("attachment")
    assert "(sleep 300) ended before this session was resumed: lost" in told["attachment"]["content"]
    world.script(begin, text("I see"), text("again"))
    assert world.agent("and now?", "--continue").code == 0
    assert len(world.entries("attachment")) == 1, "once"


# ------------------------------------------------------------------ media


def test_an_image_is_kept_sent_and_resumed(world: World) -> None:
    (world.workspace / "p.png").write_bytes(PNG)
    step = {"tool_calls": [{"name": "Read", "input": {"file_path": "p.png"}, "id": "toolu_1"}]}
    with ScriptedMessages([step, {"text": "red"}, {"text": "still red"}]) as model:
        assert talk(world, model, "what colour?").code == 0
        assert talk(world, model, "sure?", "--continue").code == 0
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    for request in model.requests[1:]:
        (result,) = request.messages[2]["content"]
        assert [part["type"] for part in result["content"]] == ["text", "image"]
        assert result["content"][1]["source"] == source
    assert source["data"] not in json.dumps(world.entries("tool_result")), (
        "entries hold the seed's closed set of blocks"
    )
    assert world.rows("SELECT count(*) FROM opaque_blocks") == [(1,)]
    verified(world)
