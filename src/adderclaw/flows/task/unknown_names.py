"""Finds the skills, files and scripts named in a decision that do not exist or cannot be used."""

from adderclaw.core.decode import decode
from adderclaw.core.errors import PathRefused
from adderclaw.flows.task.contracts import ActionStep, CallSkill, ModelDecision
from adderclaw.flows.task.task_skills import TaskSkills


def unknown_names(decision: ModelDecision, skills: TaskSkills) -> list[str]:
    """Lists every name that prevents a decision from being carried out, with its position in the decision."""
    selected = decision.selected_skill or ""
    if selected and selected not in skills.offered:
        known = ", ".join(skills.offered[:50]) or "none"
        return [f"selected_skill: {selected!r} is not a candidate; the candidates are: {known}"]
    wrong: list[str] = []
    if decision.required_disclosure_paths:
        if not selected:
            wrong.append("required_disclosure_paths: set selected_skill to the skill that these paths belong to")
        else:
            reasons = skills.refusals(selected, decision.required_disclosure_paths)
            wrong += [f"required_disclosure_paths: {reason}" for reason in reasons]
    for index, action in enumerate(decision.planned_actions):
        if action.type == "call_skill":
            problems = _script_problems(action, selected, skills)
            wrong += [f"planned_actions[{index}].params.{problem}" for problem in problems]
    return wrong


def _script_problems(action: ActionStep, selected: str, skills: TaskSkills) -> list[str]:
    params = decode(CallSkill, action.params)
    name = params.skill or selected
    if name not in skills.offered:
        return [f"skill: {name!r} is not a candidate"]
    if not params.script:
        return []
    try:
        skills.argv(name, params.script)
    except PathRefused as error:
        known = ", ".join(skills.scripts(name)) or "none"
        return [f"script: {error.reason} (scripts of {name}: {known})"]
    return []
