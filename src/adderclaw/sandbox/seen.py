"""What a session's commands can read outside their workspace: one list for every kind of sandbox.

The list names what is visible, never what is hidden: the system's programs, the settings that programs need, the
toolchains that PATH leads to, and the operator's `sandbox.read_paths`. Nothing else exists inside.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from adderclaw.config.paths import beneath, followed, settled
from adderclaw.sandbox.programs import search_path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
"""Programs and libraries; some of these folders are links to others."""
if sys.platform == "darwin":
    SYSTEM = (
        *("/usr", "/bin", "/sbin", "/System", "/Library/Apple", "/Library/Developer", "/Applications/Xcode.app"),
        *("/opt/homebrew", "/nix/store", "/private/var/db/timezone", "/private/var/db/dyld", "/private/var/select"),
    )
FILES = (
    *("passwd", "group", "nsswitch.conf", "hosts", "host.conf", "hostname", "resolv.conf", "gai.conf", "networks"),
    *("localtime", "timezone", "locale.alias", "locale.conf", "services", "protocols", "rpc", "shells", "inputrc"),
    *("ld.so.cache", "ld.so.conf", "mime.types", "magic", "magic.mime", "xattr.conf", "ca-certificates.conf"),
    *("os-release", "lsb-release", "debian_version", "alpine-release", "redhat-release", "fedora-release"),
    *("ssl/openssl.cnf", "ssl/cert.pem", "ssl/ca-bundle.pem", "pki/tls/openssl.cnf", "pki/tls/cert.pem"),
)
"""Files beneath /etc, without settings that may contain a password (pip.conf, npmrc, gitconfig, profile.d …)."""
FOLDERS = (
    *("alternatives", "ld.so.conf.d", "ssl/certs", "ca-certificates", "pki/tls/certs", "pki/ca-trust/extracted"),
    *("crypto-policies", "fonts", "terminfo", "perl", "nodejs", "maven", "chromium", "chromium.d", "ghostscript"),
    *("texmf", "glvnd", "OpenCL", "vulkan"),
)
BY_LANGUAGE = ("python", "java", ".java", "php", "ruby", "ImageMagick")
"""Prefixes of further folders beneath /etc, whose names end in a version."""
KERNEL = (
    *("/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm/transparent_hugepage"),
    *(f"/sys/fs/cgroup/{name}" for name in ("cgroup.controllers", "cpu.max", "cpuset.cpus.effective")),
    *(f"/sys/fs/cgroup/{name}" for name in ("memory.max", "memory.high", "memory.swap.max")),
    *("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
    "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
)
"""The number of processors and the amount of memory, which interpreters and build tools use to size themselves."""
STATE = ("/var/cache/fontconfig",)
MANAGERS = frozenset(
    """.pyenv .rbenv .nodenv .goenv .jenv .asdf .volta .nvm .sdkman .ghcup .elan .juliaup .dotnet .linuxbrew .pixi
    miniconda3 miniforge3 mambaforge anaconda3 micromamba""".split()  # noqa: SIM905 - a list would take 19 lines
)
"""Folders directly in a home that are shown as a whole if PATH leads into them."""
INTERPRETER_FOLDERS = (
    *(".rustup/toolchains", ".rustup/settings.toml", ".local/share/uv/python", ".pyenv/versions", ".nvm/versions"),
    *(".local/share/fnm/node-versions", ".local/share/mise/installs", ".asdf/installs", ".cache/ms-playwright"),
    *(".sdkman/candidates", ".rbenv/versions", ".volta/tools"),
)
"""Where version managers store interpreters beneath the user's home; a project's virtual environment links to them."""
PROGRAMS = ("bin", "sbin", "shims", "libexec")
LIBRARIES = ("lib", "lib64", "libexec", "pyvenv.cfg", "conda-meta")
MAX_LINKS = 64
"""At most this many links in the folders of PATH are followed."""


def readable(roots: Sequence[str], shown: Sequence[str] = ()) -> tuple[str, ...]:
    """Every file and folder outside the workspace that a command may read, links followed, without nested ones."""
    return _outermost((*map(followed, etc_paths()), *readable_outside_etc(roots, shown)))


def readable_outside_etc(roots: Sequence[str], shown: Sequence[str] = ()) -> tuple[str, ...]:
    """Like `readable`, without /etc."""
    paths = (*SYSTEM, *KERNEL, *STATE, *toolchains(roots), *shown)
    return _outermost(followed(path) for path in paths if os.path.exists(path))


def etc_paths() -> tuple[str, ...]:
    """The visible files and folders of /etc."""
    named = (os.path.join("/etc", name) for name in (*FILES, *etc_folders()))
    return tuple(path for path in named if os.path.exists(path))


def etc_folders() -> tuple[str, ...]:
    """The names of the visible folders beneath /etc."""
    try:
        more = sorted(name for name in os.listdir("/etc") if name.startswith(BY_LANGUAGE))
    except OSError:
        more = []
    return tuple(name for name in (*FOLDERS, *more) if os.path.isdir(os.path.join("/etc", name)))


def toolchains(roots: Sequence[str]) -> tuple[str, ...]:
    """The toolchains in PATH, the Python that runs us, and the stores of version managers, except system folders."""
    return _toolchains(search_path(roots), settled(os.path.expanduser("~")), sys.prefix, sys.base_prefix)


@lru_cache(maxsize=8)
def _toolchains(path: tuple[str, ...], user: str, *prefixes: str) -> tuple[str, ...]:
    candidates = [_prefix(followed(entry), user) for entry in path if os.path.isdir(entry)]
    candidates += [followed(prefix) for prefix in prefixes]
    candidates += [os.path.join(user, name) for name in INTERPRETER_FOLDERS if os.path.exists(os.path.join(user, name))]
    usable = [
        folder for folder in dict.fromkeys(candidates) if not _is_too_much(folder, user) and not is_system_path(folder)
    ]
    links = [link for entry in path for link in _link_targets(followed(entry), user) if not _is_in_any(link, usable)]
    usable += [folder for folder in dict.fromkeys(links[:MAX_LINKS]) if not _is_too_much(folder, user)]
    usable += [base for folder in usable if (base := _base_interpreter(folder, user)) and not _is_in_any(base, usable)]
    return _outermost(usable)


@lru_cache(maxsize=8)
def own_program_paths(roots: tuple[str, ...]) -> tuple[str, ...]:
    """The parts of our own program that are in the workspace. Commands must not change them, because they run without
    a sandbox."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    candidates = (sys.prefix, sys.base_prefix, os.path.dirname(sys.executable), package)
    return _outermost(
        path for path in map(followed, candidates) if any(beneath(path, root) and path != root for root in roots)
    )


