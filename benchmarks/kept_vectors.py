"""An encoder whose vectors are kept by text, so that a benchmark that is run again embeds nothing twice.

``python -m benchmarks.kept_vectors FOLDER INDEX…`` takes the vectors of saved indexes over.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from atc.retrieval import index_store
from atc.retrieval.snapshot import DIGEST, digest
from atc.retrieval.vectors import Encoder, Floats, normalised

_AT_ONCE = 256


class KeptVectors:
    """An encoder in front of another, of the same name and digest.

    Args:
        inner: embeds what is not there.
        folder: where vectors are kept, in 16-bit floats, a file a batch; several processes may share it.
    """

    def __init__(self, inner: Encoder, folder: Path) -> None:
        self._inner, self._folder = inner, folder / inner.digest[:16]
        self._dtype = np.dtype([("text", f"S{DIGEST * 2}"), ("vector", "<f2", inner.dimensions)])
        self._known: dict[bytes, np.ndarray] = {}
        self._read: set[str] = set()
        self.name, self.digest, self.dimensions = inner.name, inner.digest, inner.dimensions

    def check(self) -> None:
        self._inner.check()

    def encode(self, texts: Sequence[str]) -> Floats:
        keys = [digest(text).hex().encode() for text in texts]
        if any(key not in self._known for key in keys):
            self._refresh()
        missing = [(key, text) for key, text in zip(keys, texts, strict=True) if key not in self._known]
        wanted = list(dict(missing).items())
        for at in range(0, len(wanted), _AT_ONCE):
            batch = wanted[at : at + _AT_ONCE]
            self.keep([key for key, _ in batch], self._inner.encode([text for _, text in batch]))
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        return normalised(np.array([self._known[key] for key in keys], np.float32))

    def keep(self, keys: Sequence[bytes], vectors: Floats) -> None:
        """Keep vectors under the hexadecimal digests of their texts."""
        block = np.zeros(len(keys), self._dtype)
        block["text"], block["vector"] = list(keys), vectors
        self._known |= dict(zip(keys, block["vector"], strict=True))
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._folder, suffix=".part", delete=False) as out:
            np.save(out, block, allow_pickle=False)
        os.replace(out.name, f"{out.name}.npy")
        self._read.add(f"{Path(out.name).name}.npy")

    def _refresh(self) -> None:
        for path in sorted(self._folder.glob("*.npy")):
            if path.name not in self._read:
                block = np.load(path, allow_pickle=False)
                self._known |= dict(zip(block["text"].tolist(), block["vector"], strict=True))
                self._read.add(path.name)


def main(folder: str, *indexes: str) -> None:
    """Take over the vectors of saved indexes."""
    from atc.retrieval.minilm import MiniLM

    kept = KeptVectors(MiniLM(), Path(folder))
    for place in indexes:
        snapshot, coded = index_store.read(Path(place))
        if coded is None or coded.digest != kept.digest or snapshot.vectors is None:
            continue
        values = np.asarray(snapshot.vectors.values, np.float32) * np.asarray(snapshot.vectors.scales)[:, None]
        kept.keep([row.tobytes().hex().encode() for row in snapshot.digests], values)
        print(place, len(snapshot))


if __name__ == "__main__":
    main(*sys.argv[1:])
