"""What lies at a path that somebody wrote, asked of the kernel at once: links, circles, climbing, what is missing."""

import os
import stat
from pathlib import Path

import pytest

from adderclaw.sandbox.workspace import is_directory, is_named, is_regular, stat_target

CASES = {
    "folder": "d-",
    "folder/": "d-",
    "folder/file": "-f",
    "to-folder": "d-",
    "to-folder/file": "-f",
    "to-file": "-f",
    "to-nowhere": "named",
    "circle": "named",
    "pipe": "named",
    "missing": "",
    "missing/file": "",
    "folder/missing": "",
    "folder/file/more": "",
    "folder/../folder": "d-",
    "to-deep/..": "d-",
    "to-deep/../file": "-f",
    "nul\0": "",
    "x" * 300: "",
}
"""Where it leads: a folder, a file, something else that only has the name, or nothing."""


@pytest.mark.parametrize(("path", "kind"), CASES.items(), ids=[name[:20].strip("\0") for name in CASES])
def test_what_lies_at_a_path(path: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "folder/deep").mkdir(parents=True)
    (tmp_path / "folder/file").write_text("x")
    (tmp_path / "to-folder").symlink_to("folder")
    (tmp_path / "to-file").symlink_to("folder/file")
    (tmp_path / "to-deep").symlink_to("folder/deep")
    (tmp_path / "to-nowhere").symlink_to("missing")
    (tmp_path / "circle").symlink_to("circle")
    os.mkfifo(tmp_path / "pipe")
    whole = f"{tmp_path}/{path}"
    assert is_directory(whole) == (kind == "d-")
    assert is_regular(whole) == (kind == "-f")
    if ".." not in path:
        assert is_named(whole) == bool(kind)
    found = stat_target(whole)
    if kind in ("d-", "-f"):
        assert found is not None
        assert (found.st_dev, found.st_ino) == (os.stat(whole).st_dev, os.stat(whole).st_ino)
        assert stat.S_ISDIR(found.st_mode) == (kind == "d-")
