"""Whether a generated test may count: one pass over its syntax tree, which refuses what it cannot read."""

from adderclaw.core.record import NamedTuple

MOST_CHARACTERS = 20_000
LANGUAGES = ("sh", "python")

SHADOWING = frozenset(
    (
        "PATH",
        "BASH_ENV",
        "ENV",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "NODE_PATH",
        "NODE_OPTIONS",
        "PERL5LIB",
        "PERL5OPT",
        "RUBYLIB",
        "RUBYOPT",
        "CLASSPATH",
        "JAVA_TOOL_OPTIONS",
        "GIT_EXEC_PATH",
    )
)
"""Variables by which other code is put in the place of the program's own."""
INTERPRETERS = ("python", "node", "perl", "ruby", "php", "deno", "bun", "lua", "sh", "bash", "dash", "zsh")
INLINE = frozenset({"-c", "-e", "-r", "-p", "-pe", "--eval", "--print"})
LOOKING = frozenset(
    (
        *("true", "false", ":", "echo", "printf", "cat", "ls", "head", "tail", "grep", "egrep", "fgrep", "sed", "awk"),
        *("wc", "sort", "uniq", "cut", "tr", "diff", "cmp", "find", "stat", "file", "test", "[", "[[", "sqlite3", "jq"),
        *("mkdir", "touch", "cp", "mv", "rm", "ln", "chmod", "mktemp", "basename", "dirname", "realpath", "readlink"),
        *("cd", "pwd", "exit", "return", "set", "export", "local", "read", "shift", "wait", "kill", "env", "date"),
        *("id", "uname", "tee", "seq", "xargs", "od", "xxd", "sha256sum", "md5sum", "rg", "git"),
    )
)
"""Programs that set up and look: a test that starts nothing else exercises nothing."""

NOTHING = "it asserts nothing: compare what the program printed, wrote or stored with what the criterion says"
EXISTS_ONLY = "it only checks that a file is there: compare what is in it, too"
EXIT_ONLY = "it only checks how a program exits: compare what it printed, wrote or stored, too"
UNEXERCISED = "it starts no program of the project: exercise the change through a command of its public interface"
SLEEPS = "it sleeps: wait for output, or for the end of a process"
INLINE_CODE = "it runs inline code in an interpreter, which could reach internals: call the program itself"
SHADOWS = (
    "it sets {name}, by which other code could stand in for the program's own: leave it out, and name the program by "
    "its path or `cd` to where it is"
)


class Problem(NamedTuple):
    """Why a test is refused."""

    line: int
    """0: all of it."""
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}" if self.line else self.reason


def check(language: str, text: str) -> list[Problem]:
    """Why the test is refused, in the order of its lines; nothing where it may be run."""
    if language not in LANGUAGES:
        return [Problem(0, f"a test is written in {' or '.join(LANGUAGES)}, not in {language!r}")]
    if not text.strip():
        return [Problem(0, "it is empty")]
    if len(text) > MOST_CHARACTERS:
        return [Problem(0, f"it has {len(text)} characters, and at most {MOST_CHARACTERS} are read")]
    if any(ord(letter) < 32 and letter not in "\n\t" for letter in text):
        return [Problem(0, "it holds control characters")]
    if language == "python":
        from adderclaw.flows.sdlc import check_python

        return check_python.problems(text)
    from adderclaw.flows.sdlc import check_shell

    return check_shell.problems(text)


def is_interpreter(program: str) -> bool:
    name = program.rsplit("/", 1)[-1].rstrip("0123456789.")
    return name in INTERPRETERS


def weak(kinds: set[str]) -> str:
    """What is missing where no assertion is a strong one; nothing where one is."""
    if "strong" in kinds:
        return ""
    if "exit" in kinds:
        return EXIT_ONLY
    return EXISTS_ONLY if "exists" in kinds else NOTHING
