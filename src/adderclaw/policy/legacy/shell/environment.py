"""Which variables a command may set: for programs only those that change neither code nor configuration.

A program's variables can do what its options can: name what it loads (PATH, LD_*, PYTHONPATH, NODE_OPTIONS), what it
runs (GIT_SSH_COMMAND, PAGER, CC), where it reads its settings and packages (HOME, GIT_*, PIP_*) or how words are read
(IFS, BASH_ENV). The rule is closed, and one for `NAME=value program`, `export` and `env NAME=value program`:

1. A listed name, or LC_*, may have any value that is no path, or those of a form of its own.
2. A credential of whatever service may be empty, and data of an application (…_DATA_DIR, …_LOG_FILE) may lie in a
   folder of the workspace or in /tmp.
3. A name of a tool's family, or with the ending of what tools load, run or read their settings from, is refused.
4. A name that ends as an application's own settings do (…_URL, …_LEVEL), or that has small letters, is taken; some
   endings (…_BACKEND, …_TYPE) with a plain word only.
5. Any other is taken where its value is a number or a yes or no, or nothing, which names nothing, or a list of plain
   words with commas between them.

PYTHONPATH and NODE_PATH may name folders for one command, which count as read: what lies in the workspace is the
project's own code, and nothing else may be read. No value may hold what make would expand. A variable that only the
shell itself sees may have any name to which bash gives no meaning.
"""

import re
import sys

from adderclaw.policy.legacy.programs.allowlist import form, listed, values
from adderclaw.policy.legacy.shell.syntax import NotAPlan


def is_special(name: str) -> bool:
    """Whether bash itself gives it a meaning: a plan neither sets it for itself nor takes it for unset."""
    return name in listed("special_variables") or name.startswith(("BASH_", "COMP_", "READLINE_"))


def is_uncertain(name: str) -> bool:
    """Whether the sandbox gives a variable its value, so that it is not known here."""
    return name == "TMPDIR" or name.lower().endswith("_proxy") or name.startswith("ADDERCLAW_")


_CREDENTIAL = r"[A-Z][A-Z0-9_]*_(?:API_KEY|TOKEN|SECRET|SECRET_KEY|ACCESS_KEY|PASSWORD|CREDENTIALS)"
_PLACE = r"(?:/tmp/|\./)?\w[\w-]*(?:\.[\w-]+)*(?:/\w[\w-]*(?:\.[\w-]+)*)*/?|\./?"
"""A place of the workspace or in /tmp, no part of which is hidden."""
SERVED = r"(?i:\w*(?:app|api|server|asgi|wsgi)\w*)(?:\(\))?"
"""The name of an application in its module: what is served is called, and another function may do anything."""
_WORD = r"[\w.,:@+%-]*"
_LIST = r"[A-Za-z0-9][\w-]*(?:,[A-Za-z0-9][\w-]*)+"
_ANSWER = r"(?:\d{1,18}(?:[.,:]\d{1,18}){0,8}|true|false|yes|no|on|off|none|)"


_SWITCH = r"(?i)\d{1,4}|true|false|yes|no|on|off|"


_LOADS = frozenset({"FLASK_APP", "DJANGO_SETTINGS_MODULE"})


def is_pythons_own(place: str) -> bool:
    """Whether `module:name` is of a module of Python itself: none of those is an application."""
    return re.split(r"[.:/]", place, maxsplit=1)[0] in sys.stdlib_module_names


def is_plain_variable(name: str, value: str) -> bool:
    """Whether a variable, given to a program, changes nothing about which code it loads and runs."""
    if value.startswith("(") or re.search(r"[$`\\]", value):
        return False
    if name in _LOADS and is_pythons_own(value):
        return False
    if name in values():
        return re.fullmatch(values()[name], value, re.ASCII) is not None
    if not value and (name in listed("emptied_variables") or re.fullmatch(_CREDENTIAL, name)):
        return True
    if name in listed("switch_variables"):
        return re.fullmatch(_SWITCH, value) is not None
    if _is_data_place(name, value):
        return True
    if re.fullmatch(r"LC_[A-Z]+", name) or name in listed("safe_variables"):
        return "/" not in value
    known = name.upper()
    if re.fullmatch(form("steering_variable"), known) is not None:
        return False
    if re.fullmatch(_LIST, value, re.ASCII) or (
        re.fullmatch(form("word_variable"), name) and re.fullmatch(_WORD, value, re.ASCII)
    ):
        return True
    own = name != known or re.fullmatch(form("own_variable"), name) is not None
    return own or re.fullmatch(_ANSWER, value, re.IGNORECASE | re.ASCII) is not None


def _is_data_place(name: str, value: str) -> bool:
    placed = re.fullmatch(form("data_place"), name) and re.fullmatch(_PLACE, value, re.ASCII)
    return bool(placed) and re.fullmatch(form("tool_family"), name) is None


def places_of(env: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The places at which a command is told to keep an application's data."""
    return tuple(value for name, value in env if _is_data_place(name, value))


_KEPT = (
    r"(?:GIT|ADDERCLAW|BASH|XDG|LC|DYLD)_.*|LD_(?!PRELOAD$).*|(?i:.*_proxy)|_.*"
    r"|PAGER|TMPDIR|DEBIAN_FRONTEND|USER|LOGNAME|LANGUAGE|TERM|TZ"
)
"""What a child's environment is made of, beside what bash gives a meaning: of anything else it holds nothing."""


def is_forgettable(name: str) -> bool:
    """Whether a variable can be left out: none of those that we give to every child, and by which git is held in."""
    plain = re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) is not None
    return plain and not is_special(name) and re.fullmatch(_KEPT, name) is None


_PACKAGES = r"(?:\./)?(?:[\w-]+/)*(?:node_modules|src|lib|dist)/?"
CODE_FOLDERS = {"PYTHONPATH": r"[^$`\\~]*", "NODE_PATH": rf"{_PACKAGES}(?::{_PACKAGES})*"}
"""Variables that name the folders from which a program loads code, with the values that are looked at further."""


def folders_of(env: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The folders from which a command is told to load code."""
    return tuple(part or "." for name, value in env if name in CODE_FOLDERS for part in value.split(":"))


def check_given(name: str, value: str, *, known: bool) -> None:
    """Raises NotAPlan unless one command may be given this variable."""
    if name not in CODE_FOLDERS or not known or not re.fullmatch(CODE_FOLDERS[name], value, re.ASCII):
        check_exported(name, value, known=known)


def check_exported(name: str, value: str, *, known: bool) -> None:
    """Raises NotAPlan unless programs may be given this variable."""
    if not known or re.search(r"[$`\\]", value):
        raise NotAPlan(f"the variable {name} with a value that is not known, or that a program may expand")
    if not is_plain_variable(name, value):
        raise NotAPlan(f"the variable {name} for a program: it may change what code is loaded or what is configured")


def check_own(name: str) -> None:
    """Raises NotAPlan unless the shell may set this variable for itself."""
    if is_special(name) or name.startswith("ADDERCLAW_"):
        raise NotAPlan(f"assignment to {name}, which has a meaning of its own")
