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

from adderclaw.gate.programs.allowlist import names
from adderclaw.gate.shell.syntax import NotAPlan

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
    """PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONUTF8 PYTHONIOENCODING
    PYTHONFAULTHANDLER PYTHONDEVMODE PYTHONASYNCIODEBUG PYTHONTRACEMALLOC NODE_ENV NODE_DEBUG NODE_NO_WARNINGS
    RUST_LOG RUST_BACKTRACE RUST_TEST_THREADS CARGO_TERM_COLOR CARGO_INCREMENTAL GOOS GOARCH GOARM GOMAXPROCS GOGC
    GO111MODULE CGO_ENABLED RAILS_ENV RACK_ENV APP_ENV ENVIRONMENT FLASK_ENV FLASK_DEBUG DJANGO_SETTINGS_MODULE
    LOG_LEVEL LOGLEVEL DEBUG VERBOSE CI TZ LANG LANGUAGE TERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR
    CLICOLOR_FORCE PORT HOST MODE JOBS V Q DEBIAN_FRONTEND UV_OFFLINE UV_FROZEN UV_NO_PROGRESS UV_LINK_MODE
    PIP_NO_INPUT PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_CACHE_DIR HUSKY DOCKER_BUILDKIT COMPOSE_DOCKER_CLI_BUILD
    TF_LOG SKIP CUDA_VISIBLE_DEVICES TF_CPP_MIN_LOG_LEVEL MIX_ENV SDL_VIDEODRIVER JULIA_NUM_THREADS
    HYPOTHESIS_PROFILE PLAYWRIGHT_HTML_OPEN DOTNET_NOLOGO DOTNET_CLI_TELEMETRY_OPTOUT DOTNET_ENVIRONMENT
    CARGO_BUILD_JOBS CARGO_NET_OFFLINE PYTEST_DISABLE_PLUGIN_AUTOLOAD COVERAGE_CORE UV_SYSTEM_PYTHON NODE_TEST_CONTEXT
    GRADLE_DAEMON PIP_REQUIRE_VIRTUALENV RUST_MIN_STACK MALLOC_ARENA_MAX GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL
    GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE PGPASSWORD PGUSER PGDATABASE PGPORT
    MYSQL_PWD REDISCLI_AUTH
    AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_REGION AWS_DEFAULT_REGION REQUEST_METHOD QUERY_STRING
    SERVER_NAME SERVER_PORT SERVER_PROTOCOL SERVER_SOFTWARE GATEWAY_INTERFACE CONTENT_LENGTH REMOTE_ADDR HTTP_HOST
    HTTP_COOKIE HTTP_USER_AGENT"""
)
_SWITCHES = names(
    """PYTHON_JIT PYTHON_GIL PYTHON_COLORS PYTHONOPTIMIZE PYTHONNOUSERSITE PYTHONSAFEPATH PYTHONPROFILEIMPORTTIME
    PYTHONVERBOSE PYTHONDEBUG PYTHONINTMAXSTRDIGITS PYTHONNODEBUGRANGES NODE_DISABLE_COLORS NODE_PENDING_DEPRECATION
    GIT_OPTIONAL_LOCKS GIT_LFS_SKIP_SMUDGE GIT_MERGE_AUTOEDIT GIT_CURL_VERBOSE GIT_TRACE GIT_TRACE_SETUP
    GIT_TRACE_PERFORMANCE ESLINT_USE_FLAT_CONFIG PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD PLAYWRIGHT_BROWSERS_PATH
    PLAYWRIGHT_SKIP_VALIDATE_HOST_REQUIREMENTS PLAYWRIGHT_FORCE_TTY PUPPETEER_SKIP_DOWNLOAD
    PUPPETEER_SKIP_CHROMIUM_DOWNLOAD CYPRESS_INSTALL_BINARY ELECTRON_SKIP_BINARY_DOWNLOAD ELECTRON_ENABLE_LOGGING
    VITEST_MAX_THREADS VITEST_MIN_THREADS VITEST_SEGFAULT_RETRY JEST_WORKER_ID TS_NODE_TRANSPILE_ONLY TS_NODE_FILES
    TSC_COMPILE_ON_ERROR YARN_ENABLE_IMMUTABLE_INSTALLS YARN_ENABLE_TELEMETRY COREPACK_ENABLE_STRICT
    COREPACK_ENABLE_DOWNLOAD_PROMPT PIP_NO_COLOR PIP_QUIET PIP_PROGRESS_BAR UV_NO_CACHE UV_NO_SYNC UV_LOCKED
    UV_COMPILE_BYTECODE UV_NO_COLOR UV_CONCURRENT_DOWNLOADS UV_HTTP_TIMEOUT UV_NATIVE_TLS POETRY_NO_INTERACTION
    POETRY_VIRTUALENVS_CREATE POETRY_VIRTUALENVS_IN_PROJECT CARGO_NET_RETRY CARGO_TERM_VERBOSE CARGO_TERM_QUIET
    CARGO_PROFILE_DEV_DEBUG CARGO_PROFILE_RELEASE_DEBUG CARGO_PROFILE_TEST_DEBUG RUSTC_BOOTSTRAP RUST_TEST_NOCAPTURE
    RUST_LIB_BACKTRACE DOTNET_SKIP_FIRST_TIME_EXPERIENCE BUNDLE_JOBS BUNDLE_RETRY NO_UPDATE_NOTIFIER
    CTEST_OUTPUT_ON_FAILURE CTEST_PARALLEL_LEVEL CMAKE_BUILD_PARALLEL_LEVEL CMAKE_EXPORT_COMPILE_COMMANDS
    TF_IN_AUTOMATION TF_INPUT TF_ENABLE_ONEDNN_OPTS TF_FORCE_GPU_ALLOW_GROWTH COMPOSE_BAKE COMPOSE_PARALLEL_LIMIT
    ANSIBLE_FORCE_COLOR ANSIBLE_NOCOLOR ANSIBLE_HOST_KEY_CHECKING QT_DEBUG_PLUGINS QT_SCALE_FACTOR GTK_DEBUG WINEDEBUG
    PYTEST_XDIST_AUTO_NUM_WORKERS PRE_COMMIT_COLOR PRE_COMMIT_ALLOW_NO_CONFIG NIX_SHOW_STATS JUPYTER_PLATFORM_DIRS"""
)
"""Variables of tools that are switched on and off, or are given a number."""
_CREDENTIAL = r"[A-Z][A-Z0-9_]*_(?:API_KEY|TOKEN|SECRET|SECRET_KEY|ACCESS_KEY|PASSWORD|CREDENTIALS)"
_EMPTY = names("GIT_EXTERNAL_DIFF GTK_IM_MODULE QT_IM_MODULE NODE_OPTIONS PYTHONWARNINGS")
_DATA_PLACE = (
    r"(?:[A-Z][A-Z0-9]*_)*(?:DATA|DATABASE|DB|SQLITE|MODELS?|DATASETS?|LOGS?|OUT|OUTPUT|INPUT|UPLOADS?|DOWNLOADS?|CACHE|GRAPH"
    r"|FIXTURES?|SNAPSHOTS?|REPORTS?|ARTIFACTS?|RESULTS?|STATIC|MEDIA|ASSETS|IMAGES?|DOCS|CONTENT|STORAGE|STATE|BACKUPS?"
    r"|RECORDINGS?|SCREENSHOTS?|EXPORTS?|SAMPLES?|CHECKPOINTS?|EMBEDDINGS?|VAULT|MEMORY)_(?:DIR|DIRECTORY|FOLDER|PATH|FILE)"
)
_PLACE = r"(?:/tmp/|\./)?\w[\w-]*(?:\.[\w-]+)*(?:/\w[\w-]*(?:\.[\w-]+)*)*/?|\./?"
"""A place of the workspace or in /tmp, no part of which is hidden."""


