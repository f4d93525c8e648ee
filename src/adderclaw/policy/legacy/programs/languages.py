"""Small programs that are words of a command: sed, awk and SQL.

Each is read only as far as it takes to see that it runs nothing, writes nothing and opens nothing by itself.
"""

import re

from adderclaw.core.record import NamedTuple
from adderclaw.policy.legacy.programs.allowlist import listed, names
from adderclaw.policy.legacy.programs.objections import Words

# ------------------------------------------------------------------ sed

_SED_PIECE = r"(?:[^\[\\\n{mark}]|\\[^\n]|\[\^?\]?(?:\[:\w+:\]|\\[\w.+* -]|[^\]\[\\\n{mark}])*\])*"
"""A pattern in which no bracket holds the mark or ends in doubt: everybody finds the same end of it."""
_SED_MARKS = "/|#,@:!%"
_SED_SINGLE = r"[pdq=nNhHgGxPDlFz]|q\s*\d+|[btT]\s*\w*|:\s*[A-Za-z]\w*|[aic]\\?[ \t]*[^\n\\]+(?=\n|$)"
_SED_OPTIONS = (
    r"-[nErsuz]+|-[nErsuz]*i(?:\.\w+)?|--quiet|--silent|--regexp-extended|--in-place(?:=\.\w+)?|--null-data|--version"
    r"|--debug|--posix|--separate|--unbuffered"
)


class Sed(NamedTuple):
    scripts: Words
    files: Words
    in_place: bool
    strange: str
    """An option that is not taken."""


def sed_parts(words: Words) -> Sed:
    scripts: list[str] = []
    operands: list[str] = []
    in_place, strange, rest = False, "", list(words[1:])
    while rest:
        word = rest.pop(0)
        long = word.partition("=")
        if re.fullmatch(r"-[nErsuz]*e|--expression", word) and rest:
            scripts.append(rest.pop(0))
        elif long[0] == "--expression" and long[1]:
            scripts.append(long[2])
        elif word == "--":
            operands += rest
            break
        elif not word.startswith("-") or word == "-":
            operands.append(word)
        elif not re.fullmatch(_SED_OPTIONS, word):
            strange = strange or word
        in_place = in_place or bool(re.match(r"-[A-Za-z]*i|--in?", word))
    if not scripts:
        scripts, operands = operands[:1], operands[1:]
    return Sed(tuple(scripts), tuple(operands), in_place, strange)


def is_plain_sed(script: str) -> bool:
    """Sed's `e`, `w`, `r` and `s///e` run, write and read: only the plain commands are taken."""
    rest = script.strip()
    while rest:
        match = re.match(_sed_command(), rest)
        if match is None or not match.group():
            return False
        block = match.group().endswith(("{", "}")) and match["plain"] in ("{", "}")
        rest = rest[match.end() :].lstrip(" \t")
        if rest and rest[0] not in ";\n}" and not block:
            return False
        rest = rest.lstrip(" \t;\n") if not rest.startswith("}") else rest
    return True


def _sed_command() -> str:
    address = rf"(?:\d+(?:~\d+)?|\$|/{_SED_PIECE.replace('{mark}', '/')}/I?)"
    marks = [re.escape(mark) for mark in _SED_MARKS]
    replacement = r"(?:[^\\\n{mark}]|\\[^\n])*"
    substitutes = "|".join(
        f"s{mark}{_SED_PIECE}{mark}{replacement}{mark}[gpiIm0-9]*".replace("{mark}", mark) for mark in marks
    )
    return (
        rf"(?:{address}(?:,(?:{address}|[+~]\d+))?)?[ \t]*!?[ \t]*"
        rf"(?:(?P<plain>[{{}}])|{substitutes}|{_SED_SINGLE})"
    )


# ------------------------------------------------------------------ awk

_AWK_REACHES = r"\b(?:system|getline|close|fflush|popen|ARGV|ARGC|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|nextfile)\b|@"
_AWK_PART = (
    r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|(?P<regex>/(?:[^/\\\n\[]|\\.|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\\n/])*\])+/)'
    r"|\|\||>=|>>|\w+|\s+|."
)


