"""docs/OPERATOR_COLD_START.md is followed as it is written, from a clean clone; only address and key are the test's."""

import os
import re
import sqlite3
import subprocess
from pathlib import Path

from tests.scripted import ScriptedModel

ROOT = Path(__file__).resolve().parent.parent
STEP = re.compile(r"^(\d+)\. (.*)$", re.MULTILINE)


def steps() -> list[str]:
    """The command of each step; a step is one command and nothing else."""
    page = (ROOT / "docs" / "OPERATOR_COLD_START.md").read_text(encoding="utf-8")
    found: list[tuple[str, str]] = STEP.findall(page)
    assert [int(number) for number, _ in found] == list(range(1, len(found) + 1))
    assert len(found) <= 12
    assert all(re.fullmatch(r"`[^`]+`", step) for _, step in found), found
    return [step.strip("`") for _, step in found]


def test_d_119_the_steps_lead_from_a_clean_clone_to_a_stored_turn(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with ScriptedModel([{"text": "hello from the model"}]) as model:
        own = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "a-key-of-the-test"}
        taken = [
            re.sub(r"^export (\w+)=.*", lambda m: f'export {m[1]}="{own[m[1]]}"' if m[1] in own else m[0], step)
            for step in steps()
        ]
        assert sum(step.startswith(f"export {name}=") for step in taken for name in own) == 2
        script = "\n".join(["set -e", *taken])
        names = ("PATH", "LANG", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "PIP_INDEX_URL", "SSL_CERT_FILE")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        cache = os.environ.get("UV_CACHE_DIR") or str(Path.home() / ".cache" / "uv")
        env = {**kept, "HOME": str(home), "REPOSITORY": str(ROOT), "UV_CACHE_DIR": cache, "UV_COMPILE_BYTECODE": "0"}
        command = ["bash", "-c", script]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600, stdin=-3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hello from the model" in done.stdout
    with sqlite3.connect(home / ".adderclaw" / "memory.sqlite") as store:
        rows = store.execute("SELECT entry_type, payload_json FROM transcript_entries ORDER BY id").fetchall()
    assert [kind for kind, _ in rows] == ["user", "assistant"]
    assert "hello from the model" in rows[1][1]
