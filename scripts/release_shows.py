"""The slow shows of a release; scripts/release_check.py says which of them is due, and runs it.

The root without Python and the image need root rights, debootstrap, bubblewrap and buildah (Debian's packages of
these names).
"""

import os
import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOTS = ROOT / ".cache/roots"
CLEAN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


class Failed(Exception):
    """What was to be shown did not hold."""


def run(*command: str | Path, says: str = "", seconds: int = 1800, **more: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=seconds, **more)  # type: ignore[call-overload]
    said = f"{done.stdout}{done.stderr}"
    if done.returncode or says not in said:
        why = f"exit code {done.returncode}" if done.returncode else f"{says!r} is not in what it says"
        raise Failed(f"{' '.join(map(str, command))[:200]}: {why}\n{said[-2000:]}")
    return said


def debian(folder: Path) -> None:
    """A root as Debian's slim image is, without Python."""
    archive = ROOTS / "bookworm.tar"
    if not archive.exists():
        ROOTS.mkdir(parents=True, exist_ok=True)
        made = ROOTS / "bookworm"
        mirror = os.environ.get("DEBIAN", "http://deb.debian.org/debian")
        run("debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", made, mirror)
        skipped = ("--exclude=./var/cache/apt/archives/*.deb", "--exclude=./dev/*")
        run("tar", "--numeric-owner", "-C", made, "-cf", f"{archive}.part", *skipped, ".")
        os.replace(f"{archive}.part", archive)
        shutil.rmtree(made)
    folder.mkdir(parents=True)
    run("tar", "--numeric-owner", "-xf", archive, "-C", folder)


def inside(root: Path, *more: str) -> tuple[str, ...]:
    """The words before a command that is to run in this root, without a network."""
    apart = ("--unshare-pid", "--unshare-net", "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev", "--clearenv")
    variables = {**CLEAN, "HOME": "/root"}
    return (
        "bwrap",
        "--bind",
        str(root),
        "/",
        *apart,
        *more,
        *(w for k, v in variables.items() for w in ("--setenv", k, v)),
    )


def starts(*command: str | Path, env: dict[str, str]) -> float:
    """Milliseconds of processor time that a start takes, the middle of nine."""
    taken: list[float] = []
    for _ in range(9):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*map(str, command)], env=env, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
    return sorted(taken)[4]


def single_file(work: Path) -> None:
    """Built, put into a root without Python, and used there; its start beside the wheel's."""
    run(ROOT / "scripts/compile")
    root = work / "root"
    debian(root)
    shutil.copy(ROOT / "dist/adderclaw-linux", root / "usr/local/bin/adderclaw")
    there = inside(root, "--chdir", "/root")
    run(*there, "sh", "-c", "! command -v python3 && ! command -v python")
    for words, says in (
        ("--version", "adderclaw "),
        ("init", "ready:"),
        ("agent -m hello", "built-in `local` provider"),
        ("doctor", "ok       python"),
        ("update", "installed by single file"),
        ("fleet --help", "fleet"),
        ("serve --help", "--port"),
    ):
        run(*there, "adderclaw", *words.split(), says=says)
    home = {**CLEAN, "HOME": str(work / "home")}
    run(ROOT / "dist/adderclaw-linux", "--version", env=home)
    run(ROOT / "scripts/install-locked", work / "wheel", env={**os.environ, "PYTHON": python()})
    for words in (("--version",), ("config", "show")):
        one, other = (
            starts(p, *words, env=home) for p in (ROOT / "dist/adderclaw-linux", work / "wheel/bin/adderclaw")
        )
        print(f"  {' '.join(words)}: single file {one:.0f} ms, wheel {other:.0f} ms of processor time")


def wheel(work: Path) -> None:
    """Installed by pip into an empty environment, it runs the demo; built again, it is the same."""
    for name in ("one", "two"):
        run(ROOT / "scripts/build-packages", work / name)
    for made in sorted((work / "one").glob("adderclaw*")):
        if made.read_bytes() != (work / "two" / made.name).read_bytes():
            raise Failed(f"{made.name} is not the same when it is built again")
    (built,) = (work / "one").glob("*-any.whl")
    run(python(), "-m", "venv", work / "empty")
    run(work / "empty/bin/pip", "install", "--quiet", built)
    shutil.copytree(ROOT / "demo", work / "demo")
    env = {**CLEAN, "HOME": str(work / "home"), "PATH": f"{work}/empty/bin:{CLEAN['PATH']}"}
    (work / "home").mkdir()
    run(work / "empty/bin/python", work / "demo/run.py", env=env, cwd=work)
    sizes = run("du", "-sm", work / "empty").split()[0]
    print(f"  {built.name}: {built.stat().st_size / 1e6:.1f} MB, installed with what it needs and pip {sizes} MB")


