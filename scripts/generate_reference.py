"""Fills the tables of docs/events.md, exit-codes.md, environment.md and providers.md from the source.

`--check` only compares.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

from adderclaw.core import errors
from adderclaw.core.events import calls, models, program, work
from adderclaw.core.provider_kinds import KINDS

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "adderclaw"
DOCS = ROOT / "docs"
BLOCK = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
CONSTANT = re.compile(r'^([A-Z_]+(?:, [A-Z_]+)*)(?:: [\w\[\]]+)? = ("[A-Z0-9_]+"(?:, "[A-Z0-9_]+")*)$', re.MULTILINE)
KEY = re.compile(r'"([A-Z][A-Z0-9_]*_(?:API_KEY|PASSPHRASE))"')
SINGLE_FILE = ROOT / "scripts" / "build_single_file.py"
EXITS = {0: "the work is done", 130: "Ctrl-C (SIGINT)", 143: "SIGTERM", 129: "SIGHUP"}

KEYS_AND_ADDRESSES = {kind.key_variable: f"the key of {kind.vendor}" for kind in KINDS if kind.key_variable} | {
    kind.url_variable: f"another address of {kind.vendor}'s API" for kind in KINDS if kind.url_variable
}
VARIABLES = {
    "ADDERCLAW_HOME": "another home than `~/.adderclaw`",
    "ADDERCLAW_LOG": "`json`: every line on stderr is a JSON object",
    "ADDERCLAW_MOCK_FIXTURE": "the script that the provider `local` plays",
    "ADDERCLAW_MCP_TOKEN": "the token that a client of `adderclaw mcp serve --http` has to send",
    "ADDERCLAW_PASSPHRASE": "the passphrase of the encrypted file with stored keys (`auth.passphrase_env`)",
    "ADDERCLAW_UNPACK": "where the single file unpacks itself, in place of `~/.cache/adderclaw`",
    "ADDERCLAW_FLEET_DATABASE": "the address of the fleet's PostgreSQL, in place of `fleet.toml`",
    "ADDERCLAW_FLEET_KEY": "the fleet's key, in place of `fleet.key`",
    "ADDERCLAW_FLEET_KEY_FILE": "a file with the fleet's key, such as a mounted secret",
    **dict(sorted(KEYS_AND_ADDRESSES.items())),
    "ANTHROPIC_AUTH_TOKEN": "a bearer token of Anthropic, or of a gateway before it",
    "ANTHROPIC_UNIX_SOCKET": "a socket of this machine by which Anthropic's API is reached",
    "CLAUDE_CODE_OAUTH_TOKEN": "a token of a subscription to Claude Code",
    "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR": "the number of an open file that such a token is read from",
    "GOOGLE_API_KEY": "the same, where `GEMINI_API_KEY` is not set",
    "LM_STUDIO_API_KEY": "the key of LM Studio, where it wants one",
    "LM_STUDIO_MODEL": "the model of LM Studio that is asked",
    "OLLAMA_HOST": "the address of Ollama; `onboard` looks there",
    "AGENT_SDLC_DB": "another database than `memory.sqlite` of the home",
    "SDLC_DISABLE_ALL_HOOKS": "`1`: no hook runs",
    "SDLC_HOOK_TIMEOUT_MS": "milliseconds that a hook may take",
    "SDLC_SESSIONEND_HOOK_TIMEOUT_MS": "the same for hooks at the end of a session",
    "BROWSER": "the program that opens a login page",
    "DISPLAY": "whether there is a screen on which a browser can open",
    "WAYLAND_DISPLAY": "the same, on Wayland",
    "SSH_CONNECTION": "set: a login does not open a browser here, and shows a code instead",
    "XDG_RUNTIME_DIR": "where that bus is looked for otherwise",
    "XDG_CONFIG_HOME": "where programs look for their settings, instead of `~/.config`",
    "XDG_DATA_HOME": "where shells look for completions, instead of `~/.local/share`",
    "HTTPS_PROXY": "the proxy for what is encrypted; also `HTTP_PROXY`, `ALL_PROXY`, each in small letters, too",
    "NO_PROXY": "what is reached without it",
    "SSL_CERT_FILE": "a file of authorities; docs/network.md names the other variables that count",
    "TRACEPARENT": "the trace that a run belongs to (W3C), set by the program that started it",
    "VISUAL": "the editor that Ctrl-G and `memory edit` open",
    "EDITOR": "the same, where `VISUAL` is not set",
    "PATH": "where programs are looked for; folders in a workspace are left out",
    "TERM": "`dumb`, or not set: the terminal is used line by line",
    "COLORFGBG": "whether the terminal is light or dark",
    "NO_COLOR": "set: no colours",
    "TMPDIR": "where temporary files are made",
    "TZ": "the time zone of schedules and of the tool Time",
}
"""What people may set, and what it does."""

INTERNAL = {
    "ADDERCLAW_ASK": "a program in the sandbox",
    "ADDERCLAW_BROKER": "a program in the sandbox",
    "ADDERCLAW_NEAR": "a program in the sandbox",
    "ADDERCLAW_CALL": "a call of a tool, for what it starts",
    "GIT_PROTOCOL": "git",
    "ADDERCLAW_IMAGE": "the container image, for the program in it",
    "ADDERCLAW_SINGLE_FILE": "the single file, for the program in it",
    "NOTIFY_SOCKET": "systemd",
    "ADDERCLAW_ONBOARD_KEY": "onboard, for itself",
}
"""What a program sets for the one that it starts."""


def code(text: object) -> str:
    return "`" + str(text).replace("|", "\\|") + "`"


def type_name(kind: object) -> str:
    shown = kind.__name__ if isinstance(kind, type) else str(kind)
    return re.sub(r"\b(typing|collections\.abc|adderclaw\.[\w.]+)\.", "", shown)


def events() -> Iterator[str]:
    for module in (program, calls, models, work):
        title = re.sub(r" \(.*\)", "", (module.__doc__ or "").strip().splitlines()[0])
        yield f"## {title.rstrip('.')}\n"
        yield "| event | fields |\n|---|---|"
        for kind in vars(module).values():
            hints = get_type_hints(kind) if isinstance(kind, type) and hasattr(kind, "__total__") else {}
            if kind_of := hints.pop("event_type", None):
                fields = ", ".join(
                    f"{code(name)} {type_name(hint)}".replace("|", "\\|") for name, hint in hints.items()
                )
                yield f"| {code(kind_of.__args__[0])} | {fields.replace('\\\\|', '\\|')} |"
        yield ""


def tree(kind: type[errors.AdderClawError]) -> Iterator[type[errors.AdderClawError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


def exit_codes() -> Iterator[str]:
    said = dict(re.findall(r"(\w+) +\d   (.+)", errors.__doc__ or ""))
    outcomes = {number: name for name, number in errors.EXIT_CODES.items()}
    found: dict[int, list[str]] = {number: [text] for number, text in EXITS.items()}
    for kind in tree(errors.AdderClawError):
        if text := said.get(kind.__name__):
            found.setdefault(kind.exit_code, []).append(f"{text.split(' (see')[0]} ({code(kind.__name__)})")
    yield "| exit code | outcome | when |\n|---|---|---|"
    for number, texts in sorted(found.items()):
        outcome = code(outcomes[number]) if number in outcomes else ""
        yield f"| {number} | {outcome} | {'; '.join(texts)} |"


def variables() -> Iterator[str]:
    yield "| variable | what it does |\n|---|---|"
    yield from (f"| {code(name)} | {text} |" for name, text in VARIABLES.items())


def read_variables() -> set[str]:
    """The variables that the source reads by name, those that it names as keys, and that of the single file."""
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    constants = dict(pair for text in texts for pair in _constants(text))
    found = {name for text in texts for name in KEY.findall(text)}
    found |= set(re.findall(r"\$\{+(ADDERCLAW_\w+):-", SINGLE_FILE.read_text(encoding="utf-8")))
    for tree in (ast.parse(text) for text in texts if "environ" in text):
        for name in (name for node in ast.walk(tree) for name in _names(node)):
            value = name.value if isinstance(name, ast.Constant) else constants.get(getattr(name, "id", ""), "")
            if isinstance(value, str) and re.fullmatch("[A-Z][A-Z0-9_]+", value):
                found.add(value)
    return found


def _constants(text: str) -> Iterator[tuple[str, str]]:
    """Names of a module that stand for a variable: `A = "NAME"`, and `A, B = "NAME", "OTHER"`."""
    for left, right in CONSTANT.findall(text):
        yield from zip(left.split(", "), re.findall('"([^"]*)"', right), strict=False)


def _names(node: ast.AST) -> Iterator[ast.expr]:
    """What is looked up in the environment by this expression."""
    match node:
        case ast.Call(func=ast.Attribute(value=place, attr="get" | "pop"), args=[name, *_]) if _is_environment(place):
            yield from (name.body, name.orelse) if isinstance(name, ast.IfExp) else (name,)
        case ast.Subscript(value=place, slice=name) if _is_environment(place):
            yield name
        case ast.Compare(left=name, comparators=[place]) if _is_environment(place):
            yield name
        case _:
            pass


def _is_environment(place: ast.expr) -> bool:
    return (place.attr if isinstance(place, ast.Attribute) else getattr(place, "id", "")) == "environ"


def providers() -> Iterator[str]:
    yield "| kind | speaks | address | key from |\n|---|---|---|---|"
    for kind in KINDS:
        needs_address, needs_script = bool(kind.suggested_url), kind.has_no_server and not kind.combines
        address = kind.base_url or ("base_url" if needs_address else "fixture" if needs_script else "")
        no_key = "what `api_key_env` names, if anything" if needs_address else "" if kind.combines else "none"
        key = code(kind.key_variable) if kind.key_variable else no_key
        yield f"| {code(kind.name)} | {kind.wire} | {code(address) if address else ''} | {key} |"


TABLES = {"events": events, "exit-codes": exit_codes, "environment": variables, "providers": providers}


def main() -> int:
    wrong = sorted(read_variables() - VARIABLES.keys() - INTERNAL.keys())
    if wrong:
        print(f"scripts/generate_reference.py does not say what these variables do: {wrong}", file=sys.stderr)
    stale: list[str] = []
    for name, table in TABLES.items():
        page = DOCS / f"{name}.md"
        old = page.read_text(encoding="utf-8")
        lines = "\n".join(table()) + "\n"
        new = BLOCK.sub(lambda found, lines=lines: found[1] + lines + found[3], old)
        if new != old:
            stale.append(page.name)
            if "--check" not in sys.argv:
                page.write_text(new, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"{stale}: run .venv/bin/python scripts/generate_reference.py", file=sys.stderr)
    return 1 if wrong or (stale and "--check" in sys.argv) else 0


if __name__ == "__main__":
    sys.exit(main())
