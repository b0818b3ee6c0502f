"""A decoder that says tools by codes: new tokens in a language model, taught in two stages (ToolWeaver §3.3, App. A.3).

It needs torch and transformers. Nothing that runs a task loads it.

The paper trains all weights of an 8B model; here low-rank changes of a frozen model are the default (``rank``), which
two cores can train, and ``rank=0`` trains all. The vectors of the new tokens are always trained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from atc import EnvironmentProblem, UsageError
from atc_research.extras import TRAIN
from atc_research.toolweaver.code_tokens import MAX_TOKENS, CodeTokens, Example, Frame, Reader, Writer

try:
    import torch as torch  # for those beside it too, which then need not say what is missing
    from torch import nn as nn
    from torch.nn import functional as functional
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers import DynamicCache as DynamicCache
except ImportError:
    raise EnvironmentProblem(
        f"training a language model needs torch and transformers, which are not installed: {TRAIN}"
    ) from None


_SCALE = 2.0
"""Of a low-rank change: α/r of LoRA."""


class LowRank(nn.Module):
    """A frozen linear map and a change of low rank, which begins as none (LoRA)."""

    def __init__(self, inner: nn.Linear, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        self.inner = inner
        drawn = torch.randn(rank, inner.in_features, generator=generator) / math.sqrt(inner.in_features)
        self.down = nn.Parameter(drawn.to(inner.weight.device))
        self.up = nn.Parameter(torch.zeros(inner.out_features, rank, device=inner.weight.device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        changed = functional.linear(functional.linear(x, self.down.to(x.dtype)), self.up.to(x.dtype))
        made: torch.Tensor = self.inner(x) + _SCALE * changed
        return made

    def merged(self) -> torch.Tensor:
        """The weights of one linear map that does the same, in 32 bits."""
        return self.inner.weight.detach().float() + _SCALE * (self.up @ self.down).detach().float()


def add_low_rank(base: Any, rank: int, generator: torch.Generator) -> None:
    """Freeze a model and put a change of low rank beside each linear map of its layers; ``rank`` 0: train all of it.

    Raises:
        UsageError: the model has no such map, as where its weights stay packed.
    """
    base.requires_grad_(rank == 0)
    if rank:
        found = False
        for parent in list(base.base_model.modules()):
            for name, child in list(parent.named_children()):
                if type(child) is nn.Linear:
                    setattr(parent, name, LowRank(child, rank, generator))
                    found = True
        if not found:
            raise UsageError("this model has no linear map that can be trained: give one whose weights are not packed")


class CodeDecoder(nn.Module):
    """A causal language model with new tokens beside its own vocabulary, whose table stays as it is.

    Args:
        base: of transformers; its vectors of tokens are the same before and after, or two tables.
        tokens: the new ones; ``first`` is the number of rows of the model's table.
        rank: of the changes of each linear map; 0: all weights are trained.
        seed: of the new vectors, which begin at random, as spread as the model's own (§3.3), and of the changes.
    """

    def __init__(self, base: Any, tokens: CodeTokens, rank: int = 16, seed: int = 0) -> None:
        super().__init__()
        self.base, self.tokens, self.rank = base, tokens, rank
        table = base.get_input_embeddings().weight
        if tokens.first != len(table):
            raise UsageError(f"the new tokens begin at {tokens.first}, the model's own end at {len(table)}")
        self.tied = base.get_output_embeddings().weight is table
        generator = torch.Generator().manual_seed(seed)
        self.spread = float(table.detach().float().std())
        for name in ("rows",) if self.tied else ("rows", "rows_out"):
            drawn = torch.randn(len(tokens), table.shape[1], generator=generator) * self.spread
            self.register_parameter(name, nn.Parameter(drawn.to(table.device)))
        add_low_rank(base, rank, generator)

    def start_from(self, words: Sequence[Sequence[int]]) -> None:
        """Begin the new tokens at the mean of words: what tells them from each other, as spread as the model's own.

        Args:
            words: for each new token, tokens of the model; one without any stays as it was drawn.
        """
        with torch.no_grad():
            table = self.base.get_input_embeddings().weight.detach().float()
            known = [at for at, some in enumerate(words) if len(some)]
            if not known:
                return
            means = torch.stack([table[torch.tensor(list(words[at]), device=table.device)].mean(0) for at in known])
            apart = means - means.mean(0)
            apart *= self.spread / max(float(apart.std()) if len(known) > 1 else 0.0, 1e-6)
            for name, parameter in self.named_parameters(recurse=False):
                if name.startswith("rows"):
                    parameter[known] = means.mean(0) + apart

    def hidden(self, ids: torch.Tensor, cache: Any = None) -> torch.Tensor:
        """What the last layer makes of tokens: of shape ``(batch, tokens)``, then ``(batch, tokens, dimensions)``.

        What fills a row stands at its end: each token looks back alone.
        """
        own, first = self.base.get_input_embeddings(), self.tokens.first
        new = ids >= first
        vectors = own(ids.masked_fill(new, 0))
        said = self.rows[(ids - first).clamp(min=0)].to(vectors.dtype)
        inputs = torch.where(new[..., None], said, vectors)
        made = self.base.base_model(inputs_embeds=inputs, past_key_values=cache, use_cache=cache is not None)
        found: torch.Tensor = made.last_hidden_state
        return found

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Of the next token, the model's own first, then the new ones; in 32 bits."""
        new = self.rows if self.tied else self.rows_out
        own = self.base.get_output_embeddings()(hidden)
        return torch.cat([own.float(), hidden.float() @ new.float().T], -1)

    def loss(self, some: Sequence[Example]) -> tuple[torch.Tensor, int]:
        """The sum of −log P over the tokens that count, and their number (Eq. 10)."""
        tokens, counted = padded(some, self.rows.device)
        at = self.hidden(tokens[:, :-1])[counted[:, 1:]]  # only there: the vocabulary is wide
        total = functional.cross_entropy(self.logits(at), tokens[:, 1:][counted[:, 1:]], reduction="sum")
        return total, int(counted.sum())

    def trained(self) -> dict[str, torch.Tensor]:
        """The weights that training changes."""
        return {name: value.detach() for name, value in self.named_parameters() if value.requires_grad}


