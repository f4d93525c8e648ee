"""LS, Glob and Grep: what they list, where they stop, and where they never go."""

import contextlib
import os
import random
import re
import subprocess
import time
from pathlib import Path

import pytest

from adderclaw.core.decode import Invalid
from adderclaw.sandbox import programs
from adderclaw.sandbox.workspace import globs
from tests.tools.conftest import SECRET, Bench


def plant(root: Path, *names: str) -> None:
    for age, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"needle in {name}\n")
        os.utime(root / name, (1000 - age, 1000 - age))


# ------------------------------------------------------------------ LS


@pytest.mark.parametrize(
    ("path", "said"),
    [("nope", "does not exist"), ("a.txt", "is not a directory. Use Read"), ("a.txt/x", "is not a directory")],
)
def test_what_cannot_be_listed(path: str, said: str, bench: Bench) -> None:
    result = bench.call("LS", path=path)
    assert result.error_class == "tool_rejected"
    assert said in result.content


@pytest.mark.parametrize("name", ["LS", "ls", "file_list"])
def test_a_listing_is_sorted_and_marked(name: str, bench: Bench) -> None:
    plant(bench.root, "b", ".hidden", "two\nlines")
    (bench.root / "link").symlink_to(bench.outside)
    shown = bench.call(name, path=".").content
    assert shown.splitlines() == [".hidden", "a.txt", "b", "link@", "sub/", "two\\u{a}lines"]


def test_a_listing_has_its_cap_and_emptiness_its_word(bench: Bench) -> None:
    assert bench.call("LS", path="sub").content == "(empty directory)"
    for number in range(1005):
        (bench.root / "sub" / f"{number:04}").touch()
    lines = bench.call("LS", path="sub").content.splitlines()
    assert (len(lines), lines[-1]) == (1001, "(the first 1000 of 1005 entries; Glob finds the others)")


def test_names_that_are_not_utf8_are_shown_escaped(bench: Bench) -> None:
    (bench.root / "sub" / os.fsdecode(b"bad\xff")).touch()
    assert bench.call("LS", path="sub").content == "bad\\u{dcff}"
    assert bench.call("Glob", pattern="sub/*").content == "sub/bad\\u{dcff}"


# ------------------------------------------------------------------ Glob


@pytest.mark.parametrize("pattern", ["", " ", "a\0b", "x" * 20_000, "*/../../outside/*", "{a,b}" * 9])
def test_patterns_that_are_rejected(pattern: str, bench: Bench) -> None:
    assert bench.call("Glob", pattern=pattern).is_error


@pytest.mark.parametrize("pattern", ["../outside/*", "/etc/*", "~/*", "sub/../../outside/*"])
def test_patterns_that_lead_out_are_refused(pattern: str, bench: Bench) -> None:
    assert bench.call("Glob", pattern=pattern).denial


def test_no_link_is_followed(bench: Bench) -> None:
    (bench.root / "d").symlink_to(bench.outside)
    (bench.root / "f").symlink_to(bench.outside / "secret.txt")
    assert sorted(bench.call("Glob", pattern="**/*").content.splitlines()) == ["a.txt", "f"]
    assert bench.call("Glob", pattern="d/*").denial


def test_a_link_that_leads_in_a_circle_is_skipped_and_named(bench: Bench) -> None:
    (bench.root / "sub" / "round").symlink_to("round")
    (bench.root / "one").symlink_to("other")
    (bench.root / "other").symlink_to("one")
    (bench.root / "sub" / "up").symlink_to("..")
    shown = bench.call("Glob", pattern="**/*").content.splitlines()
    assert shown == ["a.txt", "(skipped circular links: one, other, sub/round)"]
    assert bench.call("Glob", pattern="**/*.txt").content == "a.txt"
    for number in range(9):
        (bench.root / f"loop{number}").symlink_to(f"loop{number}")
    assert "loop4 and 4 more)" in bench.call("Glob", pattern="loop*").content


