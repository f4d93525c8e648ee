"""What git may reach is what was approved, for that call; the keys that open it are never inside."""

import asyncio
import hashlib
import os
import shutil
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from adderclaw.sandbox.broker import Broker, Grant
from tests.acceptance.world import call
from tests.git_servers import Http, http_server, missing, ssh_server
from tests.security.world import Den

PASSWORD = "correct-horse-battery"
SCANNER = """
import os, sys
word = ("correct-horse" + "-battery").encode()
def look(pid):
    for name in ("environ", "cmdline"):
        with open(f"/proc/{pid}/{name}", "rb") as file:
            if word in file.read():
                return name
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if " rw" in line and end - start < 1 << 24:
                try:
                    memory.seek(start)
                    if word in memory.read(end - start):
                        return "mem"
                except OSError:
                    pass
open("scanning", "w").close()
while True:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(pid) != os.getpid() and (found := look(pid)):
                with open("leaked", "a") as file:
                    file.write(f"{pid} {found}\\n")
        except OSError:
            pass
"""


PLANTED = """
import os, sys, time
word, how = "-".join(("correct", "horse", "battery")), sys.argv[1]
waits = "import os, time\\nwhile not os.path.exists('leaked'):\\n    time.sleep(0.05)"
if how == "environ":
    os.execve(sys.executable, ["python3", "-c", waits], {**os.environ, "X": word})
elif how == "cmdline":
    os.execv(sys.executable, ["python3", "-c", waits, word])
kept = bytearray(word.encode())
exec(waits)
"""


@pytest.fixture
def served(world: Den) -> Path:
    folder = world.base / "served"
    folder.mkdir()
    world.git("clone", "-q", "--bare", ".", str(folder / "project.git"))
    return folder


@pytest.fixture
def web(world: Den, served: Path) -> Generator[Http]:
    with http_server(served, "ada", PASSWORD) as server:
        secrets = world.home / "passwords"
        secrets.write_text(f"http://ada:{PASSWORD}@127.0.0.1:{server.port}\n")
        (world.home / ".gitconfig").write_text(f"[credential]\n\thelper = store --file={secrets}\n")
        world.git("remote", "add", "origin", f"http://127.0.0.1:{server.port}/project.git")
        yield server


def test_no_command_of_the_session_finds_the_password(world: Den, web: Http) -> None:
    (world.workspace / "scan.py").write_text(SCANNER)
    (world.workspace / "wait.py").write_text(
        "import os, time\nwhile not os.path.exists('scanning'):\n    time.sleep(0.05)\n"
    )
    made = world.attack(
        call("Bash", command="python3 scan.py", run_in_background=True),
        "python3 wait.py",
        "git fetch origin",
        "git fetch --prune origin",
        "env; ls -la ~; ls -la .git; git config --list",
        call("Bash", command="ls"),
    )
    assert "/project.git/git-upload-pack" in web.requests, "it was fetched, with the password"
    assert "scanning" in made.last
    assert not (world.workspace / "leaked").exists()
    assert not [result for result in made.results if PASSWORD in result]
    kept = subprocess.run(["grep", "-rl", PASSWORD, world.workspace, world.cli.data], capture_output=True, check=False)
    assert kept.stdout == b""
    world.unharmed(made)


@pytest.mark.parametrize("how", ["environ", "cmdline", "mem"])
def test_the_same_scanner_finds_a_password_that_is_there(how: str, world: Den) -> None:
    """That the test above can fail: in each place where it looks, it finds what another command of the session has."""
    (world.workspace / "scan.py").write_text(SCANNER)
    (world.workspace / "planted.py").write_text(PLANTED)
    world.attack(
        call("Bash", command="python3 scan.py", run_in_background=True), f"timeout 60 python3 planted.py {how}"
    )
    assert f" {how}\n" in (world.workspace / "leaked").read_text()


