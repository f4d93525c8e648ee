"""Which variables a command may set: for programs only those that change neither code nor configuration.

A program's variables can do what its options can: name what it loads (PATH, LD_*, PYTHONPATH, NODE_OPTIONS), what it
runs (GIT_SSH_COMMAND, PAGER, CC), where it reads its settings and packages (HOME, GIT_*, PIP_*) or how words are read
(IFS, BASH_ENV). `env NAME=value` is held to the same rule: families and endings of such names are refused, but for a
list of single ones that only say how much is printed or which mode is meant. PYTHONPATH may name folders, which count
as read: what lies in the workspace is the project's own code, and nothing else may be read. No value may hold what
make would expand. A variable that only the shell itself sees may have any name to which
bash gives no meaning.
"""

import re

from adderclaw.gate.allowlist import names
from adderclaw.gate.syntax import NotAPlan

SPECIAL = names(
    """BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_CMDS BASH_COMMAND BASH_ENV BASH_VERSION COLUMNS
    COMP_WORDS COPROC CDPATH DIRSTACK ENV EPOCHREALTIME EPOCHSECONDS EUID EXECIGNORE FCEDIT FIGNORE FUNCNAME FUNCNEST
    GLOBIGNORE GROUPS HISTCMD HISTCONTROL HISTFILE HISTIGNORE HISTSIZE HOSTFILE HOSTNAME HOSTTYPE IFS IGNOREEOF
    INPUTRC LINENO LINES MACHTYPE MAILCHECK MAPFILE OLDPWD OPTARG OPTERR OPTIND OSTYPE PATH PIPESTATUS POSIXLY_CORRECT
    PPID PROMPT_COMMAND PS0 PS1 PS2 PS3 PS4 PWD RANDOM READLINE_LINE REPLY SECONDS SHELL SHELLOPTS SHLVL SRANDOM
    TIMEFORMAT TMOUT UID _ HOME LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_NUMERIC LANG"""
)
"""Variables that bash itself gives a meaning: a plan neither sets them for itself nor takes them for unset."""
READABLE = names("PATH SHELL HOME LANG LC_ALL LC_CTYPE LC_COLLATE LC_MESSAGES LC_NUMERIC")


def is_special(name: str) -> bool:
    return name in SPECIAL or name.startswith(("BASH_", "COMP_", "READLINE_"))


def is_uncertain(name: str) -> bool:
    """Whether the sandbox gives a variable its value, so that it is not known here."""
    return name == "TMPDIR" or name.lower().endswith("_proxy") or name.startswith("ADDERCLAW_")


_SAFE_VARIABLES = names(
    """PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONWARNINGS PYTHONHASHSEED PYTHONUTF8 PYTHONIOENCODING
    PYTHONFAULTHANDLER PYTHONDEVMODE PYTHONASYNCIODEBUG PYTHONTRACEMALLOC NODE_ENV NODE_DEBUG NODE_NO_WARNINGS
    RUST_LOG RUST_BACKTRACE RUST_TEST_THREADS CARGO_TERM_COLOR CARGO_INCREMENTAL GOOS GOARCH GOARM GOMAXPROCS GOGC
    GO111MODULE CGO_ENABLED RAILS_ENV RACK_ENV APP_ENV ENVIRONMENT FLASK_ENV FLASK_DEBUG DJANGO_SETTINGS_MODULE
    LOG_LEVEL LOGLEVEL DEBUG VERBOSE CI TZ LANG LANGUAGE TERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR
    CLICOLOR_FORCE PORT HOST MODE JOBS V Q DEBIAN_FRONTEND UV_OFFLINE UV_FROZEN UV_NO_PROGRESS UV_LINK_MODE
    PIP_NO_INPUT PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_CACHE_DIR HUSKY DOCKER_BUILDKIT COMPOSE_DOCKER_CLI_BUILD
    TF_LOG SKIP"""
)
_STEERING = (
    r"(?:LD|DYLD|GIT|SSH|BASH|PYTHON|NODE|NPM|YARN|PNPM|BUN|DENO|PIP|UV|POETRY|PDM|HATCH|PIPX|CARGO|RUST|RUSTUP|GO|CGO"
    r"|JAVA|JDK|MAVEN|MVN|GRADLE|KOTLIN|RUBY|GEM|BUNDLE|RUBYOPT|PERL|PERL5|LUA|PHP|DOCKER|COMPOSE|KUBE|AWS|GCP|AZURE"
    r"|SSL|OPENSSL|CURL|GNUPG|GPG|XDG|ADDERCLAW|PYTEST|COVERAGE|MYPY|RUFF|BLACK|TOX|NOX|PRE|ESLINT|JEST|VITEST|TS|TSC"
    r"|MAKE|CMAKE|CTEST|NINJA|MESON|CC|CXX|CPP|AR|AS|NM|GCC|GCONV|MALLOC|LOCPATH|NLS|TERMINFO|TERMCAP|HIST"
    r"|SUDO|DBUS|SYSTEMD|JUPYTER|IPYTHON|ELECTRON|CHROME|WEBDRIVER|EMACS|VIM|PSQL|PG|MYSQL|SQLITE|RIPGREP|FZF|JQ|AWK"
    r"|GAWK|TAR|ZIP|UNZIP|GZIP|XZ|ZSTD|BAT|DIRENV|ASDF|PYENV|NVM|VOLTA|TERRAFORM|TF|ANSIBLE|VAGRANT)(?:_.*|\d.*)?"
    r"|_.*|LESS.*|MAN.*|GREP.*|IFS|PS\d|PROMPT.*|ENV|FPATH|CDPATH|HOME|USER|LOGNAME|SHELL.*|OLDPWD|PWD|TMP|TEMP|TMPDIR|PAGER|VISUAL|EDITOR"
    r"|BROWSER|DISPLAY|.*PATH|.*HOME|.*FLAGS|.*OPTIONS?|.*OPTS?|.*EDITOR|.*PAGER|.*PROXY|.*CONFIG.*|.*RC|.*COMMAND"
    r"|.*CMD|.*PROGRAM|.*WRAPPER|.*PRELOAD|.*PLUGINS?|.*HOOKS?|.*LAUNCHER|.*ASKPASS|.*STARTUP|.*INIT|.*LOADER|.*SHELL"
    r"|.*REGISTRY|.*INDEX_URL|.*_DIR|.*ALIASES|.*_EXE|.*_BIN|.*INTERPRETER|.*COMPILER|.*LINKER"
)
"""Variables by which programs are told what to load or to run, and where they find their files."""


def is_plain_variable(name: str, value: str) -> bool:
    """Whether a variable, given to a program, changes nothing about which code it loads and runs."""
    if re.fullmatch(r"LC_[A-Z]+", name) or name in _SAFE_VARIABLES:
        return "/" not in value and "$" not in value and not value.startswith("(")
    return not re.fullmatch(_STEERING, name.upper()) and not value.startswith("()")


def folders_of(env: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The folders from which a command is told to load code."""
    return tuple(part or "." for name, value in env if name == "PYTHONPATH" for part in value.split(":"))


def check_given(name: str, value: str, *, known: bool) -> None:
    """Raises NotAPlan unless one command may be given this variable."""
    if name != "PYTHONPATH" or not known or re.search(r"[$`\\~]", value):
        check_exported(name, value, known=known)


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
