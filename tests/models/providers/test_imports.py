"""What a provider imports until its first request is sent."""

import os
import subprocess
import sys

import pytest

HEAVY = (
    *("anthropic", "anyio", "email", "html", "http.client", "httpcore2", "httpx2", "idna", "importlib.metadata"),
    *("openai", "pydantic", "rich", "tempfile", "uuid", "yaml"),
)


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai", "responses"])
def test_the_way_to_the_first_request_imports_nothing_heavy(provider: str) -> None:
    code = f"import sys, adderclaw.models.providers.{provider}; print([m for m in {HEAVY} if m in sys.modules])"
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}  # it imports some
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
