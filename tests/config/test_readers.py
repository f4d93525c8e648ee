"""Every setting of the reference does something: some code outside of its declaration reads it."""

import re
from pathlib import Path

import pytest

from adderclaw.config import schema
from tests.program import Cli

SOURCE = Path(schema.__file__).parents[1]
CONFIG = SOURCE / "config"
DECLARATIONS = ("schema.py", "baseline.py", "foreign/dialects.py", "reference.py", "example.py", "redacted.py")
DECLARES = {CONFIG / name for name in DECLARATIONS}
"""What says that there is a setting, and what it may be, and not what it does."""
CONSTANT = {"sanitize_control_chars", "redact_secrets"}
"""Taken because files have them; each has the one value that always holds, and the reference says so."""


def settings() -> set[str]:
    kinds = [kind for kind in vars(schema).values() if isinstance(kind, type) and kind.__module__ == schema.__name__]
    return {name for kind in kinds for name in getattr(kind, "__dataclass_fields__", ())}


def test_every_setting_is_read_somewhere() -> None:
    files = [file for file in SOURCE.rglob("*.py") if file not in DECLARES]
    read = set(re.findall(r"""\.(\w+)\b|["'](\w+)["']""", "\n".join(file.read_text() for file in files)))
    words = {word for pair in read for word in pair}
    assert len(settings()) > 130
    assert settings() - words == CONSTANT


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[logging]\nrun_id_pattern = "x"', "must contain YYYYMMDD-HHMMSS-<short-uuid> exactly once"),
        ('[logging]\nrun_id_pattern = "YYYYMMDD-HHMMSS"', "must contain YYYYMMDD-HHMMSS-<short-uuid> exactly once"),
        ('[logging]\nrun_id_pattern = "YYYYMMDD-HHMMSS-<short-uuid><short-uuid>"', "is not a valid folder name"),
        ('[logging]\nrun_id_pattern = "../YYYYMMDD-HHMMSS-<short-uuid>"', "is not a valid folder name"),
        ('[logging]\nrun_id_pattern = ".YYYYMMDD-HHMMSS-<short-uuid>"', "is not a valid folder name"),
        ('[logging]\nrun_id_pattern = "a b YYYYMMDD-HHMMSS-<short-uuid>"', "is not a valid folder name"),
        (f'[logging]\nrun_id_pattern = "{"x" * 200}YYYYMMDD-HHMMSS-<short-uuid>"', "is not a valid folder name"),
        ('[runtime]\nshell_linux = "/bin/zsh"', '"/bin/zsh" is not bash'),
    ],
)
def test_a_value_that_would_not_hold_is_refused(cli: Cli, text: str, says: str) -> None:
    cli.configure(text)
    done = cli("config", "validate")
    assert done.code == 2, done.out
    assert says in done.out + done.err


def test_commands_run_in_the_bash_that_is_named(cli: Cli, tmp_path: Path) -> None:
    own, workspace = tmp_path / "tools" / "bash", tmp_path / "workspace"
    workspace.mkdir()
    own.parent.mkdir()
    own.write_text('#!/bin/sh\necho ours; exec /bin/bash "$@"\n')
    own.chmod(0o755)
    allowed = f'[security]\nautonomy = "full"\nadditional_directories = ["{own.parent}"]\n'
    cli.configure(f'workspace_dir = "{workspace}"\n[runtime]\nshell_linux = "{own}"\n{allowed}')
    done = cli("tool", "run", "Bash", "--json", '{"command": "echo here"}')
    assert done.out.split() == ["ours", "here"], done.err
    done = cli("tool", "run", "Bash", "--json", '{"command": "basename /here"}')
    assert done.out.split() == ["ours", "here"], done.err
