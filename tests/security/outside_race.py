"""A program that changes the mode of files of its own, while others exchange them for files that are not.

Run inside a sandbox, in the workspace: `python outside_race.py FILE ROUNDS`, FILE being one outside.
"""

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from swapping import swapping

libc = ctypes.CDLL(None, use_errno=True)


def repeated(rounds: int, act: Callable[[], int]) -> int:
    """How often it was done: so many rounds, and where a busy machine lets nobody exchange anything, more of them."""
    done = sum(act() == 0 for _ in range(rounds))
    end = time.monotonic() + 60
    while done in (0, rounds) and time.monotonic() < end:
        done += act() == 0
        rounds += 1
    return done


def meanwhile(exchange: Callable[[], object], rounds: int, act: Callable[[], int]) -> tuple[int, int]:
    """How often it was done, and how often it was exchanged."""
    over, count = threading.Event(), 0

    def exchanging() -> None:
        nonlocal count
        while not over.is_set():
            exchange()
            count += 1

    thread = threading.Thread(target=exchanging)
    thread.start()
    done = repeated(rounds, act)
    over.set()
    thread.join()
    return done, count


def links(target: str, rounds: int) -> None:
    """A file against a link, and a folder against a link to a folder."""
    folder, name = os.path.split(target)
    os.makedirs("own")
    for path in ("file", f"own/{name}"):
        with open(path, "w", encoding="utf-8"):
            pass
    os.symlink(target, "link")
    os.symlink(folder, "folder")
    for one, other, path in (("file", "link", b"file"), ("own", "folder", os.fsencode(f"own/{name}"))):
        with swapping(Path(one), Path(other)) as swapper:
            done = repeated(rounds, lambda path=path: libc.chmod(path, 0o666))
            done += repeated(rounds, lambda path=path: libc.utimensat(-100, path, None, 0))
        print(f"{one}: {done} changes, {swapper.count} swaps")


def memory(target: str, rounds: int) -> None:
    """The text of the path itself."""
    own, far = os.fsencode(os.path.abspath("file")), os.fsencode(target)
    text = ctypes.create_string_buffer(4096)
    texts = [own + b"\0", far + b"\0"]

    def exchange() -> None:
        for one in texts:
            ctypes.memmove(text, one, len(one))

    done, count = meanwhile(exchange, rounds, lambda: libc.chmod(text, 0o666))
    print(f"memory: {done} changes, {count} swaps")


def descriptors(target: str, rounds: int) -> None:
    """What a number stands for."""
    own, far = os.open("file", os.O_RDONLY), os.open(target, os.O_PATH)
    used = os.dup(own)

    def exchange() -> None:
        os.dup2(far, used)
        os.dup2(own, used)

    act = lambda: libc.fchmod(used, 0o666)  # noqa: E731
    done, count = meanwhile(exchange, rounds, act)
    more, others = meanwhile(exchange, rounds, lambda: libc.chmod(b"/proc/self/fd/%d" % used, 0o666))
    print(f"descriptors: {done + more} changes, {count + others} swaps")


def directories(target: str, rounds: int) -> None:
    """The directory that a relative path starts from."""
    folder, name = os.path.split(target)
    here = os.getcwd()

    def exchange() -> None:
        os.chdir(folder)
        os.chdir(f"{here}/own")

    done, count = meanwhile(exchange, rounds, lambda: libc.chmod(os.fsencode(name), 0o666))
    os.chdir(here)
    print(f"directories: {done} changes, {count} swaps")


def main(target: str, rounds: int) -> None:
    for attack in (links, memory, descriptors, directories):
        attack(target, rounds)
    print("tried all")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
