#!/usr/bin/env python3
"""One executable file with everything in it, Python too: `build_single_file.py [FILE]`, by default dist/adderclaw.

It is a shell script with an archive behind it. The first start unpacks the archive into the user's cache; every start
executes the interpreter in there. The interpreter is the one that runs this script (`$PYTHON`), with the libraries that
it needs beside libc. `--folder FOLDER` makes only the folder that would be unpacked: the image has no need to unpack.
"""

import argparse
import gzip
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
SYSTEM = f"{platform.system()} {platform.machine()}"
EXTRAS = "fleet"
UNUSED = (
    *("test", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data", "site-packages", "turtle.py"),
    *("__pycache__", "config-3.*", "_test*.so", "_tkinter*.so", "_ctypes_test*.so", "_xx*.so", "xxlimited*.so", "*.a"),
)
"""Of the standard library; each is a program of its own, a test, or made anew."""
HOSTS = (
    "libc.so",
    "libm.so",
    "libdl.so",
    "libpthread.so",
    "librt.so",
    "libutil.so",
    "libresolv.so",
    "ld-linux",
    "linux-vdso",
)
"""What every Linux with glibc has, and must be its own."""

ENTRY = f"""#!/bin/sh
# The program in this folder, wherever it is; -I: nothing of the host's Python counts.
me=$0
if [ -L "$me" ]; then me=$(readlink -f "$me"); fi
exec "${{me%/*}}/{VERSION}" -I -c 'import sys; from adderclaw.terminal.entry import main; sys.exit(main())' "$@"
"""

STUB = """#!/bin/sh
# AdderClaw {version} for {system}, with its own Python: a script, and an archive behind it.
# The first start unpacks the archive into $ADDERCLAW_UNPACK (~/.cache/adderclaw).
# When another one is unpacked, what was not started for 30 days and does not run is removed.
fail() {{ echo "adderclaw: $1" >&2; exit 1; }}
cache=${{ADDERCLAW_UNPACK:-${{XDG_CACHE_HOME:-${{HOME:-}}/.cache}}/adderclaw}}
root=$cache/{digest}
python=$root/bin/{python}
if [ ! -e "$root/whole" ]; then
  case $cache in /.cache/*) fail "there is no HOME: set ADDERCLAW_UNPACK to a folder of yours" ;; esac
  mkdir -p -m 700 "$cache" 2>/dev/null && new=$(mktemp -d "$cache/adderclaw-new.XXXXXX" 2>/dev/null) ||
    fail "$cache cannot be written: set ADDERCLAW_UNPACK to a folder that can"
  trap 'rm -rf "$new"' EXIT
  trap 'exit 130' INT TERM HUP
  full="$cache cannot hold what is unpacked (at first {megabytes} MB): make room, or set ADDERCLAW_UNPACK to another"
  tail -n +{lines} "$0" >"$new/archive" 2>/dev/null || fail "$full"
  if command -v sha256sum >/dev/null 2>&1; then
    echo "{sha256}  $new/archive" | sha256sum -c --status || fail "$0 is damaged: fetch it again"
  fi
  mkdir "$new/tree" && tar -xzf "$new/archive" -C "$new/tree" 2>/dev/null || fail "$full"
  # -T: into a folder that another start has just made, nothing goes; macOS knows no -T
  mv -T "$new/tree" "$root" 2>/dev/null || [ -e "$root" ] || mv "$new/tree" "$root" 2>/dev/null
  [ -e "$root/whole" ] || fail "$root cannot be written"
  running=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; ps -axww -o args= 2>/dev/null)
  find "$cache" -mindepth 2 -maxdepth 2 -name used -mtime +30 2>/dev/null | while read -r old; do
    old=${{old%/used}}
    case $running in *"$old/bin/"*) continue ;; esac
    if [ -e "$old/whole" ]; then rm -rf "$old"; fi
  done
  # left by a start that was killed
  find "$cache" -mindepth 1 -maxdepth 1 -name 'adderclaw-new.??????' -type d -mtime +0 -exec rm -rf {{}} + 2>/dev/null
  rm -rf "$new"
  trap - EXIT INT TERM HUP
fi
[ -O "$root" ] || fail "$root belongs to somebody else: set ADDERCLAW_UNPACK to a folder of yours"
[ -e "$python" ] || fail "$root is not whole any more: remove it, start again"
[ -x "$python" ] || fail "$cache allows no programs (noexec): set ADDERCLAW_UNPACK to a folder that does"
{{ : >"$root/used"; }} 2>/dev/null
case $0 in /*) ADDERCLAW_SINGLE_FILE=$0 ;; *) ADDERCLAW_SINGLE_FILE=$PWD/$0 ;; esac
export ADDERCLAW_SINGLE_FILE
exec "$python" -I -c 'import sys; from adderclaw.terminal.entry import main; sys.exit(main())' "$@"
"""


def build_folder(made: Path) -> None:
    """Interpreter, standard library, libraries and the locked packages."""
    for name in ("bin", "lib"):
        (made / name).mkdir(parents=True)
    shutil.copy(Path(sys.base_prefix, "bin", VERSION), made / "bin" / VERSION)
    (made / "bin/python3").symlink_to(VERSION)
    library = made / "lib" / VERSION
    shutil.copytree(Path(sysconfig.get_path("stdlib")), library, ignore=shutil.ignore_patterns(*UNUSED), symlinks=True)
    if sys.platform == "linux":
        bring_libraries(made, library)
    else:  # a Python that was built to be moved, as uv's are
        for found in Path(sys.base_prefix, "lib").glob("libpython3.*.dylib"):
            shutil.copy(found, made / "lib")
    packages = library / "site-packages"
    env = {**os.environ, "PYTHON": sys.executable, "EXTRAS": os.environ.get("EXTRAS", EXTRAS)}
    subprocess.run([ROOT / "scripts/install-locked", "--target", packages], check=True, env=env)
    for script in (packages / "bin").iterdir():  # they name a Python of this machine; ripgrep's is the one we use
        script.rename(made / "bin/rg") if script.name == "rg" else script.unlink()
    entry = made / "bin/adderclaw"
    entry.write_text(ENTRY)
    entry.chmod(0o755)
    # Whether a source changed is not asked: it is where nobody writes.
    command = [made / "bin" / VERSION, "-I", "-m", "compileall", "-q", "-j0", "--invalidation-mode=unchecked-hash"]
    subprocess.run([*command, "-s", str(made), library], check=True)
    (made / "whole").touch()


def bring_libraries(made: Path, library: Path) -> None:
    """Copy what the interpreter and its modules are linked to, and let each find it from where it is."""
    program = made / "bin" / VERSION
    modules = [*(library / "lib-dynload").glob("*.so")]
    brought = {found.name: found for one in (program, *modules) for found in linked(one)}
    for name, found in brought.items():
        shutil.copy(found, made / "lib" / name)
        (made / "lib" / name).chmod(0o755)
    places = [
        ([program], "$ORIGIN/../lib"),
        (modules, "$ORIGIN/../.."),
        ([made / "lib" / one for one in brought], "$ORIGIN"),
    ]
    for files, where in places:
        if files:
            subprocess.run([ROOT / "scripts/release-tool", "patchelf", "--set-rpath", where, *files], check=True)


def linked(binary: Path) -> Iterator[Path]:
    said = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    for line in said.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if arrow and not name.startswith(HOSTS):
            if rest.startswith("not found"):
                sys.exit(f"{binary} needs {name}, which is not on this machine")
            yield Path(rest.split(" (")[0])


def archive(folder: Path, made: Path) -> None:
    """The same bytes from the same files: sorted, without owners and times."""

    def plain(one: tarfile.TarInfo) -> tarfile.TarInfo:
        one.uid = one.gid = one.mtime = 0
        one.uname = one.gname = ""
        one.mode = 0o755 if one.mode & 0o100 or one.isdir() else 0o644
        return one

    with gzip.GzipFile("", "wb", 6, open(made, "wb"), mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder).as_posix(), recursive=False, filter=plain)


