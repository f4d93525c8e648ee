"""What is taken of Python's own functions and modules, and of a few packages: a name that is not here refuses.

In the texts below `f` is a function that computes data from what it is given, `f#` one that gives a number, `f$` one
that gives a new text, `f@kind` one that makes an object of that kind, `f!` one with a rule of its own (`files`,
`functions`), and `f=` a value. None of those without a mark runs a program or opens a file, whatever data it is given.
"""

from functools import cache

from adderclaw.gate.programs.allowlist import names

BUILTINS = """
print# len# sorted! reversed! range enumerate! zip! map! filter! sum! min! max! any# all# abs round int# float# str!
repr$ list! dict! set! tuple! bool# bytes bytearray frozenset! isinstance! issubclass! type! chr$ ord# hex$ bin$
oct$ divmod pow complex# iter! next! hasattr! getattr! ascii$ format$ hash# id# callable! dir! slice exit quit
open! input$
"""
ERRORS = names(
    """Exception ValueError TypeError KeyError IndexError AttributeError RuntimeError OSError IOError ImportError
    ModuleNotFoundError FileNotFoundError FileExistsError NotADirectoryError IsADirectoryError PermissionError
    StopIteration ZeroDivisionError OverflowError ArithmeticError LookupError UnicodeDecodeError UnicodeEncodeError
    UnicodeError AssertionError NotImplementedError RecursionError SyntaxError KeyboardInterrupt SystemExit
    BaseException TimeoutError EOFError NameError MemoryError BrokenPipeError ConnectionError Warning
    DeprecationWarning UserWarning FutureWarning RuntimeWarning"""
)
CONSTANTS = names("__name__ NotImplemented Ellipsis")

