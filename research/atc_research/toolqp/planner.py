"""A language model that is taught to plan and to search: supervised training on trajectories (ToolQP §3.3, App. C.3).

It needs torch and transformers. Nothing that runs a task loads it. The loss counts what the planner says, alone: the
question, its worked example and the results are read and not learnt. ToolQP-Format adds targets: for each task of the
data the documents of its tools, as JSON.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atc import Message, Reply, UsageError
from atc.plugins.learning import ToolIndex, fenced
from atc_research.prompting import prompt
from atc_research.toolweaver.code_decoder import Opened, add_low_rank, functional, nn, padded, torch
from atc_research.toolweaver.code_tokens import CodeTokens, Example, Writer
from atc_research.toolweaver.code_tokens import Turn as Said
from atc_research.toolweaver.decoder_training import Options

PAPER_BASE = "Qwen3-1.7B"
"""The model of the paper (§4.1)."""
MAX_TOKENS = 16_384
"""Tokens of a conversation (App. C.3)."""
PAPER = Options(rank=0, rate=2e-5, epochs=3, batch=32, at_once=1, decay=0.01, warm_up_steps=150)
"""The training of App. C.3: all weights, a cosine after 150 steps."""


@dataclass(frozen=True)
class Line:
    """One conversation of a file of trajectories.

    Attributes:
        messages: roles and words.
        given: how many of them, from the first, are no part of what is learnt.
        about: the rest: ``query``, ``gold``, ``plan``, ``turns``.
    """

    messages: tuple[tuple[str, str], ...]
    given: int
    about: dict[str, Any]


def read_lines(path: Path) -> list[Line]:
    """The conversations of a file that ``atc tools learn trajectories`` wrote.

    Raises:
        UsageError: it cannot be read, holds none, or a line is no such conversation; the line is named.
    """
    found = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                try:
                    held = json.loads(text)
                    messages = tuple((str(each["role"]), str(each["content"])) for each in held["messages"])
                    about = dict(held["metadata"])
                    found.append(Line(messages, int(about.get("given", 0)), about))
                except (ValueError, KeyError, TypeError, RecursionError):
                    what = f"{path}, line {number} is no trajectory"
                    raise UsageError(f"{what}: give a file that `atc tools learn trajectories` wrote") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not found:
        raise UsageError(f"{path} holds no trajectory: make some with `atc tools learn trajectories`")
    return found


class Planner(nn.Module):
    """A causal language model that plans.

    Args:
        opened: the model, its tokenizer and its marks of turns.
        rank: of the low-rank changes of each linear map; 0: all weights are trained.
        longest: tokens of a conversation at most.
        seed: of the changes.
    """

    def __init__(self, opened: Opened, rank: int = 16, longest: int = MAX_TOKENS, seed: int = 0) -> None:
        super().__init__()
        self.base, self.rank, self.longest = opened.model, rank, longest
        self.writer = Writer(opened.read, opened.frame, CodeTokens(0, 0, 0), longest)
        self.tokens = self.writer.tokens
        self.say = opened.say
        add_low_rank(self.base, rank, torch.Generator().manual_seed(seed))

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        found: torch.device = next(self.base.parameters()).device
        return found

    # -- what it reads and is taught -----------------------------------------------------------------------------------

    def example(self, messages: Sequence[tuple[str, str]], given: int = 0) -> Example:
        """A conversation; the loss counts what the assistant says after the first ``given`` messages, ends included.

        One that is too long loses its end.
        """
        ids: list[int] = []
        learnt: list[bool] = []
        for number, (role, text) in enumerate(messages):
            turn = self.writer.trajectory([Said(role, text)], {})  # type: ignore[arg-type]
            ids += turn.ids
            learnt += turn.learnt if number >= given else [False] * len(turn.ids)
        return Example(tuple(ids[: self.longest]), tuple(learnt[: self.longest]))

    def prompt(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """A conversation up to where the planner speaks. One that is too long loses its beginning."""
        opening = [*self.writer.frame.before, *self.writer.read("assistant"), *self.writer.frame.after]
        ids = [token for role, text in messages for token in self.example([(role, text)]).ids]
        return [*ids[-max(1, self.longest - len(opening)) :], *opening]

    # -- the network ---------------------------------------------------------------------------------------------------

    def log_probabilities(self, some: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor]:
        """Of each token that counts, its log probability; and the row of each, both in one dimension."""
        tokens, counted = padded(some, self.device)
        hidden = self.base.base_model(input_ids=tokens[:, :-1], use_cache=False).last_hidden_state
        at = counted[:, 1:]
        logits = self.base.get_output_embeddings()(hidden[at]).float()  # only there: the vocabulary is wide
        targets = tokens[:, 1:][at]
        rows = torch.arange(len(some), device=self.device)[:, None].expand(at.shape)[at]
        return -functional.cross_entropy(logits, targets, reduction="none"), rows

    def loss(self, some: Sequence[Example]) -> tuple[torch.Tensor, int]:
        """The sum of −log P over the tokens that count, and their number."""
        found, _ = self.log_probabilities(some)
        return -found.sum(), len(found)

    def trained(self) -> dict[str, torch.Tensor]:
        """The weights that training changes."""
        return {name: value.detach() for name, value in self.named_parameters() if value.requires_grad}


def examples(planner: Planner, lines: Sequence[Line]) -> list[Example]:
    """What is learnt from conversations; one whose question alone fills ``longest`` teaches nothing and is left out."""
    made = (planner.example(line.messages, line.given) for line in lines)
    return [each for each in made if any(each.learnt)]


def format_examples(planner: Planner, lines: Sequence[Line], index: ToolIndex) -> Iterator[Example]:
    """ToolQP-Format (§4.1): the documents of a task's tools as further targets.

    The paper says that they are targets of the supervised training, not where they stand. Here each is a conversation
    of its own: the task, then one tool as JSON with ``name``, ``description`` and ``parameters``.

    Raises:
        UsageError: a tool is not in the index.
    """
    for line in lines:
        asked = prompt("learn_format", task=fenced(str(line.about.get("query", ""))))
        for id in line.about.get("gold", []):
            tool = index.protocol(id)
            document = {"name": tool.name, "description": tool.description, "parameters": tool.parameters["properties"]}
            yield planner.example([("user", asked), ("assistant", json.dumps(document, ensure_ascii=False))])


# -- asking it -------------------------------------------------------------------------------------------------------


class Policy:
    """Asks a planner, as :class:`~atc_research.toolqp.planning.QueryPlanner` does; what is asked at the same time is
    answered in one batch.

    Args:
        planner: the model.
        temperature: of the sampling, where a call gives none; 0 takes the likeliest token.
        seed: of the sampling.
        at_once: conversations of a batch at most.
    """

    def __init__(self, planner: Planner, temperature: float = 0.0, seed: int = 0, at_once: int = 16) -> None:
        self._planner, self._temperature, self._at_once = planner, temperature, at_once
        self._generator = torch.Generator().manual_seed(seed)
        self._waiting: list[tuple[list[int], int, asyncio.Future[str]]] = []

    async def __call__(self, messages: Sequence[Message], max_tokens: int) -> Reply:
        """The reply to a conversation."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        asked = self._planner.prompt([(each.role, each.content) for each in messages])
        self._waiting.append((asked, max_tokens, future))
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._answer)  # after all that are ready to ask
        return Reply(await future, "stop", len(asked), 0, 0.0)

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        waiting.sort(key=lambda each: len(each[0]))
        for at in range(0, len(waiting), self._at_once):
            some = waiting[at : at + self._at_once]
            try:
                texts = self._generated([ids for ids, _, _ in some], max(tokens for _, tokens, _ in some))
            except Exception as error:
                for _, _, future in some:
                    future.set_exception(error)
                continue
            for (_, _, future), text in zip(some, texts, strict=True):
                if not future.done():
                    future.set_result(text)

    def _generated(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[str]:
        planner, longest = self._planner, max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(some)) + list(some) for some in prompts], device=planner.device)
        mask = torch.tensor([[0] * (longest - len(some)) + [1] * len(some) for some in prompts], device=planner.device)
        end = planner.writer.frame.end[-1]
        said: list[list[int]] = [[] for _ in prompts]
        going = torch.ones(len(prompts), dtype=torch.bool, device=planner.device)
        cache: Any = None
        planner.eval()
        with torch.inference_mode():
            for _ in range(max_tokens):
                places = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
                made = planner.base(
                    input_ids=ids,
                    attention_mask=mask,
                    position_ids=places,
                    past_key_values=cache,
                    use_cache=True,
                    logits_to_keep=1,
                )
                cache, chosen = made.past_key_values, self._chosen(made.logits[:, -1].float())
                going &= chosen != end
                goes_on = going.tolist()  # one copy from the device a token, not one a row
                for row, token in enumerate(chosen.tolist()):
                    if goes_on[row]:
                        said[row].append(token)
                if not any(goes_on):
                    break
                ids = chosen[:, None]
                mask = torch.cat([mask, torch.ones_like(ids)], 1)
        return [planner.say(some) for some in said]

    def _chosen(self, logits: torch.Tensor) -> torch.Tensor:
        if not self._temperature:
            return logits.argmax(-1)
        shares = torch.softmax(logits / self._temperature, -1).cpu()
        drawn: torch.Tensor = torch.multinomial(shares, 1, generator=self._generator)[:, 0].to(logits.device)
        return drawn