def _flags(*forms: str) -> str:
    """Flags of these forms, with blanks between them: so that no text is read in more than one way."""
    return rf" *(?:(?:{'|'.join(forms)})(?: +|\Z))*"


_RUSTFLAGS = _flags(
    r"-[DWA] ?[a-z][\w:-]*",
    r"--cfg[ =][a-z_]\w*(?:=\"\w+\")?",
    r"-C ?(?:target-cpu=[\w-]+|opt-level=\w|debuginfo=\d|instrument-coverage|codegen-units=\d+|lto=\w+|panic=\w+)",
    r"-C ?(?:strip=\w+|overflow-checks=\w+|debug-assertions(?:=\w+)?|force-frame-pointers(?:=\w+)?)",
    r"-C ?link-arg=-fuse-ld=(?:lld|mold|gold|bfd)",
)
_CFLAGS = _flags(
    r"-O[0-3sg]|-g\d?|-W[\w=-]+|-std=[\w+]+|-f(?:sanitize=[\w,]+|no-[\w-]+|PIC|profile-arcs|test-coverage)",
    r"-D\w+(?:=\w+)?|-m(?:arch|tune)=[\w-]+|--coverage",
)
_JAVA = r"(?:-X(?:mx|ms|ss)\d+[kmgKMG]?|-XX:\+Use\w+GC|-Dfile\.encoding=[\w-]+|-ea| )*"
_SANITIZER = (
    r"(?:(?:halt_on_error|abort_on_error|exitcode|detect_leaks|detect_stack_use_after_return|detect_odr_violation"
    r"|detect_container_overflow|detect_deadlocks|detect_invalid_pointer_pairs|print_stacktrace|print_stats|print_summary"
    r"|print_suppressions|print_module_map|print_legend|symbolize|verbosity|color|history_size|second_deadlock_stack"
    r"|report_signal_unsafe|report_atomic_races|report_bugs|report_thread_leaks|report_objects|report_destroy_locked"
    r"|check_initialization_order|strict_init_order|strict_string_checks|strict_memcmp|allocator_may_return_null"
    r"|allocator_release_to_os_interval_ms|alloc_dealloc_mismatch|new_delete_type_mismatch|malloc_context_size"
    r"|max_malloc_fill_size|quarantine_size_mb|max_leaks|max_redzone|redzone|fast_unwind_on_malloc|handle_segv"
    r"|handle_abort|handle_sigbus|handle_sigill|allow_user_segv_handler|use_sigaltstack|disable_coredump"
    r"|unmap_shadow_on_exit|poison_in_dtor|poison_heap|leak_check_at_exit|use_stacks|use_tls|use_registers|use_globals"
    r"|use_poisoned|log_threads|log_pointers|ignore_noninstrumented_modules|ignore_interceptors_accesses|io_sync"
    r"|flush_memory_ms|memory_limit_mb|hard_rss_limit_mb|soft_rss_limit_mb|intercept_tls_get_addr|origin_history_size"
    r"|force_seq_cst_atomics|silence_unsigned_overflow|suppress_equal_pcs|atexit|debug|full_stacktrace)=\w+"
    r"|suppressions=\w[\w-]*(?:[./]\w[\w-]*)*|[: ])*"
)
SERVED = r"(?i:\w*(?:app|api|server|asgi|wsgi)\w*)(?:\(\))?"
"""The name of an application in its module: what is served is called, and another function may do anything."""
_HERE = r"localhost|127\.0\.0\.1"
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
    **dict.fromkeys(("CC", "CXX"), r"(?:s?ccache )?(?:gcc|g\+\+|clang|clang\+\+|cc|c\+\+)(?:-\d+)?"),
    **dict.fromkeys(("EDITOR", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "VISUAL"), "true|:|cat"),
    "GIT_TERMINAL_PROMPT": "0",
    "GOPROXY": "off",
    "PYTHONWARNINGS": r"(?:(?:default|error|always|all|module|once|ignore)"
    r"(?::[\w ]*(?::\w*(?::[\w.]*(?::\d*)?)?)?)?(?:,|\Z))*",
    "PYTHONBREAKPOINT": "0",
    "PYTHONMALLOC": "debug|malloc|pymalloc|malloc_debug|pymalloc_debug",
    "MPLBACKEND": r"(?i)agg|cairo|pdf|pgf|ps|svg|template|\w+agg",
    "PYTORCH_CUDA_ALLOC_CONF": r"(?:[a-z_]+:[\w.]+(?:,|\Z))*",
    "CONTENT_TYPE": r"[\w-]+/[\w.+-]+",
    "REQUEST_URI": r"/[\w./?=&%-]*",
    "PGHOST": _HERE,
    "AWS_ENDPOINT_URL": rf"https?://(?:{_HERE})(?::\d+)?/?",
    "JAVA_HOME": r"/usr/lib/jvm/\w[\w-]*(?:\.[\w-]+)*",
    "TZ": r"|[A-Za-z0-9_+-]+(?:/[A-Za-z_+-]+\d*)*",
    "FLASK_APP": rf"(?!.*\.\.)\w[\w./]*(?::{SERVED})?",
    "GOTOOLCHAIN": "local",
    "QT_QPA_PLATFORM": "offscreen|minimal",
}
"""Variables that tell programs what to run or load, each with the values by which it does not."""
_FAMILIES = (
    r"(?:LD|DYLD|GIT|SSH|BASH|PYTHON\w*|NODE|NPM|YARN|PNPM|BUN|DENO|PIP|UV|POETRY|PDM|HATCH|PIPX|CARGO|RUST|RUSTC|RUSTUP"
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
    r"|BROWSER|DISPLAY|POSIX.*|MAGIC|TAPE|TIME|MAKEFILES|TEXINPUTS|MAILCAPS?|MORE|CVSROOT|JAVACMD"
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
    r"|LOCALE|LANG|COLOR|ORIGINS?|DB|DATABASE|DSN|FORMAT|FEATURE|VAR|VALUE)"
)
_WORDY = (
    r"[A-Z][A-Z0-9_]*_(?:BACKEND|RATIO|TYPE|MODELS?|PROVIDER|DATASET|METHOD|STRATEGY|STATUS|DAYS|HOURS|MINUTES|SECONDS|SECS"
    r"|MS|INTERVAL|THRESHOLD|TEMPERATURE|TOKENS|BATCH|EPOCHS|WORKERS|THREADS|CONCURRENCY|DELAY|MAX|MIN|RATE|ATTEMPTS"
    r"|DEPTH|WIDTH|HEIGHT|ORG|OWNER|REPO|PROJECT|TENANT|ACCOUNT|EMAIL|DOMAIN|ROLE|GROUP|SCOPE|LANGUAGE|THEME|COUNTRY"
    r"|CURRENCY|CLUSTER|NAMESPACE|QUEUE|TOPIC|BUCKET|TABLE|SCHEMA|COLLECTION|CHANNEL|ARCH|SUITE|FILTER|PATTERN|KIND|DIALECT"
    r"|DATE|START|END|OFFSET|STEPS?|SAMPLES?|DEVICES?|GPUS?|CPUS?|PRECISION|DTYPE|STRATEGIES|ADDRESS|IP|TITLE|LABEL"
    r"|MESSAGE|TENANCY|TIMEZONE|VARIANT|FLAVOR|EDITION|ALGORITHM|STYLE|SOURCE|SUFFIX)"
)
"""Endings of an application's own settings, whose values are words."""
_WORD = r"[\w.,:@+%-]*"
_LIST = r"[A-Za-z0-9][\w-]*(?:,[A-Za-z0-9][\w-]*)+"
_ANSWER = r"(?:\d{1,18}(?:[.,:]\d{1,18}){0,8}|true|false|yes|no|on|off|none|)"


