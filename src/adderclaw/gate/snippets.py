"""A piece of Python that looks at the project: it computes, reads, prints, and reaches nothing else.

It may define functions, loop, open whatever it finds beneath the workspace for reading, and call the project's own and
installed packages, as a script of the project does. It runs no program, opens no connection, writes no file whose name
does not stand there, and comes by no name of Python's by which it could.
"""

import ast
import builtins
import re
import sys

from adderclaw.gate.allowlist import names

MAX_CODE = 20_000

_MODULES = names(
    """json re math cmath statistics collections itertools functools operator string textwrap datetime time calendar
    decimal fractions random uuid hashlib csv pathlib glob fnmatch os sys ast tokenize dis typing dataclasses enum abc
    copy pprint heapq bisect array struct difflib unicodedata html xml configparser tomllib contextlib warnings
    platform importlib timeit zoneinfo locale graphlib numbers reprlib types keyword token stat traceback __future__
    unittest doctest inspect sysconfig secrets sqlite3"""
)
_OF = {
    "os": names("path sep linesep getcwd cpu_count walk listdir scandir stat name fspath"),
    "sys": names(
        "argv stdin stdout stderr exit version version_info path executable platform maxsize getsizeof byteorder"
    ),
    "importlib": names("metadata import_module util resources"),
    "inspect": names("signature getsource getmembers isfunction isclass getdoc getmodule getfile"),
}
"""What is taken of modules that have more."""
_NEVER = names(
    """exec eval compile __import__ breakpoint globals locals vars setattr delattr input memoryview exit quit help
    __builtins__ __loader__ __spec__ open_code copyright credits license"""
) - {"exit", "quit"}
_ATTRIBUTES = names(
    """os sys subprocess builtins shutil socket ctypes modules f_globals f_locals f_builtins f_back gi_frame
    cr_frame tb_frame gi_code system popen Popen fork forkpty execv execve execvp execl execlp spawnl spawnv spawnvp
    posix_spawn killpg check_output check_call getoutput getstatusoutput urlopen urlretrieve sendall sendto rmtree
    unlink rmdir removedirs symlink_to hardlink_to link_to symlink chmod lchmod chown mkfifo mknod truncate setuid
    write_bytes mkdir makedirs touch rename renames replace_file home expanduser parents load_module
    exec_module loader SourceFileLoader spec_from_file_location module_from_spec run_module run_path to_pickle
    read_pickle allow_pickle save savefig tofile dump_stats environ getenv putenv environb
    enable_load_extension load_extension"""
)
_DUNDERS = names("__version__ __file__ __name__ __doc__ __all__ __init__ __main__")
_BUILDS = names("chr fromhex b64decode decode unhexlify a85decode b85decode maketrans translate rot13")
"""By which a text is put together that does not stand there."""
_ROOTS = r"/(?:etc|usr|home|root|var|tmp|proc|sys|dev|opt|boot|bin|sbin|lib\w*|mnt|media|srv|run|Users|private)(?:/|$)"
_FINDS = names("open Path PurePath glob iglob rglob walk scandir listdir iterdir read_csv read_text read_bytes")


