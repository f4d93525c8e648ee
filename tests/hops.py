"""The ways through the program as docs/dev/architecture.md lists them, hop by hop."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "dev" / "architecture.md"
MOST = 15


def ways() -> dict[str, list[str]]:
    """Heading → the functions that it lists, each by its name below `adderclaw`."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Three ways, hop by hop\n")[2].partition("\n## ")[0]
    found: dict[str, list[str]] = {}
    for part in re.split(r"^### ", section, flags=re.M)[1:]:
        title, _, body = part.partition("\n")
        found[title.strip()] = re.findall(r"^\d+\. `([\w.]+)`", body, flags=re.M)
    return found


def function(name: str) -> Any:
    """The function or method of that name; raises where there is none."""
    words = f"adderclaw.{name}".split(".")
    for end in range(len(words) - 1, 0, -1):
        try:
            found: Any = import_module(".".join(words[:end]))
        except ModuleNotFoundError:
            continue
        for word in words[end:]:
            found = getattr(found, word)
        return found
    raise AssertionError(f"{name}: there is no such module")
