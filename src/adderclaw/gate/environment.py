"""Which variables a command may set: for programs only those that change neither code nor configuration.

A program's variables can do what its options can: name what it loads (PATH, LD_*, PYTHONPATH, NODE_OPTIONS), what it
runs (GIT_SSH_COMMAND, PAGER, CC), where it reads its settings and packages (HOME, GIT_*, PIP_*) or how words are read
(IFS, BASH_ENV). `wrappers.is_plain_variable` has the rule, which `env NAME=value` is held to as well: families and
endings of such names are refused, but for a list of single ones that only say how much is printed or which mode is
meant. No value may hold what make would expand. A variable that only the shell itself sees may have any name to which
bash gives no meaning.
"""

import re

from adderclaw.gate.syntax import NotAPlan
from adderclaw.gate.words import is_special
from adderclaw.gate.wrappers import is_plain_variable


def check_exported(name: str, value: str, *, known: bool) -> None:
    """Raises NotAPlan unless programs may be given this variable."""
    if not known or re.search(r"[$`\\]", value):
        raise NotAPlan(f"the variable {name} with a value that is not known, or that a program may expand")
    if not is_plain_variable(name, value):
        raise NotAPlan(f"the variable {name} for a program: it may change what code is loaded or what is configured")


def check_own(name: str) -> None:
    """Raises NotAPlan unless the shell may set this variable for itself."""
    if is_special(name):
        raise NotAPlan(f"assignment to {name}, which bash gives a meaning")
