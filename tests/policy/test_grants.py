"""What "always allow" offers: nothing that cannot be said exactly, and rules that allow this call and no wider one."""

from dataclasses import replace
from typing import Any

import pytest

from adderclaw import policy as gate
from adderclaw.config.permissions import changed, grant
from adderclaw.config.schema import Permissions
from adderclaw.policy import grants
from adderclaw.policy.case import Case
from tests.policy.conftest import WS, build
from tests.rows import rows

NOT_OFFERED: list[tuple[str, dict[str, Any]]] = [
    ("raw bash", {"tool": "Bash", "command": "cat <(ls)", "policy": {"raw_bash": "ask"}}),
    ("a star would be a wildcard", {"tool": "Bash", "command": "echo 'a*'"}),
    ("blanks are folded in rules", {"tool": "Bash", "command": "echo 'a  b'"}),
    ("a line break", {"tool": "Bash", "command": "echo 'a\nb'"}),
    ("a redirect that writes", {"tool": "Bash", "command": "echo a > b"}),
    ("many commands", {"tool": "Bash", "command": "echo 1; echo 2; echo 3; echo 4; echo 5"}),
    ("code that comes by a pipe", {"tool": "Bash", "command": "cat a.py | python3", "policy": {"sandboxed": True}}),
    ("or in a wrapper", {"tool": "Bash", "command": "cat a.js | timeout 5 node -", "policy": {"sandboxed": True}}),
    ("a host", {"tool": "Http", "url": "https://x.org/"}),
    ("opaque", {"tool": "mcp__s__t", "opaque": True}),
    ("no path", {"tool": "MemoryWrite"}),
    ("a folder", {"tool": "LS", "reads": ("/srv",), "policy": {"workspace_only": False}}),
    ("through a link", {"tool": "Write", "writes": ((f"{WS}/l", f"{WS}/a"),)}),
    ("pattern letters in the path", {"tool": "Write", "writes": (f"{WS}/a[1].txt",)}),
    ("a backslash in the path", {"tool": "Write", "writes": (f"{WS}/a\\b",)}),
    ("two paths", {"tool": "Write", "writes": (f"{WS}/a", f"{WS}/b")}),
    ("a rule asks, which no grant lifts", {"tool": "Write", "writes": (f"{WS}/a",), "ask": ("Write",)}),
    ("a hook asks", {"tool": "Write", "writes": (f"{WS}/a",), "hook_opinion": gate.Opinion("hook", "ask", "")}),
]


@rows("facts", [row[1] for row in NOT_OFFERED], ids=[row[0] for row in NOT_OFFERED])
def test_is_not_offered(facts: dict[str, Any]) -> None:
    assert grants.exact_rules(build(**facts)) == ()


OFFERED: list[tuple[dict[str, Any], tuple[str, ...], list[dict[str, Any]]]] = [
    (
        {"tool": "Bash", "command": "make test"},
        ("Bash(make test)",),
        [{"command": "make"}, {"command": "make test x"}, {"command": "make 'test x'"}, {"command": "make test; ls"}],
    ),
    (
        {"tool": "Bash", "command": "mkdir -p 'a b'"},
        ("Bash(mkdir -p 'a b')",),
        [{"command": "mkdir -p a b"}, {"command": "mkdir -p 'a b' c"}],
    ),
    (
        {"tool": "Bash", "command": "cd sub && make"},
        ("Bash(cd sub)", "Bash(make)"),
        [{"command": "cd sub && make all"}, {"command": "cd other && make"}],
    ),
    (
        {"tool": "Write", "writes": (f"{WS}/a.txt",)},
        (f"Write(/{WS}/a.txt)",),
        [
            {"writes": (f"{WS}/b.txt",)},
            {"tool": "Edit", "writes": (f"{WS}/a.txt",)},
            {"writes": ((f"{WS}/a.txt", f"{WS}/c"),)},
        ],
    ),
]


def granted(case: Case, texts: tuple[str, ...]) -> Case:
    permissions = changed(Permissions(), grant(texts, "session"))
    policy = replace(case.policy, fixed_roots=case.policy.roots)
    return replace(case, policy=gate.with_permissions(policy, permissions, lambda path: path))


@pytest.mark.parametrize(("facts", "texts", "others"), OFFERED, ids=[row[1][0] for row in OFFERED])
def test_grants_this_and_no_more(facts: dict[str, Any], texts: tuple[str, ...], others: list[dict[str, Any]]) -> None:
    case = build(**facts)
    assert gate.judge(case).verdict == "ask"
    assert grants.exact_rules(case) == texts
    assert gate.judge(granted(case, texts)).verdict == "allow"
    for other in others:
        assert gate.judge(granted(build(**{**facts, **other}), texts)).verdict != "allow", other


@rows("rule", ["python3", "python3 -", "bash", "timeout 5 python3", "make -f -", "uv run -", "deno run -"])
@rows("sandboxed", [False, True])
def test_a_rule_without_a_star_grants_no_code_of_standard_input(rule: str, sandboxed: bool) -> None:
    """It said `python3`, and not what python3 is to run."""
    facts: dict[str, Any] = {"allow": (f"Bash({rule})",), "policy": {"sandboxed": sandboxed}}
    case = build("Bash", command=f"{rule} <<< 'echo 1'", **facts)
    assert gate.judge(case).by != "permission rules"
    wide = build("Bash", command="python3 <<< 'print(1)'", allow=("Bash(python3:*)",), policy={"sandboxed": True})
    assert gate.judge(wide).by == "permission rules"


