#!/usr/bin/env python3
"""Writes a Markdown report from named sections in the order of a shape; what is missing is marked."""

import argparse
import os
import re
import sys

SHAPES = {
    "report": ["Summary", "Background", "Findings", "Next steps"],
    "status": ["Summary", "Done", "In progress", "Risks", "Next steps"],
    "postmortem": ["Summary", "Impact", "Timeline", "Cause", "Next steps"],
}
LARGEST = 500_000
GAP = "TO BE FILLED"


def content(value):
    if not value.startswith("@"):
        return value.replace("\\n", "\n").strip()
    path = value[1:]
    try:
        if os.path.getsize(path) > LARGEST:
            sys.exit(f"draft.py: {path!r} is larger than {LARGEST} bytes; summarize it first")
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        sys.exit(f"draft.py: {path!r} cannot be read: {error.strerror}")
    if b"\0" in data:
        sys.exit(f"draft.py: {path!r} is not a text file")
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n").strip()


def lowered(text):
    """Headings of a text two levels deeper, so that they stay inside of their section; code is left alone."""
    lines, fence = [], ""
    for line in text.split("\n"):
        mark = re.match(r" {0,3}(```|~~~)", line)
        if mark and (not fence or fence == mark[1]):
            fence = "" if fence else mark[1]
        elif not fence:
            line = re.sub(r"^(#{1,6}) ", lambda found: "#" * min(6, len(found[1]) + 2) + " ", line)
        lines.append(line)
    return "\n".join(lines)


def sections(given):
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            sys.exit(f"draft.py: --section {text[:60]!r}: write NAME=TEXT or NAME=@FILE")
        name = " ".join(name.split())
        known = next((one for shape in SHAPES.values() for one in shape if one.lower() == name.lower()), name)
        if known in found:
            sys.exit(f"draft.py: the section {known!r} is given twice")
        found[known] = content(value.strip())
    return found


def drafted(title, shape, found):
    order = SHAPES[shape][:-1] + [name for name in found if name not in SHAPES[shape]] + SHAPES[shape][-1:]
    parts = [f"## {name}\n\n{lowered(found.get(name, '')) or GAP}" for name in order]
    return "\n\n".join([f"# {' '.join(title.split())}", *parts]) + "\n", [name for name in order if not found.get(name)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--title", required=True)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="report")
    parser.add_argument("--section", action="append", default=[], metavar="NAME=TEXT")
    parser.add_argument("--out", help="write to this new file; without it, to standard output")
    given = parser.parse_args()
    if not given.title.strip():
        sys.exit("draft.py: the title is empty")
    text, gaps = drafted(given.title, given.shape, sections(given.section))
    if not given.out:
        print(text, end="")
    else:
        try:
            with open(given.out, "x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            sys.exit(f"draft.py: {given.out!r} was not written: {error.strerror}")
        print(f"written to {given.out}")
    if gaps:
        print(f"to be filled: {', '.join(gaps)}", file=sys.stderr)


if __name__ == "__main__":
    main()