def test_links_to_files_are_found_and_those_to_folders_are_not(bench: Bench) -> None:
    (bench.root / "AGENTS.md").write_text("be kind\n")
    (bench.root / "CLAUDE.md").symlink_to("AGENTS.md")
    (bench.root / "gone.md").symlink_to("nowhere")
    (bench.root / "folder.md").symlink_to("sub")
    assert sorted(bench.call("Glob", pattern="**/*.md").content.splitlines()) == ["AGENTS.md", "CLAUDE.md", "gone.md"]


def test_a_folder_with_thousands_of_files_is_read_to_its_end(bench: Bench) -> None:
    plant(bench.root, *(f"many/{number:05}.{'py' if number % 2 else 'md'}" for number in range(5000)))
    lines = bench.call("Glob", pattern="**/*.{py,rs}").content.splitlines()
    assert (lines[0], lines[99]) == ("many/00001.py", "many/00199.py")
    assert lines[100:] == ["(the newest 100 of 2500 files; use a narrower pattern)"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**/*.py", ["new.py", "src/old.py", "src/deep/oldest.py"]),
        ("*.py", ["new.py"]),
        ("src/**", ["src/old.py", "src/deep/oldest.py"]),
        ("src/**/*.py", ["src/old.py", "src/deep/oldest.py"]),
        ("src/*/*.py", ["src/deep/oldest.py"]),
        ("**/deep/**", ["src/deep/oldest.py"]),
        ("./src/old.py", ["src/old.py"]),
        ("src/old.py", ["src/old.py"]),
        ("**/*.{md,txt}", ["a.txt", "docs/x.md"]),
        ("{src,docs}/*", ["src/old.py", "docs/x.md"]),
        ("**/.env", [".env"]),
        ("[mn]ew.p?", ["new.py"]),
        ("**/config", ["No files found"]),
        ("*.PY", ["No files found"]),
        ("none/**", ["No files found"]),
        ("a.txt/*", ["No files found"]),
    ],
)
def test_patterns(pattern: str, found: list[str], bench: Bench) -> None:
    plant(bench.root, "a.txt", "new.py", "src/old.py", "src/deep/oldest.py", "docs/x.md", ".env", ".git/config")
    assert bench.call("Glob", pattern=pattern).content.splitlines() == found


def test_a_glob_starts_where_it_is_told(bench: Bench) -> None:
    plant(bench.root, "src/a.py", "src/b/c.py")
    assert bench.call("glob", pattern="*.py", path="src").content == "src/a.py"
    assert bench.call("Glob", pattern=f"{bench.root}/src/*.py").content == "src/a.py"


def test_the_newest_hundred(bench: Bench) -> None:
    plant(bench.root, *(f"many/{number}" for number in range(150)))
    lines = bench.call("Glob", pattern="many/*").content.splitlines()
    assert (lines[0], lines[99]) == ("many/0", "many/99")
    assert lines[100:] == ["(the newest 100 of 150 files; use a narrower pattern)"]


def test_no_pattern_takes_long(bench: Bench) -> None:
    (bench.root / ("a" * 250)).touch()
    began = time.monotonic()
    assert bench.call("Glob", pattern="**/" * 30 + "*a" * 60 + "b").content == "No files found"
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a.{py,md}", ["a.py", "a.md"]),
        ("{a,b}{c,d}", ["ac", "ad", "bc", "bd"]),
        ("{a,{b,c}}", ["a", "b", "c"]),
        ("{a}", ["{a}"]),
        ("{a", ["{a"]),
        ("a,b", ["a,b"]),
    ],
)
def test_braces(pattern: str, expected: list[str]) -> None:
    assert globs.alternatives(pattern) == expected


# ------------------------------------------------------------------ Grep


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pattern": "("}, "regex parse error"),
        ({"pattern": ""}, "pattern is empty"),
        ({"pattern": "a\0b"}, "pattern contains a NUL"),
        ({"pattern": "x" * 20_000}, "at most 10000"),
        ({"pattern": "x", "type": "nonsense"}, "nonsense"),
        ({"pattern": "x", "glob": "{a"}, "{a"),
        ({"pattern": "x", "-A": -1}, "-A is -1"),
        ({"pattern": "x", "path": "nope"}, "does not exist"),
        ({"pattern": "x", "head_limit": -1}, "head_limit is -1"),
    ],
)
def test_searches_that_are_rejected(given: dict[str, str], said: str, bench: Bench) -> None:
    result = bench.call("Grep", **given)
    assert result.error_class == "tool_rejected"
    assert said in result.content