CODE = {
    "python3 -c 'print(1)'": "Bash(python3:*)",
    "python3 -Ic 'print(1)'": "Bash(python3 *)",
    "python3.12 -c 'print(1)'": "Bash(python3.12:*)",
    "python3 <<< 'print(1)'": "Bash(python3:*)",
    "cat x | python3": "Bash",
    "python3 -i x.py <<< 'print(1)'": "Bash(python3:*)",
    "python3 -m timeit 1+1": "Bash(python3:*)",
    "python3 -Im timeit 1+1": "Bash(python3:*)",
    "python3 -m pdb -c run x.py": "Bash(python3:*)",
    "python3 -m code <<< 'print(1)'": "Bash(python3 -m *)",
    "timeout 5 python3 -c 'print(1)'": "Bash(timeout:*)",
    "timeout 5 nice python3 -c 'print(1)'": "Bash(python3:*)",
    "bash -c 'python3 -c 1'": "Bash(bash:*)",
    "uv run python -c 'print(1)'": "Bash(uv run:*)",
    "node -e 1": "Bash(node:*)",
    "node --test --test-reporter=data:text/javascript,x": "Bash(node:*)",
    "node --import data:text/javascript,x y.js": "Bash(node:*)",
    "node --import=' DA\tTA:text/javascript,x' y.js": "Bash(node:*)",
    "node --loader data:text/javascript,x y.js": "Bash(node:*)",
    "node --no-such-option x --import=data:text/javascript,x": "Bash(node:*)",
    "deno run data:text/javascript,x": "Bash(deno:*)",
    "php -d auto_prepend_file=data:text/plain,x y.php": "Bash(php:*)",
    "perl -e 1": "Bash(perl:*)",
    "perl '-Mstrict;system(1)' x.pl": "Bash(perl:*)",
    "awk 'BEGIN{system(1)}'": "Bash(awk:*)",
    "gawk -e 'BEGIN{system(1)}'": "Bash(gawk:*)",
    "gawk -i x 'BEGIN{system(1)}'": "Bash(gawk:*)",
    "node -r ./x.js -e 1": "Bash(node:*)",
    "node --require ./x.js --eval 1": "Bash(node:*)",
    "node -C x -e 1": "Bash(node:*)",
    "node --env-file x -p 1": "Bash(node:*)",
    "coverage run -m timeit 1": "Bash(coverage:*)",
    "python3 -m coverage run -m timeit 1": "Bash(python3:*)",
    "python3 manage.py shell -c x": "Bash(python3:*)",
    "python3 -m cProfile -m timeit 1": "Bash(python3:*)",
    "python3 -m cProfile --sor x -m timeit 1": "Bash(python3:*)",
    "python3 -m runpy timeit 1": "Bash(python3:*)",
    "python3 --check-hash-based-pycs always -c 1": "Bash(python3:*)",
    "bun run -e 1": "Bash(bun:*)",
    "bun --cwd .x -e 1": "Bash(bun:*)",
    "make --eval='x:;id'": "Bash(make:*)",
    "make CC=x all --ev 'x:;id'": "Bash(make:*)",
    "make -kE 'x:;id'": "Bash(make:*)",
    "make 'X=$(shell id)'": "Bash(make:*)",
    "make -f - <<< 'x:;id'": "Bash(make:*)",
    "sed '1e id' x": "Bash(sed:*)",
    "sed --no-such-option -e '1e id' x": "Bash(sed:*)",
    "deno run - <<< 1": "Bash(deno:*)",
    "deno run -A - <<< 1": "Bash(deno:*)",
    "uv run - <<< 'print(1)'": "Bash(uv:*)",
    "uv run --with x - <<< 'print(1)'": "Bash(uv run:*)",
}
FILES = (
    "python3 x.py data:1",
    "node x.js --import=data:x",
    "python3 -m pytest -q",
    "node --test",
    "awk '{print}' x",
    "make -e test",
    "make X=1",
    "sed -n 1p x",
    "bun run build -e x",
    "awk -f x.awk y",
    "coverage run x.py",
    "python3 manage.py test",
    "python3 -m cProfile -o x y.py",
    "bun install --no-such-option",
    "perl -w x.pl",
)


@rows("command", CODE)
def test_without_a_sandbox_a_star_allows_no_code_that_stands_in_a_command(command: str) -> None:
    """X-77: it is denied there; in a sandbox the rule counts."""
    allow = (CODE[command],)
    decision = gate.judge(build("Bash", command=command, allow=allow))
    assert (decision.verdict, decision.denial) in {("deny", "no sandbox"), ("deny", "not listed")}, decision
    listed = {"allowed_commands": ("python3.12", "python3", "perl", "php", "deno")}
    assert gate.judge(build("Bash", command=command, allow=allow, policy=listed)).denial == "no sandbox"
    assert gate.judge(build("Bash", command=command, allow=allow, policy={"sandboxed": True})).verdict == "allow"


@rows("command", FILES)
def test_what_lies_in_a_file_is_allowed_by_a_rule(command: str) -> None:
    allow = (f"Bash({command.split()[0]}:*)",)
    assert gate.judge(build("Bash", command=command, allow=allow)).by == "permission rules"


def test_a_rule_that_says_all_of_the_code_allows_it() -> None:
    said = "python3 -c 'print(1)'"
    assert gate.judge(build("Bash", command=said, allow=(f"Bash({said})",))).verdict == "allow"
    refused = gate.judge(build("Bash", command=f"{said[:-1]};x()'", allow=(f"Bash({said})",)))
    assert (refused.verdict, refused.denial) == ("deny", "no sandbox")
    assert "a rule in [permissions] allow that says all of it, without a star" in refused.reason
