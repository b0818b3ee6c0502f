"""Are errors in bodies of responses found, and is data left alone? Bodies of real services, labelled by two readers.

``python -m benchmarks.programs.error_bodies --data DIR`` reads the responses in ``failures/`` there, finds those that
were labelled (``error_bodies.jsonl`` has their hashes and labels, no text), and prints precision and recall over those
of which both readers were sure and agreed. The words and keys of the rules were completed by what was missed in the
first part, and by three mechanisms that the second one showed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from atc.cli.console import guarded, out
from atc.schemas.error_bodies import error_in

LABELS = Path(__file__).with_suffix(".jsonl")


def body_hash(tool: str, response: str) -> str:
    """Return the name under which a body of a tool is labelled."""
    return hashlib.sha256(f"{tool}\n{response}".encode()).hexdigest()[:16]


def agreed() -> dict[str, tuple[str, str]]:
    """Return the part and the label of each body on which both readers agree and are sure."""
    rows = (json.loads(line) for line in LABELS.read_text().splitlines())
    return {
        row["body"]: (row["part"], row["labels"][0])
        for row in rows
        if len(set(row["labels"])) == 1 and row["labels"][0] != "unsure"
    }


@guarded
def main(
    data: Annotated[Path, typer.Option(help="Folder of third-party data.", exists=True, file_okay=False)],
) -> None:
    """Print precision and recall for each part."""
    labels = agreed()
    counts: Counter[tuple[str, str, bool]] = Counter()
    with gzip.open(data / "failures" / "toolbench_response_cache.jsonl.gz", "rt") as lines:
        for row in map(json.loads, lines):
            if (label := labels.pop(body_hash(row["tool"], row["response"]), None)) is not None:
                counts[*label, error_in(json.loads(row["response"])) is not None] += 1
    for part in ("first", "second"):
        hit, missed, false = (counts[part, *key] for key in (("error", True), ("error", False), ("ok", True)))
        fine = false + counts[part, "ok", False]
        out.print(
            f"{part} part: precision {hit} of {hit + false}, recall {hit} of {hit + missed}, {fine} without an error"
        )
    if labels:
        out.print(f"{len(labels)} labelled bodies are not in this data")


if __name__ == "__main__":
    typer.run(main)
