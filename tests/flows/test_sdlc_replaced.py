"""The third tree: tests that assert nothing about the program are turned back, and honest ones never are."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from adderclaw.flows.sdlc import check_shell, proving
from adderclaw.flows.sdlc.proving import PASSES_EMPTY, PASSES_OTHER, Call, How
from adderclaw.flows.sdlc.running import Ran
from adderclaw.flows.sdlc.tools import check_test
from adderclaw.sandbox import inside_test
from tests.rows import rows

FILES = {
    "calc": """#!/bin/sh
case "$1" in
add) echo $(($2 + $3)) ;;
mul) echo $(($2 * $3)) ;;
quiet) exit 0 ;;
note) echo "$2" >> notes.txt ;;
list) cat notes.txt ;;
double) read -r n; echo $((n * 2)) ;;
bad) echo "usage: calc add A B" >&2; exit 2 ;;
esac
""",
    "app.py": "import json, sys\nprint(json.dumps({'sum': sum(map(int, sys.argv[1:]))}))\n",
    "app.js": "console.log(process.argv.slice(2).reduce((a, b) => a + Number(b), 0))\n",
    "pkg/__init__.py": "",
    "pkg/__main__.py": "import sys\nfrom pkg.core import add\nprint(add(*map(int, sys.argv[1:])))\n",
    "pkg/core.py": "def add(a, b):\n    return a + b\n",
    "tests/test_core.py": "from pkg.core import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n",
    "run.sh": 'exec sh ./calc "$@"\n',
    "src/inv/__init__.py": "def total(values):\n    return sum(values)\n",
    "src/inv/__main__.py": "import sys\nfrom inv import total\nprint('total', total(map(int, sys.argv[1:])))\n",
    "web/app.py": "def client(path):\n    return (200, 'hi') if path == '/' else (404, '')\n",
    "web/test_app.py": "from app import client\n\n\ndef test_home():\n    assert client('/') == (200, 'hi')\n",
    "js/add.test.js": "const {test} = require('node:test');\ntest('adds', () => {});\n",
    "package.json": '{"name": "n", "version": "1.0.0", "scripts": {"test": "node --test js/add.test.js"}}',
    "Makefile": "five:\n\techo 'echo five' > five && chmod +x five\n\nsum:\n\t@./calc add 2 3\n",
    "serve.py": """import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"sum 5")
    def log_message(self, *words):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
