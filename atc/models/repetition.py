"""When a reply goes round in circles: small models may say one piece over and over until their limit cuts them."""

from __future__ import annotations

TIMES = 6
"""So often in a row is a piece said before the reply is cut."""
SHORTEST, LONGEST = 40, 400
"""Characters of such a piece. Data with equal rows may repeat what is shorter."""


def in_circles(text: str) -> bool:
    """Whether a reply, so far, ends in one piece with words in it that is said :data:`TIMES` times in a row.

    Every repetition of a shorter piece is one of a longer piece too, so what is 20 characters long counts after twelve.
    """
    for size in range(SHORTEST, min(LONGEST, len(text) // TIMES) + 1):
        piece = text[-size:]
        if piece == text[-2 * size : -size] and text.endswith(piece * TIMES):
            return any(character.isalpha() for character in piece)
    return False
