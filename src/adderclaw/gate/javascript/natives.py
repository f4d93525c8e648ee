"""What Node has built in, as far as pieces of JavaScript may use it: each function with what it is given and gives."""

import re
from typing import TYPE_CHECKING, NamedTuple

from adderclaw.gate.javascript.kinds import CLEAN, HERE, NUMBER, PROJECT, TEXT, Kind, native, text
from adderclaw.gate.javascript.lexer import Refused
from adderclaw.gate.javascript.names import MODULES
from adderclaw.gate.javascript.parser import Node
from adderclaw.gate.programs.allowlist import names

if TYPE_CHECKING:
    from adderclaw.gate.javascript.values import Values


class Arg(NamedTuple):
    kind: Kind
    node: Node | None = None
    spread: bool = False


class Effects:
    """What a piece opens, by names that stand there."""

    def __init__(self) -> None:
        self.reads: dict[str, None] = {}
        self.writes: dict[str, None] = {}
        self.folders: dict[str, None] = {}
        """Folders of which any file may be opened, by the name that it has there."""
        self.urls: dict[str, None] = {}
        self.modules: dict[str, None] = {}


TYPES = names("Error TypeError RangeError SyntaxError Date Map Set Array Object RegExp Promise")
ERRORS = names("Error TypeError RangeError SyntaxError")
_ROOTS = names(
    """console JSON Math Number String Boolean Array Object Date Promise process require fs path os util url querystring
    assert parseInt parseFloat isNaN isFinite encodeURIComponent decodeURIComponent encodeURI decodeURI setTimeout
    setInterval setImmediate clearTimeout clearInterval queueMicrotask structuredClone fetch performance Buffer crypto
    atob btoa BigInt"""
)
_PROMISED = names("readFile readdir stat lstat access writeFile appendFile mkdir")
NUMBERS = names(
    """parseInt parseFloat isNaN isFinite Number Boolean BigInt Date.now Date.parse Date.UTC performance.now
    Number.isInteger Number.isSafeInteger Number.isNaN Number.isFinite Number.parseFloat Number.parseInt Array.isArray
    Object.is Object.hasOwn Object.isFrozen os.totalmem os.freemem os.uptime os.availableParallelism process.uptime
    Buffer.byteLength Buffer.isBuffer process.hrtime.bigint path.isAbsolute util.isDeepStrictEqual clearTimeout
    clearInterval"""
) | {
    f"Math.{name}"
    for name in names(
        """abs ceil floor round max min sqrt pow trunc sign log log2 log10 log1p exp expm1 cbrt hypot sin cos tan asin
        acos atan atan2 sinh cosh tanh random imul fround clz32"""
    )
}
TEXTS = names(
    """String String.fromCharCode String.fromCodePoint encodeURIComponent decodeURIComponent encodeURI decodeURI atob
    btoa os.platform os.arch os.type os.release os.version os.machine os.endianness util.inspect util.format
    path.basename path.extname path.dirname path.relative path.normalize path.format querystring.stringify
    querystring.escape querystring.unescape crypto.randomUUID url.format util.stripVTControlCharacters"""
)
CLEANS = names(
    """os.cpus os.loadavg process.memoryUsage process.hrtime process.resourceUsage querystring.parse path.parse
    process.memoryUsage.rss performance.memory"""
)
SAYS = names(
    """console.log console.error console.warn console.info console.debug console.table console.dir console.time
    console.timeEnd console.timeLog console.group console.groupEnd console.assert console.count console.trace
    process.exit process.stdout.write process.stderr.write assert assert.ok assert.equal assert.strictEqual
    assert.deepEqual assert.deepStrictEqual assert.notEqual assert.notStrictEqual assert.notDeepStrictEqual assert.match
    assert.doesNotMatch assert.fail assert.ifError"""
)
_VALUES = {
    **{f"Math.{name}": NUMBER for name in ("PI", "E", "LN2", "LN10", "SQRT2", "LOG2E", "LOG10E")},
    **{f"Number.{n}": NUMBER for n in names("MAX_SAFE_INTEGER MIN_SAFE_INTEGER EPSILON MAX_VALUE MIN_VALUE NaN")},
    **{f"process.{n}": TEXT for n in names("version platform arch execPath title")},
    **{f"process.{n}": NUMBER for n in names("pid ppid exitCode stdout.isTTY stdout.columns stdin.isTTY")},
    **{f"process.{n}": CLEAN for n in names("versions release features execArgv")},
    "process.stdin": Kind("instance", name="Input"),
    "os.EOL": TEXT,
    "path.sep": text("/"),
    "path.delimiter": TEXT,
}
_NAMESPACES = names(
    "process.stdout process.stderr process.hrtime process.memoryUsage fs.promises path.posix process.env"
)
_ENVIRONMENT = names(
    """NODE_ENV CI PORT HOST PATH PWD LANG TZ TERM SHELL USER NO_COLOR FORCE_COLOR DEBUG LOG_LEVEL VERBOSE
    npm_package_version npm_package_name"""
)
_FS = names(
    """readFileSync existsSync readdirSync statSync lstatSync accessSync writeFileSync appendFileSync mkdirSync readFile
    readdir stat lstat access writeFile appendFile mkdir realpathSync"""
)
_OTHERS = names(
    """JSON.parse JSON.stringify Object.keys Object.values Object.entries Object.fromEntries Object.assign Object.freeze
    Object.create Object.getOwnPropertyNames Object.groupBy Array.from Array.of Array Object setTimeout setInterval
    setImmediate queueMicrotask structuredClone fetch require path.join path.resolve process.cwd os.tmpdir os.homedir
    os.hostname Promise.all Promise.allSettled Promise.race Promise.resolve Promise.reject Promise.any Buffer.from
    Buffer.alloc Buffer.concat crypto.createHash crypto.randomBytes crypto.randomInt assert.throws assert.doesNotThrow
    assert.rejects readline.createInterface process.stdin process.argv process.nextTick resolve reject"""
)
KNOWN = NUMBERS | TEXTS | CLEANS | SAYS | _OTHERS | {f"fs.{name}" for name in _FS}
_MODULES = {
    **{
        name: native(name) for name in ("fs", "path", "os", "util", "url", "querystring", "assert", "crypto", "process")
    },
    "fs/promises": native("fs.promises"),
    "assert/strict": native("assert"),
    "perf_hooks": native("perf_hooks"),
    "readline": native("readline"),
    "buffer": native("buffer"),
    "console": native("console"),
    "path/posix": native("path"),
    "timers/promises": native("timers"),
}
DANGEROUS = names(
    """exec execSync execFile execFileSync spawn spawnSync fork eval require binding dlopen kill runInThisContext
    runInNewContext runInContext compileFunction createRequire register mainModule _load _linkedBinding process
    child_process fs vm module globalThis global Function system popen shell sh bash rm rmSync rmdir rmdirSync unlink
    unlinkSync chmod chown rename renameSync symlink symlinkSync writeFile writeFileSync appendFile appendFileSync
    createWriteStream readFile readFileSync createReadStream download upload sendFile execa execaSync execaCommand
    command run_command runCommand cp cpSync copyFile copyFileSync truncate truncateSync open openSync exit_code $"""
)
"""Names of what the project's own code is not asked for by a piece: run, delete and write are words of a command."""


