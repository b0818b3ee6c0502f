"""Look for a word or a number in a text, and not for a part of a longer one."""

from __future__ import annotations

MAX_WORD = 200
"""Characters of a word that is looked for so; a longer one may stand within another."""


def has_word(text: str, word: str) -> bool:
    """Return whether a text has a word or number by itself: 16 has no 6. A date may have its time behind it."""
    if not word or len(word) > MAX_WORD:
        return word in text
    is_number = word[0].isdigit()
    at = text.find(word)
    while at >= 0:
        beside = text[at - 1 : at] if at else "", text[at + len(word) : at + len(word) + 1]
        if not any(each.isdigit() if is_number else each.isalnum() or each == "_" for each in beside):
            return True
        at = text.find(word, at + 1)
    return False
