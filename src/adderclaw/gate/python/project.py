"""The project's own code in a piece of Python: which modules are taken for it, and which of their names.

To call what the project defines, with data, is as good as to run a script of it with words. What its modules only pass
on is not: whatever is called like a module of Python's, or like anything public in those that run programs, open files,
load code or reach the network (`exported.txt`, gathered from Python itself), is no name of the project's.
"""

import os
import sys
from functools import cache

from adderclaw.gate.programs.allowlist import names
from adderclaw.gate.programs.languages import is_reaching
from adderclaw.gate.python import table
from adderclaw.gate.python.kinds import Refused

FILE = os.path.join(os.path.dirname(__file__), "exported.txt")
PRIVATE = os.path.join(os.path.dirname(__file__), "private.txt")
SOURCES = """
os posix subprocess shutil sys importlib importlib.util importlib.machinery importlib.resources runpy ctypes
ctypes.util socket pty tty code codeop pickle pickletools marshal shelve dbm multiprocessing
multiprocessing.connection multiprocessing.managers multiprocessing.pool concurrent.futures asyncio.subprocess
signal pathlib tempfile webbrowser urllib.request http.client http.server socketserver ftplib smtplib poplib imaplib
xmlrpc.client xmlrpc.server types inspect gc fileinput zipimport pkgutil pdb bdb cProfile profile trace venv
ensurepip site mmap fcntl termios atexit logging.config linecache py_compile compileall getpass pwd zipfile tarfile
sqlite3 io builtins cmd pydoc doctest timeit glob
"""
TYPES = "FrameType CodeType GeneratorType CoroutineType AsyncGeneratorType TracebackType FunctionType MethodType"
"""Types whose attributes lead to the names of the code that they belong to."""
METHODS = names(
    """unlink rmdir rename symlink_to hardlink_to link_to write_text write_bytes touch mkdir chmod lchmod
    open read_text read_bytes joinpath glob rglob iterdir expanduser home extractall extract execute
    executemany executescript cursor raw load_extension enable_load_extension backup connect bind
    listen accept sendall sendto recv format format_map delete drop drop_all truncate flush
    bulk_delete call_command mro to_pickle read_pickle to_sql read_sql eval query run_line_magic
    run_cell get_ipython load_module exec_module get_code get_data loader get_source spec
    system_raw shell cmd popen2 popen3 getoutput spawn sudo run_command put upload download deploy
    publish send_file send_mail sendmail send_message shutdown reboot kill terminate tofile to_csv to_excel to_parquet
    to_feather to_hdf to_html to_latex to_stata to_orc to_xml to_clipboard to_gbq savez savetxt savefig fromfile"""
)
"""What paths, archives, databases and connections do, which a project may hand out: never called from a piece."""
_WORDS = names(
    """cli classname clear collect describe debug doc dispatch describe files filename html link load loads logger plain
    worker send partial contents enable disable datetime timedelta families responses audit adapters locate access
    main test help get create register call run copy write read close walk stat repeat name path exit
    wait times type types print len str int float list dict set tuple sorted sum min max map filter
    zip range iter next id hash format all any abs round bool bytes enumerate reversed repr slice
    property object super cache string signature Parameter stack Lock Event Queue Value Array Pool
    Process Executor Future Client Server Request Response Handle Task quote unquote reader writer
    Reader Writer scan split dump dumps Error error warn log Stats stats Profile trace Trace Test
    label Label Table table local Local Union Structure select Doc text Text Row connect adapt
    complete escape unescape resolve Any Flag Enum flags Sequence Mapping version platform token
    Manager context Context array count label find submit result done exception shape size pack
    unpack getattr_static compile_project match index Connection Cursor stop is_running is_closed
    create_task get_logger"""
)
_ENTRIES = names(
    """cli describe debug doc dispatch files html logger plain worker responses adapters locate families
    main test create register dump dumps escape quote text label version token context cache resolve
    signature Client Server Request Response Row read Doc Parameter Event Queue Lock Value Union
    Sequence Mapping Trace Profile array stack trace stop is_running is_closed create_task
    filter all get_logger close select id"""
)
"""What a project's modules usually define themselves."""
_OF_OBJECTS = names(
    """json time email code copy string uuid token types select platform random datetime math re calendar html queue
    numbers statistics test parser symbol graphlib enum array fractions decimal keyword stat struct locale heapq"""
)
"""Modules of Python's whose names are those of usual attributes, and which, should it be one, pass on nothing else."""
_PASSES_NOTHING = names("select email")
"""What is neither more, nor leads to more under a name that is not itself one of Python's."""
_OLD = names(
    "imp distutils asyncore asynchat smtpd commands popen2 pipes crypt telnetlib nntplib cgi cgitb md5 sets new"
)
_EVALUATES = names(
    """sympy numexpr jinja2 mako tornado simpleeval asteval jsonpickle dill cloudpickle joblib cffi cython
    Cython numba pip setuptools pkg_resources wheel build twine pluggy nose py tox nox invoke fabric
    sh plumbum pexpect delegator envoy psutil pyperclip pyautogui IPython ipykernel jupyter
    nbconvert papermill code2flow pycparser execnet ray dask celery airflow prefect luigi scrapy
    boto3 botocore google azure paramiko asyncssh ftputil smbprotocol ldap3 kazoo consul hvac
    keyring gnupg cryptography nacl Crypto jwt tensorflow keras transformers datasets sklearn
    xgboost lightgbm sqlalchemy alembic peewee tortoise pony dataset records asyncpg psycopg
    psycopg2 pymysql MySQLdb pymongo redis elasticsearch cassandra neo4j clickhouse_driver requests
    httpx aiohttp urllib3 httplib2 pycurl grpc zmq pika kafka websocket websockets socketio
    slack_sdk telegram discord tweepy twilio sendgrid yagmail imapclient selenium playwright
    pyppeteer mechanize bs4_requests docker kubernetes openshift ansible salt pyinfra libcloud git
    dulwich pygit2 github gitlab jenkins jira six future past builtins2 ctypeslib pyximport cppyy
    pybind11 weave win32api win32com comtypes pynput keyboard mouse evdev serial usb bluetooth scapy
    impacket pwn pwnlib shodan nmap frida mitmproxy uvicorn gunicorn hypercorn waitress daphne
    werkzeug supervisor circus watchdog schedule apscheduler crontab daemon pystray webview eel
    flaskwebgui streamlit gradio dash bokeh panel marimo nicegui pdfkit weasyprint imgkit ffmpeg
    moviepy pydub sounddevice gtts pyttsx3 cv2 pytesseract wand gradio_client openai anthropic
    langchain llama_index huggingface_hub pytube yt_dlp instaloader wget gdown mega pysftp sshtunnel
    rpyc Pyro4 Pyro5 dbus gi systemd pyudev netmiko napalm nornir zope ZODB klepto shelve2 diskcache
    sqlitedict tinydb pandasql duckdb polars pyarrow h5py tables zarr fsspec s3fs gcsfs adlfs
    smart_open cookiecutter copier mypy pylint flake8 black isort coverage hypothesis doit scons waf
    conan conda mamba virtualenv pipenv poetry pdm hatch uv nodeenv pre_commit ptpython bpython
    xonsh hy vulture bandit semgrep manhole debugpy pudb ipdb pdbpp rpdb remote_pdb pyrasite pyringe
    objgraph guppy line_profiler memory_profiler traitlets ruamel oyaml ruamel_yaml hydra omegaconf
    jupyter_client jupyter_core nbclient nbformat ptyprocess sarge fire dotenv_cli distlib distutils cx_Freeze
    PyInstaller nuitka pyarmor uncompyle6 restrictedpython RestrictedPython pyparsing_eval lupa js2py quickjs
    py_mini_racer pythonnet clr jpype jnius rpy2 oct2py matlab webbrowser2 pyshark netifaces socks"""
)
"""Packages that run programs, evaluate texts, unpack objects, or reach other machines: imported, and no more."""


