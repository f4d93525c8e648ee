"""Checks the licence of every package that an installation with all extras would bring against the list here."""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution

sys.path.insert(0, __file__.rpartition("/")[0])
from dependencies import locked

ALLOWED = {
    *(
        "0BSD",
        "Apache-2.0",
        "BSD",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "CNRI-Python",
        "ISC",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "PSF-2.0",
    ),
    *("Python-2.0", "Unlicense", "Zlib", "ZPL-2.1"),
    # weak copyleft: used as it is, and not changed by us
    *("MPL-2.0", "MPL-1.1", "LGPL-2.0-or-later", "LGPL-2.1-or-later", "LGPL-3.0-only", "LGPL-3.0-or-later"),
}
SPELLINGS = {
    "apache": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD",
    "bsd license": "BSD",
    "the bsd 2-clause license": "BSD-2-Clause",
    "bsd-3": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "gnu lesser general public license v3 (lgplv3)": "LGPL-3.0-only",
    "lgpl with exceptions": "LGPL-3.0-only",
    "lgplv3": "LGPL-3.0-only",
    "python software foundation license": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
}
"""How packages spell what SPDX names."""
TEXTS = {
    "Permission is hereby granted, free of charge, to any person obtaining a copy": "MIT",
    "Apache License Version 2.0, January 2004": "Apache-2.0",
}
"""How the files of licences begin, for packages whose metadata names none."""


def licence_of(name: str) -> str:
    """As an SPDX expression, where the metadata has one; else its other fields; else by the licence's own text."""
    found = distribution(name)
    about = found.metadata
    if expression := about.get("License-Expression"):
        return expression
    classifiers = [one.rpartition(" :: ")[2] for one in about.get_all("Classifier", []) if one.startswith("License ::")]
    said = (about.get("License") or "").strip()
    words = [said] if said and len(said) < 60 else classifiers or [said[:60]]
    return " AND ".join(SPELLINGS.get(one.lower(), one) for one in words if one) or in_files(found)


def in_files(found: Distribution) -> str:
    """What its files of licences are, where all of them are known."""
    files = [one for one in found.files or () if one.name.upper().startswith(("LICENSE", "LICENCE", "COPYING"))]
    texts = [" ".join(one.read_text().split())[:2000] for one in files]
    known = [next((named for words, named in TEXTS.items() if words in text), "an unknown text") for text in texts]
    return " AND ".join(dict.fromkeys(known))


def is_allowed(expression: str) -> bool:
    """OR: one is enough; AND, or a slash or comma of old metadata: all of them."""
    if " OR " in expression:
        return any(is_allowed(part) for part in expression.strip("()").split(" OR "))
    parts = re.split(r" AND |/|, ", expression.replace("(", "").replace(")", ""))
    return all(part.partition(" WITH ")[0].strip() in ALLOWED for part in parts)


def problems() -> Iterator[str]:
    for name in locked():
        try:
            licence = licence_of(name)
        except PackageNotFoundError:
            continue  # for another system
        if not is_allowed(licence):
            said = licence or "no licence in its metadata and files"
            yield f"{name}: {said}: that is not in the list of scripts/check_licences.py"


def main() -> None:
    found = [*problems()]
    sys.exit("\n".join(found) if found else None)


if __name__ == "__main__":
    main()
