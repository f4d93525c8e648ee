"""The built-in list: every program of the seeds, and what makes one of them high risk."""

from typing import Any

from adderclaw.policy.case import Decision
from adderclaw.policy.legacy.programs.allowlist import PROGRAMS
from adderclaw.policy.legacy.programs.knowledge import inner, objection
from adderclaw.policy.legacy.programs.operands import Operands, operands
from tests.rows import rows

LISTED = """ls pwd cd cat head tail find grep mkdir cp git node npm npx tsc esbuild vite jest vitest playwright echo
which go make python3 pytest"""


@rows("name", LISTED.split())
def test_the_seeds_programs_are_listed(name: str) -> None:
    assert name in PROGRAMS


HIGH = [
    "pulumi plan",
    "curl http://x",
    "perl -e x",
    "python3 -c 1",
    "find . -exec ls {} +",
    "xargs cat",
    "sudo ls",
    "find . -delete",
    "find . -fprintf x y",
    "find . -ok ls",
    "sort -T x y",
    "sort --outp=x y",
    "sort --outp=x y",
    "sort --compress-program=x y",
    "rg --pre x y",
    "git -c core.pager=x log",
    "git -ccore.pager=x log",
    "git --exec-path=/x log",
    "git --git-dir=x log",
    "git config core.hooksPath x",
    "git config --global x y",
    "git fetch --upload-pack=x",
    "git fetch --upl x",
    "git clone -c a=b x",
    "git clone -u x y",
    "git clone ext::x",
    "git fetch ext::x",
    "git grep -Oless x",
    "git grep --open-files-in-pager x",
    "git diff --ext-diff",
    "git log --output=x",
    "git rebase -i main",
    "git rebase --exec ls",
    "git rebase -x ls",
    "git bisect run x",
    "git submodule foreach ls",
    "git filter-branch",
    "git daemon",
    "git",
    "npm publish",
    "npm exec x",
    "npm x y",
    "npm install git+ssh://x",
    "npm install https://x/y.tgz",
    "npm run x --script-shell=y",
    "npm install -g x",
    "npm config set x y",
    "npx some-package",
    "npx -y evil",
    "npx -p x tsc",
    "npx -c ls",
    "node -r ./x y.js",
    "node --require=./x y.js",
    "node",
    "node -",
    "node /dev/stdin",
    "python3 -Ic 1",
    "python3",
    "python3 -",
    "python3 /dev/stdin",
    "python3 -m http.server --bind 0.0.0.0",
    "python3 -m timeit x",
    "python3 -m pip install --target=x y",
    "python3 -i x.py",
    "pip install git+https://x",
    "pip install -i http://x y",
    "pip download x",
    "uv tool run x",
    "uv run pulumi",
    "uv publish",
    "make SHELL=/x",
    "make CC=x all",
    "make --eval=x",
    "make -f -",
    "make -f /dev/stdin",
    "go run x@latest",
    "go test -exec x",
    "go build -toolexec=x",
    "go build --toolexec x",
    "go env -w X=y",
    "go install x",
    "go get x",
    "go tool nm",
    "sed -n e x",
    "sed s/a/b/e x",
    "sed 's/a/b/w f' x",
    "sed 'w f' x",
    "sed '1e ls' x",
    "sed -f s x",
    "sed -s -e p -e 'r /x' y",
    "env -S ls",
    "timeout 5 pulumi plan",
    "timeout ls",
    "nice bash",
    "nohup",
    "../ls",
    "./find . -delete",
    "/tmp/ls",
    "absent",
    "ls; absent",
    "ls | pulumi",
    "ls && ../x",
]


@rows("command", HIGH)
def test_what_the_lists_are_not_sure_of_is_a_question_in_a_sandbox(judge: Any, command: str) -> None:
    policy = {"workspace_only": False, "forbidden_commands": ()}
    alone = judge("Bash", command=command, policy=policy)
    inside: Decision = judge("Bash", command=command, policy={**policy, "sandboxed": True})
    assert (inside.verdict == "ask") == (alone.denial == "no sandbox"), inside.reason
    assert inside.verdict == "ask" or inside.denial in ("not listed", "outside")


@rows("command", HIGH)
def test_high(judge: Any, command: str) -> None:
    decision: Decision = judge("Bash", command=command, policy={"workspace_only": False, "forbidden_commands": ()})
    assert (decision.verdict, decision.risk) == ("deny", "high"), decision.reason


