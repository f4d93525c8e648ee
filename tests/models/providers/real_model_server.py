"""Serves a model file on 127.0.0.1 until standard input ends; runs in the environment of `scripts/real-model`.

python real_model_server.py MODEL.gguf KEY [GRAMMAR]       # prints its address
"""

import os
import sys
from importlib import import_module
from typing import Any


def main(model: str, key: str, grammar: str = "") -> None:
    llama: Any = import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = model
    params.model_alias = {"smol"}
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [key]
    params.n_ctx, params.n_parallel = 8192, 2
    # With more threads than idle cores they wait for each other, and it becomes ten times as slow.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.use_jinja = params.offline = params.endpoint_slots = True
    params.ui = params.warmup = False
    if grammar:
        params.sampling.grammar = llama.CommonGrammar(1, grammar)
    server = llama.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # without waiting for an answer that nobody reads


if __name__ == "__main__":
    main(*sys.argv[1:])
