"""The scripted model itself: it must not let a test pass that should not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from adderclaw.core.errors import ProviderError
from tests.models.providers.making import House, ask, chat_entry, request
from tests.scripted import ScriptedModel


def test_steps_left_over_fail() -> None:
    with pytest.raises(AssertionError, match="2 of 2 steps were left over"), ScriptedModel([{"text": "a"}] * 2):
        pass


def test_a_request_beyond_the_script_fails() -> None:
    def one_too_many() -> None:
        with ScriptedModel() as model, pytest.raises(ProviderError, match="exhausted"):
            ask(House({"p": chat_entry(model.base_url)}).make("p"), request())

    with pytest.raises(AssertionError, match="request 1 came after the last of 0 steps"):
        one_too_many()


def test_a_failing_test_is_not_hidden_by_its_leftovers() -> None:
    with pytest.raises(ZeroDivisionError), ScriptedModel([{"text": "a"}]):
        _ = 1 / 0


def test_as_a_program(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"steps": [{"text": "You said {{last_user}}."}, {"text": "left over"}]}))
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "tests.scripted", str(script)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, text=True, cwd=root) as program:
        assert program.stdout
        base_url = json.loads(program.stdout.readline())["base_url"]
        answer = ask(House({"p": chat_entry(base_url)}).make("p"), request())[0]
        _, complaint = program.communicate("")
    assert answer.final_text == "You said hello."
    assert program.returncode == 1
    assert "1 of 2 steps were left over" in complaint