def readme(work: Path) -> None:
    """The two commands of README.md, on a fresh clone with an empty home, on each Python that is here."""
    pythons = [one for version in ("3.12", "3.13") if (one := python(version))]
    for number, one in enumerate(pythons):
        clone, home = work / f"clone{number}", work / f"home{number}"
        home.mkdir()
        run("git", "clone", "--quiet", ROOT, clone)
        certificates = {key: value for key, value in os.environ.items() if "CERT" in key or "CA_" in key or key == "UV"}
        env = {**CLEAN, **certificates, "HOME": str(home), "PATH": f"{Path(one).parent}:{CLEAN['PATH']}"}
        run("make", "setup", env=env, cwd=clone)
        run("make", "demo", env=env, cwd=clone)
        print(f"  {run(clone / '.venv/bin/python', '--version').strip()}: make setup, make demo")
    if len(pythons) < 2:
        raise Failed("Python 3.12 and 3.13 are both needed: install them, for instance with pyenv")


TOOLS = (
    "git --version",
    "curl --version",
    "node --version",
    "rg --version",
    "bwrap --version",
    "playwright-mcp --version",
    "chromium --headless --no-sandbox --disable-gpu --dump-dom data:text/html,<p>drawn</p>",
    "adderclaw --version",
    "adderclaw doctor",
    "adderclaw update",
)


def image(_: Path) -> None:
    """The Dockerfile, executed by buildah without a daemon; then each tool, as the image's user, its root read-only."""
    env = {**os.environ, "STORAGE_DRIVER": os.environ.get("STORAGE_DRIVER", "vfs"), "BUILDAH_ISOLATION": "chroot"}
    run(ROOT / "scripts/stand-in-images", ROOTS, Path(python()).resolve().parent.parent, env=env)
    words = ("--pull-never", "--tag", "adderclaw-check", "--build-arg", "IMAGE=adderclaw-check")
    run("buildah", "build", *words, ROOT, env=env, seconds=3600)
    container = run("buildah", "from", "--pull-never", "adderclaw-check", env=env).strip()
    try:
        root = run("buildah", "mount", container, env=env).strip()
        config = run(
            "buildah", "inspect", "--format", "{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}", container, env=env
        )
        if config.split() != ["adderclaw", "[adderclaw]"]:
            raise Failed(f"user and entry point are {config}")
        for tool in TOOLS:
            as_user = (
                "--ro-bind",
                root,
                "/",
                "--unshare-all",
                "--uid",
                "1000",
                "--gid",
                "1000",
                "--proc",
                "/proc",
                "--dev",
                "/dev",
            )
            places = ("--tmpfs", "/tmp", "--tmpfs", "/workspace", "--tmpfs", "/home/adderclaw", "--chdir", "/workspace")
            variables = {**CLEAN, "HOME": "/home/adderclaw", "ADDERCLAW_IMAGE": "adderclaw-check"}
            settings = ("--clearenv", *(w for k, v in variables.items() for w in ("--setenv", k, v)))
            run(
                "bwrap",
                *as_user,
                *places,
                *settings,
                *tool.split(maxsplit=5),
                says="drawn" if "dump-dom" in tool else "",
            )
            print(f"  {tool.split()[0]} {tool.split()[1]}: runs")
    finally:
        subprocess.run(["buildah", "rm", container], env=env, capture_output=True)


SHOWS: dict[str, Callable[[Path], None]] = {
    "single-file": single_file,
    "wheel": wheel,
    "readme": readme,
    "image": image,
}


def python(version: str = "3.12") -> str:
    """An interpreter of this version that belongs to no environment; empty where there is none."""
    kept = [str(one / "bin/python") for one in sorted(Path.home().glob(f".pyenv/versions/{version}*"))]
    for one in (*kept, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}", f"python{version}"):
        asked = "import sys; print(sys.base_prefix, '%d.%d' % sys.version_info[:2])"
        done = subprocess.run([one, "-c", asked], capture_output=True, text=True) if shutil.which(one) else None
        if done and not done.returncode and done.stdout.split()[1] == version:
            return f"{done.stdout.split()[0]}/bin/python{version}"
    return ""
