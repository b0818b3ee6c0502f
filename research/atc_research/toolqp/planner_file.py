"""Writes a trained planner as a GGUF file, which a run loads by ``embedded:FILE`` without torch.

The file is the base with other weights: its metadata, tokenizer and chat template are copied. llama.cpp stores the
queries and keys of the Llama kind in another order than transformers does; the Qwen kinds have one order in both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from atc import EnvironmentProblem, UsageError
from atc_research.extras import TRAIN
from atc_research.toolqp.planner import Planner
from atc_research.toolweaver.code_decoder import LowRank, torch

try:
    import gguf
except ImportError:
    raise EnvironmentProblem(f"a GGUF file needs the package gguf, which is not installed: {TRAIN}") from None

_PERMUTED = {"llama"}
_KINDS = {"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3}
_COUNTED_ANEW = ("GGUF.", gguf.Keys.General.ARCHITECTURE, gguf.Keys.General.FILE_TYPE, gguf.Keys.General.NAME)


def write(planner: Planner, base: Path, file: Path) -> None:
    """Write a planner as a GGUF file.

    What was trained is written in 8 bits (Q8_0), vectors in 32; the rest stays as the base has it. What is there under
    the name is replaced at the end, never in part.

    Args:
        planner: the trained planner.
        base: the GGUF file that it was opened from.
        file: the file to write.

    Raises:
        UsageError: the base is no GGUF file, or of a kind that is not known here, or is the file to write; or it lacks
            a weight that was trained.
    """
    check(base, file)
    reader = gguf.GGUFReader(base)
    kind = _text(reader, gguf.Keys.General.ARCHITECTURE)
    trained = dict(_trained(planner, kind, base))
    if lacks := sorted(trained.keys() - {tensor.name for tensor in reader.tensors}):
        raise UsageError(f"{base} has no weight {lacks[0]}, which was trained: name the file that it was trained from")
    part = file.with_name(file.name + ".part")
    writer = gguf.GGUFWriter(part, kind)
    writer.add_name(f"{_text(reader, gguf.Keys.General.NAME) or base.stem}, planner")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    for field in reader.fields.values():
        if not field.name.startswith(_COUNTED_ANEW):
            of = field.types[-1] if field.types[0] is gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=of)
    for tensor in reader.tensors:
        data, stored = trained.get(tensor.name, (tensor.data, tensor.tensor_type))
        writer.add_tensor(tensor.name, data, raw_dtype=stored)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)


def check(base: Path, file: Path) -> None:
    """Check that a planner of this base can be written to a file: before a training, not after it.

    Raises:
        UsageError: it cannot.
    """
    try:
        with base.open("rb") as opened:
            is_gguf = opened.read(4) == b"GGUF"
    except OSError:
        is_gguf = False
    if not is_gguf:
        raise UsageError(f"{base} is no GGUF file: a planner is written as one if its base is one, with its tokenizer")
    if file.exists() and file.samefile(base):
        raise UsageError(f"{file} is the base: name another file to write")
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent} is no folder: make it, or name another file")
    kind = _text(gguf.GGUFReader(base), gguf.Keys.General.ARCHITECTURE)
    if kind not in _KINDS:
        raise UsageError(f"{base} is a model of the kind {kind}, which is not known here: take {', '.join(_KINDS)}")


def _text(reader: gguf.GGUFReader, key: str) -> str:
    field = reader.get_field(key)
    return str(field.contents()) if field else ""


def _trained(planner: Planner, kind: str, base: Path) -> Iterator[tuple[str, tuple[np.ndarray[Any, Any], Any]]]:
    config = planner.base.config
    names = gguf.get_tensor_name_map(_KINDS[kind], config.num_hidden_layers)
    for own, value in _weights(planner):
        name = names.get_name(own, try_suffixes=(".weight", ".bias"))
        if name is None:
            raise UsageError(f"{base}: GGUF has no name for the weight {own} of a model of the kind {kind}")
        found = value.detach().float().cpu().numpy()
        if kind in _PERMUTED and ".attn_q." in name:
            found = _permuted(found, config.num_attention_heads)
        elif kind in _PERMUTED and ".attn_k." in name:
            found = _permuted(found, config.num_key_value_heads)
        wide = found.ndim == 2 and found.shape[1] % 32 == 0
        stored = gguf.GGMLQuantizationType.Q8_0 if wide else gguf.GGMLQuantizationType.F32
        yield name, (gguf.quants.quantize(found, stored), stored)


def _weights(planner: Planner) -> Iterator[tuple[str, torch.Tensor]]:
    if planner.rank == 0:
        yield from planner.base.named_parameters()
        return
    for name, module in planner.base.named_modules():
        if isinstance(module, LowRank):
            yield f"{name}.weight", module.merged()


def _permuted(weights: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """The rows of each head as llama.cpp has them: halves that transformers keeps apart are interleaved."""
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weights.shape))