_SWITCH = r"(?i)\d{1,4}|true|false|yes|no|on|off|"
_STEERING = f"{_FAMILIES}|{_NAMED}|{_ENDINGS}"


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
    if name in _VALUES:
        return re.fullmatch(_VALUES[name], value, re.ASCII) is not None
    if not value and (name in _EMPTY or re.fullmatch(_CREDENTIAL, name)):
        return True
    if name in _SWITCHES:
        return re.fullmatch(_SWITCH, value) is not None
    if _is_data_place(name, value):
        return True
    if re.fullmatch(r"LC_[A-Z]+", name) or name in _SAFE:
        return "/" not in value
    known = name.upper()
    if re.fullmatch(_STEERING, known) is not None:
        return False
    if re.fullmatch(_LIST, value, re.ASCII) or (re.fullmatch(_WORDY, name) and re.fullmatch(_WORD, value, re.ASCII)):
        return True
    own = name != known or re.fullmatch(_OWN, name) is not None
    return own or re.fullmatch(_ANSWER, value, re.IGNORECASE | re.ASCII) is not None


def _is_data_place(name: str, value: str) -> bool:
    placed = re.fullmatch(_DATA_PLACE, name) and re.fullmatch(_PLACE, value, re.ASCII)
    return bool(placed) and re.fullmatch(_FAMILIES, name) is None


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
