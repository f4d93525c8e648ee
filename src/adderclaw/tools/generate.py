"""Writes `schemas.json`, all that is advertised of the built-in tools: `python -m adderclaw.tools.generate`."""

import json
import os
from typing import Any

from adderclaw import decode
from adderclaw.tools import (
    NAMES,
    clock,
    fetch,
    files,
    memory,
    notebook,
    resources,
    search,
    shell,
    specs,
    tasks,
    web,
    websearch,
    worktree,
)
from adderclaw.tools.control import agent, catalogue, lists, plans, questions, skill
from adderclaw.types import Json

ARGUMENTS: dict[str, type[Any]] = {
    "Bash": shell.BashArguments,
    "Read": files.ReadArguments,
    "Write": files.WriteArguments,
    "Edit": files.EditArguments,
    "LS": search.LSArguments,
    "Glob": search.GlobArguments,
    "Grep": search.GrepArguments,
    "NotebookEdit": notebook.NotebookEditArguments,
    "TaskOutput": tasks.TaskOutputArguments,
    "TaskStop": tasks.TaskStopArguments,
    "Http": web.HttpArguments,
    "WebFetch": fetch.WebFetchArguments,
    "WebSearch": websearch.WebSearchArguments,
    "Time": clock.TimeArguments,
    "MemorySearch": memory.MemorySearchArguments,
    "MemoryRead": memory.MemoryReadArguments,
    "MemoryWrite": memory.MemoryWriteArguments,
    "ListMcpResources": resources.ListMcpResourcesArguments,
    "ReadMcpResource": resources.ReadMcpResourceArguments,
    "AskUserQuestion": questions.AskUserQuestionArguments,
    "TodoWrite": lists.TodoWriteArguments,
    "Agent": agent.AgentArguments,
    "Skill": skill.SkillArguments,
    "ToolSearch": catalogue.ToolSearchArguments,
    "Call": catalogue.CallArguments,
    "EnterPlanMode": plans.EnterPlanModeArguments,
    "ExitPlanMode": plans.ExitPlanModeArguments,
    "Brief": questions.BriefArguments,
    "TaskCreate": lists.TaskCreateArguments,
    "TaskGet": lists.TaskGetArguments,
    "TaskList": lists.TaskListArguments,
    "TaskUpdate": lists.TaskUpdateArguments,
    "EnterWorktree": worktree.EnterWorktreeArguments,
    "ExitWorktree": worktree.ExitWorktreeArguments,
}


def description(name: str) -> str:
    path = os.path.join(os.path.dirname(specs.FILE), "descriptions", f"{name}.md")
    with open(path, encoding="utf-8") as file:
        return " ".join(file.read().split())


def parameters(kind: type[Any]) -> Json:
    """The schema as short as it can be said: a default that is nothing needs no saying."""
    return _short(decode.schema(kind)) | {"additionalProperties": False}


def _short(made: Json) -> Json:
    made.pop("additionalProperties", None)
    for entry in made.get("properties", {}).values():
        if not entry.get("default", True):
            del entry["default"]
        if "properties" in entry.get("items", {}):
            _short(entry["items"])
    return made


def generated() -> str:
    made = {name: {"description": description(name), "parameters": parameters(ARGUMENTS[name])} for name in NAMES}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    with open(specs.FILE, "w", encoding="utf-8") as file:
        file.write(generated())


if __name__ == "__main__":
    main()