def padded(some: Sequence[Example], device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Examples as two arrays of one width: their tokens, and which of them the loss counts."""
    longest = max(len(each.ids) for each in some)
    ids = np.zeros((len(some), longest), np.int64)
    learnt = np.zeros((len(some), longest), bool)
    for row, each in enumerate(some):
        ids[row, : len(each.ids)], learnt[row, : len(each.ids)] = each.ids, each.learnt
    learnt[:, 0] = False  # nothing stands before it
    return torch.from_numpy(ids).to(device), torch.from_numpy(learnt).to(device)


@dataclass(frozen=True)
class Opened:
    """A model as it was given, with its tokenizer: ``read`` gives the tokens of a text, ``say`` the text of tokens."""

    model: Any
    read: Reader
    frame: Frame
    say: Callable[[Sequence[int]], str]

    def writer(self, levels: int, size: int, longest: int = MAX_TOKENS) -> Writer:
        """What makes examples for it, with new tokens."""
        first = len(self.model.get_input_embeddings().weight)
        return Writer(self.read, self.frame, CodeTokens(levels, size, first), longest)


def opened(place: Path, dtype: str = "bfloat16", device: str = "cpu", *, short: bool = False) -> Opened:
    """Load a model from a GGUF file, or from a folder as transformers writes it. Nothing is fetched.

    Args:
        dtype: ``bfloat16``, or ``float32``, which training all weights needs.
        device: of torch.
        short: it will read short texts: without the attention that is made for long ones, a step on a processor takes a
            fifth less.

    Raises:
        EnvironmentProblem: it is not there.
        UsageError: it is no such model, or marks turns in a way that is not known here; or there is no such device.
    """
    if not place.exists():
        raise EnvironmentProblem(f"{place} is not there: give a model's GGUF file, or its folder")
    named = {"gguf_file": place.name} if place.is_file() else {}
    folder = str(place.parent if place.is_file() else place)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, **named)
        kind = {"attn_implementation": "eager"} if short and device == "cpu" else {}
        model = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, dtype=getattr(torch, dtype), **kind, **named
        )
    except ImportError as error:
        raise EnvironmentProblem(f"{place} cannot be read: {error}: {TRAIN}") from None
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{place} holds no model that transformers can read: {error}") from None

    def read(text: str) -> list[int]:
        found: list[int] = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return found

    try:
        model.to(device)
    except (RuntimeError, AssertionError) as error:  # torch has no error of its own for it
        raise UsageError(f"torch has no device {device!r} here: {str(error).splitlines()[0]}") from None

    def say(ids: Sequence[int]) -> str:
        text: str = tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    return Opened(model, read, Frame.of(tokenizer.get_vocab(), read), say)
