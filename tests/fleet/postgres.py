"""A PostgreSQL of the tests' own: a private cluster on loopback, started once, with a database for each test."""

import glob
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import psycopg

from tests.program import Cli

TEMPLATE = "fleet_template"


def programs() -> str | None:
    """The folder with initdb and pg_ctl; None without PostgreSQL, which puts psql on PATH."""
    if shutil.which("psql") is None:
        return None
    if (found := shutil.which("initdb")) is not None:
        return os.path.dirname(found)
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
    return folders[-1] if folders else None


class Cluster:
    """One server. PostgreSQL refuses to run as root: then it runs as `postgres`."""

    def __init__(self, programs: str, options: str = "") -> None:
        self._programs, self._options = programs, options
        self._as = "postgres" if os.getuid() == 0 else None
        self.folder = tempfile.mkdtemp(prefix="adderclaw-pg-")
        if self._as:
            shutil.chown(self.folder, "postgres", "postgres")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        made = ("-A", "trust", "-U", "adder", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        self._run("initdb", "-D", f"{self.folder}/data", *made)
        self._made = 0

    def start(self) -> None:
        said = f"-h 127.0.0.1 -p {self.port} -k {self.folder} -F -c max_connections=200 {self._options}"
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-o", said, "-l", f"{self.folder}/log", "-w", "start")

    def stop(self, how: str = "immediate") -> None:
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-m", how, "-w", "stop")

    def restart(self) -> None:
        """As a crash would: nobody is asked, nothing is finished."""
        self.stop()
        self.start()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, name: str) -> str:
        return f"postgresql://adder@127.0.0.1:{self.port}/{name}"

    def template(self, home: Path, more: str = "SELECT 1") -> None:
        """A fleet that was just made, to be copied."""
        home.mkdir(mode=0o700, parents=True)
        cli = Cli(home, home)
        done = cli("fleet", "init", "--database", self.url(TEMPLATE), timeout=120)
        assert done.code == 0, done.err
        with psycopg.connect(self.url(TEMPLATE)) as connection:
            connection.execute(more.encode())

    def database(self) -> str:
        """The address of a new fleet."""
        self._made += 1
        name = f"fleet_{self._made}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}".encode())
        return self.url(name)

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [os.path.join(self._programs, program), *words],
            capture_output=True,
            check=False,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            user=self._as,
            group=self._as,
            extra_groups=[] if self._as else None,
        )
        assert done.returncode == 0, done.stdout + done.stderr
