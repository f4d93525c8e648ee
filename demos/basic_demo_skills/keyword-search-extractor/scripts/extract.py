#!/usr/bin/env python3
"""Prints the lines of text files that hold one of some keywords, with file, line number and context."""

import argparse
import json
import os
import re
import sys

SKIPPED = {".git", "node_modules", ".venv", "__pycache__"}
LARGEST = 5_000_000
LONGEST = 400


def files(paths, endings):
    for path in paths:
        if os.path.isfile(path):
            yield path
            continue
        for here, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if name not in SKIPPED)
            for name in sorted(names):
                whole = os.path.join(here, name)
                if not os.path.islink(whole) and (not endings or name.endswith(tuple(endings))):
                    yield whole


def text_of(path):
    """The lines of a text file; None for what is none, or too large."""
    try:
        if os.path.getsize(path) > LARGEST:
            return None
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    return None if b"\0" in data else data.decode("utf-8", "replace").splitlines()


def shown(line):
    """A line that steers no terminal and is not endless."""
    return "".join(char if char.isprintable() or char == "\t" else "?" for char in line[:LONGEST])


def search(pattern, paths, endings, context, most):
    matches, looked, skipped, hit = [], 0, 0, 0
    for path in files(paths, endings):
        lines = text_of(path)
        if lines is None:
            skipped += 1
            continue
        looked += 1
        found = [number for number, line in enumerate(lines) if pattern.search(line[:10_000])]
        hit += bool(found)
        for number in found:
            if len(matches) >= most:
                return matches, looked, skipped, hit, True
            around = range(max(0, number - context), min(len(lines), number + context + 1))
            near = [{"line": n + 1, "text": shown(lines[n])} for n in around if n != number]
            matches.append({"path": path, "line": number + 1, "text": shown(lines[number]), "context": near})
    return matches, looked, skipped, hit, False


def pattern_of(keywords, regex):
    parts = keywords if regex else [re.escape(word) for word in keywords]
    try:
        pattern = re.compile("|".join(f"(?:{part})" for part in parts), re.IGNORECASE)
    except re.error as error:
        sys.exit(f"extract.py: not a pattern: {error}")
    if pattern.search(""):
        sys.exit("extract.py: a keyword that matches everything finds nothing; give a longer one")
    return pattern


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", default=["."])
    parser.add_argument("--keyword", action="append", required=True)
    parser.add_argument("--regex", action="store_true", help="the keywords are regular expressions")
    parser.add_argument("--ending", action="append", help="only files that end so, such as .md")
    parser.add_argument("--context", type=int, default=0)
    parser.add_argument("--max", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    missing = [path for path in given.paths if not os.path.exists(path)]
    if missing:
        sys.exit(f"extract.py: there is no {missing[0]!r}")
    pattern = pattern_of(given.keyword, given.regex)
    matches, looked, skipped, hit, cut = search(
        pattern, given.paths, given.ending, max(0, min(given.context, 20)), max(1, given.max)
    )
    if given.json:
        print(json.dumps({"matches": matches, "files": looked, "skipped": skipped, "cut": cut}))
        return
    for match in matches:
        before = [near for near in match["context"] if near["line"] < match["line"]]
        after = [near for near in match["context"] if near["line"] > match["line"]]
        for near in before:
            print(f"{match['path']}-{near['line']}- {near['text']}")
        print(f"{match['path']}:{match['line']}: {match['text']}")
        for near in after:
            print(f"{match['path']}-{near['line']}- {near['text']}")
    more = ", and more that are not shown" if cut else ""
    print(f"{len(matches)} match{'es' * (len(matches) != 1)} in {hit} of {looked} files{more}")


if __name__ == "__main__":
    main()
