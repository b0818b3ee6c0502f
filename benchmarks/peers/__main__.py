"""Run one peer's agent: a job comes in as a JSON line, its version and its answer go out as two.

``python -m benchmarks.peers run_NAME MODE`` loads ``benchmarks/peers/run_NAME.py``, which has ``packages`` and
``solve``. Nothing but the two lines reaches stdout, whatever the peer and its programs print.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from importlib.metadata import version
from typing import Any, TextIO

from benchmarks.peers.job import Job, Said, plain


def main(script: str, mode: str) -> None:
    out = os.fdopen(os.dup(1), "w")  # never closed: its end would be seen before what went wrong is on stderr
    os.dup2(2, 1)
    peer = importlib.import_module(f"benchmarks.peers.{script}")
    _write(out, {"ready": ", ".join(f"{package} {version(package)}" for package in peer.packages(mode))})
    document = json.loads(sys.stdin.readline())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a program that asks for input gets none, and does not wait for it
    said = Said()
    try:
        peer.solve(Job.read(document), said)
    except Exception as error:  # the answer is that there is none
        said.error = f"{type(error).__name__}: {error}"
    _write(out, vars(said) | {"value": plain(said.value)})
    os._exit(0)  # what the peer or its programs left running must not hold the end back


def _write(out: TextIO, line: dict[str, Any]) -> None:
    print(json.dumps(line), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
