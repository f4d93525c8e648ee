"""Permission rules: syntax, commands, paths, domains, names; deny over ask over allow."""

from typing import Any

import pathspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adderclaw.core.glob_patterns import gitignore_tree
from adderclaw.policy import rules
from adderclaw.policy.case import Decision
from adderclaw.policy.rules import Anchors, InvalidRule, Rule
from tests.rows import rows

ANCHORS = Anchors("/ws", "/ws", "/home/u")
ALIASES = {"shell": "Bash", "bash": "Bash", "file_read": "Read", "read": "Read", "file_write": "Write", "http": "Http"}


def parse(text: str, behaviour: Any = "deny") -> Rule:
    return rules.parse(text, behaviour, ANCHORS, ALIASES)


# ------------------------------------------------------------------ syntax


@rows(
    ("text", "behaviour"),
    [
        ("", "deny"),
        ("Bash(", "deny"),
        ("Bash)", "deny"),
        ("Bash()", "deny"),
        ("Bash(  )", "deny"),
        ("Bash(ls) x", "deny"),
        ("(ls)", "deny"),
        ("Read(!secret)", "deny"),
        ("Read(../x)", "deny"),
        ("Read([a)", "deny"),
        ("Read(a\0b)", "deny"),
        ("WebFetch(example.com)", "deny"),
        ("WebFetch(domain:)", "allow"),
        ("WebSearch(x)", "deny"),
        ("Time(x)", "deny"),
        ("Agent2(model:opus)", "allow"),
        ("mcp__*", "allow"),
        ("*", "allow"),
        ("mcp__a*__b", "allow"),
        ("Time(path:x)", "deny"),
        ("Http(method:PUT)", "allow"),
        ("WebFetch(url:https://x.com)", "deny"),
        ("Bash(command:git push)", "deny"),
        ("Read(file_path: .env)", "deny"),
        ("NotebookEdit(notebook_path:a.ipynb)", "ask"),
    ],
)
def test_invalid_rules_are_dropped_with_a_warning(text: str, behaviour: Any) -> None:
    with pytest.raises(InvalidRule):
        parse(text, behaviour)
    sets = {"deny": (), "ask": (), "allow": ()} | {behaviour: (text, "Time")}
    read = rules.parse_all(sets["deny"], sets["ask"], sets["allow"], ANCHORS)
    assert len(read.deny + read.ask + read.allow) == 1
    assert len(read.warnings) == 1
    assert repr(text) in read.warnings[0]


def test_an_unknown_tool_is_said() -> None:
    read = rules.parse_all(("Reed", "mcp__x"), (), (), ANCHORS, None, ("Read", "Bash"))
    assert len(read.warnings) == 1
    assert "Reed" in read.warnings[0]


@pytest.mark.parametrize(("text", "tool"), [("shell(ls)", "Bash"), ("file_read", "Read"), ("Bash", "Bash")])
def test_aliases_become_canonical(text: str, tool: str) -> None:
    assert parse(text).tool == tool


# ------------------------------------------------------------------ commands

COMMANDS = [
    ("Bash(ls)", "ls", True),
    ("Bash(ls)", "ls -la", False),
    ("Bash(ls *)", "ls", True),
    ("Bash(ls *)", "ls -la x", True),
    ("Bash(ls *)", "lsof", False),
    ("Bash(ls*)", "lsof", True),
    ("Bash(ls:*)", "ls", True),
    ("Bash(ls:*)", "ls -la", True),
    ("Bash(ls:*)", "lsof", False),
    ("Bash(npm run:*)", "npm run build", True),
    ("Bash(npm run:*)", "npm runner", False),
    ("Bash(a:b *)", "a:b c", True),
    ("Bash(* --version)", "node --version", True),
    ("Bash(git * main)", "git checkout main", True),
    ("Bash(git * main)", "git checkout main2", False),
    ("Bash(*)", "anything at all", True),
    ("Bash", "anything", True),
    ("Bash(git  status)", "git   status", True),
    ("Bash(git log *)", "git log --oneline", True),
    ("Bash(git log *)", "git logs", False),
    ("Bash(echo a.b)", "echo axb", False),
]


@pytest.mark.parametrize(
    ("words", "reads_code"),
    [
        ("node -r ./x.js", True),
        ("node --require ./x.js", True),
        ("node -r ./x.js app.js", False),
        ("python3 -", True),
        ("python3 app.py", False),
        ("ruby -r ./x", True),
        ("ruby -r ./x app.rb", False),
    ],
)
def test_an_exact_rule_does_not_allow_code_on_standard_input(judge: Any, words: str, reads_code: bool) -> None:
    decision: Decision = judge("Bash", command=f"echo x | {words}", allow=("Bash(echo x)", f"Bash({words})"))
    assert (decision.verdict == "allow") is not reads_code, decision.reason