@pytest.mark.parametrize("given", [{"-A": "3"}, {"output_mode": "all"}, {"-x": 1}, {"glob": 3}, {"-n": 1}])
def test_arguments_that_do_not_fit(given: dict[str, str], bench: Bench) -> None:
    with pytest.raises(Invalid):
        bench.call("Grep", pattern="x", **given)


def test_a_search_follows_no_link(bench: Bench) -> None:
    (bench.root / "d").symlink_to(bench.outside)
    (bench.root / "f").symlink_to(bench.outside / "secret.txt")
    assert bench.call("Grep", pattern=SECRET).content == "No matches found"
    for path in ("d", "f", "d/secret.txt"):
        assert bench.call("Grep", pattern=SECRET, path=path).denial


@pytest.mark.parametrize("pattern", ["--files", "-e", "--pre=cat"])
def test_a_pattern_is_never_an_option(pattern: str, bench: Bench) -> None:
    assert bench.call("Grep", pattern=pattern).content == "No matches found"
    (bench.root / "-v").write_text(f"{pattern}\n")
    assert bench.call("Grep", pattern=pattern, path="-v", output_mode="content").content == f"-v:1:{pattern}"


def test_the_operators_ripgrep_configuration_is_not_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    (bench.outside / "rc").write_text("--follow\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(bench.outside / "rc"))
    (bench.root / "d").symlink_to(bench.outside)
    assert bench.call("Grep", pattern=SECRET).content == "No matches found"


GREPS = [
    ({"pattern": "needle"}, "Found 2 files\nsrc/b.py\nx.md"),
    ({"pattern": "NEEDLE"}, "No matches found"),
    ({"pattern": "NEEDLE", "-i": True, "head_limit": 1},
     "Found 2 files\nsrc/b.py\n(entries 1-1 of 2; continue with offset=1)"),
    ({"pattern": "needle", "offset": 1}, "Found 2 files\nx.md"),
    ({"pattern": "needle", "offset": 9}, "No entries at this offset (there are 2)"),
    ({"pattern": "needle", "glob": "*.md"}, "Found 1 file\nx.md"),
    ({"pattern": "needle", "type": "py"}, "Found 1 file\nsrc/b.py"),
    ({"pattern": "needle", "path": "src"}, "Found 1 file\nsrc/b.py"),
    ({"pattern": "needle", "path": "x.md"}, "Found 1 file\nx.md"),
    ({"pattern": "line[12]", "output_mode": "count"}, "Found 2 matching lines in 1 files\na.txt:2"),
    ({"pattern": "line2", "output_mode": "content"}, "a.txt:2:line2"),
    ({"pattern": "line2", "output_mode": "content", "-n": False}, "a.txt:line2"),
    ({"pattern": "line2", "output_mode": "content", "-A": 1}, "a.txt:2:line2\na.txt-3-line3"),
    ({"pattern": "line2", "output_mode": "content", "-C": 1}, "a.txt-1-line1\na.txt:2:line2\na.txt-3-line3"),
    ({"pattern": "line2", "output_mode": "content", "context": 1, "-B": 1, "-A": 0},
     "a.txt-1-line1\na.txt:2:line2\na.txt-3-line3"),
    ({"pattern": "ne[12]", "output_mode": "content", "-o": True, "path": "a.txt"}, "a.txt:1:ne1\na.txt:2:ne2"),
    ({"pattern": "line1.line2", "output_mode": "content", "multiline": True}, "a.txt:1:line1\na.txt:2:line2"),
    ({"pattern": "line1.line2"}, "No matches found"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "shown"), GREPS)
def test_searches(given: dict[str, str], shown: str, bench: Bench) -> None:
    plant(bench.root, "x.md", "src/b.py", ".git/config")
    assert bench.call("Grep", **given).content == shown


def test_ignored_files_are_found_only_by_name(bench: Bench) -> None:
    (bench.root / ".git").mkdir()
    (bench.root / ".gitignore").write_text("*.log\n")
    plant(bench.root, "x.log", ".dotfile")
    assert bench.call("grep", pattern="needle").content == "Found 1 file\n.dotfile"
    assert bench.call("grep", pattern="needle", path="x.log").content == "Found 1 file\nx.log"


@pytest.mark.parametrize("mode", ["content", "count", "files_with_matches"])
@pytest.mark.parametrize("more", [{}, {"-C": 1}, {"-A": 2, "-n": False}, {"-o": True}])
def test_what_all_cores_found_is_in_the_order_of_the_names(mode: str, more: dict[str, int], bench: Bench) -> None:
    """As ripgrep sorts with one core: a folder's names by their bytes, what is in a folder at its name."""
    chance = random.Random(13)
    for _ in range(120):
        way = [chance.choice("aB-.Zé_9 ") + chance.choice("xyz") for _ in range(chance.randrange(1, 4))]
        with contextlib.suppress(OSError):  # a file where there is a folder already, or the other way round
            lines = [chance.choice(["needle\n", "x\n", "--\n", "\n"]) for _ in range(20)]
            (bench.root.joinpath(*way)).parent.mkdir(parents=True, exist_ok=True)
            bench.root.joinpath(*way).write_text("".join(lines))
    found = bench.call("Grep", pattern="needle", output_mode=mode, head_limit=0, **more).content
    assert found == _sorted_by_ripgrep(bench, mode, more)


def _sorted_by_ripgrep(bench: Bench, mode: str, more: dict[str, int]) -> str:
    program = programs.ripgrep(())
    assert program
    kinds = {"content": ["--no-heading"], "count": ["--count"], "files_with_matches": ["--files-with-matches"]}
    options = ["--hidden", "--with-filename", "--sort=path", *kinds[mode]]
    if mode == "content":
        options += ["--no-line-number" if more.get("-n", True) is False else "--line-number"]
        options += [f"{name}{value}" if name in ("-A", "-C") else name for name, value in more.items() if name != "-n"]
    done = subprocess.run([program, *options, "needle", "."], cwd=bench.root, capture_output=True, check=True)
    rows = [row.removeprefix("./") for row in done.stdout.decode().splitlines()]
    if mode == "content" and more.get("-n", True) is False:  # only a line number says that a line is not a match
        rows = [re.sub(r"^(.+?)-(x|--|)$", r"\1:\2", row) if row != "--" else row for row in rows]
    heads = {"content": [], "files_with_matches": [f"Found {len(rows)} files"]}
    total = sum(int(row.rpartition(":")[2]) for row in rows) if mode == "count" else 0
    return "\n".join([*heads.get(mode, [f"Found {total} matching lines in {len(rows)} files"]), *rows])


@pytest.mark.parametrize("each", [30_000, 300_000])
def test_what_is_left_of_too_much_is_the_first_by_name(each: int, bench: Bench) -> None:
    """1.6 MB in all, which is put in order here, or 21 MB, which is not."""
    for number in range(9):
        (bench.root / f"{number}").write_text("needle\n" * each)
    first = bench.call("Grep", pattern="needle", output_mode="content", head_limit=0).content
    assert first.startswith("0:1:needle\n0:2:needle\n")
    assert first.endswith("[SDLC_TRUNCATED]")
    assert len(first) < 2 << 20


def test_a_flood_of_matches_is_capped(bench: Bench) -> None:
    (bench.root / "flood").write_text("needle\n" * 400_000)
    shown = bench.call("Grep", pattern="needle", output_mode="content", head_limit=0).content
    assert shown.endswith("[SDLC_TRUNCATED]")
    assert len(shown) < 2 << 20


def test_names_are_told_from_where_the_shell_stands(bench: Bench) -> None:
    plant(bench.root, "sub/x", "y")
    bench.ctx.workspace.cwd = str(bench.root / "sub")
    assert bench.call("Grep", pattern="needle").content == "Found 1 file\nx"
    assert bench.call("Grep", pattern="needle", path="..").content == f"Found 2 files\nx\n{bench.root}/y"
