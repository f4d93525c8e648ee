"""SOP.toml files that are none: every problem is reported at once, with its step, its line and the fix."""

import os
from pathlib import Path

import pytest

from adderclaw.config.legacy.options import Options
from adderclaw.config.trust import trust
from adderclaw.core.errors import UsageError
from adderclaw.flows.sop import find, inputs, tool_check
from adderclaw.flows.sop import parse as order
from adderclaw.flows.sop.parse import MAX_BYTES, MAX_STEPS, parse
from adderclaw.flows.sop.sop import InvalidSop, Sop
from tests.rows import rows

SEED = """name = "daily-check"
description = "Run a daily workspace check"

[[steps]]
id = "list"
kind = "tool"
tool = "file_list"
args = { path = "." }

[[steps]]
id = "summarize"
kind = "agent"
prompt = "Summarize the file list from the previous step."

[[steps]]
id = "approval"
kind = "approval"
prompt = "Continue to write report?"

[[steps]]
id = "write"
kind = "tool"
tool = "file_write"
args = { path = "daily-check.txt", content_from = "summarize" }
"""
"""As seed 001 has it."""

HEAD = 'name = "x"\n'


def step(id: str = "a", kind: str = "tool", more: str = 'tool = "file_list"') -> str:
    return f'[[steps]]\nid = "{id}"\nkind = "{kind}"\n{more}\n'


def problems(text: str) -> list[str]:
    """What is wrong with a file, as a person reads it."""
    put(Path("here"), text)
    try:
        load("here/daily-check/SOP.toml")
    except InvalidSop as error:
        return str(error).replace(error.file, "SOP.toml").split("\n")
    return []


def put(folder: Path, text: str | bytes = SEED, name: str = "daily-check") -> Path:
    file = folder / name / "SOP.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def load(name: str = "daily-check") -> Sop:
    options = Options(here=True)
    return find.load(find.find(name, find.sop_folders(options)), tool_check.known_tools(options))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ADDERCLAW_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