@rows(("rule", "command", "matches"), COMMANDS)
@rows("behaviour", ["deny", "ask", "allow"])
def test_command_patterns(judge: Any, rule: str, command: str, matches: bool, behaviour: str) -> None:
    decision: Decision = judge("Bash", command=command, policy={"forbidden_commands": ()}, **{behaviour: (rule,)})
    assert (decision.by == "permission rules") is matches, decision.reason
    if matches:
        assert decision.verdict == behaviour


@rows(
    ("rule", "command"),
    [
        ("Bash(git push *)", "git status && git push"),
        ("Bash(git push *)", "git status | git push x"),
        ("Bash(git push *)", 'gi"t" push'),
        ("Bash(git push *)", "git   'push'"),
        ("Bash(git push *)", "/usr/bin/git push"),
        ("Bash(git push *)", "/tmp/git push"),
        ("Bash(git push *)", "timeout 5 git push"),
        ("Bash(git push *)", "nice -n 3 nohup git push"),
        ("Bash(git push *)", "echo $x; git push"),
        ("Bash(git push *)", "A=1; git 'push' origin"),
        ("Bash(git push *)", "if true; then git push; fi"),
        ("Bash(git push *)", "echo $(git push)"),
        ("Bash(* && *)", "ls && ls"),
        ("Bash(run_in_background:true)", "ls"),
    ],
)
def test_a_refusing_rule_meets_any_part(judge: Any, rule: str, command: str) -> None:
    facts: dict[str, Any] = {"command": command, "arguments": {"command": command, "run_in_background": True}}
    decision: Decision = judge("Bash", **facts, deny=(rule,), allow=("Bash",), policy={"autonomy": "full"})
    assert {o.by: o.verdict for o in decision.opinions}["permission rules"] == "deny"
    if "/tmp" not in command:
        assert judge("Bash", **facts, ask=(rule,), allow=("Bash",), policy={"autonomy": "full"}).verdict == "ask"


@rows(
    ("allow", "command", "verdict"),
    [
        (("Bash(git status)",), "git status && pulumi apply", "deny"),
        (("Bash(git status)", "Bash(pulumi *)"), "git status && pulumi apply", "allow"),
        (("Bash(pulumi *)",), "pulumi plan", "allow"),
        (("Bash(pulumi *)",), "'pulumi' plan", "allow"),
        (("Bash(pulumi *)",), "./pulumi plan", "ask"),
        (("Bash(pulumi *)",), "/tmp/pulumi plan", "deny"),
        (("Bash(pulumi plan)",), "pulumi 'plan x'", "deny"),
        (("Bash(pulumi a b)",), "pulumi 'a b'", "deny"),
        (('Bash(pulumi "a b")',), 'pulumi "a b"', "allow"),
        (("Bash(pulumi *)",), "pulumi $x", "deny"),
        (("Bash(*)",), "pulumi $(x)", "deny"),
        (("Bash",), "for i in $1; do ls; done", "deny"),
        (("Bash(pulumi *)",), "timeout 5 pulumi plan", "allow"),
        (("Bash(pulumi plan)",), "nohup nice -n 5 pulumi plan", "allow"),
        (("Bash(pulumi plan)",), "timeout 5 pulumi apply", "deny"),
        (("Bash(pulumi *)",), "timeout --strange pulumi plan", "deny"),
        (("Bash(pulumi *)",), "env pulumi plan", "deny"),
        (("Bash(pulumi *)",), "xargs -n1 pulumi plan", "deny"),
        (("Bash(env *)",), "env pulumi plan", "deny"),
        (("Bash(watch *)",), "watch pulumi plan", "deny"),
        (("Bash(timeout *)",), "timeout 5 watch pulumi plan", "deny"),
        (("Bash(find *)",), "find . -exec pulumi plan {} +", "deny"),
        (("Bash(find *)",), "find . -delete", "deny"),
        (("Bash(find *)",), "timeout 5 find . -delete", "deny"),
        (("Bash(find:*)",), "find . -fprint out.txt", "deny"),
        (("Bash(find . -delete)",), "find . -delete", "allow"),
        (("Bash(find *)",), "find . -name x", "allow"),
        (("Bash(ls *)",), "CI=1 ls -la", "allow"),
        (("Bash(ls *)",), "lsof", "ask"),
        (("Bash(ls*)",), "ls", "allow"),
        (("Bash(ls:*)",), "ls", "allow"),
        (("Bash(ls:* x)",), "ls x", "ask"),
        (("Bash(pulumi *)",), "pulumi plan > out.txt", "deny"),
        (("Bash(pulumi *)", "Edit(out.txt)"), "pulumi plan > out.txt", "allow"),
        (("Bash(pulumi *)", "Edit(other.txt)"), "pulumi plan > out.txt", "deny"),
        (("Bash(pulumi *)",), "pulumi plan 2>/dev/null", "allow"),
        (("Bash(pulumi *)",), "pulumi plan 2>&1", "allow"),
        (("Read",), "pulumi plan", "deny"),
    ],
)
def test_an_allowing_rule_needs_every_part(judge: Any, allow: tuple[str, ...], command: str, verdict: str) -> None:
    assert judge("Bash", command=command, allow=allow).verdict == verdict


