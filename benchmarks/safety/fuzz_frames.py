"""Fuzz what the host reads from a program: a million hostile frames, and nothing but the protocol error comes of them.

``python -m benchmarks.safety.fuzz_frames [--frames N --seed S]``: frames are made by mutation (bytes flipped, cut,
repeated, spliced, lengths that lie) and by grammar (deep nesting, huge integers, NaN, duplicate keys, half surrogates,
wrong types in every field), and read as the sandbox's channel and conversation read them. It prints what came of them
and how memory grew, and exits with 1 if anything but ``FrameError`` was raised, or memory grew by more than 50 MB.
"""

from __future__ import annotations

import json
import random
import resource
import time
from collections import Counter
from typing import Annotated, Any

import typer

from atc.cli.console import guarded, print_json
from atc.errors import FrameError
from atc.sandboxes.channel import frames
from atc.sandboxes.channel.session import as_call_request, as_program_error
from benchmarks.common import AsJson

LIMIT = 1 << 20
MAX_GROWTH = 50_000_000
_SEEDS: list[dict[str, Any]] = [
    {"op": "call", "id": 1, "tool": "find_cities", "args": {"name": "Tromsø", "limit": 3}, "line": 7},
    {"op": "done", "answered": True, "value": [1, 2.5, None, {"a": "b" * 40}]},
    {
        "op": "raised",
        "error": {
            "type": "KeyError",
            "message": "'x'",
            "line": 3,
            "span": [3, 3, 0, 9],
            "tool": "t",
            "origin": [1, ["a", 0]],
            "trace": [["<module>", 3]],
        },
    },
]
_ODD = [
    "NaN", "Infinity", "-Infinity", "1e999", "-0", "1" * 5000, '"\\ud800"', '"\\udfff\\ud800"', "[" * 200 + "]" * 200,
    "[" * 100_000, '{"a":' * 300 + "1" + "}" * 300, '{"a":1,"a":2}', '"' + "\\" * 999 + '"', '"unterminated', "null",
    "true", "{}", "[]", '""', "1.0000000000000000000000000001", "9007199254740993", '"\x00"', "\ufeff{}", "",
]  # fmt: skip


def hostile(rng: random.Random) -> bytes:
    """One hostile frame, its length included; the length may lie."""
    way = rng.randrange(6)
    if way == 0:
        body = rng.randbytes(rng.randrange(64))
    elif way == 1:
        body = _grown(rng).encode("utf-8", "surrogatepass")
    else:
        changed = bytearray(json.dumps(rng.choice(_SEEDS)).encode())
        for _ in range(rng.randrange(1, 3)):
            _mutate(rng, changed)
        body = bytes(changed)
    length = len(body) if rng.random() < 0.95 else rng.choice([0, 1, len(body) + 1, LIMIT, LIMIT + 1, 2**32 - 1])
    return length.to_bytes(4, "big") + body


def _grown(rng: random.Random) -> str:
    frame, odd = dict(rng.choice(_SEEDS)), rng.choice(_ODD)
    key = rng.choice([*frame, "extra"])
    return json.dumps(frame | {key: "@@"}).replace('"@@"', odd) if rng.random() < 0.9 else odd


def _mutate(rng: random.Random, body: bytearray) -> None:
    at = rng.randrange(len(body) + 1)
    match rng.randrange(5):
        case 0 if body:
            body[at % len(body)] ^= 1 << rng.randrange(8)
        case 1:
            del body[at : at + rng.randrange(1, 9)]
        case 2:
            body[at:at] = body[at : at + 20]
        case 3:
            body[at:at] = rng.choice(_ODD[:16])[:60].encode("utf-8", "surrogatepass")
        case _:
            body[at:at] = rng.randbytes(2)


def read(raw: bytes) -> str:
    """Read one frame as the host does, and say what came of it.

    Raises:
        Exception: anything but the protocol error: a fault of the host.
    """
    try:
        found = frames.next_frame(raw, 0, LIMIT)
        if found is None:
            return "waits for more"
        message, _ = found
        if message.get("op") == "call":
            as_call_request(message)
        elif message.get("op") == "raised":
            as_program_error(message.get("error"))
        return "taken"
    except FrameError:
        return "refused"


@guarded
def main(
    count: Annotated[int, typer.Option("--frames", min=1, help="How many.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Read hostile frames as the host does."""
    rng, ways, faults = random.Random(seed), Counter[str](), Counter[str]()
    for _ in range(1000):
        read(hostile(rng))
    before, began = _resident(), time.perf_counter()
    for _ in range(count):
        raw = hostile(rng)
        try:
            ways[read(raw)] += 1
        except Exception as error:
            faults[f"{type(error).__name__}: {str(error)[:80]} from {raw[:60]!r}"] += 1
    seconds, growth = time.perf_counter() - began, _resident() - before
    frames = {
        "frames": count,
        **ways,
        "other exceptions": faults.total(),
        "seconds": round(seconds, 1),
        "grew_by": growth,
    }
    print_json(frames) if as_json else print("\n".join(f"{name}: {value:,}" for name, value in frames.items()))
    for fault, times in faults.most_common(10):
        print(f"{times} × {fault}")
    if faults or growth > MAX_GROWTH:
        raise typer.Exit(1)


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    typer.run(main)
