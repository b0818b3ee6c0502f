"""The paper's layer predictor as NumPy runs it: vectors of an encoder in, a layer for each tool out (RETO Eq. 3 to 9).

:mod:`atc.learn.layers` trains it, with torch. Its file holds arrays alone: nothing in it is ever run.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path as File

import numpy as np

from atc.errors import UsageError
from atc.graph.layer_model import LAYERS
from atc.graph.link_features import Matrix

MAX_BYTES = 10_000_000
"""Of a file of weights; a larger one is none."""
_ABOUT = "about"
_PER_LAYER = {
    "self_attn.in_proj_weight": ("3d", "d"),
    "self_attn.in_proj_bias": ("3d",),
    "self_attn.out_proj.weight": ("d", "d"),
    "self_attn.out_proj.bias": ("d",),
    "linear1.weight": ("f", "d"),
    "linear1.bias": ("f",),
    "linear2.weight": ("d", "f"),
    "linear2.bias": ("d",),
    "norm1.weight": ("d",),
    "norm1.bias": ("d",),
    "norm2.weight": ("d",),
    "norm2.bias": ("d",),
}
_EPSILON = 1e-5
_NO_NETWORK = (
    *(ValueError, KeyError, TypeError, AttributeError, EOFError, OverflowError, MemoryError, RecursionError),
    *(NotImplementedError, zipfile.BadZipFile, zlib.error),
)
"""What reading an archive of arrays raises where it is none, or a damaged one."""


@dataclass(frozen=True, eq=False)
class LayerNetwork:
    """A trained network.

    Attributes:
        arrays: its weights, by the names that torch gives them.
        heads: of the attention.
        made: the command that made it, and on what.
    """

    arrays: Mapping[str, Matrix]
    heads: int
    made: str = ""

    def logits(self, query: Matrix, tools: Matrix) -> Matrix:
        """How surely each tool stands above each layer but the last (Eq. 3 to 8), before the sigmoid.

        Args:
            query: the task's vector. ``tools``: those of the tools, a row each.
        """
        a = self.arrays
        rows = [self._projected("query", query[None]), self._projected("tool", tools)]
        h = np.concatenate(rows)
        for layer in range(self.depth):
            h = self._layer(f"encoder.layers.{layer}.", h)
        made: Matrix = h[1:] @ a["weight.weight"].T + a["bias"]
        return made

    def layers(self, query: Matrix, tools: Matrix) -> list[int]:
        """The layer of each tool (Eq. 9)."""
        return [int(row.sum()) for row in self.logits(query, tools) > 0]

    @property
    def depth(self) -> int:
        """Layers of the transformer."""
        return sum(name.endswith(".linear1.weight") for name in self.arrays)

    def _projected(self, which: str, rows: Matrix) -> Matrix:
        a = self.arrays
        h = rows @ a[f"{which}.0.weight"].T + a[f"{which}.0.bias"]
        return np.maximum(_normed(h, a[f"{which}.1.weight"], a[f"{which}.1.bias"]), 0)

    def _layer(self, name: str, h: Matrix) -> Matrix:
        a = {part: self.arrays[name + part] for part in _PER_LAYER}
        parts = h @ a["self_attn.in_proj_weight"].T + a["self_attn.in_proj_bias"]
        q, k, v = (part.reshape(len(h), self.heads, -1).transpose(1, 0, 2) for part in np.split(parts, 3, axis=1))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        attended = (scores / scores.sum(axis=-1, keepdims=True)) @ v
        attended = attended.transpose(1, 0, 2).reshape(h.shape)
        h = h + attended @ a["self_attn.out_proj.weight"].T + a["self_attn.out_proj.bias"]
        h = _normed(h, a["norm1.weight"], a["norm1.bias"])
        inner = np.maximum(h @ a["linear1.weight"].T + a["linear1.bias"], 0)
        h = h + inner @ a["linear2.weight"].T + a["linear2.bias"]
        return _normed(h, a["norm2.weight"], a["norm2.bias"])

    # -- the file ------------------------------------------------------------------------------------------------------

    def write(self, path: File) -> str:
        """Write the weights in 16 bits; the digest of the file, for :meth:`read`.

        Raises:
            OSError: it cannot be written.
        """
        about = json.dumps({"heads": self.heads, "made": self.made}).encode()
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as archive:
            held_arrays = {name: np.asarray(array, np.float16) for name, array in self.arrays.items()}
            for name in sorted((_ABOUT, *held_arrays)):
                one = io.BytesIO()
                array = np.frombuffer(about, np.uint8) if name == _ABOUT else held_arrays[name]
                np.save(one, array, allow_pickle=False)
                archive.writestr(zipfile.ZipInfo(f"{name}.npy"), one.getvalue())  # no time: the same bytes each time
        path.write_bytes(held.getvalue())
        return hashlib.sha256(held.getvalue()).hexdigest()

    @classmethod
    def read(cls, path: File, sha256: str) -> LayerNetwork:
        """The network in a file whose digest is known.

        Raises:
            UsageError: the file is missing, is another one, or holds no such network; the message says what to do.
        """
        try:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
        if len(content) > MAX_BYTES or hashlib.sha256(content).hexdigest() != sha256:
            raise UsageError(f"{path} is damaged, or is another file: make it anew")
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                if sum(each.file_size for each in archive.infolist()) > MAX_BYTES:
                    raise ValueError("it is packed")
            with np.load(io.BytesIO(content), allow_pickle=False) as held:
                arrays = {name: held[name] for name in held.files}
            about = json.loads(arrays.pop(_ABOUT).tobytes())
            made = cls({name: each.astype(np.float32) for name, each in arrays.items()}, int(about["heads"]))
            made._check()
            return replace(made, made=str(about["made"])[:1_000])
        except _NO_NETWORK as error:
            raise UsageError(f"{path} holds no layer network ({error}): make it anew") from None

    def _check(self) -> None:
        """See that the shapes fit each other.

        Raises:
            ValueError, KeyError: they do not.
        """
        size, dimensions = self.arrays["query.0.weight"].shape
        inner = len(self.arrays["encoder.layers.0.linear1.weight"])
        of = {"d": size, "3d": 3 * size, "f": inner}
        wanted: dict[str, tuple[int, ...]] = {"weight.weight": (1, size), "bias": (LAYERS - 1,)}
        for which in ("query", "tool"):
            wanted[f"{which}.0.weight"] = (size, dimensions)
            wanted |= {f"{which}.{part}": (size,) for part in ("0.bias", "1.weight", "1.bias")}
        for layer in range(self.depth):
            wanted |= {f"encoder.layers.{layer}.{n}": tuple(of[s] for s in some) for n, some in _PER_LAYER.items()}
        if {name: each.shape for name, each in self.arrays.items()} != wanted or self.heads < 1 or size % self.heads:
            raise ValueError("its arrays do not fit each other")


def _normed(rows: Matrix, weight: Matrix, bias: Matrix) -> Matrix:
    mean, variance = rows.mean(axis=-1, keepdims=True), rows.var(axis=-1, keepdims=True)
    made: Matrix = (rows - mean) / np.sqrt(variance + _EPSILON) * weight + bias
    return made
