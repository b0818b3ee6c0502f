"""Codes of three tools, and what writes examples over them in a vocabulary of bytes."""

from __future__ import annotations

from atc_research.toolweaver.code_tokens import CodeTokens, Frame, Writer

VOCABULARY = {"<|im_start|>": 256, "<|im_end|>": 257}
CODES = {"weather/now": (0, 1), "weather/week": (0, 2), "mail/send": (3, 1)}


def read(text: str) -> list[int]:
    """A tokenizer of bytes: control tokens are never among them."""
    return list(text.encode())


def writer(longest: int = 1_000) -> Writer:
    """What writes examples over the codes."""
    return Writer(read, Frame.of(VOCABULARY, read), CodeTokens(2, 4, 258), longest)
