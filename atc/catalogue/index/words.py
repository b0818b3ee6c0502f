"""Text → the words that an index counts: one tokeniser for documents and queries, for both must meet in the same."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from bm25s.stopwords import STOPWORDS_EN_PLUS

from atc._host.unicode_forms import normalized
from atc.schemas.identifiers import humps, singular

MAX_TEXT = 50_000
"""Characters that are read of one text; a query of ten thousand words fits."""

MAX_WORD = 64
"""Characters that are kept of one word: a key or a picture in base64 is no word, but must not swell the vocabulary."""

_RUN = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f]+)"
)
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese: written without spaces, so pairs of characters stand for words."""


def words(text: str) -> list[str]:
    """Return the words of a text, lower-case, in order, repeated as often as they occur.

    ``camelCase`` and ``snake_case`` are taken apart (a camelCase word is kept whole beside its parts, for ``YouTube``
    is ``youtube`` to others), plurals are made singular, accents dropped. Never fails, whatever the text holds.

    Args:
        text: any text; what lies beyond :data:`MAX_TEXT` characters is not read.
    """
    text = text[:MAX_TEXT]
    if not text.isascii():
        text = _folded(text)
    return [word for run in _RUN.findall(text) for word in _words_of(run[:MAX_WORD])]


def written(text: str, word: str) -> list[str]:
    """Return how a text has a word that :func:`words` gives, in lower case, each time: ``movies`` for ``movy``.

    Accents are kept. Words of scripts whose letters carry marks, or are written unspaced, are not found.
    """
    begins = word[: max(1, len(word) - 1)]  # the normal form changes the end alone
    found: list[str] = []
    text = text[:MAX_TEXT]
    if text.isascii() and begins not in text.casefold():
        return found
    for run in _RUN.findall(text):
        folded = run if run.isascii() else _folded(run)
        if begins not in folded.casefold() or len(run) > MAX_WORD or not _RUN.fullmatch(folded):
            continue
        parts = humps(run, stem=True)
        written_as = parts if len(parts) == 1 else [*parts, run]
        found += (part.casefold() for part in written_as if words(part)[-1:] == [word])
    return found


class _Letters(dict[int, int | None]):
    """Serves :meth:`str.translate`: marks that belong to a letter are dropped and leave no gap, the rest stays."""

    def __missing__(self, code: int) -> int | None:
        self[code] = None if unicodedata.category(chr(code)) in ("Mn", "Mc", "Cf") else code
        return self[code]


_LETTERS = _Letters()


def _folded(text: str) -> str:
    """Return one form for the same letters, without accents and vowel signs; words that stand unspaced set apart."""
    decomposed = normalized("NFKD", text)[: 4 * MAX_TEXT]
    return _UNSPACED.sub(r" \1 ", normalized("NFC", decomposed.translate(_LETTERS)))


@lru_cache(maxsize=200_000)
def _words_of(run: str) -> tuple[str, ...]:
    if not run.isascii() and _UNSPACED.match(run):
        return tuple(run[i : i + 2] for i in range(len(run) - 1)) or (run,)
    parts = humps(run, stem=True)
    if len(parts) == 1:
        return (singular(run.casefold(), stem=True),)
    return tuple(singular(part.casefold(), stem=True) for part in (*parts, run))


# -- words of a query that say nothing ---------------------------------------------------------------------------------
# Words of a query that say nothing about a tool.
#
# They are the longer list of ``bm25s`` and the words with which people ask for things. They
# are dropped from queries alone: an index holds them, and a query of nothing else is answered by them.

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
"""The words that say nothing, in the form that the tokeniser gives them."""

MEASURES = {words(adjective)[0]: words(nouns) for adjective, nouns in _MEASURES.items()}
"""The nouns that `how` with an adjective asks for, in documents' words: they say `length`, and people `how long`."""
