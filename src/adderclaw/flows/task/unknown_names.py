"""What a decision names: the skills, files and scripts that are not there, or not to be reached."""

from adderclaw.core.decode import decode
from adderclaw.core.errors import PathRefused
from adderclaw.flows.task.contracts import ActionStep, CallSkill, ModelDecision
from adderclaw.flows.task.task_skills import Disclosing


def unknown(made: ModelDecision, shown: Disclosing) -> list[str]:
    """Each thing that keeps a decision from being carried out, with the place in it."""
    chosen = made.selected_skill or ""
    if chosen and chosen not in shown.offered:
        return [f"selected_skill: {chosen!r} is no candidate; there are: {', '.join(shown.offered[:50]) or 'none'}"]
    wrong: list[str] = []
    if made.required_disclosure_paths:
        if not chosen:
            wrong.append("required_disclosure_paths: they need the skill that they belong to as selected_skill")
        else:
            found = shown.refusals(chosen, made.required_disclosure_paths)
            wrong += [f"required_disclosure_paths: {reason}" for reason in found]
    for place, action in enumerate(made.planned_actions):
        if action.type == "call_skill":
            wrong += [f"planned_actions[{place}].params.{said}" for said in _uncallable(action, chosen, shown)]
    return wrong


def _uncallable(action: ActionStep, chosen: str, shown: Disclosing) -> list[str]:
    called = decode(CallSkill, action.params)
    name = called.skill or chosen
    if name not in shown.offered:
        return [f"skill: {name!r} is no candidate"]
    if not called.script:
        return []
    try:
        shown.argv(name, called.script)
    except PathRefused as error:
        known = ", ".join(shown.scripts(name)) or "none"
        return [f"script: {error.reason} (scripts of {name}: {known})"]
    return []