MEDIUM = [
    "env A=1 ls",
    "find . -exec echo {} +",
    "perl x",
    "awk 1 x",
    "sh -c ls",
    "bash x.sh",
    "docker ps",
    "ls -la",
    "/bin/ls",
    "cat a b",
    "grep -rn x src",
    "find . -name x -type f",
    "find src -newer x",
    "sort -rn x",
    "git status",
    "git --no-pager log --oneline -5",
    "git -C sub diff",
    "git diff --stat HEAD~1",
    "git add -A",
    "git commit -m x",
    "git commit -am 'x y'",
    "git checkout -b x",
    "git config --get user.name",
    "git remote -v",
    "git stash",
    "npm install",
    "npm install left-pad",
    "npm ci",
    "npm test",
    "npm run build -- --prefix x",
    "npx tsc --noEmit",
    "node x.js --eval",
    "node --test",
    "python3 x.py -c 1",
    "python3 -m pytest -q",
    "python3 -u -W error x.py",
    "python3 -m pip install requests",
    "pytest -k x",
    "pip install -r requirements.txt",
    "uv run pytest",
    "uv sync",
    "make test",
    "make -C sub all",
    "go build ./...",
    "go test -v ./...",
    "go run ./cmd/x",
    "sed -n 1,5p x",
    "sed 's/a/b/g' x",
    "sed -i 's|a|b|' x",
    "sed -n '/a/,/b/p;5q' x",
    "timeout 30 pytest",
    "nice -n 5 make",
    "env",
    "mkdir -p a/b",
    "cp a b",
    "echo hi > x",
    "cd sub && ls | wc -l",
    "! test -f x",
    "./run.sh",
    "./run.sh a b",
    "sub/tool --flag",
    "./node_modules/.bin/tsc --noEmit",
    "./python3 x.py",
    "./ls",
]


@rows("command", MEDIUM)
def test_medium(judge: Any, command: str) -> None:
    decision: Decision = judge("Bash", command=command)
    assert (decision.verdict, decision.risk) == ("ask", "medium"), decision.reason


@rows(
    ("entry", "command", "risk"),
    [
        ("pulumi", "pulumi plan", "medium"),
        ("pulumi", "timeout 5 pulumi plan", "medium"),
        ("pulumi", "../pulumi plan", "high"),
        ("pulumi", "/tmp/pulumi plan", "high"),
        ("pulumi", "/usr/bin/pulumi plan", "medium"),
        ("/usr/bin/pulumi", "pulumi plan", "medium"),
        ("/usr/bin/pulumi", "/tmp/pulumi plan", "high"),
        ("pulumi", "pulumi plan; packer build x", "high"),
        ("pulumi", "pulumi2", "high"),
        ("pulumi plan", "pulumi plan -out x", "medium"),
        ("pulumi plan", "pulumi apply", "high"),
        ("pulumi plan", "pulumi 'plan x'", "high"),
        ("pulumi plan", "pulumi -x plan", "high"),
        ("git push", "git push evil", "medium"),
        ("git push", "git -C sub push", "medium"),
        ("git", "git -c x=y log", "high"),
        ("git", "git daemon", "high"),
        ("git daemon", "git daemon", "medium"),
        ("npx", "npx evil", "high"),
        ("npx evil", "npx evil", "medium"),
        ("find", "find . -delete", "high"),
        ("python3", "python3 -c 1", "high"),
        ("timeout", "timeout 5 pulumi plan", "high"),
        ("env", "env LD_PRELOAD=x ls", "high"),
        ("sudo", "sudo ls", "medium"),
        ("git push", "git -c x=y push", "high"),
        ("git push", "git config x y", "high"),
        ("./run.sh", "./run.sh a", "medium"),
        ("./run.sh", "run.sh", "high"),
        ("../run.sh", "../sub/run.sh", "high"),
        ("bash", "bash -c ls", "medium"),
        ("absent", "absent", "high"),
    ],
)
def test_the_operators_list(judge: Any, entry: str, command: str, risk: str) -> None:
    policy = {"allowed_commands": (entry,), "workspace_only": False}
    assert judge("Bash", command=command, policy=policy).risk == risk


def test_wrappers() -> None:
    assert inner(("timeout", "-k", "1", "5s", "ls", "-l")) == ("ls", "-l")
    assert inner(("timeout", "--weird", "5", "ls")) is None
    assert inner(("env", "A=1", "ls")) == ("ls",)
    assert inner(("env", "LD_PRELOAD=x", "ls")) is None
    assert inner(("ls",)) is None
    assert objection("timeout", ("timeout", "5", "ls")) is None


