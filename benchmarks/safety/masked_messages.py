"""How often masking changes an ordinary error message, and how much of what is random it finds.

``python -m benchmarks.safety.masked_messages --data ../shared/data [--show]``: the recorded errors of real services and
MCP servers, each masked as an exception of a user's function would be; then tokens drawn by chance.
"""

from __future__ import annotations

import gzip
import json
import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from atc._host.secret_detection import masked_exception
from benchmarks.common import Data

_BASE62 = string.ascii_letters + string.digits
KINDS = {
    "32 hexadecimal digits": ("0123456789abcdef", 32),
    "20 letters and digits": (_BASE62, 20),
    "32 letters and digits": (_BASE62, 32),
    "40, as AWS's secret keys": (_BASE62 + "+/", 40),
    "32, of lower case": (string.ascii_lowercase + string.digits, 32),
}


def messages(data: Path) -> Iterator[tuple[str, str]]:
    """Each error message, and what was known before it: the task, and the arguments and answers of calls."""
    for record in _records(data / "failures" / "toolbench_response_cache.jsonl.gz"):
        if record["label"] == "error":
            yield str(record.get("error") or record["response"]), json.dumps(record["args"])
    for name in ("trajectories", "livemcp_agents"):
        for record in _records(data / "trajectories" / f"{name}.jsonl.gz"):
            known = str(record.get("task"))
            for call in record.get("calls", ()):
                known += json.dumps(call.get("args") or call.get("args_text"), ensure_ascii=False)
                if call.get("error"):
                    yield str(call["error"]), known
                known += str(call.get("output"))


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        yield from map(json.loads, file)


def main(data: Data, show: Annotated[bool, typer.Option("--show", help="Print what was changed.")] = False) -> None:
    """Count what masking changes, and what it finds."""
    count = changed = 0
    for text, known in messages(data):
        masked = masked_exception(text, lambda token, known=known: token in known)  # type: ignore[misc]
        count, changed = count + 1, changed + (masked != text)
        if show and masked != text:
            print(f"{text[:300]!r}\n  {masked[:300]!r}")
    print(f"messages changed: {changed} of {count} ({changed / count:.1%})")
    chance = random.Random(17)
    for name, (letters, length) in KINDS.items():
        tokens = ["".join(chance.choices(letters, k=length)) for _ in range(2000)]
        found = sum("***" in masked_exception(f"key {token} is wrong") for token in tokens)
        print(f"masked of {name}: {found / len(tokens):.1%}")


if __name__ == "__main__":
    typer.run(main)
