"""The manual page adderclaw(1), from the table of commands and what each says of itself."""

import re
from collections.abc import Iterator
from typing import Any

from adderclaw import __version__
from adderclaw.core.errors import EXIT_CODES, EXIT_USAGE
from adderclaw.terminal.commands.root import print_options

FILES = (
    ("~/.adderclaw/", "The home: configuration, database, keys, receipts. $ADDERCLAW_HOME names another."),
    ("~/.adderclaw/config.toml", "Your settings."),
    (".adderclaw/", "What a project brings; it counts once you trust it."),
)


def page(program: Any) -> str:
    """In roff, for man(1); `program` is the whole command line, with every command in it."""
    return "\n".join(_lines(program)) + "\n"


def _lines(program: Any) -> Iterator[str]:
    yield f'.TH ADDERCLAW 1 "" "adderclaw {__version__}" "User Commands"'
    yield from (".SH NAME", r"adderclaw \- a local-first agent runtime: one gate, one sandbox, one ledger")
    yield from (
        ".SH SYNOPSIS",
        r".B adderclaw",
        r"[\fICOMMAND\fR] [\fIOPTIONS\fR]",
        ".br",
        r'.B adderclaw \-p "MESSAGE"',
    )
    yield from (".SH DESCRIPTION", "Without a command, adderclaw opens a conversation at a terminal.")
    yield "Every action of a model passes one gate, runs in one sandbox and is appended to one ledger."
    yield from (".SH OPTIONS", *_options(program.params))
    yield from (rf".SS {_roff('adderclaw -p MESSAGE')}", "Answer one message on stdout and exit, for scripts.")
    yield from _options(print_options())
    yield ".SH COMMANDS"
    for name, command in program.commands.items():
        yield f".SS {_roff(_usage(f'adderclaw {name}', command))}"
        yield _roff(command.short_help or "")
        inner: dict[str, Any] = getattr(command, "commands", {})
        yield from _options(command.params)
        for word, leaf in inner.items():
            if not leaf.hidden:
                usage = _usage(f"adderclaw {name} {word}", leaf)
                yield from (".TP", rf"\fB{_roff(usage)}\fR", _roff(_first(leaf.help)))
                yield from (".RS", *_options(leaf.params), ".RE")
    yield ".SH EXIT STATUS"
    for code, outcome in sorted({(EXIT_USAGE, "usage"), *((code, outcome) for outcome, code in EXIT_CODES.items())}):
        yield from (".TP", rf"\fB{code}\fR", _roff(outcome.replace("_", " ")))
    yield ".SH FILES"
    for path, what in FILES:
        yield from (".TP", rf"\fI{_roff(path)}\fR", _roff(what))
    yield from (
        ".SH SEE ALSO",
        r"\fBadderclaw doctor\fR checks the installation;",
        r"\fBadderclaw COMMAND \-\-help\fR says more.",
    )


def _usage(words: str, command: Any) -> str:
    """A command with its arguments."""
    for param in command.params:
        if param.param_type_name == "argument":
            name = param.metavar or param.name.upper()
            words += f" {name}" if param.required or name.startswith("[") else f" [{name}]"
    return words


def _options(params: list[Any]) -> Iterator[str]:
    for param in params:
        if param.param_type_name != "option" or param.hidden or "--help" in param.opts:
            continue
        value = (
            ""
            if param.is_flag
            else f" {param.metavar or '|'.join(getattr(param.type, 'choices', ())) or param.type.name.upper()}"
        )
        names = ", ".join((*param.opts, *param.secondary_opts))
        yield from (".TP", rf"\fB{_roff(names)}\fR{_roff(value)}", _roff(" ".join((param.help or "").split())))


def _first(text: str | None) -> str:
    """The first paragraph, as one line."""
    return " ".join((text or "").partition("\n\n")[0].split())


def _roff(text: str) -> str:
    r"""As it is: a dot or an apostrophe that begins a line is a request, and `-` is a hyphen where `\-` is a minus."""
    escaped = re.sub(r"[\\-]", lambda match: rf"\{match[0]}" if match[0] == "-" else r"\e", text)
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