_AST = """
AST Module Expr FunctionDef AsyncFunctionDef ClassDef Return Delete Assign AugAssign AnnAssign For AsyncFor While If
With AsyncWith Raise Try TryStar Assert Import ImportFrom Global Nonlocal Pass Break Continue BoolOp BinOp UnaryOp
Lambda IfExp Dict Set ListComp SetComp DictComp GeneratorExp Await Yield YieldFrom Compare Call FormattedValue
JoinedStr Constant Attribute Subscript Starred Name List Tuple Slice NamedExpr Load Store Del And Or Add Sub Mult
Div Mod Pow FloorDiv Invert Not UAdd USub Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn comprehension ExceptHandler
arguments arg keyword alias withitem Match match_case stmt expr Str Num
"""
_MATH = """
acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e= erf erfc exp exp2 expm1 fabs
factorial floor fmod frexp fsum gamma gcd hypot inf= isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10
log1p log2 modf nan= nextafter perm pi= pow prod radians remainder sin sinh sqrt sumprod tan tanh tau= trunc ulp
"""
_DATES = """
datetime datetime.now datetime.utcnow datetime.today datetime.fromisoformat datetime.strptime datetime.fromtimestamp
datetime.utcfromtimestamp datetime.combine datetime.min= datetime.max= date date.today date.fromisoformat
date.fromtimestamp time timedelta timezone timezone.utc= UTC= tzinfo
"""
_NUMPY = """
array asarray zeros ones full empty arange linspace logspace eye identity diag zeros_like ones_like full_like
meshgrid concatenate stack vstack hstack split reshape ravel transpose tile repeat where argmax argmin argsort sort
unique sum mean median std var min max amin amax abs absolute sqrt exp log log2 log10 sin cos tan dot matmul cumsum
cumprod diff clip round floor ceil isnan isinf isfinite isclose allclose array_equal percentile quantile histogram
bincount corrcoef cov nan= inf= pi= e= newaxis= float32= float64= int8= int16= int32= int64= uint8= uint16= uint32=
uint64= bool_= dtype maximum minimum power mod sign prod any all nonzero count_nonzero searchsorted interp outer
inner cross trace kron expand_dims squeeze flip roll pad nanmean nanmax nanmin nansum nanstd integer= floating=
number= ndarray= array_str random.seed random.rand random.randn random.randint random.random random.choice
random.normal random.uniform random.permutation random.default_rng linalg.norm linalg.inv linalg.det linalg.eig
linalg.eigvals linalg.solve linalg.svd linalg.matrix_rank linalg.lstsq load! loadtxt! genfromtxt! set_printoptions
finfo iinfo testing.assert_allclose testing.assert_array_equal testing.assert_almost_equal
"""
_TORCH = """
tensor as_tensor zeros ones full rand randn randint randperm arange linspace eye empty zeros_like ones_like
rand_like randn_like cat stack no_grad inference_mode manual_seed allclose isclose equal sum mean max min abs sqrt
exp log matmul mm bmm einsum where argmax softmax sigmoid relu tanh isnan isinf float16= float32= float64= bfloat16=
int8= int16= int32= int64= long= float= half= double= bool= uint8= device cuda.is_available cuda.device_count
cuda.get_device_name cuda.memory_allocated backends.mps.is_available backends.cudnn.enabled= backends.cudnn.version
version.cuda= Tensor= get_num_threads set_num_threads norm dot outer clamp flatten reshape transpose unsqueeze
squeeze
"""
MODULES = {
    "json": "load loads dump# dumps$ JSONDecodeError=",
    "re": """compile match search fullmatch findall finditer sub subn split escape error= Match= Pattern= I= IGNORECASE=
        M= MULTILINE= S= DOTALL= X= VERBOSE= A= ASCII=""",
    "math": _MATH,
    "cmath": "sqrt exp log phase polar rect pi= e=",
    "statistics": """mean median mode stdev pstdev variance pvariance fmean geometric_mean harmonic_mean multimode
        quantiles median_low median_high correlation linear_regression StatisticsError=""",
    "collections": """Counter! defaultdict! OrderedDict! deque! namedtuple! abc.Mapping= abc.Sequence=
        abc.Iterable= abc.Callable=""",
    "itertools": """chain! chain.from_iterable! product! combinations! permutations! islice! zip_longest! groupby!
        accumulate count cycle! repeat! takewhile! dropwhile! tee! pairwise! combinations_with_replacement!
        compress! batched!""",
    "functools": "reduce! lru_cache! cache!",
    "operator": """itemgetter! add sub mul truediv floordiv mod neg eq ne lt le gt ge and_ or_ xor not_ contains
        countOf indexOf""",
    "datetime": _DATES,
    "time": """time# time_ns# perf_counter# perf_counter_ns# monotonic# monotonic_ns# process_time# sleep strftime
        strptime gmtime localtime mktime# ctime$ asctime$ timezone= tzname=""",
    "calendar": "monthrange isleap# timegm# month_name= day_name= monthcalendar",
    "zoneinfo": "ZoneInfo ZoneInfoNotFoundError=",
    "random": """seed random# randint# randrange# choice! choices! sample! shuffle uniform# gauss# normalvariate#
        getrandbits# betavariate# expovariate# triangular# randbytes Random@random""",
    "secrets": "token_hex$ token_urlsafe$ token_bytes choice! randbelow#",
    "string": """ascii_letters= ascii_lowercase= ascii_uppercase= digits= punctuation= printable= whitespace= hexdigits=
        octdigits= capwords$""",
    "textwrap": "dedent$ indent$ wrap fill$ shorten$",
    "csv": """reader writer DictReader DictWriter QUOTE_ALL= QUOTE_MINIMAL= QUOTE_NONE= QUOTE_NONNUMERIC= Sniffer
        field_size_limit# Error= excel= excel_tab= unix_dialect= list_dialects""",
    "tomllib": "load loads TOMLDecodeError=",
    "ast": f"parse walk dump$ unparse$ literal_eval get_docstring$ iter_child_nodes iter_fields {_AST}",
    "tokenize": "generate_tokens tokenize NAME= OP= STRING= COMMENT= TokenError=",
    "keyword": "kwlist= iskeyword#",
    "token": "NAME= OP= STRING= NUMBER= tok_name=",
    "glob": "glob! iglob!",
    "fnmatch": "fnmatch# fnmatchcase# filter translate$",
    "pathlib": "Path! PurePath! PurePosixPath! Path.cwd!",
    "os": """listdir! walk! getcwd! sep= linesep= name= environ! getenv! cpu_count# getpid# stat! fspath!
        get_terminal_size makedirs! mkdir! curdir= extsep= pathsep= uname times""",
    "os.path": """join! exists! isfile! isdir! getsize! getmtime! basename$ dirname! splitext! split abspath! relpath$
        normpath! commonpath$ commonprefix$ sep= isabs# islink!""",
    "sys": """argv! version= version_info= stdin! stdout! stderr! exit maxsize= getrecursionlimit# getsizeof# platform=
        byteorder= executable= prefix= base_prefix= implementation= path! getdefaultencoding$ float_info= int_info=
        hexversion= getrefcount# intern$ setrecursionlimit flags= maxunicode= builtin_module_names=
        stdlib_module_names= api_version= getfilesystemencoding$ set_int_max_str_digits""",
    "platform": "platform$ system$ machine$ python_version$ node$ release$ version$ python_implementation$",
    "sysconfig": "get_paths get_path get_config_var get_platform$ get_python_version$",
    "site": "getsitepackages getusersitepackages",
    "hashlib": "md5 sha1 sha224 sha256 sha384 sha512 blake2b blake2s sha3_256 sha3_512 new algorithms_available=",
    "hmac": "new compare_digest# digest",
    "zlib": "crc32# adler32# compress decompress",
    "binascii": "hexlify unhexlify crc32# b2a_hex a2b_hex",
    "base64": """b64encode b64decode urlsafe_b64encode urlsafe_b64decode b32encode b32decode b16encode b16decode
        b85encode b85decode a85encode a85decode standard_b64encode standard_b64decode""",
    "struct": "pack unpack calcsize# unpack_from iter_unpack error=",
    "array": "array",
    "decimal": """Decimal getcontext ROUND_HALF_UP= ROUND_HALF_EVEN= ROUND_DOWN= ROUND_UP= InvalidOperation= Context
        localcontext""",
    "fractions": "Fraction",
    "numbers": "Number= Integral= Real=",
    "difflib": """unified_diff ndiff context_diff SequenceMatcher get_close_matches""",
    "pprint": "pprint pformat$ pp",
    "unicodedata": "name$ normalize$ category$ lookup$ bidirectional$ combining# east_asian_width$ decomposition$",
    "uuid": "uuid4 uuid1 uuid3 uuid5 UUID NAMESPACE_DNS= NAMESPACE_URL=",
    "html": "escape$ unescape$",
    "xml.etree.ElementTree": """parse! fromstring tostring Element SubElement iterparse! ParseError= ElementTree!
        indent tostringlist""",
    "xml.sax.saxutils": "escape$ unescape$ quoteattr$",
    "urllib.parse": """urlparse urlsplit quote$ unquote$ quote_plus$ unquote_plus$ urlencode$ parse_qs parse_qsl
        urljoin$ urlunparse$""",
    "heapq": "heapify nlargest! nsmallest! merge! heappush! heappop!",
    "bisect": "bisect# bisect_left# bisect_right#",
    "copy": "copy! deepcopy!",
    "enum": "",
    "types": "SimpleNamespace!",
    "typing": """Any= Optional= Union= List= Dict= Tuple= Set= Callable= Iterable= Iterator= Sequence= Mapping= Literal=
        TYPE_CHECKING=""",
    "__future__": "annotations= division= print_function=",
    "contextlib": "suppress nullcontext redirect_stdout",
    "warnings": "filterwarnings simplefilter catch_warnings warn",
    "traceback": "print_exc format_exc$",
    "io": "StringIO@file BytesIO@file",
    "sqlite3": "connect! sqlite_version= version= Row= Error= OperationalError= IntegrityError=",
    "zipfile": "ZipFile! BadZipFile= is_zipfile!",
    "tarfile": "open!",
    "gzip": "open! decompress",
    "bz2": "open! decompress",
    "lzma": "open! decompress",
    "configparser": "ConfigParser! RawConfigParser!",
    "importlib": "import_module!",
    "importlib.metadata": "version$ distributions! PackageNotFoundError= metadata requires",
    "importlib.util": "find_spec!",
    "inspect": """signature! getsource! getdoc! isfunction! isclass! ismodule! getmembers! getfile! getsourcefile!
        getmro!""",
    "timeit": "timeit! repeat! default_timer#",
    "logging": """basicConfig! getLogger@logger DEBUG= INFO= WARNING= ERROR= CRITICAL= debug# info# warning# error#
        disable#""",
    "locale": "getlocale getpreferredencoding$",
    "gc": "collect#",
    "resource": "getrusage RUSAGE_SELF=",
    "tracemalloc": "start stop get_traced_memory",
    "dataclasses": "asdict astuple",
    "ipaddress": "ip_address ip_network ip_interface",
    "mimetypes": "guess_type",
    "shlex": "split quote$ join$",
    "stat": "S_ISDIR# S_ISREG# filemode$ S_IMODE#",
    "graphlib": "TopologicalSorter",
    "colorsys": "rgb_to_hsv hsv_to_rgb rgb_to_hls hls_to_rgb",
    "codecs": "BOM_UTF8=",
    "socket": "",
    "ssl": "OPENSSL_VERSION=",
    "curses": "",
    "tkinter": "",
    "readline": "",
    "ctypes": "",
    "threading": "",
    "asyncio": """run! gather! wait_for! to_thread! sleep! get_event_loop@loop new_event_loop@loop TimeoutError=
        CancelledError= Semaphore Lock""",
    # packages
    "yaml": "safe_load safe_load_all safe_dump$ safe_dump_all$ YAMLError= SafeLoader= CSafeLoader= __with_libyaml__=",
    "numpy": _NUMPY,
    "torch": _TORCH,
    "pandas": """read_csv! read_parquet! read_json! read_excel! read_table! read_feather! DataFrame Series concat merge
        to_datetime to_numeric isna notna date_range Timestamp Timedelta set_option cut qcut
        get_dummies unique NA= NaT= Index MultiIndex json_normalize melt""",
    "PIL.Image": "open! new@image",
    "packaging.version": "Version parse InvalidVersion=",
    "packaging.specifiers": "SpecifierSet",
    "packaging.requirements": "Requirement",
    "pytest": "raises! approx",
    "tomli": "load loads TOMLDecodeError=",
    "simplejson": "load loads dump dumps",
    "orjson": "loads dumps",
    "ujson": "load loads dump dumps",
    "dateutil.parser": "parse isoparse",
    "tabulate": "tabulate$",
    "termcolor": "colored$",
    "tqdm": "tqdm! tqdm.tqdm!",
    "regex": "compile match search fullmatch findall finditer sub subn split escape",
}

