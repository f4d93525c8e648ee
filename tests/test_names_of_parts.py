"""The names of tools, of provider kinds and of what is in the home are in one table each: no other code lists them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from adderclaw.core import home_names
from adderclaw.core.provider_kinds import BY_NAME
from adderclaw.core.tool_traits import NAMES, TOOLS
from tests.rows import rows

SOURCE = Path(__file__).parents[1] / "src" / "adderclaw"
FILES = [path.relative_to(SOURCE).as_posix() for path in sorted(SOURCE.rglob("*.py"))]
ALLOWED: dict[str, tuple[str, ...]] = {
    # words of a page that are also names
    "clients/acp/agent.py": ("Agent",),  # a class of that module, in quotes
    # the scope of a token
    "server/endpoint.py": ("openai",),
    "server/openai/endpoints.py": ("openai",),
    "server/openapi.py": ("openai",),
    # how the operator's own files call an entry or a model
    "config/checks.py": ("mock",),
    "config/schema.py": ("anthropic", "gemini", "mock"),
    # who makes a model, whoever serves it
    "config/model_facts/price_list.py": ("anthropic", "openai"),
    "models/providers/thinking.py": ("anthropic", "gemini", "openai"),
    # the value of a key that any server takes
    "models/credentials/sources.py": ("lm-studio",),
    # a Python package
    "flows/sdlc/check_python.py": ("mock",),
}
"""Literals that are something else than the name of a tool or kind of provider."""


ELSEWHERE_TOO = {home_names.SETTINGS, home_names.POLICY, home_names.MODELS, home_names.WORKSPACES}
"""Names that files of projects, packages and other programs have as well."""
IN_HOME = (home_names.FILES | {home_names.DATABASE, home_names.RECEIPTS}) - ELSEWHERE_TOO


def modules() -> dict[str, set[str]]:
    """File → the names that it may write: a tool's own module, and a kind's own adapter."""
    found: dict[str, set[str]] = {"core/tool_traits.py": set(NAMES), "core/provider_kinds.py": set(BY_NAME)}
    for tool in TOOLS:
        found.setdefault(f"tools/{tool.module.replace('.', '/')}.py", set()).add(tool.name)
    for kind in BY_NAME.values():
        module = kind.adapter.partition(":")[0]
        for path in (f"models/providers/{module}.py", f"models/providers/{module}_reply.py"):
            found.setdefault(path, set()).add(kind.name)
    return found


def names_in(text: str) -> Iterator[str]:
    """The names among the literals of a module: alone, or with the parenthesis of a permission rule."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = re.match(r"([A-Za-z-]+)(\(|$)", node.value)
            if match and (match[1] in NAMES or (match[1] in BY_NAME and not match[2])):
                yield match[1]


@rows("path", FILES)
def test_no_other_code_names_a_tool_or_a_kind_of_provider(path: str) -> None:
    allowed = {*modules().get(path, ()), *ALLOWED.get(path, ())}
    offenders = set(names_in((SOURCE / path).read_text(encoding="utf-8"))) - allowed
    assert not offenders, f"{path} names {sorted(offenders)}: ask for a trait of it, or import the constant"


def test_an_offender_is_found() -> None:
    text = 'QUIET = {"Glob": 1}\nasked = f"Bash({QUIET})"\nmatch kind:\n    case "ollama" | "lm-studio": x\n'
    assert set(names_in(text)) == {"Glob", "Bash", "ollama", "lm-studio"}
    assert not set(names_in('"Globe"; "Read the file"; "openai says"'))


def test_what_is_allowed_is_still_there() -> None:
    for path, names in ALLOWED.items():
        assert set(names) <= set(names_in((SOURCE / path).read_text(encoding="utf-8"))), path


def literals(text: str) -> set[str]:
    return {str(node.value) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}


@rows("path", [path for path in FILES if path != "core/home_names.py"])
def test_no_other_code_names_a_file_of_the_home(path: str) -> None:
    offenders = IN_HOME & literals((SOURCE / path).read_text(encoding="utf-8"))
    assert not offenders, f"{path} names {sorted(offenders)}: `home_names` has them"


def test_a_file_of_the_home_is_found() -> None:
    assert IN_HOME & literals('os.path.join(home, "receipt.key")') == {"receipt.key"}
