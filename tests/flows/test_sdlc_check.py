"""The static check of generated tests: a table of cheats, each with its reason, and what an honest test looks like."""

from adderclaw.flows.sdlc.tools import check_test
from tests.rows import rows

HONEST_SH = {
    "the seed's tool contract": r"""
# Setup: create a known file
echo -e "line1\nline2\nline3" > /tmp/sdlc_test_read_input.txt

# Exercise: invoke Read through the product's public CLI interface
ona --eval '{"tool": "Read", "input": {"file_path": "/tmp/sdlc_test_read_input.txt"}}'

# Assert against observable outcomes:
RESULT=$(sqlite3 "$AGENT_SDLC_DB" \
  "SELECT payload_json FROM transcript_entries
   WHERE entry_type='tool_result' ORDER BY sequence DESC LIMIT 1")
echo "$RESULT" | grep '"is_error":false' || exit 1
echo "$RESULT" | grep 'line1' || exit 1
""",
    "the seed's phase transition": """
sqlite3 "$AGENT_SDLC_DB" "INSERT INTO conversations(id, project_dir, phase) VALUES ('c', '/tmp', 'implement')"
ona --transition verify --conversation c 2>&1
PHASE=$(sqlite3 "$AGENT_SDLC_DB" "SELECT phase FROM conversations WHERE id='c'")
test "$PHASE" = "implement" || exit 1  # still implement, not verify
""",
    "the seed's hook contract": r"""
sqlite3 "$AGENT_SDLC_DB" \
  "INSERT OR REPLACE INTO settings_snapshot(scope, json, updated_at)
   VALUES ('effective', '{\"hooks\":[{\"hook_event_name\":\"PreToolUse\",\"command\":\"exit 2\"}]}', datetime('now'))"
ona --eval '{"tool": "Bash", "input": {"command": "echo hello"}}'
sqlite3 "$AGENT_SDLC_DB" \
  "SELECT exit_code FROM hook_invocations
   WHERE hook_event='PreToolUse' AND tool_name='Bash' ORDER BY id DESC LIMIT 1" | grep '^2$' || exit 1
""",
    "strict, with a helper": """
set -eu
fail() { echo "$1" >&2; exit 1; }
out=$(./greet Ada)
[ "$out" = "Hello, Ada" ] || fail "printed $out"
""",
    "an expected failure": """
if out=$(./greet 2>&1); then exit 1; fi
case "$out" in *usage*) ;; *) exit 1 ;; esac
""",
    "an exit status that the criterion names": "./greet --bad\nrc=$?\n[ $rc -eq 2 ] || exit 1\n",
    "the last command decides": "./greet Ada > out.txt\ngrep -qx 'Hello, Ada' out.txt\n",
    "a regular expression": "out=$(./greet Ada)\n[[ $out =~ ^Hello ]] || exit 1\nexit 0\n",
}

HONEST_PYTHON = {
    "process output": """
import subprocess
done = subprocess.run(["./greet", "Ada"], capture_output=True, text=True)
assert done.returncode == 0, done.stderr
assert done.stdout == "Hello, Ada\\n"
""",
    "rows, in functions": """
import os, sqlite3, subprocess

def rows(query):
    with sqlite3.connect(os.environ["AGENT_SDLC_DB"]) as db:
        return db.execute(query).fetchall()

def main():
    subprocess.run(["./tool", "add", "x"], check=True)
    assert rows("SELECT name FROM items") == [("x",)]

if __name__ == "__main__":
    main()
""",
    "by raising": """
import pathlib, subprocess
subprocess.run(["./tool"], check=True)
text = pathlib.Path("out.txt").read_text()
if "done" not in text:
    raise AssertionError(text)
""",
    "a failing status that is named": "import subprocess\nassert subprocess.run(['./tool', '--bad']).returncode == 2\n",
    "a local server stands in for a service": """
import http.server, subprocess, threading
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
threading.Thread(target=server.handle_request, daemon=True).start()
done = subprocess.run(["./tool", f"http://127.0.0.1:{server.server_port}/"], capture_output=True, text=True)
assert "501" in done.stderr
""",
}

