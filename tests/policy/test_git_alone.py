"""Which commands are git and nothing else, so that they may change what other programs run later."""

from adderclaw.policy.legacy.programs.git_alone import is_alone, parts
from adderclaw.policy.legacy.shell.planner import Plan, plan, simples
from tests.rows import rows

NOT = [
    "ls",
    "git status",
    "git log --oneline && git diff",
    "git checkout main && make",
    "git checkout main | cat x",
    "git checkout main | tee log",
    "git checkout main | awk '{ print > \"x\" }'",
    "git log | sort -o x && git checkout main",
    "git checkout main | sed -i s/a/b/ x",
    "git checkout main | ./tail",
    "git checkout main | xargs touch",
    "ls | cat && git checkout main",
    "make && git checkout main",
    "git show other:ci.yml > .gitlab-ci.yml",
    "git checkout main >> log",
    "(git checkout main) > log",
    "git -c core.hooksPath=x checkout main",
    "git -c alias.x=!sh x",
    "git rebase --exec make main",
    "git bisect run make",
    "git submodule foreach make",
    "git filter-branch --tree-filter make",
    "git config core.fsmonitor x",
    "git clone ext::sh x",
    "./git checkout main",
    "/tmp/git checkout main",
    "FOO=1 git checkout main",
    "env git checkout main",
    "bash -c 'git checkout main'",
    "xargs git checkout",
    "find . -exec git checkout main {} +",
    "source x && git checkout main",
    "git checkout $(make)",
    "echo $(make) && git checkout main",
    "git frobnicate",
    "absent && git checkout main",
    "if make; then git checkout main; fi",
    "for f in a b; do git checkout $f && make; done",
    "cat < /dev/null && git checkout main",
]
ALONE = [
    "git commit -m x | tail -3",
    "git commit -m x 2>&1 | grep -v hint",
    "git pull | cat",
    "git checkout main",
    "git -C sub pull",
    "git stash && git pull && git stash pop",
    "git reset --hard HEAD",
    "git checkout main 2>/dev/null || git checkout -b main",
    "cd sub && git merge other && echo done",
    "git restore .",
    "git push -u origin main",
    "git push origin main",
    "git fetch --all --prune && git ls-remote origin",
    "git -C sub push --set-upstream origin main",
    "git fetch; git rebase origin/main",
    "git status && git switch main",
    "if git diff --quiet; then git checkout main; fi",
]


def found(name: str) -> str | None:
    return None if "/" in name or name == "absent" else f"/usr/bin/{name}"


def alone(text: str) -> bool:
    made = plan(text, found)
    return isinstance(made, Plan) and is_alone(made)


@rows("text", NOT)
def test_what_runs_anything_else_is_not_git_alone(text: str) -> None:
    assert not alone(text)


@rows("text", ALONE)
def test_what_is_git_alone(text: str) -> None:
    assert alone(text)


@rows(
    ("text", "expected"),
    [
        ("git pull && npm ci", [("git pull", True), ("npm ci", False)]),
        ("make && git checkout main && git pull && ls | cat", [("make", False), ("git", True), ("ls", False)]),
        ("git checkout main\nmake", [("git checkout", True), ("make", False)]),
        ("git status && make", None),
        ("git checkout main && make || true", [("git", True), ("make", False), ("true", False)]),
        ("make; git commit -m x || true", [("make", False), ("git", True), ("true", False)]),
        ("make && git commit -m x | tail -1", [("make", False), ("git", True)]),
        ("cd sub && git pull && make", [("cd", False), ("git", True), ("make", False)]),
        ("cd sub && touch a && git add a && git commit -m x", [("cd", False), ("git", True)]),
        ('x=$(date) && git pull && echo "$x"', None),
        ("git pull; make; echo $?", None),
        ("git pull; make; echo $$", None),
        ('git pull; make; if [ "$?" = 1 ]; then ls; fi', None),
        ("set -e; git pull; make", None),
        ("git pull; exit 1; make", None),
        ("git pull && make &", None),
        ("export A=1 && git pull && make", None),
    ],
)
def test_where_git_stands_among_others_it_runs_by_itself(text: str, expected: list[tuple[str, bool]] | None) -> None:
    made = plan(text, found)
    assert isinstance(made, Plan)
    pieces = parts(made)
    if expected is None:
        assert pieces == ((made, False, ""),)
        return
    assert [part.git for part in pieces] == [git for _, git in expected]
    assert all(simples(part.plan)[0].text.startswith(begin) for part, (begin, _) in zip(pieces, expected, strict=True))
    assert sum(len(simples(part.plan)) for part in pieces) == len(simples(made))