# ------------------------------------------------------------------ paths

PATHS = [
    ("Read(.env)", "/ws/.env", True),
    ("Read(.env)", "/ws/a/b/.env", True),
    ("Read(.env)", "/ws/.env.local", False),
    ("Read(.env)", "/other/.env", False),
    ("Read(./.env)", "/ws/.env", True),
    ("Read(./.env)", "/ws/a/.env", False),
    ("Read(/src/**)", "/ws/src/a/b", True),
    ("Read(/src/**)", "/ws/a/src/b", False),
    ("Read(//etc/**)", "/etc/passwd", True),
    ("Read(//etc/**)", "/ws/etc/passwd", False),
    ("Read(~/.aws/*)", "/home/u/.aws/credentials", True),
    ("Read(~/.aws/*)", "/ws/.aws/credentials", False),
    ("Read(*.key)", "/ws/a/x.key", True),
    ("Read(docs/*.md)", "/ws/docs/a.md", True),
    ("Read(docs/*.md)", "/ws/docs/x/a.md", False),
    ("Read(docs/*.md)", "/ws/x/docs/a.md", False),
    ("Read(**/secret/**)", "/ws/a/secret/b", True),
    ("Read(secret)", "/ws/secret/deep/file", True),
    ("Read(secret/)", "/ws/secret/file", True),
    ("Read(secret/)", "/ws/secret", False),
    ("Read(a?c)", "/ws/abc", True),
    ("Read(a?c)", "/ws/a/c", False),
    ("Read([ab].txt)", "/ws/b.txt", True),
    ("Read([!ab].txt)", "/ws/b.txt", False),
    ("Read(a\\*b)", "/ws/a*b", True),
    ("Read(a\\*b)", "/ws/axb", False),
    ("Read(/)", "/ws/anything", True),
    ("Read(a.b)", "/ws/axb", False),
]


@rows(("rule", "path", "matches"), PATHS)
def test_path_patterns(judge: Any, rule: str, path: str, matches: bool) -> None:
    policy = {"workspace_only": False, "forbidden_paths": ()}
    for behaviour in ("deny", "ask", "allow"):
        decision: Decision = judge("Read", reads=(path,), policy=policy, **{behaviour: (rule,)})
        assert (decision.by == "permission rules") is matches, (behaviour, decision.reason)


def test_one_folder_and_all_below_it(judge: Any) -> None:
    for path, denied, allowed in (("/ws/src/a", True, True), ("/ws/x/src/a", True, False)):
        assert (judge("Read", reads=(path,), deny=("Read(src/**)",)).verdict == "deny") is denied
        by_rule = judge("Edit", writes=(path,), allow=("Edit(src/**)",)).by == "permission rules"
        assert by_rule is allowed