_NEVER = names(
    """call_command execute_from_command_line get_ipython import_string import_item import_object import_from_string
    import_class import_attr import_module unsafe_load full_load unsafe_load_all launch open_file run_path run_module"""
)
"""What a package has that calls or loads whatever it is told by name."""


@cache
def exported() -> frozenset[str]:
    with open(FILE, encoding="ascii") as file:
        return names(file.read())


@cache
def private(*, top: bool) -> frozenset[str]:
    """The names with one underscore in Python's library: of its modules, or all that stand anywhere in it."""
    with open(PRIVATE, encoding="ascii") as file:
        modules, rest = file.read().split("\n\n")
    return names(modules) if top else names(modules) | names(rest)


def gathered() -> frozenset[str]:
    """The public names of the modules and types above, as the Python that runs has them."""
    import importlib
    import types

    found: set[str] = set()
    for source in SOURCES.split():
        made = importlib.import_module(source)
        public = (name for name in dir(made) if not name.startswith("_"))
        found |= {name for name in public if not _is_constant(getattr(made, name))}
    for kind in TYPES.split():
        found |= {name for name in dir(getattr(types, kind)) if not name.startswith("_")}
    found |= {name for name in dir(importlib.import_module("asyncio").AbstractEventLoop) if not name.startswith("_")}
    return frozenset(found)


