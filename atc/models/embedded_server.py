"""The process that the embedded model runs in: llama.cpp's own OpenAI-compatible server, and a watch on its parent.

Started by its path as a program of its own, so it imports nothing of ATC. Its settings come as one line of JSON on the
standard input (a key in the arguments would be there for every user to read); its address leaves as one line of JSON on
the standard output. The standard input then stays open for as long as the server is wanted: when it ends, because the
parent closed it or died in whatever way, the process ends at once.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from typing import Any


def _end_with_parent(parent: int) -> None:
    """End the process when the standard input ends or the parent is gone (a fork of it may hold the pipe open)."""
    while os.getppid() == parent:
        ready, _, _ = select.select([0], [], [], 1.0)
        if ready and not os.read(0, 4096):
            break
    os._exit(0)


def _serve(settings: dict[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["model_path"]
    params.model_alias = {settings["alias"]}
    params.hostnames = [settings["host"]]
    params.port = settings["port"]
    params.api_keys = [settings["api_key"]] if settings["api_key"] else []
    params.cors_origins = ""  # no web page may use it
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["context_tokens"] * settings["slots"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.n_gpu_layers = 0
    params.fit_params = False  # a trial load, to fit a graphics card
    params.warmup = False  # the first prompt does it
    params.cache_prompt = True
    params.cache_ram_mib = settings["cache_mib"]
    params.slot_save_path = settings["prompts_dir"]
    params.ui = False
    params.offline = True
    params.verbosity = 2
    return xllamacpp.Server(params)


def main() -> None:
    """Serve until the parent ends: read the settings from standard input, write the address to standard output."""
    parent = os.getppid()
    settings = json.loads(_read_line())
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    # llama.cpp may write to file descriptor 1: keep that for the address alone and send the rest to the log.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = _serve(settings)
    answer.write(json.dumps({"address": server.listening_address}) + "\n")
    answer.close()
    threading.Event().wait()


def _read_line() -> bytes:
    """One line, byte by byte: a buffered reader would hide the rest of the pipe from ``select``."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit("the settings ended early")
        line += byte
    return line


if __name__ == "__main__":
    main()
