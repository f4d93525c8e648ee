"""/plugin: the plugins, by the commands of the command line; what is to be trusted is shown and asked about here."""

import json
import shlex

from adderclaw.agent.run import Run
from adderclaw.config.plugins.preview import NOT_INSTALLED, question
from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import visible
from adderclaw.terminal.repl import here
from adderclaw.terminal.repl.slash import command_line
from adderclaw.terminal.repl.slash.row import Done

CHANGES = ("install", "enable", "disable", "remove")
KNOWN = ("enabled", "disabled")
"""States of a plugin that is as it was trusted: nothing is asked about it again."""


async def plugin(run: Run, rest: str) -> Done:
    """Alone it lists them. What is changed counts from the next conversation on: this one stays as it began."""
    try:
        words = shlex.split(rest) or ["list"]
    except ValueError as error:
        raise UsageError(f"{rest!r}: {error}") from None
    if words[0] in ("install", "enable") and len(words) > 1 and not {"--trust", "--dry-run"} & {*words}:
        agreed = await _confirm(run, words)
        if agreed is None:
            print("not trusted, so nothing has changed")
            return
        words = agreed
    text = await command_line.command_output(run, ["plugin", *words])
    print(text.splitlines()[-1] if "--trust" in words and text else text.rstrip("\n"))
    if words[0] in CHANGES and "--dry-run" not in words and not text.startswith("Usage:"):
        print("It takes effect in the next conversation; /clear begins one.")


async def _confirm(run: Run, words: list[str]) -> list[str] | None:
    """The command with the hash of the content that the person was shown and said yes to."""
    looking = ["plugin", *(("show", words[1]) if words[0] == "enable" else (*words, "--dry-run"))]
    try:
        shown = json.loads(await command_line.command_output(run, [*looking, "--output-format", "json"]))
    except ValueError:
        return words  # what is wrong with it, the command itself says
    if words[0] == "enable" and shown["state"] in KNOWN:
        return words
    text = await command_line.command_output(run, looking)
    if f"  sha256 {shown['sha256']}" not in text.splitlines():  # no line of a plugin's own words begins so
        raise UsageError(f"{visible(words[1])} changed while it was looked at: nothing was trusted; look again")
    print("\n".join(line for line in text.splitlines() if not line.startswith(NOT_INSTALLED)))
    asked = question(visible(shown["name"], keep_newlines=False), shown.get("brings", []))
    if (await here.ask_person(run, asked) or "").strip().lower() not in here.YES:
        return None
    return [*words, "--trust", shown["sha256"]]
