"""Programs that the types of tools lead while a small model writes them (monitor-guided decoding), over llama.cpp.

The reply is streamed as it would be without a guide. As each statement ends, :mod:`benchmarks.guided_types` looks at
it. Where it departs from the types, the stream is ended and the text goes back to that place:

- what stands there is written anew under a grammar of the texts that the types allow. Where the documents are open,
  what the model wrote by itself stays if it finds that likelier by more than :data:`WEIGHT`;
- a statement that is certainly wrong is drawn again, three times at most, behind a comment that says why and is not
  kept.

Then the stream goes on from there. llama.cpp keeps what it has read, so a place costs its own few tokens. What nobody
corrects is what the model writes without a guide, token by token: where that reply is there already, it stands for the
stream. A ``logit_bias`` would not do for the weight: it acts on tokens, and ``movie_name`` and ``movie_title`` begin
with the same one.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from benchmarks.gateway import PATIENCE_S, Upstream
from benchmarks.guided_lines import is_fence, is_idle, program_start, statement_end
from benchmarks.guided_types import MAX_CHARACTERS, MAX_CHOICES, Departure, Types

WEIGHT = 5.0
"""How much the documents weigh against a text that they do not have, where they are open: e^5, 148 to 1."""
MOST_DRAWN = 3
"""How often a statement that is certainly wrong is drawn again."""
MOST_CORRECTED = 6
"""Places of one statement that are corrected."""
MOST_WRITTEN = 2
"""Tokens of a reply in all, with those that are thrown away, as a multiple of its limit."""
MAX_PLACE = 96
"""Tokens that are written at one place under a grammar."""
MAX_STATEMENT = 300
"""Tokens of a statement that is drawn again."""
MAX_REASON = 200
"""Characters of the comment before it."""


def grammar_of(texts: Sequence[str]) -> str | None:
    """Return the grammar (GBNF) whose sentences are exactly these texts; ``None`` where there are none or too many.

    A text is data in it: every sign that is not a letter, a digit or ``_`` is written as its code point.
    """
    if not texts or len(texts) > MAX_CHOICES or sum(map(len, texts)) > MAX_CHARACTERS:
        return None
    return "root ::= " + " | ".join(f'"{"".join(map(_sign, text))}"' for text in dict.fromkeys(texts))


def _sign(sign: str) -> str:
    if sign.isascii() and (sign.isalnum() or sign == "_"):
        return sign
    code = ord(sign)
    return f"\\x{code:02X}" if code < 0x80 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


@dataclass(frozen=True)
class Piece:
    """A piece of a text as it is written.

    Attributes:
        tokens: written so far. ``read``: of the prompt, those that were not in the cache.
        prompt: tokens of the whole prompt.
        logprob: of the pieces' tokens, as the model gives them before any grammar.
        finish: of the last piece, why it is the last: ``stop`` or ``length``.
    """

    text: str
    tokens: int = 0
    read: int = 0
    prompt: int = 0
    logprob: float = 0.0
    finish: str = ""


class Completions(Protocol):
    """What writes on behind a text. A test has a scripted one."""

    async def prompt(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Return the text that a model reads of these messages."""

    def stream(self, prompt: str, **options: Any) -> AsyncIterator[Piece]:
        """Write on behind a prompt, until it is told to end, or nobody listens any more."""


class LlamaServer:
    """llama.cpp's own routes beside the OpenAI-compatible ones.

    Args:
        client: for requests. ``url``: of the server, up to ``/v1``. ``key``: that it asks for.

    Raises:
        httpx.HTTPError: from the methods, where the server fails.
    """

    def __init__(self, client: httpx.AsyncClient, url: str, key: str) -> None:
        self._client, self._url = client, url.removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def prompt(self, messages: Sequence[Mapping[str, Any]]) -> str:
        asked = {"messages": list(messages)}
        answer = await self._client.post(f"{self._url}/apply-template", json=asked, headers=self._headers)
        return str(answer.raise_for_status().json()["prompt"])

    async def stream(self, prompt: str, **options: Any) -> AsyncIterator[Piece]:
        body = {"prompt": prompt, "stream": True, "cache_prompt": True, "timings_per_token": True, **options}
        async with self._client.stream("POST", f"{self._url}/completion", json=body, headers=self._headers) as answer:
            if answer.status_code != 200:
                await answer.aread()
                answer.raise_for_status()
            async for line in answer.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    said = json.loads(line.removeprefix("data: "))
                    if "error" in said:
                        raise httpx.HTTPError(str(said["error"])[:300])
                    yield _piece(said)


@asynccontextmanager
async def llama_server(upstream: Upstream) -> AsyncIterator[LlamaServer]:
    """Open a client for llama.cpp's server."""
    limits = httpx.Limits(max_keepalive_connections=0)  # one that the server is closing would lose a request
    async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=not upstream.direct, limits=limits) as client:
        yield LlamaServer(client, upstream.url, upstream.api_key)