def is_tame(code: str, *, confined: bool) -> bool:
    """Whether a piece of code is no more than that; without a sandbox it opens only what stands there by its name."""
    if len(code) > MAX_CODE:
        return False
    try:
        tree = ast.parse(code)
        return _Reader(tree, confined=confined).is_tame()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def places(code: str) -> tuple[str, ...]:
    """The places outside of the project, and above it, that texts in the code name."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return tuple(dict.fromkeys(text for text in texts if _leads_out(text)))


def _leads_out(text: str) -> bool:
    if len(text) > 300 or re.search(r"[\s\\^$|(){}]", text):
        return False
    return bool(re.match(_ROOTS, text)) or text.startswith("~") or ".." in text.split("/")


class _Reader:
    def __init__(self, tree: ast.Module, *, confined: bool) -> None:
        self.confined = confined
        self.nodes = list(ast.walk(tree))
        self.modules: dict[str, str] = {}
        """Names that stand for modules."""
        self.writes_found = _are_of_project(self.nodes)
        """Whether the files that it finds are the project's sources: what it finds it may write."""

    def is_tame(self) -> bool:
        if not all(self.imports(node) for node in self.nodes if isinstance(node, ast.Import | ast.ImportFrom)):
            return False
        if not all(map(self.takes, self.nodes)):
            return False
        called = {name for node in self.nodes if isinstance(node, ast.Call) and (name := _last(node.func))}
        finds = called & _FINDS
        if finds and not self.confined:
            return False
        # A name of a file that is put together from less than text may be any.
        return not (finds and (called & _BUILDS or _builds(self.nodes)))

    def imports(self, node: ast.Import | ast.ImportFrom) -> bool:
        if isinstance(node, ast.ImportFrom):
            root = (node.module or "").split(".", 1)[0]
            if node.level or not root or any(alias.name == "*" for alias in node.names):
                return False
            taken = _OF.get(root) if node.module == root else None
            plain = taken is None or all(alias.name in taken for alias in node.names)
            hidden = any(alias.name in _ATTRIBUTES or alias.name.startswith("_") for alias in node.names)
            hidden = hidden or any(hasattr(builtins, alias.asname or "") for alias in node.names)
            self.modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            return plain and not hidden and _is_open(root)
        for alias in node.names:
            if hasattr(builtins, alias.asname or ""):
                return False
            root = alias.name.split(".", 1)[0]
            self.modules[alias.asname or root] = alias.name if alias.asname else root
            if not _is_open(root) or any(part in _ATTRIBUTES for part in alias.name.split(".")[1:]):
                return False
        return True

    def takes(self, node: ast.AST) -> bool:
        match node:
            case ast.Name():
                return node.id not in _NEVER and (not node.id.startswith("__") or node.id in _DUNDERS)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.FunctionDef() | ast.ClassDef():
                return not node.name.startswith("__") or node.name in _DUNDERS
            case ast.Constant():
                return not (isinstance(node.value, str) and "__" in node.value and "." in node.value)
            case ast.Global() | ast.Nonlocal() | ast.AsyncFunctionDef() | ast.Await() | ast.Delete():
                return False
            case ast.arg() | ast.keyword():
                return not (node.arg or "").startswith("__")
            case _:
                return True

    def attribute(self, node: ast.Attribute) -> bool:
        if node.attr.startswith("_") and node.attr not in _DUNDERS:
            return False
        if isinstance(node.value, ast.Name):
            taken = _OF.get(self.modules.get(node.value.id, ""))
            if taken is not None:
                return node.attr in taken and isinstance(node.ctx, ast.Load)
        return node.attr not in _ATTRIBUTES

    def call(self, node: ast.Call) -> bool:
        name = _last(node.func)
        first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        if name in _FINDS and isinstance(first, str) and re.fullmatch(r"[/~.]*/[/*.]*|~.*", first) and first[0] in "/~":
            return False
        if name == "open":
            return _reads(node) or _stands_there(node) or self.writes_found
        if name == "write_text":
            return self.writes_found
        if name == "connect":
            return bool(node.args) and isinstance(node.args[0], ast.Constant)
        if name == "replace":
            return len(node.args) != 1
        if name == "getattr":
            given = node.args[1] if len(node.args) > 1 else None
            attr = given.value if isinstance(given, ast.Constant) else None
            return isinstance(attr, str) and not attr.startswith("_") and attr not in _ATTRIBUTES
        if name == "import_module":
            return len(node.args) == 1 and _is_own_module(node.args[0])
        return not any(keyword.arg == "shell" for keyword in node.keywords)


def _are_of_project(nodes: list[ast.AST]) -> bool:
    """Whether every place that is looked through stands there, below the project's top, or is an ending of names."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and _last(node.func) in _LOOKS_THROUGH]
    given = [node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None for node in calls]
    return bool(given) and all(isinstance(text, str) and re.fullmatch(_BELOW, text) for text in given)


_LOOKS_THROUGH = names("Path PurePath glob iglob rglob walk scandir listdir")
_BELOW = r"\w[\w-]*(?:/[\w.*?-]+)*/?|(?:\*\*/)?\*\.(?!json$|ya?ml$|toml$|cfg$|ini$|lock$)\w+|\w[\w-]*\.\w+|\*\.json"


def _is_open(root: str) -> bool:
    """Whether a module is one that computes and reads, or the project's own."""
    if root in sys.stdlib_module_names:
        return root in _MODULES
    from adderclaw.gate.languages import is_reaching  # each asks the other about a piece of code

    return not is_reaching(root) and not root.startswith("_")


def _last(called: ast.expr) -> str:
    return called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""


def _mode(node: ast.Call) -> ast.expr | None:
    own = isinstance(node.func, ast.Attribute)
    given = node.args[0:1] if own else node.args[1:2]
    return next((k.value for k in node.keywords if k.arg == "mode"), given[0] if given else None)


def _reads(node: ast.Call) -> bool:
    mode, first = _mode(node), node.args[0] if node.args else None
    if isinstance(first, ast.Constant) and not isinstance(first.value, str):
        return False
    plain = mode is None or (isinstance(mode, ast.Constant) and mode.value in ("r", "rt", "rb"))
    return plain and {k.arg for k in node.keywords} <= {"encoding", "errors", "newline", "mode"} and len(node.args) < 3


def _stands_there(node: ast.Call) -> bool:
    """Whether a file is opened by a name that stands there, which is then judged as one that is written."""
    first = node.args[0] if node.args else None
    plain = {k.arg for k in node.keywords} <= {"encoding", "errors", "newline", "mode"} and len(node.args) < 3
    return plain and isinstance(first, ast.Constant) and isinstance(first.value, str)


def _is_own_module(given: ast.expr) -> bool:
    lead = given
    while isinstance(lead, ast.BinOp):
        lead = lead.left
    if isinstance(lead, ast.JoinedStr) and lead.values:
        lead = lead.values[0]
    text = lead.value if isinstance(lead, ast.Constant) else None
    whole = lead is given
    if not isinstance(text, str) or not (whole or "." in text):
        return False
    root = text.split(".", 1)[0]
    return bool(root) and root not in sys.stdlib_module_names and _is_open(root)


def _builds(nodes: list[ast.AST]) -> bool:
    """Whether texts are made that do not stand there: of numbers, of bytes, of what is read from elsewhere."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr in ("stdin", "buffer"))
        or (isinstance(node, ast.Name) and node.id in ("bytes", "bytearray", "chr"))
        or (isinstance(node, ast.Constant) and isinstance(node.value, bytes) and b"/" in node.value)
        for node in nodes
    )
