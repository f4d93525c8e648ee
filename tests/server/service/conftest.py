"""What tests of the service wait for."""

import time
from collections.abc import Callable
from typing import Any


def until(look: Callable[[], Any], what: str = "", seconds: float = 20) -> Any:
    """What it returns, once that is true."""
    end = time.monotonic() + seconds
    while not (result := look()):
        assert time.monotonic() < end, what or "it did not happen"
        time.sleep(0.02)
    return result
