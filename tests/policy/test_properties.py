"""What must hold for every call: refusals are never lifted, and quoting never loosens a verdict."""

from dataclasses import replace
from typing import Any, Protocol

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adderclaw import policy as gate
from adderclaw.policy import verdict
from adderclaw.policy.case import STRICTNESS, Case, Decision, Opinion
from tests.rows import rows


class Build(Protocol):
    def __call__(self, tool: Any = "Bash", **facts: Any) -> Case: ...


CALLS: list[dict[str, Any]] = [
    {"tool": "Read", "reads": ("/ws/a",)},
    {"tool": "Read", "reads": ("/etc/passwd",)},
    {"tool": "Write", "writes": ("/ws/a",)},
    {"tool": "Write", "writes": ("/ws/.git/config",)},
    {"tool": "Grep", "reads": ("/ws/secret",)},
    {"tool": "Bash", "command": "ls"},
    {"tool": "Bash", "command": "git push"},
    {"tool": "Bash", "command": "rm x"},
    {"tool": "Bash", "command": "cat secret/x > out"},
    {"tool": "Bash", "command": "pulumi $x"},
    {"tool": "Http", "url": "https://x.com/"},
    {"tool": "Http", "url": "https://x.com/", "method": "POST"},
    {"tool": "Http", "url": "http://127.0.0.1/"},
    {"tool": "mcp__a__b", "opaque": True},
    {"tool": "Time"},
]
RULES = [
    *["Read", "Edit", "Write", "Bash", "Http", "Time", "mcp__a", "Grep"],
    *["Read(secret)", "Edit(out)", "Edit(//**)", "Read(//**)", "Bash(*)", "Bash(git *)", "Bash(ls)", "Bash(cat:*)"],
    *["WebFetch(domain:*)", "Http(domain:x.com)", "Bash(pulumi *)", "mcp__a__*", "Bash(rm *)"],
]
some_rules = st.lists(st.sampled_from(RULES), max_size=3).map(tuple)
policies = st.fixed_dictionaries(
    {
        "autonomy": st.sampled_from(["readonly", "supervised", "full"]),
        "mode": st.sampled_from([None, "default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]),
        "autonomy_set": st.booleans(),
        "sandboxed": st.booleans(),
        "raw_bash": st.sampled_from(["deny", "ask"]),
        "workspace_only": st.booleans(),
    }
)
hooks = st.sampled_from([None, *(Opinion("hook", verdict, "x") for verdict in ("allow", "ask", "deny", None))])
calls = st.fixed_dictionaries(
    {"deny": some_rules, "ask": some_rules, "allow": some_rules, "policy": policies, "hook_opinion": hooks}
)
quiet = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def strictness(decision: Decision) -> int:
    return STRICTNESS[decision.verdict]


@quiet
@given(call=st.sampled_from(CALLS), more=calls, rule=st.sampled_from(RULES))
def test_a_further_deny_never_loosens(case: Build, call: dict[str, Any], more: dict[str, Any], rule: str) -> None:
    before = gate.judge(case(**call, **more))
    after = gate.judge(case(**call, **more | {"deny": (*more["deny"], rule)}))
    assert strictness(after) >= strictness(before)
    denied = replace(case(**call, **more), hook_opinion=Opinion("hook", "deny", "no"))
    assert gate.judge(denied).verdict == "deny"


@quiet
@given(call=st.sampled_from(CALLS), more=calls, rule=st.sampled_from(RULES))
def test_a_further_allow_lifts_no_deny_and_no_ask(
    case: Build, call: dict[str, Any], more: dict[str, Any], rule: str
) -> None:
    before = gate.judge(case(**call, **more))
    after = gate.judge(case(**call, **more | {"allow": (*more["allow"], rule)}))
    if before.by != "mode" and before.by != "no_operator":
        assert strictness(after) >= strictness(before)
    helped = replace(case(**call, **more), hook_opinion=Opinion("hook", "allow", "yes"))
    if before.by == "permission rules":
        assert strictness(gate.judge(helped)) >= strictness(before) or more["hook_opinion"] is not None


@quiet
@given(call=st.sampled_from(CALLS), more=calls)
def test_guards_cannot_be_lifted(case: Build, call: dict[str, Any], more: dict[str, Any]) -> None:
    made = case(**call, **more)
    decision = gate.judge(made)
    refusing = [name for name, guard in verdict.GUARDS if guard(made)]
    if refusing:
        assert (decision.verdict, decision.by) == ("deny", refusing[0])
        lifted = case(**call, **more | {"allow": tuple(RULES), "hook_opinion": Opinion("hook", "allow", "yes")})
        assert gate.judge(lifted).verdict == "deny"
    assert gate.judge(replace(made, estop=True)).by == "estop"


@quiet
@given(call=st.sampled_from(CALLS), more=calls)
def test_nobody_to_ask_is_never_looser(case: Build, call: dict[str, Any], more: dict[str, Any]) -> None:
    made = case(**call, **more)
    alone = gate.judge(replace(made, interactive=False))
    assert alone.verdict != "ask"
    assert strictness(alone) >= strictness(gate.judge(made))


@quiet
@given(call=st.sampled_from([call for call in CALLS if call.get("command") != "ls"]), more=calls)
def test_less_autonomy_is_never_looser(case: Build, call: dict[str, Any], more: dict[str, Any]) -> None:
    def judged(autonomy: str) -> int:
        policy = more["policy"] | {"autonomy": autonomy, "autonomy_set": True}
        return strictness(gate.judge(case(**call, **more | {"policy": policy})))

    assert judged("readonly") >= judged("supervised") >= judged("full")


# ------------------------------------------------------------------ quoting

COMMANDS = ["rm -rf x", "ls -la", "git push origin", "cat /etc/passwd", "pulumi plan", "python3 -c 1", "npm publish"]


def quoted_first(command: str) -> list[str]:
    """The same command with its program's name written in other ways."""
    name, rest = command.split(" ", 1)
    head, tail = name[0], name[1:]
    spellings = [f'{head}"{tail}"', f"\\{name}", f"'{name}'", f'"{name}"', f"{head}''{tail}", f"{head}\\{tail}"]
    return [f"{spelling} {rest}" for spelling in spellings]


def dressed(command: str) -> list[str]:
    return [
        f"  {command}  ",
        f"{command};",
        f"{command}\n",
        f"! {command}",
        f"ls && {command}",
        f"{command} | ls",
        f"ls; {command}",
        f"timeout 5 {command}",
        f"nice {command}",
        f"env {command}",
        f"env X=1 {command}",
        f"sudo {command}",
        f"X=1 {command}",
        f"({command})",
        f"{{ {command}; }}",
        f"$({command})",
        f"bash -c '{command}'",
        f"eval '{command}'",
        f"command {command}",
        f"{command} &",
        f"{command} > /dev/null",
        f"{command} 2>&1",
        f"if true; then {command}; fi",
    ]


VARIANTS = [(command, variant) for command in COMMANDS for variant in (*quoted_first(command), *dressed(command))]


@rows(("command", "variant"), VARIANTS)
@rows("autonomy", ["supervised", "full"])
def test_another_spelling_is_never_looser(case: Build, command: str, variant: str, autonomy: str) -> None:
    rules = {"deny": ("Bash(npm publish *)",), "ask": ("Bash(git push *)",), "policy": {"autonomy": autonomy}}
    plain = gate.judge(case("Bash", command=command, **rules))
    other = gate.judge(case("Bash", command=variant, **rules))
    assert strictness(other) >= strictness(plain), (plain.reason, other.reason)
