"""Words of a query that say nothing about a tool.

They are the longer list of ``bm25s`` and the words with which people ask for things (docs/benchmarks/search.md).
They are dropped from queries alone: an index holds them, and a query of nothing else is answered by them.
"""

from __future__ import annotations

from bm25s.stopwords import STOPWORDS_EN_PLUS

from atc.retrieval.words import words

_MEASURES = {
    "long": "length duration", "far": "distance", "high": "height elevation", "tall": "height", "deep": "depth",
    "wide": "width", "big": "size area", "large": "size area", "heavy": "weight", "fast": "speed", "old": "age",
    "often": "frequency",
}  # fmt: skip
_ASKING = """
please want need help tell know give like also let looking look provide would could may might must shall us make sure
thank thanks hi hello hey interested kindly
"""

STOP_WORDS = frozenset(words(" ".join([*STOPWORDS_EN_PLUS, _ASKING])))
"""In the form that the tokeniser gives them."""

MEASURES = {words(adjective)[0]: words(nouns) for adjective, nouns in _MEASURES.items()}
"""What `how` with an adjective asks for, in the words of documents: they say `length`, and people `how long`."""