TWO = step("a") + step("b", more='tool = "file_write"\nargs = { path = "x", content_from = "%s" }')
BAD = [
    # ---- the file
    ("", ("SOP.toml: the SOP has no name", "SOP.toml: the SOP has no steps")),
    ("name = ", ("SOP.toml:1: it is not valid TOML",)),
    ('name = "x"\nsteps = 3', ("the SOP has no steps",)),
    ('name = "x"\nsteps = []', ("the SOP has no steps",)),
    ('name = "x"\nsteps = [1, "two"]', ("step 1: a step must be a table", "step 2: a step must be a table")),
    ("name = 3\n" + step(), ("SOP.toml:1: name must be a text, not 3",)),
    ('name = "../x"\n' + step(), ("SOP.toml:1: name = '../x': use at most 64 letters, digits",)),
    (f'name = "{"n" * 65}"\n' + step(), ("at most 64",)),
    (HEAD + "description = []\n" + step(), ("SOP.toml:2: description must be a text",)),
    (HEAD + 'descripton = "x"\n' + step(), ("SOP.toml:2: there is no key 'descripton'; did you mean description?",)),
    (
        HEAD + 'on_failure = "contine"\n' + step(),
        ("on_failure = 'contine': it must be one of abort, continue; did you mean",),
    ),
    ("a = " + "[" * 5000, ("it is not valid TOML",)),
    # ---- steps
    (HEAD + '[[steps]]\nkind = "tool"\ntool = "file_list"', ("SOP.toml:2: step 1: it has no id",)),
    (HEAD + '[[steps]]\nid = "a"', ("SOP.toml:2: step a: it has no kind",)),
    (HEAD + step(kind="tols"), ("SOP.toml:4: step a: kind = 'tols': it must be one of tool, agent, approval",)),
    (HEAD + step("a b"), ("step 1: id = 'a b'",)),
    (HEAD + step("a") + step("a"), ("SOP.toml:7: step a: this id is used twice, first in line 2",)),
    (HEAD + step(more=""), ("step a: a step of the kind tool needs a tool",)),
    (HEAD + step(kind="agent", more=""), ("step a: a step of the kind agent needs a prompt",)),
    (HEAD + step(kind="approval", more='prompt = "  "'), ("a step of the kind approval needs a prompt",)),
    (
        HEAD + step(kind="agent", more='prompt = "x"\ntool = "Read"'),
        ("tool is only for steps of the kind tool; this one",),
    ),
    (HEAD + step(more='tool = "file_list"\nprompt = "x"'), ("prompt is only for steps of the kind agent or approval",)),
    (HEAD + step(more='tool = "file_list"\nexpires = "1h"'), ("expires is only for steps of the kind approval",)),
    (HEAD + step(kind="approval", more='prompt = "x"\non_failure = "continue"'), ("a denial always ends the run",)),
    (
        HEAD + step(more='tool = "file_list"\nretrys = 2'),
        ("SOP.toml:6: step a: there is no key 'retrys' of a step; did you",),
    ),
    (HEAD + step(more='tool = "file_list"\nretries = -1'), ("retries must be a whole number from 0 to 10",)),
    (HEAD + step(more='tool = "file_list"\nretries = true'), ("retries must be a whole number",)),
    (
        HEAD + step(more='tool = "file_list"\ntimeout = "soon"'),
        ("SOP.toml:6: step a: timeout = 'soon': write seconds, or",),
    ),
    (HEAD + step(more='tool = "file_list"\ntimeout = 0'), ("timeout = 0",)),
    (HEAD + step(more='tool = "file_list"\ntimeout = inf'), ("timeout = inf",)),
    (HEAD + step(kind="approval", more='prompt = "x"\nexpires = "999999d"'), ("expires = '999999d'",)),
    (HEAD + "".join(step(f"s{n}") for n in range(MAX_STEPS + 1)), (f"there are {MAX_STEPS + 1} steps; at most",)),
    # ---- tools and their arguments
    (
        HEAD + step(more='tool = "file_lst"'),
        ("SOP.toml:2: step a: tool: there is no tool 'file_lst'; did you mean file_list?",),
    ),
    (HEAD + step(more='tool = "Call"'), ("tool: Call only helps models find tools; name the tool itself",)),
    (HEAD + step(more='tool = "mcp__none__x"'), ("there is no MCP server 'none'",)),
    (
        HEAD + step(kind="agent", more='prompt = "x"\ntools = ["Reed"]'),
        ("tools: there is no tool 'Reed'; did you mean Read?",),
    ),
    (HEAD + step(more='tool = "file_list"\nargs = 3'), ("args must be a table",)),
    (HEAD + step(more='tool = "file_list"\nargs = { pth = "." }'), ("args.pth: unknown key",)),
    (HEAD + step(more='tool = "file_read"'), ("args.file_path: is required",)),
    (HEAD + step(more='tool = "file_list"\nargs = { path = 3 }'), ("args.path: expected text, not 3",)),
    (HEAD + step(more='tool = "file_list"\nargs = { path = 1979-05-27 }'), ("a date cannot be an argument",)),
    (HEAD + step(more='tool = "file_list"\nargs = { path = nan }'), ("is not a number that JSON can represent",)),
    (
        HEAD + step(more=f'tool = "file_list"\nargs = {{ x = {"[" * 25}{"]" * 25} }}'),
        ("nested more than 20 levels deep",),
    ),
    # ---- references
    (HEAD + TWO % "b", ("step b: args.content_from: a step cannot refer to itself",)),
    (HEAD + TWO % "c", ("step b: args.content_from: there is no step 'c'",)),
    (HEAD + TWO % "c d", ("args.content_from must be the id of an earlier step",)),
    (
        HEAD + step("first", more='tool = "file_write"\nargs = { path = "x", content_from = "later" }') + step("later"),
        ("step first: args.content_from: the step 'later' comes later; move it before this one",),
    ),
    (
        HEAD + step("a", more='tool = "time"\nneeds = ["b"]') + step("b", more='tool = "time"\nneeds = ["a"]'),
        ("step a: needs: these steps wait for each other: a → b → a",),
    ),
    (
        HEAD
        + step("yes", "approval", 'prompt = "?"')
        + step("b", more='tool = "file_write"\nargs = { path = "x", content_from = "yes" }'),
        ("the step 'yes' is an approval, which has no output",),
    ),
    (HEAD + TWO.replace("path =", 'content = "y", path =') % "a", ("args: content is set twice",)),
    (
        HEAD + step(more='tool = "file_list"\nargs = { path_from_input = "dir" }'),
        ("there is no input 'dir' (inputs: none)",),
    ),
    (
        HEAD + step("a") + step("b", "agent", 'prompt = "x"\nuses = ["nope"]'),
        ("step b: uses: there is no step 'nope'",),
    ),
    # ---- templates
    (
        HEAD + step(more='tool = "file_list"\nargs = { path = "{{ folder }}" }'),
        ("args.path has a template, '{{ folder }}'",),
    ),
    (
        HEAD + step(more='tool = "Bash"\nargs = { command = "ls ${HOME}" }'),
        ("write $NAME for a variable of the shell",),
    ),
    (HEAD + step(more='tool = "file_list"\nargs = { path = "${steps.a.output}" }'), ("NAME_from = STEP",)),
    (HEAD + step(kind="agent", more='prompt = "Sum {{list}} up"'), ("SOP.toml:5: step a: prompt has a template",)),
    (HEAD + '[inputs.a]\ndefault = "{% x %}"\n' + step(), ("inputs.a: default has a template",)),
    # ---- conditions
    (
        HEAD + step(more='tool = "time"\nwhen = "a == b"'),
        ("SOP.toml:6: step a: when must be a table, not an expression",),
    ),
    (
        HEAD + step("a") + step("b", more='tool = "time"\nwhen = { step = "a" }'),
        ("when needs one step or input, and one",),
    ),
    (
        HEAD + step("a") + step("b", more='tool = "time"\nwhen = { step = "a", is = "done" }'),
        ("it must be one of succeeded",),
    ),
    (
        HEAD + step("a") + step("b", more='tool = "time"\nwhen = { step = "a", equals = 3 }'),
        ("the values must be texts",),
    ),
    (HEAD + step("a", more='tool = "time"\nwhen = { step = "a", is = "failed" }'), ("cannot refer to itself",)),
    (
        HEAD + step("a", more='tool = "time"\nwhen = { input = "x", equals = "y" }'),
        ("when.input: there is no input 'x'",),
    ),
    (
        HEAD + step("a") + step("b", more='tool = "time"\nwhen = { step = "a", matches = "x" }'),
        ("no key 'matches' of when",),
    ),
    # ---- inputs
    (HEAD + "inputs = 3\n" + step(), ("inputs must be a table",)),
    (HEAD + "[inputs]\na = 3\n" + step(), ("inputs.a must be a table",)),
    (HEAD + '[inputs.a]\ntype = "text"\n' + step(), ("inputs.a: type = 'text': it must be one of string",)),
    (HEAD + '[inputs.a]\ntype = "integer"\ndefault = "3"\n' + step(), ("default = '3' is not of the type integer",)),
    (HEAD + "[inputs.a]\nrequired = false\n" + step(), ("either required or has a default; add a default",)),
    (HEAD + '[inputs.a]\nrequired = true\ndefault = "x"\n' + step(), ("remove one of the two",)),
    (HEAD + '[inputs.a]\nchoices = ["b"]\ndefault = "c"\n' + step(), ("is not one of its choices (b)",)),
    (HEAD + '[inputs."a b"]\ntype = "string"\n' + step(), ("the input 'a b'",)),
]


