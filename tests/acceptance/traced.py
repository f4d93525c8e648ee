"""Runs the program and writes down which of its functions were called, each once, in the order of their first call.

`python traced.py FILE PROGRAM ARGUMENT…`
"""

import os
import sys
import threading
from types import FrameType
from typing import Any

called: dict[str, None] = {}


def note(frame: FrameType, event: str, _argument: Any) -> None:
    module = str(frame.f_globals.get("__name__", ""))
    if event == "call" and module.startswith("adderclaw."):
        called.setdefault(f"{module}.{frame.f_code.co_qualname}".removeprefix("adderclaw."))


def main() -> None:
    out, sys.argv = sys.argv[1], sys.argv[2:]
    sys.path.pop(0)  # this folder, which is none of the program's
    from adderclaw.terminal import commands

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        commands.main()
    finally:
        sys.setprofile(None)
        with open(out, "w", encoding="utf-8") as file:
            file.write("\n".join(called) + os.linesep)


if __name__ == "__main__":
    main()
