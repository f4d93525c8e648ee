"""What is handed out: the container's steps as they stand in the Dockerfile, and the single file."""

import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from tests.program import Soak
from tests.rows import rows

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


def building() -> dict[str, str]:
    """An environment in which uv and Python are found wherever `make setup` found or put them."""
    python = str(Path(sys.executable).resolve())
    for uv in ("uv", f"{python} -m uv", f"{ROOT}/.uv/bin/uv"):
        if subprocess.run(f"{uv} --version", shell=True, cwd="/", capture_output=True).returncode == 0:
            return {**os.environ, "UV": uv, "PYTHON": python}
    raise AssertionError("no uv: run `make setup`")


@pytest.mark.soak
def test_the_containers_build_steps_make_a_program_that_runs(tmp_path: Path, soak: Soak) -> None:
    """In an empty folder with what COPY brings and nothing else; only the place of the environment differs."""
    source, made = tmp_path / "source", tmp_path / "made"
    source.mkdir()
    ran = 0
    for name, rest in instructions(0):
        if name == "COPY":
            *sources, target = rest.split()
            for one in sources:
                assert not ignored(one), f".dockerignore keeps {one} out"
                place = source / target / (Path(one).name if target.endswith("/") else "")
                place.parent.mkdir(parents=True, exist_ok=True)
                into = {True: shutil.copytree, False: shutil.copy}[(ROOT / one).is_dir()]
                into(ROOT / one, place)
        elif name == "RUN" and not rest.startswith("pip install"):
            if soak.turn(0):
                command = rest.replace("/opt/adderclaw", str(made))
                subprocess.run(command, shell=True, cwd=source, env=building(), check=True, timeout=300)
            ran += 1
    assert ran == 1
    assert (source / "src/adderclaw/store/schema.sql").is_file()
    if made.exists():
        said = subprocess.run([made / "bin/adderclaw", "--version"], capture_output=True, text=True, check=True)
        assert said.stdout.startswith("adderclaw ")


def test_the_image_runs_as_a_user_of_its_own_what_the_build_stage_made() -> None:
    pins = [re.fullmatch(r"pip install .* uv==[\d.]+", rest) for _, rest in instructions(0) if rest.startswith("pip")]
    assert pins
    assert all(pins), "every build has the same uv"
    last = instructions(1)
    assert ("COPY", "--from=build /opt/adderclaw /opt/adderclaw") in last
    assert ("ENTRYPOINT", '["adderclaw"]') in last
    assert [rest for name, rest in last if name == "USER"] == ["adderclaw"]
    assert any(name == "ENV" and rest.startswith("PATH=/opt/adderclaw/bin:") for name, rest in last)
    installed = next(rest for name, rest in last if name == "RUN" and "apt-get install" in rest).split()
    assert {"bash", "bubblewrap", "git", "ripgrep", "libnss3", "libgbm1"} <= set(installed)


def test_the_container_is_limited_and_has_no_way_out() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    service = compose["services"]["adderclaw"]
    assert service["networks"] == ["inside"]
    assert compose["networks"] == {"inside": {"internal": True}}
    assert (service["mem_limit"], service["cpus"], service["pids_limit"]) == ("2g", 2, 512)
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


AREAS = """
    cmd/agent agentfile executor agent llm tools session telemetry configuration
    orchestrator state_machine policies retry signals shell_linux prompt_builder token_budget structured_output decoder
    provider_router base_client anthropic_client gemini_client registry parser disclosure router provenance
    events jsonl_sink redaction sanitizer secret_filter run_store
"""


@rows("area", AREAS.split())
def test_every_module_of_the_seeds_has_its_place(area: str) -> None:
    """docs/architecture.md maps it to files that are there."""
    table = (ROOT / "docs/architecture.md").read_text().partition("## Where to find what")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| ")][1:]
    found = [places for name, places in rows if re.search(rf"(^|[ `(]){re.escape(area)}\b", name)]
    assert found, f"{area} is not in the table"
    for places in found:
        for place in re.findall(r"`([\w./]+/[\w./]*|\w+\.\w+)`", places):
            assert (ROOT / "src/adderclaw" / place).exists(), place


@pytest.mark.soak
def test_the_single_file_is_all_that_is_needed(tmp_path: Path, soak: Soak) -> None:
    if not soak.turn(1):
        return
    command = [ROOT / "scripts/build-single-file", tmp_path / "adderclaw"]
    subprocess.run(command, env=building(), check=True, timeout=300)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("here it is\n")
    (workspace / "a.pdf").write_bytes(pdf("Words of a page"))
    env = {"PATH": f"{tmp_path}:/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    (tmp_path / "python3.12").symlink_to(Path(sys.executable).resolve())

    def run(*words: str) -> str:
        command = [tmp_path / "adderclaw", *words]
        return subprocess.run(command, env=env, cwd=workspace, capture_output=True, text=True, timeout=120).stdout

    assert run("--version").startswith("adderclaw ")
    assert "built-in `local` provider" in run("agent", "-m", "hi", "--workspace", ".")
    assert "a.txt" in run("tool", "run", "Grep", "--json", '{"pattern":"here"}', "--workspace", ".")
    assert "Words of a page" in run("tool", "run", "Read", "--json", '{"file_path":"a.pdf"}', "--workspace", ".")


def pdf(words: str) -> bytes:
    """The smallest PDF with some words on its page."""
    content = f"BT /F1 12 Tf 72 720 Td ({words}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
    ]
    made, places = b"%PDF-1.4\n", list[int]()
    for number, body in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(made))
    return made + b"xref\n0 %d\n0000000000 65535 f \n%s%s" % (len(objects) + 1, table, end)
