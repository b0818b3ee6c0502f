"""What a language model is asked and what it answers: messages, requests, replies, thoughts, estimates of tokens."""

from __future__ import annotations

import io
import re
import textwrap
import tokenize
from bisect import bisect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from atc._host.syntax import syntax_tree
from atc.models.images import IMAGE_TOKENS, Image
from atc.models.reply_format import ReplyFormat
from atc.wording.prompting import fenced, prompt

Role = Literal["system", "user", "assistant"]
FinishReason = Literal["stop", "length", "other"]
OnText = Callable[[str], None]


@dataclass(frozen=True)
class Message:
    """One message of a prompt.

    Attributes:
        fixed: it is text of this project, the same in every run.
        images: shown after the text, for a model that takes them (:attr:`Model.takes_images`).
        stable: so many characters of its beginning are the same for every task with these tools. A message that is not
            in the prompt for its tools has 0.
    """

    role: Role
    content: str
    fixed: bool = field(default=False, compare=False)
    images: tuple[Image, ...] = ()
    stable: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Reply:
    """One reply of a model.

    Attributes:
        text: the whole reply.
        finish_reason: ``"stop"``: the model ended it; ``"length"``: it was cut at a limit; ``"other"``: anything else,
            an endpoint that does not say why included.
        prompt_tokens: tokens of the prompt; an estimate (characters / 4) where the endpoint does not count them.
        completion_tokens: tokens of the reply, likewise.
        seconds: from the call to the end of the reply, retries included.
        cached: it came from the disk and cost nothing.
        model: the model's name.
        cached_tokens: those of ``prompt_tokens`` that the endpoint had read before, as far as it counts them: they may
            cost less.
        problem: where ``text`` is empty, why, as far as it is known; in words, and with what came in its place. Where
            it was to fit a schema or choices and does not, what is wrong with it.
        notice: what was found out about the endpoint by this reply and holds from now on; in words, for the user.
        value: the parsed reply, where it had to fit a schema or choices and does: the JSON value, or the choice.
            ``None`` otherwise, and where the JSON value is null: then there is no ``problem``.
    """

    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    cached: bool = False
    model: str = ""
    problem: str = ""
    value: Any = None
    cached_tokens: int = 0
    notice: str = ""


Ask = Callable[[Sequence[Message], int], Awaitable[Reply]]
"""Asks a model: the messages, and how many tokens it may reply with."""


