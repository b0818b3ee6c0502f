"""The process that fuzzes one target beneath libFuzzer; :mod:`benchmarks.fuzzing` starts it.

``python -m benchmarks.fuzzing.worker TARGET FINDINGS …``: the rest goes to libFuzzer. A finding is kept as a file and
the work goes on; what ends the process (a hang, a crash) is kept by libFuzzer.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from pathlib import Path

import atheris

from benchmarks.fuzzing.mutator import mutated
from benchmarks.fuzzing.target import SEEDS, finding_of, target_of


def main(name: str, findings: Path, options: list[str]) -> None:
    """Fuzz a target until libFuzzer ends the process."""
    logging.disable(logging.WARNING)  # what a hostile input is warned about would fill the screen
    with atheris.instrument_imports(include=["atc"]):
        target = target_of(name)
    for seed in sorted((SEEDS / name).glob("*")):  # imports and caches are nobody's time
        finding_of(target, seed.read_bytes())
    smallest: dict[str, int] = {}

    def one(data: bytes) -> None:
        found = finding_of(target, data)
        if found is not None and len(data) < smallest.get(found.name, sys.maxsize):
            smallest[found.name] = len(data)
            (findings / found.name).write_bytes(found.input)
            told = {"kind": found.kind, "where": found.where, "text": found.text}
            (findings / f"{found.name}.json").write_text(json.dumps(told, indent=2))

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        return mutated(data, most, seed, target.words, target.head_lines or 0, atheris.Mutate)

    mutator = {} if target.head_lines is None else {"custom_mutator": mutate}
    if target.words and not mutator:
        with tempfile.NamedTemporaryFile("w", suffix=".dict", delete=False) as file:
            file.writelines(f'"{_spelt(word)}"\n' for word in target.words)
        options = [f"-dict={file.name}", *options]
    atheris.Setup([sys.argv[0], f"-max_len={target.most_bytes}", *options], one, **mutator)
    atheris.Fuzz()


def _spelt(word: str) -> str:
    return "".join(
        chr(byte) if 32 < byte < 127 and byte not in b'"\\\\' else f"\\\\x{byte:02x}" for byte in word.encode()
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