@rows(("text", "messages"), BAD, ids=[messages[0][:60] for _, messages in BAD])
def test_what_is_wrong_is_said_with_its_place_and_the_fix(text: str, messages: tuple[str, ...]) -> None:
    found = "\n".join(problems(text))
    for message in messages:
        assert message in found


def test_every_problem_of_a_file_is_reported_at_once() -> None:
    text = HEAD + step("a", more='tool = "nope"\nretries = 99') + step("a", "agent", "prompt = 3") + 'surprise = "x"\n'
    found = problems(text)
    places = [line.split(": ")[0].removeprefix("SOP.toml:") for line in found]
    assert places == ["2", "6", "7", "8", "10", "11"]
    assert all(": step a: " in line for line in found)


def test_the_seeds_own_file_is_valid() -> None:
    assert problems(SEED) == []
    sop = parse(SEED, "SOP.toml")
    assert [one.id for one in sop.steps] == ["list", "summarize", "approval", "write"]
    assert sop.steps[3].references[0]._asdict() == {"argument": "content", "source": "summarize", "is_input": False}
    assert [one.line for one in sop.steps] == [4, 10, 15, 20]


def test_a_text_of_several_lines_is_no_step() -> None:
    text = HEAD + step("a", "agent", 'prompt = """\n[[steps]]\nid = "x"\n"""') + step("b", more='tool = "nope"')
    assert problems(text) == ["SOP.toml:9: step b: tool: there is no tool 'nope'"]


def test_what_a_file_says_is_what_it_is_known_by_and_not_how_it_is_laid_out() -> None:
    same = SEED.replace("\n\n", "\n# a remark\n\n")
    assert parse(same, "elsewhere").fingerprint == parse(SEED, "SOP.toml").fingerprint
    assert parse(SEED.replace("daily-check.txt", "other.txt"), "SOP.toml").fingerprint != parse(SEED, "").fingerprint


def test_a_cycle_over_several_kinds_of_references_is_found() -> None:
    text = (
        HEAD
        + step("a", more='tool = "time"\nwhen = { step = "c", is = "succeeded" }')
        + step("b", "agent", 'prompt = "x"\nuses = ["a"]')
        + step("c", more='tool = "file_write"\nargs = { path = "x", content_from = "b" }')
    )
    assert problems(text) == ["SOP.toml:2: step a: when.step: these steps wait for each other: a → c → b → a"]


