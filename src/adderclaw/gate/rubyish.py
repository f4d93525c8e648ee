"""Pieces of Ruby that compute and print: each name in them is one of a closed list, by where it stands.

In Ruby nothing is called but by a name that stands there or a symbol, so names and symbols decide: no `send` and its
like is listed, no method that makes a symbol or a function of a text, no command in backticks, no global, no constant
but a few. Files are read by names that stand there.
"""

import re

from adderclaw.gate.javascript import Reading
from adderclaw.gate.programs.allowlist import names
from adderclaw.gate.programs.objections import Words

_METHODS = names(
    """to_i to_f to_s to_a to_h to_r inspect split join map flat_map collect select filter reject each each_with_index
    each_with_object each_slice each_cons each_char each_line each_pair with_index with_object inject reduce sum min max
    minmax sort sort_by min_by max_by group_by partition uniq reverse first last take drop take_while drop_while zip
    count size length empty? include? key? has_key? value? any? all? none? one? find detect find_index index rindex keys
    values fetch dig merge transform_values transform_keys to_set tally chars bytes lines strip lstrip rstrip chomp chop
    upcase downcase capitalize swapcase center ljust rjust gsub sub tr delete squeeze scan match match? start_with?
    end_with? hex oct ord chr succ pred times upto downto step abs floor ceil round truncate divmod modulo pow gcd lcm
    even? odd? zero? positive? negative? nil? is_a? message compact flatten rotate transpose product combination
    permutation push pop shift unshift append prepend insert concat slice values_at freeze dup digits bit_length nan?
    year month day hour sec strftime iso8601 yday wday bytesize filter_map each_key each_value chunk_while entries
    delete_if keep_if sort! map! uniq! reverse! strip! gsub! sub! upcase! downcase! between? clamp itself captures
    valid_encoding? encoding hash sample shuffle each_entry each_index fdiv numerator denominator"""
)
_CONSTANTS = {
    "Time": "now at mktime utc",
    "Date": "today parse new valid_date? leap?",
    "Math": "sqrt cbrt sin cos tan log log2 log10 exp hypot atan atan2",
    "JSON": "parse generate pretty_generate",
    "Set": "new",
    "Hash": "new",
    "Array": "new",
    "Integer": "sqrt",
    "Float": "",
    "String": "",
    "Symbol": "",
    "Numeric": "",
    "NilClass": "",
    "SecureRandom": "hex uuid alphanumeric",
    "Rational": "",
    "RUBY_VERSION": "",
    "RUBY_PLATFORM": "",
    "RUBY_ENGINE": "",
    "StandardError": "",
    "ArgumentError": "",
    "ZeroDivisionError": "",
    "TypeError": "",
    "KeyError": "",
    "RuntimeError": "",
}
_FUNCTIONS = names(
    "puts p print pp printf format sprintf Integer Float String Array Rational rand loop raise exit lambda"
)
_WORDS = names(
    """if unless else elsif end do while until then case when and or not true false nil begin rescue ensure next break
    in redo"""
)
_LIBRARIES = names("json set date time bigdecimal prime securerandom pp English")
_MEMBERS = ("", "::PI", "::E", "::INFINITY", "::NAN", "::EPSILON")
_TOKEN = re.compile(
    r"""(?P<space>[ \t]+)|(?P<line>[\n;])|(?P<comment>\#[^\n]*)
    |(?P<require>require(?:\s+|\s*\(\s*)(?P<mark>['"])(?P<library>[a-z]+)(?P=mark)\s*\)?)
    |(?P<file>File\.(?:read|readlines|foreach|exist\?|size|file\?|directory\?)\(\s*
        (?P<quote>['"])(?P<path>[\w./-]+)(?P=quote)\s*\))
    |(?P<percent>%[wi]\[[^\]\[\\#`]*\]|%[wi]\([^()\\#`]*\))
    |(?P<single>'(?:[^'\\]|\\.)*')
    |(?P<double>"(?:[^"\\#]|\\[^MCcxu\n]|\\u[0-9a-fA-F]{4}|\#(?!\{)
        |\#\{[^{}"`]*(?:"[^"#\\{}`]*"[^{}"`]*)*\})*")
    |(?P<number>\d[\d_]*(?:\.\d+)?(?:e-?\d+)?(?![\w]))
    |(?P<method>(?:&?\.)\s*(?P<called>[a-z_]\w*[?!]?))
    |(?P<block>&:(?P<sent>[a-z_]\w*[?!]?|[-+*/%]))
    |(?P<label>[a-z_]\w*:(?=\s))
    |(?P<symbol>:(?P<named>[a-z_]\w*[?!]?|\*\*|[-+*/%|&<>]))
    |(?P<constant>[A-Z]\w*)(?P<member>(?:::[A-Z]\w*)*)
    |(?P<name>[a-z_]\w*[?!]?)
    |(?P<match>\$[1-9~](?!\w))
    |(?P<mark2>\*\*=?|<=>|===|==|!=|>=|<=|=~|!~|&&=?|\|\|=?|\.\.\.?|=>|->|[-+*/%]=|[-+*/%<>=!?:,()\[\]{}|&^~])""",
    re.VERBOSE | re.ASCII,
)
_ENDS = names("number single double percent match file")


_ODD = (
    r"[^\x20-\x7e\n\t]|`|__|@|<<|=begin"
    r"|\b(?:def|class|module|self|undef|alias|BEGIN|END|yield|super|defined)\b"
)
_REGEX = re.compile(r"/(?:[^/\\\n#]|\\[^\n])+/[imx]*(?!\w)")
_KERNEL = names(
    """abort at_exit autoload binding caller catch eval exec fail fork gets load open proc putc readline readlines
    require require_relative select sleep spawn srand syscall system test throw trap warn send public_send method
    methods display extend instance_eval instance_exec tap then instance_variable_get instance_variable_set
    define_method include using public private singleton_class define_singleton_method gem j jj y timeout block_given
    to_s inspect object_id dup clone itself freeze hash class local_variables global_variables set_trace_func
    trace_var untrace_var singleton_method public_method enum_for to_enum instance_of instance_variables
    remove_instance_variable"""
)
"""What `main` has: no variable is called so, since where it is not known it would be the method."""


