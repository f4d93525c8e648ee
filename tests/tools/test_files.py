"""Read, Write and Edit: what is refused, what is told, and what is on the disk afterwards."""

import errno
import os
from pathlib import Path

import pytest

from adderclaw.tools import paths, text
from tests.tools.conftest import Bench

UNREAD = "File has not been read yet. Read it first before writing to it."
CHANGED = "File has been modified since it was read. Read it again before changing it."

# ------------------------------------------------------------------ Read: refusals


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("b.txt", "does not exist. Did you mean a.txt?"),
        ("nowhere/at/all", "does not exist."),
        ("sub", "is a directory, not a file. Use LS to list it."),
        (".", "is a directory"),
        ("a.txt/b", "a part of it is a file"),
    ],
)
def test_what_cannot_be_read(path: str, said: str, bench: Bench) -> None:
    result = bench.call("Read", file_path=path)
    assert result.error_class == "tool_rejected"
    assert result.denial is None
    assert said in result.content


@pytest.mark.parametrize(("offset", "limit"), [(-1, 5), (1, 0), (1, -5)])
def test_a_range_that_makes_no_sense(offset: int, limit: int, bench: Bench) -> None:
    assert bench.call("Read", file_path="a.txt", offset=offset, limit=limit).error_class == "tool_rejected"


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"PK\x03\x04\0\0", "ZIP archive, 6 bytes"), (b"abc\0def", "unknown kind, 7 bytes")],
)
def test_a_binary_file_is_named_not_shown(data: bytes, kind: str, bench: Bench) -> None:
    (bench.root / "b").write_bytes(data)
    result = bench.call("Read", file_path="b")
    assert result.error_class == "tool_rejected"
    assert result.content == f"b is a binary file ({kind}); Read shows text only."
    assert bench.call("edit", path="b", old="abc", new="x").is_error
    assert (bench.root / "b").read_bytes() == data


def test_a_huge_sparse_file_is_not_loaded(bench: Bench) -> None:
    with open(bench.root / "huge", "wb") as file:
        file.truncate(200 << 20)
    assert "binary file (unknown kind, 209715200 bytes)" in bench.call("Read", file_path="huge").content
    assert "larger than 16 MiB" in bench.call("write", path="huge", content="x").content


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.EACCES, "x: permission denied by the file system."),
        (errno.EROFS, "x is on a read-only file system."),
        (errno.ENOSPC, "x was not written because the disk is full. Nothing was changed."),
        (errno.EIO, "x: Input/output error"),
    ],
)
def test_the_file_systems_own_errors(code: int, said: str) -> None:
    assert paths.explain_os_error(OSError(code, os.strerror(code), "x")) == said


# ------------------------------------------------------------------ Read


def test_a_whole_file_is_numbered_and_counted(bench: Bench) -> None:
    result = bench.call("Read", file_path=str(bench.root / "a.txt"))
    assert result.content == "     1\tline1\n     2\tline2\n     3\tline3\n(3 lines)"
    assert not result.is_error


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"", "f exists but is empty (0 lines)"),
        (b"one", "     1\tone\n(1 line)"),
        (b"\n", "     1\t\n(1 line)"),
        (b"a\r\nb\r\n", "     1\ta\n     2\tb\n(2 lines)"),
        (b"\xef\xbb\xbfa\n", "     1\ta\n(1 line)\n(the file is UTF-8 with a byte order mark)"),
        ("ä\nb".encode("utf-16"), "     1\tä\n     2\tb\n(2 lines)\n(the file is UTF-16-LE with a byte order mark)"),
        (b"caf\xe9\n", "     1\tcaf\ufffd\n(1 line)\n(some bytes are not valid UTF-8 and are shown as \ufffd)"),
        ("fine \ufffd\n".encode(), "     1\tfine \ufffd\n(1 line)"),
    ],
)
def test_every_kind_of_text(data: bytes, shown: str, bench: Bench) -> None:
    (bench.root / "f").write_bytes(data)
    assert bench.call("Read", file_path="f").content == shown


@pytest.mark.parametrize(
    ("offset", "limit", "shown"),
    [
        (2, 1, "     2\tline2\n(lines 2-2 of 3 lines)"),
        (3, 5, "     3\tline3\n(lines 3-3 of 3 lines)"),
        (0, 3, "     1\tline1\n     2\tline2\n     3\tline3\n(3 lines)"),
        (4, 5, "a.txt has 3 lines: offset 4 is past its end."),
    ],
)
def test_ranges(offset: int, limit: int, shown: str, bench: Bench) -> None:
    assert bench.call("Read", file_path="a.txt", offset=offset, limit=limit).content == shown


