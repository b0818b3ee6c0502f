"""What a decoder reads and is taught that says tools by codes: new tokens, examples, masks (ToolWeaver §3.3, §3.4).

Nothing here needs torch. A text is split into a model's own tokens only: one that spells ``<T1_5>`` or a control token
stays text, so that no query and no reply of a tool says a tool or ends a turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from atc import UsageError
from atc_research.toolweaver.code_trie import Trie

Reader = Callable[[str], list[int]]
"""The tokens of a plain text, by their numbers, without control tokens."""
Role = Literal["system", "user", "assistant", "tool"]

MAX_TOKENS = 6_144
"""Tokens of one example (App. A.3)."""


@dataclass(frozen=True)
class CodeTokens:
    """The new tokens: one for each code of each level.

    Attributes:
        levels: L, codes of one tool.
        size: K, codes of a level.
        first: the number of the first of them, which is the size of the model's own vocabulary.
    """

    levels: int
    size: int
    first: int

    def __len__(self) -> int:
        return self.levels * self.size

    @property
    def names(self) -> list[str]:
        """``<T1_0>`` … ``<T2_0>`` …: levels count from 1, as in the paper, codes from 0, as in the index."""
        return [f"<T{level}_{code}>" for level in range(1, self.levels + 1) for code in range(self.size)]

    def ids(self, codes: Sequence[int], level: int = 0) -> list[int]:
        """The tokens of the codes of one tool.

        Args:
            codes: whole, or some of them that follow each other.
            level: of the first of them, from 0.

        Raises:
            UsageError: there are more codes than levels, or a code is not below :attr:`size`.
        """
        if level + len(codes) > self.levels or any(not 0 <= code < self.size for code in codes):
            raise UsageError(f"{list(codes)} are no codes of {self.levels} levels with {self.size} codes each")
        return [self.first + (level + at) * self.size + int(code) for at, code in enumerate(codes)]

    def code(self, token: int) -> tuple[int, int] | None:
        """The level, from 0, and the code of a token; ``None`` for one of the model's own."""
        at = token - self.first
        return divmod(at, self.size) if 0 <= at < len(self) else None


class CodeMask:
    """Which tokens may come next (§3.4): codes of tools that there are, and only where a tool is being said.

    Args:
        tokens: the new tokens.
        trie: the codes of all tools.
    """

    def __init__(self, tokens: CodeTokens, trie: Trie) -> None:
        if len(trie) and trie.levels != tokens.levels:
            raise UsageError(f"the tools have codes of {trie.levels} levels, the model says {tokens.levels}")
        self.tokens, self.trie = tokens, trie

    def next(self, prefix: Sequence[int]) -> NDArray[np.int64]:
        """The tokens that go on after the first codes of a tool; none after whole ones."""
        codes = self.trie.children(tuple(prefix)).astype(np.int64)
        return self.tokens.first + len(prefix) * self.tokens.size + codes

    def begun(self, said: Sequence[int]) -> tuple[int, ...]:
        """The codes of a tool that the last tokens have begun and not ended; none where nothing is begun.

        Args:
            said: the tokens so far.
        """
        codes: list[int] = []
        for token in said[-self.tokens.levels :]:
            found = self.tokens.code(token)
            level, code = found or (-1, 0)
            codes = [*codes, code] if level == len(codes) else [code] * (level == 0)
            if len(codes) == self.tokens.levels:
                codes = []
        return tuple(codes)

    def allowed(self, said: Sequence[int]) -> NDArray[np.int64] | None:
        """The new tokens that may follow, where a tool is being said; ``None`` elsewhere.

        Elsewhere all of the model's own tokens may follow, and of the new ones those of :meth:`next` of no prefix.
        """
        prefix = self.begun(said)
        return self.next(prefix) if prefix else None