def gathered_private() -> frozenset[str]:
    """The names with one underscore that stand in the library of the Python that runs, or in what is built in."""
    import importlib
    import re
    from pathlib import Path

    found: set[str] = set()
    for module in sorted(sys.builtin_module_names):
        made = importlib.import_module(module)
        for one in (made, *(kind for kind in vars(made).values() if isinstance(kind, type))):
            found |= {name for name in dir(one) if re.fullmatch(_ONE, name)}
    library = Path(os.__file__).parent
    for place in sorted((*library.glob("*.py"), *library.glob("*/*.py"), *library.glob("*/*/*.py"))):
        if _ASIDE.isdisjoint(place.relative_to(library).parts):
            found |= set(re.findall(rf"(?<!\w){_ONE}", place.read_text("utf-8", "replace")))
    return frozenset(found)


_ONE = r"_[A-Za-z0-9]\w*"
_ASIDE = names("test tests idlelib turtledemo lib2to3 site-packages __pycache__ tkinter ensurepip turtle.py")


def _is_constant(value: object) -> bool:
    from types import ModuleType

    plain = isinstance(value, str | bytes | int | float | tuple | ModuleType | None)
    return plain or (isinstance(value, type) and issubclass(value, BaseException))


@cache
def _modules() -> frozenset[str]:
    return sys.stdlib_module_names | _OLD


def check_module(name: str) -> bool:
    """Whether a module is the project's, or installed for it; False where a table says what is taken of it."""
    root, *inner = name.split(".")
    if not all(part.isidentifier() for part in (root, *inner)) or (root.startswith("_") and name != "__future__"):
        raise Refused(f"the module {name}")
    for part in inner:
        if part.startswith("_"):
            _check_private(part, top=True)
    if name.startswith("django.core.management"):
        raise Refused(f"{name}, whose commands are called by their names")
    if name in table.modules():
        return False
    if root in _modules():
        raise Refused(f"the module {name} of Python's")
    return not (root in table.modules() or is_reaching(root) or root in _EVALUATES)


_TAME = names("_asdict _fields _replace _meta")
"""What records and models have under such a name: it shows them, or makes another."""


def _check_private(name: str, *, top: bool) -> None:
    """One underscore before a name makes it the project's own, unless Python's library has it, or what is behind it."""
    rest = name.strip("_")
    odd = name.startswith("__") or not rest or not name.isascii() or {name, rest} & (_modules() | _NEVER)
    if odd or rest in exported() or rest in METHODS or rest in _EVALUATES or is_reaching(rest):
        raise Refused(f"{name} of the project's code")
    if name not in _TAME and name in private(top=top):
        raise Refused(f"{name}, which Python's own library has, too")


def check_imported(name: str) -> None:
    """Whether `from mypkg import name` may be taken: it is asked of a module, and of nothing else."""
    if name.startswith("_"):
        _check_private(name, top=True)
    elif name not in METHODS or name in exported():
        check_name(name, module=True)


def check_name(name: str, *, module: bool) -> None:
    """Whether a name may be asked of the project's code: of what may be a module, or of an object."""
    if name.startswith("_"):
        _check_private(name, top=False)
        return
    if name in _NEVER:
        raise Refused(f"{name} of the project's code")
    refused = _modules() - (_PASSES_NOTHING if module else _OF_OBJECTS)
    known = exported() - (_ENTRIES if module else _WORDS)
    if name in refused or name in known or name in METHODS:
        raise Refused(f"{name}, which may be more than the project's own")
