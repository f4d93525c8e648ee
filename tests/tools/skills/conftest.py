"""Skills in a temporary folder, written as somebody would write them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

collect_ignore = [] if os.environ.get("ADDERCLAW_PUBLIC_SKILLS") else ["test_public.py"]
"""It needs a folder that is not part of this repository."""

type Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """`write("pdf", "description: …", body="# Title")` makes a skill of that name and gives its folder."""

    def made(
        name: str, head: str = "description: Does something.", body: str = "# Title\n", where: str = "skills"
    ) -> Path:
        folder = tmp_path / where / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\n{head}\n---\n{body}", encoding="utf-8")
        return folder

    return made