@dataclass(frozen=True)
class Frame:
    """How a kind of model marks turns: control tokens, by their numbers, around the name of a role."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    end: tuple[int, ...]

    @classmethod
    def of(cls, vocabulary: Mapping[str, int], read: Reader) -> Frame:
        """The frame of a model, told by the control tokens that it has: as of ChatML, or as of Llama 3.

        Raises:
            UsageError: it has neither.
        """
        for before, after, newline, end in _FRAMES:
            if all(name in vocabulary for name in (before, after, end) if name):
                closing = (vocabulary[after],) if after else ()
                return cls((vocabulary[before],), (*closing, *read(newline)), (vocabulary[end],))
        raise UsageError(
            "this model has control tokens neither of ChatML (<|im_start|>) nor of Llama 3 (<|start_header_id|>): "
            "give one that was tuned to follow instructions"
        )


_FRAMES = (
    ("<|im_start|>", "", "\n", "<|im_end|>"),
    ("<|start_header_id|>", "<|end_header_id|>", "\n\n", "<|eot_id|>"),
)


@dataclass(frozen=True)
class Example:
    """What is learnt from at once.

    Attributes:
        ids: tokens.
        learnt: of each, whether the loss counts it.
    """

    ids: tuple[int, ...]
    learnt: tuple[bool, ...]


@dataclass(frozen=True)
class Turn:
    """A turn of a trajectory.

    Attributes:
        role: who speaks. The loss counts what the assistant says, alone.
        text: the words: a task, a plan, what a tool replied, an answer.
        tool: the id of the tool that is called after the words, or nothing.
        arguments: of that call.
    """

    role: Role
    text: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Writer:
    """Makes examples for one model.

    Attributes:
        read: the model's tokenizer.
        frame: its marks of turns.
        tokens: the new tokens.
        longest: tokens of an example at most.
    """

    read: Reader
    frame: Frame
    tokens: CodeTokens
    longest: int = MAX_TOKENS

    def prompt(self, query: str) -> list[int]:
        """A query, up to where the codes begin. A longer one loses its end."""
        opening, after = self._opening("user"), [*self.frame.end, *self.read("\n"), *self._opening("assistant")]
        room = max(0, self.longest - len(opening) - len(after) - self.tokens.levels)
        return [*opening, *self.read(query)[:room], *after]

    def pair(self, query: str, codes: Sequence[int]) -> Example:
        """A query and the codes of a tool that answers it; the loss counts the codes alone (Eq. 10).

        Codes have one length, so that nothing need say where they end; arguments follow at once in a trajectory.
        """
        asked, said = self.prompt(query), self.tokens.ids(codes)
        return Example((*asked, *said), (False,) * len(asked) + (True,) * len(said))

    def trajectory(self, turns: Sequence[Turn], codes: Mapping[str, Sequence[int]]) -> Example:
        """A whole trajectory; the loss counts the assistant's words, codes and arguments, and where its turns end.

        A longer one loses its end.

        Raises:
            UsageError: a tool has no codes.
        """
        ids: list[int] = []
        learnt: list[bool] = []
        newline = self.read("\n")
        for turn in turns:
            opening, said = self._opening(turn.role), [*self._said(turn, codes), *self.frame.end]
            ids += [*opening, *said, *newline]
            learnt += [False] * len(opening) + [turn.role == "assistant"] * len(said) + [False] * len(newline)
        return Example(tuple(ids[: self.longest]), tuple(learnt[: self.longest]))

    def _said(self, turn: Turn, codes: Mapping[str, Sequence[int]]) -> list[int]:
        words = self.read(turn.text) if turn.text else []
        if not turn.tool:
            return words
        if turn.tool not in codes:
            raise UsageError(f"a trajectory calls {turn.tool}, which has no codes: index its tools, or leave it out")
        return [*words, *self.tokens.ids(codes[turn.tool]), *self.read(json.dumps(dict(turn.arguments), default=str))]

    def _opening(self, role: Role) -> list[int]:
        return [*self.frame.before, *self.read(role), *self.frame.after]


def codes_by_tool(ids: Sequence[str], values: NDArray[np.int16]) -> dict[str, tuple[int, ...]]:
    """The codes of each tool of an index, in the order of its rows."""
    return {id: tuple(int(code) for code in row) for id, row in zip(ids, values, strict=True)}


def words_of_codes(read: Reader, tokens: CodeTokens, texts: Sequence[str], codes: NDArray[np.int16]) -> list[list[int]]:
    """Of each new token, the model's tokens of the texts of all tools that have it.

    Args:
        texts: of each tool. ``codes``: of the same tools, a row each.
    """
    found: list[list[int]] = [[] for _ in range(len(tokens))]
    for text, row in zip(texts, codes.tolist(), strict=True):
        words = read(text)
        for token in tokens.ids(row):
            found[token - tokens.first] += words
    return found


def known(turns: Sequence[Turn], tools: Collection[str]) -> bool:
    """Whether all tools of a trajectory are among some, and there is something to learn."""
    return all(turn.tool in tools for turn in turns if turn.tool) and any(turn.role == "assistant" for turn in turns)
