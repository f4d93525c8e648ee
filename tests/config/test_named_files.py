"""Which files of a workspace a command names, however it is written."""

from pathlib import Path

import pytest

from adderclaw.config.trust import named_files

FILES = ("check.sh", ".hooks/x.py", ".hooks/my check.py", "hooks/a.js", "pkg/run.py", "tool/__main__.py", "log.txt")
NONE: set[str] = set()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    return folder


def found(text: str, root: Path) -> set[str]:
    return set(named_files.inside([text], str(root)))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("./check.sh", {"check.sh"}),
        ("check.sh", {"check.sh"}),
        ("bash check.sh --fast", {"check.sh"}),
        ("python3 .hooks/x.py", {".hooks/x.py"}),
        ("bash -c './check.sh'", {"check.sh"}),
        ('bash -c "python3 .hooks/x.py && ./check.sh"', {"check.sh", ".hooks/x.py"}),
        ("node hooks/a.js<log.txt", {"hooks/a.js", "log.txt"}),
        ('"$CLAUDE_PROJECT_DIR"/.hooks/x.py', {".hooks/x.py"}),
        ('"$CLAUDE_PROJECT_DIR/.hooks/x.py" --a', {".hooks/x.py"}),
        ("${CLAUDE_PROJECT_DIR}/.hooks/x.py", {".hooks/x.py"}),
        ('"${ADDERCLAW_PROJECT_DIR:-.}/.hooks/x.py"', {".hooks/x.py"}),
        ("$(git rev-parse --show-toplevel)/.hooks/x.py", {".hooks/x.py"}),
        ("DIR=.hooks; $DIR/x.py", {".hooks/x.py"}),
        ("cd .hooks && ./x.py", {".hooks/x.py"}),
        ('python3 ".hooks/my check.py"', {".hooks/my check.py"}),
        ("python3 .hooks/my\\ check.py", {".hooks/my check.py"}),
        ("python3 -m pkg.run", {"pkg/run.py"}),
        ("python3 -m tool", {"tool/__main__.py"}),
        ("for f in .hooks/*.py; do python3 $f; done", {".hooks/x.py", ".hooks/my check.py"}),
        ("./hooks/../check.sh", {"check.sh"}),
        ("CONFIG=check.sh run", {"check.sh"}),
        ("eval './check.sh", {"check.sh"}),
        ("cat >> log.txt", NONE),
        ("echo x > 'log.txt'", NONE),
        ("cat log.txt", {"log.txt"}),
        ("test -e log.txt || { touch log.txt; echo x; }", NONE),
        ("[ -x ./check.sh ] && ./check.sh", {"check.sh"}),
        ("if test -f check.sh; then bash check.sh; fi", {"check.sh"}),
        ("cat check.sh | tee log.txt | bash", {"check.sh"}),
        ("echo check.sh | xargs bash", {"check.sh"}),
        ("./test check.sh", {"check.sh"}),
        ("echo hello | grep -q push", NONE),
        ("sed s/a/b/ /etc/passwd", NONE),
        ("", NONE),
    ],
)
def test_words_that_name_files(text: str, names: set[str], root: Path) -> None:
    assert found(text, root) == names


def test_the_whole_path_and_one_through_a_link(root: Path, tmp_path: Path) -> None:
    assert found(f"{root}/check.sh", root) == {"check.sh"}
    (tmp_path / "outside").symlink_to(root / "check.sh")
    (one,) = named_files.names(str(tmp_path / "outside"), (str(root),)).found
    assert (one.path, one.real) == (str(tmp_path / "outside"), str(root / "check.sh"))
    (root / "leads-out").symlink_to("/etc/passwd")
    (one,) = named_files.names("./leads-out", (str(root),)).found
    assert (one.path, one.real) == (str(root / "leads-out"), "/etc/passwd")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("./gone", ["./gone"]),
        ("./gone --x && bin/other", ["./gone", "bin/other"]),
        ("python3 .hooks/gone.py", [".hooks/gone.py"]),
        ('"$CLAUDE_PROJECT_DIR"/.hooks/gone.sh', ['"$CLAUDE_PROJECT_DIR"/.hooks/gone.sh']),
        ("mkdir -p ./logs", []),
        ("./check.sh", []),
        ("echo a/b", []),
        ("/usr/bin/gone", []),
        ("/usr/bin/gone.py", []),
        ("cd .hooks && ./x.py", []),
        ("for f in .hooks/*.py; do python3 $f; done", []),
    ],
)
def test_what_is_not_there(text: str, words: list[str], root: Path) -> None:
    assert [word.text for word in named_files.names(text, (str(root),)).absent] == words


def test_a_word_can_be_exchanged_where_it_stands(root: Path) -> None:
    text = 'python3 "$CLAUDE_PROJECT_DIR"/.hooks/x.py < log.txt'
    found = named_files.names(text, (str(root),)).found
    assert all(one.whole for one in found)
    assert {text[one.word.start : one.word.end] for one in found} == {'"$CLAUDE_PROJECT_DIR"/.hooks/x.py', "log.txt"}
    (other,) = named_files.names("cd .hooks && ./x.py", (str(root),)).found
    assert not other.whole


def test_an_argument_is_one_word_and_may_hold_others(root: Path) -> None:
    (one,) = named_files.names(".hooks/my check.py", (str(root),), 0).found
    assert (one.path, one.whole) == (str(root / ".hooks" / "my check.py"), True)
    (one,) = named_files.names("import os; os.execv('check.sh')", (str(root),), 0).found
    assert (one.path, one.whole) == (str(root / "check.sh"), False)
    assert named_files.names("./gone", (str(root),), 0).absent == (named_files.Word("./gone", 0, 6),)
    assert named_files.names("./gone", (str(root),), 1).absent == ()