OPERANDS: list[tuple[str, Operands]] = [
    ("cat a b", Operands(("a", "b"))),
    ("cat -- -x", Operands(("-x",))),
    ("grep x a", Operands(("a",))),
    ("grep -e x a", Operands(("a",))),
    ("grep -ex a", Operands(("a",))),
    ("grep -re x a", Operands(("a",))),
    ("grep --regexp=x a", Operands(("a",))),
    ("grep -f/p a", Operands(("a", "/p"))),
    ("grep -fp a", Operands(("a",), read_if_there=("p",))),
    ("grep -A 3 x a", Operands(("a",))),
    ("grep --strange x a", Operands(("x", "a"))),
    ("grep -R x a", Operands(("a",), trees=("a",))),
    ("rg --files a", Operands(("a",))),
    ("head -n 5 a", Operands(("a",))),
    ("cut -d/ -f1 a", Operands(("a",))),
    ("find a b -name x", Operands(("a", "b"))),
    ("find -name x", Operands((".",))),
    ("find . -newer /a", Operands((".", "/a"))),
    ("find -L a", Operands(("a",), trees=("a",))),
    ("find a -exec cat {} +", Operands(("a",))),
    ("find a -type f -exec cat {} +", Operands(("a",))),
    (
        "find a -name *.py -not -path ./.venv/* -exec cat {} +",
        Operands(("a",)),
    ),
    ("find a -name *.py -o -name *.js -exec cat {} +", Operands(("a",))),
    ("find a -name *.py -o -newer x -exec cat {} +", Operands(("a",), read_if_there=("x",))),
    ("find a ! -name *.py -exec cat {} +", Operands(("a",))),
    ("find a -exec echo {} +", Operands(("a",))),
    ("ln -s a b", Operands(("a",), ("b", "b/a", "a"))),
    ("zip -r x.zip a", Operands(read_if_there=("x.zip", "a"), written_if_there=("x.zip", "a"), trees=("a",))),
    ("rsync -a a/ b", Operands(("a/",), ("b", "b/a"), trees=("a/",), merged=(("a/", "b"),))),
    ("cp a b", Operands(("a",), ("b", "b/a"))),
    ("cp a/x b/", Operands(("a/x",), ("b/", "b/x"))),
    ("mv a b", Operands(("a",), ("b", "b/a", "a"))),
    ("cp -t d a b", Operands(("a", "b"), ("d", "d/a", "d/b"))),
    ("cp -ftd a", Operands(("a",), ("d", "d/a"))),
    ("cp -r a/. b", Operands(("a/.",), ("b", "b/."), trees=("a/.",), merged=(("a/.", "b"),))),
    ("cp -rT a b", Operands(("a",), ("b", "b/a"), trees=("a",), merged=(("a", "b"),))),
    ("rm -rf a", Operands((), ("a",), ("f",), ("f",))),
    ("tee a", Operands((), ("a",))),
    ("uniq a b", Operands(("a",), ("b",))),
    ("chmod +x a", Operands(("a",), ("a",))),
    ("sed -i s/a/b/ f", Operands(("f",), ("f",))),
    ("sed s/a/b/ f", Operands(("f",))),
    ("sed f -e p", Operands(("f",))),
    ("dd if=/a of=b", Operands(("if=/a", "/a"), ("if=/a", "/a"), ("if", "of=b", "of", "b"), ("if", "of=b", "of", "b"))),
    ("echo /a ../b", Operands()),
    ("timeout 5 cat a", Operands(("a",))),
    ("uv run cat a", Operands(("a",))),
    ("python -m json.tool a b", Operands(("a",), ("b",))),
    ("git commit -m /a", Operands()),
    ("git commit -am /a", Operands()),
    ("git commit -Fa", Operands((), (), ("a",))),
    ("git -C sub diff", Operands(("sub",), folders=("sub",))),
    ("git checkout a/b", Operands(("a/b",), ("a/b",))),
    ("x -Cd", Operands((), (), ("d",), ("d",))),
    ("x -o.git/a", Operands((".git/a",), (".git/a",))),
    ("x --out=.git/a", Operands((".git/a",), (".git/a",))),
    ("x http://a/b", Operands()),
]


@rows(("command", "named"), OPERANDS)
def test_operands(command: str, named: Operands) -> None:
    words = tuple(command.split())
    assert operands(words[0], words) == named


@rows(
    ("command", "advice", "not_advice"),
    [
        ("git -c a=b log", "in a sandbox", "allowed_commands"),
        ("find . -delete", "in a sandbox", "allowed_commands"),
        ("sort -T x y", "in a sandbox", "allowed_commands"),
        ("pytest -p evil", "in a sandbox", "allowed_commands"),
        ("python3 -c 'open(1)'", "in a sandbox", "allowed_commands"),
        ("npm publish", 'add "npm publish" to', "[permissions]"),
        ("pulumi plan", 'add "pulumi" to', "[permissions]"),
        ("timeout 5 pulumi plan", 'add "pulumi" to', "[permissions]"),
        ("absent x", "is not installed", "add "),
    ],
)
def test_what_a_refusal_advises(judge: Any, command: str, advice: str, not_advice: str) -> None:
    reason = judge("Bash", command=command).reason
    assert advice in reason
    assert not_advice not in reason
