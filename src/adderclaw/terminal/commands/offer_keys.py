"""Offers the keys in the environment to a person at a terminal, once, if no model is configured."""

import os
import sys

from adderclaw.config import home, operator_file
from adderclaw.config.model_facts import found_keys
from adderclaw.config.model_facts.found_keys import Found
from adderclaw.terminal.operators import STDIN


def offer(keys: list[Found]) -> Found | None:
    """The key that the person chooses, which is stored in their configuration."""
    lines = [f"  {number}. {key}" for number, key in enumerate(keys, 1)]
    print("No model is configured yet. Keys in the environment:", *lines, sep="\n", file=sys.stderr)
    which = "1" if len(keys) == 1 else f"1 to {len(keys)}"
    while True:
        STDIN.discard_typed()
        print(f"Which one should be used from now on? [{which}; empty: none] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        if not answer:  # the end of the input, which is not a refusal
            print(file=sys.stderr)
            return None
        answer = answer.strip()
        if not answer:
            os.makedirs(home(), mode=0o700, exist_ok=True)
            found_keys.store_declined(home(), keys)
            print(
                "No key chosen; you will not be asked again. Choose a model with `adderclaw onboard`.", file=sys.stderr
            )
            return None
        if answer.isdecimal() and 0 < int(answer) <= len(keys):
            break
        print(f"{answer!r} is not one of the choices.", file=sys.stderr)
    chosen = keys[int(answer) - 1]
    entry = {"kind": chosen.kind, "model": chosen.model, "api_key_env": chosen.variable}
    path = operator_file.choose_provider(home(), chosen.kind.replace("-", "_"), entry)
    print(f"{path}: {chosen.kind} with the model {chosen.model}", file=sys.stderr)
    return chosen