def test_a_long_file_is_shown_in_part_and_says_how_to_go_on(bench: Bench) -> None:
    (bench.root / "long").write_text("".join(f"{n}\n" for n in range(1, 2502)))
    shown = bench.call("Read", file_path="long").content
    assert shown.splitlines()[-2] == "  2000\t2000"
    assert "PARTIAL view: lines 1-2000 of 2501 lines. Continue with offset=2001" in shown
    assert bench.ctx.files_read == {}
    assert "(lines 2001-2501 of 2501 lines)" in bench.call("Read", file_path="long", offset=2001).content


def test_wide_lines_are_cut_and_a_view_has_its_cap(bench: Bench) -> None:
    (bench.root / "wide").write_text(("ü" * 5000 + "\n") * 100)
    shown = bench.call("Read", file_path="wide").content
    assert "ü" * 2000 + "… [line cut at 2000 characters]\n" in shown
    assert "ü" * 2001 not in shown
    assert len(shown.encode()) < 300 * 1024
    assert "PARTIAL" in shown


def test_one_endless_line(bench: Bench) -> None:
    (bench.root / "min.js").write_text("x" * (3 << 20))
    shown = bench.call("Read", file_path="min.js").content
    assert shown.endswith("\n(1 line)")
    assert len(shown) < 2200


def test_a_file_larger_than_memory_is_read_by_range(bench: Bench) -> None:
    block = b"".join(b"%09d\n" % n for n in range(100_000))
    with open(bench.root / "big", "wb") as file:
        for _ in range(20):
            file.write(block)
    shown = bench.call("Read", file_path="big", offset=1_900_001, limit=2).content
    assert shown == "1900001\t000000000\n1900002\t000000001\n(lines 1900001-1900002 of 2000000 lines)"


def test_lines_of_a_file_too_long_to_count(bench: Bench) -> None:
    path = bench.root / "big"
    path.write_bytes(b"first\n" * 2000)
    with open(path, "r+b") as file:
        file.truncate(text.SCAN_BYTES + (32 << 20))
    assert "more than 2001 lines" in bench.call("Read", file_path="big", limit=1).content


def test_aliases_read_the_same(bench: Bench) -> None:
    expected = bench.call("Read", file_path="a.txt").content
    assert {bench.call(name, path="a.txt").content for name in ("file_read", "read")} == {expected}


# ------------------------------------------------------------------ Write


def test_an_unread_file_is_not_overwritten(bench: Bench) -> None:
    assert bench.call("Write", file_path="a.txt", content="x").content == UNREAD
    bench.call("Read", file_path="a.txt", offset=2, limit=1)
    assert bench.call("Write", file_path="a.txt", content="x").content == UNREAD
    assert (bench.root / "a.txt").read_text() == "line1\nline2\nline3\n"


@pytest.mark.parametrize("name", ["Write", "write"])
def test_a_file_that_changed_since_is_not_overwritten(name: str, bench: Bench) -> None:
    bench.call("Read", file_path="a.txt")
    (bench.root / "a.txt").write_text("new on disk\n")
    given = {"file_path" if name == "Write" else "path": "a.txt", "content": "x"}
    assert bench.call(name, **given).content == CHANGED
    assert (bench.root / "a.txt").read_text() == "new on disk\n"


@pytest.mark.parametrize(
    ("path", "said"),
    [("sub", "is a directory"), (".", "is a directory"), ("a.txt/x", "a part of it is a file")],
)
def test_what_cannot_be_written(path: str, said: str, bench: Bench) -> None:
    result = bench.call("Write", file_path=path, content="x")
    assert result.error_class == "tool_rejected"
    assert said in result.content or result.denial