# ------------------------------------------------------------------ where it lies


def test_a_trusted_workspaces_own_goes_before_the_operators(home: Path) -> None:
    own = put(home / "workspace" / "sops", SEED.replace("Run a daily", "Mine: a daily"))
    assert load().file == str(own)
    put(Path("sops"))
    assert load().file == str(own)
    trust.record(str(home), os.getcwd(), trust.survey(os.getcwd()), "2026-01-01T00:00:00Z")
    assert load().description == "Run a daily workspace check"
    names = [(one.name, one.scope, one.hidden) for one in find.list_sops(find.sop_folders(Options(here=True)))]
    assert names == [("daily-check", "workspace", False), ("daily-check", "home", True)]


@rows(
    ("text", "message"),
    [
        (b'name = "daily-check"\n# \xff\n', "SOP.toml:2: it is not UTF-8 text (byte 23)"),
        (b"#" * (MAX_BYTES + 1), f"it is larger than {MAX_BYTES:,} bytes"),
        (SEED.replace('"daily-check"', '"other"').encode(), "its name is 'other', but its folder is 'daily-check'"),
        (b"\0", "it is not valid TOML"),
    ],
)
def test_a_file_that_cannot_be_one_is_refused(text: bytes, message: str) -> None:
    put(Path("sops"), text)
    with pytest.raises(InvalidSop, match=message.replace("(", r"\(").replace(")", r"\)")):
        load()


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside")
    Path("sops/linked").mkdir(parents=True)
    Path("sops/linked/SOP.toml").symlink_to(outside)
    Path("sops/daily-check").symlink_to(outside.parent)
    for name in ("linked", "daily-check"):
        with pytest.raises(InvalidSop, match="it cannot be read"):
            load(name)
    Path("sops/pipe").mkdir()
    os.mkfifo("sops/pipe/SOP.toml")
    with pytest.raises(InvalidSop, match="it cannot be read"):
        load("pipe")


@rows(
    ("name", "message"),
    [
        ("daily-chek", "there is no SOP 'daily-chek' in .*; did you mean daily-check?"),
        ("a b", "is neither the name of a SOP nor a path"),
        ("", "is neither the name of a SOP"),
        ("./none/SOP.toml", "No such file"),
        ("../..", "No such file"),
    ],
)
def test_one_that_is_not_there_is_a_usage_error(name: str, message: str) -> None:
    put(Path("sops"))
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        load(name)


# ------------------------------------------------------------------ inputs

DECLARED = """
[inputs.dir]
description = "where"
[inputs.count]
type = "integer"
default = 3
[inputs.deep]
type = "boolean"
default = false
[inputs.share]
type = "number"
default = 0.5
[inputs.mode]
choices = ["a", "b"]
default = "a"
"""
INPUTS = parse(HEAD + DECLARED + step(), "SOP.toml")


@rows(
    ("given", "messages"),
    [
        ({}, ("the input 'dir' is missing: give it with --input dir=VALUE",)),
        (
            {"dir": ".", "cont": "1"},
            ("there is no input 'cont' (inputs: dir, count, deep, share, mode); did you mean count?",),
        ),
        ({"dir": ".", "count": "many"}, ("the input 'count': it takes a value of the type integer, not 'many'",)),
        ({"dir": ".", "deep": "yes"}, ("the input 'deep': it takes true or false, not 'yes'",)),
        ({"dir": ".", "share": "nan"}, ("the input 'share'",)),
        ({"dir": ".", "mode": "c"}, ("the input 'mode': 'c' is not one of a, b",)),
        ({"dir": "x" * (1 << 20) + "y"}, ("larger than 1,048,576 characters",)),
        ({"count": "1.5", "mode": "z"}, ("'dir' is missing", "'count'", "'mode'")),
    ],
)
def test_inputs_that_do_not_fit_are_refused_together(given: dict[str, str], messages: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as refused:
        inputs.bind_inputs(INPUTS, given)
    for message in messages:
        assert message in str(refused.value)


def test_inputs_become_what_they_are_declared_as() -> None:
    given = {"dir": "{{ not a template }}", "count": "7", "deep": "true", "share": "2"}
    assert inputs.bind_inputs(INPUTS, given) == {
        "dir": given["dir"],
        "count": 7,
        "deep": True,
        "share": 2.0,
        "mode": "a",
    }


def test_a_step_refers_to_what_it_names_and_to_nothing_else() -> None:
    sop = parse(SEED, "SOP.toml")
    assert [list(order.referenced_steps(one)) for one in sop.steps] == [
        [],
        [],
        [],
        [("args.content_from", "summarize")],
    ]
