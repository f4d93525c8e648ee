"""`adderclaw init` and `adderclaw onboard`: make the home, the configuration, the database and the workspace."""

import os
import stat
import sys
from typing import Annotated, NamedTuple

import typer

from adderclaw.channels.cli import local_models, offer_claude
from adderclaw.channels.cli.common import OutputFormat, group
from adderclaw.channels.cli.plain import print_json
from adderclaw.channels.terminal import STDIN
from adderclaw.config import Config, home, load, operator_file, places
from adderclaw.config.dialects import KEY_VARIABLES, KINDS
from adderclaw.config.found_keys import MODELS, in_environment
from adderclaw.errors import AdderClawError, NeedsInput, UsageError

app = group("Set AdderClaw up.")


class Done(NamedTuple):
    """What `init` found and made."""

    config_file: str
    created: list[str]
    kept: list[str]

    def note(self, path: str, *, new: bool) -> None:
        (self.created if new else self.kept).append(path)


@app.command()
def init(output_format: OutputFormat = "text") -> None:
    """Create the home, the configuration, the database, the receipt key and the workspace. Nothing is overwritten.

    Example: adderclaw init
    """
    done = _initialise()
    if output_format == "json":
        print_json(done._asdict())
    else:
        _print(done)
        print('ready: adderclaw agent -m "hello"')


def _print(done: Done) -> None:
    for path in done.created:
        print(f"created {path}")
    for path in done.kept:
        print(f"was there: {path}")


def _initialise() -> Done:
    own = home()
    try:
        done = Done(operator_file.file_of(own), [], [])
        _private_folder(own, done)
        new = not os.path.lexists(done.config_file)
        if new:
            from adderclaw.config.example import own as example

            places.replace(done.config_file, example())
        done.note(done.config_file, new=new)
        config = load(config_file=done.config_file).config
        _database_and_receipts(config, own, done)
        new = not os.path.isdir(config.workspace_dir)
        os.makedirs(config.workspace_dir, exist_ok=True)
        done.note(config.workspace_dir, new=new)
    except OSError as error:
        where = error.filename or own
        raise AdderClawError(
            f"{where} cannot be made: {error.strerror}; make its folder writable, or set ADDERCLAW_HOME to another"
        ) from None
    return done


def _private_folder(own: str, done: Done) -> None:
    new = not os.path.isdir(own)
    os.makedirs(own, mode=0o700, exist_ok=True)
    if stat.S_IMODE(os.stat(own).st_mode) & 0o077:
        os.chmod(own, 0o700)
    done.note(own, new=new)


def _database_and_receipts(config: Config, own: str, done: Done) -> None:
    from adderclaw.kernel.clock import SystemClock, random_ids
    from adderclaw.store import Store
    from adderclaw.store.ledger import Ledger

    key = os.path.join(own, "receipt.key")
    made = [config.memory.path, *([key, config.receipts.path] if config.receipts.enabled else [])]
    there = {path: os.path.lexists(path) for path in made}
    store = Store.open(config.memory.path)
    try:
        if config.receipts.enabled:
            Ledger.open(config.receipts.path, store, key, clock=SystemClock(), ids=random_ids).close()
    finally:
        store.close()
    for path in made:
        done.note(path, new=not there[path])


# ------------------------------------------------------------------ questions

OFFERED = tuple(kind for kind in KINDS if kind not in ("reliable", "router"))
ENTRY_NAMES = {"mock": "local"}
BASE_URLS = {"openai-compatible": "http://localhost:1234/v1"}
USUAL_URLS = ("http://127.0.0.1:11434/v1", "http://127.0.0.1:1234/v1")
"""Where these kinds look unless the entry says otherwise."""
AUTONOMY = ("readonly", "supervised", "full")


class Answers(NamedTuple):
    kind: str
    model: str
    base_url: str | None
    api_key_env: str | None
    autonomy: str