def is_plain_awk(program: str) -> bool:
    """Whether an awk program only computes and prints: no pipe, no redirect, no file that it opens by itself."""
    depth, printing, before = 0, False, ""
    for match in re.finditer(_AWK_PART, program, re.DOTALL):
        part = match.group()
        # A slash after a value divides: what was taken for a regular expression may hide code.
        if match["regex"] and (re.match(r"[\w)\]$]", before) or re.search(_AWK_REACHES, part)):
            return False
        if part.isspace() and "\n" not in part:
            continue
        if re.fullmatch(_AWK_REACHES, part) or part in ("|", ">>"):
            return False
        if part in ("print", "printf"):
            printing, depth = True, 0
        elif part in (";", "}", "\n") or "\n" in part:
            printing = False
        elif part in "([":
            depth += 1
        elif part in ")]":
            depth -= 1
        elif part == ">" and printing and depth <= 0:
            return False
        before = part[-1:]
    return True


# ------------------------------------------------------------------ SQL


_SQLITE_DOTS = names(".tables .schema .indexes .headers .mode .databases .dbinfo .width .nullvalue .fullschema .quit")
_SQLITE_REACHES = (
    r"(?i)\b(?:load_extension|readfile|writefile|edit|fts3_tokenizer|attach|vacuum\s+into|zipfile|fsdir|lsmode"
    r"|pragma\s+(?:temp_store_directory|data_store_directory))\b"
)


def is_plain_sqlite(text: str) -> bool:
    """Statements that stay in their database, and dot commands that only show."""
    for line in text.split("\n"):
        if line.lstrip().startswith("."):
            words = line.split()
            if words[0] == ".read" and len(words) == 2 and re.fullmatch(r"(?!.*\.\.)\w[\w./-]*\.sql", words[1]):
                continue
            if words[0] not in _SQLITE_DOTS or any(word.startswith(("|", "/", "~", ".", "-")) for word in words[1:]):
                return False
    return not re.search(_SQLITE_REACHES, text)


_SQL_REACHES = (
    r"(?i)\\(?![dl?]|x\b|timing\b|conninfo\b|pset\b|z\b)|\bprogram\b|\bcopy\b|\bpg_read_|\bpg_ls_|\bpg_write|\blo_(?:im|ex)port"
    r"|\bdblink|\bcreate\s+(?:\w+\s+)*(?:extension|function|language)\b|\balter\s+(?:system|role|user)\b|\bsuperuser\b"
    r"|\binto\s+(?:out|dump)file\b|\bload_file\b|\bload\s+data\b|\bsystem\b|\bsource\b|\binstall\s+plugin\b|\bsonames?\b"
    r"|\bdrop\s+(?:database|schema|table|owned|role|user|tablespace)\b|\btruncate\b|\bdelete\s+from\s+[\w.\"]+\s*(?:;|$)"
)


def is_plain_sql(text: str) -> bool:
    """A statement that runs nothing on the server's or the client's system, and opens no file there."""
    return not re.search(_SQL_REACHES, text)


# ------------------------------------------------------------------ modules of Python


def project_files(module: str) -> Words:
    """The files, one of which `python -m` would run, if the module is the project's."""
    if not re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", module, re.ASCII):
        return ()
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__main__.py"


def is_known_module(module: str) -> bool:
    """Whether a module is Python's own, or one of which it is known that it does more than a project's own does."""
    import sys

    root = module.split(".", 1)[0]
    return root in sys.stdlib_module_names or root in listed("reaching_modules") or root.startswith("_")


# ------------------------------------------------------------------ words that stand for programs and archives

_PYTHON_X = names("dev utf8 utf8=1 importtime faulthandler tracemalloc frozen_modules=off")


def python_parts(words: Words) -> tuple[str, Words] | None:
    """("-m", module and the rest), ("", script and the rest) or ("--version", ()); None for any other form."""
    rest = words[1:]
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option, rest = rest[0], rest[1:]
        if option in ("-V", "--version", "-VV", "--help", "-h"):
            return "--version", ()
        if option == "-m":
            return "-m", rest
        if option in ("-W", "-X") and rest:
            option, rest = option + rest[0], rest[1:]
        if re.match("-X", option) and option[2:] not in _PYTHON_X:
            return None
        if not re.fullmatch(r"-[uBsEIObqvP]+|-W[\w:.=]+|-X[\w=]+", option):
            return None
    return ("", rest) if rest and rest[0] != "-" else None


def is_piped(path: str) -> bool:
    """Whether a script is no file that can be looked at: standard input under one of its names, or an address."""
    return path == "-" or path.startswith(("/dev/", "/proc/")) or "://" in path


def tar_words(words: Words) -> Words | None:
    """The words of tar with its first one as an option; None for an order of letters that takes more than one value."""
    if len(words) < 2 or words[1].startswith("-"):
        return words
    letters = words[1]
    return (words[0], f"-{letters}", *words[2:]) if re.fullmatch(r"[cxtvzjJapkmo]*f?", letters) else None
