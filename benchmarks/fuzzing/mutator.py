"""Mutation of JSON as a tree: what comes of it gets past the parser and reaches what reads the values."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

LINES = -1
MAX_PLACES = 400
"""Places of a tree that are looked at."""
_NUMBERS = [0, 1, -1, 2, 128, 2**31, 2**53, 2**63, -(2**63), 10**399, 0.5, -0.0, 1e308, 1e-320, 1.0]
_TEXTS = [
    "", " ", "a", "0", "-1", "1e3", "true", "null", "\x00", "\x1b[2J", "\u202e", "\ufeff", "e\u0301", "\u0301\u0327",
    "\U000e0041", "ﬁ", "İ", "ß", "`", "```", '"""', "\\", "'", "{", "}", "${x}", "{{", "%s", "../", "~1", "#/", "$ref",
    "__class__", "__init__", "class", "lambda", "2024-02-30T25:61:61Z", "data:;base64,AA", "/", "<think>", "</query>",
]  # fmt: skip
_RAW = ["NaN", "Infinity", "1e999", '"\\ud800"', "-", "01", '{"a":1,"a":2}', "[" * 130 + "]" * 130, "9" * 500]
"""What a strict reader refuses, and a tree cannot hold: it is put in as text."""
_MARK = "\ue000"


def mutated(
    data: bytes, most: int, seed: int, words: Sequence[str], head_lines: int, plainly: Callable[[bytes, int], bytes]
) -> bytes:
    """A mutation of an input.

    Args:
        data: lines, if any, and JSON behind them.
        most: bytes that the result may have.
        seed: of the random numbers: the same gives the same.
        words: texts that mean something to the target.
        head_lines: lines in front of the JSON; :data:`LINES` where each line is JSON.
        plainly: mutates bytes, for what is no JSON, for the lines, and for one input in eight.
    """
    rng = random.Random(seed)
    if head_lines == LINES:
        return _mutated_lines(data, most, rng, words, plainly)
    lines = data.split(b"\n", head_lines)
    if len(lines) <= head_lines or rng.random() < 0.125:
        return plainly(data, most)[:most]
    head, body = lines[:-1], lines[-1]
    if head and rng.random() < 0.25:
        at = rng.randrange(len(head))
        head[at] = (
            rng.choice([*words, *_TEXTS]).encode("utf-8", "replace")
            if rng.random() < 0.3
            else plainly(head[at], max(1, most // 8))
        ).replace(b"\n", b"")
        return b"\n".join([*head, body])[:most]
    made = _mutated_json(body, rng, words)
    whole = b"\n".join([*head, made or b""])
    return whole if made is not None and len(whole) <= most else plainly(data, most)[:most]


def _mutated_lines(
    data: bytes, most: int, rng: random.Random, words: Sequence[str], plainly: Callable[[bytes, int], bytes]
) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    match rng.randrange(10):
        case 0:
            del lines[at]
        case 1:
            lines.insert(rng.randrange(len(lines) + 1), lines[at])
        case 2:
            return plainly(data, most)[:most]
        case 3:
            return data[: rng.randrange(len(data) + 1)]
        case _:
            made = _mutated_json(lines[at], rng, words)
            lines[at] = plainly(lines[at], most)[:most] if made is None else made
    return b"\n".join(lines)[:most]


def _mutated_json(body: bytes, rng: random.Random, words: Sequence[str]) -> bytes | None:
    try:
        tree = json.loads(body)
        for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
            tree = _changed(tree, rng, words)
        return _written(tree, rng)
    except (ValueError, RecursionError):
        return None


def _written(tree: Any, rng: random.Random) -> bytes:
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.2, separators=(",", ":") if rng.random() < 0.8 else None)
    return text.replace(f'"{_MARK}"', rng.choice(_RAW)).encode("utf-8", "replace")


def _changed(tree: Any, rng: random.Random, words: Sequence[str]) -> Any:
    places = _places(tree)
    if not places:
        return _leaf(rng, words)
    holder, key = rng.choice(places)
    old = holder[key]
    match rng.randrange(9):
        case 0:
            holder[key] = _leaf(rng, words)
        case 1:  # something from elsewhere in it
            other, at = rng.choice(places)
            holder[key] = _copied(other[at])
        case 2:
            del holder[key]
        case 3 if isinstance(holder, list):
            holder[key:key] = [_copied(old) for _ in range(rng.choice((1, 2, 10, 100)))]
        case 3:
            holder[_word(rng, words)] = holder.pop(key)
        case 4:
            if isinstance(holder, dict):
                holder[_word(rng, words)] = _copied(old)
            else:
                holder.append(_leaf(rng, words))
        case 5:
            for _ in range(rng.choice((1, 2, 10, 60, 125))):
                old = [old] if rng.random() < 0.5 else {_word(rng, words): old}
            holder[key] = old
        case 6 if isinstance(old, str):
            holder[key] = _grown(old, rng, words)
        case 6 if isinstance(old, int | float):
            holder[key] = rng.choice((-old, old + 1, float(old) if abs(old) < 2**53 else old, str(old), [old]))
        case 7 if isinstance(old, dict):
            holder[key] = old | {_word(rng, words): _leaf(rng, words)}
        case 7 if isinstance(old, list):
            rng.shuffle(old)
        case 8:
            holder[key] = _MARK
    return tree


def _places(tree: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    level = [tree]
    while level and len(found) < MAX_PLACES:
        node = level.pop()
        members = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in members:
            found.append((node, key))
            level.append(value)
    return found


def _leaf(rng: random.Random, words: Sequence[str]) -> Any:
    empty: list[Any] = [None, True, False, [], {}]
    return rng.choice((rng.choice(empty), rng.choice(_NUMBERS), rng.choice(_TEXTS), _word(rng, words)))


def _word(rng: random.Random, words: Sequence[str]) -> str:
    return rng.choice(words) if words and rng.random() < 0.8 else rng.choice(_TEXTS)


def _grown(text: str, rng: random.Random, words: Sequence[str]) -> str:
    at = rng.randrange(len(text) + 1)
    piece = rng.choice((_word(rng, words), rng.choice(_TEXTS), text[at : at + 8], chr(rng.randrange(0x300))))
    return text[:at] + piece * rng.choice((1, 1, 2, 30, 500)) + text[at:]


def _copied(value: Any) -> Any:
    return json.loads(json.dumps(value))