class Asker(NamedTuple):
    """Puts a question to a flag, then to --yes, then to the terminal."""

    yes: bool

    def ask(self, flag: str, question: str, given: str | None, suggestion: str | None, allowed: tuple[str, ...]) -> str:
        answer = given
        if answer is None and self.yes:
            answer = suggestion
        elif answer is None and sys.stdin.isatty():
            STDIN.discard_typed()
            answer = str(typer.prompt(question, default=suggestion, err=True)).strip()
        if answer is None:
            choice = f" ({', '.join(allowed)})" if allowed else ""
            raise NeedsInput(f"{question}? There is no terminal to ask on: give {flag}{choice}, or --yes")
        if allowed and answer not in allowed:
            raise UsageError(f"{flag} {answer!r} is not allowed; allowed: {', '.join(allowed)}")
        return answer


@app.command()
def onboard(
    provider: Annotated[str | None, typer.Option("--provider", metavar="KIND", help=", ".join(OFFERED))] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="MODEL", help="As the provider spells it.")] = None,
    base_url: Annotated[str | None, typer.Option("--base-url", metavar="URL", help="Where the API is.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option("--api-key-env", metavar="NAME", help="The variable that holds the key.")
    ] = None,
    autonomy: Annotated[str | None, typer.Option("--autonomy", metavar="LEVEL", help=", ".join(AUTONOMY))] = None,
    claude: Annotated[
        bool | None, typer.Option("--claude/--no-claude", help="Let your ~/.claude count here, too, or not.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Take the suggestions; ask nothing.")] = False,
) -> None:
    """Set up with questions; flags answer them where there is no terminal.

    Example: adderclaw onboard --provider anthropic --api-key-env ANTHROPIC_API_KEY --yes
    """
    found = [key.variable for key in in_environment()]
    print(f"keys in the environment: {', '.join(found) or 'none'}")
    running = local_models.servers(local_models.usual_ports())
    print(f"model servers on this machine: {', '.join(map(str, running)) or 'none'}")
    answers = _answers(Asker(yes), found, running, provider, model, base_url, api_key_env, autonomy)
    done = _initialise()
    _print(done)
    name = ENTRY_NAMES.get(answers.kind, answers.kind.replace("-", "_"))
    entry = {"kind": answers.kind, "model": answers.model}
    entry |= {"base_url": answers.base_url} if answers.base_url else {}
    entry |= {"api_key_env": answers.api_key_env} if answers.api_key_env else {}
    operator_file.choose_provider(home(), name, entry, autonomy=answers.autonomy)
    print(f"{done.config_file}: {answers.kind} with the model {answers.model}, autonomy {answers.autonomy}")
    if answers.api_key_env and not os.environ.get(answers.api_key_env):
        print(f"the variable {answers.api_key_env} is not set yet: export it before you start")
    offer_claude.offer(False if claude is None and yes else claude)


def _answers(
    asker: Asker,
    found: list[str],
    running: list[local_models.Server],
    provider: str | None,
    model: str | None,
    base_url: str | None,
    api_key_env: str | None,
    autonomy: str | None,
) -> Answers:
    ready = [kind for kind, variable in KEY_VARIABLES.items() if variable in found]
    ready += [server.kind for server in running if server.models]
    kind = asker.ask("--provider", "Which provider", provider, next(iter(ready), "mock"), OFFERED)
    here = next((server for server in running if server.kind == kind), None) if base_url is None else None
    suggestion = here.models[0] if here and here.models else MODELS.get(kind)
    model = asker.ask("--model", "Which model", model, suggestion, ())
    if base_url is None and kind in BASE_URLS:
        base_url = asker.ask("--base-url", "Where is the API", None, here.base_url if here else BASE_URLS[kind], ())
    elif here and here.base_url not in USUAL_URLS:
        base_url = here.base_url
    if api_key_env is None and kind in KEY_VARIABLES:
        api_key_env = asker.ask("--api-key-env", "Which variable holds the key", None, KEY_VARIABLES[kind], ())
    autonomy = asker.ask("--autonomy", "How much may it do without asking", autonomy, "supervised", AUTONOMY)
    return Answers(kind, model, base_url, api_key_env, autonomy)
