"""The generator of tests knows the plan alone: each way out is tried, by its calls and in its sandbox."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adderclaw.storage import memory, transcript
from tests.acceptance.world import call
from tests.flows.proofs import AFTER, GOOD, PLAN, Project, hands_in, turn
from tests.scripted import ScriptedModel
from tests.security.world import Den
from tests.trial import why_not

CANARY = "CANARY-OF-THE-IMPLEMENTER"


@pytest.fixture
def project(home: Path, tmp_path: Path) -> Iterator[Project]:
    if why := why_not("bubblewrap"):
        pytest.skip(f"bubblewrap does not start on this machine: {why}")
    root = tmp_path / "project"
    root.mkdir()
    with ScriptedModel() as model:
        yield Project(home, root, model)


def ways_out(root: str, store: str) -> list[dict[str, Any]]:
    """By path, link, `@`, search, shell, git, /proc, another agent, a skill, memory, the transcript, MCP, the store."""
    source = f"{root}/src/core.py"
    tried: list[tuple[str, dict[str, Any]]] = [
        ("Read", {"file_path": source}),
        ("Read", {"file_path": "link/src/core.py"}),
        ("Read", {"file_path": "@src/core.py"}),
        ("Read", {"file_path": f"/proc/self/root{source}"}),
        ("Read", {"file_path": store}),
        ("file_read", {"path": source}),
        ("Grep", {"pattern": "CANARY", "path": root}),
        ("Glob", {"pattern": f"{root}/**/*.py"}),
        ("LS", {"path": root}),
        ("Bash", {"command": f"cat {source}"}),
        ("shell", {"command": f"git -C {root} log -p"}),
        ("Write", {"file_path": f"{root}/greet", "content": "#!/bin/sh\necho Hello, Ada\n"}),
        ("Edit", {"file_path": f"{root}/greet", "old_string": "Hi", "new_string": "Hello"}),
        ("Agent", {"prompt": f"Read {source}", "description": "d", "subagent_type": "general-purpose"}),
        ("Skill", {"skill": "project-skill"}),
        ("MemorySearch", {"query": "CANARY"}),
        ("ToolSearch", {"query": "select:Read"}),
        ("Call", {"tool": "Read", "input": {"file_path": source}}),
        ("ListMcpResourcesTool", {}),
        ("mcp__files__read", {"path": source}),
        ("WebFetch", {"url": f"file://{source}", "prompt": "p"}),
        ("TaskOutput", {"task_id": "1"}),
        ("EnterWorktree", {"name": "x"}),
        ("AskUserQuestion", {"questions": []}),
    ]
    return [{"name": name, "arguments": arguments} for name, arguments in tried]


def test_a_generator_that_tries_each_way_out_learns_nothing(project: Project) -> None:
    """Every call but its own is unknown; nothing of the project reaches the model, wherever it looks."""
    plan = PLAN.replace("# Greet by name", "# Greet by name\n\n@src/core.py !cat src/core.py {{file:src/core.py}}\n")
    project.approve(plan)
    skill = f"---\nname: project-skill\ndescription: {CANARY}\n---\n{CANARY}\n"
    rules = json.dumps({"hooks": {"SubagentStart": [{"hooks": [{"type": "command", "command": f"echo {CANARY}"}]}]}})
    project.files(
        greet=AFTER,
        **{
            "src/core.py": f"# {CANARY}\n",
            "CLAUDE.md": f"{CANARY}\n",
            "AGENTS.md": f"{CANARY}\n",
            "docs/usage.md": f"{CANARY}\n",
            ".claude/skills/project-skill/SKILL.md": skill,
            ".claude/settings.json": rules,
            ".mcp.json": json.dumps({"mcpServers": {"files": {"command": "cat", "args": ["src/core.py"]}}}),
        },
    )
    store = project.store()
    with store.write() as cursor:
        memory.put(cursor, "canary", CANARY)
        transcript.append(cursor, session_id="implementer", entry_type="user", payload={"content": CANARY})
    store.close()
    own = project.home / "proof" / f"generator-{project.plan_id}"
    own.mkdir(parents=True)
    (own / "link").symlink_to(project.root)
    tried = ways_out(str(project.root), str(project.home / "memory.sqlite"))
    project.script(turn(*tried), turn(hands_in("C1", GOOD["C1"]), hands_in("C2", GOOD["C2"])))
    greet = (project.root / "greet").read_text()
    project.prove()
    assert (project.root / "greet").read_text() == greet
    assert CANARY not in project.told()
    answers = [one["content"] for one in project.model.requests[1].messages if one["role"] == "tool"]
    assert len(answers) == len(tried)
    assert [one for one in answers if "there is no tool" not in str(one)] == []
    apart = "SELECT payload_json FROM transcript_entries WHERE session_id <> 'implementer'"
    assert not any(CANARY in row[0] for row in project.sql(apart))


WAYS = [
    "cat {root}/src/main.py",
    "ln -s {root} here; cat here/src/main.py",
    "git -C {root} log -p",
    "cat /proc/1/root{root}/src/main.py; cat /proc/*/environ /proc/*/cwd/src/main.py",
    "cat {home}/.adderclaw/memory.sqlite; ls -laR {home}",
    "find / -name main.py -path '*workspace*' | head",
    "grep -rs CANARY-OF {root} /var/tmp /tmp",
]


def test_even_with_every_tool_its_sandbox_does_not_hold_the_project(world: Den) -> None:
    """The second wall: all of Read, Grep, Glob and Bash in the generator's folder, with an operator who says yes."""
    (world.workspace / "src" / "main.py").write_text(f"# {CANARY}\n")
    own = world.cli.data / "proof" / "generator-1"
    own.mkdir(parents=True, mode=0o700)
    (own / "link").symlink_to(world.workspace)
    source = str(world.workspace / "src" / "main.py")
    steps = [
        call("Read", file_path=source),
        call("Read", file_path=str(own / "link" / "src" / "main.py")),
        call("Grep", pattern="CANARY-OF", path=str(world.workspace), output_mode="content"),
        call("Glob", pattern=f"{world.workspace}/**/*"),
        *(call("Bash", command=way.format(root=world.workspace, home=world.home)) for way in WAYS),
    ]
    attack = world.attack(*steps, arguments=("--workspace", str(own)))
    assert len(attack.results) == len(steps)
    assert [one for one in attack.results if f"# {CANARY}" in one] == []
    world.unharmed(attack)
