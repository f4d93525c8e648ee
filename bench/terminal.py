"""What the REPL costs at a terminal: bytes for a long answer, keys while it streams, the start; ratios of one run.

`python bench/terminal.py [PROGRAM]`; without it, the one beside this Python.
"""

import json
import os
import pty
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from statistics import median, quantiles

CONFIG = """
default_provider = "bench"
[providers.models.bench]
kind = "openai-compatible"
model = "bench"
base_url = "http://127.0.0.1:{port}/v1"
api_key_env = "BENCH_KEY"
[models."bench"]
input_per_mtok = 0.0
output_per_mtok = 0.0
"""
CLEARS = (b"\x1b[2J", b"\x1b[3J", b"\x1b[?1049h", b"\x1bc")
WHERE = b"\x1b[6n"


def answer(lines: int) -> str:
    """Headings, prose, code, tables, lists and other scripts, in turn."""
    parts: list[str] = []
    for number in range(lines):
        match number % 5:
            case 0:
                parts.append(
                    f"## Part {number}\n\nSome *words* of `thing{number}`, 漢字テキスト and a [link](https://example.org).\n"
                )
            case 1:
                rows = "\n".join(f"def f{row}(x): return x + {row}  # 注釈" for row in range(12))
                parts.append(f"```python\n{rows}\n```\n")
            case 2:
                rows = "\n".join(f"| {row} | 値{row} |" for row in range(6))
                parts.append(f"| a | b |\n|---|---|\n{rows}\n")
            case 3:
                parts.append("\n".join(f"- item {row} of a list" for row in range(8)) + "\n")
            case _:
                parts.append("\n".join(f"{row + 1}. step {row}" for row in range(8)) + "\n")
        if sum(part.count("\n") + 1 for part in parts) >= lines:
            break
    return "\n".join(parts)


class Model:
    """Streams one text again and again, so many tokens a second."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.text, self.rate = "", 0.0
        self.asked: list[float] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as source:
            while line := source.readline():
                length = 0
                while (header := source.readline()) not in (b"\r\n", b""):
                    if header.lower().startswith(b"content-length:"):
                        length = int(header.split(b":")[1])
                source.read(length)
                if line.startswith(b"POST"):
                    self.asked.append(time.monotonic())
                    with suppress(BrokenPipeError, ConnectionResetError):  # who asked was interrupted
                        self._stream(connection)

    def _stream(self, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        began, tokens = time.monotonic(), re.findall(r"(?s).{1,4}", self.text)
        for number, token in enumerate(tokens):
            _send(connection, {"choices": [{"index": 0, "delta": {"content": token}}]})
            if self.rate and (ahead := began + number / self.rate - time.monotonic()) > 0:
                time.sleep(ahead)
        _send(connection, {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}]})
        _send(connection, {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": len(tokens)}})
        _send(connection, None)
        connection.sendall(b"0\r\n\r\n")


def _send(connection: socket.socket, event: object) -> None:
    data = b"data: " + (json.dumps(event).encode() if event is not None else b"[DONE]") + b"\n\n"
    connection.sendall(b"%x\r\n%s\r\n" % (len(data), data))


class Terminal:
    """The program at a terminal of 80 by 24 that answers where its cursor is."""

    def __init__(self, program: str, home: Path, folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        env["BENCH_KEY"] = "unused"
        self.began = time.monotonic()
        self._process = subprocess.Popen(
            [program, "agent"], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=folder, start_new_session=True
        )
        os.close(theirs)

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def read(self, seconds: float) -> Iterator[bytes]:
        """What is written, as it comes, for so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not select.select([self._ours], [], [], left)[0]:
                return
            try:
                chunk = os.read(self._ours, 1 << 16)
            except OSError:  # the program has ended
                return
            for _ in range(chunk.count(WHERE)):
                self.press("\x1b[1;1R")
            yield chunk

    def until(self, mark: bytes, seconds: float = 120) -> bytes:
        seen = b""
        for chunk in self.read(seconds):
            seen += chunk
            if mark in seen:
                return seen
        raise SystemExit(f"{mark!r} never came: {seen[-500:]!r}")

    def leave(self) -> None:
        self.press("\x04")
        for _ in self.read(1):
            pass
        self._process.terminate()
        self._process.wait()
        os.close(self._ours)


def long_answer(terminal: Terminal, model: Model, lines: int) -> dict[str, object]:
    model.text, model.rate = answer(lines) + "\nthe-very-end\n", 1_000.0
    terminal.press("tell\r")
    seen = terminal.until(b"the-very-end") + b"".join(terminal.read(2))
    text = model.text.encode()
    clears = sum(seen.count(code) for code in CLEARS)
    return {
        "lines": text.count(b"\n"),
        "text_bytes": len(text),
        "times_the_text": round(len(seen) / len(text), 1),
        "clears": clears,
    }