def test_no_command_of_the_session_reaches_the_agent(world: Den, served: Path) -> None:
    if names := missing():
        pytest.skip(f"not installed on this machine: {names}")
    with ssh_server(world.base / "ssh") as ssh:
        world.cli.env["SSH_AUTH_SOCK"] = ssh.agent
        world.git("remote", "add", "origin", f"ssh://127.0.0.1:{ssh.port}{served}/project.git")
        path = world.cli.env["PATH"]
        (world.workspace / "ask.sh").write_text(
            f"ls {ssh.agent}; SSH_AUTH_SOCK={ssh.agent} ssh-add -l; echo agent=$SSH_AUTH_SOCK."
        )
        world.script(
            call("Bash", command="git fetch origin"),
            call("Bash", command="git branch -r"),
            call("Bash", command="bash ask.sh"),
            {"text": "done"},
        )
        world.prepare()
        world.cli.env["PATH"] = f"{ssh.bin}{os.pathsep}{path}"
        made = world.run()
        assert "origin/main" in made.results[1], made.results
        assert "ED25519" not in made.last
        assert "agent=." in made.last


def test_a_server_that_sends_git_elsewhere_sends_it_nowhere(world: Den, served: Path) -> None:
    with http_server(served, "ada", PASSWORD) as other, http_server(served, "ada", PASSWORD) as first:
        first.elsewhere = f"http://127.0.0.1:{other.port}"
        world.git("remote", "add", "origin", f"http://127.0.0.1:{first.port}/project.git")
        made = world.attack("git fetch origin")
        assert first.requests, made.last
        assert other.requests == []
        assert "Exit code" in made.last


def test_where_we_read_another_address_than_git_nothing_is_reached(world: Den, served: Path) -> None:
    """Git reads config.worktree only where an extension says so; we always do."""
    with http_server(served, "ada", PASSWORD) as shown, http_server(served, "ada", PASSWORD) as real:
        git = world.workspace / ".git"
        with (git / "config").open("a") as config:
            # A comment ends with its line, whatever that ends with.
            config.write(f'[remote "origin"]\n\t# x \\\n\turl = http://127.0.0.1:{real.port}/project.git\n')
        (git / "config.worktree").write_text(
            f'[url "http://127.0.0.1:{shown.port}/"]\n\tinsteadOf = http://127.0.0.1:{real.port}/\n'
        )
        made = world.attack("git fetch origin")
        assert f"127.0.0.1:{shown.port}" in made.done.out + made.done.err
        assert real.requests == []
        assert "Exit code" in made.last


def test_an_approval_for_fetching_is_none_for_anything_else(world: Den, web: Http) -> None:
    """In the call itself and after it: no other way of the session leads to that host."""
    (world.workspace / "out.py").write_text(
        "import socket\n"
        f"for port in (3128, {web.port}):\n"
        "    print(port, socket.socket().connect_ex(('127.0.0.1', port)))\n"
    )
    made = world.attack("git fetch origin", "python3 out.py")
    before = len(web.requests)
    assert f"{web.port} " in made.last
    assert f"{web.port} 0" not in made.last
    assert len(web.requests) == before


def test_what_was_granted_ends_with_the_call() -> None:
    async def asked() -> None:
        with Broker((Grant("https", "", "host.example", 443, "/x", "git-upload-pack"),), ()) as broker:
            kept = socket.socket(fileno=os.dup(broker.fds[0]))
            listener = socket.create_server(("127.0.0.1", 0))
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            socket.send_fds(kept, [b"proxy\0\0clear"], [theirs.fileno(), listener.fileno()])
            ours.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(ours, 10) == b"clear"
            port = listener.getsockname()[1]
            listener.close()
            assert socket.socket().connect_ex(("127.0.0.1", port)) == 0
        assert socket.socket().connect_ex(("127.0.0.1", port)) != 0
        with pytest.raises(BrokenPipeError):
            socket.send_fds(kept, [b"proxy\0\0clear"], [theirs.fileno()])

    asyncio.run(asked())


SERVES = """
import http.server, threading
def serve(family, place):
    class Server(http.server.ThreadingHTTPServer):
        address_family = family
    try:
        one = Server((place, 8765), http.server.SimpleHTTPRequestHandler)
    except OSError:  # no IPv6 here
        return
    threading.Thread(target=one.serve_forever).start()
serve(2, "127.0.0.1")
serve(10, "::1")
open("up", "w").close()
"""


