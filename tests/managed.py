"""A machine with an administrator: the program runs in a mount namespace with an /etc/adderclaw of the test's own."""

import os
from pathlib import Path

from tests.program import Cli
from tests.trial import bubblewrap


class Machine:
    """What `cli` starts from now on sees `folder` as /etc/adderclaw; the place itself cannot be changed."""

    def __init__(self, cli: Cli) -> None:
        self.folder = cli.home.parent / "etc-adderclaw"
        self.folder.mkdir(mode=0o755)
        cli.before = (bubblewrap(), *self._mounts())

    def _mounts(self) -> list[str]:
        words = ["--die-with-parent", "--dev-bind", "/", "/", "--tmpfs", "/etc"]
        for name in sorted(os.listdir("/etc")):
            path = f"/etc/{name}"
            words += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
        return [*words, "--bind", str(self.folder), "/etc/adderclaw"]

    def write(self, content: str, name: str = "managed.toml") -> Path:
        path = self.folder / name
        path.write_text(content, encoding="utf-8")
        path.chmod(0o644)
        return path