def test_a_full_disk_leaves_the_old_file(bench: Bench) -> None:
    import resource
    import signal

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        result = bench.call("write", path="a.txt", content="x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert result.error_class == "tool_rejected"
    assert (bench.root / "a.txt").read_text() == "line1\nline2\nline3\n"
    assert sorted(os.listdir(bench.root)) == ["a.txt", "sub"]


def test_write_creates_with_parents_and_may_go_on(bench: Bench) -> None:
    result = bench.call("Write", file_path="x/y/new.txt", content="1\n2")
    assert result.content == "Wrote x/y/new.txt (2 lines)"
    assert result.metadata["type"] == "create"
    again = bench.call("Write", file_path="x/y/new.txt", content="3\n")
    assert again.content == "Wrote x/y/new.txt (1 line)"
    assert (bench.root / "x/y/new.txt").read_text() == "3\n"


@pytest.mark.parametrize("name", ["file_write", "write"])
def test_the_seeds_own_names_know_no_reading_rule(name: str, bench: Bench) -> None:
    assert bench.call(name, path="a.txt", content="x\n").content == "Wrote a.txt (1 line)"


# ------------------------------------------------------------------ Edit


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("line1", "line1", "are the same"),
        ("absent", "x", "String to replace not found in file a.txt"),
        ("LINE1", "x", "not found"),
        ("line", "x", "occurs 3 times in a.txt"),
        ("", "x", "old_string is empty, but the file has content"),
    ],
)
def test_edits_that_are_refused(old: str, new: str, said: str, bench: Bench) -> None:
    bench.call("Read", file_path="a.txt")
    result = bench.call("Edit", file_path="a.txt", old_string=old, new_string=new)
    assert result.error_class == "tool_rejected"
    assert said in result.content
    assert (bench.root / "a.txt").read_text() == "line1\nline2\nline3\n"


def test_an_edit_needs_a_read_and_an_unchanged_file(bench: Bench) -> None:
    edit = {"file_path": "a.txt", "old_string": "line1", "new_string": "x"}
    assert bench.call("Edit", **edit).content == UNREAD
    bench.call("Read", file_path="a.txt")
    (bench.root / "a.txt").write_text("line1 changed\n")
    assert bench.call("Edit", **edit).content == CHANGED
    assert "does not exist" in bench.call("Edit", **edit | {"file_path": "none"}).content


def test_an_edit_shows_what_changed(bench: Bench) -> None:
    (bench.root / "f").write_text("".join(f"{n}\n" for n in range(1, 21)))
    bench.call("Read", file_path="f")
    result = bench.call("Edit", file_path="f", old_string="10\n11\n", new_string="ten\n")
    assert result.content == ("Edited f (19 lines)\n@@ -7,8 +7,7 @@\n 7\n 8\n 9\n-10\n-11\n+ten\n 12\n 13\n 14")
    assert (bench.root / "f").read_text().splitlines()[8:11] == ["9", "ten", "12"]


def test_a_range_is_enough_to_edit(bench: Bench) -> None:
    bench.call("Read", file_path="a.txt", offset=2, limit=1)
    assert not bench.call("Edit", file_path="a.txt", old_string="line2", new_string="x").is_error


def test_replace_all(bench: Bench) -> None:
    bench.call("Read", file_path="a.txt")
    result = bench.call("Edit", file_path="a.txt", old_string="line", new_string="row", replace_all=True)
    assert (bench.root / "a.txt").read_text() == "row1\nrow2\nrow3\n"
    assert "(and 2 more)" in result.content


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\n"),
        (b"a\r\nb\nc\n", "b\nc", "x\ny", b"a\r\nx\ny\n"),
        (b"a\r\nb\nc\n", "a\nb", "x\ny", b"x\r\ny\nc\n"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        ("ä\n".encode("utf-16-be").join((b"\xfe\xff", b"")), "ä", "ö", b"\xfe\xff" + "ö\n".encode("utf-16-be")),
        (b"caf\xe9 a\n", "a\n", "b\n", b"caf\xe9 b\n"),
        (b"tab\there\n", "\t", "  ", b"tab  here\n"),
        (b"no end", "end", "start", b"no start"),
    ],
)
def test_an_edit_keeps_every_other_byte(before: bytes, old: str, new: str, after: bytes, bench: Bench) -> None:
    (bench.root / "f").write_bytes(before)
    bench.call("Read", file_path="f")
    result = bench.call("Edit", file_path="f", old_string=old, new_string=new)
    assert not result.is_error, result.content
    assert (bench.root / "f").read_bytes() == after
    result.content.encode("utf-8")


def test_an_empty_old_string_creates(bench: Bench) -> None:
    assert bench.call("Edit", file_path="new", old_string="", new_string="x\n").content == "Wrote new (1 line)"
    assert (bench.root / "new").read_text() == "x\n"


@pytest.mark.parametrize("names", [("old", "new"), ("find", "replace"), ("old_string", "new_string")])
def test_the_alias_edit_takes_its_own_names(names: tuple[str, str], bench: Bench) -> None:
    result = bench.call("edit", **{"path": "a.txt", names[0]: "line1", names[1]: "x"})
    assert not result.is_error, result.content
    assert (bench.root / "a.txt").read_text().startswith("x\n")


# ------------------------------------------------------------------ touch


