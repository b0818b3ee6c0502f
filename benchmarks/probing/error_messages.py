"""Is what a service refuses understood? The messages of validators for calls that are wrong in a known way.

``python -m benchmarks.probing.error_messages [--json]`` reads ``error_messages.jsonl``: what 39 ways of stating an
error (of FastAPI, Django REST framework, marshmallow, AJV, zod, Joi, and other validators of Python and JavaScript)
answered when each was given the same ten wrong calls: an argument that lacks, is unknown, of another type, too long,
too short, no member, no date. So what is wrong is known without a reader. It prints how many problems are found, how
many with what would be right, and how many details name an argument that was not wrong, for each part and validator.
The first part was seen while the reader was written; the second was made afterwards, and then seen too.

Not every message says which argument is meant, or what would be right (``'x' is not of type 'integer'``, ``Invalid
value``): nobody can find all.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from atc.cli.console import guarded, out, print_json
from atc.probing.error_messages import read_error_message
from benchmarks.common import AsJson

BODIES = Path(__file__).with_suffix(".jsonl")


def bodies() -> Iterator[dict[str, Any]]:
    """Each body with its part, its validator, and what was wrong."""
    return map(json.loads, BODIES.read_text(encoding="utf-8").splitlines())


def score(row: Mapping[str, Any]) -> Counter[str]:
    """How many problems of a body there are, are found, and are found with what would be right; and strays."""
    found = read_error_message(row["body"])
    made: Counter[str] = Counter(details=len(found))
    for parameter, problem, expected in row["wrong"]:
        same = [detail.expected for detail in found if (detail.parameter, detail.problem) == (parameter, problem)]
        told = any(_agrees(problem, expected, each) for each in same)
        made += Counter(problems=1, found=bool(same), stated=bool(expected), right=bool(expected) and told)
    wrong = {parameter for parameter, _, _ in row["wrong"]}
    made["strays"] = sum(detail.parameter not in wrong for detail in found)
    return made


def _agrees(problem: str, expected: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
    """Whether a reading says what would be right; a number for an integer is as good, and one bound of two."""
    if problem == "type":
        return told.get("type") in ("integer", "number")
    return any(told.get(keyword) == value for keyword, value in expected.items())


@guarded
def main(as_json: AsJson = False) -> None:
    """Print what is found, for each part and validator."""
    counts: dict[str, Counter[str]] = {}
    for row in bodies():
        for line in (f"{row['part']} part", row["validator"]):
            counts.setdefault(line, Counter()).update(score(row))
    if as_json:
        print_json(counts)
        return
    for line, count in sorted(counts.items(), key=lambda item: not item[0].endswith(" part")):
        right = f"{count['right']} of {count['stated']} with what would be right"
        out.print(f"{line}: {count['found']} of {count['problems']} problems, {right}, {count['strays']} strays")


if __name__ == "__main__":
    typer.run(main)