def _follows_variable(kind: str, text: str) -> bool:
    """Whether a token may follow a variable: what would be given to it makes a method of it."""
    if kind == "name":
        return text in _WORDS - {"do", "nil", "true", "false", "not", "case", "begin"}
    return kind in ("line", "method", "mark2", "symbol") and text not in ("(", "{", "->", "!", "~")


def _is_plain_mark(text: str, code: str, at: int, *, value: bool) -> bool:
    """Whether a sign is read alike by everybody: no text begins with it."""
    after = code[at + len(text) : at + len(text) + 1]
    if text == "?":
        return value and after in " \n"
    if text == ":":
        return after not in "'\""
    if text in ("/", "%", "/=", "%="):
        return value and (after in " \n" or code[at - 1 : at] not in " \n\t")
    return True


class _Reader:
    def __init__(self) -> None:
        self.reads: dict[str, None] = {}
        self.variables: set[str] = set()

    def is_plain(self, code: str, depth: int = 0) -> bool:
        if depth > 3 or len(code) > 4_000 or re.search(_ODD, code):
            return False
        self.variables |= set(re.findall(r"(?<![\w.:@$&?!])([a-z_]\w*)\s*(?:[-+*/|&%]{0,2}=)(?![=~>])", code))
        for given in re.findall(r"(?:\{|\bdo)\s*\|([\w\s,()*]*)\||->\s*\(([\w\s,]*)\)|=>\s*([a-z_]\w*)\b", code):
            self.variables |= set(re.findall(r"[a-z_]\w*", " ".join(given)))
        return not self.variables & (_FUNCTIONS | _WORDS | _KERNEL) and self.tokens(code, depth)

    def tokens(self, code: str, depth: int) -> bool:
        at, value, variable, constant, function = 0, False, False, "", False
        while at < len(code):
            pattern = None if value else _REGEX.match(code, at)
            if pattern is not None:
                at, value, variable, constant = pattern.end(), True, False, ""
                continue
            found = _TOKEN.match(code, at)
            if found is None or not found.group():
                return False
            kind = next(k for k in _KINDS if found[k] is not None)
            if kind == "comment" and (depth or (at and code[at - 1] not in " \n\t")):
                return False
            before, at = at, found.end()
            if kind in ("space", "comment"):
                continue
            if variable and not _follows_variable(kind, found.group()):
                return False
            if kind == "mark2" and not _is_plain_mark(found.group(), code, before, value=value):
                return False
            listed = kind == "percent" and function and code[before - 1] == " "
            if not self.token(kind, found, constant, value=value and not listed, depth=depth):
                return False
            function = kind == "name" and found.group() in _FUNCTIONS
            constant = found["constant"] if kind == "constant" and not found["member"] else ""
            variable = kind == "name" and found.group() in self.variables
            closes = kind == "mark2" and found.group() in (")", "]", "}")
            value = kind in _ENDS or kind in ("method", "constant", "symbol", "block") or closes
            value = value or (kind == "name" and found.group() not in _WORDS - {"end", "nil", "true", "false"})
        return True

    def token(self, kind: str, found: re.Match[str], constant: str, *, value: bool, depth: int) -> bool:
        text = found.group()
        match kind:
            case "method":
                called = found["called"]
                return called in _METHODS or (bool(constant) and called in _CONSTANTS.get(constant, "").split())
            case "block":
                return found["sent"] in _METHODS or not found["sent"].isidentifier()
            case "symbol":
                return not value or found["named"] in _METHODS
            case "label":
                return not text.startswith(("create_", "object_", "array_", "decimal_", "match_", "allow_", "freeze"))
            case "constant":
                return found["constant"] in _CONSTANTS and found["member"] in (
                    "",
                    "::PI",
                    "::E",
                    "::INFINITY",
                    "::NAN",
                    "::EPSILON",
                )
            case "name":
                return text in _WORDS or text in _FUNCTIONS or text in self.variables
            case "double":
                return all(self.is_plain(inside, depth + 1) for inside in re.findall(r"#\{([^{}]*)\}", text))
            case "require":
                return found["library"] in _LIBRARIES
            case "file":
                self.reads[found["path"]] = None
                return True
            case "percent":
                return not value
            case _:
                return True


_KINDS = (
    "space", "line", "comment", "require", "file", "percent", "single", "double", "number", "method", "block", "label",
    "symbol", "constant", "name", "match", "mark2",
)  # fmt: skip


def read(words: Words) -> Reading | None:
    """What `ruby -e` would do; None for any other form."""
    rest = list(words[1:])
    while rest and re.fullmatch(r"-w|-W\d?|-r(?:json|set|date|time|prime)", rest[0]):
        rest.pop(0)
    if len(rest) != 2 or rest[0] != "-e":
        return None
    reader = _Reader()
    plain = _symbols_are_plain(rest[1]) and reader.is_plain(rest[1])
    return Reading("" if plain else "Ruby that is not known", tuple(reader.reads))


def _symbols_are_plain(code: str) -> bool:
    """Whether no symbol names a method that is not listed: one may be handed to `inject` under any name."""
    named = re.findall(r"(?<![\w:)\]]):([A-Za-z_]\w*[?!=]?|\"|')", code)
    return all(name in _METHODS for name in named) and "%i" not in code
