"""What stands in for `sandbox-exec`: reads the profile as Seatbelt would, and has bubblewrap enforce it.

`python sandbox_exec.py -p PROFILE PROGRAM …`. As a module: `read` and `may`, for tests on the text alone.
"""

import os
import sys

type Form = str | list["Form"]

KNOWN = {
    *("process-fork", "process-exec", "process-info*", "signal", "sysctl-read", "ipc-posix-sem", "mach-lookup"),
    *("file-map-executable", "file-read*", "file-read-metadata", "file-write*", "network*", "network-outbound"),
    *("file-write-setugid", "network-inbound", "network-bind", "system-socket", "default"),
}
"""The operations that our profiles name: sandbox-exec refuses a profile with any that it does not know."""


def read(text: str) -> list[Form]:
    """A small reader of S-expressions: lists, words, and strings with backslashes."""
    stack: list[list[Form]] = [[]]
    at = 0
    while at < len(text):
        char = text[at]
        if char == "(":
            stack.append([])
        elif char == ")":
            done = stack.pop()
            stack[-1].append(done)
        elif char == '"':
            word, at = "", at + 1
            while text[at] != '"':
                at += text[at] == "\\"
                word, at = word + text[at], at + 1
            stack[-1].append(f'"{word}')
        elif not char.isspace():
            start = at
            while at < len(text) and not text[at].isspace() and text[at] not in '()"':
                at += 1
            stack[-1].append(text[start:at])
            continue
        at += 1
    assert len(stack) == 1, "every list is closed"
    return stack[0]


def may(forms: list[Form], what: str, path: str) -> bool:
    """Whether a profile lets somebody do that with a path: the last rule that fits decides."""
    verdict = False
    for form in forms:
        verdict_of, words, places = parts(form)
        if not any(word == what or (word.endswith("*") and what.startswith(word[:-1])) for word in words):
            continue
        fits = not places
        for kind, named in places:
            fits = fits or path == named or (kind == "subpath" and path.startswith(f"{named}/"))
        verdict = verdict_of == "allow" if fits else verdict
    return verdict


def parts(form: Form) -> tuple[str, list[str], list[tuple[str, str]]]:
    """allow or deny, the operations, and the places as (literal or subpath, path)."""
    assert isinstance(form, list)
    words = [word for word in form[1:] if isinstance(word, str)]
    places = [place for place in form[1:] if isinstance(place, list)]
    return str(form[0]), words, [(str(place[0]), str(place[-1])[1:]) for place in places]


def mounts(forms: list[Form]) -> list[str]:
    """The rules as mounts, in their order: what comes later lies on top, as the last rule decides."""
    whole = forms[1] == ["allow", "default"]
    made = ["--dev-bind", "/", "/"] if whole else ["--dev", "/dev", "--proc", "/proc"]
    for link in () if whole else ("/bin", "/sbin", "/lib", "/lib64"):
        made += ["--symlink", os.readlink(link), link] if os.path.islink(link) else []
    network = whole
    rules = [parts(form) for form in forms[1:]]
    pinned = [rule for rule in rules if rule[0] == "deny" and [kind for kind, _ in rule[2]][:1] == ["literal"]]
    kept = next((at for at, rule in enumerate(rules) if rule[0] == "deny" and rule[2]), len(rules))
    # a mount that pins a folder must not lie on those in it
    for verdict, words, places in (*rules[:kept], *pinned, *(rule for rule in rules[kept:] if rule not in pinned)):
        assert set(words) <= KNOWN, f"operations that Seatbelt does not know: {set(words) - KNOWN}"
        network = network if "network*" not in words else verdict == "allow"
        network = network or (verdict == "allow" and "network-bind" in words)
        for kind, path in places:
            if path.startswith("/dev/") or not os.path.isabs(path) or not os.path.exists(path):
                continue
            if verdict == "allow" and kind == "subpath" and not os.path.islink(path):
                made += ["--bind" if "file-write*" in words else "--ro-bind", path, path]
            elif verdict == "deny" and "file-read*" in words:
                made += ["--tmpfs", path, "--remount-ro", path] if os.path.isdir(path) else []
                made += [] if os.path.isdir(path) else ["--perms", "0000", "--ro-bind-data", "0", path]
            elif verdict == "deny" and kind == "subpath" and "file-write*" in words:
                made += ["--ro-bind", path, path]
            elif verdict == "deny" and "file-write*" in words:
                made += ["--bind", path, path]  # a mount cannot be moved or removed
    made += [] if whole else ["--remount-ro", "/"]
    return [*made, *([] if network else ["--unshare-net"])]


def main(bwrap: str, arguments: list[str]) -> None:
    assert arguments[0] == "-p"
    assert os.path.isabs(arguments[2])
    forms = read(arguments[1])
    assert forms[0] == ["version", "1"]
    assert forms[1] in (["deny", "default"], ["allow", "default"])
    argv = ["bwrap", "--unshare-pid", "--die-with-parent", "--cap-drop", "ALL", *mounts(forms)]
    if "SEATBELT_LOG" in os.environ:
        with open(os.environ["SEATBELT_LOG"], "a", encoding="utf-8") as log:
            log.write(arguments[1])
    os.execv(bwrap, [*argv, "--chdir", os.getcwd(), "--", *arguments[2:]])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
