"""`adderclaw onboard`: asks questions, or reads flags instead; tests the connection and stores a key."""

import asyncio
import os
import sys
from typing import Annotated, Any, NamedTuple

import typer

from adderclaw.config import home, load, operator_file
from adderclaw.config.legacy.options import Options
from adderclaw.config.model_facts.found_keys import in_environment
from adderclaw.core.errors import AdderClawError, NeedsInput, UsageError
from adderclaw.core.provider_kinds import BY_NAME, KEY_VARIABLES, KINDS, MOCK
from adderclaw.core.redaction import Secrets, visible
from adderclaw.core.types import Json
from adderclaw.models import local_servers
from adderclaw.terminal.operators import STDIN

PROVIDER_KINDS = tuple(kind.name for kind in KINDS if not kind.combines)
AUTONOMY = ("readonly", "supervised", "full")
LONGEST_KEY = 4096
TRIAL_KEY_VARIABLE = "ADDERCLAW_ONBOARD_KEY"
"""The variable that holds a key while it is tried, only in this process."""

Provider = Annotated[str | None, typer.Option("--provider", metavar="KIND", help=", ".join(PROVIDER_KINDS))]
Model = Annotated[str | None, typer.Option("--model", metavar="MODEL", help="The model's name at the provider.")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", metavar="URL", help="The URL of the API.")]
KeyVariable = Annotated[
    str | None, typer.Option("--api-key-env", metavar="NAME", help="The variable that holds the key.")
]
KeyOnStdin = Annotated[
    bool,
    typer.Option("--api-key-stdin", help="Read the key from stdin and store it in the keyring or an encrypted file."),
]
Autonomy = Annotated[str | None, typer.Option("--autonomy", metavar="LEVEL", help=", ".join(AUTONOMY))]
Test = Annotated[
    bool | None,
    typer.Option(
        "--test/--no-test", help="Test the connection before anything is written; at a terminal you are asked."
    ),
]

SUGGESTED_AUTONOMY = "supervised"
"""The suggested autonomy, which is also the default."""


class Flags(NamedTuple):
    """The values of the flags."""

    provider: str | None
    model: str | None
    base_url: str | None
    api_key_env: str | None
    autonomy: str | None


class Answers(NamedTuple):
    kind: str
    model: str
    base_url: str | None
    api_key_env: str | None
    autonomy: str
    key: str = ""
    """The key to store."""

    @property
    def name(self) -> str:
        return BY_NAME[self.kind].entry_name or self.kind.replace("-", "_")

    @property
    def entry(self) -> Json:
        entry: Json = {"kind": self.kind, "model": self.model}
        entry |= {"base_url": self.base_url} if self.base_url else {}
        entry |= {"api_key_env": self.api_key_env} if self.api_key_env else {}
        return entry | ({"api_key_stored": True} if self.key else {})


class Asker(NamedTuple):
    """Takes an answer from a flag, --yes, or the terminal, which is asked until the answer is allowed."""

    yes: bool

    @property
    def is_person(self) -> bool:
        return not self.yes and sys.stdin.isatty()

    def ask(
        self, flag: str, question: str, by_flag: str | None, suggestion: str | None, allowed: tuple[str, ...]
    ) -> str:
        answer = by_flag if by_flag is not None else suggestion if self.yes else None
        choice = f" ({', '.join(allowed)})" if allowed else ""
        if answer is None and not self.is_person:
            other = "" if suggestion is None else ", or --yes"
            raise NeedsInput(f"{question}? There is no terminal to ask at: give {flag}{choice}{other}")
        while answer is None:
            STDIN.discard_typed()
            typed = str(typer.prompt(question + choice, default=suggestion, err=True)).strip()
            if typed and (not allowed or typed in allowed):
                answer = typed
            else:
                print(f"{typed!r} is not one of: {', '.join(allowed)}", file=sys.stderr)
        if allowed and answer not in allowed:
            raise UsageError(f"{flag} {answer!r} is not allowed; allowed: {', '.join(allowed)}")
        return answer

    def confirm(self, question: str, *, default: bool = True) -> bool:
        STDIN.discard_typed()
        return bool(typer.confirm(question, default=default, err=True))


def choose_answers(asker: Asker, flags: Flags, *, test: bool | None, key_on_stdin: bool) -> Answers:
    """Returns the answers, tested on request; a person is asked again if they do not work."""
    variables = [key.variable for key in in_environment()]
    print(f"keys in the environment: {', '.join(variables) or 'none'}")
    running = local_servers.servers(local_servers.usual_ports())
    print(f"model servers on this machine: {', '.join(map(str, running)) or 'none'}")
    key = _piped_key() if key_on_stdin else ""
    while True:
        answers = _answers(asker, variables, running, flags)
        answers = answers._replace(key=key or _typed_key(asker, answers))
        if test is None and answers.kind != MOCK and asker.is_person:
            should_test = asker.confirm("Test the connection now, with one short question to the model?")
        else:
            should_test = bool(test) and answers.kind != MOCK
        failure = test_connection(answers) if should_test else ""
        if not failure:
            return answers
        if not asker.is_person:
            raise AdderClawError(f"the connection does not work, and nothing was written: {failure}")
        print(f"the connection does not work: {failure}", file=sys.stderr)
        if not asker.confirm("Give other answers?"):
            return answers
        flags = Flags(None, None, None, None, answers.autonomy)


def _answers(asker: Asker, variables: list[str], running: list[local_servers.Server], flags: Flags) -> Answers:
    ready = [kind for kind, variable in KEY_VARIABLES.items() if variable in variables]
    ready += [server.kind for server in running if server.models]
    kind = asker.ask("--provider", "Which provider", flags.provider, next(iter(ready), MOCK), PROVIDER_KINDS)
    known = BY_NAME[kind]
    base_url, api_key_env = flags.base_url, flags.api_key_env
    here = next((server for server in running if server.kind == kind), None) if base_url is None else None
    suggestion = here.models[0] if here and here.models else known.suggested_model or None
    model = asker.ask("--model", "Which model", flags.model, suggestion, ())
    if base_url is None and known.suggested_url:
        base_url = asker.ask("--base-url", "Where is the API", None, here.base_url if here else known.suggested_url, ())
    elif here and here.base_url != known.base_url:
        base_url = here.base_url
    if api_key_env is None and known.key_variable:
        api_key_env = asker.ask("--api-key-env", "Which variable holds the key", None, known.key_variable, ())
    autonomy = asker.ask(
        "--autonomy", "How much may it do without asking", flags.autonomy, SUGGESTED_AUTONOMY, AUTONOMY
    )
    return Answers(kind, model, base_url, api_key_env, autonomy)


# ------------------------------------------------------------------ the key


def _piped_key() -> str:
    key = sys.stdin.readline(LONGEST_KEY).strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError("--api-key-stdin: standard input has no key. Expected one line without spaces.")
    return key


def _typed_key(asker: Asker, answers: Answers) -> str:
    """Reads a key from the person, without echo, if its variable is not set."""
    variable = answers.api_key_env
    if not asker.is_person or not variable or os.environ.get(variable, "").strip():
        return ""
    STDIN.discard_typed()
    typed: Any = typer.prompt(
        f"{variable} is not set. The key, to be stored (empty: export the variable yourself)",
        default="",
        show_default=False,
        hide_input=True,
        err=True,
    )
    return str(typed).strip()


def store_key(answers: Answers) -> str:
    """Stores the key in the system's keyring or the encrypted file; returns where."""
    from adderclaw.agent.run.start import credentials
    from adderclaw.agent.session.clock import SystemClock
    from adderclaw.models.credentials.sources import stored_name

    loaded = load(here=True, looks=True)
    sources = credentials(Options(), loaded, Secrets(), SystemClock())
    return asyncio.run(sources.logins().keep_text(stored_name(answers.name), answers.key))


def test_connection(answers: Answers) -> str:
    """Why the model does not answer; empty if it does. The key that was typed is used from memory alone."""
    from adderclaw.agent.queries.judging import one_word
    from adderclaw.agent.run.start import start

    entry = {name: value for name, value in answers.entry.items() if name != "api_key_stored"}
    if answers.key:
        os.environ[TRIAL_KEY_VARIABLE] = answers.key
        entry["api_key_env"] = TRIAL_KEY_VARIABLE
    try:
        overrides: Json = {"default_provider": answers.name, "providers": {"models": {answers.name: entry}}}
        runtime = start(Options(log_level="off", overrides=overrides, here=True, looks=True))
        asyncio.run(one_word(runtime, answers.name))
    except AdderClawError as error:
        return visible(str(Secrets().clean(str(error).replace(answers.key or "\0", "[redacted]"))), keep_newlines=False)
    finally:
        os.environ.pop(TRIAL_KEY_VARIABLE, None)
    return ""


def write_answers(answers: Answers, config_file: str, *, by_flag: bool) -> None:
    """The answers as the operator's configuration. An autonomy there overrules the mode of every trusted project, so
    the suggested one is only written over another, or because a flag names it."""
    if answers.key:
        print(f"the key of {answers.name} is stored in {store_key(answers)}")
    is_set = load(config_file=config_file).origins["security.autonomy"] != "default"
    autonomy = answers.autonomy if by_flag or is_set or answers.autonomy != SUGGESTED_AUTONOMY else None
    operator_file.choose_provider(home(), answers.name, answers.entry, autonomy=autonomy)
    print(f"{config_file}: {answers.kind} with the model {answers.model}, autonomy {answers.autonomy}")
    variable = answers.api_key_env
    if variable and not answers.key and not os.environ.get(variable):
        print(f"the variable {variable} is not set yet: export it before you start")
