"""A piece of JavaScript that looks at the project: it computes, reads, prints, and reaches nothing else.

It is read by its words. What gives a name to something that runs, sends, writes or makes code of text is refused
wherever it stands, in a string or not; so are the ways to come by such a name in pieces.
"""

import re

from adderclaw.gate.allowlist import names

MAX_CODE = 20_000

_MODULES = r"(?:node:)?(?:fs|path|util|assert|url|perf_hooks|readline)|\.(?:/[\w@.-]+)+"
_REACHES = (
    r"child_process|worker_threads|\bcluster\b|\bnet\b|\bdgram\b|\bdns\b|\btls\b|https?\b|\bvm\b|\brepl\b|inspector"
    r"|mainModule|\bbinding\b|dlopen|constructor|__proto__|prototype|globalThis|\bglobal\b|\beval\b|\bFunction\b"
    r"|\bReflect\b|\bProxy\b|\bfetch\b|WebSocket|XMLHttpRequest|EventSource|\bmodule\b|\bexports\b|createRequire"
    r"|getBuiltinModule|fromCharCode|fromCodePoint|\batob\b|Buffer|base64|unescape|decodeURI|WebAssembly|\benv\b|homedir"
    r"|\bkill\b|\\[ux]"
)
_PROCESS = names(
    "argv exit exitCode stdout stderr version versions memoryUsage hrtime cwd uptime platform arch nextTick"
)
_FILES = names(
    """readFileSync existsSync readdirSync statSync lstatSync readFile readdir stat promises accessSync access constants
    realpathSync"""
)
_ROOTS = r"/(?:etc|usr|home|root|var|tmp|proc|sys|dev|opt|boot|bin|sbin|lib\w*|mnt|media|srv|run|Users|private)\b"


def is_tame(code: str) -> bool:
    """Whether a piece of code is no more than that; a sandbox is around it."""
    if len(code) > MAX_CODE or re.search(_REACHES, code):
        return False
    texts = re.findall(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`]*`", code)
    if any(re.search(rf"^.(?:{_ROOTS}|~|/$)|\.\./|/\.\.|^.\.\..$", text) for text in texts):
        return False
    return _loads_plainly(code) and _reads_only(code)


def _loads_plainly(code: str) -> bool:
    required = re.findall(r"\brequire\b(?:\(\s*(['\"])([^'\"]*)\1\s*\))?", code)
    imported = re.findall(r"\bimport\b(?:[\w\s{},*$]*?from)?(?:\s*(['\"])([^'\"]*)\1)?", code)
    if not all(re.fullmatch(_MODULES, name) for _, name in (*required, *imported)):
        return False
    # What reads and writes files is known by one name, or by those of its functions that are taken out of it.
    taken = r"(?:const|let|var)\s+(?:fs|\{[\w\s,:]*\})\s*=\s*require\(_F\)|require\(_F\)\.(?:promises\.)?(?:_T)\b"
    taken += r"|import\s+(?:fs|\*\s*as\s+fs|\{[\w\s,]*\})\s+from\s+_F"
    pattern = taken.replace("_T", "|".join(sorted(_FILES - {"promises"}))).replace(
        "_F", r"\s*['\"](?:node:)?fs['\"]\s*"
    )
    named = len(re.findall(r"['\"](?:node:)?fs['\"]", code))
    return named == len(re.findall(pattern, code))


def _reads_only(code: str) -> bool:
    """Whether of the process and of files only what looks is asked for, by its name."""
    for held, taken in (("process", _PROCESS), ("fs", _FILES)):
        uses = re.findall(rf"(?<![\w$.'\"/:]){held}\b(?!['\"])(?:\s*(?:\.|\?\.)\s*(\w+))?", code)
        declared = len(re.findall(rf"(?:const|let|var|import)\s+(?:\*\s*as\s+)?{held}\b", code))
        if uses.count("") > declared or any(name and name not in taken for name in uses):
            return False
    writes = r"\b(?:write|append|rm|rmdir|mkdir|unlink|rename|copy|cp|chmod|chown|symlink|link|truncate|open|utimes)\w*"
    bound = re.findall(r"\{([^{}]*)\}\s*(?:=\s*require|from)", code)
    return not any(re.search(writes, names_) for names_ in bound) and not re.search(rf"{writes}(?:Sync)\b", code)