@pytest.mark.parametrize("network", ["deny", "allow"])
def test_a_server_of_the_session_is_refused_at_once(network: str, world: Den) -> None:
    """It is stopped while git runs, so that git would wait for it until its time is over."""
    world.configure(security=f'network = "{network}"')
    (world.workspace / "serve.py").write_text(SERVES)
    world.git("remote", "add", "near", "http://[::1]:8765/x.git")
    made = world.attack(
        call("Bash", command="python3 serve.py", run_in_background=True),
        "until test -e up; do sleep 0.05; done",
        "git fetch near",
        "git pull near main",
        "git clone -q . three",
        *(() if network == "allow" else ("git clone http://127.0.0.1:8765/x.git four",)),
    )
    assert not any("timed out" in result for result in made.results)
    for result in made.results[2:4]:
        assert "transport 'http' not allowed" in result
        assert "with a host name or an IPv4 address" in result
    assert (world.workspace / "three/a.txt").exists()
    if network == "deny":
        assert "127.0.0.1:8765 from outside the sandbox. Servers started in this session are paused" in made.last
        assert "Exit code 128" in made.last


@pytest.fixture
def large(world: Den, web: Http) -> Http:
    """A remote with a large file that the workspace has only a pointer of."""
    if shutil.which("git-lfs") is None:
        pytest.skip("git-lfs is not installed on this machine")
    content = b"large " * 100
    oid = hashlib.sha256(content).hexdigest()
    web.large[oid] = content
    world.git("config", "http.receivepack", "true", cwd=world.base / "served" / "project.git")
    (world.workspace / "big.bin").write_text(
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 600\n"
    )
    world.git("add", "big.bin")  # as it is: the attributes come after it
    (world.workspace / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    world.git("add", ".gitattributes")
    world.git("commit", "-q", "-m", "large")
    return web


@pytest.mark.parametrize("key", ["lfs.url", "lfs.pushurl", "remote.origin.lfsurl", "remote.origin.lfspushurl"])
@pytest.mark.parametrize("file", [".lfsconfig", ".git/config"])
def test_large_files_are_where_the_approved_remote_is(file: str, key: str, world: Den, large: Http) -> None:
    """A repository that names another place for them, at the same host or elsewhere, gets nothing there."""
    with http_server(world.base / "served", "ada", PASSWORD) as other:
        for place in (
            f"http://127.0.0.1:{large.port}/theirs.git/info/lfs",
            f"http://127.0.0.1:{other.port}/x/info/lfs",
        ):
            world.git("config", "--file", file, key, place)
            made = world.attack("git lfs pull", "git commit --allow-empty -m x && git push origin HEAD:y")
            assert not [path for path in large.requests if path.startswith("/theirs.git")], made.results
        assert other.requests == []
        assert (world.workspace / "big.bin").read_bytes() == b"large " * 100, made.results
        world.unharmed(made)


def test_no_program_transfers_large_files(world: Den, large: Http) -> None:
    """Agents and extensions that the settings name are not run; .lfsconfig cannot name any."""
    evil = world.workspace / "evil.sh"
    evil.write_text("#!/bin/sh\ntouch ran\n")
    evil.chmod(0o755)
    for key, value in {
        "lfs.customtransfer.evil.path": str(evil),
        "lfs.customtransfer.evil.concurrent": "false",
        "lfs.standalonetransferagent": "evil",
        "lfs.extension.evil.clean": str(evil),
        "lfs.extension.evil.smudge": str(evil),
        "lfs.extension.evil.priority": "0",
    }.items():
        world.git("config", "--file", ".lfsconfig", key, value)
    made = world.attack("git lfs pull")
    assert (world.workspace / "big.bin").read_bytes() == b"large " * 100, made.last
    world.git("config", f"lfs.http://127.0.0.1:{large.port}/.standalonetransferagent", "evil")
    world.git("config", "lfs.customtransfer.evil.path", str(evil))
    made = world.attack("git lfs pull", "git push origin HEAD:y")
    assert all("git was not run" in result for result in made.results), made.results
    assert not (world.workspace / "ran").exists()
    world.unharmed(made)


LISTENS = """
import socket, sys
ones = []
for family, place in ((2, "127.0.0.1"), (10, "::1")):
    try:
        one = socket.socket(family)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        one.bind((place, int(sys.argv[1])))
        one.listen()
        ones.append(one)
    except OSError:
        pass
open("up", "w").close()
while True:
    client, _ = ones[int(sys.argv[2]) % len(ones)].accept()
    with open("heard", "ab") as file:
        file.write(client.recv(65536))
"""


@pytest.mark.parametrize("which", [0, 1])
def test_a_command_that_waits_at_the_remotes_port_hears_no_password(which: int, world: Den, large: Http) -> None:
    """git-lfs asks no proxy for a server on this machine: it would knock at whoever listens in the sandbox."""
    (world.workspace / "listen.py").write_text(LISTENS)
    made = world.attack(
        call("Bash", command=f"python3 listen.py {large.port} {which}", run_in_background=True),
        "until test -e up; do sleep 0.05; done",
        "git lfs pull",
        "sleep 0.5; ls",
    )
    assert f"something in the sandbox uses the remote's port, {large.port}" in made.results[2], made.results
    assert not (world.workspace / "heard").exists()
    assert "up" in made.last


def test_large_files_at_another_host_need_that_host_to_be_listed(world: Den, large: Http) -> None:
    """And the password is not for it."""
    with http_server(world.base / "served", "ada", PASSWORD) as other:
        other.large, other.wanted = large.large, ""
        large.large_at = f"http://LOCALHOST:{other.port}"  # as such, git-lfs asks the proxy for it
        world.git("config", "lfs.transfer.maxretries", "1")
        made = world.attack("git lfs pull")
        assert "Exit code" in made.last
        assert other.requests == [], made.last
        world.configure(security=f'allowed_domains = ["localhost:{other.port}"]')
        made = world.attack("git lfs pull")
        assert other.requests, made.last
        assert not (world.workspace / "big.bin").read_text().startswith("large"), "it wanted a password, and got none"
        other.wanted = None
        made = world.attack("git lfs pull")
        assert (world.workspace / "big.bin").read_bytes() == b"large " * 100, made.last


ASKS = """
printf 'protocol=http\\nhost=127.0.0.1:{port}\\n\\n' | eval "$ADDERCLAW_ASK_BY credential get" > leaked
git config core.fsmonitor /tmp/evil
touch ran
"""


@pytest.mark.parametrize("where", ["web", "near"])
@pytest.mark.parametrize(
    "command",
    [
        "git push origin '+-Osh x.sh #'",
        "git push origin '+-Osh x.sh #:main'",
        "git push origin '+--open-files-in-pager=sh x.sh #'",
        "git push origin main '+-Osh x.sh #'",
        "git push -u origin tag '+-Osh x.sh #'",
        "git push -- origin '+-Osh x.sh #'",
        "git push -- origin '-Osh x.sh #'",
        "git push -f --no-verify origin '++-Osh x.sh #'",
        "ref='+-Osh x.sh #'; git push origin \"$ref\"",
    ],
)
def test_a_refspec_is_no_option_of_git(where: str, command: str, world: Den, web: Http) -> None:
    """Of `git grep`, by which pointers of large files are looked for, one opens a pager: a shell."""
    (world.workspace / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    (world.workspace / "x.sh").write_text(ASKS.format(port=web.port))
    world.git("add", "-A")
    world.git("commit", "-q", "-m", "more")
    if where == "near":
        world.git("init", "-q", "--bare", "near.git")
        world.git("remote", "set-url", "origin", "./near.git")
    made = world.attack(command)
    assert not (world.workspace / "ran").exists(), made.results
    assert not (world.workspace / "leaked").exists()
    assert "Exit code" in made.last
    world.unharmed(made)