HIDING = names(
    """chr bytes bytearray base64 binascii zlib gzip bz2 lzma struct array fromhex unhexlify decode
    decompress translate to_bytes hexdigest digest unquote unquote_plus unescape normalize b64decode
    b85decode a85decode b32decode b16decode urlsafe_b64decode standard_b64decode unpack pack a2b_hex
    randbytes token_bytes reversed reverse"""
)
"""By which texts are made that do not stand there to be read."""

# ------------------------------------------------------------------ what data can do

MUTATES = names("append add insert extend update setdefault appendleft extendleft")
METHODS = MUTATES | names(
    """capitalize casefold center count encode endswith expandtabs find index isalnum isalpha isascii
    isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust
    lower lstrip partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit
    rstrip split splitlines startswith strip swapcase title translate upper zfill decode hex fromhex
    maketrans clear copy pop remove reverse sort get items keys popitem values difference
    intersection isdisjoint issubset issuperset symmetric_difference union discard difference_update
    intersection_update popleft rotate most_common elements subtract total move_to_end fromkeys
    bit_length bit_count to_bytes from_bytes as_integer_ratio is_integer conjugate quantize read
    readline readlines write writelines close flush seek tell readable writable getvalue isatty
    group groups groupdict start end span expand match search fullmatch findall finditer sub subn
    isoformat strftime timestamp date time timetuple weekday isoweekday isocalendar astimezone
    total_seconds utcoffset ctime toordinal tzname iter find_all findtext iterfind itertext getroot
    set writerow writerows writeheader sniff has_header digest hexdigest ratio get_opcodes
    get_matching_blocks quick_ratio as_posix relative_to is_relative_to with_suffix with_name
    with_stem joinpath is_absolute as_uri substitute safe_substitute normalize limit_denominator
    static_order stat is_dir is_file is_symlink"""
)
FREE = METHODS - MUTATES - names("replace copy")
"""Methods that may be handed on as functions: those two move and copy files where they are a path's."""
ATTRIBUTES = names(
    """name stem suffix suffixes parts parent parents anchor lineno end_lineno col_offset end_col_offset
    body args arg id attr value func targets target names asname module level keywords
    decorator_list bases returns annotation op ops left right comparators operand elts keys values
    slice ctx test orelse finalbody handlers type generators elt key kwonlyargs vararg kwarg
    defaults kw_defaults posonlyargs ifs exc cause msg items context_expr optional_vars simple
    docstring text tag attrib tail year month day hour minute second microsecond tzinfo days seconds
    microseconds fieldnames line_num pattern flags groupindex string pos endpos re lastindex
    lastgroup start stop step real imag numerator denominator major minor micro releaselevel serial
    st_size st_mtime st_mode st_ctime st_mtime_ns closed encoding mode buffer errors newlines maxlen
    parameters default kind return_annotation empty scheme netloc path params query fragment
    hostname port username hex int version variant columns index dtypes dtype shape size ndim T iloc
    loc at iat str dt nbytes itemsize device requires_grad grad ru_maxrss ru_utime ru_stime columns
    lines metadata release public base_version is_prerelease specifier tm_year tm_mon tm_mday
    tm_hour tm_min tm_sec tm_wday tm_yday prec exact"""
)
FRAME = names(
    """head tail describe info isna isnull notna notnull sum mean median std var min max count nunique
    unique value_counts sort_values sort_index groupby agg aggregate reset_index set_index drop
    dropna fillna duplicated drop_duplicates rename astype corr cov quantile to_dict to_list tolist
    to_string to_markdown to_json iterrows itertuples items merge join melt stack unstack sample
    nlargest nsmallest idxmax idxmin abs round diff shift rolling cumsum pct_change isin between any
    all copy select_dtypes memory_usage explode assign filter mode rank clip item numpy detach cpu
    reshape view flatten squeeze unsqueeze transpose permute argmax argmin argsort dim numel float
    long int double half bool to contiguous norm dot matmul softmax sigmoid relu exp log sqrt pow eq
    ne lt gt le ge ravel tobytes swapaxes prod cumprod ptp nonzero fill sort size first last nth
    ngroups get_group contains lower upper strip len replace startswith endswith extract split cat
    strftime normalize add_prefix add_suffix random integers normal uniform choice permutation
    shuffle standard_normal expand repeat chunk gather scatter backward manual_seed tz_localize
    tz_convert total_seconds resample where mask nonzero"""
)
"""Methods of tables of data and arrays; none takes a path or a text of code."""
RANDOM = names("seed random randint randrange choice choices sample shuffle uniform gauss getrandbits randbytes")
ERROR = names(
    """args msg message code errno strerror filename lineno offset text pos doc colno path json_path validator
    absolute_path schema_path instance context cause name value reason start end returncode status_code problem
    problem_mark errors title detail params messages error_list line column"""
)