def _piece(said: Mapping[str, Any]) -> Piece:
    timings = said.get("timings") or {}
    chances = [float(each["logprob"]) for each in said.get("completion_probabilities") or () if each.get("token")]
    finish = "" if not said.get("stop") else "length" if said.get("stop_type") == "limit" else "stop"
    return Piece(
        said.get("content") or "",
        int(said.get("tokens_predicted") or 0),
        int(timings.get("prompt_n") or 0),
        int(said.get("tokens_evaluated") or 0),
        sum(chances),
        finish,
    )


@dataclass
class Figures:
    """What a guided reply took.

    Attributes:
        prompt: tokens of the prompt. ``reread``: read again where the text went on from an earlier place.
        written: tokens, with those that were thrown away: what drew them is part of the price.
        noted: what was done, by kind.
    """

    prompt: int = 0
    reread: int = 0
    written: int = 0
    noted: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Unguided:
    """What the model wrote behind the same prompt without a guide.

    Attributes:
        finish: as of :class:`Piece`. ``read``: tokens of the prompt. ``written``: of the text.
        read_s, write_s: seconds that reading the prompt and writing the text took.
    """

    text: str
    finish: str
    read: int
    written: int
    read_s: float
    write_s: float


@dataclass(frozen=True)
class _Wrong:
    """A statement that is certainly wrong, from ``start`` to ``end`` of the program, and why."""

    start: int
    end: int
    reason: str


class GuidedReply:
    """One reply that is written with a guide.

    Args:
        completions: what writes.
        types: the guide.
        prompt: what the model reads.
        options: of each request: temperature, seed, stop.
        max_tokens: of the reply.
        unguided: the reply without a guide, if it is there. It stands for the first stream, at the price of as much of
            it as that stream would have had to write.

    Attributes:
        begun_s: seconds that the first stream takes, where ``unguided`` stands for it.
    """

    def __init__(
        self,
        completions: Completions,
        types: Types,
        prompt: str,
        options: Mapping[str, Any],
        max_tokens: int,
        unguided: Unguided | None = None,
    ) -> None:
        self._completions, self._types, self._prompt = completions, types, prompt
        self._options, self._max_tokens = dict(options), max_tokens
        self.text, self.finish, self.figures = "", "stop", Figures()
        self.begun_s, self._whole = 0.0, unguided
        if unguided is not None:
            self.text, self.finish, self.figures.prompt = unguided.text, unguided.finish, unguided.read
        self._done = 0  # of the program: the end of the last statement that was looked at
        self._seen = 0  # of the text: the end of the last statement that was at fault
        self._settled: set[int] = set()  # places of this statement that stay as they are
        self._corrected = 0
        self._drawn = False  # this statement was drawn again

    async def write(self) -> None:
        """Write the reply: :attr:`text`, :attr:`finish` and :attr:`figures`.

        Raises:
            httpx.HTTPError: the server failed.
        """
        while (found := await self._until_found()) is not None:
            if isinstance(found, Departure):
                await self._correct(found)
            else:
                await self._draw_again(found)
            if self._left <= 0:
                self.finish = "length"
                return
        self._take_begun(len(self.text))

    def _take_begun(self, length: int) -> None:
        """Count the first ``length`` characters of the reply without a guide, where it stands for a stream."""
        if (whole := self._whole) is not None:
            share = min(1.0, length / len(whole.text)) if whole.text else 1.0
            self.figures.written += round(share * whole.written)
            self.begun_s, self._whole = whole.read_s + share * whole.write_s, None

    def _go_back(self, text: str) -> None:
        """Go on behind another text, from the statement that was at fault."""
        self._take_begun(self._seen)
        self.text = text

    @property
    def _left(self) -> int:
        return min(self._max_tokens, MOST_WRITTEN * self._max_tokens - self.figures.written)

    async def _until_found(self) -> Departure | _Wrong | None:
        """Stream on until a statement is at fault; ``None``: the reply has ended."""
        whole = self._whole is not None
        if self.text and (found := self._look(ended=whole and self.finish == "stop")) is not None:
            return found  # what a correction left behind, or in the reply without a guide
        if whole:
            return None
        count, found = _Count(self.figures), None
        stream = self._completions.stream(self._prompt + self.text, n_predict=self._left, **self._options)
        async for piece in stream:
            count(piece)
            self.text += piece.text
            self.finish = piece.finish or self.finish
            if ("\n" in piece.text or piece.finish) and (found := self._look(ended=piece.finish == "stop")) is not None:
                break
        await _close(stream)
        return found

    def _look(self, *, ended: bool = False) -> Departure | _Wrong | None:
        """Look at the statements that are complete, and return the first fault."""
        begins = program_start(self.text)
        if begins is None:
            return None
        code = self.text[begins:] + ("\n" if ended else "")
        while (end := statement_end(code, self._done)) is not None:
            statement = code[self._done : end]
            if is_fence(statement):
                return None
            found = None if is_idle(statement) else self._fault(code[:end])
            if found is not None:
                self._seen = begins + end
                return found
            self._next(end)
        return None

    def _fault(self, code: str) -> Departure | _Wrong | None:
        if self._corrected < MOST_CORRECTED:
            for each in self._types.departures(code, self._done):
                if each.at not in self._settled:
                    return each
        if not self._drawn and (reason := self._types.certainly_wrong(code, self._done)):
            return _Wrong(self._done, len(code), reason)
        return None

    def _next(self, start: int) -> None:
        self._done, self._settled, self._corrected, self._drawn = start, set(), 0, False

    async def _correct(self, departure: Departure) -> None:
        """Write a place anew, or leave it where the model insists and may be right."""
        begins = program_start(self.text) or 0
        before, after = self.text[: begins + departure.at], self.text[begins + departure.at :]
        written = after[: departure.until - departure.at]
        chosen, chance = await self._forced(before, departure.choices)
        stays = chosen is None
        if not stays and not departure.only:
            stays = (await self._forced(before, [written]))[1] > chance + WEIGHT
        self._settled = {at for at in self._settled if at < departure.at} | {departure.at}
        self._corrected += 1
        self.figures.noted[f"guide:{departure.kind}{'-kept' if stays else ''}"] += 1
        if not stays:
            self._go_back(before + (chosen or ""))

    async def _forced(self, before: str, texts: Sequence[str]) -> tuple[str | None, float]:
        """Return which of some texts the model writes, and how likely it found that by itself (a logarithm)."""
        grammar, made, chance = grammar_of(texts), "", 0.0
        if grammar is None:
            return None, -math.inf
        count = _Count(self.figures)
        options = {**self._options, "stop": [], "n_predict": MAX_PLACE, "grammar": grammar, "n_probs": 1}
        stream = self._completions.stream(self._prompt + before, **options)
        async for piece in stream:
            count(piece)
            made += piece.text
            chance += piece.logprob
            if sum(text.startswith(made) for text in texts) == 1 and made in texts:
                break  # the end is all that is left
        await _close(stream)
        return (made, chance) if made in texts else (None, -math.inf)

    async def _draw_again(self, wrong: _Wrong) -> None:
        """Draw a statement again behind a comment that says what is wrong with it; the comment is not kept."""
        begins = program_start(self.text) or 0
        before, statement = self.text[: begins + wrong.start], self.text[begins + wrong.start : begins + wrong.end]
        margin = statement[: len(statement) - len(statement.lstrip(" \t"))]
        comment = f"{margin}# not so: {' '.join(wrong.reason.split())[:MAX_REASON]}\n"
        self._drawn = True
        for number in range(1, MOST_DRAWN + 1):
            self.figures.noted["guide:drawn"] += 1
            drawn = await self._statement(before + comment, number)
            if drawn and not self._types.certainly_wrong(before[begins:] + drawn, wrong.start):
                self.figures.noted["guide:mended"] += 1
                self._go_back(before + drawn)
                return

    async def _statement(self, before: str, number: int) -> str:
        """Return the next statement behind a text, with no comment before it; empty if there comes none."""
        drawn, count = "", _Count(self.figures)
        options = {**self._options, "seed": int(self._options.get("seed") or 0) + 7_919 * number}
        stream = self._completions.stream(self._prompt + before, n_predict=MAX_STATEMENT, **options)
        found = ""
        async for piece in stream:
            count(piece)
            drawn += piece.text + ("\n" if piece.finish == "stop" else "")
            if found := _first_statement(drawn):
                break
        await _close(stream)
        return "" if is_fence(found) else found


