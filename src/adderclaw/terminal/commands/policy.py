"""`adderclaw policy`: check a policy.toml and explain what it would decide."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from adderclaw.agent.run import Options, start_reading, tool_environment
from adderclaw.agent.session.session import ToolEnvironment
from adderclaw.agent.tool_call.permission_check import prepare_and_judge
from adderclaw.config.policy import read
from adderclaw.core.errors import ConfigError, UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json, ToolCall
from adderclaw.policy.policy_file import PolicyFile, opinion_of
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, Profile, WorkspaceDir, group, json_object
from adderclaw.terminal.output import print_json

app = group("Check a policy.toml and explain what it would decide.")


@app.callback()
def policy() -> None:
    """Check a policy.toml and explain what it would decide."""


@app.command()
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A policy.toml.")],
    tool: Annotated[str | None, typer.Option("--tool", metavar="NAME", help="Explain a call of this tool.")] = None,
    arguments: Annotated[str, typer.Option("--json", metavar="ARGS", help="That call's input, a JSON object.")] = "{}",
    config: ConfigFile = None,
    workspace: WorkspaceDir = None,
    profile: Profile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Check a policy file, its own examples too; every problem is reported at once. Nothing runs.

    With --tool it says what the file decides on that call, and what the policy decides with this file in place of the
    others.

    Example: adderclaw policy check policy.toml --tool Bash --json '{"command": "git status"}'
    """
    as_json = output_format == "json"
    try:
        document = read(file)
        options = Options(
            config_file=config, workspace=workspace, profile=profile, log_level="warning", here=True, looks=True
        )
        here = tool_environment(start_reading(options), None, policies=(document,))
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"valid": False, "problems": [problem._asdict() for problem in error.problems]})
        raise typer.Exit(error.exit_code) from None
    (compiled,) = here.policy.files
    about = _about(document, compiled)
    explained = _explained(here, compiled, tool, json_object(arguments, "--json")) if tool is not None else {}
    if as_json:
        print_json({**about, **explained})
        return
    examples = f", {about['examples']} examples hold" if about["examples"] else ""
    count = len(about["sections"])
    print(f"valid: {visible(compiled.file)}: {count} section{'' if count == 1 else 's'}, {_rest(compiled)}{examples}")
    if explained:
        _print_explained(explained)


def _rest(compiled: PolicyFile) -> str:
    """What happens to calls that no section allows."""
    if compiled.default_deny:
        return "what is not allowed is denied"
    lists = [section.name for section in compiled.sections.values() if section.restricts]
    if lists:
        return f"outside the allow lists of [{'], ['.join(lists)}] is denied, the rest is left to the mode"
    return "what it does not name is left to the mode"


def _about(document: Json, compiled: PolicyFile) -> dict[str, Any]:
    tables: list[Json] = [*document["sections"].values()]
    lists: list[list[Json]] = [table[key] or [] for table in tables for key in ("allow", "deny")]
    examples = sum(len(pattern["match"]) + len(pattern["not_match"]) for patterns in lists for pattern in patterns)
    sections = {section.name: section.tool for section in compiled.sections.values()}
    return {
        "valid": True,
        "file": compiled.file,
        "default_deny": compiled.default_deny,
        "sections": sections,
        "examples": examples,
    }


def _explained(here: ToolEnvironment, compiled: PolicyFile, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    prepared_call = prepare_and_judge(here, ToolCall("check", tool, arguments))
    if prepared_call.error is not None or prepared_call.case is None:
        raise UsageError(f"--tool {tool}: {prepared_call.decision.reason}")
    opinion = opinion_of(compiled, replace(prepared_call.case, recent=0))
    opinion_fields = (
        {"verdict": opinion.verdict, "reason": opinion.reason} if opinion else {"verdict": None, "reason": ""}
    )
    return {"policy": opinion_fields, "decision": prepared_call.decision.as_json()}


def _print_explained(explained: dict[str, Any]) -> None:
    opinion, decision = explained["policy"], explained["decision"]
    print(f"policy: {opinion['verdict'] or 'no opinion'}  {visible(opinion['reason'])}".rstrip())
    print(f"gate: {decision['verdict']}  (risk {decision['risk']}, by {decision['by']})  {visible(decision['reason'])}")