FRAMES = names("numpy torch pandas")
PURE, RECORD = "~pure", "~record"
"""A function that only computes, made by another, and one that keeps what it is given under names."""
AGGREGATES = names("mean sum min max count median std var size first last nunique prod any all mode sem idxmax idxmin")
SHOWS = names("to_string to_markdown to_json")
"""Methods that would write a file if they were told where."""
SHOWN = names("index max_rows max_cols orient indent header columns lines")
IMAGE = names(
    """size mode format width height info getpixel convert resize crop getbbox histogram rotate getcolors getextrema
    tobytes n_frames getbands transpose load verify close"""
)


@cache
def functions() -> dict[str, str]:
    """Every name that is taken, with its mark: `json.loads` → ``, `len` → `#`, `open` → `!`."""
    found: dict[str, str] = {}
    for prefix, listed in (("", BUILTINS), *((f"{module}.", words) for module, words in MODULES.items())):
        for word in listed.split():
            name, mark = (word[:-1], word[-1]) if word[-1] in "#$!=" else (word, "")
            plain, at, kind = name.partition("@")
            table = prefix.split(".", 1)[0] in FRAMES
            found[prefix + plain] = f"@{kind}" if at else mark or ("@frame" if table else "")
    found |= dict.fromkeys(ERRORS, "") | {PURE: "", RECORD: "!"}
    return found


@cache
def folders() -> frozenset[str]:
    """What stands between a module and its functions: `numpy.random`, `torch.cuda`."""
    parts = (name.split(".") for name in functions())
    return frozenset(".".join(part[:n]) for part in parts for n in range(1, len(part))) - functions().keys()


@cache
def modules() -> frozenset[str]:
    """Every module that is taken, and those above it."""
    parts = (name.split(".") for name in MODULES)
    return frozenset(".".join(part[:n]) for part in parts for n in range(1, len(part) + 1))