def _first_statement(text: str) -> str:
    start = 0
    while (end := statement_end(text, start)) is not None:
        if not is_idle(text[start:end]):
            return text[start:end]
        start = end
    return ""


class _Count:
    """Counts what the pieces of one stream took."""

    def __init__(self, figures: Figures) -> None:
        self._figures, self._last, self._first = figures, Piece(""), not figures.prompt

    def __call__(self, piece: Piece) -> None:
        figures, last = self._figures, self._last
        figures.written += max(0, piece.tokens - last.tokens)
        if self._first:
            figures.prompt = max(figures.prompt, piece.prompt)
        else:
            figures.reread += max(0, piece.read - last.read)
        self._last = piece


async def _close(stream: AsyncIterator[Piece]) -> None:
    """End a stream: the server stops writing as soon as nobody listens."""
    if (close := getattr(stream, "aclose", None)) is not None:
        await close()


def chat_completion(reply: GuidedReply, model: str) -> dict[str, Any]:
    """Return a guided reply as an OpenAI-compatible endpoint gives one; what was noted of it stands beside."""
    figures = reply.figures
    message = {"role": "assistant", "content": reply.text}
    read = figures.prompt + figures.reread
    return {
        "object": "chat.completion",
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish}],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": figures.written,
            "total_tokens": read + figures.written,
        },
        "noted": {**figures.noted, "guide:reread-tokens": figures.reread},
    }


def noted_in(rows: Iterable[Mapping[str, int] | None]) -> Counter[str]:
    """Return what guides did over several tries, by kind."""
    found = Counter[str]()
    for row in rows:
        found.update({name: count for name, count in (row or {}).items() if name.startswith("guide:")})
    return found
