"""Which confinement this system offers, found out by running it, and how a command is put into it."""

import os
import sys
from collections.abc import Sequence

from adderclaw.errors import AdderClawError
from adderclaw.sandbox.programs import inside, resolve, search_path

PROTECTED = (".git/hooks", ".git/config", ".adderclaw")
"""Inside a workspace, and yet not writable: what runs code, or changes our own settings, later and outside."""
SECRETS = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config",
    ".local/share/keyrings",
    ".password-store",
)
"""Hidden where the workspace is a home directory, which then cannot be hidden whole."""
NO_SANDBOX = (
    "the profile `sandboxed` needs an OS sandbox, and none starts on this system: {why}. "
    "Install bubblewrap (`apt-get install bubblewrap`, `dnf install bubblewrap`) and check with `adderclaw doctor`, "
    "or go on without one, each risky call being asked about: --profile supervised"
)
_KEPT_CAPABILITIES = ("CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_CHOWN")
"""What lets root work in a workspace that belongs to somebody else."""


def probe() -> str:
    """The confinement of this system: "bubblewrap" or "none". A trial takes a moment, so it is made once per boot."""
    from adderclaw.config import home

    kept = os.path.join(home(), "cache", "confinement")
    key = _system()
    try:
        with open(kept, encoding="utf-8") as file:
            known, _, answer = file.read().partition("\n")
        if known == key and answer in ("bubblewrap", "none"):
            return answer
    except (OSError, UnicodeDecodeError):
        pass
    answer = "none" if trial() else "bubblewrap"
    _keep(kept, f"{key}\n{answer}")
    return answer


def required() -> str:
    """The confinement that a `sandboxed` session gets; refuses where none can start."""
    found = probe()
    if found == "none":
        raise AdderClawError(NO_SANDBOX.format(why=trial() or "it failed at the last trial"))
    return found


def trial() -> str | None:
    """Run `true` in a bubblewrap of the real form; what went wrong, or None."""
    from subprocess import DEVNULL, PIPE, SubprocessError, run

    if resolve("bwrap") is None:
        return "no `bwrap` on the PATH" if sys.platform == "linux" else f"bubblewrap does not exist on {sys.platform}"
    argv = wrap(["/bin/sh", "-c", "exit 0"], workspace_roots=(), writable=(), cwd="/", network=False)
    try:
        done = run(argv, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, timeout=10, check=False)
    except (OSError, SubprocessError) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return done.stderr.decode("utf-8", "replace").strip()[:300] or f"bwrap ended with {done.returncode}"


def wrap(
    argv: Sequence[str], *, workspace_roots: Sequence[str], writable: Sequence[str], cwd: str, network: bool
) -> list[str]:
    """The bubblewrap command that runs `argv` with a read-only system, and writable only what is named here."""
    roots = tuple(dict.fromkeys(os.path.realpath(root) for root in workspace_roots))
    if "/" in roots:
        raise AdderClawError("the workspace is /: a sandbox would protect nothing; choose a directory below it")
    bwrap = resolve("bwrap", workspace_roots)
    if bwrap is None:
        raise AdderClawError(NO_SANDBOX.format(why="no `bwrap` on the PATH"))
    options = [*_namespaces(network), *_system_mounts(roots), *_workspace_mounts(roots)]
    for path in dict.fromkeys(os.path.realpath(path) for path in writable):
        options += ["--bind-try", path, path]
    return [
        bwrap,
        *options,
        *_hidden_inside(roots),
        "--setenv",
        "TMPDIR",
        "/tmp",
        "--chdir",
        os.path.realpath(cwd),
        "--",
        *argv,
    ]


def _namespaces(network: bool) -> list[str]:
    options = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    options += [] if network else ["--unshare-net"]
    options += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if os.geteuid() != 0:
        return [*options, "--unshare-user", "--disable-userns"]
    # In a user namespace root would be the only user there is, and could not write a workspace that another owns.
    return options + [word for name in _KEPT_CAPABILITIES for word in ("--cap-add", name)]


def _system_mounts(roots: Sequence[str]) -> list[str]:
    """Everything readable, but no home, no sockets of the system's services, and an empty /tmp. Order matters."""
    options = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run"]
    homes = _homes()
    for path in homes:
        options += ["--tmpfs", path]
    for path in _toolchains(roots):
        if inside(path, homes):
            options += ["--ro-bind-try", path, path]
    return options


def _homes() -> tuple[str, ...]:
    from adderclaw.config import home

    candidates = (os.path.expanduser("~"), home(), "/root", "/home")
    real = dict.fromkeys(os.path.realpath(path) for path in candidates)
    return tuple(path for path in real if path != "/" and os.path.isdir(path))


def _toolchains(roots: Sequence[str]) -> tuple[str, ...]:
    """Programs that a user has installed at home stay usable: the directories of PATH, and the Python that runs us."""
    paths = [os.path.dirname(entry) if entry.endswith("/shims") else entry for entry in search_path(roots)]
    return tuple(dict.fromkeys(os.path.realpath(path) for path in (*paths, sys.prefix, sys.base_prefix)))


def _workspace_mounts(roots: Sequence[str]) -> list[str]:
    options: list[str] = []
    for root in roots:
        options += ["--bind", root, root]
    for root in roots:
        # A mount point cannot be renamed: without this, `mv .git x` would make room for another `.git/hooks`.
        options += _mounted("--bind", os.path.join(root, ".git"))
        for name in PROTECTED:
            options += _mounted("--ro-bind", os.path.join(root, name))
    return options


def _mounted(how: str, path: str) -> list[str]:
    return [how, path, path] if os.path.lexists(path) and not os.path.islink(path) else []


def _hidden_inside(roots: Sequence[str]) -> list[str]:
    """What must stay hidden though it lies in a directory that was just made visible."""
    from adderclaw.config import home

    user = os.path.realpath(os.path.expanduser("~"))
    paths = [os.path.realpath(home())]
    paths += [os.path.join(user, name) for name in SECRETS] if inside(user, roots) else []
    return [word for path in paths if inside(path, roots) and os.path.isdir(path) for word in ("--tmpfs", path)]


def _system() -> str:
    """Changes with everything that the answer rests on: this boot, this user, this bwrap."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        boot = "?"
    bwrap = resolve("bwrap")
    stat = os.stat(bwrap) if bwrap else None
    return f"{boot} {os.geteuid()} {bwrap} {stat and (stat.st_ino, stat.st_mtime_ns)}"


def _keep(path: str, text: str) -> None:
    """Best effort: without it, the next start makes the trial again."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        temporary = f"{path}.{os.getpid()}"
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        pass
