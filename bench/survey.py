"""What one look at a workspace costs per 1,000 folders: `python bench/survey.py [FOLDERS]`."""

import os
import sys
import tempfile
import time

from adderclaw.sandbox.legacy.survey import Survey, Surveyor

FILES = 8
"""Files in each folder."""


def made(top: str, folders: int) -> None:
    """A tree like a project's: ten folders in each, a repository and some settings of CI and editors."""
    waiting, count = [top], 0
    while count < folders:
        parent = waiting.pop(0)
        for number in range(min(10, folders - count)):
            path = os.path.join(parent, f"folder{number}")
            os.mkdir(path)
            for file in range(FILES):
                os.close(os.open(os.path.join(path, f"file{file}.py"), os.O_CREAT | os.O_WRONLY))
            waiting.append(path)
            count += 1
    for name in (".github/workflows", ".vscode", ".git/objects", ".git/refs", ".git/hooks"):
        os.makedirs(os.path.join(top, name))
    for name in (".github/workflows/ci.yml", ".vscode/settings.json", ".git/HEAD", ".git/config"):
        os.close(os.open(os.path.join(top, name), os.O_CREAT | os.O_WRONLY))


def main(folders: int) -> None:
    with tempfile.TemporaryDirectory() as top:
        made(top, folders)
        time.sleep(0.2)  # what was changed just now is read twice
        surveyor = Surveyor()
        times: list[float] = []
        found = Survey()
        for _ in range(9):
            began = time.perf_counter()
            found = surveyor.survey([top])
            times.append((time.perf_counter() - began) * 1000)
        first, again = times[0], min(times[1:])
        print(f"{found.folders} folders, {FILES} files each: first look {first:.1f} ms, again {again:.2f} ms")
        print(f"per 1,000 folders: first {first / folders * 1000:.1f} ms, again {again / folders * 1000:.2f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