CHEATS_SH = {
    "empty": ("", "empty"),
    "comments alone": ("# nothing to see\n", "cannot be checked (empty)"),
    "asserts nothing": ("./greet Ada\necho done\n", "asserts nothing"),
    "the seed's smoke test": ("ona --eval '{}'\ntest $? -eq 0\n", "only checks an exit status"),
    "a smoke test in disguise": ("./greet Ada || exit 1\n", "only checks an exit status"),
    "a smoke test by a variable": ("./greet\nrc=$?\n[ $rc -eq 0 ] || exit 1\n", "only checks an exit status"),
    "any failure will do": ("./greet\nrc=$?\n[ $rc -ne 0 ] || exit 1\n", "only checks an exit status"),
    "exists only": ("./greet Ada > out\n[ -f out ] || exit 1\n", "only checks that a file exists"),
    "exists only, by test": ("./greet > out\ntest -s out\n", "only checks that a file exists"),
    "anything matches": ("./greet Ada | grep -q . || exit 1\n", "only checks that a file exists"),
    "compares words that it wrote": ('./greet\n[ "a" = "a" ] || exit 1\n', "asserts nothing"),
    "compares with itself": ('x=$(./greet)\n[ "$x" = "$x" ] || exit 1\n', "asserts nothing"),
    "or true": ("./greet | grep Hello || true\n[ $(./greet) = x ]\n", "line 1: `|| true` turns a failure"),
    "or colon": ("./greet | grep Hello || :\n", "turns a failure into a success"),
    "or echo": ('./greet | grep Hello || echo "fine"\n', "turns a failure into a success"),
    "or exit 0": ("./greet | grep Hello || exit 0\n", "turns a failure into a success"),
    "skips": ("exit 0\n./greet | grep Hello || exit 1\n", "line 1: `exit 0` before the end"),
    "skips without a word": ("if [ -z \"$CI\" ]; then exit; fi\n./greet | grep Hello || exit 1\n", "before the end"),
    "skips by a variable": ("exit $STATUS\n./greet | grep Hello || exit 1\n", "not a literal"),
    "256 is 0": ("./greet | grep Hello || exit 256\nexit 256\n./greet\n", "before the end"),
    "ends as passed, whatever comes": ("trap 'exit 0' EXIT\n./greet | grep Hello || exit 1\n", "changes how the test"),
    "in a subshell alone": ("(./greet | grep Hello || exit 1)\n./greet\n", "only checks an exit status"),
    "in a function of its own": ("assert_it() { ./greet | grep Hello || exit 1; }\necho ok\n", "asserts nothing"),
    "in the background": ("./greet\ngrep Hello out &\n", "asserts nothing"),
    "sleeps": ("./greet &\nsleep 5\ncurl localhost | grep Hello || exit 1\n", "line 2: it sleeps"),
    "sleeps by path": ("/bin/sleep 1\n./greet | grep Hello || exit 1\n", "it sleeps"),
    "sleeps in a substitution": ('x=$(sleep 3; ./greet)\n[ "$x" = Hello ] || exit 1\n', "it sleeps"),
    "a stub function": ("greet() { echo Hello; }\ngreet | grep Hello || exit 1\n", "could replace a program"),
    "an alias": ("alias greet='echo Hello'\ngreet | grep Hello || exit 1\n", "do not stub anything"),
    "a program before it in PATH": ("PATH=/tmp/fake:$PATH\ngreet | grep Hello || exit 1\n", "sets PATH"),
    "the same by export": ("export PATH=/tmp/fake\ngreet | grep Hello || exit 1\n", "sets PATH"),
    "for one command": ("PYTHONPATH=/tmp/fake ./greet | grep Hello || exit 1\n", "sets PYTHONPATH"),
    "another library": ("LD_PRELOAD=/tmp/x.so ./greet | grep Hello || exit 1\n", "sets LD_PRELOAD"),
    "internals by inline code": ('python3 -c "from app import f; assert f() == 1"\n', "inline code"),
    "internals by a here-document": ("python3 <<'E'\nimport app\nE\n./greet | grep Hello || exit 1\n", "inline code"),
    "internals by node": ("node -e 'require(\"./lib\")' | grep ok || exit 1\n", "inline code"),
    "eval": ('eval "$X"\n./greet | grep Hello || exit 1\n', "cannot be checked"),
    "source": ("source ./lib.sh\n./greet | grep Hello || exit 1\n", "cannot be checked"),
    "exec": ("exec true\n./greet | grep Hello || exit 1\n", "replaces the test with another program"),
    "errors off": ("set -e\nset +e\n./greet | grep Hello || exit 1\n", "turns `set -e` off"),
    "starts nothing": ('[ "$(cat src/app.py)" = x ] || exit 1\n', "starts no program"),
    "reads sources by grep": ("grep -q 'def greet' app.py || exit 1\n", "starts no program"),
    "what nobody can read": ("./greet | grep Hello || exit 1\ncoproc x { ./greet; }\n", "line 2: it cannot be checked"),
    "half a quote": ("./greet 'Ada\n", "cannot be checked"),
    "control characters": ("./greet\x07\n", "control characters"),
    "an endless test": ("./greet\n" * 5000, "characters; at most"),
}  # fmt: skip

