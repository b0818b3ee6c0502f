"""Words that are no names, and by which a language is told."""

from __future__ import annotations

import re

from atc.strategies.spelled_in_text import COUNTS

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
MAX_READ = 2_000
"""Characters of a text by which its language is told."""
_ENGLISH = """
a about according after all also although an and any are as at based be because been before between both but by can
cannot could did do does during each every for from had has have having he her here his how however i if in into is it
its let many more most much neither no none nor not of on one only or other our out over per please she should since so
some sorry than that the their them then there these they this those though through to today together tomorrow twice
under unfortunately until up using was we were what when where which while who whose will with within without would yes
yesterday you your
"""
_GERMAN = """
aber als auf bei beträgt das dem den der des die durch ein eine einem einen einer es für gibt hat im ist keine mit nach
nicht oder sie sind über um und uns vom von vor wird wurde zu zum zur
"""
_OTHERS = """
à au aux avec ce cette dans des du elle est et il la le les leur où par pas pour que qui sont sur un une
al con de del el en entre es esta este está hay la las los más no para por se según son su tiene un una y
che con da dei del della di e gli il la nel non per più sono una uno
aan de een en er het heeft in is met naar niet op te van voor zijn
do dos em não o os para que são um uma
"""
ENGLISH = frozenset(_ENGLISH.split())
"""English words that have a capital letter for their place alone."""
OTHERS = frozenset((_GERMAN + _OTHERS).split()) - ENGLISH
"""Words of German, French, Spanish, Italian, Dutch and Portuguese."""
FREE = ENGLISH | COUNTS | frozenset(
    "api celsius dr fahrenheit gmt id ids kelvin mr mrs ms ok okay st true false url urls utc".split()
)  # fmt: skip
"""Words that name nothing, also where they have capital letters."""


def is_english(*texts: str) -> bool | None:
    """Whether the first of these texts that has words to tell it by is English; ``None`` where none has."""
    for text in texts:
        words = [word.casefold() for word in WORD.findall(text[:MAX_READ])]
        ours, others = sum(word in ENGLISH for word in words), sum(word in OTHERS for word in words)
        if ours or others:
            return ours > others
    return None
