"""Teaching a planner by what its searches find: group relative policy optimisation (ToolQP §3.3, App. C.4).

Each task is searched for several times by the real planner over the real index; what a search is worth
(:mod:`.rewards`) less what its group is worth on average is its advantage. The own words of a task and one
search with the reference plan are the baseline. It needs torch.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from atc import UsageError
from atc.plugins.learning import ToolIndex
from atc_research.toolqp.dialogue import Turns
from atc_research.toolqp.planner import Line, Planner, Policy
from atc_research.toolqp.planning import QueryPlanner
from atc_research.toolqp.rewards import Embed, K, Reward, reward, with_plan
from atc_research.toolweaver.code_decoder import nn, torch
from atc_research.toolweaver.code_tokens import Example
from atc_research.toolweaver.decoder_training import CHECKPOINT, Progress, go_on, keep

_CLIP = 0.2
_KEPT_S = 60.0


@dataclass(frozen=True)
class Grpo:
    """The training; what is not given is as in App. C.4.

    Attributes:
        steps: in all. ``warm_up``: of them, while the rate rises; then it stays.
        rate: the highest learning rate.
        batch: searches of a step. ``group``: of one task.
        passes: over the searches of a step, μ.
        kl: weight of the distance from the model that training began with.
        temperature: of the sampling.
        at_once: searches in memory together.
        seed: of all random choices.
    """

    steps: int = 500
    warm_up: int = 143
    rate: float = 1e-6
    batch: int = 256
    group: int = 4
    passes: int = 2
    kl: float = 0.02
    temperature: float = 1.0
    at_once: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.steps, self.passes, self.at_once) < 1 or self.group < 2 or self.batch % self.group:
            raise UsageError("a batch is whole groups of two searches or more, and takes one step and pass at least")
        if not 0 < self.rate < math.inf or self.kl < 0:
            raise UsageError("a rate is above 0, and the weight of the distance not below")


@dataclass(frozen=True)
class Rollout:
    """One search: its conversation as tokens, and what it was worth."""

    example: Example
    reward: Reward


def train(
    planner: Planner,
    lines: Sequence[Line],
    index: ToolIndex,
    embed: Embed,
    options: Grpo,
    folder: Path,
    *,
    until: float = math.inf,
    report: Callable[[Progress, float], None] | None = None,
) -> Progress:
    """Train on the tasks of trajectories; what a folder holds is gone on with.

    Args:
        planner: as supervised training left it; the distance is measured from it.
        lines: tasks with their tools and the reference plan.
        embed: of plans, for R_plan.
        folder: where the checkpoint is kept, each minute and at the end.
        until: stop before a step that begins later, by ``time.monotonic()``.
        report: called after each step, with the mean reward of its searches.

    Raises:
        UsageError: the folder holds another training, a tool is not in the index, or the loss is no number any more.
    """
    start = {name: value.clone() for name, value in planner.trained().items()}
    weights = [value for value in planner.parameters() if value.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=options.rate, weight_decay=0.0)
    progress = Progress(options.steps)
    made_of = sha256(
        repr((asdict(options), planner.rank, [line.about.get("id") for line in lines])).encode()
    ).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    go_on(planner, optimiser, progress, folder / CHECKPOINT, made_of)
    kept = time.monotonic()
    while not progress.done and (begun := time.monotonic()) <= until:
        random = np.random.default_rng((options.seed, progress.step))
        tasks = [lines[row] for row in random.integers(len(lines), size=options.batch // options.group)]
        policy = Policy(planner, options.temperature, int(random.integers(2**31)))
        rollouts = asyncio.run(search(planner, policy, tasks, index, embed, options.group))
        for group in optimiser.param_groups:
            group["lr"] = options.rate * min(1.0, (progress.step + 1) / max(1, options.warm_up))
        loss = update(planner, start, rollouts, options, optimiser)
        progress.step += 1
        progress.losses.append(loss)
        progress.seconds += time.monotonic() - begun
        if report is not None:
            report(progress, float(np.mean([each.reward.total for each in rollouts])))
        if time.monotonic() - kept > _KEPT_S:
            keep(planner, optimiser, progress, folder / CHECKPOINT, made_of)
            kept = time.monotonic()
    keep(planner, optimiser, progress, folder / CHECKPOINT, made_of)
    return progress


async def search(
    planner: Planner, policy: Policy, tasks: Sequence[Line], index: ToolIndex, embed: Embed, group: int
) -> list[Rollout]:
    """Search for each task ``group`` times, all at once; the searches of a task stand together."""

    async def one(line: Line) -> Rollout:
        about = line.about
        turns = Turns(**about["turns"]) if "turns" in about else Turns()
        done = await QueryPlanner(index, policy, adaptive=False, turns=turns).search(about["query"])
        said = [each.content for each in done.messages[line.given :] if each.role == "assistant"]
        baseline = [hit.id for hit in index.search(with_plan(about["query"], about["plan"]), limit=K)]
        worth = reward(said, done.ranked(K), baseline, about["gold"], about["plan"], embed, form=turns.form)
        messages = [(each.role, each.content) for each in done.messages]
        while messages and messages[-1][0] != "assistant":
            messages.pop()  # what was told last was not replied to
        return Rollout(planner.example(messages, line.given), worth)

    return await asyncio.gather(*(one(line) for line in tasks for _ in range(group)))


def advantages(rewards: Sequence[float], group: int) -> list[float]:
    """Of each search its reward less the mean of its group, in standard deviations; 0 where all are alike."""
    found: list[float] = []
    for at in range(0, len(rewards), group):
        some = np.array(rewards[at : at + group])
        spread = float(some.std())
        found += ((some - some.mean()) / spread).tolist() if spread > 1e-6 else [0.0] * len(some)
    return found


def update(
    planner: Planner,
    start: dict[str, torch.Tensor],
    rollouts: Sequence[Rollout],
    options: Grpo,
    optimiser: torch.optim.Optimizer,
) -> float:
    """μ steps on the searches of one batch. Returns the mean loss of the first.

    The ratio of each token is clipped at 1 ± 0.2, and the distance from the start is estimated by r − log r − 1.
    """
    gained = advantages([each.reward.total for each in rollouts], options.group)
    batches = [range(at, min(at + options.at_once, len(rollouts))) for at in range(0, len(rollouts), options.at_once)]
    planner.eval()  # no noise: a ratio is of the weights alone
    with torch.no_grad():
        old = [planner.log_probabilities([rollouts[row].example for row in some])[0] for some in batches]
        now = {name: value.clone() for name, value in planner.trained().items()}
        _put(planner, start)
        first = [planner.log_probabilities([rollouts[row].example for row in some])[0] for some in batches]
        _put(planner, now)
    total = 0.0
    for number in range(options.passes):
        optimiser.zero_grad()
        for some, before, reference in zip(batches, old, first, strict=True):
            said, rows = planner.log_probabilities([rollouts[row].example for row in some])
            ratio = torch.exp(said - before)
            gain = torch.tensor([gained[row] for row in some], device=said.device)[rows]
            apart = torch.exp(reference - said) - (reference - said) - 1
            each = options.kl * apart - torch.minimum(ratio * gain, ratio.clamp(1 - _CLIP, 1 + _CLIP) * gain)
            lengths = torch.bincount(rows, minlength=len(some)).clamp(min=1)
            loss = (each / lengths[rows]).sum() / len(rollouts)  # each search counts the same
            torch.autograd.backward([loss])
            total += float(loss.detach()) if not number else 0.0
        if not math.isfinite(total):
            raise UsageError("the training has left all bounds: begin anew with a lower rate")
        nn.utils.clip_grad_norm_([value for value in planner.parameters() if value.requires_grad], 1.0)
        optimiser.step()
    return total


def _put(planner: Planner, weights: dict[str, Any]) -> None:
    for name, value in planner.trained().items():
        value.copy_(weights[name])