def echoes(terminal: Terminal, count: int) -> list[float]:
    """Seconds from a key to its letter on the screen."""
    took: list[float] = []
    for number in range(count):
        letter = "qjzxvk"[number % 6]
        for _ in terminal.read(0.02):
            pass
        pressed = time.monotonic()
        terminal.press(letter)
        terminal.until(letter.encode(), 10)
        took.append(time.monotonic() - pressed)
    return took


def keys(terminal: Terminal, model: Model, count: int) -> dict[str, object]:
    idle = echoes(terminal, count)
    terminal.press("\x15")
    model.text, model.rate = answer(5_000).replace("q", "").replace("j", "").replace("z", ""), 200.0
    for letter in "xvk":
        model.text = model.text.replace(letter, "")
    terminal.press("tell\r")
    terminal.until(b"Esc interrupts")
    streaming = echoes(terminal, count)
    terminal.press("\x15\x1b")
    terminal.until(b"interrupted")
    high = [quantiles(took, n=20)[-1] for took in (idle, streaming)]
    return {
        "idle_ms": round(median(idle) * 1000, 2),
        "streaming_ms": round(median(streaming) * 1000, 2),
        "p95_ratio": round(high[1] / high[0], 2),
    }


def menu(program: str, home: Path, folder: Path, files: int, rounds: int) -> tuple[float, list[float]]:
    """Milliseconds from the first @ to its menu, and from the keys of a name to the menu that has it."""
    for number in range(files):
        place = folder / f"part{number // 1_000}" / f"of{number // 100 % 10}"
        if number % 100 == 0:
            place.mkdir(parents=True, exist_ok=True)
        (place / f"file{number}.txt").touch()
    (folder / "part0" / "qqneedle.txt").touch()
    terminal = Terminal(program, home, folder)
    terminal.until(b"> ")
    for _ in terminal.read(1):
        pass
    took: list[float] = []
    pressed = time.monotonic()
    terminal.press("@")
    terminal.until(b"part0/")
    first = time.monotonic() - pressed
    for _ in range(rounds):
        terminal.press("\x15")
        for _ in terminal.read(0.1):
            pass
        pressed = time.monotonic()
        terminal.press("@qqn")
        terminal.until(b"needle.txt", 20)
        took.append(time.monotonic() - pressed)
    terminal.leave()
    return first, took


def menus(program: str, home: Path, root: Path, many: int, few: int, rounds: int) -> dict[str, object]:
    """The @ menu in a folder of many files against one of few."""
    figures: list[tuple[float, list[float]]] = []
    for files in (few, many):
        folder = root / f"files{files}"
        (folder / ".git").mkdir(parents=True)
        figures.append(menu(program, home, folder, files, rounds))
    (first_few, took_few), (first_many, took_many) = figures
    return {
        "files": [few, many],
        "first_ms": [round(first_few * 1000), round(first_many * 1000)],
        "letter_ms": [round(median(took_few) * 1000, 1), round(median(took_many) * 1000, 1)],
        "letter_ratio": round(median(took_many) / median(took_few), 2),
    }


def start(program: str, home: Path, folder: Path, model: Model, rounds: int) -> dict[str, object]:
    model.text, model.rate = "ok", 0.0
    prompts: list[float] = []
    requests: list[float] = []
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "BENCH_KEY": "unused"}
    for _ in range(rounds):
        terminal = Terminal(program, home, folder)
        terminal.until(b"> ")
        prompts.append(time.monotonic() - terminal.began)
        terminal.leave()
        model.asked.clear()
        began = time.monotonic()
        subprocess.run(
            [program, "-p", "hi"], env=env, cwd=folder, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
        requests.append((model.asked or [began])[0] - began)
    ratio = median(prompts) / median(requests) if median(requests) else None
    return {
        "prompt_ms": round(median(prompts) * 1000),
        "request_ms": round(median(requests) * 1000),
        "ratio": round(ratio, 2) if ratio else None,
    }


def main() -> None:
    program = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else str(Path(sys.executable).with_name("adderclaw"))
    model = Model()
    with tempfile.TemporaryDirectory() as root:
        home, folder = Path(root) / "home", Path(root) / "project"
        (home / ".adderclaw").mkdir(parents=True)
        (folder / ".git").mkdir(parents=True)
        (home / ".adderclaw" / "config.toml").write_text(CONFIG.format(port=model.port), encoding="utf-8")
        report: dict[str, object] = {"start": start(program, home, folder, model, 5)}
        terminal = Terminal(program, home, folder)
        terminal.until(b"> ")
        report["answer"] = long_answer(terminal, model, 5_000)
        report["keys"] = keys(terminal, model, 60)
        terminal.leave()
        report["menu"] = menus(program, home, Path(root), 100_000, 100, 30)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