""",
}
SUM = "`./calc add 2 3` prints `5`"
PY = "import subprocess\n"
RUN = PY + "done = subprocess.run(['./calc', 'add', '2', '3'], capture_output=True, text=True)\n"

HONEST = {
    "output": ("sh", 'out=$(./calc add 2 3)\n[ "$out" = 5 ] || exit 1\n', SUM),
    "output, by grep": ("sh", "./calc add 2 3 | grep -qx 5\n", SUM),
    "output, into a file": ("sh", "./calc add 2 3 > out.txt\ngrep -qx 5 out.txt || exit 1\n", SUM),
    "output by a loose pattern": ("sh", "./calc add 2 3 | grep -q 5 || exit 1\n", SUM),
    "number of lines": ("sh", 'n=$(./calc add 2 3 | wc -l)\n[ "$n" -eq 1 ] || exit 1\n', "it prints one line"),
    "strict": ("sh", 'set -euo pipefail\nout="$(./calc mul 2 3)"\ntest "$out" = 6\n', "`mul` prints the product"),
    "through a variable": ("sh", 'BIN="$PWD/calc"\n[ "$("$BIN" add 2 3)" = 5 ] || exit 1\n', SUM),
    "from a folder": ("sh", 'cd pkg\nout=$(../calc add 2 3)\n[ "$out" = 5 ] || exit 1\n', SUM),
    "a shell script": ("sh", 'out=$(sh run.sh add 2 3)\n[ "$out" = 5 ] || exit 1\n', SUM),
    "a file": ("sh", "./calc note milk\ngrep -qx milk notes.txt || exit 1\n", "`note` writes notes.txt"),
    "steps": ("sh", './calc note a\n./calc note b\n[ "$(./calc list)" = "$(printf \'a\\nb\')" ] || exit 1\n', "`list`"),
    "standard input": ("sh", 'out=$(echo 4 | ./calc double)\n[ "$out" = 8 ] || exit 1\n', "`double` prints"),
    "a failure with its message": (
        "sh",
        'if out=$(./calc bad 2>&1); then exit 1; fi\ncase "$out" in *usage*) ;; *) exit 1 ;; esac\n',
        "`./calc bad` prints its usage and exits with 2",
    ),
    "several statuses": (
        "sh",
        './calc bad 2>err.txt\nrc=$?\n[ $rc -eq 2 ] || exit 1\n[ "$(./calc add 1 1)" = 2 ] || exit 1\n',
        "after a failure `add` still prints sums",
    ),
    "a status alone": ("sh", "./calc bad\nrc=$?\n[ $rc -eq 2 ] || exit 1\n", "`./calc bad` exits with status 2"),
    "nothing is printed": (
        "sh",
        'out=$(./calc quiet)\nrc=$?\n[ -z "$out" ] || exit 1\n[ $rc -eq 0 ] || exit 1\n',
        "`./calc quiet` prints nothing",
    ),
    "nothing is printed, after what prints": (
        "sh",
        './calc add 2 3\nout=$(./calc quiet)\n[ "$out" = "" ] || exit 1\n',
        "`./calc quiet` prints nothing",
    ),
    "a module": ("sh", 'out=$(python3 -m pkg 2 3)\n[ "$out" = 5 ] || exit 1\n', SUM),
    "the project's own tests": (
        "sh",
        'python3 -m pytest -q tests > out.txt\ngrep -q "1 passed" out.txt || exit 1\n',
        "the tests of the project pass",
    ),
    "make": ("sh", 'out=$(make -s sum)\n[ "$out" = 5 ] || exit 1\n', SUM),
    "node": ("sh", 'out=$(node app.js 2 3)\n[ "$out" = 5 ] || exit 1\n', SUM),
    "a helper of its own": (
        "sh",
        "python3 app.py 2 3 | python3 -m json.tool > out.json\ngrep -q '\"sum\": 5' out.json || exit 1\n",
        "it prints JSON",
    ),
    "nothing but a message": (
        "sh",
        'out=$(./calc bad 2>err.txt)\nrc=$?\n[ $rc -eq 2 ] || exit 1\n[ -z "$out" ] || exit 1\n',
        "`./calc bad` prints nothing on standard output and exits with 2",
    ),
    "brackets of bash": ("sh", 'out=$(./calc add 2 3)\n[[ "$out" == "5" ]] || { echo "got $out"; exit 1; }\n', SUM),
    "brackets, the other way": ("sh", "out=$(./calc add 2 3)\nif [[ $out != 5 ]]; then exit 1; fi\n", SUM),
    "a status in brackets": (
        "sh",
        "./calc bad\nrc=$?\n[[ $rc -eq 2 ]] || exit 1\n",
        "`./calc bad` exits with status 2",
    ),
    "a table": (
        "sh",
        'for n in 1 2; do\n  [ "$(./calc add 0 "$n")" = "$n" ] || exit 1\ndone\n',
        "`./calc add 0 N` prints N",
    ),
    "a table in a document": (
        "sh",
        'while read -r a b sum; do\n  [ "$(./calc add "$a" "$b")" = "$sum" ] || exit 1\n'
        "done <<EOF\n1 2 3\n2 2 4\nEOF\n",
        SUM,
    ),
    "a package under src": ("sh", 'cd src\n[ "$(python3 -m inv 2 3)" = "total 5" ] || exit 1\n', "it prints the total"),
    "a package under src, in python": (
        "python",
        "import subprocess, sys\n"
        "done = subprocess.run([sys.executable, '-m', 'inv', '2', '3'], cwd='src', capture_output=True, text=True)\n"
        "assert done.stdout == 'total 5\\n'\n",
        "it prints the total",
    ),
    "a client of a web application, by its tests": (
        "sh",
        'out=$(cd web && python3 -m pytest -q)\necho "$out" | grep -q "1 passed" || exit 1\n',
        "the page says hi",
    ),
    "npm test": ("sh", 'npm test > out.txt\ngrep -q "pass 1" out.txt || exit 1\n', "`npm test` passes"),
    "node --test": ("sh", 'node --test > out.txt\ngrep -q "pass 1" out.txt || exit 1\n', "`node --test` passes"),
    "built by make": ("sh", 'make -s five\n[ "$(./five)" = five ] || exit 1\n', "it prints five"),
    "in python": ("python", RUN + "assert done.stdout == '5\\n', done.stdout\n", SUM),
    "in python, status and output": (
        "python",
        RUN + "assert (done.returncode, done.stdout.strip()) == (0, '5')\n",
        SUM,
    ),
    "JSON": (
        "python",
        "import json, subprocess, sys\n"
        "done = subprocess.run([sys.executable, 'app.py', '2', '3'], capture_output=True, check=True)\n"
        "assert json.loads(done.stdout)['sum'] == 5\n",
        "it prints JSON",
    ),
    "a module, in python": (
        "python",
        PY + "assert subprocess.check_output(['python3', '-m', 'pkg', '2', '3'], text=True) == '5\\n'\n",
        SUM,
    ),
    "a file, in python": (
        "python",
        "import pathlib, subprocess\nsubprocess.run(['./calc', 'note', 'milk'], check=True)\n"
        "assert pathlib.Path('notes.txt').read_text() == 'milk\\n'\n",
        "`note` writes",
    ),
    "a server": (
        "python",
        "import subprocess, urllib.request\n"
        "server = subprocess.Popen(['python3', 'serve.py'], stdout=subprocess.PIPE, text=True)\n"
        "port = int(server.stdout.readline())\n"
        "with urllib.request.urlopen(f'http://127.0.0.1:{port}/') as answer:\n"
        "    assert answer.read() == b'sum 5'\n"
        "server.terminate()\n",
        "the server answers with the sum",
    ),
    "words to a program that reads": (
        "python",
        PY + "done = subprocess.run(['./calc', 'double'], input='4\\n', capture_output=True, text=True)\n"
        "assert done.stdout == '8\\n'\n",
        "`double` prints",
    ),
}

ADD = "out=$(./calc add 2 3) || exit 1\n"
VACUOUS = {
    "a text": ("python", RUN + "assert isinstance(done.stdout, str)\n"),
    "empty or not": ("sh", ADD + '[ -z "$out" ] || [ -n "$out" ] || exit 1\n'),
    "is not None": ("python", RUN + "assert done.stdout is not None\n"),
    "x or not x": ("python", RUN + "x = done.stdout\nassert x or not x\n"),
    "longer than less than nothing": ("python", RUN + "assert len(done.stdout) > -1\n"),
    "begins with nothing": ("python", RUN + "assert done.stdout.startswith('')\n"),
    "a copy of itself": ("python", RUN + "copy = str(done.stdout)\nassert done.stdout == copy\n"),
    "any match": ("python", "import re\n" + RUN + "assert re.search('.*', done.stdout)\n"),
    "its own file": ("sh", './calc add 2 3\necho 5 > mine\n[ "$(cat mine)" = 5 ] || exit 1\n'),
    "its own file, in python": (
        "python",
        "import pathlib\n" + RUN + "pathlib.Path('m').write_text('5')\nassert pathlib.Path('m').read_text() == '5'\n",
    ),
    "its own words": ("sh", "./calc add 2 3\necho hello | grep hello || exit 1\n"),
    "any length": ("sh", ADD + "[ ${#out} -ge 0 ] || exit 1\n"),
    "anything but zzz": ("sh", ADD + '[ "$out" != zzz ] || exit 1\n'),
    "the date": ("sh", './calc add 2 3\nd=$(date)\n[ "$d" != "" ] || exit 1\n'),
    "there is some output": ("sh", ADD + '[ -n "$out" ] || exit 1\n'),
    "no traceback": ("python", RUN + "assert 'Traceback' not in done.stderr\n"),
    "no word of an error": ("sh", "if ./calc add 2 3 | grep -q error; then exit 1; fi\n"),
    "a status of success, and a text": ("python", RUN + "assert done.returncode == 0 and done.stdout is not None\n"),
    "a named status, and no look at the rest": (
        "python",
        PY + "done = subprocess.run(['./calc', 'bad'], capture_output=True)\n"
        "assert done.returncode == 2 and done.stderr is not None\n",
    ),
    "several statuses, and no look at the rest": (
        "sh",
        "./calc bad\nrc=$?\n[ $rc -eq 2 ] || exit 1\nout=$(./calc add 2 3)\n[ $? -eq 0 ] || exit 1\n"
        '[ "$out" != zzz ] || exit 1\n',
    ),
    "a number at least": ("sh", ADD + '[ "$(echo "$out" | wc -l)" -ge 1 ] || exit 1\n'),
    "a file that was there": ("sh", "./calc add 2 3\ngrep -q echo calc || exit 1\n"),
    "as a sum of the system": ("sh", './calc add 2 3\n[ "$(expr 2 + 3)" = 5 ] || exit 1\n'),
}  # fmt: skip


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0

    def judge(self, language: str, text: str, criterion: str) -> str:
        assert check_test(language, text) == [] or language == "python", check_test(language, text)
        names = check_shell.programs(text) if language == "sh" else []

        async def run(how: How, calls: Sequence[Call]) -> Ran:
            return self.run(language, text, how, names, calls)

        return asyncio.run(proving.judge(run, criterion))[0]

    def run(self, language: str, text: str, how: How, names: Sequence[str], calls: Sequence[Call]) -> Ran:
        """As in the sandbox, but for the sandbox: a copy of the project, and a program that runs the test in it."""
        self.count += 1
        root = self.folder / f"tree-{self.count}"
        for name, content in FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        (root / "calc").chmod(0o755)
        test, known = self.folder / f"test.{language}", self.folder / "known.json"
        test.write_text(text)
        known.write_text(json.dumps({"names": names, "calls": calls}))
        words = [sys.executable, "-I", "-B", inside_test.__file__, how, language, test, root, known]
        env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        process = subprocess.Popen(
            list(map(str, words)),
            cwd=root,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=30)
        finally:
            os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
        return Ran(process.returncode, out, err, 0.0)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed on this machine")
    return Project(tmp_path)


@rows(
    ("criterion", "alone"),
    [
        ("`./calc bad` exits with status 2", True),
        ("`./calc` returns exit code 2 if the file cannot be written", True),
        ("it fails with status 3 where a row is missing", True),
        ("`./calc bad` prints its usage and exits with 2", False),
        ("`./calc bad` exits with 2 and an error message on stderr", False),
        ("`./calc add 2 3` prints `5`", False),
        ("sums are right", False),
    ],
)
def test_which_criteria_promise_nothing_but_an_exit_status(criterion: str, alone: bool) -> None:
    assert proving.names_only_a_status(criterion) is alone


@rows("name", HONEST)
def test_honest_tests_are_never_turned_back(project: Project, name: str) -> None:
    language, text, criterion = HONEST[name]
    if any(f"{program} " in text and shutil.which(program) is None for program in ("make", "node", "npm")):
        return  # a row is no test of its own, which could be skipped
    assert check_test(language, text) == []
    assert project.judge(language, text, criterion) == ""


@rows("name", VACUOUS)
def test_tests_that_assert_nothing_about_the_program_are_turned_back(project: Project, name: str) -> None:
    language, text = VACUOUS[name]
    if check_test(language, text):
        return  # refused before it runs
    assert project.judge(language, text, SUM) in (PASSES_OTHER, PASSES_EMPTY)
