"""Decides which variables settings may pass to commands: none that tell programs what to load, run or connect to."""

import re
from typing import Any, cast

from adderclaw.core.redaction import is_secret_name, looks_secret
from adderclaw.core.types import Json

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_HARMLESS = frozenset(
    """
    NODE_ENV NODE_DEBUG NODE_NO_WARNINGS PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONUTF8
    PYTHONIOENCODING PYTHONFAULTHANDLER RUST_LOG RUST_BACKTRACE RUST_TEST_THREADS CARGO_TERM_COLOR CARGO_INCREMENTAL
    GOMAXPROCS GOGC CGO_ENABLED RAILS_ENV RACK_ENV MIX_ENV LANG LANGUAGE TZ DEBIAN_FRONTEND DOTNET_NOLOGO
    DOTNET_CLI_TELEMETRY_OPTOUT UV_OFFLINE UV_FROZEN UV_NO_PROGRESS PIP_NO_INPUT PIP_DISABLE_PIP_VERSION_CHECK
    DOCKER_BUILDKIT HTTP_HOST AWS_REGION AWS_DEFAULT_REGION
    """.split()  # noqa: SIM905 - a literal list would take one line per name
)
"""Harmless members of the families below, which only set a mode or name an environment."""
_FAMILIES = r"""
LD DYLD GIT SSH BASH PYTHON\w* NODE NPM YARN PNPM BUN DENO PIP UV POETRY PDM HATCH PIPX CARGO RUST RUSTC RUSTUP GO
GO[A-Z]+ CGO JAVA JDK MAVEN MVN GRADLE KOTLIN SCALA SBT ANT RUBY GEM BUNDLE RUBYOPT RUBYLIB PERL PERL5\w* LUA PHP R
JULIA ERL ELIXIR MIX DOTNET CORECLR COMPLUS NUGET SWIFT DOCKER COMPOSE KUBE HELM AWS GCP GOOGLE CLOUDSDK AZURE HTTP
HTTPS SSL OPENSSL CURL WGET RSYNC CVS SVN HG GNUPG GPG XDG ADDERCLAW AGENT_SDLC SDLC CLAUDE\w* ANTHROPIC OPENAI
GEMINI OPENROUTER OLLAMA LM_STUDIO MISTRAL GROQ DEEPSEEK XAI COHERE BEDROCK VERTEX OTEL PYTEST COVERAGE MYPY RUFF
BLACK TOX NOX PRE ESLINT JEST VITEST TS TSC MAKE MAKE[A-Z]+ CMAKE CTEST NINJA MESON PKG CC CXX CPP FC AR AS NM GCC
CLANG LLVM GCONV GLIBC MALLOC LOCPATH NLS TERMINFO TERMCAP HIST[A-Z]* SUDO DBUS SYSTEMD JUPYTER IPYTHON ELECTRON
CHROME WEBDRIVER PUPPETEER PLAYWRIGHT EMACS VIM NVIM PSQL PG MYSQL SQLITE RIPGREP FZF JQ AWK GAWK TAR ZIP UNZIP GZIP
XZ ZSTD BAT DIRENV ASDF MISE PYENV NVM VOLTA TERRAFORM TF ANSIBLE VAGRANT QT GTK GIO GST ICU TEX[A-Z]* GHC OPAM OCAML
NIX GUIX WINE COMP READLINE LC
"""
"""Prefixes of the variables of tool families."""
_EXACT = r"""
_.* LESS.* MAN.* GREP.* IFS PS\d PROMPT.* ENV HOME USER LOGNAME SHELL.* OLDPWD PWD TMP TEMP VISUAL BROWSER DISPLAY
POSIX.* MAGIC TAPE TIME MAILCAPS? MORE JAVACMD CDPATH GLOBIGNORE FIGNORE EXECIGNORE INPUTRC FCEDIT FUNCNEST HOSTFILE
MAIL.* OPT[A-Z]+ DIRSTACK GROUPS E?UID PPID SECONDS RANDOM SRANDOM TIMEFORMAT TMOUT REPLY MAPFILE COPROC TERM COLUMNS
LINES HOSTNAME HOSTTYPE MACHTYPE OSTYPE LINENO PIPESTATUS FUNCNAME EPOCH.* SHLVL IGNOREEOF
"""
_ENDINGS = r"""
PATH HOME ROOT FLAGS OPTIONS? OPTS? ARGS EDITOR PAGER PROXY CONFIG.* CONF CNF RC PROFILER? ENVIRON COMMAND CMD
PROGRAM WRAPPER PRELOAD PLUGINS? HOOKS? LAUNCHER ASKPASS STARTUP INIT LOADER SHELL RSH SSH REGISTRY MIRROR INDEX_URL
_DIRS? TMPDIR _FILES? ALIASES _EXE _BIN _LIBS? LIB INTERPRETER COMPILER LINKER MODULES? SCRIPTS? AGENT SOCK SOCKET
CERT BUNDLE TRACE OUTPUT EXEC HANDLER BASE_URL API_BASE API_HOST ENDPOINT GATEWAY HELPER
"""
_STEERS = re.compile(
    rf"(?:{'|'.join(_FAMILIES.split())})(?:_.*|\d.*)?|{'|'.join(_EXACT.split())}|.*(?:{'|'.join(_ENDINGS.split())})"
)


def refusal(name: str, value: Any) -> str:
    """Why a variable in the settings is not passed to commands; empty if it is."""
    if not _NAME.fullmatch(name):
        return "is not a variable name"
    if not isinstance(value, str) or "\0" in value or len(value) > 10_000:
        return "expected a text without NUL, of at most 10,000 characters"
    if is_secret_name(name) or looks_secret(value):
        return "credentials do not belong in a settings file and are not passed to commands"
    if name not in _HARMLESS and _STEERS.fullmatch(name.upper()):
        return "it tells programs what to load or run, where to read settings, or whom to reach"
    if value.startswith("() {"):
        return "its value is a shell function"
    return ""


def split_allowed(table: Any) -> tuple[dict[str, str], dict[str, str]]:
    """The allowed variables, and the refused ones with reasons."""
    allowed: dict[str, str] = {}
    refused: dict[str, str] = {}
    if not isinstance(table, dict):
        return {}, {"": "expected a table of names and texts"}
    for name, item in cast(Json, table).items():
        value = str(item).lower() if isinstance(item, bool) else str(item) if isinstance(item, int | float) else item
        why = refusal(name, value)
        if why:
            refused[name] = why
        else:
            allowed[name] = value
    return allowed, refused