def estimate_tokens(text_or_messages: str | Sequence[Message]) -> int:
    """Tokens of a text or of a prompt, roughly: four characters each, and four tokens of framing a message.

    An image counts as :data:`~atc.models.images.IMAGE_TOKENS`.
    """
    if isinstance(text_or_messages, str):
        return -(-len(text_or_messages) // 4)
    return sum(
        4 + estimate_tokens(message.content) + IMAGE_TOKENS * len(message.images) for message in text_or_messages
    )


def bounded_tokens(text: str) -> int:
    """A safe upper bound of the tokens of ordinary text where no tokenizer is at hand: three characters each."""
    return -(-len(text) // 3)


@dataclass(frozen=True)
class Sampling:
    """How a reply is sampled.

    Attributes:
        max_tokens: the most tokens of the reply.
        temperature: 0 takes the likeliest token every time.
        seed: makes sampling repeatable where the endpoint supports it.
        stop: texts that end the reply, as many as are wanted; they are not part of it.
    """

    max_tokens: int = 1024
    temperature: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelRequest:
    """One request for a reply.

    Attributes:
        messages: the prompt.
        sampling: how the reply is sampled.
        format: what the reply must be; anything for ``None``.
        on_text: called with each piece of the reply as it arrives.
        in_prompt: the prompt already states the format.
    """

    messages: tuple[Message, ...]
    sampling: Sampling = Sampling()
    format: ReplyFormat | None = None
    on_text: OnText | None = field(default=None, compare=False, repr=False)
    in_prompt: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The arguments beside the messages with which :meth:`Model.complete` makes this request."""
        sampling = self.sampling
        made: dict[str, Any] = {
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            "stop": sampling.stop,
            "on_text": self.on_text,
        }
        return made if self.format is None else made | self.format.options

    def with_tokens(self, max_tokens: int) -> ModelRequest:
        """The same request for a reply of at most so many tokens."""
        return replace(self, sampling=replace(self.sampling, max_tokens=max_tokens))

    def with_format_in_prompt(self) -> ModelRequest:
        """The same request with a prompt that ends with the format."""
        if self.format is None or self.in_prompt:
            return self
        return replace(self, messages=_with_user(self.messages, self.format.instruction()), in_prompt=True)

    def again(self, reply: Reply, problem: str) -> ModelRequest:
        """The request that follows a reply that does not fit: it shows the reply and its problem."""
        assert self.format is not None
        shown = Message("assistant", reply.text[:_SHOWN] or "(nothing)")
        correction = Message("user", prompt("reply_again", problem=fenced(problem), wanted=self.format.instruction()))
        return replace(self, messages=(*self.messages, shown, correction), in_prompt=True)


_SHOWN = 2_000  # characters of a reply that does not fit


def _with_user(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    if messages and messages[-1].role == "user":
        last = messages[-1]
        return (*messages[:-1], Message("user", f"{last.content}\n\n{text}", images=last.images))
    return (*messages, Message("user", text))


# ----------------------------------------------------------------------------------------------------------------------
# The thoughts of a model, where it writes them and its reply into one text.
#
# Families of models have tags of their own, and a template may have written the one that begins. So what stands before
# the last tag that ends thoughts is thought, whatever it looks like: a program among it was weighed, and not chosen. A
# tag that a program holds in a text of its own ends nothing.


_NAME = (
    r"(?:\w{1,20}[:_-]){0,3}(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratch_?pad|monologue|"
    r"deliberation|rationale|cot)(?:[_-]\w{1,20})?"
)
_ENDS = (
    rf"<\|?\s?/\s?{_NAME}\s?\|?>|\[\s?/\s?{_NAME}\s?\]|◁\s?/\s?{_NAME}\s?▷",
    rf"<\|?end(?:_of)?_{_NAME}\|?>|<\|{_NAME}_end\|>",  # Cohere, OpenThinker
    r"<\|channel\|>final(?:\s[^<\n]{0,80})?<\|message\|>|assistantfinal|<channel\|>",  # gpt-oss, Gemma
    r"<\|im_start\|>(?:assistant|answer)\b|\[BEGIN FINAL RESPONSE\]|<\|inner_suffix\|>",  # HyperCLOVA, Apriel, Apertus
    r"<unused95>|<ctrl95>|\[unused17\]",
)
_BEGINS = (
    rf"<\|?{_NAME}(?:\s[^<>\n]{{0,80}})?\|?>|\[THINK(?:ING)?\]|◁{_NAME}▷|<\|channel>thought\b",
    r"<\|channel\|>(?:analysis|commentary)\b|<\|inner_prefix\|>|<unused94>|<ctrl94>|\[unused16\]",
)
_TAG = re.compile(rf"(?P<ends>{'|'.join(_ENDS)})|{'|'.join(_BEGINS)}", re.IGNORECASE)
_FENCE = re.compile("`{3,}|~{3,}")
_QUOTES = ("'", '"', "`")
_MARGIN = 80  # characters in which a line ends, or is taken to go on


def split_reasoning(text: str) -> tuple[str, str]:
    """Return a text's reasoning, and the reply after it."""
    begin, end = reply_span(text)
    return _TAG.sub("", text[:begin] + text[end:]).strip(), text[begin:end]


def reply_span(text: str) -> tuple[int, int]:
    """Return where in a text the reply begins and ends."""
    tags = [tag for tag in _TAG.finditer(text) if not _is_quoted(text, tag)]
    tags = [*_outside(_programs(text), tags)] if tags else tags
    first_line = text.find("\n", len(text) - len(text.lstrip()))
    ends = (at for at in reversed(range(len(tags))) if tags[at]["ends"])
    last = next((at for at in ends if not _is_mention(text, tags, at, first_line)), -1)
    begin = 0
    if last >= 0:
        begin = tags[last].end()
        begin += len(text) - begin - len(text[begin:].lstrip())
    begun = (tag.start() for tag in tags[last + 1 :] if not tag["ends"] and _is_at_edge(text, tag))
    return begin, max(begin, next(begun, len(text)))  # one that nothing ends was cut off


def _is_quoted(text: str, tag: re.Match[str]) -> bool:
    around = text[max(0, tag.start() - 2) : tag.start()], text[tag.end() : tag.end() + 1]
    return around[0][-1:] == around[1] in _QUOTES and around[0] != "``"  # which ends a block


def _is_mention(text: str, tags: list[re.Match[str]], at: int, first_line: int) -> bool:
    """Return whether words only speak of tags: one that begins thoughts stands before it in the first line, which ends
    there, or never."""
    if at == 0 or tags[at - 1]["ends"] or _is_at_edge(text, tags[at - 1]):
        return False
    return first_line < 0 or tags[at].start() < first_line or text[first_line : tags[at].start()].isspace()


def _is_at_edge(text: str, tag: re.Match[str]) -> bool:
    """Return whether a tag begins or ends its line."""
    before = text[max(0, tag.start() - _MARGIN) : tag.start()].rpartition("\n")[2]
    return not (before.strip() and text[tag.end() : tag.end() + _MARGIN].partition("\n")[0].strip())


def _outside(programs: Iterable[tuple[int, int]], tags: Iterable[re.Match[str]]) -> Iterator[re.Match[str]]:
    own = [*programs]
    for tag in tags:
        at = bisect(own, (tag.start(), len(tag.string))) - 1
        if at < 0 or tag.start() >= own[at][1]:
            yield tag


def _programs(text: str) -> Iterator[tuple[int, int]]:
    """Yield where programs begin and end that have tags in them: all of a text, or its blocks."""
    if _is_program(text):
        yield 0, len(text)
        return
    begin, at, marker = 0, 0, ""
    for line in text.split("\n"):
        word, after = line.strip(), at + len(line) + 1
        if marker and word == marker:
            marker = ""
            if _is_program(text[begin:at]):
                yield begin, at
        elif not marker and (fence := _FENCE.match(word)):
            marker, begin = fence[0], after
        at = after


def _is_program(source: str) -> bool:
    """Return whether a text is Python that has tags in its texts; none may end thoughts elsewhere, as in a comment."""
    if _TAG.search(source) is None:
        return False
    source = textwrap.dedent(source).strip()
    try:
        syntax_tree(source)
        tokens = [*tokenize.generate_tokens(io.StringIO(source).readline)]
    except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError, tokenize.TokenError):
        return False
    comments = " ".join(token.string for token in tokens if token.type == tokenize.COMMENT)
    code = "".join(token.string for token in tokens if tokenize.tok_name[token.type] in ("NAME", "OP"))
    return not (_TAG.search(code) or any(tag["ends"] for tag in _TAG.finditer(comments)))
