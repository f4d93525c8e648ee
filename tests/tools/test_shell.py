"""Bash as a tool: what a call would touch, what is reported, how it is ended, where the shell stands afterwards."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from adderclaw.config.schema import Config, Runtime
from adderclaw.core.decode import Invalid, decode
from adderclaw.core.host import ToolContext
from adderclaw.core.types import ToolResult, Workspace
from adderclaw.policy.legacy.shell import planner as planner
from adderclaw.policy.legacy.shell.planner import Plan, Raw
from adderclaw.sandbox import confinement
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.tools import find_tool, resolve_arguments, shell
from adderclaw.tools.identity import NOBODY
from adderclaw.tools.legacy import hardened_git
from adderclaw.tools.paths import PathRefused
from adderclaw.tools.shell import BashArguments
from tests.tools.conftest import result_of


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    root = tmp_path / "ws"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("alpha\nbeta\n")
    return ToolContext("c", "s", Workspace(str(root)))


def bash(command: str, ctx: ToolContext, timeout: int = 20_000) -> ToolResult:
    return result_of(shell.prepare(BashArguments(command=command, timeout=timeout), ctx))


# ------------------------------------------------------------------ failures


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("false", "Exit code 1\n"),
        ("exit 42", "Exit code 42\n"),
        ("echo out; echo err >&2; exit 3", "Exit code 3\nout\n\n--- stderr ---\nerr\n"),
        ("kill -9 $$", "Exit code 137 (killed by SIGKILL)\n"),
        ("kill -TERM $$", "Exit code 143 (killed by SIGTERM)\n"),
        ("! grep alpha a.txt", "Exit code 1\nalpha\n"),
        ("! grep $(echo alpha) a.txt", "Exit code 1\nalpha\n"),
        ("grep gamma a.txt || false", "Exit code 1\n"),
        ("if ! grep gamma $(echo a.txt); then false; fi", "Exit code 1\n"),
    ],
)
def test_what_fails_is_rejected_and_begins_with_its_exit_code(command: str, content: str, ctx: ToolContext) -> None:
    result = bash(command, ctx)
    assert (result.content, result.error_class) == (content, "tool_rejected")


@pytest.mark.parametrize("command", ["ls nowhere", "grep alpha nowhere", "no-such-program", "cd nowhere", "'a b' c"])
def test_what_cannot_be_done_says_why(command: str, ctx: ToolContext) -> None:
    result = bash(command, ctx)
    assert result.error_class == "tool_rejected"
    assert result.content.startswith("Exit code ")
    assert "--- stderr ---" in result.content


def test_a_time_limit_is_an_internal_failure_with_what_was_printed(ctx: ToolContext) -> None:
    began = time.monotonic()
    result = bash("echo first; sleep 100", ctx, timeout=1500)
    assert result.error_class == "internal_failure"
    assert result.content == "[SDLC_INTERNAL] Command timed out after 1.5 s and was killed\nfirst\n"
    assert time.monotonic() - began < 30


def test_a_flood_ends_with_the_time_limit_and_is_not_kept(ctx: ToolContext) -> None:
    result = bash("yes", ctx, timeout=1500)
    assert result.error_class == "internal_failure"
    assert result.content.startswith("[SDLC_INTERNAL] Command timed out after 1.5 s and was killed\ny\n")


@pytest.mark.parametrize("timeout", [0, -1, "10", 1.5, True])
def test_a_time_limit_that_is_none(timeout: object) -> None:
    with pytest.raises(Invalid, match="timeout"):
        decode(BashArguments, {"command": "true", "timeout": timeout})


@pytest.mark.parametrize("given", [{}, {"command": 1}, {"command": "ls", "run_in_background": "yes"}, {"cmd": "ls"}])
def test_arguments_that_do_not_fit(given: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        decode(BashArguments, given)


def test_input_is_empty_and_nothing_waits_for_a_terminal(ctx: ToolContext) -> None:
    assert bash("cat", ctx).content == ""
    assert bash("test -t 0", ctx).content == ""
    assert bash("tty", ctx).is_error


def test_start_up_files_are_not_read(ctx: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".bashrc", ".bash_profile", ".profile", "env.sh"):
        (tmp_path / name).write_text("echo hijacked\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "env.sh"))
    assert bash("echo clean", ctx).content == "clean\n"


def test_a_program_of_the_workspace_never_stands_for_one_of_the_system(
    ctx: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Path(ctx.workspace.root) / "cat"
    fake.write_text("#!/bin/sh\necho hijacked\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ctx.workspace.root}:.:/usr/bin:/bin")
    for command in ("cat a.txt", "cat $(echo a.txt)", "env cat a.txt"):
        assert bash(command, ctx).content == "alpha\nbeta\n"


# ------------------------------------------------------------------ answers


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("echo hello", "hello\n"),
        ("true", ""),
        ("cat a.txt | wc -l", "2\n"),
        ("printf '%s' \"a b\"", "a b"),
        ("echo warn >&2", "\n--- stderr ---\nwarn\n"),
        ("echo a; echo b >&2", "a\n\n--- stderr ---\nb\n"),
        ("printf '\\377x'", "\ufffdx"),
        ("echo *.txt", "a.txt\n"),
        ('x=1; echo "$x$x"', "11\n"),
    ],
)
def test_stdout_then_stderr(command: str, content: str, ctx: ToolContext) -> None:
    assert bash(command, ctx) == ToolResult(content, metadata={"exit_code": 0, "truncated": False})


@pytest.mark.parametrize(
    "command",
    [
        "grep gamma a.txt",
        "cat a.txt | grep gamma",
        "diff a.txt /dev/null",
        "test -f nowhere",
        "[ -f nowhere ]",
        'grep "$HOSTNAME-x" a.txt',
        "git diff --no-index --quiet a.txt /dev/null",
    ],
)
def test_one_is_an_answer_of_these(command: str, ctx: ToolContext) -> None:
    result = bash(command, ctx)
    assert not result.is_error
    assert result.metadata["exit_code"] == 1


def test_more_than_a_stream_holds_is_marked_and_the_middle_left_out(ctx: ToolContext) -> None:
    result = bash("head -c 20000000 /dev/zero | tr '\\0' x; echo small >&2", ctx)
    assert "[SDLC_TRUNCATED]\n--- stderr ---\nsmall\n" in result.content
    assert result.metadata["dropped_bytes"] > 0


def test_exactly_a_stream_is_not_marked(ctx: ToolContext) -> None:
    assert "[SDLC_TRUNCATED]" not in bash("head -c 17825792 /dev/zero | tr '\\0' x", ctx).content


def test_what_fits_is_shown_whole(ctx: ToolContext) -> None:
    assert bash("head -c 30000 /dev/zero | tr '\\0' x", ctx).content == "x" * 30_000


# ------------------------------------------------------------------ what programs may do beyond their words


def repository(ctx: ToolContext, *, config: str = "") -> Path:
    root = Path(ctx.workspace.root)
    bash("git init -q . && git config user.name x && git config user.email x@example.org", ctx)
    marker = f"touch {root}/ran"
    with (root / ".git/config").open("a") as file:
        file.write(config.replace("RUN", marker))
    return root


def test_ordinary_commits_work(ctx: ToolContext) -> None:
    root = repository(ctx)
    for command in (
        "git add -A",
        "git commit -q -m first",
        "git status --short",
        "git log --oneline",
        "git diff",
        "git show",
    ):
        assert not bash(command, ctx).is_error, command
    (root / "a.txt").write_text("other\n")
    assert "+other" in bash("git diff", ctx).content
    assert not bash("git stash && git stash pop && git checkout -q -b next && git commit -qam second", ctx).is_error


@pytest.mark.parametrize(
    ("config", "command"),
    [
        ("[core]\nfsmonitor = RUN\n", "git status"),
        ("[core]\nfsmonitor = RUN\n", "git diff"),
        ("[core]\npager = RUN\n", "git log"),
        ("[core]\neditor = RUN\n", "git commit --allow-empty"),
        ("[sequence]\neditor = RUN\n", "git rebase -i --root"),
        ("[diff]\nexternal = RUN\n", "git diff"),
        ("[diff]\nexternal = RUN\n", "git log -p --no-pager"),
        ('[diff "d"]\ncommand = RUN\n', "git diff"),
        ('[diff "d"]\ntextconv = RUN\n', "git diff"),
        ('[diff "d"]\ntextconv = RUN\n', "git show"),
        ('[diff "d"]\ntextconv = RUN\n', "git blame a.txt"),
        ("[commit]\ngpgSign = true\n[gpg]\nprogram = RUN\n", "git commit -qam x"),
        ("[core]\nsshCommand = RUN\n", "git fetch ssh://127.0.0.1:1/x"),
        ("[core]\naskPass = RUN\n", "git fetch http://127.0.0.1:1/x"),
        ('[url "ext::RUN"]\ninsteadOf = x:\n[protocol "ext"]\nallow = always\n', "git fetch x:y"),
    ],
)
def test_a_repositorys_own_configuration_runs_nothing(config: str, command: str, ctx: ToolContext) -> None:
    root = repository(ctx)
    (root / ".gitattributes").write_text("*.txt diff=d\n")
    bash("git add -A && git commit -q -m first", ctx)
    (root / "a.txt").write_text("other\n")
    with (root / ".git/config").open("a") as file:
        file.write(config.replace("RUN", f"touch {root}/ran;"))
    bash(command, ctx)
    assert not (root / "ran").exists()


def test_hooks_and_bare_repositories_run_nothing(ctx: ToolContext) -> None:
    root = repository(ctx)
    hook = root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {root}/ran\n")
    hook.chmod(0o755)
    assert not bash("git add -A && git commit -q -m first", ctx).is_error
    assert not bash("git init -q --bare evil", ctx).is_error
    (root / "evil/config").write_text(f"[core]\nbare = false\nworktree = /\nfsmonitor = touch {root}/ran\n")
    assert bash("git -C evil status", ctx).is_error
    assert not (root / "ran").exists()


def test_sed_runs_and_writes_nothing(ctx: ToolContext) -> None:
    assert bash("sed -n '1p' a.txt", ctx).content == "alpha\n"
    assert bash("sed 's/[[:alpha:]]*/x/' a.txt", ctx).content == "x\nx\n"
    assert bash("sed -i 's/alpha/gamma/' a.txt && cat a.txt", ctx).content == "gamma\nbeta\n"
    words = planner.simples(hardened_git.hardened(_plan("sed p a.txt"), {}))[0].words
    assert words[1] == "--sandbox" or not hardened_git._has_sandbox("/bin/sed")  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("list_names", ["ls", "find . -type f", "git ls-files", "grep -rl alpha ."])
def test_a_name_that_is_found_stays_one_word_and_is_no_option(list_names: str, ctx: ToolContext) -> None:
    root = repository(ctx)
    for name in ("-n", "--help", "a b", "it's"):
        (root / name).write_text("alpha\n")
    assert not bash("git add -A && git commit -q -m all", ctx).is_error
    result = bash(f"{list_names} | grep -v -e sub -e .git/ | xargs cat", ctx)
    assert not result.is_error, result.content
    assert result.content.count("alpha") == sum(1 for entry in root.iterdir() if entry.is_file())


def test_a_name_in_the_middle_of_a_command_is_no_option(ctx: ToolContext) -> None:
    (Path(ctx.workspace.root) / "--help").write_text("alpha\n")
    assert bash("ls | grep help | xargs -I{} grep -c alpha {}", ctx).content == "1\n"
    assert bash("ls | grep help | xargs -I% cp % copied", ctx).content == ""
    assert (Path(ctx.workspace.root) / "copied").read_text() == "alpha\n"
    assert bash("seq 3 | xargs -n1 echo n", ctx).content == "n 1\nn 2\nn 3\n"
    assert bash("echo 'a b' | xargs -n1 echo", ctx).content == "a\nb\n"


def test_a_text_that_is_code_for_one_command_is_data_for_another(ctx: ToolContext) -> None:
    assert bash("echo 'ls -d sub'; bash -c 'ls -d sub'", ctx).content == "ls -d sub\nsub\n"
    assert bash("cat <<< 'ls -d sub'; bash <<< 'ls -d sub'", ctx).content == "ls -d sub\nsub\n"
    text = hardened_git.rendered(_plan("bash <<< 'ls   sub'"), NOBODY, (), alone=False).text
    assert "ls   sub" not in text, "a shell inside gets text of ours"


def test_a_virtual_environment_is_active_without_its_script_being_run(ctx: ToolContext) -> None:
    """Every real one has a python that is a link to outside of the workspace."""
    import sys

    place = Path(ctx.workspace.root) / ".venv/bin"
    place.mkdir(parents=True)
    (place / "activate").write_text("touch ran\n")
    (place / "python").symlink_to(os.path.realpath(sys.executable))
    (place / "tool").write_text("#!/bin/sh\necho tool $1\n")
    (place / "tool").chmod(0o755)
    assert bash("source .venv/bin/activate && tool x", ctx).content == "tool x\n"
    assert bash(". .venv/bin/activate; cd sub; tool y", ctx).content == "tool y\n"
    ctx.workspace.cwd = ctx.workspace.root
    assert bash(".venv/bin/python -c 'print(1 + 1)'", ctx).content == "2\n"
    assert not (Path(ctx.workspace.root) / "ran").exists()
    facts = shell.prepare(BashArguments(command=".venv/bin/python x.py"), ctx).touch.reads
    assert all(fact.real.startswith(os.path.realpath(ctx.workspace.root)) for fact in facts)


def test_only_a_process_that_the_shell_started_is_ended(ctx: ToolContext) -> None:
    result = bash("sleep 30 & PID=$!; kill $PID; wait $PID; echo $?", ctx)
    assert result.content == "143\n"
    assert isinstance(shell.prepare(BashArguments(command="PID=$(cat a.txt); kill $PID"), ctx).touch.command, Raw)


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ('for i in 1 2 3; do echo $i; [ "$i" = 2 ] && break; done', "1\n2\n"),
        ('for i in 1 2 3; do [ "$i" = 2 ] && continue; echo $i; done', "1\n3\n"),
        ("for i in a b; do false; echo $?; done", "1\n1\n"),
        ("false | true; echo ${PIPESTATUS[0]}", "1\n"),
        ('cat a.txt | while read l; do echo "<$l>"; done', "<alpha>\n<beta>\n"),
        ("python3 -c \"print(open('a.txt').read().upper())\"", "ALPHA\nBETA\n\n"),
    ],
)
def test_plans_of_what_models_write(command: str, printed: str, ctx: ToolContext) -> None:
    touch = shell.prepare(BashArguments(command=command), ctx).touch
    assert isinstance(touch.command, Plan), touch.why
    assert bash(command, ctx).content == printed


def _plan(command: str) -> Plan:
    made = planner.plan(command, lambda name: f"/bin/{name}")
    assert isinstance(made, Plan)
    return made


# ------------------------------------------------------------------ the working directory


@pytest.mark.parametrize(
    ("command", "where"),
    [
        ("cd sub", "sub"),
        ("cd sub && pwd", "sub"),
        ("cd sub; false", "sub"),
        ("cd sub; exit 3", "sub"),
        ("cd sub && cd ..", ""),
        ("cd sub | cat", ""),
        ("cd nowhere", ""),
        ("(cd sub)", ""),
        ("pushd sub", "sub"),
        ("ls sub", ""),
    ],
)
def test_the_working_directory_carries_over(command: str, where: str, ctx: ToolContext) -> None:
    bash(command, ctx)
    assert ctx.workspace.cwd == str(Path(ctx.workspace.root) / where)
    assert bash("pwd", ctx).content == f"{ctx.workspace.cwd}\n"


@pytest.mark.parametrize("command", ["cd /", "cd ..", "cd out", "cd sub && cd ../.."])
def test_outside_of_the_workspace_it_is_reset_and_said(command: str, ctx: ToolContext) -> None:
    root = ctx.workspace.root
    (Path(root) / "out").symlink_to("/usr")
    ctx.workspace.cwd = str(Path(root) / "sub") if command == "cd sub" else root
    result = bash(f"{command} && echo done", ctx)
    assert result.content == f"done\nShell cwd was reset to {root}"
    assert ctx.workspace.cwd == root


def test_a_further_directory_is_part_of_the_workspace(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    ctx.workspace.extra = (str(tmp_path / "more"),)
    assert bash(f"cd {tmp_path}/more", ctx).content == ""
    assert ctx.workspace.cwd == str(tmp_path / "more")


@pytest.mark.parametrize("becomes", ["nothing", "a link out"])
def test_a_working_directory_that_is_gone_runs_nothing(becomes: str, ctx: ToolContext) -> None:
    bash("cd sub", ctx)
    (Path(ctx.workspace.root) / "sub").rmdir()
    if becomes == "a link out":
        (Path(ctx.workspace.root) / "sub").symlink_to("/usr")
    result = bash("touch ran", ctx)
    assert result.error_class == "tool_rejected"
    assert f"Shell cwd was reset to {ctx.workspace.root}" in result.content
    assert not list(Path(ctx.workspace.root).rglob("ran"))
    assert bash("pwd", ctx).content == f"{ctx.workspace.root}\n"


def test_a_directory_with_a_strange_name(ctx: ToolContext) -> None:
    name = "a 'b\"\n$(c)"
    (Path(ctx.workspace.root) / name).mkdir()
    ctx.workspace.cwd = str(Path(ctx.workspace.root) / name)
    bash("mkdir deeper && cd deeper", ctx)
    assert ctx.workspace.cwd == str(Path(ctx.workspace.root) / name / "deeper")


# ------------------------------------------------------------------ what it would touch


def touched(command: str, ctx: ToolContext) -> tuple[object, list[str], list[str]]:
    touch = shell.prepare(BashArguments(command=command), ctx).touch
    return touch.command, [fact.real for fact in touch.reads], [fact.real for fact in touch.writes]


def test_a_plan_names_what_it_reads_and_writes(ctx: ToolContext) -> None:
    root = ctx.workspace.root
    command, reads, writes = touched("cat a.txt > sub/b.txt", ctx)
    assert isinstance(command, Plan)
    assert f"{root}/a.txt" in reads
    assert writes == [f"{root}/sub/b.txt"]


def test_paths_are_seen_from_where_the_shell_stands(ctx: ToolContext) -> None:
    bash("cd sub", ctx)
    _, _, writes = touched("echo x > b.txt", ctx)
    assert writes == [f"{ctx.workspace.root}/sub/b.txt"]


def test_a_link_is_followed_to_where_it_leads(ctx: ToolContext) -> None:
    (Path(ctx.workspace.root) / "out").symlink_to("/etc")
    _, _, writes = touched("echo x > out/passwd", ctx)
    assert writes == ["/etc/passwd"]


LINKS = [
    "git commit -F out",
    "git commit --file=out",
    "git commit -Fout",
    "git commit -Fdir/passwd",
    "git -C sub commit -F ../out",
    "git config -l -f out",
    "make -Cdir",
    "make --directory=dir",
    "make -C sub -f inner",
    "pip install -r out",
    "pip install -rout",
    "uv run cat out",
    "base64 out",
    "tar cf x dir",
    "x out",
    "x -oout",
    "x -abcout",
    "x --any=out",
    "x a=out",
    "x a,out",
    "find -L .",
    "grep -R x deep",
    "cp -rL deep copy",
    "cat o?t",
    "cat deep/*",
    "bash -c 'cat o?t'",
]


@pytest.mark.parametrize("command", LINKS)
def test_a_link_counts_wherever_a_word_names_it(command: str, ctx: ToolContext) -> None:
    root = Path(ctx.workspace.root)
    (root / "deep").mkdir()
    for name, target in (("out", "/etc/passwd"), ("dir", "/etc"), ("sub/inner", "/etc/passwd"), ("deep/link", "/etc")):
        (root / name).symlink_to(target)
    _, reads, _ = touched(command, ctx)
    assert any(path == "/etc" or path.startswith("/etc/") for path in reads)


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("x b", "b"),
        ("make -C b", "b"),
        ("x -obuild", "build"),
        ("x --out=a.txt", "a.txt"),
        ("cp -r b/. c", "c/inner.txt"),
        ("cp -rT b c", "c/inner.txt"),
        ("tee b*", "b"),
        ("x lefthook.yml", "lefthook.yml"),
    ],
)
def test_what_is_there_counts_as_written(command: str, written: str, ctx: ToolContext) -> None:
    root = Path(ctx.workspace.root)
    for folder in ("b", "build"):
        (root / folder).mkdir()
    (root / "b/inner.txt").touch()
    _, _, writes = touched(command, ctx)
    assert f"{root}/{written}" in writes


@pytest.mark.parametrize("command", ["git commit -m out", "ls nothing", "x word other", "echo out", "grep out a.txt"])
def test_what_is_not_there_or_is_text_counts_as_nothing(command: str, ctx: ToolContext) -> None:
    (Path(ctx.workspace.root) / "out").symlink_to("/etc/passwd")
    _, reads, writes = touched(command, ctx)
    assert not any(path.startswith("/etc") for path in (*reads, *writes))


def test_a_tree_that_is_too_large_to_look_for_links_is_refused(ctx: ToolContext) -> None:
    for number in range(shell.MAX_CHECKED_NAMES + 1):
        os.close(os.open(f"{ctx.workspace.root}/{number}", os.O_CREAT | os.O_WRONLY))
    for command in ("grep -R x .",):
        with pytest.raises(PathRefused):
            touched(command, ctx)


@pytest.mark.parametrize(
    "command", ["cat $(ls)", "echo $1", "PATH=x ls", "for i in $@; do ls; done", "ls | tee >(wc)", "eval ls"]
)
def test_what_is_no_plan_is_raw_and_opaque(command: str, ctx: ToolContext) -> None:
    touch = shell.prepare(BashArguments(command=command), ctx).touch
    assert isinstance(touch.command, Raw)
    assert touch.opaque


# ------------------------------------------------------------------ the tool and its other names


@pytest.mark.parametrize(
    ("name", "given", "seconds"),
    [
        ("Bash", {}, 120),
        ("bash", {}, 120),
        ("shell", {}, 7),
        ("shell", {"timeout": 2000}, 2),
        ("Bash", {"timeout": 600_000}, 600),
        ("Bash", {"timeout": 9_000_000}, 600),
    ],
)
def test_each_name_has_its_own_time_limit(name: str, given: dict[str, int], seconds: float) -> None:
    config = Config(runtime=Runtime(shell_timeout_seconds=7))
    found = find_tool({tool.name: tool for tool in shell.tools(config)}, name)
    assert found is not None
    tool, alias = found
    arguments = decode(BashArguments, resolve_arguments(alias, {"command": "ls", **given}))
    assert tool.timeout(arguments) == seconds + shell.GRACE


# ------------------------------------------------------------------ in the sandbox


def test_in_the_sandbox_the_directory_carries_over_and_the_system_is_read_only(
    ctx: ToolContext, home: Path, needs: Callable[[str], str]
) -> None:
    needs("bwrap")
    box = confinement.create_box("bubblewrap", SandboxSpec((ctx.workspace.root,)))

    def confined(command: str) -> ToolResult:
        return result_of(shell.prepare(BashArguments(command=command), ctx, shell.CommandSetup(box.start)))

    assert confined("touch /usr/x").error_class == "tool_rejected"
    assert confined("cd sub && echo x > y").content == ""
    assert ctx.workspace.cwd == f"{ctx.workspace.root}/sub"
    assert confined("cat y").content == "x\n"
    assert confined("cd / && pwd").content == f"/\nShell cwd was reset to {ctx.workspace.root}"
    assert confined("kill -9 $$").content.startswith("Exit code 137")
    box.close()
