"""The constrained beam: the likeliest tools that a decoder says, among those that there are (ToolWeaver §3.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from atc import UsageError
from atc_research.toolweaver.code_decoder import CodeDecoder, DynamicCache, torch
from atc_research.toolweaver.code_tokens import CodeMask


@dataclass(frozen=True)
class Said:
    """A tool that a beam ends in.

    Attributes:
        codes: of the tool.
        score: log P(codes | query), over the whole vocabulary.
    """

    codes: tuple[int, ...]
    score: float


def say(
    decoder: CodeDecoder,
    mask: CodeMask,
    prompt: Sequence[int],
    width: int = 10,
    made: Callable[[Any], None] | None = None,
) -> list[Said]:
    """The likeliest codes after a prompt, the best first; at most ``width``, none where there are no tools.

    Each level is one pass of at most ``width`` tokens over what the passes before have kept. Tokens that no tool has
    there have no chance.

    Args:
        made: called at the end with the keys and values that were kept, to measure them.
    """
    levels, device = mask.tokens.levels, decoder.rows.device
    cache = DynamicCache(config=decoder.base.config)
    beams: list[Said] = [Said((), 0.0)]
    inputs = torch.tensor([list(prompt)], device=device)
    with torch.inference_mode():
        for level in range(levels):
            chances = torch.log_softmax(decoder.logits(decoder.hidden(inputs, cache)[:, -1]), -1)
            found: list[tuple[float, int, int]] = []
            for row, beam in enumerate(beams):
                allowed = torch.from_numpy(mask.next(beam.codes)).to(device)
                best = torch.topk(chances[row, allowed], min(width, len(allowed)))
                pairs = zip(best.values.tolist(), allowed[best.indices].tolist(), strict=True)
                found += [(beam.score + value, row, token) for value, token in pairs]
            found = sorted(found, key=lambda each: (-each[0], each[2]))[:width]
            if not found:
                return []
            first = mask.tokens.first + level * mask.tokens.size
            beams = [Said((*beams[row].codes, token - first), score) for score, row, token in found]
            if level + 1 < levels:
                # the rows of the cache that go on, in the beams' order
                cache.reorder_cache(torch.tensor([row for _, row, _ in found], device=device))
                inputs = torch.tensor([[token] for _, _, token in found], device=device)
    if made is not None:
        made(cache)
    return beams


def write(
    decoder: CodeDecoder, mask: CodeMask, prompt: Sequence[int], ends: Sequence[int], most: int = 256
) -> list[int]:
    """What a decoder goes on with, the likeliest token each time: words freely, and codes of tools that there are.

    The mask holds from a tool's first code to its last (§3.4); elsewhere all of the model's own tokens may follow.

    Args:
        ends: tokens that end a turn; the first of them is the last that is returned.
        most: tokens at most.
    """
    said = list(prompt)
    device, first = decoder.rows.device, mask.tokens.first
    cache = DynamicCache(config=decoder.base.config)
    inputs = torch.tensor([said], device=device)
    begins = torch.from_numpy(mask.next(()))
    with torch.inference_mode():
        for _ in range(most):
            logits = decoder.logits(decoder.hidden(inputs, cache)[0, -1])
            allowed = mask.allowed(said[len(prompt) :])
            open_to = torch.zeros(len(logits), dtype=torch.bool, device=device)
            if allowed is None:
                open_to[:first] = True
                open_to[begins] = True
            else:
                open_to[torch.from_numpy(allowed)] = True
            token = int(torch.argmax(logits.masked_fill(~open_to, -torch.inf)))
            said.append(token)
            if token in ends:
                break
            inputs = torch.tensor([[token]], device=device)
    return said[len(prompt) :]


def perplexity(logits: Callable[[torch.Tensor], torch.Tensor], text: Sequence[int], window: int = 1_024) -> float:
    """How much a plain text surprises a model, a token of it: in windows that follow each other (App. B.4.1).

    New tokens take part: what chance they are given is missing elsewhere.

    Args:
        logits: of tokens, of shape ``(1, tokens)``: those of each next token, of shape ``(tokens, vocabulary)``.
        text: its tokens.

    Raises:
        UsageError: there are fewer than two.
    """
    if len(text) < 2:
        raise UsageError("a text of two tokens at least has a perplexity")
    total, count = 0.0, 0
    with torch.inference_mode():
        for at in range(0, len(text) - 1, window):
            ids = torch.tensor([list(text[at : at + window])])
            found = logits(ids)[:-1].float()
            total += float(torch.nn.functional.cross_entropy(found, ids[0, 1:].to(found.device), reduction="sum"))
            count += ids.shape[1] - 1
    return float(np.exp(total / count))