def named(name: str) -> Kind:
    """What a name stands for that the piece does not declare."""
    if name in ("undefined", "NaN", "Infinity"):
        return NUMBER
    if name == "__dirname":
        return HERE
    if name == "__filename":
        return TEXT
    if name not in _ROOTS:
        raise Refused(f"{name}, which is not known")
    return native(name)


def member(_interpreter: "Values", owner: str, name: str) -> Kind:
    """A member of what is built in, by its literal name."""
    full = f"{owner}.{name}"
    if owner == "process.env":
        if name not in _ENVIRONMENT:
            raise Refused(f"the variable {name}, which may hold a secret")
        return TEXT
    if full == "process.argv":
        return Kind("instance", name="Arguments")
    if name == "default":
        return native(owner)
    if full in _RENAMED:
        return native(_RENAMED[full])
    if owner == "fs.promises" and name in _PROMISED:
        return native(full)
    if full in _VALUES:
        return _VALUES[full]
    if full in KNOWN or full in _NAMESPACES:
        return native(full)
    raise Refused(f"{full}, which is not known")


_RENAMED = {
    "perf_hooks.performance": "performance",
    "url.URL": "URL",
    "buffer.Buffer": "Buffer",
    "assert.strict": "assert",
    "fs.promises": "fs.promises",
    "path.posix": "path",
    "timers.setTimeout": "timers.setTimeout",
    "process.hrtime": "process.hrtime",
}


# ------------------------------------------------------------------ modules


def loads(node: Node) -> bool:
    """Whether a node loads code that is not Node's own."""
    if node.type in ("import", "dynamic"):
        source = node.parts[0]
    elif node.type == "call" and node.parts[0] == Node("name", node.parts[0].at, ("require",)):
        given = node.parts[1][0] if node.parts[1] else None
        source = given.parts[0] if given is not None and given.type == "text" else "./"
    else:
        return False
    return source.startswith(".") and not source.endswith(".json")


def module(interpreter: "Values", source: str) -> Kind:
    """What a module gives, by its literal name."""
    known = _MODULES.get(source.removeprefix("node:"))
    if known is not None:
        return known
    if re.fullmatch(r"\.\.?/(?:[\w@.-]+/)*[\w@.-]+\.json", source, re.ASCII) and source.count(
        ".."
    ) == source.startswith(".."):
        interpreter.effects.reads[source] = None
        return CLEAN
    if re.fullmatch(r"\./(?!.*\.\.)(?!.*node_modules)(?:[\w@-][\w@.-]*/)*[\w@-][\w@.-]*|\.", source, re.ASCII):
        interpreter.effects.modules[source] = None
        return PROJECT
    package = re.fullmatch(r"((?:@[a-z0-9][\w.-]*/)?[a-z0-9][\w.-]*)(/package\.json)?", source, re.ASCII)
    if package is None or package[1] in MODULES or not interpreter.packages:
        raise Refused(f"the module {source}")
    return CLEAN if package[2] else Kind("package")
