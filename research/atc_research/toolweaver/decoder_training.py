"""Training a decoder that says tools by codes, in pieces: the same steps whether it is cut off or not (App. A.3)."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from atc import EnvironmentProblem, UsageError
from atc.plugins.learning import lock
from atc_research.toolweaver.code_decoder import nn, torch
from atc_research.toolweaver.code_tokens import CodeTokens, Example

CHECKPOINT = "decoder.pt"
_NEAR = 32
"""Batches whose examples are drawn together and sorted by length, so that little is padded."""
_KEPT_S = 60.0


class Learner(Protocol):
    """A model that can be trained: of :mod:`.code_decoder` or :mod:`~atc_research.toolqp.planner`."""

    base: Any
    tokens: CodeTokens

    def loss(self, some: Sequence[Example]) -> tuple[torch.Tensor, int]:
        """The sum of −log P over the tokens that count, and their number."""

    def trained(self) -> dict[str, torch.Tensor]:
        """The weights that training changes."""

    def parameters(self) -> Iterator[torch.Tensor]:
        """All weights."""

    def train(self) -> Any:
        """Make it ready to learn."""

    def eval(self) -> Any:
        """Make it ready to be asked."""


@dataclass(frozen=True)
class Options:
    """The training; what is not given is as in App. A.3, but for the rate and the batch, which fit low-rank changes.

    Attributes:
        rank: of the low-rank changes of each linear map; 0: all weights are trained (the paper: rate 4e-5).
        rate: the highest learning rate, reached after ``warm_up`` of the steps, then falling as a cosine.
        epochs: stage 1 has 5 in the paper, stage 2 has 2.
        batch: examples of a step. ``at_once``: of them in memory together.
        recompute: activations are made again on the way back: less memory, a third more time.
        seed: of all random choices.
        decay: of the weights, at each step, times the rate.
        warm_up_steps: in place of ``warm_up``, unless 0.
    """

    rank: int = 16
    rate: float = 1e-3
    warm_up: float = 0.03
    epochs: int = 5
    batch: int = 8
    at_once: int = 64
    recompute: bool = False
    seed: int = 0
    decay: float = 0.0
    warm_up_steps: int = 0

    def __post_init__(self) -> None:
        if self.rank < 0 or min(self.epochs, self.batch, self.at_once) < 1 or not 0 < self.rate < math.inf:
            raise UsageError("a training needs a rank of 0 or more, a rate above 0, and one epoch and example at least")

    def share(self, steps: int) -> float:
        """Of the steps, those in which the rate rises."""
        return min(1.0, self.warm_up_steps / max(1, steps)) if self.warm_up_steps else self.warm_up


@dataclass
class Progress:
    """How far a training is.

    Attributes:
        step: steps done, of ``steps``.
        seconds: that they took, all pieces together.
        losses: of each step, a token, the model's own scale (nats).
    """

    steps: int
    step: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether there is no step left."""
        return self.step >= self.steps


def train(
    decoder: Learner,
    examples: Sequence[Example],
    options: Options,
    folder: Path | None = None,
    *,
    until: float = math.inf,
    report: Callable[[Progress], None] | None = None,
) -> Progress:
    """Train on examples, of either stage; what a folder holds is gone on with, and ends as if nothing had been between.

    Args:
        folder: where the checkpoint is kept; written at the end of a piece and each minute, so
            that an interrupted one loses a minute.
        until: stop before a step that begins later, by ``time.monotonic()``.
        report: called after each step.

    Raises:
        UsageError: there are no examples, the folder holds a training of other examples, options or tokens, or the loss
            is no number any more.
    """
    if not any(any(each.learnt[1:]) for each in examples):
        raise UsageError("no examples to learn from")
    weights = [value for value in decoder.parameters() if value.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=options.rate, weight_decay=options.decay)
    progress = Progress(options.epochs * math.ceil(len(examples) / options.batch))
    made_of = _digest(decoder, examples, options)
    if folder is None:
        return _steps(decoder, examples, options, optimiser, progress, until, report, lambda: None)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("ab") as held:
        try:
            lock(held)
        except BlockingIOError:
            raise UsageError(f"{folder} is being written by another training: wait for it, or name another") from None
        go_on(decoder, optimiser, progress, folder / CHECKPOINT, made_of)

        def save() -> None:
            keep(decoder, optimiser, progress, folder / CHECKPOINT, made_of)

        return _steps(decoder, examples, options, optimiser, progress, until, report, save)


