"""`adderclaw init` and `adderclaw onboard`: create the home, the configuration, the database and the workspace."""

import os
import stat
import sys
from typing import Annotated, NamedTuple

import typer

from adderclaw.config import Config, home, load, operator_file, places
from adderclaw.config.places import foreign_homes
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError
from adderclaw.terminal.commands import onboard as asked
from adderclaw.terminal.commands.common import OutputFormat, group
from adderclaw.terminal.operators import STDIN
from adderclaw.terminal.output import print_json

app = group("Set AdderClaw up.")


class InitResult(NamedTuple):
    """What `init` created, and what existed already."""

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


def _print(done: InitResult) -> None:
    for path in done.created:
        print(f"created {path}")
    for path in done.kept:
        print(f"already there: {path}")


def _initialise() -> InitResult:
    own = home()
    try:
        done = InitResult(operator_file.file_of(own), [], [])
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
            f"{where} cannot be created: {error.strerror}. Make its folder writable, or set ADDERCLAW_HOME to another."
        ) from None
    return done


def _private_folder(own: str, done: InitResult) -> None:
    new = not os.path.isdir(own)
    os.makedirs(own, mode=0o700, exist_ok=True)
    if stat.S_IMODE(os.stat(own).st_mode) & 0o077:
        os.chmod(own, 0o700)
    done.note(own, new=new)


def _database_and_receipts(config: Config, own: str, done: InitResult) -> None:
    from adderclaw.agent.session.clock import SystemClock, random_ids
    from adderclaw.storage import Store
    from adderclaw.storage.ledger.ledger import Ledger

    key = os.path.join(own, home_names.RECEIPT_KEY)
    paths = [config.memory.path, *([key, config.receipts.path] if config.receipts.enabled else [])]
    there = {path: os.path.lexists(path) for path in paths}
    store = Store.open(config.memory.path)
    try:
        if config.receipts.enabled:
            Ledger.open(config.receipts.path, store, key, clock=SystemClock(), ids=random_ids).close()
    finally:
        store.close()
    for path in paths:
        done.note(path, new=not there[path])


# ------------------------------------------------------------------ questions


@app.command()
def onboard(
    provider: asked.Provider = None,
    model: asked.Model = None,
    base_url: asked.BaseUrl = None,
    api_key_env: asked.KeyVariable = None,
    api_key_stdin: asked.KeyOnStdin = False,
    autonomy: asked.Autonomy = None,
    test: asked.Test = None,
    claude: Annotated[
        bool | None, typer.Option("--claude/--no-claude", help="Also use your ~/.claude, or not.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Accept the suggestions without asking.")] = False,
) -> None:
    """Set up interactively; without a terminal, answer the questions with flags.

    Example: adderclaw onboard --provider anthropic --api-key-env ANTHROPIC_API_KEY --yes
    """
    flags = asked.Flags(provider, model, base_url, api_key_env, autonomy)
    answers = asked.choose_answers(asked.Asker(yes), flags, test=test, key_on_stdin=api_key_stdin)
    done = _initialise()
    _print(done)
    asked.write_answers(answers, done.config_file, by_flag=autonomy is not None)
    offer_claude(False if claude is None and yes else claude)


WHAT = ("settings.json", "commands", "skills", "agents")


def offer_claude(by_flag: bool | None) -> None:
    """Offers to use the operator's `~/.claude`, unless it is used already or does not exist. `by_flag`: the answer."""
    folders = [folder for folder in foreign_homes(True) if any(os.path.lexists(os.path.join(folder, n)) for n in WHAT)]
    if not folders or by_flag is False or load(config_file=operator_file.file_of(home())).config.compat.claude:
        return
    if by_flag is None:
        by_flag = sys.stdin.isatty() and _ask_to_use(folders[0])
    if by_flag:
        print(f"{operator_file.enable_foreign_settings(home())}: {folders[0]} is used here too (docs/compatibility.md)")
    else:
        print(f"{folders[0]} is not used here; `[compat] claude = true` in your configuration changes that")


def _ask_to_use(folder: str) -> bool:
    STDIN.discard_typed()
    question = f"Use the rules, hooks, commands, skills and agents in {folder} here too? [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
