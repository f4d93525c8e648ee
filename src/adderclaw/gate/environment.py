"""Which variables a command may set: for programs only those that change neither code nor configuration.

A program's variables can do what its options can: name what it loads (PATH, LD_*, PYTHONPATH, NODE_OPTIONS), what it
runs (GIT_SSH_COMMAND, PAGER, CC), where it reads its settings and packages (HOME, GIT_*, PIP_*) or how words are read
(IFS, BASH_ENV). The rule is closed, and one for `NAME=value program`, `export` and `env NAME=value program`:

1. A listed name, or LC_*, may have any value that is no path.
2. A name of a tool's family, or with the ending of what tools load, run or read their settings from, is refused.
3. A name that ends as an application's own settings do (…_URL, …_LEVEL), or that has small letters, is taken.
4. Any other is taken where its value is a number or a yes or no, which names nothing.

PYTHONPATH may name folders for one command, which count as read: what lies in the workspace is the project's own code,
and nothing else may be read. No value may hold what make would expand. A variable that only
the shell itself sees may have any name to which bash
gives no meaning.
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


_SAFE = names(
    """PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONWARNINGS PYTHONHASHSEED PYTHONUTF8 PYTHONIOENCODING
    PYTHONFAULTHANDLER PYTHONDEVMODE PYTHONASYNCIODEBUG PYTHONTRACEMALLOC NODE_ENV NODE_DEBUG NODE_NO_WARNINGS
    RUST_LOG RUST_BACKTRACE RUST_TEST_THREADS CARGO_TERM_COLOR CARGO_INCREMENTAL GOOS GOARCH GOARM GOMAXPROCS GOGC
    GO111MODULE CGO_ENABLED RAILS_ENV RACK_ENV APP_ENV ENVIRONMENT FLASK_ENV FLASK_DEBUG DJANGO_SETTINGS_MODULE
    LOG_LEVEL LOGLEVEL DEBUG VERBOSE CI TZ LANG LANGUAGE TERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR
    CLICOLOR_FORCE PORT HOST MODE JOBS V Q DEBIAN_FRONTEND UV_OFFLINE UV_FROZEN UV_NO_PROGRESS UV_LINK_MODE
    PIP_NO_INPUT PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_CACHE_DIR HUSKY DOCKER_BUILDKIT COMPOSE_DOCKER_CLI_BUILD
    TF_LOG SKIP CUDA_VISIBLE_DEVICES MPLBACKEND TF_CPP_MIN_LOG_LEVEL MIX_ENV SDL_VIDEODRIVER JULIA_NUM_THREADS
    HYPOTHESIS_PROFILE PLAYWRIGHT_HTML_OPEN DOTNET_NOLOGO DOTNET_CLI_TELEMETRY_OPTOUT DOTNET_ENVIRONMENT
    CARGO_BUILD_JOBS CARGO_NET_OFFLINE PYTEST_DISABLE_PLUGIN_AUTOLOAD COVERAGE_CORE UV_SYSTEM_PYTHON NODE_TEST_CONTEXT
    GRADLE_DAEMON PIP_REQUIRE_VIRTUALENV RUST_MIN_STACK MALLOC_ARENA_MAX"""
)
_RUSTFLAGS = r"(?:-[DWA] ?[a-z][\w:-]*|-C ?(?:target-cpu=native|opt-level=\w|debuginfo=\d|instrument-coverage)| )*"
_CFLAGS = (
    r"(?:-O[0-3sg]|-g\d?|-W[\w=-]+|-std=[\w+]+|-f(?:sanitize=[\w,]+|no-[\w-]+|PIC|profile-arcs|test-coverage)"
    r"|-D\w+(?:=\w+)?|-m(?:arch|tune)=[\w-]+|--coverage| )*"
)
_JAVA = r"(?:-X(?:mx|ms|ss)\d+[kmgKMG]?|-XX:\+Use\w+GC|-Dfile\.encoding=[\w-]+|-ea| )*"
_SANITIZER = r"(?!.*(?:path|suppressions|dir|preload|dlopen))(?:\w+=\w+[: ]?)*"
_VALUES = {
    "NODE_OPTIONS": r"(?:--(?:max[_-]old[_-]space[_-]size=\d+|no-warnings|experimental-vm-modules|trace-warnings"
    r"|trace-deprecation|enable-source-maps|openssl-legacy-provider|no-deprecation|trace-uncaught"
    r"|stack-trace-limit=\d+)| )*",
    **dict.fromkeys(("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "MSAN_OPTIONS", "LSAN_OPTIONS"), _SANITIZER),
    **dict.fromkeys(("RUSTFLAGS", "RUSTDOCFLAGS"), _RUSTFLAGS),
    "GOFLAGS": r"(?:-mod=(?:mod|vendor|readonly)|-count=\d+|-race|-v|-trimpath|-buildvcs=\w+| )*",
    "MAKEFLAGS": r"(?:-j ?\d*|--no-print-directory|-s|-k| )*",
    **dict.fromkeys(("CFLAGS", "CXXFLAGS", "CPPFLAGS"), _CFLAGS),
    **dict.fromkeys(("JAVA_OPTS", "MAVEN_OPTS", "GRADLE_OPTS", "JAVA_TOOL_OPTIONS", "SBT_OPTS"), _JAVA),
    "PYTEST_ADDOPTS": r"(?:-[vqxs]+|--tb=\w+|-n ?\w+|--maxfail=\d+|--color=\w+|-p no:\w+|--durations=\d+| )*",
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER"), "cat|"),
    **dict.fromkeys(("EDITOR", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "VISUAL"), "true|:|cat"),
    "GIT_TERMINAL_PROMPT": "0",
    "GOPROXY": "off",
    "TZ": r"[A-Za-z0-9_+-]*(?:/[A-Za-z_+-]+\d*)*",
    "FLASK_APP": r"(?!.*\.\.)[\w][\w./:]*",
    "GOTOOLCHAIN": "local",
    "QT_QPA_PLATFORM": "offscreen|minimal",
}
"""Variables that tell programs what to run or load, each with the values by which it does not."""
_FAMILIES = (
    r"(?:LD|DYLD|GIT|SSH|BASH|PYTHON|NODE|NPM|YARN|PNPM|BUN|DENO|PIP|UV|POETRY|PDM|HATCH|PIPX|CARGO|RUST|RUSTC|RUSTUP"
    r"|GO|CGO|JAVA|JDK|MAVEN|MVN|GRADLE|KOTLIN|SCALA|SBT|ANT|RUBY|GEM|BUNDLE|RUBYOPT|PERL|PERL5|LUA|PHP|R|JULIA|ERL"
    r"|ELIXIR|MIX|DOTNET|CORECLR|COMPLUS|NUGET|SWIFT|DOCKER|COMPOSE|KUBE|HELM|AWS|GCP|GOOGLE|CLOUDSDK|AZURE|HTTP|HTTPS"
    r"|SSL|OPENSSL|CURL|WGET|RSYNC|CVS|SVN|HG|GNUPG|GPG|XDG|ADDERCLAW|PYTEST|COVERAGE|MYPY|RUFF|BLACK|TOX|NOX|PRE"
    r"|ESLINT|JEST|VITEST|TS|TSC|MAKE|CMAKE|CTEST|NINJA|MESON|PKG|CC|CXX|CPP|FC|AR|AS|NM|GCC|CLANG|LLVM|GCONV|GLIBC"
    r"|MALLOC|LOCPATH|NLS|TERMINFO|TERMCAP|HIST|SUDO|DBUS|SYSTEMD|JUPYTER|IPYTHON|ELECTRON|CHROME|WEBDRIVER|PUPPETEER"
    r"|PLAYWRIGHT|EMACS|VIM|NVIM|PSQL|PG|MYSQL|SQLITE|RIPGREP|FZF|JQ|AWK|GAWK|TAR|ZIP|UNZIP|GZIP|XZ|ZSTD|BAT|DIRENV"
    r"|ASDF|MISE|PYENV|NVM|VOLTA|TERRAFORM|TF|ANSIBLE|VAGRANT|QT|GTK|GIO|GST|ICU|TEX|GHC|OPAM|OCAML|NIX|GUIX|WINE)"
    r"(?:_.*|\d.*)?"
)
_NAMED = (
    r"_.*|LESS.*|MAN.*|GREP.*|IFS|PS\d|PROMPT.*|ENV|HOME|USER|LOGNAME|SHELL.*|OLDPWD|PWD|TMP|TEMP|TMPDIR|VISUAL"
    r"|BROWSER|DISPLAY|MAKEFILES|TEXINPUTS|MAILCAPS?|MORE|CVSROOT|JAVACMD"
)
_ENDINGS = (
    r".*(?:PATH|HOME|ROOT|FLAGS|OPTIONS?|OPTS?|ARGS|EDITOR|PAGER|PROXY|CONFIG.*|CONF|CNF|RC|PROFILER?|ENVIRON|COMMAND|CMD"
    r"|PROGRAM|WRAPPER|PRELOAD|PLUGINS?|HOOKS?|LAUNCHER|ASKPASS|STARTUP|INIT|LOADER|SHELL|RSH|SSH|REGISTRY|MIRROR"
    r"|INDEX_URL|_DIR|_DIRS|_FILES?|ALIASES|_EXE|_BIN|_LIBS?|LIB|INTERPRETER|COMPILER|LINKER|MODULES?|SCRIPTS?|AGENT"
    r"|SOCK|SOCKET|CERT|BUNDLE|TRACE|OUTPUT|LOG_FILE|EXEC|HANDLER)"
)
"""Variables by which programs are told what to load or to run, and where they find their files."""
_OWN = (
    r"[A-Z]|(?:MY|APP|TEST|DEMO)_.*|FOO|BAR|BAZ|NAME|VALUE|KEY|TOKEN|URL|ENV|LEVEL|SEED|COUNT|LIMIT|VERSION|TEST|TESTING|STAGE|REGION|BRANCH|TAG"
    r"|.*_(?:URL|URI|KEY|TOKEN|SECRET|PASSWORD|PASS|USER|USERNAME|NAME|ID|ENV|ENVIRONMENT|MODE|LEVEL|PORT|HOST|HOSTNAME"
    r"|DEBUG|VERBOSE|SEED|COUNT|SIZE|LIMIT|TIMEOUT|RETRIES|VERSION|ENABLED|DISABLED|REGION|STAGE|TAG|BRANCH|TEST|TZ"
    r"|LOCALE|LANG|COLOR|DB|DATABASE|DSN|FORMAT|FEATURE|VAR|VALUE)"
)
_ANSWER = r"(?:\d{1,18}|true|false|yes|no|on|off|none|)"


_STEERING = f"{_FAMILIES}|{_NAMED}|{_ENDINGS}"


def is_plain_variable(name: str, value: str) -> bool:
    """Whether a variable, given to a program, changes nothing about which code it loads and runs."""
    if value.startswith("(") or re.search(r"[$`\\]", value):
        return False
    if name in _VALUES:
        return re.fullmatch(_VALUES[name], value, re.ASCII) is not None
    if re.fullmatch(r"LC_[A-Z]+", name) or name in _SAFE:
        return "/" not in value
    known = name.upper()
    if re.fullmatch(_STEERING, known) is not None:
        return False
    own = name != known or re.fullmatch(_OWN, name) is not None
    return own or re.fullmatch(_ANSWER, value, re.IGNORECASE | re.ASCII) is not None


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
    if is_special(name) or name.startswith("ADDERCLAW_"):
        raise NotAPlan(f"assignment to {name}, which has a meaning of its own")