def _steps(
    decoder: Learner,
    examples: Sequence[Example],
    options: Options,
    optimiser: torch.optim.Optimizer,
    progress: Progress,
    until: float,
    report: Callable[[Progress], None] | None,
    keep: Callable[[], None],
) -> Progress:
    if options.recompute:
        decoder.base.activation_checkpointing_enable()
    decoder.train()
    kept = time.monotonic()
    for number, batch in enumerate(batches(examples, options)):
        if number < progress.step:
            continue
        begun = time.monotonic()
        if begun > until:
            break
        for group in optimiser.param_groups:
            group["lr"] = options.rate * scale(number, progress.steps, options.share(progress.steps))
        loss = _step(decoder, batch, options.at_once, optimiser)
        progress.step = number + 1
        progress.losses.append(loss)
        progress.seconds += time.monotonic() - begun
        if report is not None:
            report(progress)
        if time.monotonic() - kept > _KEPT_S:
            keep()
            kept = time.monotonic()
    keep()
    decoder.eval()
    return progress


def _step(decoder: Learner, batch: Sequence[Example], at_once: int, optimiser: torch.optim.Optimizer) -> float:
    optimiser.zero_grad()
    counted = sum(sum(each.learnt[1:]) for each in batch)
    total = 0.0
    for at in range(0, len(batch), at_once):
        loss, _ = decoder.loss(batch[at : at + at_once])
        torch.autograd.backward([loss / max(1, counted)])
        total += float(loss.detach())
    if not math.isfinite(total):
        raise UsageError("the training has left all bounds: begin anew with a lower rate; what was kept is from before")
    nn.utils.clip_grad_norm_([value for value in decoder.parameters() if value.requires_grad], 1.0)
    optimiser.step()
    return total / max(1, counted)


def batches(examples: Sequence[Example], options: Options) -> Iterator[list[Example]]:
    """The batches of all epochs, always the same ones; examples of like length stand together."""
    for epoch in range(options.epochs):
        rng = np.random.default_rng((options.seed, epoch))
        order = rng.permutation(len(examples))
        wide = options.batch * _NEAR
        for at in range(0, len(order), wide):
            near = sorted(order[at : at + wide].tolist(), key=lambda row: len(examples[row].ids))
            starts = range(0, len(near), options.batch)
            for start in rng.permutation(np.array(starts)).tolist():
                yield [examples[row] for row in near[start : start + options.batch]]


def scale(step: int, steps: int, warm_up: float) -> float:
    """The share of the highest rate at a step: rising at first, then falling as a cosine to 0."""
    rising = max(1, math.ceil(warm_up * steps))
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))


# -- checkpoints -----------------------------------------------------------------------------------------------------


def load(decoder: Learner, folder: Path) -> Progress:
    """Take the weights of a folder's checkpoint, to ask the decoder or to begin the next stage from.

    Raises:
        EnvironmentProblem: there is none.
        UsageError: it is of another model, rank or number of tokens, or cannot be read.
    """
    held = _held(folder / CHECKPOINT)
    if held is None:
        raise EnvironmentProblem(f"{folder} holds no trained decoder: train one first")
    _take(decoder, held, folder)
    decoder.eval()
    return Progress(**held["progress"])


def _digest(decoder: Learner, examples: Sequence[Example], options: Options) -> str:
    found = sha256(repr((asdict(options), asdict(decoder.tokens))).encode())
    for each in examples:
        found.update(repr((each.ids, each.learnt)).encode())
    return found.hexdigest()


def go_on(decoder: Learner, optimiser: torch.optim.Optimizer, progress: Progress, path: Path, made_of: str) -> None:
    held = _held(path)
    if held is None:
        return
    if held["made_of"] != made_of:
        raise UsageError(f"{path} is of other examples, options or tokens: name another folder, or remove it")
    _take(decoder, held, path.parent)
    optimiser.load_state_dict(held["optimiser"])
    for name, value in held["progress"].items():
        setattr(progress, name, value)


def _take(decoder: Learner, held: dict[str, Any], place: Path) -> None:
    weights = decoder.trained()
    if {name: value.shape for name, value in weights.items()} != {
        name: value.shape for name, value in held["weights"].items()
    }:
        raise UsageError(f"{place} holds a decoder of another model, rank or number of tokens")
    with torch.no_grad():
        for name, value in weights.items():
            value.copy_(held["weights"][name])


def _held(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        found: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file raises in torch
        raise UsageError(f"{path} cannot be read ({type(error).__name__}): remove it, and train anew") from None
    return found


def keep(decoder: Learner, optimiser: torch.optim.Optimizer, progress: Progress, path: Path, made_of: str) -> None:
    new = path.with_suffix(".part")
    held = {
        "weights": decoder.trained(),
        "optimiser": optimiser.state_dict(),
        "progress": asdict(progress),
        "made_of": made_of,
    }
    torch.save(held, new)
    os.replace(new, path)