@rows(
    ("tool", "facts", "rule", "behaviour", "verdict"),
    [
        # links: refusing needs either, allowing needs both
        ("Read", {"reads": (("/ws/l", "/ws/secret/x"),)}, "Read(secret)", "deny", "deny"),
        ("Read", {"reads": (("/ws/secret/l", "/ws/x"),)}, "Read(secret)", "deny", "deny"),
        ("Edit", {"writes": (("/ws/ok/l", "/ws/x"),)}, "Edit(/ok/**)", "allow", "ask"),
        ("Edit", {"writes": (("/ws/l", "/ws/ok/x"),)}, "Edit(/ok/**)", "allow", "ask"),
        ("Edit", {"writes": (("/ws/ok/l", "/ws/ok/x"),)}, "Edit(/ok/**)", "allow", "allow"),
        # upper and lower case
        ("Read", {"reads": ("/ws/.ENV",)}, "Read(.env)", "deny", "deny"),
        ("Edit", {"writes": ("/ws/OK/x",)}, "Edit(/ok/**)", "allow", "ask"),
        # families
        ("Grep", {"reads": ("/ws/secret",)}, "Read(secret)", "deny", "deny"),
        ("Glob", {"reads": ("/ws/secret",)}, "Read(secret)", "deny", "deny"),
        ("LS", {"reads": ("/ws/secret",)}, "Read(secret)", "deny", "deny"),
        ("Write", {"writes": ("/ws/secret",)}, "Read(secret)", "deny", "deny"),
        ("Edit", {"writes": ("/ws/secret",)}, "Read(secret)", "deny", "deny"),
        ("Write", {"writes": ("/ws/x",)}, "Edit(x)", "allow", "allow"),
        ("Write", {"writes": ("/ws/x",)}, "Edit(x)", "deny", "deny"),
        ("NotebookEdit", {"writes": ("/ws/x",)}, "Edit(x)", "deny", "deny"),
        ("Write", {"writes": ("/ws/x",)}, "Write(x)", "allow", "allow"),
        ("Edit", {"writes": ("/ws/x",)}, "Write(x)", "allow", "ask"),
        ("Write", {"writes": ("/ws/x",)}, "Edit", "allow", "allow"),
        ("Grep", {"reads": ("/ws/x",)}, "Read", "deny", "deny"),
        ("Write", {"writes": ("/ws/x",)}, "Read", "deny", "ask"),
        ("Read", {"reads": ("/ws/x",)}, "Edit(x)", "deny", "allow"),
        # commands are held to them
        ("Bash", {"command": "cat secret/x"}, "Read(secret)", "deny", "deny"),
        ("Bash", {"command": "cat secret/x"}, "Read(secret)", "ask", "ask"),
        ("Bash", {"command": "ls > x"}, "Edit(x)", "deny", "deny"),
        ("Bash", {"command": "cp a x"}, "Edit(x)", "deny", "deny"),
        ("Bash", {"command": "cd secret && cat x"}, "Read(secret)", "deny", "deny"),
    ],
)
def test_path_rules(judge: Any, tool: str, facts: dict[str, Any], rule: str, behaviour: str, verdict: str) -> None:
    assert judge(tool, **facts, **{behaviour: (rule,)}).verdict == verdict


segment = st.text("ab*?", min_size=1, max_size=3).filter(lambda text: text != "**" and "**" not in text)
segments = st.lists(st.one_of(segment, st.just("**")), min_size=1, max_size=3).map("/".join)
pattern = st.tuples(st.sampled_from(["", "/"]), segments, st.sampled_from(["", "/"])).map("".join)
pattern = pattern.filter(lambda text: not text.endswith("**/"))  # where git and pathspec differ
path = st.lists(st.text("ab", min_size=1, max_size=2), min_size=1, max_size=4).map("/".join)


@settings(max_examples=500, deadline=None)
@given(pattern=pattern, path=path)
def test_gitignore_as_pathspec_has_it(pattern: str, path: str) -> None:
    import re

    theirs = pathspec.GitIgnoreSpec.from_lines([pattern]).match_file(path)
    ours = re.fullmatch(gitignore_tree(pattern), path) is not None
    assert ours == theirs, (pattern, path, gitignore_tree(pattern))


# ------------------------------------------------------------------ domains, names, fields


@rows(
    ("tool", "url", "method", "rule", "behaviour", "verdict"),
    [
        ("WebFetch", "https://x.com/", "GET", "WebFetch(domain:x.com)", "allow", "allow"),
        ("Http", "https://x.com/", "GET", "WebFetch(domain:x.com)", "allow", "allow"),
        ("Http", "https://x.com/", "POST", "WebFetch(domain:x.com)", "allow", "deny"),
        ("Http", "https://x.com/", "POST", "WebFetch", "allow", "deny"),
        ("Http", "https://x.com/", "POST", "Http(domain:x.com)", "allow", "allow"),
        ("Http", "https://x.com/", "POST", "Http", "allow", "allow"),
        ("Http", "https://X.COM./", "GET", "WebFetch(domain:x.com)", "deny", "deny"),
        ("Http", "https://a.x.com/", "GET", "WebFetch(domain:x.com)", "allow", "ask"),
        ("Http", "https://a.b.x.com/", "GET", "WebFetch(domain:*.x.com)", "deny", "deny"),
        ("Http", "https://x.com/", "GET", "WebFetch(domain:*.x.com)", "deny", "ask"),
        ("Http", "https://x.com/", "GET", "WebFetch(domain:*)", "deny", "deny"),
        ("WebFetch", "https://x.com/", "GET", "Http(domain:x.com)", "deny", "ask"),
        ("Http", "http://127.0.0.1/", "GET", "Http(domain:127.0.0.1)", "allow", "deny"),
    ],
)
def test_domains(judge: Any, tool: str, url: str, method: str, rule: str, behaviour: str, verdict: str) -> None:
    assert judge(tool, url=url, method=method, **{behaviour: (rule,)}).verdict == verdict


