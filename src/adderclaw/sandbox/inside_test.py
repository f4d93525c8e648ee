"""Runs a generated test while it records, or replaces, the programs of the project that the test starts.

A separate program that uses only the standard library: the Python of the sandbox runs it.
`record` runs each program and records its exit status and whether it printed on standard output. `other` and `empty`
start none of them: a program that prints something else, or nothing, ends with the recorded status in its place.
Programs of the system (`grep`, `curl`, `date`) always run. A message on standard error does not count as printed: a
test of a program that fails may assert that its output is empty.
"""

from __future__ import annotations

import json
import os
import sys
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Any

# One process of this program runs for each call of a test, so imports that only the first needs are local.

INTERPRETERS = ("python", "pypy", "node", "ruby", "perl", "php", "lua", "sh", "bash", "dash", "zsh", "ksh")
RUNNERS = (
    *(
        "pytest",
        "tox",
        "nox",
        "uv",
        "uvx",
        "poetry",
        "hatch",
        "pdm",
        "pip",
        "pipx",
        "npm",
        "npx",
        "yarn",
        "pnpm",
        "tsx",
    ),
    *("ts-node", "jest", "vitest", "mocha", "make", "just", "task", "cmake", "ctest", "ninja", "cargo", "go", "java"),
    *("mvn", "gradle", "dotnet", "rake", "bundle", "rspec", "composer", "phpunit", "swift", "mix", "deno", "bun"),
)
"""Programs that start programs of the project without naming them in their arguments."""
RUNS = ("--test", "--run")
"""Options that make an interpreter (node) start programs of the project that no argument names."""
HELPERS = ("json.tool",)
"""Modules of Python that only format what they read."""
MARK = "adderclaw recorded: "
OTHER = "~^~ |~\n" * 13
"""Replacement output without letters and digits, so that no test can search for it."""
MAX_FILES = 2_000
SKIPPED = (".git", "node_modules", "__pycache__")
LATE = 0.5
"""Seconds to wait for output of a program's children after its end."""


def source() -> bytes:
    """The source of this program, to be written where a sandbox can read it."""
    with open(__file__, "rb") as file:
        return file.read()


def main(words: list[str]) -> int:
    if words[0] == "call":
        return call(words[1], json.loads(words[2]), words[3:])
    if words[0] == "python":
        return run_python(words[1], words[2], words[3])
    import subprocess
    import tempfile

    how, language, test, root, known = words
    with open(known, encoding="utf-8") as file:
        settings = json.load(file)
    state = tempfile.mkdtemp(prefix=".adderclaw-")
    about = json.dumps({"how": how, "state": state, "root": root, "known": known})
    env = dict(os.environ)
    if language == "python":
        command = [sys.executable, "-I", "-B", os.path.abspath(__file__), "python", how, about, test]
    else:
        env["BASH_ENV"] = prelude(state, root, how, about, settings["names"])
        command = ["bash", "--norc", "--noprofile", test]
    code = subprocess.call(command, env=env)
    if how == "record":
        sys.stdout.flush()
        sys.stdout.write("\n" + MARK + json.dumps(recorded(state)) + "\n")
        sys.stdout.flush()
    return end(code)


# ------------------------------------------------------------------ intercepting programs


def run_python(how: str, about: str, test: str) -> int:
    import runpy
    import subprocess

    prefix = caller(how, about)

    class Started(subprocess.Popen):  # pyright: ignore[reportMissingTypeArgument]
        def __init__(self, args: Any, *more: Any, **options: Any) -> None:
            words: list[Any] = [*args] if isinstance(args, (list, tuple)) else [args]  # pyright: ignore[reportUnknownVariableType]
            super().__init__([*prefix, *map(os.fsdecode, words)], *more, **options)

    subprocess.Popen = Started
    sys.argv = [test]
    runpy.run_path(test, run_name="__main__")
    return 0


def caller(how: str, about: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-B", os.path.abspath(__file__), "call", how, about]


def prelude(state: str, root: str, how: str, about: str, names: list[str]) -> str:
    """Write shell functions that replace programs, under every name that the test may use for them."""
    import re

    start = " ".join(map(quoted, caller(how, about)))
    rows = ["unset BASH_ENV"]
    for name in dict.fromkeys([*names, *executables(root), *INTERPRETERS, "python3", "pip3", *RUNNERS]):
        if re.fullmatch(r"[\w./@+-]+", name, re.ASCII) and not name.startswith("-"):
            body = f'{{ {start} {quoted(name)} "$@"; }}'
            if "/" in name:
                rows.append(f"function {name} {body}")
            else:  # does not replace shell builtins
                rows.append(f"""case "$(type -t {name})" in file|'') function {name} {body} ;; esac""")
    path = os.path.join(state, "prelude")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(rows) + "\n")
    return path


def quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def executables(root: str) -> Iterator[str]:
    """The executable files of the project, as a test in its top folder names them."""
    count = 0
    for above, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED]
        for name in files:
            path = os.path.join(above, name)
            if not os.access(path, os.X_OK):
                continue
            relative = os.path.relpath(path, root)
            yield path
            yield "./" + relative
            if "/" in relative:
                yield relative
            count += 1
            if count > MAX_FILES:
                return


# ------------------------------------------------------------------ one call


def call(how: str, about: dict[str, str], words: list[str]) -> int:
    if not is_of_project(words, about["root"]):
        try:
            os.execvp(words[0], words)  # noqa: S606
        except OSError as error:
            sys.stderr.write(f"{words[0]}: {error.strerror}\n")
            return 127 if isinstance(error, FileNotFoundError) else 126
    key = hashed("\0".join(words))
    key += f":{count(os.path.join(about['state'], key))}"
    program = hashed(words[0])
    if how == "record":
        record(about["state"], [key, program, None, False])  # a program that the test kills records nothing else
        status, printed = run_program(words)
        record(about["state"], [key, program, status, printed])
        return end(status)
    with open(about["known"], encoding="utf-8") as file:
        calls = json.load(file)["calls"]
    status = next((row[2] for row in calls if row[0] == key), None)
    if status is None:
        status = next((row[2] for row in reversed(calls) if row[1] == program and row[2] is not None), 0)
    if how == "other":
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.write(OTHER)
                stream.flush()
            except OSError:  # the reader is gone
                pass
    return end(status)


def hashed(text: str) -> str:
    data = text.encode("utf-8", "surrogateescape")
    return f"{zlib.crc32(data):08x}{zlib.adler32(data):08x}"


def count(path: str) -> int:
    """Count a call with the same words; returns the number of such calls, including this one."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, b".")
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def is_of_project(words: list[str], root: str) -> bool:
    program = words[0]
    base = os.path.basename(program)
    path = os.path.join(os.getcwd(), program) if "/" in program else on_path(program)
    if path is None or lies_in(path, root):
        return True
    if base in RUNNERS or base == "pip3":
        return True
    if base.rstrip("0123456789.") not in INTERPRETERS:
        return False
    rest = words[1:]
    while rest and rest[0].startswith("-") and rest[0] != "-":
        if rest[0] == "-m":
            return len(rest) > 1 and rest[1] not in HELPERS
        if rest[0] in RUNS:
            return True
        rest = rest[1:]
    return bool(rest) and lies_in(os.path.join(os.getcwd(), rest[0]), root)


def on_path(program: str) -> str | None:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = (os.path.join(folder, program) for folder in folders)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def lies_in(path: str, root: str) -> bool:
    """Whether a path or its target is in a folder: the interpreter of an environment is a link out of the project."""
    top = root.rstrip("/") + "/"
    return os.path.normpath(path).startswith(top) or os.path.realpath(path).startswith(os.path.realpath(root) + "/")


def run_program(words: list[str]) -> tuple[int, bool]:
    """Run a program unchanged; returns its status, and whether it printed on standard output."""
    import signal
    import subprocess
    import threading

    try:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        sys.stderr.write(f"{words[0]}: {error.strerror}\n")
        return (127 if isinstance(error, FileNotFoundError) else 126), True
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, _frame: process.send_signal(got))
    printed: list[bool] = []
    pumps = [
        threading.Thread(target=pump, args=(pipe, fd, into), daemon=True)
        for pipe, fd, into in ((process.stdout, 1, printed), (process.stderr, 2, []))
    ]
    for pump_thread in pumps:
        pump_thread.start()
    status = process.wait()
    for pump_thread in pumps:
        pump_thread.join(LATE)
    return status, bool(printed)


def pump(pipe: IO[bytes], fd: int, printed: list[bool]) -> None:
    while True:
        data = os.read(pipe.fileno(), 65536)
        if not data:
            return
        printed.append(True)
        try:
            while data:
                data = data[os.write(fd, data) :]
        except OSError:  # the reader is gone
            pipe.close()
            return


def record(state: str, row: list[Any]) -> None:
    with open(os.path.join(state, "calls"), "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def recorded(state: str) -> list[Any]:
    """Each call once, together with its end if there is one."""
    try:
        with open(os.path.join(state, "calls"), encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
    except OSError:
        return []
    return list({row[0]: row for row in rows}.values())[:100]


def end(status: int) -> int:
    """End with the same status as a program; a negative one is a signal."""
    if status < 0:
        import signal

        sys.stdout.flush()
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
