"""The verdict on a call: asks all guards and judges, and the mode if no judge has an opinion."""

from collections.abc import Callable

from adderclaw.config.run_later_names import names
from adderclaw.policy import guards, judges, modes
from adderclaw.policy.case import STRICTNESS, Case, CommandDenial, Decision, Opinion
from adderclaw.policy.legacy import remotes, removal
from adderclaw.policy.legacy.shell.planner import Raw
from adderclaw.policy.risk import AssessedRisk, risk_of

names()  # read on import, so that judging opens no file

type Guard = Callable[[Case], str | None]
type Judge = Callable[[Case], Opinion | None]


def policy_files(case: Case) -> Opinion | None:
    """The opinion of the policy.toml files, if there are any."""
    if not case.policy.files:
        return None
    from adderclaw.policy.policy_file import policy_files as judged  # most runs have no policy.toml

    return judged(case)


# If several deny, the first gives the reason: denials that no setting can lift come first.
GUARDS: tuple[tuple[str, Guard], ...] = (
    ("estop", guards.estop),
    ("trust", guards.trust),
    ("phase", guards.phase),
    ("readonly", guards.readonly),
    ("forbidden_commands", guards.forbidden_commands),
    ("destructive", guards.destructive),
    ("protected", guards.protected),
    ("forbidden_paths", guards.forbidden_paths),
    ("workspace", guards.workspace),
    ("hosts", guards.web_hosts),
)
DENIALS: dict[str, CommandDenial] = {
    "forbidden_commands": "forbidden",
    "forbidden_paths": "forbidden",
    "destructive": "destructive",
    "protected": "protected",
    "workspace": "outside",
}
"""Guards of commands and files, with the denial of each."""
JUDGES: tuple[tuple[str, Judge], ...] = (
    ("hook", judges.hook),
    ("permission rules", judges.permission_rules),
    ("policy.toml", policy_files),
)
"""Opinions of the operator: the strictest replaces the decision of the mode."""
QUESTIONS: tuple[tuple[str, Judge], ...] = (
    ("checkpoint", removal.cannot_be_undone),
    ("run later", guards.run_later),
    ("other projects", judges.other_projects),
    ("git remote", remotes.remotes),
)
"""They turn an allowed call into a question; denied calls stay denied."""


def judge(case: Case) -> Decision:
    """The first guard that denies decides, else the strictest judge, else the mode; questions are added."""
    weighed = risk_of(case)
    refusals = [(name, guard(case)) for name, guard in GUARDS]
    judged = [(name, opinion(case)) for name, opinion in JUDGES]
    questioned = [(name, question(case)) for name, question in QUESTIONS]
    by_mode = modes.decide(case, weighed)
    opinions = (
        *(_refusal(name, reason) for name, reason in refusals),
        *(opinion or Opinion(name, None, "") for name, opinion in (*judged, *questioned)),
        by_mode,
    )
    refused = next((opinion for opinion in opinions[: len(GUARDS)] if opinion.verdict), None)
    if refused is not None:
        return _decision(case, weighed, refused, opinions)
    judge_opinions = [opinion for _, opinion in judged if opinion is not None and opinion.verdict is not None]
    # A rule that asks about raw bash does not lift what the mode denies: only `raw_bash` does.
    mode = [by_mode] if not judge_opinions or isinstance(case.touch.command, Raw) else []
    candidates = [*judge_opinions, *(opinion for _, opinion in questioned if opinion is not None), *mode]
    strictest = _without_operator(case, max(candidates, key=_strictness))
    return _decision(case, weighed, strictest, opinions)


def _refusal(name: str, reason: str | None) -> Opinion:
    return Opinion(name, "deny", reason, DENIALS.get(name)) if reason else Opinion(name, None, "")


def _decision(case: Case, weighed: AssessedRisk, last: Opinion, opinions: tuple[Opinion, ...]) -> Decision:
    return Decision(last.verdict or "deny", weighed.risk, last.reason, last.by, opinions, case.tool, last.denial)


def _strictness(opinion: Opinion) -> int:
    return STRICTNESS[opinion.verdict] if opinion.verdict is not None else -1


def sandbox_note(case: Case) -> str:
    """A note on the sandbox view for a question about raw bash; not part of the reason, which a replay compares."""
    offline = isinstance(case.touch.command, Raw) and case.policy.bubblewrap
    return "it runs with the network off" if offline else ""


def terminal_only(case: Case) -> bool:
    """Whether raw bash is asked about only because a person is at the terminal: then only that person may say yes."""
    return isinstance(case.touch.command, Raw) and case.policy.raw_bash != "ask"


def _without_operator(case: Case, opinion: Opinion) -> Opinion:
    """Deny what would be asked if no operator can be asked."""
    if opinion.verdict != "ask":
        return opinion
    if case.policy.mode == "dontAsk":
        return Opinion("mode", "deny", f"{opinion.reason}: dontAsk denies what would be asked")
    if not case.interactive:
        return Opinion("no_operator", "deny", f"no_operator: {opinion.reason}, and nobody is there to ask")
    return opinion
