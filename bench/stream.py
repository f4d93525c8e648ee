"""A streamed answer of 1 MB in pieces of 7 bytes: seconds of the processor, for each program and as a ratio.

`python bench/stream.py before=/path/to/adderclaw now=.venv/bin/adderclaw`; without them, the one beside this Python.
The time should grow with the length of an answer, whatever is in it: each line also has the ratio to an answer a
quarter as long. A program that takes longer than `--patience` is ended, and its ratio is a bound.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.measuring import CONFIG, versions

PIECE = 7
ANSWERS = {
    "words": "a few words and more of them\n",
    "JSON without blanks": '{"id":[1,2,3],"name":"value"},',
    "a table": "| one | two words | three |\n",
}


class Answers(ThreadingHTTPServer):
    """A Chat Completions server that streams one text."""

    text = ""


class Handler(BaseHTTPRequestHandler):
    server: Answers  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        text = self.server.text
        pieces = [text[place : place + PIECE] for place in range(0, len(text), PIECE)]
        choices: list[dict[str, Any]] = [{"delta": {"content": piece}} for piece in pieces]
        choices.append({"delta": {}, "finish_reason": "stop"})
        events = [json.dumps({"model": "m", "choices": [one]}) for one in choices]
        try:
            self.wfile.write("".join(f"data: {one}\n\n" for one in events).encode() + b"data: [DONE]\n\n")
        except ConnectionError:
            pass  # the program was ended

    def log_message(self, format: str, *args: Any) -> None:
        pass


def seconds(program: str, home: Path, patience: float) -> float:
    """Of the processor, from the start of the program to the end of the answer; infinity where that is not reached."""
    env = {"PATH": os.defpath, "HOME": str(home), "LANG": "C.UTF-8", "BENCH_KEY": "none"}
    before = os.times()
    command = [program, "agent", "-m", "go"]
    try:
        subprocess.run(command, env=env, cwd=home / "work", capture_output=True, check=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return float("inf")
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="NAME=PROGRAM")
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--patience", type=float, default=60.0, help="seconds after which a program is ended")
    given = parser.parse_args()
    programs = versions(given.programs)
    server = Answers(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("| answer | program | CPU, s | × a quarter of it | × the first program |\n|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="adderclaw-bench-") as folder:
        home = Path(folder)
        (home / ".adderclaw").mkdir(mode=0o700)
        (home / "work").mkdir()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        (home / ".adderclaw" / "config.toml").write_text(CONFIG.format(work=home / "work", url=url, key="BENCH_KEY"))
        for what, unit in ANSWERS.items():
            first = 0.0
            for name, program in programs.items():
                took: list[float] = []
                for size in (given.size // 4, given.size):
                    server.text = (unit * (size // len(unit) + 1))[:size]
                    took.append(seconds(program, home, given.patience))
                first = first or took[1]
                print(f"| {what} | {name} | {shown(took, first, given.patience)} |", flush=True)


def shown(took: list[float], first: float, patience: float) -> str:
    """Seconds, and the two ratios; bounds where a program was ended."""
    never = float("inf")
    if took[1] == never:
        return f"> {patience:.0f} | – | –"
    ratio = f"{took[1] / first:.2f}" if first < never else f"< {took[1] / patience:.3f}"
    return f"{took[1]:.2f} | {took[1] / took[0]:.1f} | {ratio}"


if __name__ == "__main__":
    main()
