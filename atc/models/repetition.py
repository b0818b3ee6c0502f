"""Repetition: small models may write one piece of text over and over until a limit cuts their reply."""

from __future__ import annotations

TIMES = 6
"""Occurrences in a row of a piece before the reply is cut."""
SHORTEST, LONGEST = 40, 400
"""Characters of such a piece. Data with equal rows may repeat what is shorter."""


RUN, UNIT = 120, 4
"""Characters of a run in which a piece of so few characters is all there is, such as a number that does not end. A
digest or an address of one digit is shorter."""


def repeats_itself(text: str) -> bool:
    """Whether a reply, so far, ends in :data:`TIMES` occurrences of one piece that has words in it.

    A run of digits counts, too. Every repetition of a shorter piece is one of a longer piece too, so what is 20
    characters long counts after twelve.
    """
    for size in range(SHORTEST, min(LONGEST, len(text) // TIMES) + 1):
        piece = text[-size:]
        if piece == text[-2 * size : -size] and text.endswith(piece * TIMES):
            return any(character.isalpha() for character in piece)
    run = text[-RUN:]
    short = any(run[size:] == run[:-size] for size in range(1, UNIT + 1))
    return len(run) == RUN and short and run.isalnum()
