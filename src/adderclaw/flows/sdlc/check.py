"""Whether a generated test is acceptable: one pass over its syntax tree, which refuses what it cannot analyze."""

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
"""Variables that make a program load other code than its own."""
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
"""Programs that only prepare or inspect: a test that starts nothing else exercises nothing."""

NOTHING = "it asserts nothing: compare what the program printed, wrote or stored with what the criterion says"
EXISTS_ONLY = "it only checks that a file exists: also compare its contents"
EXIT_ONLY = "it only checks an exit status: also compare what the program printed, wrote or stored"
UNEXERCISED = "it starts no program of the project: exercise the change through a command of its public interface"
SLEEPS = "it sleeps: wait for output, or for a process to end"
INLINE_CODE = "it runs inline code in an interpreter, which could reach internals: call the program itself"
SHADOWS = (
    "it sets {name}, which could load other code in place of the program's own: remove it, and call the program by "
    "its path or `cd` to its folder"
)


class Problem(NamedTuple):
    """Why a test is refused."""

    line: int
    """0: the whole test."""
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}" if self.line else self.reason


def is_interpreter(program: str) -> bool:
    name = program.rsplit("/", 1)[-1].rstrip("0123456789.")
    return name in INTERPRETERS


def weak(kinds: set[str]) -> str:
    """What the assertions lack; empty if one of them is strong."""
    if "strong" in kinds:
        return ""
    if "exit" in kinds:
        return EXIT_ONLY
    return EXISTS_ONLY if "exists" in kinds else NOTHING