CHEATS_PYTHON = {
    "asserts nothing": ("import subprocess\nsubprocess.run(['./tool'], check=True)\n", "asserts nothing"),
    "a constant": ("import subprocess\nsubprocess.run(['./tool'])\nassert True\n", "line 3: this assertion"),
    "constants": ("import subprocess\nsubprocess.run(['./tool'])\nassert 1 == 1\n", "cannot fail"),
    "a tuple": ("import subprocess\nx = subprocess.run(['./t'])\nassert (x == 1, 'no')\n", "cannot fail"),
    "or true": ("import subprocess\nx = subprocess.run(['./t'])\nassert x.stdout == 'a' or True\n", "cannot fail"),
    "itself": ("import subprocess\nx = subprocess.run(['./t'])\nassert x.stdout == x.stdout\n", "cannot fail"),
    "the empty text": ("import subprocess\nx = subprocess.run(['./t'])\nassert '' in x.stdout\n", "cannot fail"),
    "any length": ("import subprocess\nx = subprocess.run(['./t'])\nassert len(x.stdout) >= 0\n", "cannot fail"),
    "its own words": ("import subprocess\nsubprocess.run(['./t'])\nx = 'a'\nassert x == 'a'\n", "asserts nothing"),
    "exit 0 only": ("import subprocess\nassert subprocess.run(['./t']).returncode == 0\n", "only checks an exit"),
    "any failure": ("import subprocess\nassert subprocess.run(['./t']).returncode != 0\n", "only checks an exit"),
    "exists only": (
        "import os, subprocess\nsubprocess.run(['./t'])\nassert os.path.exists('out')\n",
        "only checks that a file exists",
    ),
    "exists only, by pathlib": (
        "import pathlib, subprocess\nsubprocess.run(['./t'])\nassert pathlib.Path('out').is_file()\n",
        "only checks that a file exists",
    ),
    "in a function that nobody calls": (
        "import subprocess\ndef test_it():\n    assert subprocess.run(['./t']).stdout == 'a'\n",
        "asserts nothing",
    ),
    "only sometimes": (
        "import os, subprocess\nx = subprocess.run(['./t'])\nif os.environ.get('CI'):\n    assert x.stdout == 'a'\n",
        "asserts nothing",
    ),
    "over nothing": (
        "import subprocess\nx = subprocess.run(['./t'])\nfor one in []:\n    assert x.stdout == one\n",
        "asserts nothing",
    ),
    "mock": ("from unittest import mock\nassert mock.Mock()\n", "line 1: it imports unittest"),
    "mock by another name": ("import unittest.mock as m\n", "do not mock or patch anything"),
    "pytest": ("import pytest\n@pytest.mark.skip\ndef test(): pass\n", "do not use a test runner"),
    "internals": ("import app.core\nassert app.core.f() == 1\n", "do not use internals of the project"),
    "internals, relative": ("from . import core\n", "do not use internals of the project"),
    "internals, late": ("import importlib\nimportlib.import_module('app')\n", "imports importlib"),
    "internals by a name": ("__import__('app')\n", "it uses __import__"),
    "internals by the path": ("import sys\nsys.path.insert(0, 'src')\n", "sys.path"),
    "internals by inline code": (
        "import subprocess, sys\nx = subprocess.run([sys.executable, '-c', 'import app'])\nassert x.stdout == ''\n",
        "inline code",
    ),
    "monkeypatching": ("import subprocess\nsubprocess.run = lambda *a: None\n", "replaces subprocess.run"),
    "monkeypatching deeper": ("import os\nos.path.exists = lambda p: True\n", "replaces os.path.exists"),
    "setattr": ("import os\nsetattr(os, 'listdir', None)\n", "it uses setattr"),
    "a builtin replaced": ("def open(*a): return None\n", "replaces open"),
    "a module replaced": ("import json\njson = None\n", "replaces the module json"),
    "always equal": ("class Any:\n    def __eq__(self, other): return True\n", "it defines __eq__"),
    "private state": ("import subprocess\nx = subprocess.run(['./t']).__dict__\n", "not part of a public interface"),
    "catches all": ("try:\n    assert 1 == x\nexcept:\n    pass\n", "line 3: it catches every error"),
    "catches its own": ("try:\n    pass\nexcept (OSError, AssertionError):\n    pass\n", "catches every error"),
    "leaves finally": (
        "import subprocess\ndef main():\n    try:\n        assert subprocess.run(['./t']).stdout == 'a'\n"
        "    finally:\n        return\nmain()\n",
        "leaves a `finally`",
    ),
    "skips": ("import sys\nsys.exit(0)\n", "let a passing test run to its end"),
    "skips with nothing": ("import sys\nsys.exit()\n", "let a passing test run to its end"),
    "skips by a name": ("exit()\n", "it uses exit"),
    "skips by import": ("from sys import exit\nexit(0)\n", "let a passing test run to its end"),
    "skips by raising": ("raise SystemExit\n", "raises SystemExit"),
    "ends the process": ("import os\nos._exit(0)\n", "os._exit"),
    "sleeps": ("import time\ntime.sleep(3)\n", "line 2: it sleeps"),
    "sleeps by import": ("from time import sleep\n", "it sleeps"),
    "sleeps by another name": ("import time as t\nt.sleep(1)\n", "it sleeps"),
    "sleeps by a program": ("import subprocess\nsubprocess.run(['sleep', '5'])\n", "it sleeps"),
    "sleeps by an event": ("import threading\nthreading.Event().wait(5)\n", "threading.Event"),
    "a shell": ("import subprocess\nsubprocess.run('./t || true', shell=True)\n", "passes text to a shell"),
    "another library": (
        "import subprocess\nx = subprocess.run(['./t'], env={'PYTHONPATH': 'fake'})\nassert x.stdout == ''\n",
        "sets PYTHONPATH",
    ),
    "eval": ("eval('1')\n", "it uses eval"),
    "starts nothing": ("assert open('src/app.py').read() == 'x'\n", "starts no program"),
    "starts true": ("import subprocess\nx = subprocess.run(['true'])\nassert x.stdout == ''\n", "starts no program"),
    "no Python": ("assert (\n", "line 1: it is not valid Python"),
    "too deep": ("x = " + "(" * 500 + ")" * 500, "it"),
    "asynchronous": ("async def main():\n    pass\n", "asynchronous"),
}  # fmt: skip


@rows("name", HONEST_SH)
def test_honest_tests_in_sh_may_run(name: str) -> None:
    assert check_test("sh", HONEST_SH[name]) == []


@rows("name", HONEST_PYTHON)
def test_honest_tests_in_python_may_run(name: str) -> None:
    assert check_test("python", HONEST_PYTHON[name]) == []


@rows("name", CHEATS_SH)
def test_cheats_in_sh_are_refused_with_their_reason(name: str) -> None:
    text, reason = CHEATS_SH[name]
    found = check_test("sh", text)
    assert any(reason in str(one) for one in found), found


@rows("name", CHEATS_PYTHON)
def test_cheats_in_python_are_refused_with_their_reason(name: str) -> None:
    text, reason = CHEATS_PYTHON[name]
    found = check_test("python", text)
    assert any(reason in str(one) for one in found), found


def test_other_languages_are_refused() -> None:
    assert "not in 'ruby'" in str(check_test("ruby", "puts 1")[0])
