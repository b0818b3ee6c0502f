"""Lexical search: BM25 over weighed fields, in a sparse matrix of ready scores (``bm25s``).

The fields of a tool share one index, where a word counts as often as its field weighs: Robertson, Zaragoza and
Taylor's simple extension of BM25 to weighted fields (CIKM 2004). Saturation then works on the weighed sum, so that a
word in three fields is not three times as good as a word in one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import bm25s
import numpy as np
from numpy.typing import NDArray

from atc.catalogue.index.documents import DocumentFields
from atc.catalogue.index.words import MEASURES, STOP_WORDS, words
from atc.errors import UsageError

# -- counts of words by document ---------------------------------------------------------------------------------------
# Counts of words by document: the lexical index is made from them.

Integers = NDArray[np.int32]
MOST = 10_000_000
"""Words that are counted at most, each once a document: 200 a tool, where ToolBench has 40 and OpenAPI documents 66."""
Pointers = NDArray[np.int64]

WEIGHTS: Mapping[str, int] = {
    "name": 3,
    "service": 2,
    "description": 1,
    "parameters": 1,
    "details": 1,
    "returns": 1,
}
"""Times that a word of a field counts, however often the field has it: repeating a word earns nothing.

Chosen by ``python -m benchmarks.retrieval --method lexical`` (docs/benchmarks/search.md).
"""


@dataclass(frozen=True)
class Counts:
    """A matrix of documents and words, row by row.

    Attributes:
        vocabulary: the words, sorted; every one of them occurs.
        pointers: where each row begins in ``words`` and ``weights``; one more than there are documents.
        words: positions in the vocabulary, ascending in each row.
        weights: of the fields that have the word, together.
    """

    vocabulary: Sequence[str]
    pointers: Pointers
    words: Integers
    weights: Integers

    def __len__(self) -> int:
        return len(self.pointers) - 1

    def take(self, rows: NDArray[np.int64]) -> Counts:
        """Return some of the rows, in that order."""
        taken, begins = entries_of(rows, self.pointers)
        return Counts(self.vocabulary, np.append(begins, len(taken)), self.words[taken], self.weights[taken])


def count(documents: Iterable[DocumentFields]) -> Counts:
    """Count the words of documents.

    Raises:
        UsageError: they have more than :data:`MOST`.
    """
    known: dict[str, int] = {}
    # arrays: as lists of whole numbers they would take ten times the memory
    pointers, found, weights = array("q", [0]), array("i"), array("i")
    for document in documents:
        row: dict[str, int] = {}
        for field, weight in WEIGHTS.items():
            for word in set(words(getattr(document, field))):
                row[word] = row.get(word, 0) + weight
        found.extend(known.setdefault(word, len(known)) for word in row)
        weights.extend(row.values())
        pointers.append(len(found))
        if len(found) > MOST:
            raise UsageError(
                f"an index counts {MOST:,} words at most, each once a tool, and the first {len(pointers) - 1:,} tools "
                "have more: build several indexes, by service or by kind"
            )
    vocabulary = sorted(known)
    place = np.empty(len(vocabulary), np.int32)
    place[[known[word] for word in vocabulary]] = np.arange(len(vocabulary), dtype=np.int32)
    begins = np.array(pointers, np.int64)
    placed = place[np.frombuffer(found, np.int32)]
    order = np.lexsort((placed, np.repeat(np.arange(len(begins) - 1), np.diff(begins))))
    return Counts(vocabulary, begins, placed[order], np.frombuffer(weights, np.int32)[order])


def entries_of(rows: NDArray[np.int64], pointers: Pointers) -> tuple[Pointers, Pointers]:
    """Return where the entries of some rows lie, row by row, and where those of each row begin among them.

    Args:
        rows: in any order.
        pointers: of the matrix.
    """
    lengths = pointers[rows + 1] - pointers[rows]
    begins = np.cumsum(lengths) - lengths
    return np.repeat(pointers[rows] - begins, lengths) + np.arange(int(lengths.sum())), begins


# -- scores ------------------------------------------------------------------------------------------------------------

K1, B = 4.0, 0.75
"""Saturation comes late because a word of a name counts three times; 2.5 and 6 are half a point worse."""

MAX_QUERY_WORDS = 400
"""Different words of a query that are looked up, the first ones; a longer query is no question."""


class LexicalIndex:
    """BM25 scores of documents for queries.

    Args:
        counts: of the documents' words, from which the score of every word in every document is computed.
    """

    def __init__(self, counts: Counts) -> None:
        self._matrix = bm25s.BM25(k1=K1, b=B, method="lucene")
        self._matrix.scores = _scores(counts)
        self._matrix.nonoccurrence_array = None
        self._matrix.vocab_dict = {word: position for position, word in enumerate(counts.vocabulary)}
        self._matrix.unique_token_ids_set = set(range(len(counts.vocabulary)))

    def __len__(self) -> int:
        return int(self._matrix.scores["num_docs"])

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return the score of every document, in their order; 0 where it shares no word with the query."""
        ids = self._matrix.get_tokens_ids(_asked(query))
        if not ids:
            return np.zeros(len(self), np.float32)
        found: NDArray[np.float32] = self._matrix.get_scores_from_ids(sorted(ids))
        return found


def _asked(query: str) -> list[str]:
    """`how long` counts as the nouns that it asks for: no tool for the length of a day says `long`, and others do."""
    written, asked = words(query), list[str]()
    for before, word in zip(["", *written], written, strict=False):
        asked += MEASURES.get(word, [word]) if before == "how" else [word]
    asked = list(dict.fromkeys(asked))
    return ([word for word in asked if word not in STOP_WORDS] or asked)[:MAX_QUERY_WORDS]


def _scores(counts: Counts) -> dict[str, Any]:
    """Lucene's BM25: ``ln(1 + (N - df + ½) / (df + ½)) · tf / (tf + k1 · (1 - b + b · length / mean length))``."""
    documents = len(counts)
    row = np.repeat(np.arange(documents, dtype=np.int32), np.diff(counts.pointers))
    lengths = np.bincount(row, counts.weights, documents)
    norm = K1 * (1 - B + B * lengths / ((lengths.mean() if documents else 0.0) or 1.0))
    having = np.bincount(counts.words, minlength=len(counts.vocabulary))
    rarity = np.log1p((documents - having + 0.5) / (having + 0.5))
    by_word = np.argsort(counts.words, kind="stable")
    indices, weight = row[by_word], counts.weights[by_word].astype(np.float64)
    data = (np.repeat(rarity, having) * weight / (weight + norm[indices])).astype(np.float32)
    columns = np.concatenate([[0], np.cumsum(having)]).astype(np.int64)
    return {"data": data, "indices": indices, "indptr": columns, "num_docs": documents}
