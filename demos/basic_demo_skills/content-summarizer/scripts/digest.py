#!/usr/bin/env python3
"""Prints the outline, the size and the key sentences of a text or Markdown file."""

import argparse
import json
import os
import re
import sys
from collections import Counter

LARGEST = 5_000_000
EMPTY = set(
    "a about after all also an and are as at be because been but by can could do for from had has have he her his how "
    "if in into is it its may more most no not of on one only or other our out over she should so some such than that "
    "the their them then there these they this to up was we were what when which who will with would you your".split()
)


def read(path):
    try:
        if os.path.getsize(path) > LARGEST:
            sys.exit(f"digest.py: {path!r} is larger than {LARGEST} bytes; split it first")
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        sys.exit(f"digest.py: {path!r} cannot be read: {error.strerror}")
    if b"\0" in data:
        sys.exit(f"digest.py: {path!r} is not a text file")
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)


def outline(text):
    """Headings with the words below each, and the prose without headings and code."""
    headings, prose, fence = [], [], ""
    for line in text.split("\n"):
        mark = re.match(r" {0,3}(```|~~~)", line)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
            continue
        if fence:
            continue
        heading = re.fullmatch(r" {0,3}(#{1,6})\s+(.*?)\s*#*", line)
        if heading:
            headings.append({"level": len(heading[1]), "title": heading[2], "words": 0})
            prose.append("")
            continue
        if line.lstrip().startswith("|"):
            continue  # a table has no sentences
        if headings:
            headings[-1]["words"] += len(line.split())
        prose.append(line)
    return headings, "\n".join(prose)


def sentences(prose):
    flat = re.sub(r"^[ \t]*(?:[-*+]|\d+[.)])[ \t]+", "\n\n", prose, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n", flat):
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z0-9\"'(])", " ".join(block.split())):
            if len(sentence.split()) >= 4:
                yield sentence


def key_sentences(prose, most):
    found = list(sentences(prose))
    words = [[word for word in re.findall(r"[^\W\d_]{3,}", one.lower()) if word not in EMPTY] for one in found]
    weight = Counter(word for one in words for word in one)
    score = [sum(weight[word] for word in set(one)) / (len(one) ** 0.5 or 1) for one in words]
    score = [points + (2 if re.search(r"\d", found[place]) else 0) for place, points in enumerate(score)]
    best = sorted(range(len(found)), key=lambda place: (-score[place], place))[:most]
    terms = sorted(weight, key=lambda word: (-weight[word], word))[:10]
    return [found[place][:500] for place in sorted(best)], terms


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--sentences", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    text = read(given.file)
    headings, prose = outline(text)
    best, terms = key_sentences(prose, max(1, min(given.sentences, 50)))
    made = {"file": given.file, "words": len(text.split()), "outline": headings, "terms": terms, "sentences": best}
    if given.json:
        print(json.dumps(made))
        return
    print(f"{made['words']} words, {len(headings)} headings")
    for heading in headings:
        print(f"{'  ' * heading['level']}{heading['title']} ({heading['words']} words)")
    print(f"\nFrequent: {', '.join(terms)}\n\nKey sentences:")
    for sentence in best:
        print(f"- {sentence}")


if __name__ == "__main__":
    main()