@pytest.mark.parametrize(
    ("tool", "given", "reads", "writes", "why"),
    [
        ("Read", {"file_path": "a.txt"}, 1, 0, "reads from workspace"),
        ("Read", {"file_path": "/etc/passwd"}, 1, 0, "reads outside the workspace"),
        ("Write", {"file_path": "n", "content": ""}, 0, 1, "writes to workspace"),
        ("Write", {"file_path": "../n", "content": ""}, 0, 1, "writes outside the workspace"),
        ("file_write", {"path": "n", "content": ""}, 0, 1, "writes to workspace"),
        ("Edit", {"file_path": "a.txt", "old_string": "a", "new_string": "b"}, 0, 1, "writes to workspace"),
        ("LS", {}, 1, 0, "reads from workspace"),
        ("Glob", {"pattern": "/etc/*"}, 1, 0, "reads outside the workspace"),
        ("Glob", {"pattern": "../*"}, 1, 0, "reads outside the workspace"),
        ("Grep", {"pattern": "x", "path": "sub"}, 1, 0, "reads from workspace"),
    ],
)
def test_what_a_call_would_touch(
    tool: str, given: dict[str, str], reads: int, writes: int, why: str, bench: Bench
) -> None:
    touch = bench.touch(tool, **given)
    assert (len(touch.reads), len(touch.writes), touch.why) == (reads, writes, why)


def test_outside_reads_when_the_operator_lifts_the_boundary(bench: Bench, tmp_path: Path) -> None:
    from adderclaw.config.schema import Config, Security

    lifted = bench._replace(config=Config(security=Security(workspace_only=False)))
    assert "outside-secret" in lifted.call("Read", file_path=str(bench.outside / "secret.txt")).content
    assert "secret.txt" in lifted.call("LS", path=str(bench.outside)).content
    assert lifted.call("write", path=str(bench.outside / "x"), content="x").denial


# ------------------------------------------------------------------ what is kept of a change


def written(bench: Bench, before: bytes, after: str) -> str:
    (bench.root / "kept").write_bytes(before)
    bench.ctx.files_read.clear()
    result = bench.call("write", path="kept", content=after)
    assert not result.is_error, result.content
    assert result.diff not in result.content or not result.diff, "the model is not told it"
    return result.diff


def test_a_file_that_is_written_over_keeps_what_changed(bench: Bench) -> None:
    assert bench.call("write", path="new.txt", content="a\n").diff == "", "of a new file the input says all"
    assert written(bench, b"one\ntwo\nthree\n", "one\n2\nthree\n") == "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    assert written(bench, b"same\n", "same\n") == "@@ -2,0 +2,0 @@"
    assert written(bench, b"\0\1", "text\n").endswith("\\ it was no text before")
    assert written(bench, b"\xff\xfe\xfd", "text\n").endswith("\\ it was no text before")


def test_what_is_kept_of_a_change_is_bounded_and_says_what_is_not(bench: Bench) -> None:
    long = "".join(f"line {number}\n" for number in range(30_000))
    assert written(bench, long.encode(), long.replace("line 20000\n", "x\ny\n")) == (
        "@@ -20001,1 +20001,2 @@\n-line 20000\n+x\n+y"
    )
    diff = written(bench, long.encode(), long.replace("line", "LINE"))
    assert len(diff) < 2 * text.MAX_DIFF_CHARS
    kept = diff.count("\n-")
    assert diff.rpartition("\n")[2] == f"\\ the rest is not shown: 30000 lines added, {30_000 - kept} removed"
    assert len(written(bench, b"a" * 1_000_000, "b" * 1_000_000)) < 2 * text.MAX_DIFF_CHARS


def test_an_edit_of_several_places_keeps_all_of_them(bench: Bench) -> None:
    (bench.root / "kept").write_text("a\n" * 3 + "-\n" * 20 + "a\n", encoding="utf-8")
    bench.call("Read", file_path="kept")
    result = bench.call("Edit", file_path="kept", old_string="a", new_string="b", replace_all=True)
    assert result.diff.count("\n-a") == result.diff.count("\n+b") == 4
    once = bench.call("Edit", file_path="kept", old_string="b\n-", new_string="c\n-")
    assert (once.diff, "\n@@ " in once.content) == ("", True), "the result itself says it"


def test_nothing_is_kept_of_a_file_that_may_not_be_read(bench: Bench) -> None:
    (bench.root / "kept").write_text("the-canary\n", encoding="utf-8")
    bench.ctx.is_hidden = lambda path: path.endswith("kept")
    result = bench.call("write", path="kept", content="x\n")
    assert result.diff == ""
