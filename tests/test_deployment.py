"""The container as the Dockerfile and compose.yaml describe it; `make release-check` builds and runs it."""

import re
from fnmatch import fnmatch
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def instructions(stage: int) -> list[tuple[str, str]]:
    """(INSTRUCTION, the rest) of one stage, continued lines joined."""
    lines = [line for line in DOCKERFILE.splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    stages = re.split(r"^FROM ", whole, flags=re.MULTILINE)[1:]
    found = [line.partition(" ") for line in stages[stage].splitlines()[1:] if line.strip()]
    return [(name, rest) for name, _, rest in found]


def ignored(path: str) -> bool:
    """As .dockerignore says: the last line that fits decides."""
    out = False
    for line in (ROOT / ".dockerignore").read_text().split():
        pattern = line.removeprefix("!")
        if pattern == "*" or path == pattern or path.startswith(f"{pattern}/") or fnmatch(f"/{path}", pattern):
            out = not line.startswith("!")
    return out


def test_the_steps_find_what_they_copy() -> None:
    """Each source of COPY is there and not kept out; `make release-check` executes the steps themselves."""
    for name, rest in instructions(0):
        if name == "COPY":
            for one in rest.split()[:-1]:
                assert (ROOT / one).exists(), one
                assert not ignored(one), f".dockerignore keeps {one} out"
    used = {
        word for name, rest in instructions(0) if name == "RUN" for word in rest.split() if word.startswith("scripts/")
    }
    assert used
    assert all(any(one in rest.split() for name, rest in instructions(0) if name == "COPY") for one in used)


def test_the_image_runs_as_a_user_of_its_own_what_the_build_stage_made() -> None:
    installs = [rest for _, rest in instructions(0) if rest.startswith("pip install")]
    assert installs
    assert all("==" in word for rest in installs for word in rest.split()[3:]), "every build has the same uv and node"
    assert any(re.search(r"@playwright/mcp@[\d.]+ ", rest) for _, rest in instructions(0))
    last = instructions(1)
    assert "FROM debian:bookworm-slim" in DOCKERFILE
    assert ("COPY", "--from=build /opt/adderclaw /opt/adderclaw") in last
    assert any("/usr/local/bin/adderclaw" in rest for name, rest in last if name == "RUN")
    assert ("ENTRYPOINT", '["adderclaw"]') in last
    assert [rest for name, rest in last if name == "USER"] == ["adderclaw"]
    assert any(name == "HEALTHCHECK" for name, _ in last)
    installed = next(rest for name, rest in last if name == "RUN" and "apt-get install" in rest).split()
    asked = """git curl libnss3 libatk1.0-0 libatk-bridge2.0-0 libcups2 libdrm2 libxkbcommon0 libxcomposite1 libxdamage1
               libxfixes3 libxrandr2 libgbm1 libasound2"""
    assert {"bash", "bubblewrap", "ripgrep", "chromium", *asked.split()} <= {*installed}


def test_the_container_is_limited_and_reaches_the_configured_endpoints_only() -> None:
    """T-21: its network is closed; the one gateway passes TLS to its aliases only."""
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    service, egress = compose["services"]["adderclaw"], compose["services"]["egress"]
    assert service["networks"] == ["inside"]
    assert compose["networks"] == {"inside": {"internal": True}, "outside": {}}
    assert [name for name, one in compose["services"].items() if "outside" in one["networks"]] == ["egress"]
    conf = (ROOT / "deploy/egress.conf").read_text()
    allowed = dict(
        re.findall(r"^    (\S+) (\S+);$", conf.partition("map $ssl_preread_server_name")[2].partition("}")[0], re.M)
    )
    assert allowed.pop("default") == '""', "what is not named goes nowhere"
    assert [*allowed] == egress["networks"]["inside"]["aliases"]
    assert all(place == f"{name}:443" for name, place in allowed.items())
    assert (service["mem_limit"], service["cpus"], service["pids_limit"]) == ("2g", 2, 512)
    for one in (service, egress):
        assert one["read_only"] is True
        assert one["cap_drop"] == ["ALL"]
        assert one["security_opt"] == ["no-new-privileges:true"]


def test_no_secret_lies_in_a_folder_that_a_container_works_on() -> None:
    """`fleet submit --workspace /workspace` sends what is there to the workers, where an agent reads it."""
    for name in ("compose.yaml", "compose.fleet.yaml"):
        compose = yaml.safe_load((ROOT / name).read_text())
        mounted = {one.partition(":")[0] for service in compose["services"].values() for one in service["volumes"]}
        assert "." in mounted, name
        for secret, place in compose.get("secrets", {}).items():
            assert place["file"].startswith("${HOME}/."), f"{secret} of {name}"


NAMES = {
    "000": """agentClient session statusTool bashSecurity prompts mockAgentClient prompts/initializer.md
        prompts/coding.md index run bin Dockerfile""",
    "001": "runtime config providers channels tools security memory receipts sop service",
    "002": """cli config logging events jsonl_sink redaction sanitizer security provenance secret_filter
        skills registry parser disclosure router llm provider_router base_client anthropic_client gemini_client
        prompt_builder token_budget structured_output decoder runtime orchestrator state_machine policies retry signals
        executor shell_linux shell_windows storage/run_store demos/basic_demo_skills tests/fixtures""",
    "003": "cmd/agent store orchestration auth hookplane transcript trust permissions workflow session pkg/api",
    "004": "agentfile executor agent llm tools session telemetry configuration",
}
"""A-03, S-23, X-06: what each specification calls its parts."""


def test_every_module_of_the_seeds_has_its_place() -> None:
    """docs/dev/architecture.md maps each name to files that are there."""
    table = (ROOT / "docs/dev/architecture.md").read_text().partition("## Names in the specifications")[2]
    lines = [line.split("|")[1:3] for line in table.partition("\n## ")[0].splitlines() if line.startswith("| 00")]
    mapped: dict[str, set[str]] = {}
    for names, places in lines:
        seed = names.split()[0]
        mapped.setdefault(seed, set()).update(re.findall(r"`([^`]+)`", names))
        found = re.findall(r"`([^`]+)`", places)
        assert found, names
        missing = [place for place in found if not (ROOT / "src/adderclaw" / place).resolve().exists()]
        assert not missing, names
    for seed, words in NAMES.items():
        assert not set(words.split()) - mapped[seed], seed