def is_system_path(path: str) -> bool:
    return any(beneath(path, folder) for folder in SYSTEM)


def home_folders() -> tuple[str, ...]:
    """Every user's home, and AdderClaw's."""
    from adderclaw.config import home

    candidates = (os.path.expanduser("~"), home(), "/root", "/home")
    real = dict.fromkeys(map(settled, candidates))
    return tuple(path for path in real if path != "/" and os.path.isdir(path))


def links_on_path(path: str) -> Iterator[tuple[str, str]]:
    """The links on the way to a path, with their targets as written. The sandbox needs the same links inside."""
    waiting, at = os.path.normpath(path).split("/")[1:], "/"
    for _ in range(200):
        if not waiting:
            return
        name, *waiting = waiting
        here = os.path.normpath(os.path.join(at, name))
        if not os.path.islink(here):
            at = here
            continue
        target = os.readlink(here)
        yield here, target
        at = "/" if os.path.isabs(target) else at
        waiting = [part for part in target.split("/") if part] + waiting


def _prefix(folder: str, user: str) -> str:
    """The toolchain that a folder of programs belongs to, or else the folder alone."""
    top, name = os.path.split(folder)
    if name not in PROGRAMS or _is_too_much(top, user) or is_system_path(folder):
        return folder
    if _is_home(os.path.dirname(top), user):
        known = os.path.basename(top) in MANAGERS or os.path.isdir(os.path.join(top, "conda-meta"))
        return top if known else folder
    is_project = os.path.lexists(os.path.join(top, ".git"))
    looks_like_one = name == "shims" or any(os.path.exists(os.path.join(top, name)) for name in LIBRARIES)
    return top if looks_like_one and not is_project else folder


def _is_home(path: str, user: str) -> bool:
    return path in (user, "/root") or os.path.dirname(path) == "/home"


def _is_too_much(path: str, user: str) -> bool:
    """Whether a path is a home, contains one, or is a top-level folder. PATH never makes these visible as a whole."""
    from adderclaw.config import home

    at_the_top = os.path.dirname(path) == "/" and path not in SYSTEM
    return at_the_top or _is_home(path, user) or beneath(user, path) or beneath(settled(home()), path)


def _link_targets(folder: str, user: str) -> Iterator[str]:
    """The targets of the links in a folder of programs: a toolchain, a folder of packages, or a single file."""
    if is_system_path(folder):
        return
    try:
        names = [entry.path for entry in os.scandir(folder) if entry.is_symlink()]
    except OSError:
        return
    for real in map(followed, sorted(names)):
        if is_system_path(real) or not os.path.isfile(real):
            continue
        packages, inner, _ = real.partition("/node_modules/")
        prefix = _prefix(os.path.dirname(real), user)
        yield f"{packages}/node_modules" if inner else real if prefix == os.path.dirname(real) else prefix


def _base_interpreter(environment: str, user: str) -> str:
    """The interpreter that a virtual environment outside the workspace is based on."""
    try:
        with open(os.path.join(environment, "pyvenv.cfg"), encoding="utf-8") as file:
            lines = file.read(10_000).splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    config = dict(line.split("=", 1) for line in lines if "=" in line)
    home = next((value.strip() for name, value in config.items() if name.strip() == "home"), "")
    base = _prefix(followed(home), user) if os.path.isabs(home) else ""
    return "" if not base or is_system_path(base) or _is_too_much(base, user) else base


def _is_in_any(path: str, folders: Iterable[str]) -> bool:
    return any(beneath(path, folder) for folder in folders)


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    outermost: list[str] = []
    for path in sorted(dict.fromkeys(paths), key=lambda path: path.split("/")):
        if not outermost or not beneath(path, outermost[-1]):
            outermost.append(path)
    return tuple(outermost)