def join(packed: Path, file: Path, version: str, megabytes: int) -> None:
    """The script, and the archive behind it."""
    sha256 = hashlib.file_digest(packed.open("rb"), "sha256").hexdigest()
    at_first = megabytes + packed.stat().st_size // 1_000_000  # the archive lies beside it until it is unpacked
    filled = {"version": version, "system": SYSTEM, "python": VERSION, "sha256": sha256, "megabytes": at_first}
    stub = STUB.format(**filled, digest=f"{version}-{sha256[:16]}", lines=STUB.count("\n") + 1)
    with file.open("wb") as out, packed.open("rb") as source:
        out.write(stub.encode())
        shutil.copyfileobj(source, out)
    file.chmod(0o755)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("file", nargs="?", type=Path, default=ROOT / "dist/adderclaw")
    asked.add_argument("--folder", type=Path, help="make this folder, and no file")
    wanted = asked.parse_args()
    if wanted.folder:
        build_folder(wanted.folder)
        return
    with tempfile.TemporaryDirectory() as work:
        folder, packed = Path(work, "tree"), Path(work, "archive.tar.gz")
        build_folder(folder)
        archive(folder, packed)
        version = subprocess.check_output([folder / "bin/adderclaw", "--version"], text=True).split()[1]
        megabytes = sum(one.lstat().st_size for one in folder.rglob("*")) // 1_000_000
        wanted.file.parent.mkdir(parents=True, exist_ok=True)
        wanted.file.unlink(missing_ok=True)
        join(packed, wanted.file, version, megabytes)
    print(f"{wanted.file}: {wanted.file.stat().st_size / 1e6:.0f} MB, unpacked {megabytes} MB, {SYSTEM}")


if __name__ == "__main__":
    main()
