"""Endpoints' errors about a prompt that is too long, in their own words: the limit and what was asked for, as numbers.

Every family of servers has its own sentence for it, and few a code. The sentences are held in one table here, and real
ones in ``tests/test_context_errors.py``. Text from outside is cut first, and every pattern is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST = 4_000  # characters of an error that are read
_NUMBER = r"([\d,]{1,12})"

_CODES = (
    "context_length_exceeded",  # OpenAI and many others
    "exceed_context_size_error",  # llama.cpp
    "model_max_prompt_tokens_exceeded",  # GitHub Copilot
    "model_context_window_exceeded",  # z.ai
    "string_above_max_length",  # OpenAI, for more than ten million characters
    "request_too_large",  # Anthropic, with status 413
)

# LIMIT and ASKED stand for numbers of tokens, REPLY for tokens of the reply that are asked for beside ASKED.
# The first that is found decides: those with more numbers stand before those with fewer.
_SENTENCES = (
    # OpenAI, vLLM, DeepSeek, OpenRouter, LMDeploy, LiteLLM, SGLang
    r"is too large: REPLY\b.{0,80}?maximum context length is LIMIT tokens and your request has ASKED input tokens",
    r"maximum context length (?:is|of) LIMIT tokens.{0,200}?\btotal of (?:at least )?ASKED tokens",
    r"maximum context length (?:is|of) LIMIT tokens.{0,40}?"
    r"(?:requested|resulted in|request has|but)(?: about| over| at least)? ASKED(?: input)? tokens",
    r"input length \(ASKED\) exceeds (?:the )?model'?s maximum context length \(LIMIT\)",
    r"maximum context length (?:is|of) LIMIT",
    r"tokens exceed the configured limit of LIMIT tokens.{0,40}?resulted in ASKED tokens",
    r"prompt \((?:total )?length ASKED\) is .{0,40}?(?:context length|maximum model length of) LIMIT",
    r"input \(ASKED tokens\) is longer than the model'?s context length \(LIMIT tokens\)",
    r"input length \(?ASKED(?: tokens\))? exceeds the maximum allowed (?:input )?length (?:of )?\(?LIMIT tokens",
    # Anthropic, Gemini, xAI, Mistral, GitHub Copilot, Moonshot, DashScope, Bedrock, Baseten
    r"prompt is too long: ASKED tokens > LIMIT maximum",
    r"exceed context limit: ASKED \+ REPLY > LIMIT",
    r"input token count \(ASKED\) exceeds the maximum number of tokens allowed \(?LIMIT",
    r"input token count exceeds the maximum number of tokens allowed \(?LIMIT",
    r"maximum prompt length is LIMIT but the request contains ASKED tokens",
    r"prompt contains ASKED tokens.{0,60}?too large for model with LIMIT maximum context length",
    r"prompt token count of ASKED exceeds the limit of LIMIT",
    r"exceeded model token limit: LIMIT \(requested: ASKED\)",
    r"range of input length should be \[\d{1,9}, ?LIMIT\]",
    r"max input tokens: LIMIT, request input token count: ASKED",
    r"max input length is LIMIT tokens, but you supplied ASKED tokens",
    # llama.cpp, llama-cpp-python, LM Studio, text-generation-inference
    r"request \(ASKED tokens\) exceeds the available context size \(LIMIT tokens\)",
    r"requested tokens \(ASKED\) exceed context window of LIMIT",
    r"keep the first ASKED tokens when context the overflows.{0,80}?context length of only LIMIT tokens",
    r"n_keep: ASKED >= n_ctx: LIMIT",
    r"`?inputs`? tokens \+ `?max_new_tokens`? must be <= LIMIT\. given: ASKED `?inputs`? tokens and REPLY `?max_new",
    r"`?inputs`? must have less than LIMIT tokens\. given: ASKED",
    # Groq and OpenAI: one request above what a minute allows never passes
    r"request too large for .{1,200}? on tokens per min(?:ute)? \(TPM\): limit LIMIT, requested ASKED",
    # without a number
    r"exceeds? (?:the |model'?s? )?(?:context window|available context size)",
    r"context (?:length|window|size) (?:has been |is )?exceeded|context window exceeds limit",
    r"(?:prompt|input) is too long for requested model|prompt too long; exceeded (?:max )?context length",
    r"input length exceeds (?:the |maximum )?context length|initial prompt is greater than the context length",
    r"^prompt is too long|please reduce the length of (?:the messages|either one|your prompt|the input)",
)


def _compiled(sentence: str) -> re.Pattern[str]:
    for name in ("LIMIT", "ASKED", "REPLY"):
        sentence = sentence.replace(name, _NUMBER.replace("(", f"(?P<{name}>", 1))
    return re.compile(sentence, re.IGNORECASE)


_PATTERNS = tuple(_compiled(sentence) for sentence in _SENTENCES)


@dataclass(frozen=True)
class Exceeded:
    """A prompt was too long. ``limit`` and ``requested`` are tokens, ``None`` where the endpoint does not say."""

    limit: int | None = None
    requested: int | None = None


def exceeded(message: str, body: object = None) -> Exceeded | None:
    """The context limit in an error about a prompt that is too long; ``None`` if it is about something else.

    Args:
        message: the error in words.
        body: the error's members, where there are any; a text at some servers.
    """
    members = body if isinstance(body, Mapping) else {}
    inner = members.get("error")
    members = inner if isinstance(inner, Mapping) else members
    texts = [part for part in (message, members.get("message"), body, inner) if isinstance(part, str)]
    found = _sentence(" ".join(" ".join(texts)[:_MOST].split()))
    if found is None and members.get("code") not in _CODES and members.get("type") not in _CODES:
        return None
    found = found or Exceeded()
    limit, requested = _whole(members.get("n_ctx")), _whole(members.get("n_prompt_tokens"))  # llama.cpp
    return Exceeded(limit or found.limit, requested or found.requested)


def _sentence(words: str) -> Exceeded | None:
    for pattern in _PATTERNS:
        if match := pattern.search(words):
            numbers = {name: _whole(text) for name, text in match.groupdict().items()}
            asked, reply = numbers.get("ASKED"), numbers.get("REPLY")
            return Exceeded(numbers.get("LIMIT"), asked + (reply or 0) if asked else None)
    return None


def _whole(value: Any) -> int | None:
    digits = value.replace(",", "") if isinstance(value, str) else str(value)
    return int(digits) or None if digits.isascii() and digits.isdigit() and len(digits) <= 12 else None
