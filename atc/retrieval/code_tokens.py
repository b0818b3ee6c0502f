"""Codes as tokens that a model was taught: ``<T1_5><T2_77>`` is the tool with the codes 5 and 77 (ToolWeaver §3.3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SPELT = re.compile(r"<(T\d{1,3}_\d{1,6})>")


def without_tokens(text: str) -> str:
    """A text for a model that was taught tokens, in which none of them is spelt."""
    return _SPELT.sub(r"‹\1›", text)


def code_token(level: int, code: int) -> str:
    """The token of one code.

    Args:
        level: from 1.
    """
    return f"<T{level}_{code}>"


def token_text(codes: Sequence[int]) -> str:
    """The tokens of a tool, or of a group by its first codes; no text for the whole catalogue."""
    return "".join(code_token(level, int(code)) for level, code in enumerate(codes, 1))


def token_vocabulary(values: NDArray[np.integer[Any]]) -> list[str]:
    """All tokens that tools of these codes have, level by level: what a model is taught as new tokens.

    Args:
        values: codes of shape ``(tools, levels)``.
    """
    return [code_token(level, int(code)) for level, column in enumerate(values.T, 1) for code in np.unique(column)]