@rows(
    ("tool", "rule", "behaviour", "verdict"),
    [
        ("mcp__git__push", "mcp__git", "deny", "deny"),
        ("mcp__git__push", "mcp__git", "allow", "allow"),
        ("mcp__git__push", "mcp__git__*", "allow", "allow"),
        ("mcp__git__push", "mcp__git__pu*", "allow", "allow"),
        ("mcp__git__push", "mcp__git__push", "allow", "allow"),
        ("mcp__git__push", "mcp__git__pull", "allow", "ask"),
        ("mcp__github__push", "mcp__git", "allow", "ask"),
        ("mcp__github__push", "mcp__git", "deny", "ask"),
        ("mcp__git__push", "mcp__*", "deny", "deny"),
        ("mcp__git__push", "*", "ask", "ask"),
        ("mcp__git__push", "*push", "deny", "deny"),
        ("mcp__git__push", "mcp__*", "allow", "ask"),
    ],
)
def test_names(judge: Any, tool: str, rule: str, behaviour: str, verdict: str) -> None:
    assert judge(tool, opaque=True, **{behaviour: (rule,)}).verdict == verdict


@rows(
    ("tool", "arguments", "rule", "behaviour", "matches"),
    [
        ("Agent", {"subagent_type": "explore"}, "Agent(explore)", "deny", True),
        ("Agent", {"subagent_type": "other"}, "Agent(explore)", "deny", False),
        ("Agent", {"subagent_type": "x", "model": "opus"}, "Agent(model:opus)", "deny", True),
        ("Agent", {"subagent_type": "x", "model": "opus"}, "Agent(model : op*)", "ask", True),
        ("Agent", {"subagent_type": "x"}, "Agent(model:*)", "deny", False),
        ("Agent", {"model": ["opus"]}, "Agent(model:*)", "deny", False),
        ("Skill", {"skill": "pdf"}, "Skill(pdf)", "allow", True),
        ("Skill", {"skill": "pdf extract"}, "Skill(pdf *)", "allow", True),
        ("Skill", {"skill": "pdfx"}, "Skill(pdf *)", "allow", False),
        ("mcp__a__b", {"force": True}, "mcp__a__b(force:true)", "deny", True),
        ("mcp__a__b", {"force": False}, "mcp__a__b(force:true)", "deny", False),
        ("mcp__a__b", {"n": 3}, "mcp__a__b(n:3)", "ask", True),
        ("WebFetch", {"prompt": "secrets"}, "WebFetch(prompt:sec*)", "deny", True),
        ("Http", {"method": "PUT"}, "Http(method:PUT)", "ask", True),
        ("Http", {"method": "GET"}, "Http(method:PUT)", "deny", False),
        ("Grep", {"output_mode": "content"}, "Grep(output_mode:content)", "deny", True),
        ("Grep", {"output_mode": "count"}, "Grep(output_mode:content)", "deny", False),
        ("Read", {"output_mode": "content"}, "Grep(output_mode:content)", "deny", False),
    ],
)
def test_fields(judge: Any, tool: str, arguments: Any, rule: str, behaviour: str, matches: bool) -> None:
    decision: Decision = judge(tool, arguments=arguments, opaque=True, **{behaviour: (rule,)})
    assert (decision.by == "permission rules") is matches, decision


def test_deny_over_ask_over_allow(judge: Any) -> None:
    every = {"deny": ("Bash(git push *)",), "ask": ("Bash(git *)",), "allow": ("Bash",)}
    assert judge("Bash", command="git push", **every).verdict == "deny"
    assert judge("Bash", command="git status", **every).verdict == "ask"
    assert judge("Bash", command="ls", **every).verdict == "allow"
