"""Unicode normal forms in linear time.

Normalising sorts every run of combining marks by exchanging neighbours, which takes the square of the run's length. No
real text has a run of more than 30 (Unicode Standard Annex #15, Stream-Safe Text Format, §13); a longer one is left as
it is, so a text of nothing else costs no more than another.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

MAX_MARKS = 30
"""Combining marks in a row that are put into a normal form."""


def normalized(form: Literal["NFC", "NFKC", "NFD", "NFKD"], text: str) -> str:
    """``text`` in a normal form, but for runs of more than 30 combining marks. Equal texts stay equal."""
    if text.isascii():
        return text
    if len(text) <= MAX_MARKS:
        return unicodedata.normalize(form, text)
    marks = "".join(char for char in sorted(set(text)) if _is_mark(char))
    if not marks:
        return unicodedata.normalize(form, text)
    parts = re.split(f"([{re.escape(marks)}]{{{MAX_MARKS + 1},}})", text)  # every second one is a run
    return "".join(part if at % 2 else unicodedata.normalize(form, part) for at, part in enumerate(parts))


def _is_mark(char: str) -> bool:
    return not char.isascii() and all(map(unicodedata.combining, unicodedata.normalize("NFKD", char)))
